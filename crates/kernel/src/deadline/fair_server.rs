//! The deadline server that keeps fair tasks from starving under real-time ones
//! (`rq->fair_server`): a reservation of 50 ms in every second, which is deferred as long as fair
//! tasks get that much anyway.
//!
//! Source: `kernel/sched/deadline.c` of Linux 6.12.117.

use super::entity::{BW_SHIFT, before};

/// Run time in every period, ns.
const RUNTIME_NS: u64 = 50_000_000;

/// The period, and the deadline within it, ns.
const PERIOD_NS: u64 = 1_000_000_000;

/// The timer is not put off for less than this, ns (`dl_server_min_res`).
const RESOLUTION_NS: u64 = 1_000_000;

/// Whether the CPU should schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resched {
    /// It should.
    Yes,
    /// It need not.
    No,
}

/// One CPU's server. All times are of the run queue's clock, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairServer {
    active: bool,
    throttled: bool,
    defer_armed: bool,
    defer_running: bool,
    queued: bool,
    runtime_ns: i64,
    deadline_ns: u64,
    timer_ns: Option<u64>,
}

impl FairServer {
    /// Fair tasks run before real-time ones now.
    #[inline]
    pub fn is_queued(&self) -> bool {
        self.queued
    }

    /// The deadline by which it competes with deadline tasks, ns.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// When [`FairServer::expire`] is to be called.
    #[inline]
    pub fn timer_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    /// The first fair task comes (`dl_server_start()`).
    pub fn start(&mut self, now_ns: u64) -> Resched {
        if self.active {
            return Resched::No;
        }
        self.active = true;
        self.update_on_wakeup(now_ns);
        self.enqueue(now_ns);
        Resched::Yes
    }

    /// The server has its turn, but there is no fair task (`dl_server_stop()`).
    pub fn stop(&mut self) {
        self.queued = false;
        self.timer_ns = None;
        self.defer_armed = false;
        self.throttled = false;
        self.active = false;
    }

    /// Fair tasks ran, by the server or by themselves (`update_curr_dl_se()`).
    pub fn account(&mut self, ran_ns: u64, now_ns: u64) -> Resched {
        if !self.active || ran_ns == 0 {
            return Resched::No;
        }
        self.runtime_ns -= ran_ns as i64;
        if self.runtime_ns > 0 {
            return Resched::No;
        }
        if self.throttled {
            // They had their share without it: a new period begins.
            self.defer_running = false;
            self.timer_ns = None;
            self.new_period(now_ns);
            self.start_timer(now_ns);
            return Resched::No;
        }
        self.throttled = true;
        self.queued = false;
        if !self.start_timer(now_ns) {
            self.replenish(now_ns);
            self.enqueue(now_ns);
        }
        Resched::Yes
    }

    /// The CPU idled so long before the first fair task came (`dl_server_update_idle_time()`).
    pub fn account_idle(&mut self, idle_ns: u64) {
        if self.runtime_ns < 0 {
            return;
        }
        self.runtime_ns -= idle_ns as i64;
        if self.runtime_ns < 0 {
            self.defer_running = false;
            self.runtime_ns = 0;
        }
    }

    /// The timer fires (`dl_server_timer()`).
    pub fn expire(&mut self, now_ns: u64) -> Resched {
        self.timer_ns = None;
        if !self.throttled {
            return Resched::No;
        }
        if self.defer_armed {
            let act_ns = self.deadline_ns.wrapping_sub(self.runtime_ns as u64);
            if before(now_ns, act_ns.wrapping_sub(RESOLUTION_NS)) {
                self.timer_ns = Some(act_ns);
                return Resched::No;
            }
            self.defer_running = true;
        }
        self.replenish(now_ns);
        self.enqueue(now_ns);
        Resched::Yes
    }

    /// The end of `enqueue_dl_entity()`.
    fn enqueue(&mut self, now_ns: u64) {
        if self.throttled {
            if self.start_timer(now_ns) {
                return;
            }
            self.timer_ns = None;
            self.defer_armed = false;
            self.throttled = false;
        }
        self.queued = true;
    }

    /// `start_dl_timer()`: `false` if its time has passed.
    fn start_timer(&mut self, now_ns: u64) -> bool {
        let act_ns = if self.defer_armed {
            self.deadline_ns.wrapping_sub(self.runtime_ns as u64)
        } else {
            self.deadline_ns
        };
        if before(act_ns, now_ns) {
            return false;
        }
        self.timer_ns.get_or_insert(act_ns);
        true
    }

    /// `replenish_dl_new_period()`.
    fn new_period(&mut self, now_ns: u64) {
        self.deadline_ns = now_ns.wrapping_add(PERIOD_NS);
        self.runtime_ns = RUNTIME_NS as i64;
        if !self.defer_running {
            self.throttled = true;
            self.defer_armed = true;
        }
    }

    /// `dl_entity_overflow()`: what is left of the run time is more than fits before the deadline.
    fn overflows(&self, now_ns: u64) -> bool {
        let left = (PERIOD_NS >> 10).wrapping_mul((self.runtime_ns >> 10) as u64);
        let right = (self.deadline_ns.wrapping_sub(now_ns) >> 10).wrapping_mul(RUNTIME_NS >> 10);
        before(right, left)
    }

    /// `update_dl_entity()`.
    fn update_on_wakeup(&mut self, now_ns: u64) {
        let late = before(self.deadline_ns, now_ns);
        if late || self.overflows(now_ns) {
            if self.defer_running && !late {
                // The revised rule: as much run time as fits.
                let density = (RUNTIME_NS << BW_SHIFT) / PERIOD_NS;
                let laxity_ns = self.deadline_ns.wrapping_sub(now_ns);
                self.runtime_ns = (density.wrapping_mul(laxity_ns) >> BW_SHIFT) as i64;
                return;
            }
            self.defer_running = false;
            self.new_period(now_ns);
        } else if !self.defer_running {
            self.defer_armed = true;
            self.throttled = true;
        }
    }

    /// `replenish_dl_entity()`.
    fn replenish(&mut self, now_ns: u64) {
        if self.defer_armed && self.overflows(now_ns) {
            self.deadline_ns = now_ns.wrapping_add(PERIOD_NS);
            self.runtime_ns = RUNTIME_NS as i64;
        }
        while self.runtime_ns <= 0 {
            self.deadline_ns = self.deadline_ns.wrapping_add(PERIOD_NS);
            self.runtime_ns += RUNTIME_NS as i64;
        }
        if before(self.deadline_ns, now_ns) {
            self.new_period(now_ns);
        }
        self.throttled = false;
        if std::mem::take(&mut self.defer_armed) {
            return;
        }
        let act_ns = self.deadline_ns.wrapping_sub(self.runtime_ns as u64);
        if !self.defer_running && before(now_ns, act_ns) {
            self.defer_armed = true;
            self.throttled = true;
            if !self.start_timer(now_ns) {
                self.timer_ns = None;
                self.defer_armed = false;
                self.throttled = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn starving_tasks_get_fifty_milliseconds_of_every_second() {
        let mut server = FairServer::default();
        let start_ns = 5_000 * MS;
        assert_eq!(server.start(start_ns), Resched::Yes);
        // It waits until its share just fits before the deadline.
        assert!(!server.is_queued());
        assert_eq!(server.timer_ns(), Some(start_ns + 950 * MS));
        assert_eq!(server.expire(start_ns + 950 * MS), Resched::Yes);
        assert!(server.is_queued());
        assert_eq!(server.account(30 * MS, start_ns + 980 * MS), Resched::No);
        assert_eq!(server.account(20 * MS, start_ns + 1_000 * MS), Resched::Yes);
        // Its turn began a new period. While tasks starve it is not deferred again: the next share
        // comes at the deadline, a second after the first.
        assert!(!server.is_queued());
        assert_eq!(server.timer_ns(), Some(start_ns + 1_950 * MS));
        assert_eq!(server.expire(start_ns + 1_950 * MS), Resched::Yes);
        assert!(server.is_queued());
    }

    #[test]
    fn tasks_that_get_their_share_put_the_server_off() {
        let mut server = FairServer::default();
        let start_ns = 5_000 * MS;
        assert_eq!(server.start(start_ns), Resched::Yes);
        assert_eq!(server.account(50 * MS, start_ns + 400 * MS), Resched::No);
        assert!(!server.is_queued());
        assert_eq!(server.timer_ns(), Some(start_ns + 1_350 * MS));
        // Half a share moves the moment at which the rest just fits.
        assert_eq!(server.account(25 * MS, start_ns + 500 * MS), Resched::No);
        assert_eq!(server.expire(start_ns + 1_350 * MS), Resched::No);
        assert_eq!(server.timer_ns(), Some(start_ns + 1_375 * MS));
    }

    #[test]
    fn a_turn_without_a_fair_task_ends_the_service() {
        let mut server = FairServer::default();
        let _ = server.start(5_000 * MS);
        let _ = server.expire(5_950 * MS);
        assert!(server.is_queued());
        server.stop();
        assert_eq!((server.is_queued(), server.timer_ns()), (false, None));
        assert_eq!(server.account(MS, 6_000 * MS), Resched::No);
    }
}

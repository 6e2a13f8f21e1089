//! What a deadline task reserves, and how its run time is rationed: the constant bandwidth server
//! (CBS).
//!
//! Source: `kernel/sched/deadline.c` and `kernel/sched/syscalls.c` of Linux 6.12.117; Abeni and
//! Buttazzo, *Integrating Multimedia Applications in Hard Real-Time Systems*, RTSS 1998.

/// Fractional bits of a bandwidth (`BW_SHIFT`).
pub const BW_SHIFT: u32 = 20;

/// Times are compared to 2^10 ns, so a reservation is no shorter (`DL_SCALE`).
const DL_SCALE: u32 = 10;

/// The shortest and the longest period, ns (`sysctl_sched_dl_period_min`, `_max`).
pub const PERIOD_NS: (u64, u64) = (100_000, (1 << 22) * 1000);

/// Earlier, though times wrap (`dl_time_before()`).
#[inline]
pub(crate) fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// What `sched_setattr()` is given for `SCHED_DEADLINE`: so much run time in every period, to be
/// had within a deadline from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Reservation {
    /// A reservation; none that the kernel would refuse (`__checkparam_dl()`).
    ///
    /// ```
    /// use schedlab_kernel::deadline::entity::Reservation;
    /// const MS: u64 = 1_000_000;
    /// let reservation = Reservation::new(10 * MS, 30 * MS, 40 * MS).unwrap();
    /// assert_eq!(reservation.bandwidth(), 1 << 18);
    /// assert_eq!(Reservation::new(10 * MS, 5 * MS, 40 * MS), None, "more than fits");
    /// assert_eq!(Reservation::new(10, 30 * MS, 40 * MS), None, "too short");
    /// ```
    pub const fn new(runtime_ns: u64, deadline_ns: u64, period_ns: u64) -> Option<Reservation> {
        let ordered = runtime_ns <= deadline_ns && deadline_ns <= period_ns;
        let within = period_ns >= PERIOD_NS.0 && period_ns <= PERIOD_NS.1;
        if runtime_ns < 1 << DL_SCALE || !ordered || !within {
            return None;
        }
        Some(Reservation { runtime_ns, deadline_ns, period_ns })
    }

    /// Run time per period, with 20 fractional bits (`dl_bw`).
    pub const fn bandwidth(&self) -> u64 {
        (self.runtime_ns << BW_SHIFT) / self.period_ns
    }

    /// Run time per deadline, likewise (`dl_density`).
    pub const fn density(&self) -> u64 {
        (self.runtime_ns << BW_SHIFT) / self.deadline_ns
    }

    /// The deadline is the period's end (`dl_is_implicit()`).
    const fn is_implicit(&self) -> bool {
        self.deadline_ns == self.period_ns
    }
}

/// Of the machine's capacity, what deadline tasks may reserve, with 20 fractional bits: 950 ms of
/// each second, as of real-time tasks (`dl_b->bw`).
pub const RESERVABLE: u64 = (crate::rt::RT_RUNTIME_NS << BW_SHIFT) / crate::rt::RT_PERIOD_NS;

/// Whether reservations of `total_bw` in all fit on CPUs of so much capacity, 1024 for each of the
/// biggest (`__dl_overflow()`).
pub const fn fits(total_bw: u64, capacity: u64) -> bool {
    total_bw <= (RESERVABLE * capacity) >> 10
}

/// Why a task is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It begins to be a deadline task.
    Initial,
    /// It wakes.
    Wakeup,
    /// It comes from another CPU.
    Move,
    /// It gets the run time of its next period.
    Replenish,
}

/// One deadline task (`struct sched_dl_entity`). Times are of the run queue's clock, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct DlEntity {
    reservation: Reservation,
    /// Run time left.
    runtime_ns: i64,
    /// The present deadline.
    deadline_ns: u64,
    /// It used its run time up and waits for the next period.
    throttled: bool,
    /// It gave up what was left.
    yielded: bool,
    /// It is runnable.
    pub on_rq: bool,
    /// It is in the queue of its CPU.
    pub queued: bool,
    /// The timer of its next period is armed.
    pub armed: bool,
    /// When its bandwidth, which sleeps, is free for others, ns (`dl_non_contending`).
    pub zero_lag_ns: Option<u64>,
    /// Its bandwidth counts as used on its CPU.
    pub contending: bool,
}

impl DlEntity {
    /// A task that is on no queue.
    pub fn new(reservation: Reservation) -> DlEntity {
        DlEntity { reservation, ..DlEntity::default() }
    }

    /// False for tasks of other classes.
    #[inline]
    pub fn is_deadline(&self) -> bool {
        self.reservation.runtime_ns > 0
    }

    /// What it reserves.
    pub fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// The present deadline, ns.
    #[inline]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// It waits for the next period.
    #[inline]
    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// Run time left in this period, ns; below 0, what it ran too long.
    pub fn runtime_ns(&self) -> i64 {
        self.runtime_ns
    }

    /// This task's deadline is the earlier one (`dl_entity_preempt()`).
    #[inline]
    pub fn preempts(&self, other: &DlEntity) -> bool {
        before(self.deadline_ns, other.deadline_ns)
    }

    /// When the next period begins, ns (`dl_next_period()`).
    pub fn next_period_ns(&self) -> u64 {
        let Reservation { deadline_ns, period_ns, .. } = self.reservation;
        self.deadline_ns.wrapping_sub(deadline_ns).wrapping_add(period_ns)
    }

    /// A timer at the beginning of the next period would be in time (`start_dl_timer()`, to which
    /// less than a microsecond is no delay).
    fn can_wait(&self, now_ns: u64) -> bool {
        self.next_period_ns().wrapping_sub(now_ns) as i64 > -1_000
    }

    /// Brings run time and deadline up to date (`enqueue_dl_entity()`). `false` if the task stays
    /// out of the queue until its next period.
    pub fn enqueue(&mut self, why: Why, now_ns: u64) -> bool {
        if !self.throttled && !self.reservation.is_implicit() && why != Why::Initial {
            self.check_constrained(now_ns);
        }
        if self.throttled && why != Why::Replenish {
            return false;
        }
        match why {
            Why::Initial => self.new_period(now_ns),
            Why::Wakeup => self.update(now_ns),
            Why::Replenish => self.replenish(now_ns),
            Why::Move => {}
        }
        true
    }

    /// A task that wakes between its deadline and the next period has nothing left in this one
    /// (`dl_check_constrained_dl()`).
    fn check_constrained(&mut self, now_ns: u64) {
        let between = before(self.deadline_ns, now_ns) && before(now_ns, self.next_period_ns());
        if between && self.can_wait(now_ns) {
            self.throttled = true;
            self.runtime_ns = self.runtime_ns.min(0);
        }
    }

    /// `replenish_dl_new_period()`.
    fn new_period(&mut self, now_ns: u64) {
        self.deadline_ns = now_ns.wrapping_add(self.reservation.deadline_ns);
        self.runtime_ns = self.reservation.runtime_ns as i64;
    }

    /// What is left of the run time is more than fits before the deadline
    /// (`dl_entity_overflow()`).
    fn overflows(&self, now_ns: u64) -> bool {
        let Reservation { runtime_ns, deadline_ns, .. } = self.reservation;
        let left = (deadline_ns >> DL_SCALE).wrapping_mul((self.runtime_ns >> DL_SCALE) as u64);
        let right = (self.deadline_ns.wrapping_sub(now_ns) >> DL_SCALE)
            .wrapping_mul(runtime_ns >> DL_SCALE);
        before(right, left)
    }

    /// A task that wakes goes on with its present deadline only if what is left of its run time
    /// fits (`update_dl_entity()`).
    fn update(&mut self, now_ns: u64) {
        let late = before(self.deadline_ns, now_ns);
        if !late && !self.overflows(now_ns) {
            return;
        }
        if !late && !self.reservation.is_implicit() {
            // The revised rule of a constrained deadline: as much run time as fits.
            let laxity_ns = self.deadline_ns.wrapping_sub(now_ns);
            let runtime_ns = self.reservation.density().wrapping_mul(laxity_ns) >> BW_SHIFT;
            self.runtime_ns = runtime_ns as i64;
            return;
        }
        self.new_period(now_ns);
    }

    /// The run time of the next period, less what was used too much (`replenish_dl_entity()`).
    pub fn replenish(&mut self, now_ns: u64) {
        if self.yielded {
            self.runtime_ns = self.runtime_ns.min(0);
        }
        while self.runtime_ns <= 0 {
            self.deadline_ns = self.deadline_ns.wrapping_add(self.reservation.period_ns);
            self.runtime_ns += self.reservation.runtime_ns as i64;
        }
        if before(self.deadline_ns, now_ns) {
            self.new_period(now_ns);
        }
        self.yielded = false;
        self.throttled = false;
    }

    /// The task gives up what is left of its run time (`yield_task_dl()`).
    pub fn give_up(&mut self) {
        self.yielded = true;
    }

    /// It ran for so long, of the biggest CPU at full speed (`update_curr_dl_se()`). What is to be
    /// done if it has no run time left.
    pub fn account(&mut self, ran_ns: u64, now_ns: u64) -> Spent {
        self.runtime_ns -= ran_ns as i64;
        if self.runtime_ns > 0 && !self.yielded {
            return Spent::No;
        }
        self.throttled = true;
        if self.can_wait(now_ns) { Spent::Wait } else { Spent::Replenish }
    }

    /// When a task that goes to sleep now would have used the whole run time at its own rate, from
    /// when on its bandwidth is free; none if that is over (`task_non_contending()`).
    pub fn zero_lag(&self, now_ns: u64) -> Option<u64> {
        let Reservation { runtime_ns, period_ns, .. } = self.reservation;
        let left = i128::from(self.runtime_ns) * i128::from(period_ns) / i128::from(runtime_ns);
        let at_ns = self.deadline_ns.wrapping_sub(left as u64);
        (!before(at_ns, now_ns)).then_some(at_ns)
    }
}

/// Whether a task has run time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// It has.
    No,
    /// It waits for its next period.
    Wait,
    /// It has not, but its next period began already.
    Replenish,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn task(runtime_ms: u64, deadline_ms: u64, period_ms: u64) -> DlEntity {
        let reservation = Reservation::new(runtime_ms * MS, deadline_ms * MS, period_ms * MS);
        DlEntity::new(reservation.expect("a reservation"))
    }

    #[test]
    fn a_task_that_overruns_waits_for_its_next_period() {
        let mut task = task(10, 100, 100);
        assert!(task.enqueue(Why::Initial, 1_000 * MS));
        assert_eq!((task.deadline_ns(), task.runtime_ns()), (1_100 * MS, 10 * MS as i64));
        assert_eq!(task.account(9 * MS, 1_009 * MS), Spent::No);
        assert_eq!(task.account(3 * MS, 1_012 * MS), Spent::Wait);
        assert_eq!(task.next_period_ns(), 1_100 * MS);
        // Woken meanwhile, it still waits.
        assert!(!task.enqueue(Why::Wakeup, 1_050 * MS));
        assert!(task.enqueue(Why::Replenish, 1_100 * MS));
        // The 2 ms that it ran too long are paid off.
        assert_eq!((task.deadline_ns(), task.runtime_ns()), (1_200 * MS, 8 * MS as i64));
    }

    #[test]
    fn a_task_that_wakes_keeps_its_deadline_only_if_what_is_left_fits() {
        let mut task = task(10, 100, 100);
        assert!(task.enqueue(Why::Initial, 0));
        assert_eq!(task.account(5 * MS, 5 * MS), Spent::No);
        // 5 ms are left; at its own rate of a tenth they take 50 ms.
        assert_eq!(task.zero_lag(5 * MS), Some(50 * MS));
        let mut in_time = task;
        assert!(in_time.enqueue(Why::Wakeup, 49 * MS));
        assert_eq!((in_time.deadline_ns(), in_time.runtime_ns()), (100 * MS, 5 * MS as i64));
        let mut late = task;
        assert!(late.enqueue(Why::Wakeup, 52 * MS));
        assert_eq!((late.deadline_ns(), late.runtime_ns()), (152 * MS, 10 * MS as i64));
        assert_eq!(task.zero_lag(51 * MS), None);
    }

    #[test]
    fn a_constrained_deadline_gets_no_more_than_its_density() {
        let mut task = task(10, 20, 100);
        assert!(task.enqueue(Why::Initial, 0));
        assert_eq!(task.account(MS, MS), Spent::No);
        // 9 ms are left, of which half of the 6 ms before the deadline fit.
        let mut soon = task;
        assert!(soon.enqueue(Why::Wakeup, 14 * MS));
        assert_eq!((soon.deadline_ns(), soon.runtime_ns()), (20 * MS, 3 * MS as i64));
        // After its deadline it waits for the next period.
        assert!(!task.enqueue(Why::Wakeup, 50 * MS));
        assert!(task.is_throttled() && task.next_period_ns() == 100 * MS);
        assert!(task.enqueue(Why::Replenish, 100 * MS));
        assert_eq!((task.deadline_ns(), task.runtime_ns()), (120 * MS, 10 * MS as i64));
    }

    #[test]
    fn who_yields_gives_the_rest_of_its_period_away() {
        let mut task = task(10, 100, 100);
        assert!(task.enqueue(Why::Initial, 0));
        task.give_up();
        assert_eq!(task.account(0, 2 * MS), Spent::Wait);
        assert!(task.enqueue(Why::Replenish, 100 * MS));
        assert_eq!((task.deadline_ns(), task.runtime_ns()), (200 * MS, 10 * MS as i64));
    }

    #[test]
    fn ninety_five_percent_of_the_capacity_can_be_reserved() {
        let half = (1 << BW_SHIFT) / 2;
        assert!(fits(half, 1024) && !fits(2 * half, 1024));
        assert!(fits(3 * half, 2 * 1024) && !fits(4 * half, 2 * 1024));
    }
}

//! One simulated CPU: what it does, how far it has come, and what happens to it next.

use crate::devices::{Arrivals, Requests};
use crate::idle_counts::Sleeps;
use crate::queue::NEVER;
use crate::share::CoreShare;
use crate::timer_queue::TimerQueue;
use schedlab_kernel::cpuidle::{AnyGovernor, State};
use schedlab_machine::CpuId;
use schedlab_trace::Pid;
use std::sync::Arc;

/// Full speed: work done per nanosecond by the biggest CPU alone on its core.
pub const FULL_SPEED: u64 = 1024 * 1000;

/// What an interrupt of another CPU is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipi {
    /// To look at its run queue: a wake-up, work for the stopper thread.
    Reschedule = 1,
    /// To balance for idle CPUs.
    Kick = 2,
    /// What its own timer would have been, which sleeps.
    Timer = 4,
}

/// Beside the kinds of interrupts: a flag tells the CPU, which polls.
pub const POLLED: u8 = 8;

/// What a CPU is doing between its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A task computes.
    Computing {
        /// From when on, ns.
        since_ns: u64,
        /// Units of work left, [`FULL_SPEED`] per ns.
        work_left: u64,
        /// Wall time left instead of work, if the task holds the CPU for a time.
        wall: bool,
    },
    /// Asleep.
    Idle {
        /// Since, ns.
        since_ns: u64,
        /// In this state.
        state: u32,
    },
    /// In the kernel; only while an event is handled.
    Kernel,
}

/// One CPU. What every event needs comes first, so that it is in few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Cpu {
    /// What it does.
    pub doing: Doing,
    /// Until when kernel paths keep it busy, ns.
    pub busy_until_ns: u64,
    /// When the computation ends, ns.
    pub done_ns: u64,
    /// The next tick, ns.
    pub tick_ns: u64,
    /// When an interrupt of another CPU arrives, ns.
    pub ipi_ns: u64,
    /// When the broadcast timer interrupts this CPU, ns.
    pub broadcast_ns: u64,
    /// When the first of `arrivals` comes, or it is held up no more, ns.
    pub device_ns: u64,
    /// Sleepers.
    pub timers: TimerQueue,
    /// Work per ns.
    pub share: CoreShare,
    /// The most that memory allows of it, while a task goes through a block.
    pub pace: u64,
    /// What its running task has computed since that was last asked, ns.
    pub computed_ns: u64,
    /// Of its busy time, in interrupts and softirqs, ns.
    pub irq_ns: u64,
    /// When it last became busy, ns; `None` while it idles.
    pub busy_since_ns: Option<u64>,
    /// Busy time, ns.
    pub busy_ns: u64,
    /// Operations in a row that took its tasks no time.
    pub steps_without_time: u32,
    /// What it runs, as events name it.
    pub running: Pid,
    /// The computation was planned before other CPUs had their turns.
    pub ahead: bool,
    /// The last sleep ended by a tick.
    pub got_tick: bool,
    /// It sleeps, and its timer with it.
    pub timer_stopped: bool,
    /// What the interrupt of another CPU is for: bits of [`Ipi`] and [`POLLED`].
    pub ipi_kinds: u8,
    /// The idle state that it was in last.
    pub last_state: u32,
    /// When it began to leave that, ns.
    pub woke_ns: u64,
    /// The other threads of its core.
    pub siblings: Box<[CpuId]>,
    /// Its idle states as the governor sees them, which CPUs of one kind share.
    pub states: Arc<[State]>,
    /// Its sleeps in each.
    pub sleeps: Vec<Sleeps>,
    /// The longest exit latency that its idle state may have, ns.
    pub latency_req_ns: i64,
    /// How long it polls, unless its governor says, ns.
    pub poll_limit_ns: u64,
    /// Its idle governor.
    pub governor: AnyGovernor,
    /// Requests to devices whose interrupts come here, by when they are done.
    pub requests: Requests,
    /// Idle time while tasks that ran here last waited for I/O, ns.
    pub iowait_ns: u64,
    /// Of the interrupts, in softirqs, ns.
    pub softirq_ns: u64,
    /// Ticks handled.
    pub ticks: u64,
    /// Of these, while it idled.
    pub idle_ticks: u64,
    /// Interrupts from other CPUs handled.
    pub ipis: u64,
    /// By what they were for, in the order of [`Ipi`].
    pub ipis_for: [u64; 3],
    /// Interrupts of the broadcast timer handled.
    pub broadcasts: u64,
    /// Until when its host holds it up, so that it does not schedule, ns.
    pub held_until_ns: u64,
    /// Since when it waits for that, ns.
    pub held_since_ns: u64,
    /// Until when while an urgent task waits, ns.
    pub held_urgent_until_ns: u64,
    /// Interrupts of devices that are yet to come.
    pub arrivals: Arrivals,
    /// What its interrupts are to add to semaphores at their ends.
    pub brought: Requests,
}

impl Cpu {
    /// When its first interrupt comes, if it executes, ns.
    #[inline]
    pub fn interrupt_ns(&self) -> u64 {
        let own_ns = self.tick_ns.min(self.timers.next_ns());
        self.ipi_ns.min(own_ns).min(self.broadcast_ns).min(self.device_ns)
    }

    /// When its next event is, ns.
    #[inline]
    pub fn next_event_ns(&self) -> u64 {
        let mut next_ns = self.done_ns.min(self.ipi_ns).min(self.broadcast_ns).min(self.device_ns);
        if !self.timer_stopped {
            next_ns = next_ns.min(self.tick_ns).min(self.timers.next_ns());
        }
        // Interrupts wait while a kernel path runs.
        if next_ns == NEVER { NEVER } else { next_ns.max(self.busy_until_ns) }
    }

    /// Brings the remaining work to `now_ns`, if it computes.
    #[inline]
    pub fn progress(&mut self, now_ns: u64) {
        if let Doing::Computing { since_ns, .. } = self.doing
            && now_ns > since_ns
        {
            if self.share.changes(now_ns) {
                self.progress_through_changes(now_ns);
            }
            self.advance(self.share.speed(), now_ns);
            self.ahead = false;
        }
    }

    /// Brings the remaining work to the last change of its siblings until `now_ns`.
    #[inline(never)]
    fn progress_through_changes(&mut self, now_ns: u64) {
        while let Some((speed, until_ns)) = self.share.next(now_ns) {
            self.advance(speed, until_ns);
        }
    }

    #[inline]
    fn advance(&mut self, speed: u64, until_ns: u64) {
        if let Doing::Computing { since_ns, work_left, wall } = &mut self.doing {
            let passed_ns = until_ns.saturating_sub(*since_ns);
            let rate = if *wall { FULL_SPEED } else { speed.min(self.pace) };
            *work_left = work_left.saturating_sub(passed_ns.saturating_mul(rate));
            self.computed_ns += passed_ns;
            *since_ns += passed_ns;
        }
    }

    /// When the present computation will be done.
    #[inline]
    pub fn plan_end(&mut self) {
        if let Doing::Computing { since_ns, work_left, wall } = self.doing {
            self.done_ns = match wall {
                true => since_ns.saturating_add(work_left.div_ceil(FULL_SPEED)),
                false => self.share.end_ns(since_ns, work_left, self.pace),
            };
        }
    }

    /// It goes on with what it does in the kernel at `at_ns`, as an event of its own.
    #[inline]
    pub fn come_back(&mut self, at_ns: u64) {
        self.doing = Doing::Kernel;
        self.done_ns = at_ns;
    }
}

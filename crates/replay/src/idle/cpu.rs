//! The idle loop of one CPU, followed through its events.
//!
//! What the kernel does (6.12, `do_idle()` in `kernel/sched/idle.c`), and where events fall:
//!
//! ```text
//! sched_switch to swapper
//!   tick_nohz_idle_enter()                      idle_entrytime = now
//!   while nothing to run:
//!     select()                                  may ask for the sleep length, from idle_entrytime
//!     tick_nohz_idle_stop_tick()                tick_stop, hrtimer_start of the tick's timer
//!     cpu_idle state=N;  start = local_clock()
//!       ... asleep; an interrupt: hrtimer_expire_entry, softirq_*, sched_waking ...
//!       tick_irq_exit()                         idle_entrytime = now, unless a task is to run
//!     end = local_clock();  cpu_idle state=-1;  last_residency_ns = end - start
//!     cpu_idle_miss
//!     reflect()                                 asks whether the tick fired
//!   tick_nohz_idle_exit()                       hrtimer_cancel, hrtimer_start of the tick's timer
//! sched_switch from swapper
//! ```
//!
//! An event's timestamp is taken when its recording begins, so what the kernel reads right after
//! an event is later by the cost of recording it.

use schedlab_machine::CpuId;

use super::period::{Estimated, Period, Wake};
use super::timers::Pending;

/// What has been seen during a sleep that can end it.
#[derive(Clone, Copy, Debug, Default)]
struct Causes {
    tick: bool,
    timer: bool,
    wheel: bool,
    interrupt: bool,
    remote: bool,
}

/// The facts about timers and the machine that a period starts from; see [`Period`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Surroundings {
    pub pending: Pending,
    pub next_wheel_ns: Option<u64>,
    pub tick_needed: bool,
    pub cpu_util: u64,
    pub nr_iowait: u32,
    pub estimated: Estimated,
}

/// Where a CPU is in its idle loop.
#[derive(Debug, Default)]
pub(super) struct IdleCpu {
    cpu: CpuId,
    periods: u64,
    /// The idle task is current.
    pub idle: bool,
    /// No period of this stretch has ended yet.
    first: bool,
    pub tick_stopped: bool,
    got_tick: bool,
    entry_ns: u64,
    /// Timers as they stood before this entry's governor decision was carried out, and when.
    before_stop: Option<(Pending, u64)>,
    stopped_now: bool,
    asleep: Option<Period>,
    causes: Causes,
    /// Ended, but the tick may still be noticed before `->reflect()`.
    ended: Option<Period>,
}

impl IdleCpu {
    pub fn new(cpu: CpuId) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// Between a `cpu_idle` entry and its exit.
    pub fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// The state that the CPU is in, while it is asleep in one.
    pub fn state_asleep(&self) -> Option<usize> {
        self.asleep.and_then(|period| period.state)
    }

    /// The idle task got the CPU at `now_ns`.
    pub fn switched_in(&mut self, now_ns: u64, event_cost_ns: u64) {
        self.idle = true;
        self.first = true;
        self.entry_ns = now_ns.saturating_add(event_cost_ns);
        self.before_stop = None;
        self.stopped_now = false;
        self.asleep = None;
        self.ended = None;
        self.got_tick = false;
    }

    /// A task got the CPU. Returns the period that this ends.
    pub fn switched_out(&mut self) -> Option<Period> {
        self.idle = false;
        self.tick_stopped = false;
        self.before_stop = None;
        self.stopped_now = false;
        self.asleep = None;
        let mut ended = self.ended.take()?;
        ended.last = true;
        Some(self.reflected(ended))
    }

    /// The governor was asked and the tick stopped, but a task came before any state was entered.
    pub fn aborted(&self) -> bool {
        self.idle && self.stopped_now && self.asleep.is_none() && self.ended.is_none()
    }

    /// Events of this CPU were lost.
    pub fn forget(&mut self) {
        *self = Self { cpu: self.cpu, periods: self.periods, ..Self::default() };
    }

    /// The kernel is about to change the tick's timer after the governor's decision.
    pub fn before_stop(&mut self, now_ns: u64, pending: Pending) {
        if self.idle && self.asleep.is_none() {
            self.before_stop.get_or_insert((pending, now_ns));
        }
    }

    /// `tick_stop` with success.
    pub fn tick_stopped(&mut self) {
        self.stopped_now = !self.tick_stopped;
        self.tick_stopped = true;
    }

    /// An interrupt's event outside the sleep: the CPU counts as idle from its end on.
    pub fn interrupted(&mut self, now_ns: u64, event_cost_ns: u64) {
        if self.idle && self.asleep.is_none() {
            self.entry_ns = now_ns.saturating_add(event_cost_ns);
        }
    }

    pub fn saw_tick(&mut self) {
        self.causes.tick = true;
        self.got_tick |= self.idle;
    }

    pub fn saw_timer(&mut self) {
        self.causes.timer = true;
    }

    /// The tick found a timer-wheel timer to run.
    pub fn saw_wheel(&mut self) {
        self.causes.wheel = true;
    }

    pub fn saw_interrupt(&mut self) {
        self.causes.interrupt = true;
    }

    pub fn saw_remote(&mut self) {
        self.causes.remote = true;
    }

    /// `cpu_idle_miss`.
    pub fn missed(&mut self, now_ns: u64, below: bool, event_cost_ns: u64) {
        if let Some(ended) = &mut self.ended {
            ended.traced_miss_below = Some(below);
            ended.reflect_ns = now_ns.saturating_add(event_cost_ns);
        }
    }

    /// Whether the tick was running when the governor was asked.
    pub fn tick_was_stopped(&self) -> bool {
        self.tick_stopped && !self.stopped_now
    }

    /// When the CPU counts as idle.
    pub fn entry_ns(&self) -> u64 {
        self.entry_ns
    }

    /// The timers as the governor saw them, given those of now.
    pub fn pending_at_select(&self, now: Pending) -> Pending {
        self.before_stop.map_or(now, |(pending, _)| pending)
    }

    /// A state is entered. Returns the period that this proves ended.
    pub fn enter(
        &mut self,
        now_ns: u64,
        state: Option<usize>,
        around: &Surroundings,
        event_cost_ns: u64,
    ) -> Option<Period> {
        let ended = self.ended.take().map(|ended| self.reflected(ended));
        let acted_ns = self.before_stop.map_or(now_ns, |(_, at_ns)| at_ns);
        let select_ns = acted_ns.saturating_sub(event_cost_ns);
        if !self.idle {
            // The trace begins here.
            self.idle = true;
            self.entry_ns = select_ns;
        }
        self.asleep = Some(Period {
            cpu: self.cpu,
            ordinal: self.periods,
            entry_ns: self.entry_ns.min(acted_ns),
            select_ns,
            enter_ns: now_ns,
            exit_ns: now_ns,
            reflect_ns: now_ns,
            residency_ns: 0,
            state,
            aborted: false,
            first: self.first,
            last: false,
            tick_was_stopped: self.tick_was_stopped(),
            tick_stopped_now: self.stopped_now,
            got_tick: false,
            next_tick_ns: around.pending.tick_ns,
            next_hrtimer_ns: around.pending.hrtimer_ns,
            next_wheel_ns: around.next_wheel_ns,
            tick_needed: around.tick_needed,
            wake: Wake::Unknown,
            cpu_util: around.cpu_util,
            nr_iowait: around.nr_iowait,
            estimated: around.estimated,
            traced_miss_below: None,
        });
        self.periods += 1;
        self.first = false;
        self.before_stop = None;
        self.stopped_now = false;
        self.causes = Causes::default();
        ended
    }

    /// The governor's answer came to nothing; see [`IdleCpu::aborted`].
    pub fn abort(
        &mut self,
        now_ns: u64,
        around: &Surroundings,
        event_cost_ns: u64,
    ) -> Option<Period> {
        self.enter(now_ns, None, around, event_cost_ns);
        let period = self.asleep.take()?;
        Some(Period { aborted: true, last: true, ..period })
    }

    /// The state is left. `poll_limit_ns` is given if it polls.
    pub fn exit(&mut self, now_ns: u64, event_cost_ns: u64, poll_limit_ns: Option<u64>) {
        let Some(mut period) = self.asleep.take() else { return };
        let slept_ns = now_ns.saturating_sub(period.enter_ns).saturating_sub(event_cost_ns);
        period.exit_ns = now_ns;
        period.reflect_ns = now_ns.saturating_add(event_cost_ns);
        period.residency_ns = i64::try_from(slept_ns).unwrap_or(i64::MAX);
        period.wake = self.causes.wake(poll_limit_ns.is_some_and(|limit| slept_ns > limit));
        // The interrupt that ended the sleep ended just before the exit.
        self.entry_ns = now_ns;
        self.ended = Some(period);
    }

    /// The governor's `->reflect()`: whether the tick fired is asked, and thereby cleared.
    fn reflected(&mut self, mut period: Period) -> Period {
        period.got_tick = std::mem::take(&mut self.got_tick);
        if period.wake == Wake::Unknown {
            period.wake = self.causes.wake(false);
        }
        period
    }
}

impl Causes {
    fn wake(self, poll_limit_reached: bool) -> Wake {
        if self.timer || self.wheel {
            Wake::Timer
        } else if self.interrupt {
            Wake::Interrupt
        } else if self.remote {
            Wake::Remote
        } else if poll_limit_reached {
            Wake::PollLimit
        } else if self.tick {
            Wake::Tick
        } else {
            Wake::Unknown
        }
    }
}

//! One idle period as the kernel lived it, with everything a governor could ask at its start.

use schedlab_kernel::cpuidle::SleepLength;
use schedlab_machine::CpuId;

/// `KTIME_MAX`: a timer that never comes, ns.
const KTIME_MAX: i64 = i64::MAX;

/// What ended an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wake {
    /// The tick alone: without it the CPU would have slept on.
    Tick,
    /// A timer of this CPU other than the tick, or the tick when a timer-wheel timer was due.
    Timer,
    /// Another CPU: a wake-up, an inter-processor interrupt, or a flag a polling CPU watches.
    Remote,
    /// A device interrupt.
    Interrupt,
    /// The polling state's time limit.
    PollLimit,
    /// The trace does not tell.
    Unknown,
}

impl Wake {
    /// All, in the order in which tables list them.
    pub const ALL: [Self; 6] =
        [Self::Tick, Self::Timer, Self::Remote, Self::Interrupt, Self::PollLimit, Self::Unknown];

    /// The lower-case word that tables print.
    pub const fn name(self) -> &'static str {
        match self {
            Wake::Tick => "tick",
            Wake::Timer => "timer",
            Wake::Remote => "remote",
            Wake::Interrupt => "interrupt",
            Wake::PollLimit => "poll_limit",
            Wake::Unknown => "unknown",
        }
    }
}

/// Which inputs of a period were estimated rather than read from the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimated {
    /// The next timer: the trace has no timer events, or those before its start matter here.
    pub timer: bool,
    /// Whether the tick could have stopped and which timer-wheel timer came next; nothing tells
    /// while the tick runs, and here the sleep length depends on it.
    pub wheel: bool,
    /// Whether the tick ran: the trace has no tick events.
    pub tick: bool,
    /// The period's bounds: the trace has no `cpu_idle` events.
    pub bounds: bool,
}

impl Estimated {
    /// True if any input was estimated.
    pub fn any(self) -> bool {
        self.timer || self.wheel || self.tick || self.bounds
    }
}

/// One idle period of a CPU. Times are ns of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Whose.
    pub cpu: CpuId,
    /// Its number on that CPU, from 0.
    pub ordinal: u64,
    /// `ts->idle_entrytime`: when the CPU became idle or its last interrupt ended. Sleep lengths
    /// count from here.
    pub entry_ns: u64,
    /// When the governor was asked: before the first event that carries out its decision.
    pub select_ns: u64,
    /// When the state was entered (`cpu_idle`).
    pub enter_ns: u64,
    /// When it was left (`cpu_idle` with state -1).
    pub exit_ns: u64,
    /// When the governor looked back (`->reflect()`): after the last event of the exit.
    pub reflect_ns: u64,
    /// `dev->last_residency_ns`: time in the state as cpuidle measured it.
    pub residency_ns: i64,
    /// The state that was entered, or `None` where the trace has no `cpu_idle` events.
    pub state: Option<usize>,
    /// The governor was asked, but the CPU had work before the state was entered.
    pub aborted: bool,
    /// The first period after a task.
    pub first: bool,
    /// A task ran after it.
    pub last: bool,
    /// The tick was already stopped when the governor was asked.
    pub tick_was_stopped: bool,
    /// The tick was stopped on the way into the state.
    pub tick_stopped_now: bool,
    /// The tick fired between the entry and the governor's `->reflect()`.
    pub got_tick: bool,
    /// The next tick while it runs.
    pub next_tick_ns: Option<u64>,
    /// The next high-resolution timer other than the tick.
    pub next_hrtimer_ns: Option<u64>,
    /// The next timer-wheel timer.
    pub next_wheel_ns: Option<u64>,
    /// Something needed the tick (RCU callbacks, a timer-wheel timer within a tick), so that it
    /// could not stop.
    pub tick_needed: bool,
    /// What ended it.
    pub wake: Wake,
    /// `sched_cpu_util()` at the start.
    pub cpu_util: u64,
    /// `nr_iowait_cpu()` at the start.
    pub nr_iowait: u32,
    /// What of this was estimated.
    pub estimated: Estimated,
    /// The trace's own `cpu_idle_miss`: `Some(true)` for too shallow.
    pub traced_miss_below: Option<bool>,
}

impl Period {
    /// `tick_nohz_get_sleep_length()` at the time `from_ns`, if the tick is stopped or not and
    /// next fires at `next_tick_ns`.
    pub fn sleep_length(
        &self,
        from_ns: u64,
        tick_stopped: bool,
        next_tick_ns: Option<u64>,
        tick_needed: bool,
    ) -> SleepLength {
        let until = |time: Option<u64>| match time {
            Some(time) => (time as i64).saturating_sub(from_ns as i64),
            None => KTIME_MAX,
        };
        let hrtimer = until(self.next_hrtimer_ns);
        let wheel = until(self.next_wheel_ns);
        if tick_stopped {
            // The tick's own timer stands for the wheel.
            let next = hrtimer.min(wheel);
            return SleepLength { sleep_ns: next, delta_next_ns: next };
        }
        let delta_next_ns = hrtimer.min(until(next_tick_ns));
        let sleep_ns = if tick_needed { delta_next_ns } else { hrtimer.min(wheel) };
        SleepLength { sleep_ns, delta_next_ns }
    }

    /// The sleep length as the traced kernel saw it.
    pub fn traced_sleep_length(&self) -> SleepLength {
        self.sleep_length(self.entry_ns, self.tick_was_stopped, self.next_tick_ns, self.tick_needed)
    }
}

//! A governor that lives the traced CPU's life: at each period it decides from what the kernel
//! saw, and then learns what really happened. If it is the traced governor, it must decide as
//! traced.

use schedlab_kernel::cpuidle::{
    AnyGovernor, Choice, Governor, IdleHardware, LATENCY_UNLIMITED_NS, Ladder, SleepLength, State,
};

use super::period::{Period, Wake};

/// The traced kernel, as a governor asks it.
struct Traced<'a> {
    period: &'a Period,
    now_ns: u64,
    tick_needed: bool,
}

impl IdleHardware for Traced<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn sleep_length(&mut self) -> SleepLength {
        let period = self.period;
        period.sleep_length(
            period.entry_ns,
            period.tick_was_stopped,
            period.next_tick_ns,
            self.tick_needed,
        )
    }

    fn latency_req_ns(&self) -> i64 {
        LATENCY_UNLIMITED_NS
    }

    fn tick_stopped(&self) -> bool {
        self.period.tick_was_stopped
    }

    fn got_tick(&self) -> bool {
        self.period.got_tick
    }

    fn nr_iowait(&self) -> u32 {
        self.period.nr_iowait
    }

    fn cpu_util(&self) -> u64 {
        self.period.cpu_util
    }

    fn poll_time_limit(&self) -> bool {
        self.period.wake == Wake::PollLimit
    }
}

/// What a following governor decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub choice: Choice,
    /// The sleep length that it was told, or would have been.
    pub sleep: SleepLength,
    /// The sleep length had to be inferred from the tick, which went on although the governor
    /// would have stopped it.
    pub inferred: bool,
}

/// One governor following one CPU.
#[derive(Debug)]
pub(super) struct Follower {
    governor: AnyGovernor,
}

impl Follower {
    pub fn new(governor: AnyGovernor) -> Self {
        Self { governor }
    }

    pub fn governor(&self) -> &AnyGovernor {
        &self.governor
    }

    /// The governor's decision at the start of `period`. `tick_events` says whether the trace
    /// shows when the tick stops.
    pub fn decide(&mut self, states: &[State], period: &Period, tick_events: bool) -> Followed {
        let mut traced =
            Traced { period, now_ns: period.select_ns, tick_needed: period.tick_needed };
        let tick_went_on = !period.tick_was_stopped && !period.tick_stopped_now;
        let surprising = tick_went_on && tick_events && !period.tick_needed;
        let before = surprising.then(|| self.governor.checkpoint());
        let mut choice = self.governor.select(states, &mut traced);

        // The governor lets the tick stop and yet it went on: something needed it
        // (`tick_nohz_next_event()` was 0), which the kernel had told the governor as well.
        let inferred = choice.stop_tick && surprising;
        if let Some(before) = before.filter(|_| inferred) {
            self.governor.return_to(before);
            traced.tick_needed = true;
            choice = self.governor.select(states, &mut traced);
        }
        Followed { choice, sleep: traced.sleep_length(), inferred }
    }

    /// Teaches the governor what really happened.
    pub fn learn(&mut self, states: &[State], period: &Period, choice: Choice) {
        if period.aborted {
            self.governor.reject();
            return;
        }
        let Some(state) = period.state else {
            return self.learn_from(states, period, choice.index);
        };
        if state != choice.index
            && let AnyGovernor::Ladder(ladder) = &mut self.governor
        {
            // The counters of the traced ladder stood elsewhere, as they had begun before the
            // trace. A ladder that changes its state starts all its counters over.
            *ladder = Ladder::new();
            ladder.enable(states);
        }
        self.learn_from(states, period, state);
    }

    fn learn_from(&mut self, states: &[State], period: &Period, state: usize) {
        let mut traced =
            Traced { period, now_ns: period.reflect_ns, tick_needed: period.tick_needed };
        self.governor.reflect(states, state, period.residency_ns, &mut traced);
    }
}

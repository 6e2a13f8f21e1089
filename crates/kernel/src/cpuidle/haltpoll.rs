//! The `haltpoll` governor (`drivers/cpuidle/governors/haltpoll.c`), for virtual machines.
//!
//! Halting a virtual CPU means leaving it to the host, which is slow to come back; so the guest
//! polls first, for a time that grows while wake-ups come soon after a halt and shrinks while
//! they do not. State 0 polls, state 1 halts. In 6.12, unlike 6.1, a poll time that shrinks below
//! its starting value is dropped to 0.

use super::{Choice, Detail, Governor, IdleHardware, State};

/// The module's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltpollParameters {
    /// The longest poll (`guest_halt_poll_ns`), ns.
    pub halt_poll_ns: u32,
    /// What a poll time is divided by to shrink; 0 drops it to 0 (`guest_halt_poll_shrink`).
    pub shrink: u32,
    /// What a poll time is multiplied by to grow (`guest_halt_poll_grow`).
    pub grow: u32,
    /// The shortest poll (`guest_halt_poll_grow_start`), ns.
    pub grow_start_ns: u32,
    /// Poll times may shrink (`guest_halt_poll_allow_shrink`).
    pub allow_shrink: bool,
    /// A poll time that shrank below `grow_start_ns` becomes 0: 6.12, not 6.1.
    pub reset_below_start: bool,
}

impl Default for HaltpollParameters {
    /// The kernel's defaults, as of 6.12.
    fn default() -> Self {
        Self {
            halt_poll_ns: 200_000,
            shrink: 2,
            grow: 2,
            grow_start_ns: 50_000,
            allow_shrink: true,
            reset_below_start: true,
        }
    }
}

/// `haltpoll`'s memory of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Haltpoll {
    parameters: HaltpollParameters,
    last_index: usize,
    poll_limit_ns: u64,
    poll_time_limit: bool,
}

impl Haltpoll {
    /// A governor that does not poll yet.
    pub fn new(parameters: HaltpollParameters) -> Self {
        Self { parameters, last_index: 0, poll_limit_ns: 0, poll_time_limit: false }
    }

    /// How long a poll may last (`dev->poll_limit_ns`), ns.
    pub fn poll_limit_ns(&self) -> u64 {
        self.poll_limit_ns
    }

    pub(super) fn explain(&self) -> Vec<Detail> {
        vec![
            Detail::new("last_index", self.last_index as i64),
            Detail::new("poll_limit_ns", self.poll_limit_ns as i64),
            Detail::new("poll_time_limit", self.poll_time_limit.into()),
        ]
    }

    /// Learns from a halt of `halted_ns` (`adjust_poll_limit()`).
    fn adjust_poll_limit(&mut self, halted_ns: u64) {
        let HaltpollParameters { halt_poll_ns, shrink, grow, grow_start_ns, .. } = self.parameters;
        if halted_ns > self.poll_limit_ns && halted_ns <= u64::from(halt_poll_ns) {
            let grown = self.poll_limit_ns.wrapping_mul(u64::from(grow)) as u32;
            self.poll_limit_ns = grown.max(grow_start_ns).min(halt_poll_ns).into();
        } else if halted_ns > u64::from(halt_poll_ns) && self.parameters.allow_shrink {
            let shrunk = (self.poll_limit_ns as u32).checked_div(shrink).unwrap_or(0);
            let reset = self.parameters.reset_below_start && shrunk < grow_start_ns;
            self.poll_limit_ns = if reset { 0 } else { shrunk.into() };
        }
    }
}

impl Governor for Haltpoll {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        if states.is_empty() || hardware.latency_req_ns() == 0 {
            return Choice { index: 0, stop_tick: false };
        }
        let halt = Choice { index: 1.min(states.len() - 1), stop_tick: true };
        let poll = Choice { index: 0, stop_tick: false };
        let poll_was_idle = self.last_index == 0 && self.poll_time_limit;
        if self.poll_limit_ns == 0 || poll_was_idle { halt } else { poll }
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        self.last_index = index;
        if states.get(index).is_some_and(|state| state.polling) {
            self.poll_time_limit = hardware.poll_time_limit();
        }
        if index != 0 {
            self.adjust_poll_limit(last_residency_ns as u64);
        }
    }

    /// A refused entry leaves no trace in this governor.
    fn reject(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_poll_time_grows_with_near_wake_ups_and_shrinks_with_far_ones() {
        let mut governor = Haltpoll::new(HaltpollParameters::default());
        let mut limits = Vec::new();
        for halted_ns in [60_000, 90_000, 150_000, 200_000, 900_000, 900_000, 900_000] {
            governor.adjust_poll_limit(halted_ns);
            limits.push(governor.poll_limit_ns());
        }
        assert_eq!(limits, [50_000, 100_000, 200_000, 200_000, 100_000, 50_000, 0]);
    }

    #[test]
    fn in_6_1_it_never_comes_to_rest() {
        let parameters =
            HaltpollParameters { reset_below_start: false, ..HaltpollParameters::default() };
        let mut governor = Haltpoll::new(parameters);
        governor.adjust_poll_limit(60_000);
        governor.adjust_poll_limit(900_000);
        assert_eq!(governor.poll_limit_ns(), 25_000);
    }
}

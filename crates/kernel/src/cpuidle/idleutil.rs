//! `idleutil`: a reconstruction. No code of it was ever published; this is its description in the
//! `teo_util` v2 discussion of 2022 taken at its word, and nothing else.

use super::teo::with_tick_rule;
use super::{Choice, Detail, Governor, IdleHardware, State, visible};

/// The deepest enabled state that pays before the next timer within the latency limit; on a
/// utilized CPU, the next shallower enabled state that does not poll. It learns nothing. The tick
/// follows `teo`'s rule.
#[derive(Clone, Copy, Debug)]
pub struct Idleutil {
    tick_ns: u64,
    threshold: u64,
    utilized: bool,
}

impl Idleutil {
    /// Under a tick of `tick_ns`; a CPU is utilized above `threshold`.
    pub fn new(tick_ns: u64, threshold: u64) -> Self {
        Self { tick_ns, threshold, utilized: false }
    }

    /// The CPU was utilized at the last choice.
    pub fn utilized(&self) -> bool {
        self.utilized
    }

    pub(super) fn explain(&self) -> Vec<Detail> {
        vec![
            Detail::new("threshold", self.threshold as i64),
            Detail::new("utilized", self.utilized.into()),
        ]
    }
}

impl Governor for Idleutil {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let states = visible(states);
        let Some(first) = states.iter().position(|state| !state.disabled) else {
            return Choice { index: 0, stop_tick: false };
        };
        let length = hardware.sleep_length();
        let latency_ns = hardware.latency_req_ns();
        let pays = |state: &State| {
            !state.disabled && state.residency() <= length.sleep_ns && state.latency() <= latency_ns
        };
        let mut index = states.iter().rposition(pays).unwrap_or(first);
        self.utilized = hardware.cpu_util() > self.threshold;
        if self.utilized {
            let fast = |state: &State| !state.disabled && !state.polling;
            index = states[..index].iter().rposition(fast).unwrap_or(index);
        }
        with_tick_rule(
            states,
            index,
            first,
            length.sleep_ns,
            length.delta_next_ns,
            self.tick_ns,
            hardware.tick_stopped(),
        )
    }

    /// It learns nothing.
    fn reflect(
        &mut self,
        _states: &[State],
        _index: usize,
        _last_residency_ns: i64,
        _hardware: &mut dyn IdleHardware,
    ) {
    }

    /// It learns nothing.
    fn reject(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::FixedHardware;

    const POLL: State =
        State { exit_latency_ns: 0, target_residency_ns: 0, polling: true, disabled: false };
    const STATES: [State; 3] = [
        POLL,
        State { exit_latency_ns: 1_000, target_residency_ns: 1_000, polling: false, ..POLL },
        State { exit_latency_ns: 100_000, target_residency_ns: 500_000, polling: false, ..POLL },
    ];

    fn chosen(hardware: FixedHardware) -> usize {
        Idleutil::new(4_000_000, 16).select(&STATES, &mut { hardware }).index
    }

    #[test]
    fn timer_latency_and_utilization_each_make_it_shallower() {
        let free = FixedHardware { sleep_ns: 9_000_000, ..FixedHardware::default() };
        assert_eq!(chosen(free), 2);
        assert_eq!(chosen(FixedHardware { sleep_ns: 499_999, ..free }), 1);
        assert_eq!(chosen(FixedHardware { latency_req_ns: 99_999, ..free }), 1);
        assert_eq!(chosen(FixedHardware { cpu_util: 17, ..free }), 1);
        // Never into the busy loop for the sake of utilization.
        assert_eq!(chosen(FixedHardware { cpu_util: 17, sleep_ns: 2_000, ..free }), 1);
    }
}

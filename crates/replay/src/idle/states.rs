//! A machine's idle states as governors see them.

use schedlab_kernel::cpuidle::State;
use schedlab_machine::IdleState;

/// `CPUIDLE_POLL_MIN` of `drivers/cpuidle/cpuidle.c`, ns.
const POLL_MIN_NS: u64 = 10_000;

/// The states for a governor.
pub(super) fn governor_states(states: &[IdleState]) -> Vec<State> {
    let seen = |state: &IdleState| State {
        exit_latency_ns: state.governor_exit_latency_ns,
        target_residency_ns: state.target_residency_ns,
        polling: state.polling,
        disabled: false,
    };
    states.iter().map(seen).collect()
}

/// How long the polling state polls at most (`cpuidle_poll_time()`): the residency of the first
/// deeper state that is worth 10 us, but no more than a sixteenth of a tick.
pub(super) fn poll_limit_ns(states: &[IdleState], tick_ns: u64) -> u64 {
    let longest_ns = tick_ns / 16;
    let worth = |state: &&IdleState| state.target_residency_ns >= POLL_MIN_NS;
    states
        .iter()
        .skip(1)
        .find(worth)
        .map_or(longest_ns, |state| state.target_residency_ns.min(longest_ns))
}

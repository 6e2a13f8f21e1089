//! The kernel's verdict on a sleep: too deep, too shallow, or neither (`cpuidle_enter_state()`,
//! `drivers/cpuidle/cpuidle.c`, the same in v6.1 and v6.12).

use crate::IdleState;

/// Whether a sleep was long enough for its state, and too long for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Neither.
    Fits,
    /// Shorter than the state's target residency, and a shallower state was to be had ("above").
    TooDeep,
    /// Even without its exit latency long enough for the next deeper state ("below").
    TooShallow,
}

/// The kernel's verdict on a sleep of `duration_ns` in state `entered`; `None` for a state that the
/// table does not have.
///
/// ```
/// use schedlab_machine::{CpuId, Machine, Verdict, verdict};
/// let machine = Machine::preset("simidle").unwrap();
/// let states = machine.idle_states(CpuId(0)); // C3 is state 3: exit 70 us, residency 100 us
/// assert_eq!(verdict(states, 3, 99_999), Some(Verdict::TooDeep));
/// assert_eq!(verdict(states, 3, 100_000), Some(Verdict::Fits));
/// assert_eq!(verdict(states, 3, 669_999), Some(Verdict::Fits)); // C6 pays from 600 us on
/// assert_eq!(verdict(states, 3, 670_000), Some(Verdict::TooShallow));
/// assert_eq!(verdict(states, 9, 1), None);
/// ```
pub fn verdict(states: &[IdleState], entered: usize, duration_ns: u64) -> Option<Verdict> {
    let state = states.get(entered)?;
    if duration_ns < state.target_residency_ns {
        let shallower = states[..entered].iter().any(|state| !state.disabled);
        return Some(if shallower { Verdict::TooDeep } else { Verdict::Fits });
    }
    let deeper = states[entered + 1..].iter().find(|state| !state.disabled);
    let beyond = deeper.is_some_and(|deeper| {
        duration_ns > state.governor_exit_latency_ns
            && duration_ns - state.governor_exit_latency_ns >= deeper.target_residency_ns
    });
    Some(if beyond { Verdict::TooShallow } else { Verdict::Fits })
}

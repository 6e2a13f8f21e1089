//! The timer events oriented governor, `teo` (`drivers/cpuidle/governors/teo.c`), and `teo_util`,
//! which was built on it.
//!
//! Timers are the one wake-up that is known beforehand, so `teo` starts from the next timer and
//! asks how often, in the recent past, something else came first. Each idle state owns the bin of
//! sleeps from its target residency up to the next state's. A sleep that ends in the bin of its
//! timer is a "hit" there; one that ends earlier is an "intercept" in the bin where it ended. When
//! intercepts prevail over the sleeps that lasted, a shallower state is chosen.

mod release_6_1;
mod release_6_12;

pub use release_6_1::{Teo6_1, Utilization};
pub use release_6_12::Teo6_12;

use super::{Choice, IdleHardware, State, shallower};

/// What an event adds to a metric (`PULSE`).
const PULSE: u32 = 1024;
/// A metric loses one part in `1 << DECAY_SHIFT` at each update.
const DECAY_SHIFT: u32 = 3;

/// The sleeps that ended within one state's bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Decaying count of sleeps that ended here although the timer was beyond.
    pub intercepts: u32,
    /// Decaying count of sleeps that ended here as the timer did.
    pub hits: u32,
}

impl Bin {
    /// Ages the bin and returns what is left in all.
    #[inline]
    fn decay(&mut self) -> u32 {
        self.hits -= self.hits >> DECAY_SHIFT;
        self.intercepts -= self.intercepts >> DECAY_SHIFT;
        self.hits.wrapping_add(self.intercepts)
    }
}

/// The last sleep, as both releases remember it.
#[derive(Clone, Copy, Debug)]
struct LastSleep {
    /// From the choice to after the wake-up, or the sleep length where a safety net woke the CPU;
    /// in between, when the choice was made, ns.
    time_span_ns: i64,
    /// The time to the next timer at the choice, ns.
    sleep_length_ns: i64,
    /// The state that was entered; none between a choice and its end. A fresh device says 0.
    index: Option<usize>,
    residency_ns: u64,
    poll_time_limit: bool,
}

impl LastSleep {
    const NONE: Self = Self {
        time_span_ns: 0,
        sleep_length_ns: 0,
        index: Some(0),
        residency_ns: 0,
        poll_time_limit: false,
    };

    /// How long the CPU would have stayed idle in a state of no latency, ns; without end if the
    /// timer, or a safety net in its place, ended the sleep. `index` is the state it was in.
    #[inline]
    fn measured_ns(&self, states: &[State], index: usize) -> u64 {
        if self.time_span_ns >= self.sleep_length_ns {
            return u64::MAX;
        }
        let latency_ns = states.get(index).map_or(0, |state| state.exit_latency_ns);
        if self.residency_ns >= latency_ns {
            // The worst case is not the rule: take half of it for what the exit cost.
            self.residency_ns - latency_ns / 2
        } else {
            self.residency_ns / 2
        }
    }

    /// `teo_reflect()`.
    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        residency_ns: i64,
        tick_ns: u64,
        hardware: &mut dyn IdleHardware,
    ) {
        if states.get(index).is_some_and(|state| state.polling) {
            self.poll_time_limit = hardware.poll_time_limit();
        }
        self.index = Some(index);
        self.residency_ns = residency_ns as u64;
        let tick_came_first = || hardware.got_tick() && self.sleep_length_ns > tick_ns as i64;
        if self.poll_time_limit || tick_came_first() {
            // A safety net woke the CPU: it might have slept for the whole sleep length.
            self.poll_time_limit = false;
            self.time_span_ns = self.sleep_length_ns;
        } else {
            self.time_span_ns = (hardware.now_ns() as i64).wrapping_sub(self.time_span_ns);
        }
    }

    fn reject(&mut self) {
        self.residency_ns = 0;
    }
}

/// `teo`'s last word: keep the tick before a short sleep or a busy loop, and then nothing deeper
/// than the tick allows. `first` is the shallowest state that may be returned.
#[inline]
pub(super) fn with_tick_rule(
    states: &[State],
    index: usize,
    first: usize,
    duration_ns: i64,
    delta_tick_ns: i64,
    tick_ns: u64,
    tick_stopped: bool,
) -> Choice {
    let stop = !states[index].polling && duration_ns >= tick_ns as i64;
    if stop || tick_stopped {
        return Choice { index, stop_tick: true };
    }
    let index = if index > first && states[index].residency() > delta_tick_ns {
        shallower(states, index, delta_tick_ns, false)
    } else {
        index
    };
    Choice { index, stop_tick: false }
}

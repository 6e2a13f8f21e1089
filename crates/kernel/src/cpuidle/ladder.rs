//! The `ladder` governor (`drivers/cpuidle/governors/ladder.c`), meant for kernels whose tick never
//! stops. The code of 6.1 and 6.12 is the same.
//!
//! Four sleeps in a state that lasted longer than its exit latency lead one state deeper; one
//! that did not leads one shallower.

use super::{Choice, Detail, Governor, IdleHardware, STATES_MAX, State, visible};

const PROMOTION_COUNT: u32 = 4;
const DEMOTION_COUNT: u32 = 1;

/// What `ladder` knows of one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rung {
    /// Long sleeps that lead deeper; 0 for a state that is not on the ladder.
    promotion_count: u32,
    /// Short sleeps that lead shallower.
    demotion_count: u32,
    /// What a sleep must exceed to be long, ns.
    promotion_time_ns: u64,
    /// What a sleep must fall below to be short, ns.
    demotion_time_ns: u64,
    promotions: u32,
    demotions: u32,
}

/// `ladder`'s memory of one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    /// The state it stands on; none before the first choice.
    last_index: Option<usize>,
    last_residency_ns: u64,
    rungs: [Rung; STATES_MAX],
}

/// The lowest state on the ladder: a polling one is not.
fn lowest(states: &[State]) -> usize {
    usize::from(states.first().is_some_and(|state| state.polling))
}

impl Ladder {
    /// A governor that learns its states with the first choice.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state it stands on; none before the first choice.
    pub fn last_index(&self) -> Option<usize> {
        self.last_index
    }

    /// Takes over a CPU with these states (`ladder_enable_device()`). A governor that served
    /// before keeps what it knew of a polling state, as the kernel's does.
    pub fn enable(&mut self, states: &[State]) {
        let states = visible(states);
        let lowest = lowest(states);
        self.last_index = Some(lowest.min(states.len().saturating_sub(1)));
        self.last_residency_ns = 0;
        for (index, (state, rung)) in states.iter().zip(&mut self.rungs).enumerate().skip(lowest) {
            *rung = Rung {
                promotion_count: PROMOTION_COUNT,
                demotion_count: DEMOTION_COUNT,
                promotions: 0,
                demotions: 0,
                ..*rung
            };
            if index + 1 < states.len() {
                rung.promotion_time_ns = state.exit_latency_ns;
            }
            if index > lowest {
                rung.demotion_time_ns = state.exit_latency_ns;
            }
        }
    }

    pub(super) fn explain(&self, states: usize) -> Vec<Detail> {
        let last = self.last_index.map_or(-1, |index| index as i64);
        let mut details = vec![
            Detail::new("last_index", last),
            Detail::new("last_residency_ns", self.last_residency_ns as i64),
        ];
        for (index, rung) in self.rungs.iter().take(states).enumerate() {
            details.push(Detail::at("promotions", index, rung.promotions.into()));
            details.push(Detail::at("demotions", index, rung.demotions.into()));
        }
        details
    }

    /// Moves from `from` to `to` and forgets what was counted on the rung left.
    fn step(&mut self, from: usize, to: usize) -> usize {
        self.rungs[from].promotions = 0;
        self.rungs[from].demotions = 0;
        self.last_index = Some(to);
        to
    }

    fn choose(&mut self, states: &[State], last: usize, latency_ns: i64) -> usize {
        if latency_ns == 0 {
            return self.step(last, 0);
        }
        let lowest = lowest(states);
        let rung = &mut self.rungs[last];
        // The kernel compares as unsigned: a sleep shorter than its own exit latency passes for a
        // very long one.
        let slept_ns = self.last_residency_ns.wrapping_sub(states[last].exit_latency_ns);

        let deeper = states.get(last + 1);
        let reachable = deeper.is_some_and(|next| !next.disabled && next.latency() <= latency_ns);
        if reachable && slept_ns > rung.promotion_time_ns {
            rung.promotions = rung.promotions.wrapping_add(1);
            rung.demotions = 0;
            if rung.promotions >= rung.promotion_count {
                return self.step(last, last + 1);
            }
        }
        if last <= lowest {
            return last;
        }
        if states[last].disabled || states[last].latency() > latency_ns {
            let fitting = (lowest + 1..last).rfind(|index| states[*index].latency() <= latency_ns);
            return self.step(last, fitting.unwrap_or(lowest));
        }
        if slept_ns < rung.demotion_time_ns {
            rung.demotions = rung.demotions.wrapping_add(1);
            rung.promotions = 0;
            if rung.demotions >= rung.demotion_count {
                return self.step(last, last - 1);
            }
        }
        last
    }
}

impl Governor for Ladder {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let states = visible(states);
        if states.is_empty() {
            return Choice { index: 0, stop_tick: false };
        }
        if self.last_index.is_none() {
            self.enable(states);
        }
        let last = self.last_index.unwrap_or(0).min(states.len() - 1);
        let index = self.choose(states, last, hardware.latency_req_ns());
        // It has no opinion on the tick.
        Choice { index, stop_tick: true }
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        _hardware: &mut dyn IdleHardware,
    ) {
        // A sleep that began before the first choice: the kernel enables a device before it idles.
        if self.last_index.is_none() {
            self.enable(states);
        }
        self.last_residency_ns = last_residency_ns as u64;
        if index > 0 {
            self.last_index = Some(index);
        }
    }

    fn reject(&mut self) {
        self.last_residency_ns = 0;
    }
}

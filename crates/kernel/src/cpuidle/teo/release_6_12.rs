//! `teo` of Linux 6.12.

use super::{Bin, DECAY_SHIFT, LastSleep, PULSE, with_tick_rule};
use crate::cpuidle::why::{bins, us};
use crate::cpuidle::{
    Choice, Detail, FixedHardware, Governor, IdleHardware, KTIME_MAX, RESIDENCY_THRESHOLD_NS,
    STATES_MAX, State, shallower, visible,
};

/// `teo`'s memory of one CPU, Linux 6.12: no count of recent intercepts, an extra bin for sleeps
/// beyond the tick, and no look at the timers where the answer would not matter.
#[derive(Clone, Copy, Debug)]
pub struct Teo6_12 {
    tick_ns: u64,
    last: LastSleep,
    bins: [Bin; STATES_MAX],
    total: u32,
    tick_hits: u32,
}

/// What the bins say, before a timer has been looked at.
struct Candidate {
    index: usize,
    /// The shallowest enabled state.
    first: usize,
    /// The deepest state within the latency limit.
    constraint: usize,
    /// Intercepts in the bins before the candidate's.
    intercepts: u32,
    /// Hits in the bins before the candidate's.
    hits: u32,
}

impl Teo6_12 {
    /// A governor that has seen nothing yet, under a tick of `tick_ns`.
    pub fn new(tick_ns: u64) -> Self {
        Self {
            tick_ns,
            last: LastSleep::NONE,
            bins: [Bin::default(); STATES_MAX],
            total: 0,
            tick_hits: 0,
        }
    }

    /// A governor that remembers: with these bins, and hits beyond the tick, as its last update
    /// left them.
    ///
    /// A metric decays by an eighth, rounded down, so one that was ever raised never falls below 7
    /// again, and a governor that seems idle may still hold a verdict from long ago.
    pub fn remembering(tick_ns: u64, bins: [Bin; STATES_MAX], tick_hits: u32) -> Self {
        let sum = |sum: u32, bin: &Bin| sum.wrapping_add(bin.hits).wrapping_add(bin.intercepts);
        let total = bins.iter().fold(tick_hits, sum);
        Self { bins, total, tick_hits, ..Self::new(tick_ns) }
    }

    /// The bins, one per idle state.
    pub fn bins(&self) -> &[Bin; STATES_MAX] {
        &self.bins
    }

    /// Hits and intercepts of all bins.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Hits beyond the tick, if the deepest state pays before it.
    pub fn tick_hits(&self) -> u32 {
        self.tick_hits
    }

    /// How long the last sleep took from choice to reflection, ns.
    pub fn time_span_ns(&self) -> i64 {
        self.last.time_span_ns
    }

    /// The time to the next timer at the last choice; `KTIME_MAX` where it was not asked for, ns.
    pub fn sleep_length_ns(&self) -> i64 {
        self.last.sleep_length_ns
    }

    pub(in crate::cpuidle) fn explain(&self, states: usize) -> Vec<Detail> {
        let mut details = vec![
            Detail::new("time_span_ns", self.last.time_span_ns),
            Detail::new("sleep_length_ns", self.last.sleep_length_ns),
            Detail::new("total", self.total.into()),
            Detail::new("tick_hits", self.tick_hits.into()),
        ];
        for (index, bin) in self.bins.iter().take(states).enumerate() {
            details.push(Detail::at("intercepts", index, bin.intercepts.into()));
            details.push(Detail::at("hits", index, bin.hits.into()));
        }
        details
    }

    /// Why the last choice came about; see [`AnyGovernor::why`](crate::cpuidle::AnyGovernor::why).
    pub(in crate::cpuidle) fn why(&self, states: &[State], seen: &FixedHardware) -> Vec<String> {
        let states = visible(states);
        let mut why =
            vec![bins(self.bins.iter().take(states.len()).map(|bin| (bin.hits, bin.intercepts)))];
        if states.len() < 2 {
            return why;
        }
        let Some(candidate) = self.candidate(states, seen.latency_req_ns) else { return why };
        let outlasted = self.total.wrapping_sub(candidate.hits);
        let index = self.intercepted(states, &candidate, seen.tick_stopped);
        why.push(format!(
            "state {} is the deepest; intercepts below it are {}, of {outlasted} in all that could \
             have reached it: {}",
            candidate.index,
            candidate.intercepts,
            if candidate.intercepts.wrapping_mul(2) <= outlasted {
                "no more than half, so it stands".to_owned()
            } else {
                format!("more than half, so state {index}, which more than half of them reached")
            }
        ));
        if index > candidate.constraint {
            let limit = us(seen.latency_req_ns);
            why.push(format!("a latency of {limit} allows state {} at most", candidate.constraint));
        }
        why.push(match self.last.sleep_length_ns {
            KTIME_MAX if seen.sleep_ns != KTIME_MAX => {
                "it did not ask for the next timer, as so shallow a state needs none".to_owned()
            }
            timer_ns => format!("the next timer is {} away", us(timer_ns)),
        });
        why
    }

    /// Files the last sleep in its bin (`teo_update()`).
    fn update(&mut self, states: &[State], last_index: usize) {
        let measured_ns = self.last.measured_ns(states, last_index);
        let sleep_length_ns = self.last.sleep_length_ns;
        let (mut timer_bin, mut duration_bin) = (0, 0);
        self.total = 0;
        for (index, (state, bin)) in states.iter().zip(&mut self.bins).enumerate() {
            self.total = self.total.wrapping_add(bin.decay());
            if state.residency() <= sleep_length_ns {
                timer_bin = index;
                if state.target_residency_ns <= measured_ns {
                    duration_bin = index;
                }
            }
        }
        // If every state pays before the tick, sleeps beyond the tick have a bin of their own.
        let mut beyond_tick = false;
        if states.last().is_some_and(|deepest| deepest.residency() < self.tick_ns as i64) {
            self.tick_hits -= self.tick_hits >> DECAY_SHIFT;
            self.total = self.total.wrapping_add(self.tick_hits);
            if self.tick_ns as i64 <= sleep_length_ns {
                timer_bin = states.len();
                beyond_tick = self.tick_ns <= measured_ns;
            }
        }
        if beyond_tick {
            self.tick_hits = self.tick_hits.wrapping_add(PULSE);
        } else {
            let bin = &mut self.bins[duration_bin];
            let metric =
                if timer_bin == duration_bin { &mut bin.hits } else { &mut bin.intercepts };
            *metric = metric.wrapping_add(PULSE);
        }
        self.total = self.total.wrapping_add(PULSE);
    }

    /// The deepest enabled state and what the bins before it hold.
    fn candidate(&self, states: &[State], latency_ns: i64) -> Option<Candidate> {
        let mut best = (!states[0].disabled).then_some(Candidate {
            index: 0,
            first: 0,
            constraint: 0,
            intercepts: 0,
            hits: 0,
        });
        let (mut intercepts, mut hits) = (0u32, 0u32);
        for (index, (state, before)) in (1..).zip(states[1..].iter().zip(&self.bins)) {
            intercepts = intercepts.wrapping_add(before.intercepts);
            hits = hits.wrapping_add(before.hits);
            if state.disabled {
                continue;
            }
            let (first, constraint) = best.map_or((index, 0), |best| (best.first, best.constraint));
            let constraint = if state.latency() <= latency_ns { index } else { constraint };
            best = Some(Candidate { index, first, constraint, intercepts, hits });
        }
        best
    }

    /// A shallower state than the candidate, if more than half of the sleeps that could have
    /// reached the candidate were intercepted: the deepest that more than half of those reached.
    fn intercepted(&self, states: &[State], candidate: &Candidate, tick_stopped: bool) -> usize {
        let outlasted = self.total.wrapping_sub(candidate.hits);
        if candidate.intercepts.wrapping_mul(2) <= outlasted {
            return candidate.index;
        }
        // Without a tick, only a state deep enough for the CPU to stay in for long.
        let deep_enough = |state: &State| !tick_stopped || state.residency() >= self.tick_ns as i64;
        let mut suitable = candidate.index;
        let mut sum = 0u32;
        for (index, (state, bin)) in
            states.iter().zip(&self.bins).enumerate().take(candidate.index).rev()
        {
            sum = sum.wrapping_add(bin.intercepts);
            if sum.wrapping_mul(2) > candidate.intercepts {
                return if deep_enough(state) && !state.disabled { index } else { suitable };
            }
            if state.disabled {
                continue;
            }
            if deep_enough(state) {
                suitable = index;
            } else if suitable == candidate.index {
                break;
            }
        }
        candidate.index
    }

    fn look_up_timer(&mut self, hardware: &mut dyn IdleHardware) -> (i64, i64) {
        let length = hardware.sleep_length();
        self.last.sleep_length_ns = length.sleep_ns;
        (length.sleep_ns, length.delta_next_ns)
    }
}

impl Governor for Teo6_12 {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let states = visible(states);
        let keep_tick = |index| Choice { index, stop_tick: false };
        if states.is_empty() {
            return keep_tick(0);
        }
        if let Some(last_index) = self.last.index.take() {
            self.update(states, last_index);
        }
        self.last.time_span_ns = hardware.now_ns() as i64;
        self.last.sleep_length_ns = KTIME_MAX;
        if states.len() < 2 {
            return keep_tick(0);
        }
        let Some(candidate) = self.candidate(states, hardware.latency_req_ns()) else {
            return keep_tick(0);
        };
        let tick_stopped = hardware.tick_stopped();
        let half_tick_ns = (self.tick_ns / 2) as i64;
        let (tick_ns, first) = (self.tick_ns, candidate.first);
        let finish = |index, duration_ns, delta_tick_ns| {
            with_tick_rule(states, index, first, duration_ns, delta_tick_ns, tick_ns, tick_stopped)
        };
        if candidate.index == candidate.first {
            let only = candidate.index;
            return finish(only, states[only].residency(), half_tick_ns);
        }

        let index = self.intercepted(states, &candidate, tick_stopped);
        if index == 0 {
            // Asked for nothing but to know after the wake-up whether the guess was right.
            self.look_up_timer(hardware);
            return keep_tick(0);
        }
        let index = index.min(candidate.constraint);
        // An immediate wake-up is expected, or the state costs so little that no timer matters.
        let cheap = states[0].polling && states[index].residency() < RESIDENCY_THRESHOLD_NS;
        if index == 0 || cheap {
            return keep_tick(index);
        }

        let (mut duration_ns, delta_tick_ns) = self.look_up_timer(hardware);
        let index = if states[index].residency() > duration_ns {
            shallower(states, index, duration_ns, false)
        } else {
            index
        };
        // Most sleeps end before the tick by intercept: expect this one to.
        let deepest = self.bins[states.len() - 1].intercepts;
        let intercepts = self.bins[..states.len() - 1]
            .iter()
            .fold(deepest, |sum, bin| sum.wrapping_add(bin.intercepts));
        let majority = (self.total / 2).wrapping_add(self.total / 8);
        if states[index].residency() < self.tick_ns as i64 && intercepts > majority {
            duration_ns = half_tick_ns;
        }
        finish(index, duration_ns, delta_tick_ns)
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        self.last.reflect(states, index, last_residency_ns, self.tick_ns, hardware);
    }

    fn reject(&mut self) {
        self.last.reject();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::FixedHardware;

    const TICK_NS: u64 = 4_000_000;

    fn states() -> [State; 2] {
        [1_000, 1_000_000].map(|target_residency_ns| State {
            exit_latency_ns: 1_000,
            target_residency_ns,
            ..State::default()
        })
    }

    /// One idle period with a timer 50 ms away that ends after `slept_ns`.
    fn period(governor: &mut Teo6_12, slept_ns: i64) -> Choice {
        let mut hardware = FixedHardware { sleep_ns: 50_000_000, ..FixedHardware::default() };
        let choice = governor.select(&states(), &mut hardware);
        hardware.now_ns = slept_ns as u64;
        governor.reflect(&states(), choice.index, slept_ns, &mut hardware);
        choice
    }

    #[test]
    fn early_wake_ups_make_it_shallow_and_late_ones_deep_again() {
        let mut governor = Teo6_12::new(TICK_NS);
        let deep = Choice { index: 1, stop_tick: true };
        let shallow = Choice { index: 0, stop_tick: false };
        assert_eq!(period(&mut governor, 10_000), deep);
        let early: Vec<_> = (0..4).map(|_| period(&mut governor, 10_000)).collect();
        assert_eq!(early.last(), Some(&shallow));
        let late: Vec<_> = (0..12).map(|_| period(&mut governor, 50_000_000)).collect();
        assert_eq!(late.last(), Some(&deep));
    }

    #[test]
    fn sleeps_beyond_the_tick_have_a_bin_of_their_own() {
        let mut governor = Teo6_12::new(TICK_NS);
        period(&mut governor, 50_000_000);
        assert_eq!(governor.tick_hits(), 0);
        period(&mut governor, 50_000_000);
        assert_eq!(governor.tick_hits(), PULSE);
        assert_eq!(governor.bins()[1], Bin::default());
    }
}

//! `teo` of Linux 6.1, and `teo_util`: the two versions of its utilization awareness.

use super::{Bin, LastSleep, PULSE, with_tick_rule};
use crate::cpuidle::why::{bins, us};
use crate::cpuidle::{
    Choice, Detail, FixedHardware, Governor, IdleHardware, STATES_MAX, State, shallower, visible,
};

/// How many recent sleeps are remembered one by one (`NR_RECENT`).
const NR_RECENT: usize = 9;

/// How the CPU's utilization enters (`teo_util`). A CPU is utilized above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Utilization {
    /// Not at all: `teo` as released in 6.1.
    Ignored,
    /// Version 2 of the patch, that of the published report: one state shallower if that state is
    /// enabled; sleeps that began on a utilized CPU teach nothing.
    V2 {
        /// `arch_scale_cpu_capacity() >> 6` unless set otherwise.
        threshold: u64,
    },
    /// Version 6, merged in 6.3 as commit 9ce0f7c4bc64: the next shallower state that is enabled
    /// and does not poll; every sleep teaches.
    V6 {
        /// `arch_scale_cpu_capacity() >> 6` unless set otherwise.
        threshold: u64,
    },
}

/// `teo`'s memory of one CPU, Linux 6.1, with or without utilization awareness.
#[derive(Clone, Copy, Debug)]
pub struct Teo6_1 {
    tick_ns: u64,
    utilization: Utilization,
    utilized: bool,
    last: LastSleep,
    bins: [Bin; STATES_MAX],
    recent: [u32; STATES_MAX],
    total: u32,
    next_recent: usize,
    /// The bin of each recent intercept, none for a hit.
    recent_bins: [Option<usize>; NR_RECENT],
}

/// The state that the next timer allows, and what the bins before it hold.
struct Candidate {
    index: usize,
    /// The shallowest enabled state.
    first: usize,
    /// The deepest state within the latency limit.
    constraint: usize,
    intercepts: u32,
    hits: u32,
    recent: u32,
}

/// A state and how long the CPU is expected to be idle, ns.
#[derive(Clone, Copy)]
struct Expectation {
    index: usize,
    duration_ns: i64,
}

impl Teo6_1 {
    /// A governor that has seen nothing yet, under a tick of `tick_ns`.
    pub fn new(tick_ns: u64, utilization: Utilization) -> Self {
        Self {
            tick_ns,
            utilization,
            utilized: false,
            last: LastSleep::NONE,
            bins: [Bin::default(); STATES_MAX],
            recent: [0; STATES_MAX],
            total: 0,
            next_recent: 0,
            recent_bins: [None; NR_RECENT],
        }
    }

    /// The bins, one per idle state.
    pub fn bins(&self) -> &[Bin; STATES_MAX] {
        &self.bins
    }

    /// Intercepts per bin among the last nine sleeps.
    pub fn recent(&self) -> &[u32; STATES_MAX] {
        &self.recent
    }

    /// Hits and intercepts of all bins.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// How long the last sleep took from choice to reflection, ns.
    pub fn time_span_ns(&self) -> i64 {
        self.last.time_span_ns
    }

    /// The time to the next timer at the last choice, ns.
    pub fn sleep_length_ns(&self) -> i64 {
        self.last.sleep_length_ns
    }

    /// The CPU was utilized when utilization was last looked at.
    pub fn utilized(&self) -> bool {
        self.utilized
    }

    pub(in crate::cpuidle) fn explain(&self, states: usize) -> Vec<Detail> {
        let mut details = vec![
            Detail::new("time_span_ns", self.last.time_span_ns),
            Detail::new("sleep_length_ns", self.last.sleep_length_ns),
            Detail::new("total", self.total.into()),
        ];
        if self.utilization != Utilization::Ignored {
            details.push(Detail::new("utilized", self.utilized.into()));
        }
        let bins = self.bins.iter().zip(&self.recent).take(states);
        for (index, (bin, recent)) in bins.enumerate() {
            details.push(Detail::at("intercepts", index, bin.intercepts.into()));
            details.push(Detail::at("hits", index, bin.hits.into()));
            details.push(Detail::at("recent", index, (*recent).into()));
        }
        details
    }

    /// Why the last choice came about; see [`AnyGovernor::why`](crate::cpuidle::AnyGovernor::why).
    pub(in crate::cpuidle) fn why(&self, states: &[State], seen: &FixedHardware) -> Vec<String> {
        let states = visible(states);
        let timer_ns = self.last.sleep_length_ns;
        let mut why = vec![
            format!("the next timer is {} away", us(timer_ns)),
            bins(self.bins.iter().take(states.len()).map(|bin| (bin.hits, bin.intercepts))),
        ];
        if states.len() < 2 {
            return why;
        }
        let candidate = self.candidate(states, timer_ns, seen.latency_req_ns);
        if let Some(candidate) = candidate {
            let outlasted = self.total.wrapping_sub(candidate.hits);
            let index = self.intercepted(states, &candidate, timer_ns, seen.tick_stopped).index;
            why.push(format!(
                "state {} is the deepest that pays before the timer; intercepts below it are {}, \
                 of {outlasted} in all that could have reached it, and {} of the last {NR_RECENT} \
                 sleeps: {}",
                candidate.index,
                candidate.intercepts,
                candidate.recent,
                if index == candidate.index {
                    "no more than half, so it stands".to_owned()
                } else {
                    format!("more than half, so state {index}")
                }
            ));
        }
        if self.utilization != Utilization::Ignored {
            let utilized = if self.utilized { "counts" } else { "does not count" };
            why.push(format!(
                "utilization {}: the CPU {utilized} as utilized, and {}",
                seen.cpu_util,
                if self.utilized { "goes shallower" } else { "need not go shallower" }
            ));
        }
        why
    }

    /// Files the last sleep in its bin (`teo_update()`).
    fn update(&mut self, states: &[State], last_index: usize) {
        let measured_ns = self.last.measured_ns(states, last_index);
        let (mut timer_bin, mut duration_bin) = (0, 0);
        self.total = 0;
        for (index, (state, bin)) in states.iter().zip(&mut self.bins).enumerate() {
            self.total = self.total.wrapping_add(bin.decay());
            if state.residency() <= self.last.sleep_length_ns {
                timer_bin = index;
                if state.target_residency_ns <= measured_ns {
                    duration_bin = index;
                }
            }
        }

        let oldest = &mut self.recent_bins[self.next_recent];
        self.next_recent = (self.next_recent + 1) % NR_RECENT;
        if let Some(bin) = *oldest {
            self.recent[bin] = self.recent[bin].wrapping_sub(1);
        }
        let bin = &mut self.bins[duration_bin];
        if timer_bin == duration_bin {
            bin.hits = bin.hits.wrapping_add(PULSE);
            *oldest = None;
        } else {
            bin.intercepts = bin.intercepts.wrapping_add(PULSE);
            self.recent[duration_bin] = self.recent[duration_bin].wrapping_add(1);
            *oldest = Some(duration_bin);
        }
        self.total = self.total.wrapping_add(PULSE);
    }

    /// The deepest enabled state that pays before the timer; none if all states are disabled.
    fn candidate(&self, states: &[State], sleep_ns: i64, latency_ns: i64) -> Option<Candidate> {
        let fresh = |index| Candidate {
            index,
            first: index,
            constraint: 0,
            intercepts: 0,
            hits: 0,
            recent: 0,
        };
        let mut best = (!states[0].disabled).then(|| fresh(0));
        let (mut intercepts, mut hits, mut recent) = (0u32, 0u32, 0u32);
        for (index, state) in states.iter().enumerate().skip(1) {
            let before = &self.bins[index - 1];
            intercepts = intercepts.wrapping_add(before.intercepts);
            hits = hits.wrapping_add(before.hits);
            recent = recent.wrapping_add(self.recent[index - 1]);
            if state.disabled {
                continue;
            }
            let best = best.get_or_insert_with(|| fresh(index));
            if state.residency() > sleep_ns {
                break;
            }
            let constraint = if state.latency() <= latency_ns { index } else { best.constraint };
            *best = Candidate { index, constraint, intercepts, hits, recent, ..*best };
        }
        best
    }

    /// A shallower state than the candidate, if most sleeps of late, or most of those that could
    /// have reached the candidate, were intercepted.
    fn intercepted(
        &self,
        states: &[State],
        candidate: &Candidate,
        sleep_ns: i64,
        tick_stopped: bool,
    ) -> Expectation {
        let unchanged = Expectation { index: candidate.index, duration_ns: sleep_ns };
        let outlasted = self.total.wrapping_sub(candidate.hits);
        let by_intercepts = candidate.intercepts.wrapping_mul(2) > outlasted;
        let by_recent = candidate.recent > NR_RECENT as u32 / 2;
        if !by_intercepts && !by_recent {
            return unchanged;
        }
        // Without a tick, only a sleep long enough for the CPU not to be stuck in a shallow state.
        let long_enough = |span_ns: i64| !tick_stopped || span_ns as u64 >= self.tick_ns;
        let mut suitable = unchanged;
        let (mut intercepts, mut recent) = (0u32, 0u32);
        for index in (0..candidate.index).rev() {
            intercepts = intercepts.wrapping_add(self.bins[index].intercepts);
            recent = recent.wrapping_add(self.recent[index]);
            let middle_ns =
                states[index].residency().wrapping_add(states[index + 1].residency()) / 2;
            let here = Expectation { index, duration_ns: middle_ns };

            let most_recent = !by_recent || recent.wrapping_mul(2) > candidate.recent;
            let most = !by_intercepts || intercepts.wrapping_mul(2) > candidate.intercepts;
            if most_recent && most {
                let fits = long_enough(middle_ns) && !states[index].disabled;
                return if fits { here } else { suitable };
            }
            if states[index].disabled {
                continue;
            }
            if long_enough(middle_ns) {
                suitable = here;
            } else if suitable.index == candidate.index {
                break;
            }
        }
        unchanged
    }

    /// Looks at the CPU's utilization, if this variant does. On a utilized CPU of fewer than three
    /// states the answer follows at once.
    fn check_utilization(
        &mut self,
        states: &[State],
        hardware: &mut dyn IdleHardware,
    ) -> Option<usize> {
        let threshold = match self.utilization {
            Utilization::Ignored => return None,
            Utilization::V2 { threshold } | Utilization::V6 { threshold } => threshold,
        };
        self.utilized = hardware.cpu_util() > threshold;
        if !self.utilized || states.len() >= 3 {
            return None;
        }
        let may_poll = matches!(self.utilization, Utilization::V2 { .. });
        states.iter().position(|state| !state.disabled && (may_poll || !state.polling))
    }

    /// Goes shallower on a utilized CPU.
    fn for_latency(&self, states: &[State], expected: Expectation) -> usize {
        let index = expected.index;
        match self.utilization {
            Utilization::V2 { .. } if self.utilized && index > 0 => {
                if states[index - 1].disabled {
                    index
                } else {
                    index - 1
                }
            }
            Utilization::V6 { .. } if self.utilized => {
                shallower(states, index, expected.duration_ns, true)
            }
            _ => index,
        }
    }

    fn learns(&self) -> bool {
        !(self.utilized && matches!(self.utilization, Utilization::V2 { .. }))
    }
}

impl Governor for Teo6_1 {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let states = visible(states);
        let Some(shallowest) = states.first() else {
            return Choice { index: 0, stop_tick: false };
        };
        if let Some(last_index) = self.last.index.take()
            && self.learns()
        {
            self.update(states, last_index);
        }
        self.last.time_span_ns = hardware.now_ns() as i64;
        let length = hardware.sleep_length();
        let sleep_ns = length.sleep_ns;
        self.last.sleep_length_ns = sleep_ns;
        let tick_stopped = hardware.tick_stopped();
        let tick_ns = self.tick_ns;
        let finish = |index, first, duration_ns| {
            let delta_tick_ns = length.delta_next_ns;
            with_tick_rule(states, index, first, duration_ns, delta_tick_ns, tick_ns, tick_stopped)
        };

        let timer_is_near = || !shallowest.disabled && states[1].residency() > sleep_ns;
        if states.len() < 2 || timer_is_near() {
            return finish(0, 0, sleep_ns);
        }
        if let Some(index) = self.check_utilization(states, hardware) {
            return finish(index, 0, sleep_ns);
        }
        let Some(candidate) = self.candidate(states, sleep_ns, hardware.latency_req_ns()) else {
            return finish(0, 0, sleep_ns);
        };
        if candidate.index == candidate.first {
            return finish(candidate.index, candidate.first, sleep_ns);
        }
        let mut expected = self.intercepted(states, &candidate, sleep_ns, tick_stopped);
        expected.index = expected.index.min(candidate.constraint);
        let index = self.for_latency(states, expected);
        finish(index, candidate.first, expected.duration_ns)
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

    fn states<const N: usize>(residencies_us: [u64; N], polls: bool) -> [State; N] {
        let mut index = 0;
        residencies_us.map(|microseconds| {
            index += 1;
            State {
                target_residency_ns: microseconds * 1_000,
                exit_latency_ns: microseconds * 1_000 / 4,
                polling: polls && index == 1,
                disabled: false,
            }
        })
    }

    fn busy() -> FixedHardware {
        FixedHardware { cpu_util: 17, sleep_ns: 50_000_000, ..FixedHardware::default() }
    }

    #[test]
    fn v2_goes_one_shallower_even_into_a_busy_loop_and_v6_does_not() {
        let states = states([0, 100, 1_000], true);
        let v2 = Utilization::V2 { threshold: 16 };
        let v6 = Utilization::V6 { threshold: 16 };
        for (utilization, limit_ns, expected) in
            [(v2, 1 << 40, 1), (v6, 1 << 40, 1), (v2, 25_000, 0), (v6, 25_000, 1)]
        {
            let mut governor = Teo6_1::new(1_000_000, utilization);
            let mut hardware = FixedHardware { latency_req_ns: limit_ns, ..busy() };
            let choice = governor.select(&states, &mut hardware);
            assert_eq!(choice.index, expected, "{utilization:?} within {limit_ns} ns");
        }
    }

    #[test]
    fn the_threshold_itself_is_not_utilized() {
        let states = states([1, 3_500], false);
        let mut governor = Teo6_1::new(4_000_000, Utilization::V2 { threshold: 16 });
        let mut hardware = FixedHardware { cpu_util: 16, ..busy() };
        assert_eq!(governor.select(&states, &mut hardware).index, 1);
        hardware.cpu_util = 17;
        // The tick may still be stopped, since the timer is far.
        let choice = governor.select(&states, &mut hardware);
        assert_eq!(choice, Choice { index: 0, stop_tick: true });
    }

    #[test]
    fn v2_learns_nothing_from_a_utilized_sleep() {
        let states = states([1, 100, 3_500], false);
        for (utilization, learns) in
            [(Utilization::V2 { threshold: 16 }, false), (Utilization::V6 { threshold: 16 }, true)]
        {
            let mut governor = Teo6_1::new(4_000_000, utilization);
            let mut hardware = busy();
            governor.select(&states, &mut hardware);
            let before = *governor.bins();
            governor.reflect(&states, 1, 10_000, &mut hardware);
            governor.select(&states, &mut hardware);
            assert_eq!(*governor.bins() != before, learns, "{utilization:?}");
        }
    }
}

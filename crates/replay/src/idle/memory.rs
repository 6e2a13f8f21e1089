//! What a traced governor remembered when the trace began.
//!
//! `teo` of 6.12 counts, per idle state, sleeps cut short (intercepts), and lets each count decay
//! by an eighth, rounded down: from 7 it never decays further. Where a CPU's sleeps end by timers,
//! these remainders alone decide which state is too deep, hours after the last sleep that was cut
//! short. A replay that starts with an empty memory can therefore differ from the kernel for a
//! whole trace.
//!
//! A remainder is 7 or, for a count that was never raised, 0. So there are two possible pasts for
//! each state's intercepts and for the deepest state's hits (hits of shallower states cancel out of
//! the comparison). Beyond these remainders, which stay, the last sleeps before the trace may weigh
//! for some fifty more: the deepest state may be hit as a habit, or sleeps of one length may be cut
//! short as a habit. All combinations are followed through the beginning of the trace, and the one
//! that explains the traced choices best is taken; of equals the emptiest.

use schedlab_kernel::cpuidle::{AnyGovernor, Bin, GovernorKind, STATES_MAX, State, Teo6_12};
use schedlab_machine::{CpuId, Machine};

use super::follow::Follower;
use super::period::Period;
use super::states::governor_states;
use super::survey::of_cpu;

/// What is left for ever of a metric that was once raised: `7 >> 3` is 0.
const REMAINDER: u32 = 7;
/// Periods of each CPU that are looked at.
const PERIODS_MAX: u64 = 8_192;
/// Deeper states than this are not told apart, as the number of pasts doubles with each.
const STATES_TOLD_APART: usize = 6;
/// A metric that was raised by every other sleep: half of where it saturates, at 8 pulses of 1024.
const HABIT: u32 = 4_096;
/// So often, pasts that have fallen behind are given up.
const PRUNED_EVERY: u64 = 256;
/// A past that has explained so many choices fewer than the best one has fallen behind.
const BEHIND: u64 = 16;
/// The least share of choices that a past must explain, in percent, to be believed: below it, the
/// trace was recorded under another governor.
const EXPLAINED_PCT: u64 = 90;

/// Tries the possible pasts of `teo-6.12` on every CPU.
#[derive(Debug)]
pub(super) struct MemoryFit<'a> {
    machine: &'a Machine,
    tick_ns: u64,
    tick_events: bool,
    /// Per CPU; made when the CPU is first idle, as there are many pasts.
    cpus: Vec<Option<CpuFit>>,
}

#[derive(Debug)]
struct CpuFit {
    states: Vec<State>,
    pasts: Vec<Past>,
    compared: u64,
}

#[derive(Debug)]
struct Past {
    /// Its place among [`possible_pasts`].
    number: usize,
    follower: Follower,
    agreed: u64,
}

impl CpuFit {
    fn new(machine: &Machine, cpu: CpuId, tick_ns: u64) -> Self {
        let states = governor_states(machine.idle_states(cpu));
        let past = |(number, start)| {
            let follower = Follower::new(AnyGovernor::Teo6_12(start));
            Past { number, follower, agreed: 0 }
        };
        let pasts = possible_pasts(&states, tick_ns).into_iter().enumerate().map(past).collect();
        Self { states, pasts, compared: 0 }
    }

    fn period(&mut self, period: &Period, tick_events: bool) {
        if self.compared >= PERIODS_MAX {
            return;
        }
        self.compared += u64::from(period.state.is_some());
        for past in &mut self.pasts {
            let followed = past.follower.decide(&self.states, period, tick_events);
            past.agreed += u64::from(period.state == Some(followed.choice.index));
            past.follower.learn(&self.states, period, followed.choice);
        }
        if self.compared.is_multiple_of(PRUNED_EVERY) {
            let best = self.pasts.iter().map(|past| past.agreed).max().unwrap_or(0);
            self.pasts.retain(|past| past.agreed + BEHIND >= best);
        }
    }

    /// The first of the best, as pasts are in order of how much they remember.
    fn best(&self) -> Option<&Past> {
        self.pasts.iter().rev().max_by_key(|past| past.agreed)
    }
}

impl<'a> MemoryFit<'a> {
    pub fn new(machine: &'a Machine, tick_ns: u64, tick_events: bool) -> Self {
        Self { machine, tick_ns, tick_events, cpus: Vec::new() }
    }

    /// Every past decides about the next period and learns from it.
    pub fn period(&mut self, period: &Period) {
        if period.cpu.index() >= self.machine.cpu_count() {
            return;
        }
        let (machine, tick_ns) = (self.machine, self.tick_ns);
        let Some(fit) = of_cpu(&mut self.cpus, period.cpu) else { return };
        fit.get_or_insert_with(|| CpuFit::new(machine, period.cpu, tick_ns))
            .period(period, self.tick_events);
    }

    /// The governor of each CPU as it was when the trace began; `None` if no past explains the
    /// trace.
    pub fn finish(self) -> Option<Vec<Teo6_12>> {
        let fits = || self.cpus.iter().flatten();
        let agreed: u64 = fits().filter_map(CpuFit::best).map(|past| past.agreed).sum();
        let compared: u64 = fits().map(|fit| fit.compared).sum();
        if compared == 0 || agreed * 100 < compared * EXPLAINED_PCT {
            return None;
        }
        let start = |cpu: CpuId| {
            let fit = self.cpus.get(cpu.index())?.as_ref()?;
            possible_pasts(&fit.states, self.tick_ns).into_iter().nth(fit.best()?.number)
        };
        let fresh = Teo6_12::new(self.tick_ns);
        Some(self.machine.cpu_ids().map(|cpu| start(cpu).unwrap_or(fresh)).collect())
    }
}

/// Whether a governor has a memory worth fitting.
pub(super) fn concerns(kind: Option<GovernorKind>) -> bool {
    kind == Some(GovernorKind::Teo6_12)
}

/// Every possible past, from the emptiest on.
fn possible_pasts(states: &[State], tick_ns: u64) -> Vec<Teo6_12> {
    let count = states.len().min(STATES_MAX);
    if count == 0 {
        return vec![Teo6_12::new(tick_ns)];
    }
    let extra_bin = states.last().is_some_and(|state| state.target_residency_ns < tick_ns);
    let apart = count.min(STATES_TOLD_APART);
    let mut masks: Vec<u32> = (0..1 << apart).collect();
    masks.sort_by_key(|mask| mask.count_ones());
    let mut pasts = Vec::new();
    // Remainders alone come first, so that a habit is only taken where it explains more.
    for habit in std::iter::once(None).chain((0..apart).map(Some)) {
        for hits in [0, REMAINDER, HABIT] {
            for mask in &masks {
                let mut bins = [Bin::default(); STATES_MAX];
                for (index, bin) in bins.iter_mut().take(count).enumerate() {
                    let place = index.min(apart - 1);
                    bin.intercepts = REMAINDER * (mask >> place & 1);
                    if habit == Some(place) {
                        bin.intercepts = HABIT;
                    }
                }
                let deepest = count - 1;
                bins[deepest].hits = if extra_bin { 0 } else { hits };
                let tick_hits = if extra_bin { hits } else { 0 };
                pasts.push(Teo6_12::remembering(tick_ns, bins, tick_hits));
            }
        }
    }
    pasts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::period::{Estimated, Wake};
    use schedlab_kernel::cpuidle::Governor;

    const TICK_NS: u64 = 4_000_000;

    /// A period that a timer ends: 2 ms mostly, now and then shorter.
    fn period(number: u64) -> Period {
        let slept_ns = if number.is_multiple_of(3) { 1_500_000 } else { 1_930_000 };
        let entry_ns = number * 2_000_000 + 1_000_000_000;
        Period {
            cpu: CpuId(0),
            ordinal: number,
            entry_ns,
            select_ns: entry_ns,
            enter_ns: entry_ns + 2_000,
            exit_ns: entry_ns + slept_ns + 5_000,
            reflect_ns: entry_ns + slept_ns + 6_000,
            residency_ns: slept_ns as i64 + 3_000,
            state: None,
            aborted: false,
            first: true,
            last: true,
            tick_was_stopped: false,
            tick_stopped_now: false,
            got_tick: false,
            next_tick_ns: Some(entry_ns + 3_900_000),
            next_hrtimer_ns: Some(entry_ns + slept_ns),
            next_wheel_ns: None,
            tick_needed: false,
            wake: Wake::Timer,
            cpu_util: 0,
            nr_iowait: 0,
            estimated: Estimated::default(),
            traced_miss_below: None,
        }
    }

    #[test]
    fn what_a_governor_remembered_is_found_again() {
        let machine = Machine::preset("simidle").expect("a built-in machine");
        let states = governor_states(machine.idle_states(CpuId(0)));
        // A teo that was once woken early from the third state, long ago.
        let mut bins = [Bin::default(); STATES_MAX];
        bins[3].intercepts = REMAINDER;
        let remembering = AnyGovernor::Teo6_12(Teo6_12::remembering(TICK_NS, bins, 0));
        let mut traced = Follower::new(remembering);
        let mut fresh = Follower::new(AnyGovernor::Teo6_12(Teo6_12::new(TICK_NS)));
        let mut fit = MemoryFit::new(&machine, TICK_NS, true);
        let mut fresh_agreed = 0;
        for number in 0..500 {
            let mut period = period(number);
            let followed = traced.decide(&states, &period, true);
            period.state = Some(followed.choice.index);
            traced.learn(&states, &period, followed.choice);
            let guessed = fresh.decide(&states, &period, true);
            fresh_agreed += u32::from(period.state == Some(guessed.choice.index));
            fresh.learn(&states, &period, guessed.choice);
            fit.period(&period);
        }
        assert!(fresh_agreed < 100, "the memory makes the difference: {fresh_agreed}");
        let mut found = fit.finish().expect("a past that explains the trace")[0];
        let mut hardware = schedlab_kernel::cpuidle::FixedHardware {
            sleep_ns: 1_900_000,
            delta_next_ns: 1_900_000,
            ..Default::default()
        };
        assert_eq!(found.select(&states, &mut hardware).index, 3);
    }

    #[test]
    fn a_trace_of_another_governor_is_not_explained() {
        let machine = Machine::preset("simidle").expect("a built-in machine");
        let mut fit = MemoryFit::new(&machine, TICK_NS, true);
        for number in 0..500 {
            fit.period(&Period { state: Some(number as usize % 6), ..period(number) });
        }
        assert!(fit.finish().is_none());
    }
}

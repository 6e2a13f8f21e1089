//! Idle periods added up: misses by the kernel's own rule, state shares, latency, energy.

use schedlab_machine::IdleState;

/// What the kernel counts against an idle period (`cpuidle_enter_state()`, sysfs `above` and
/// `below`, `cpu_idle_miss`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Miss {
    /// Shorter than the state's residency, and a shallower state was enabled (`above`).
    TooDeep,
    /// Long enough, exit latency taken off, for the next deeper enabled state (`below`).
    TooShallow,
}

/// The kernel's verdict on a sleep of `residency_ns`, exit latency included, in `state`.
pub fn classify(states: &[IdleState], state: usize, residency_ns: i64) -> Option<Miss> {
    let slept = states.get(state)?;
    let latency_ns = slept.governor_exit_latency_ns as i64;
    if residency_ns < slept.target_residency_ns as i64 {
        let shallower = states.get(..state)?.iter().any(|state| !state.disabled);
        return shallower.then_some(Miss::TooDeep);
    }
    if residency_ns <= latency_ns {
        return None;
    }
    let deeper = states.iter().skip(state + 1).find(|state| !state.disabled)?;
    let worth = residency_ns - latency_ns >= deeper.target_residency_ns as i64;
    worth.then_some(Miss::TooShallow)
}

/// Sums over idle periods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Periods.
    pub periods: u64,
    /// Periods that were [`Miss::TooDeep`].
    pub too_deep: u64,
    /// Periods that were [`Miss::TooShallow`].
    pub too_shallow: u64,
    /// Periods by state.
    pub by_state: Vec<u64>,
    /// Time by state, ns.
    pub time_by_state_ns: Vec<u64>,
    /// Periods after which a task ran, and so paid for the exit.
    pub task_wakes: u64,
    /// Exit latency that those tasks waited for, ns.
    pub exit_latency_ns: u64,
    /// Energy while idle, entries and exits included, fJ.
    pub energy_fj: u128,
}

impl Tally {
    /// Adds a period.
    pub fn add(&mut self, states: &[IdleState], state: usize, residency_ns: i64, task_woken: bool) {
        self.periods += 1;
        match classify(states, state, residency_ns) {
            Some(Miss::TooDeep) => self.too_deep += 1,
            Some(Miss::TooShallow) => self.too_shallow += 1,
            None => {}
        }
        let slept_ns = u64::try_from(residency_ns).unwrap_or(0);
        let Some(slept) = states.get(state) else { return };
        if self.by_state.len() < states.len() {
            self.by_state.resize(states.len(), 0);
            self.time_by_state_ns.resize(states.len(), 0);
        }
        if let (Some(count), Some(time_ns)) =
            (self.by_state.get_mut(state), self.time_by_state_ns.get_mut(state))
        {
            *count += 1;
            *time_ns = time_ns.saturating_add(slept_ns);
        }
        if task_woken {
            self.task_wakes += 1;
            self.exit_latency_ns = self.exit_latency_ns.saturating_add(slept.exit_latency_ns);
        }
        // Microwatts times nanoseconds are femtojoules; a nanojoule is a million of them.
        self.energy_fj += u128::from(slept.power_uw) * u128::from(slept_ns)
            + u128::from(slept.transition_energy_nj) * 1_000_000;
    }

    /// Sums of several tallies.
    pub fn merge(&mut self, other: &Tally) {
        self.periods += other.periods;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.task_wakes += other.task_wakes;
        self.exit_latency_ns = self.exit_latency_ns.saturating_add(other.exit_latency_ns);
        self.energy_fj += other.energy_fj;
        let states = self.by_state.len().max(other.by_state.len());
        self.by_state.resize(states, 0);
        self.time_by_state_ns.resize(states, 0);
        for (sum, count) in self.by_state.iter_mut().zip(&other.by_state) {
            *sum += count;
        }
        for (sum, time_ns) in self.time_by_state_ns.iter_mut().zip(&other.time_by_state_ns) {
            *sum = sum.saturating_add(*time_ns);
        }
    }

    /// Idle time, ns.
    pub fn idle_ns(&self) -> u64 {
        self.time_by_state_ns.iter().fold(0, |sum, time| sum.saturating_add(*time))
    }

    /// Energy while idle, mJ.
    pub fn energy_mj(&self) -> f64 {
        self.energy_fj as f64 / 1e12
    }
}

/// A part of a whole in percent; 0 of nothing.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::{CpuId, Machine};

    #[test]
    fn misses_are_counted_at_the_kernels_borders() {
        let machine = Machine::preset("simidle").expect("a built-in machine");
        let states = machine.idle_states(CpuId(0));
        // C6: 600 us residency, 133 us latency; C8 is worth 5 ms.
        assert_eq!(classify(states, 4, 599_999), Some(Miss::TooDeep));
        assert_eq!(classify(states, 4, 600_000), None);
        assert_eq!(classify(states, 4, 5_132_999), None);
        assert_eq!(classify(states, 4, 5_133_000), Some(Miss::TooShallow));
        assert_eq!(classify(states, 5, i64::MAX), None);
        assert_eq!(classify(states, 0, 0), None);
        assert_eq!(classify(states, 6, 0), None);
    }

    #[test]
    fn energy_is_power_times_time_and_the_way_in_and_out() {
        let machine = Machine::preset("simidle").expect("a built-in machine");
        let states = machine.idle_states(CpuId(0));
        let mut tally = Tally::default();
        tally.add(states, 5, 10_000_000, true);
        let expected = u128::from(states[5].power_uw) * 10_000_000
            + u128::from(states[5].transition_energy_nj) * 1_000_000;
        assert_eq!((tally.energy_fj, tally.exit_latency_ns), (expected, 890_000));
    }
}

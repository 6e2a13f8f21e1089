//! Idle periods and how long each idle state was held.

use crate::Collector;
use crate::distribution::Distribution;
use crate::per_cpu::PerCpu;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind};
use std::collections::BTreeMap;

/// States beyond this number, which no driver has (`CPUIDLE_STATE_MAX` is 10), have no row, so that
/// hostile input cannot grow the tables.
pub(crate) const STATES_MAX: u32 = 63;

/// A sleep of a CPU in one idle state, both ends seen (`cpu_idle` in and out).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePeriod {
    /// The CPU.
    pub cpu: CpuId,
    /// Index of the idle state.
    pub state: u32,
    /// Timestamp of the entry, ns.
    pub enter_ns: u64,
    /// Timestamp of the exit, ns.
    pub exit_ns: u64,
}

impl IdlePeriod {
    /// How long it lasted, ns.
    pub fn duration_ns(&self) -> u64 {
        self.exit_ns.saturating_sub(self.enter_ns)
    }
}

/// Pairs entries with exits.
#[derive(Debug, Default)]
pub struct IdlePeriods {
    open: PerCpu<Option<(u32, u64)>>,
}

impl IdlePeriods {
    /// Takes the next event; the period that it ends, if it ends one. An entry during a period (its
    /// exit was not recorded) and lost events discard the open one.
    pub fn push(&mut self, event: &Event) -> Option<IdlePeriod> {
        match event.kind {
            EventKind::IdleEnter { cpu, state } => {
                *self.open.get_mut(cpu)? = Some((state, event.timestamp_ns));
                None
            }
            EventKind::IdleExit { cpu } => {
                let (state, enter_ns) = self.open.get_mut(cpu)?.take()?;
                Some(IdlePeriod { cpu, state, enter_ns, exit_ns: event.timestamp_ns })
            }
            EventKind::Lost { .. } => {
                *self.open.get_mut(event.cpu)? = None;
                None
            }
            _ => None,
        }
    }

    /// The states that CPUs are still in at the end, with their entry times.
    pub(crate) fn into_open(self) -> impl Iterator<Item = (CpuId, u32, u64)> {
        let open = self.open.into_iter();
        open.filter_map(|(cpu, open)| open.map(|(state, enter_ns)| (cpu, state, enter_ns)))
    }
}

/// How long a CPU held an idle state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidencyRow {
    /// The CPU.
    pub cpu: CpuId,
    /// Index of the idle state.
    pub state: u32,
    /// Entries.
    pub entries: u64,
    /// Time in the state, ns; a period that the trace's end cuts counts up to there.
    pub residency_ns: u64,
    /// The durations of whole periods; `None` where there is none.
    pub durations: Option<Distribution>,
}

/// Collects idle residency.
#[derive(Debug, Default)]
pub struct Residency {
    periods: IdlePeriods,
    sums: BTreeMap<(CpuId, u32), (u64, Vec<u64>)>,
}

impl Residency {
    /// Takes the next event, and hands on the idle period that it ends.
    pub fn take(&mut self, event: &Event) -> Option<IdlePeriod> {
        if let EventKind::IdleEnter { cpu, state } = event.kind
            && cpu.index() < schedlab_machine::CPUS_MAX
            && state <= STATES_MAX
        {
            self.sums.entry((cpu, state)).or_default().0 += 1;
        }
        let period = self.periods.push(event)?;
        if let Some((_, durations_ns)) = self.sums.get_mut(&(period.cpu, period.state)) {
            durations_ns.push(period.duration_ns());
        }
        Some(period)
    }

    /// Rows by CPU and state, up to `end_ns`, the last timestamp of the trace.
    pub fn finish(self, end_ns: u64) -> Vec<ResidencyRow> {
        let mut cut: BTreeMap<(CpuId, u32), u64> = BTreeMap::new();
        for (cpu, state, enter_ns) in self.periods.into_open() {
            cut.insert((cpu, state), end_ns.saturating_sub(enter_ns));
        }
        let rows = self.sums.into_iter().map(|(place, (entries, mut durations_ns))| ResidencyRow {
            cpu: place.0,
            state: place.1,
            entries,
            residency_ns: durations_ns.iter().sum::<u64>() + cut.get(&place).copied().unwrap_or(0),
            durations: Distribution::of(&mut durations_ns),
        });
        rows.collect()
    }
}

impl Collector for Residency {
    fn push(&mut self, event: &Event) {
        self.take(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, enter, exit};

    #[test]
    fn sums_reach_to_the_end_and_durations_need_both_ends() {
        let mut residency = Residency::default();
        let events = [
            at(5, 0, exit(0)),
            at(10, 0, enter(0, 2)),
            at(40, 0, exit(0)),
            at(50, 0, enter(0, 2)),
            at(60, 1, enter(1, 0)),
            at(70, 1, exit(1)),
        ];
        let periods: Vec<_> = events.iter().filter_map(|event| residency.take(event)).collect();
        assert_eq!(periods.iter().map(IdlePeriod::duration_ns).collect::<Vec<_>>(), [30, 10]);
        let rows = residency.finish(100);
        let times: Vec<_> =
            rows.iter().map(|row| (row.cpu.0, row.state, row.entries, row.residency_ns)).collect();
        assert_eq!(times, [(0, 2, 2, 80), (1, 0, 1, 10)]);
        assert_eq!(rows[0].durations.unwrap().count, 1);
    }

    #[test]
    fn lost_events_and_a_missing_exit_discard_the_open_period() {
        let mut periods = IdlePeriods::default();
        let events = [
            at(10, 0, enter(0, 1)),
            at(20, 0, EventKind::Lost { count: 0 }),
            at(30, 0, exit(0)),
            at(40, 0, enter(0, 1)),
            at(50, 0, enter(0, 3)),
            at(60, 0, exit(0)),
        ];
        let found: Vec<_> = events.iter().filter_map(|event| periods.push(event)).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].state, found[0].duration_ns()), (3, 10));
    }
}

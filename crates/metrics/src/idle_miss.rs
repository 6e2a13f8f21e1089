//! Idle misses, as the kernel counts them, and what they cost.
//!
//! The rule is that of `cpuidle_enter_state()` (`drivers/cpuidle/cpuidle.c`, the same in v6.1 and
//! v6.12), which feeds `above` and `below` in sysfs and the `cpu_idle_miss` event. The kernel
//! measures a sleep between its two `cpu_idle` events, so the duration that a trace shows is longer
//! than the measured one by what it takes to record them: a sleep within that of a threshold can
//! be judged differently. Where a trace has `cpu_idle_miss`, both counts are given.

use crate::Collector;
use crate::idle::{IdlePeriod, IdlePeriods};
use crate::occupant::Occupant;
use crate::per_cpu::PerCpu;
use crate::task_table::TaskTable;
use schedlab_machine::{CpuId, IdleState, Machine};
pub use schedlab_machine::{Verdict, verdict};
use schedlab_trace::{Event, EventKind, Pid, StrId};
use std::collections::BTreeMap;

/// The deepest enabled state for which a missed sleep would have been long enough, or the
/// shallowest enabled one: what the verdict compares with.
fn fitting(states: &[IdleState], entered: usize, duration_ns: u64, verdict: Verdict) -> usize {
    let asleep_ns = match verdict {
        Verdict::TooDeep => duration_ns,
        _ => duration_ns.saturating_sub(states[entered].governor_exit_latency_ns),
    };
    let enabled = || states.iter().enumerate().filter(|(_, state)| !state.disabled);
    let fits = enabled().rfind(|(_, state)| state.target_residency_ns <= asleep_ns);
    fits.or_else(|| enabled().next()).map_or(entered, |(index, _)| index)
}

/// Counts and costs of misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Sleeps with a verdict.
    pub periods: u64,
    /// Those too short for their state.
    pub too_deep: u64,
    /// Those long enough for a deeper state.
    pub too_shallow: u64,
    /// What too deep sleeps added to wakeups, ns: the exit latency of the state less that of the
    /// state that would have fitted.
    pub extra_exit_latency_ns: u64,
    /// How long CPUs lay too shallow, ns: the duration of those sleeps.
    pub shallow_ns: u64,
    /// What misses of both kinds cost over the fitting state by the machine's powers and transition
    /// energies, femtojoules. Negative where these contradict the states' residencies.
    pub excess_energy_fj: i128,
    /// `cpu_idle_miss` events that say too deep (`above`).
    pub kernel_too_deep: u64,
    /// `cpu_idle_miss` events that say too shallow (`below`).
    pub kernel_too_shallow: u64,
    /// Sleeps in a state that the machine's table does not have; they have no verdict.
    pub unknown_state: u64,
}

impl Misses {
    /// Adds the counts and costs of `other`.
    pub fn add(&mut self, other: &Misses) {
        self.periods += other.periods;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.extra_exit_latency_ns += other.extra_exit_latency_ns;
        self.shallow_ns += other.shallow_ns;
        self.excess_energy_fj += other.excess_energy_fj;
        self.kernel_too_deep += other.kernel_too_deep;
        self.kernel_too_shallow += other.kernel_too_shallow;
        self.unknown_state += other.unknown_state;
    }

    /// Of one sleep.
    pub fn of(states: &[IdleState], period: &IdlePeriod) -> Misses {
        let (entered, duration_ns) = (period.state as usize, period.duration_ns());
        let Some(verdict) = verdict(states, entered, duration_ns) else {
            return Misses { unknown_state: 1, ..Misses::default() };
        };
        if verdict == Verdict::Fits {
            return Misses { periods: 1, ..Misses::default() };
        }
        let (was, fitting) =
            (&states[entered], &states[fitting(states, entered, duration_ns, verdict)]);
        let energy_fj = |state: &IdleState| {
            i128::from(state.power_uw) * i128::from(duration_ns)
                + i128::from(state.transition_energy_nj) * 1_000_000
        };
        let excess_energy_fj = energy_fj(was) - energy_fj(fitting);
        match verdict {
            Verdict::TooDeep => Misses {
                periods: 1,
                too_deep: 1,
                extra_exit_latency_ns: was.exit_latency_ns.saturating_sub(fitting.exit_latency_ns),
                excess_energy_fj,
                ..Misses::default()
            },
            _ => Misses {
                periods: 1,
                too_shallow: 1,
                shallow_ns: duration_ns,
                excess_energy_fj,
                ..Misses::default()
            },
        }
    }
}

/// The misses of one state of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRow {
    /// The CPU.
    pub cpu: CpuId,
    /// Index of the idle state.
    pub state: u32,
    /// Counts and costs.
    pub misses: Misses,
}

/// The misses before wakeups of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Thread id; `None` for sleeps after which no task ran before the CPU slept again.
    pub pid: Option<Pid>,
    /// The task's last name.
    pub comm: StrId,
    /// Counts and costs.
    pub misses: Misses,
}

/// Collects idle misses per CPU and state, and per task that was woken: the first task that the
/// CPU runs after the sleep and before its next one.
#[derive(Debug)]
pub struct IdleMisses<'a> {
    machine: Option<&'a Machine>,
    periods: IdlePeriods,
    table: TaskTable,
    states: BTreeMap<(CpuId, u32), Misses>,
    tasks: Vec<Misses>,
    no_task: Misses,
    awake: PerCpu<Option<Misses>>,
}

impl<'a> IdleMisses<'a> {
    /// A collector that judges by the idle states of `machine`; without one, only the kernel's own
    /// `cpu_idle_miss` events are counted.
    pub fn new(machine: Option<&'a Machine>) -> IdleMisses<'a> {
        IdleMisses {
            machine,
            periods: IdlePeriods::default(),
            table: TaskTable::default(),
            states: BTreeMap::new(),
            tasks: Vec::new(),
            no_task: Misses::default(),
            awake: PerCpu::default(),
        }
    }

    /// Rows by CPU and state, and rows by task in the order of first sight, the one without a task
    /// last. Only rows that count something.
    pub fn finish(mut self) -> (Vec<StateRow>, Vec<TaskRow>) {
        for misses in self.awake.iter_mut().filter_map(Option::take) {
            self.no_task.add(&misses);
        }
        let states = self.states.into_iter();
        let states = states.map(|((cpu, state), misses)| StateRow { cpu, state, misses }).collect();
        let named = self.table.tasks().iter().zip(&self.tasks).map(|(info, &misses)| TaskRow {
            pid: Some(info.pid),
            comm: info.comm,
            misses,
        });
        let no_task = TaskRow { pid: None, comm: StrId::EMPTY, misses: self.no_task };
        let counts = |row: &TaskRow| row.misses != Misses::default();
        (states, named.chain([no_task]).filter(counts).collect())
    }

    fn ended(&mut self, period: &IdlePeriod) {
        let Some(machine) = self.machine else { return };
        let states = match period.cpu.index() < machine.cpu_count() {
            true => machine.idle_states(period.cpu),
            false => &[],
        };
        self.count(period.cpu, period.state, &Misses::of(states, period));
    }

    fn count(&mut self, cpu: CpuId, state: u32, misses: &Misses) {
        let Some(awake) = self.awake.get_mut(cpu) else { return };
        awake.get_or_insert_default().add(misses);
        if state <= crate::idle::STATES_MAX {
            self.states.entry((cpu, state)).or_default().add(misses);
        }
    }

    /// The CPU's wake-up is over: whom was it for?
    fn woke(&mut self, cpu: CpuId, whom: Occupant) {
        let Some(misses) = self.awake.get_mut(cpu).and_then(Option::take) else { return };
        match whom.task() {
            Some(id) => {
                if id.index() >= self.tasks.len() {
                    self.tasks.resize(id.index() + 1, Misses::default());
                }
                self.tasks[id.index()].add(&misses);
            }
            None => self.no_task.add(&misses),
        }
    }
}

impl Collector for IdleMisses<'_> {
    fn push(&mut self, event: &Event) {
        let (_, came) = self.table.follow(&event.kind);
        match event.kind {
            EventKind::IdleEnter { cpu, .. } => self.woke(cpu, Occupant::Idle),
            EventKind::Lost { .. } => self.woke(event.cpu, Occupant::Unknown),
            EventKind::IdleMiss { cpu, state, below } => {
                let (kernel_too_deep, kernel_too_shallow) = (u64::from(!below), u64::from(below));
                let misses = Misses { kernel_too_deep, kernel_too_shallow, ..Misses::default() };
                self.count(cpu, state, &misses);
            }
            EventKind::Switch { next, .. } if came.is_some() => {
                self.woke(event.cpu, Occupant::new(next.pid, came));
            }
            _ => {}
        }
        if let Some(period) = self.periods.push(event) {
            self.ended(&period);
        }
    }
}

#[cfg(test)]
#[path = "idle_miss_tests.rs"]
mod tests;

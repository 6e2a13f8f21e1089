//! Rows of figures as Arrow tables. Column names carry their units.

use crate::table::{Columns, Table};
use pyo3::PyResult;
use schedlab_machine::{CpuId, Machine};
use schedlab_metrics::Distribution;
use schedlab_metrics::cpus::CpuFigures;
use schedlab_metrics::frequency::FrequencyRow;
use schedlab_metrics::idle::ResidencyRow;
use schedlab_metrics::idle_miss::{Misses, StateRow, TaskRow as TaskMissRow};
use schedlab_metrics::latency::{LatencyRow, TaskLatencies};
use schedlab_metrics::tasks::{TaskFigures, TaskRow};
use schedlab_trace::{Pid, StrId, Strings, Summary};

/// The names of a trace's tasks.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    strings: &'a Strings,
    summary: &'a Summary,
}

impl<'a> Names<'a> {
    pub fn new(strings: &'a Strings, summary: &'a Summary) -> Names<'a> {
        Names { strings, summary }
    }

    fn text(self, comm: StrId) -> &'a str {
        self.strings.get(comm)
    }

    /// A task that no event names may have a name that the file keeps beside its events.
    fn task(self, pid: Pid, comm: StrId) -> &'a str {
        let kept = || self.summary.task_names.get(&pid).copied().unwrap_or_default();
        self.text(if comm == StrId::EMPTY { kept() } else { comm })
    }
}

pub fn latency(rows: &[LatencyRow], names: Names<'_>) -> PyResult<Table> {
    let us = |pick: fn(&Distribution) -> f64| rows.iter().map(move |row| pick(&row.latency) / 1e3);
    Columns::default()
        .text("comm", rows.iter().map(|row| names.text(row.comm)))
        .i32("pid", rows.iter().map(|row| row.pid.map(|pid| pid.0)))
        .u64("tasks", rows.iter().map(|row| row.tasks))
        .u64("count", rows.iter().map(|row| row.latency.count))
        .f64("gmean_us", us(|latency| latency.gmean_ns))
        .f64("mean_us", us(|latency| latency.mean_ns))
        .f64("p50_us", us(|latency| latency.p50_ns))
        .f64("p90_us", us(|latency| latency.p90_ns))
        .f64("p99_us", us(|latency| latency.p99_ns))
        .f64("max_us", us(|latency| latency.max_ns as f64))
        .table()
}

pub fn latencies(tasks: &[TaskLatencies], names: Names<'_>) -> PyResult<Table> {
    let each = || tasks.iter().flat_map(|task| task.latencies_ns.iter().map(move |ns| (task, *ns)));
    Columns::default()
        .text("comm", each().map(|(task, _)| names.text(task.comm)))
        .i32("pid", each().map(|(task, _)| task.pid.0))
        .u64("latency_ns", each().map(|(_, latency_ns)| latency_ns))
        .table()
}

pub fn tasks(rows: &[TaskRow], names: Names<'_>) -> PyResult<Table> {
    let of = |pick: fn(&TaskFigures) -> u64| rows.iter().map(move |row| pick(&row.figures));
    let earlier = |row: &TaskRow| row.info.earlier_comms.clone().into_iter();
    Columns::default()
        .text("comm", rows.iter().map(|row| names.task(row.info.pid, row.info.comm)))
        .i32("pid", rows.iter().map(|row| row.info.pid.0))
        .u64("run_ns", of(|task| task.run_ns))
        .u64("runnable_ns", of(|task| task.runnable_ns))
        .u64("sleep_ns", of(|task| task.sleep_ns))
        .u64("blocked_ns", of(|task| task.blocked_ns))
        .u64("unknown_ns", of(|task| task.unknown_ns))
        .u64("wakeups", of(|task| task.wakeups))
        .u64("switches", of(|task| task.switches))
        .u64("preemptions", of(|task| task.preemptions))
        .u64("voluntary", of(|task| task.voluntary))
        .u64("migrations", of(|task| task.migrations))
        .u64("cpu_changes", of(|task| task.cpu_changes))
        .u32s("cpus", rows.iter().map(|row| row.figures.cpus.iter().map(|cpu| cpu.0)))
        .u64("first_seen_ns", of(|task| task.first_seen_ns))
        .u64("last_seen_ns", of(|task| task.last_seen_ns))
        .texts("earlier_comms", rows.iter().map(|row| earlier(row).map(|id| names.text(id))))
        .table()
}

pub fn cpus(rows: &[CpuFigures]) -> PyResult<Table> {
    let of = |pick: fn(&CpuFigures) -> u64| rows.iter().map(pick);
    Columns::default()
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u64("busy_ns", of(|cpu| cpu.busy_ns))
        .u64("idle_ns", of(|cpu| cpu.idle_ns))
        .u64("unknown_ns", of(|cpu| cpu.unknown_ns))
        .u64("irq_ns", of(|cpu| cpu.irq_ns))
        .u64("softirq_ns", of(|cpu| cpu.softirq_ns))
        .u64("switches", of(|cpu| cpu.switches))
        .u64("idle_entries", of(|cpu| cpu.idle_entries))
        .u64("interrupts", of(|cpu| cpu.interrupts))
        .u64("softirqs", of(|cpu| cpu.softirqs))
        .table()
}

pub fn frequencies(rows: &[FrequencyRow]) -> PyResult<Table> {
    Columns::default()
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u32("frequency_khz", rows.iter().map(|row| row.frequency_khz))
        .u64("residency_ns", rows.iter().map(|row| row.residency_ns))
        .u64("changes", rows.iter().map(|row| row.changes))
        .table()
}

pub fn residency(rows: &[ResidencyRow], machine: Option<&Machine>) -> PyResult<Table> {
    let us = |pick: fn(&Distribution) -> f64| {
        rows.iter().map(move |row| row.durations.as_ref().map(|durations| pick(durations) / 1e3))
    };
    Columns::default()
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u32("state", rows.iter().map(|row| row.state))
        .text("name", rows.iter().map(|row| state_name(machine, row.cpu, row.state)))
        .u64("entries", rows.iter().map(|row| row.entries))
        .u64("residency_ns", rows.iter().map(|row| row.residency_ns))
        .f64("mean_us", us(|durations| durations.mean_ns))
        .f64("p50_us", us(|durations| durations.p50_ns))
        .f64("max_us", us(|durations| durations.max_ns as f64))
        .table()
}

pub fn state_misses(rows: &[StateRow], machine: Option<&Machine>, known: Known) -> PyResult<Table> {
    let columns = Columns::default()
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u32("state", rows.iter().map(|row| row.state))
        .text("name", rows.iter().map(|row| state_name(machine, row.cpu, row.state)));
    let misses: Vec<_> = rows.iter().map(|row| row.misses).collect();
    counts(columns, &misses, known).table()
}

pub fn task_misses(rows: &[TaskMissRow], known: Known, names: Names<'_>) -> PyResult<Table> {
    let comm = |row: &TaskMissRow| row.pid.map(|_| row.comm);
    let columns = Columns::default()
        .text("comm", rows.iter().map(|row| comm(row).map(|id| names.text(id))))
        .i32("pid", rows.iter().map(|row| row.pid.map(|pid| pid.0)));
    let misses: Vec<_> = rows.iter().map(|row| row.misses).collect();
    counts(columns, &misses, known).table()
}

/// Which counts of misses there are; the columns of the others are null.
#[derive(Clone, Copy)]
pub struct Known {
    /// A machine's idle states gave verdicts.
    pub judged: bool,
    /// The trace has `cpu_idle_miss` events.
    pub kernel: bool,
}

fn counts(columns: Columns, rows: &[Misses], known: Known) -> Columns {
    let Known { judged, kernel } = known;
    let of = |pick: fn(&Misses) -> u64| rows.iter().map(move |row| judged.then(|| pick(row)));
    let us = |pick: fn(&Misses) -> u64| {
        rows.iter().map(move |row| judged.then(|| pick(row) as f64 / 1e3))
    };
    let excess_mj = |row: &Misses| judged.then(|| row.excess_energy_fj as f64 / 1e12);
    columns
        .u64("periods", of(|row| row.periods))
        .u64("too_deep", of(|row| row.too_deep))
        .u64("too_shallow", of(|row| row.too_shallow))
        .f64("extra_exit_latency_us", us(|row| row.extra_exit_latency_ns))
        .f64("shallow_us", us(|row| row.shallow_ns))
        .f64("excess_energy_mj", rows.iter().map(excess_mj))
        .u64("kernel_too_deep", rows.iter().map(|row| kernel.then_some(row.kernel_too_deep)))
        .u64("kernel_too_shallow", rows.iter().map(|row| kernel.then_some(row.kernel_too_shallow)))
        .u64("unknown_state", of(|row| row.unknown_state))
}

fn state_name(machine: Option<&Machine>, cpu: CpuId, state: u32) -> Option<&str> {
    let machine = machine.filter(|machine| cpu.index() < machine.cpu_count())?;
    machine.idle_states(cpu).get(state as usize).map(|state| state.name.as_str())
}

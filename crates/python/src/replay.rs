//! Replayed traces for Python: idle governors and rebuilt PELT.

use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use schedlab_kernel::cpuidle::Candidate;
use schedlab_replay::idle::{
    GovernorReport, IdleReport, IdleRequest, Period, PeriodRow, ReplayError as Error, Tally, Wake,
    percent, replay_idle,
};
use schedlab_replay::pelt::{Invariance, PeltCheck, PeltReport, SignalKind, check_pelt};

use crate::machine::Machine;
use crate::own::Chosen;
use crate::reading::{self, Pulse};
use crate::table::{Columns, Table};

create_exception!(schedlab, ReplayError, PyValueError, "A trace and a machine do not fit.");

/// A governor's decision about a period, kept for a table.
struct Row {
    period: Period,
    governor: String,
    sleep_ns: i64,
    delta_next_ns: i64,
    inferred: bool,
    chosen: usize,
    stop_tick: bool,
    details: String,
    why: Option<String>,
}

/// The period that is to be explained: a CPU, and the period's number there or a time within it.
#[derive(Clone, Copy)]
struct Explained {
    cpu: u32,
    ordinal: Option<u64>,
    time_ns: Option<u64>,
}

impl Explained {
    fn is(&self, period: &Period) -> bool {
        period.cpu.0 == self.cpu
            && self.ordinal.is_none_or(|ordinal| ordinal == period.ordinal)
            && self.time_ns.is_none_or(|ns| (period.entry_ns..=period.exit_ns).contains(&ns))
    }
}

impl Row {
    fn of(row: &PeriodRow<'_>, explain: bool) -> Self {
        let details: Vec<String> = row.details.iter().map(ToString::to_string).collect();
        Self {
            period: *row.period,
            governor: row.name.to_owned(),
            sleep_ns: row.sleep.sleep_ns,
            delta_next_ns: row.sleep.delta_next_ns,
            inferred: row.inferred,
            chosen: row.choice.index,
            stop_tick: row.choice.stop_tick,
            details: details.join(", "),
            why: explain.then(|| row.why().join("\n")),
        }
    }
}

fn refusal(error: Error) -> PyErr {
    match error {
        Error::Trace(error) => reading::refusal(error),
        other => ReplayError::new_err(other.to_string()),
    }
}

/// Replays the idle periods of a file; a report and, if asked for, a row per period and governor.
#[pyfunction]
#[pyo3(signature = (path, machine, governors, *, tick_ns, rows, explain=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "each is one part of what is asked for")]
fn idle_replay<'py>(
    py: Python<'py>,
    path: PathBuf,
    machine: &Machine,
    governors: Vec<Bound<'py, PyAny>>,
    tick_ns: Option<u64>,
    rows: bool,
    explain: Option<(u32, Option<u64>, Option<u64>)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, Option<Table>)> {
    let chosen = governors.iter().map(Chosen::read).collect::<PyResult<Vec<_>>>()?;
    let machine = &machine.inner;
    let (report, kept) = py.detach(|| {
        let governors: Vec<Candidate<'_>> = chosen.iter().map(Chosen::candidate).collect();
        let request = IdleRequest { machine, governors: &governors, tick_ns };
        let mut kept = Vec::new();
        let explain = explain.map(|(cpu, ordinal, time_ns)| Explained { cpu, ordinal, time_ns });
        let mut keep = |row: &PeriodRow<'_>| {
            if explain.is_none_or(|explained| explained.is(row.period)) {
                kept.push(Row::of(row, explain.is_some()));
            }
        };
        let mut pulse = Pulse::new(progress.as_ref());
        let replayed = replay_idle(
            &mut || schedlab_trace::open(&path),
            &request,
            rows.then_some(&mut keep),
            &mut |done, total| pulse.beat(done, total),
        );
        pulse.end()?;
        let replayed = replayed.map_err(|error| match error {
            // A user's own governor has more to say than its message.
            Error::Governor(_) => chosen.iter().find_map(Chosen::failure).unwrap_or(refusal(error)),
            other => refusal(other),
        });
        Ok::<_, PyErr>((replayed?, kept))
    })?;
    let table = rows.then(|| table(&kept)).transpose()?;
    Ok((report_dict(py, &report)?, table))
}

fn table(rows: &[Row]) -> PyResult<Table> {
    let periods = || rows.iter().map(|row| &row.period);
    let state = |period: &Period| period.state.and_then(|state| u32::try_from(state).ok());
    let columns = Columns::default()
        .text("governor", rows.iter().map(|row| row.governor.as_str()))
        .u32("cpu", periods().map(|period| period.cpu.0))
        .u64("period", periods().map(|period| period.ordinal))
        .u64("entry_ns", periods().map(|period| period.entry_ns))
        .u64("select_ns", periods().map(|period| period.select_ns))
        .u64("enter_ns", periods().map(|period| period.enter_ns))
        .u64("exit_ns", periods().map(|period| period.exit_ns))
        .i64("residency_ns", periods().map(|period| period.residency_ns))
        .i64("sleep_length_ns", rows.iter().map(|row| row.sleep_ns))
        .i64("delta_next_ns", rows.iter().map(|row| row.delta_next_ns))
        .u64("next_tick_ns", periods().map(|period| period.next_tick_ns))
        .u64("next_hrtimer_ns", periods().map(|period| period.next_hrtimer_ns))
        .u64("next_wheel_ns", periods().map(|period| period.next_wheel_ns))
        .boolean("tick_was_stopped", periods().map(|period| period.tick_was_stopped))
        .boolean("tick_stopped_now", periods().map(|period| period.tick_stopped_now))
        .boolean("tick_needed", periods().map(|period| period.tick_needed))
        .boolean("got_tick", periods().map(|period| period.got_tick))
        .text("wake", periods().map(|period| period.wake.name()))
        .boolean("task_followed", periods().map(|period| period.last))
        .boolean("aborted", periods().map(|period| period.aborted))
        .u64("cpu_util", periods().map(|period| period.cpu_util))
        .u32("nr_iowait", periods().map(|period| period.nr_iowait))
        .boolean("estimated", rows.iter().map(|row| row.period.estimated.any() || row.inferred))
        .boolean("inferred", rows.iter().map(|row| row.inferred))
        .text("memory", rows.iter().map(|row| row.details.as_str()))
        .u32("traced_state", periods().map(state))
        .u32("chosen_state", rows.iter().map(|row| u32::try_from(row.chosen).ok()))
        .boolean("stop_tick", rows.iter().map(|row| row.stop_tick));
    if rows.iter().any(|row| row.why.is_some()) {
        return columns.text("why", rows.iter().map(|row| row.why.as_deref())).table();
    }
    columns.table()
}

fn report_dict<'py>(py: Python<'py>, report: &IdleReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("tick_ns", report.tick_ns)?;
    dict.set_item("event_cost_ns", report.event_cost_ns)?;
    dict.set_item("duration_s", report.duration_ns as f64 / 1e9)?;
    let wakes = PyDict::new(py);
    for (wake, count) in Wake::ALL.into_iter().zip(report.wakes) {
        wakes.set_item(wake.name(), count)?;
    }
    dict.set_item("wakes", wakes)?;
    let coverage = PyDict::new(py);
    coverage.set_item("cpu_idle", report.coverage.cpu_idle)?;
    coverage.set_item("hrtimer", report.coverage.hrtimer)?;
    coverage.set_item("tick_stop", report.coverage.tick_stop)?;
    coverage.set_item("softirq", report.coverage.softirq)?;
    dict.set_item("coverage", coverage)?;
    let [too_deep, too_shallow] = report.traced_miss_events;
    let traced = tally_dict(py, &report.traced)?;
    traced.set_item("kernel_too_deep", too_deep)?;
    traced.set_item("kernel_too_shallow", too_shallow)?;
    dict.set_item("traced", traced)?;
    let governors = report.governors.iter().map(|governor| governor_dict(py, governor));
    dict.set_item("governors", PyList::new(py, governors.collect::<PyResult<Vec<_>>>()?)?)?;
    Ok(dict)
}

fn governor_dict<'py>(py: Python<'py>, report: &GovernorReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = tally_dict(py, &report.tally)?;
    dict.set_item("governor", &report.name)?;
    dict.set_item("source", &report.source)?;
    dict.set_item("agreement_pct", (report.compared > 0).then(|| report.agreement_pct()))?;
    dict.set_item("agreed", report.agreed)?;
    dict.set_item("compared", report.compared)?;
    dict.set_item("estimated_pct", report.estimated_pct())?;
    dict.set_item("estimated", report.estimated)?;
    dict.set_item("inferred", report.inferred)?;
    dict.set_item("memory_inferred", report.memory_inferred)?;
    Ok(dict)
}

fn tally_dict<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let per_wake_us = |total_ns: u64| match tally.task_wakes {
        0 => 0.0,
        wakes => total_ns as f64 / 1e3 / wakes as f64,
    };
    dict.set_item("periods", tally.periods)?;
    dict.set_item("too_deep", tally.too_deep)?;
    dict.set_item("too_shallow", tally.too_shallow)?;
    dict.set_item("too_deep_pct", percent(tally.too_deep, tally.periods))?;
    dict.set_item("too_shallow_pct", percent(tally.too_shallow, tally.periods))?;
    let shares: Vec<f64> =
        tally.by_state.iter().map(|count| percent(*count, tally.periods)).collect();
    dict.set_item("state_share_pct", shares)?;
    let idle_ns = tally.idle_ns();
    let times: Vec<f64> =
        tally.time_by_state_ns.iter().map(|time_ns| percent(*time_ns, idle_ns)).collect();
    dict.set_item("state_time_pct", times)?;
    dict.set_item("task_wakes", tally.task_wakes)?;
    dict.set_item("exit_latency_us", per_wake_us(tally.exit_latency_ns))?;
    dict.set_item("exit_latency_total_us", tally.exit_latency_ns as f64 / 1e3)?;
    dict.set_item("idle_s", idle_ns as f64 / 1e9)?;
    dict.set_item("idle_energy_mj", tally.energy_mj())?;
    Ok(dict)
}

/// Rebuilds PELT from a file's switches and compares it with the kernel's values in it.
#[pyfunction]
#[pyo3(signature = (path, machine, *, invariance, rows, progress=None))]
fn pelt_check<'py>(
    py: Python<'py>,
    path: PathBuf,
    machine: Option<&Machine>,
    invariance: Option<&str>,
    rows: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, Option<Table>)> {
    let invariance = match invariance {
        None => None,
        Some("clock") => Some(Invariance::Clock),
        Some("contribution") => Some(Invariance::Contribution),
        Some(other) => {
            let message = format!("invariance is {other:?}; it is \"clock\" or \"contribution\"");
            return Err(PyValueError::new_err(message));
        }
    };
    let machine = machine.map(|machine| &machine.inner);
    let (report, mut kept) = py.detach(|| {
        let mut kept = Vec::new();
        let mut keep = |check: &PeltCheck| {
            if rows {
                kept.push(*check);
            }
        };
        let mut pulse = Pulse::new(progress.as_ref());
        let mut source = schedlab_trace::open(&path).map_err(reading::refusal)?;
        let mut beat = |done, total| pulse.beat(done, total);
        let checked = check_pelt(source.as_mut(), machine, invariance, &mut keep, &mut beat);
        pulse.end()?;
        Ok::<_, PyErr>((checked.map_err(reading::refusal)?, kept))
    })?;
    kept.retain(|check| check.invariance == report.invariance);
    let table = rows.then(|| checks_table(&kept)).transpose()?;
    Ok((pelt_dict(py, &report)?, table))
}

fn checks_table(checks: &[PeltCheck]) -> PyResult<Table> {
    Columns::default()
        .u64("timestamp_ns", checks.iter().map(|check| check.timestamp_ns))
        .text("signal", checks.iter().map(|check| check.kind.name()))
        .i64("id", checks.iter().map(|check| check.id))
        .u64("kernel", checks.iter().map(|check| check.kernel))
        .u64("rebuilt", checks.iter().map(|check| check.rebuilt))
        .boolean("known", checks.iter().map(|check| check.known))
        .table()
}

fn pelt_dict<'py>(py: Python<'py>, report: &PeltReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("invariance", report.invariance.name())?;
    for kind in SignalKind::ALL {
        let errors = report.errors(kind);
        let signal = PyDict::new(py);
        signal.set_item("compared", errors.count())?;
        signal.set_item("unknown", report.unknown(kind))?;
        signal.set_item("median", errors.quantile(500))?;
        signal.set_item("p90", errors.quantile(900))?;
        signal.set_item("p99", errors.quantile(990))?;
        signal.set_item("max", errors.max())?;
        let histogram = PyDict::new(py);
        for (error, count) in errors.histogram() {
            histogram.set_item(error, count)?;
        }
        signal.set_item("histogram", histogram)?;
        dict.set_item(kind.name(), signal)?;
    }
    Ok(dict)
}

/// Adds this module's functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(idle_replay, module)?)?;
    module.add_function(wrap_pyfunction!(pelt_check, module)?)?;
    module.add("ReplayError", module.py().get_type::<ReplayError>())
}

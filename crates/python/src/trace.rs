//! Traces for Python.

use crate::machine::Machine;
use crate::reading::{self, TraceError};
use crate::stored::Stored;
use crate::table::Table;
use crate::timeline_tables;
use crate::trace_tables::{self, Known, Names};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use schedlab_metrics::Collector;
use schedlab_metrics::cpus::Cpus;
use schedlab_metrics::frequency::Frequencies;
use schedlab_metrics::idle::Residency;
use schedlab_metrics::idle_miss::IdleMisses;
use schedlab_metrics::latency::{self, From, WakeupLatency};
use schedlab_metrics::missing::Watch;
use schedlab_metrics::tasks::Tasks;
use schedlab_metrics::timeline::Timeline;
use schedlab_sim::RecordedTrace;
use schedlab_trace::write::{EventRows, Format};
use schedlab_trace::{Event, EventSource, Strings, Summary, TraceError as Error};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Rows of a batch of the event table.
const EVENT_ROWS: usize = 1 << 17;

/// A trace file, and its events where they are kept in memory.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct Trace {
    path: PathBuf,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) whole: OnceLock<Whole>,
    progress: Option<Py<PyAny>>,
}

/// What is known once the file has been read to its end.
pub(crate) struct Whole {
    pub(crate) summary: Summary,
    pub(crate) strings: Strings,
}

impl Whole {
    fn names(&self) -> Names<'_> {
        Names::new(&self.strings, &self.summary)
    }

    fn span_ns(&self) -> (u64, u64) {
        self.summary.time_span_ns.unwrap_or_default()
    }
}

/// Keeps every event.
#[derive(Default)]
struct Keep(Vec<Event>);

impl Collector for Keep {
    fn push(&mut self, event: &Event) {
        self.0.push(*event);
    }
}

/// Keeps none.
struct Nothing;

impl Collector for Nothing {
    fn push(&mut self, _: &Event) {}
}

impl Trace {
    /// Feeds all events to `collector`, from memory or from the file.
    fn pass<C: Collector + Send>(&self, py: Python<'_>, collector: &mut C) -> PyResult<&Whole> {
        if let (Some(events), Some(whole)) = (&self.events, self.whole.get()) {
            reading::read_stored(py, events, collector)?;
            return Ok(whole);
        }
        let mut watch = Watch::default();
        let mut both = (collector, &mut watch);
        let progress = self.progress.as_ref();
        let (mut summary, strings) = reading::read_file(py, &self.path, &mut both, progress)?;
        watch.finish(&mut summary);
        Ok(self.whole.get_or_init(|| Whole { summary, strings }))
    }

    fn whole(&self, py: Python<'_>) -> PyResult<&Whole> {
        match self.whole.get() {
            Some(whole) => Ok(whole),
            None => self.pass(py, &mut Nothing),
        }
    }

    fn latencies(
        &self,
        py: Python<'_>,
        from: &str,
    ) -> PyResult<(&Whole, Vec<latency::TaskLatencies>)> {
        let from = begin(from)?;
        let mut collector = WakeupLatency::new(from);
        let whole = self.pass(py, &mut collector)?;
        Ok((whole, collector.finish()))
    }
}

impl Trace {
    /// The events and what is known of them, where events are kept.
    pub(crate) fn kept(&self) -> Option<(&[Event], &Whole)> {
        self.events.as_deref().zip(self.whole.get())
    }

    /// A trace of what was simulated; `path` serves as its name.
    pub(crate) fn recorded(path: PathBuf, mut run: RecordedTrace) -> Result<Trace, Error> {
        let (mut events, mut watch) = (Vec::new(), Watch::default());
        while run.read_batch(&mut events)? {}
        events.iter().for_each(|event| watch.push(event));
        let (mut summary, strings) = Box::new(run).finish();
        watch.finish(&mut summary);
        let whole = OnceLock::from(Whole { summary, strings });
        Ok(Trace { path, events: Some(events), whole, progress: None })
    }
}

/// Which event begins a latency.
fn begin(name: &str) -> PyResult<From> {
    match name {
        "waking" => Ok(From::Waking),
        "wakeup" => Ok(From::Wakeup),
        other => {
            let message = format!("from_ is {other:?}; it is \"waking\" or \"wakeup\"");
            Err(PyValueError::new_err(message))
        }
    }
}

#[pymethods]
impl Trace {
    /// A trace whose events are kept (and read now), or else read again for each question.
    #[new]
    #[pyo3(signature = (path, *, keep_events, progress=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        keep_events: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Trace> {
        let mut trace = Trace { path, events: None, whole: OnceLock::new(), progress };
        if keep_events {
            let mut keep = Keep::default();
            trace.pass(py, &mut keep)?;
            trace.events = Some(keep.0);
        }
        Ok(trace)
    }

    /// What the file is and holds.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Whole { summary, .. } = self.whole(py)?;
        let info = PyDict::new(py);
        info.set_item("format", &summary.format)?;
        info.set_item("clock", &summary.clock)?;
        info.set_item("kernel_release", &summary.kernel_release)?;
        info.set_item("cpus", summary.cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())?;
        let (begin_ns, end_ns) = summary.time_span_ns.unwrap_or_default();
        info.set_item("begin_ns", begin_ns)?;
        info.set_item("end_ns", end_ns)?;
        info.set_item("duration_s", end_ns.saturating_sub(begin_ns) as f64 / 1e9)?;
        info.set_item("lost_events", summary.lost_events)?;
        let events = PyDict::new(py);
        for (name, count) in &summary.event_counts {
            events.set_item(name, count)?;
        }
        info.set_item("events", events)?;
        let rows = PyList::empty(py);
        for finding in summary.quality.findings() {
            let row = PyDict::new(py);
            row.set_item("severity", finding.severity.name())?;
            row.set_item("code", finding.code)?;
            row.set_item("cpu", finding.cpu.map(|cpu| cpu.0))?;
            row.set_item("count", finding.count)?;
            row.set_item("message", &finding.message)?;
            rows.append(row)?;
        }
        info.set_item("data_quality", rows)?;
        Ok(info)
    }

    /// Every event of the schema, a row each.
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        let (Some(events), Some(whole)) = (&self.events, self.whole.get()) else {
            let message = "the events were not kept; read the trace with keep_events=True";
            return Err(PyValueError::new_err(message));
        };
        py.detach(|| {
            let mut rows = EventRows::default();
            let mut batches = Vec::new();
            for chunk in events.chunks(EVENT_ROWS) {
                chunk.iter().for_each(|event| rows.push(event, &whole.strings));
                batches.push(rows.take());
            }
            Ok(Table::new(rows.schema(), batches))
        })
    }

    /// Writes the kept events in another format; tells what `convert_trace` tells.
    #[pyo3(signature = (format, to, progress=None))]
    fn convert(
        slf: Py<Trace>,
        py: Python<'_>,
        format: &str,
        to: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, BTreeMap<String, u64>)> {
        let format = format_of(format)?;
        let mut source = Stored::new(slf)?;
        let written =
            py.detach(|| reading::convert(&mut source, format, &to, progress.as_ref()))?;
        Ok((written.events, written.dropped, written.dropped_types))
    }

    /// Wakeup latency per task, or per task name.
    fn wakeup_latency(&self, py: Python<'_>, from_: &str, by_comm: bool) -> PyResult<Table> {
        let (whole, mut tasks) = self.latencies(py, from_)?;
        let rows = match by_comm {
            true => latency::by_comm(&tasks),
            false => latency::by_task(&mut tasks),
        };
        trace_tables::latency(&rows, whole.names())
    }

    /// Every wakeup latency.
    fn wakeup_latencies(&self, py: Python<'_>, from_: &str) -> PyResult<Table> {
        let (whole, tasks) = self.latencies(py, from_)?;
        trace_tables::latencies(&tasks, whole.names())
    }

    /// What each task did.
    fn tasks(&self, py: Python<'_>) -> PyResult<Table> {
        let mut collector = Tasks::default();
        let whole = self.pass(py, &mut collector)?;
        trace_tables::tasks(&collector.finish(whole.span_ns().1), whole.names())
    }

    /// What each CPU did, and how long it had each frequency.
    fn cpus(&self, py: Python<'_>) -> PyResult<(Table, Table)> {
        let (mut cpus, mut frequencies) = (Cpus::default(), Frequencies::default());
        let whole = self.pass(py, &mut (&mut cpus, &mut frequencies))?;
        Ok((
            trace_tables::cpus(&cpus.finish(whole.span_ns(), &whole.summary.cpus))?,
            trace_tables::frequencies(&frequencies.finish(whole.span_ns().1))?,
        ))
    }

    /// Idle residency, misses by CPU and state, and misses by woken task.
    #[pyo3(signature = (machine=None))]
    fn idle(
        &self,
        py: Python<'_>,
        machine: Option<&Bound<'_, Machine>>,
    ) -> PyResult<(Table, Table, Table)> {
        let machine = machine.map(|machine| &machine.get().inner);
        let (mut residency, mut misses) = (Residency::default(), IdleMisses::new(machine));
        let whole = self.pass(py, &mut (&mut residency, &mut misses))?;
        let (states, tasks) = misses.finish();
        let kernel = whole.summary.event_counts.contains_key("cpu_idle_miss");
        let known = Known { judged: machine.is_some(), kernel };
        Ok((
            trace_tables::residency(&residency.finish(whole.span_ns().1), machine)?,
            trace_tables::state_misses(&states, machine, known)?,
            trace_tables::task_misses(&tasks, known, whole.names())?,
        ))
    }

    /// Runs, sleeps, counter samples, and where these were cut because there are so many.
    #[pyo3(signature = (machine, from_, intervals_max))]
    fn timeline(
        &self,
        py: Python<'_>,
        machine: Option<&Bound<'_, Machine>>,
        from_: &str,
        intervals_max: usize,
    ) -> PyResult<(Table, Table, Table, Option<u64>)> {
        let machine = machine.map(|machine| &machine.get().inner);
        let mut collector = Timeline::new(machine, begin(from_)?, intervals_max);
        let whole = self.pass(py, &mut collector)?;
        let found = collector.finish(whole.span_ns().1);
        Ok((
            timeline_tables::runs(&found.runs, &whole.strings)?,
            timeline_tables::sleeps(&found.sleeps)?,
            timeline_tables::samples(&found.samples)?,
            found.cut_ns,
        ))
    }
}

fn format_of(name: &str) -> PyResult<Format> {
    Format::from_name(name).ok_or_else(|| {
        let names = Format::NAMES.map(|(name, _)| name).join(", ");
        PyValueError::new_err(format!("no format {name:?}; there are {names}"))
    })
}

/// Writes a trace in another format; tells how many events it wrote, how many it left out, and of
/// which types.
#[pyfunction]
#[pyo3(signature = (path, format, to, progress=None))]
fn convert_trace(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    to: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u64, BTreeMap<String, u64>)> {
    let format = format_of(format)?;
    let written = reading::convert_file(py, &path, format, &to, progress.as_ref())?;
    Ok((written.events, written.dropped, written.dropped_types))
}

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()?;
    module.add_class::<Trace>()?;
    module.add_function(wrap_pyfunction!(convert_trace, module)?)?;
    module.add("TraceError", module.py().get_type::<TraceError>())
}

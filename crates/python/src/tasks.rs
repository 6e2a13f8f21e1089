//! Tasks of a trace for Python: taken out of it, written as files, and run again.

use crate::kernels::Kernel;
use crate::machine::Machine;
use crate::reading::{self, Pulse};
use crate::replay::ReplayError;
use crate::sim::{EVENTS_MAX, WorkloadError, drive, energy_dict};
use crate::table::{Columns, Table};
use crate::trace::Trace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_kernel::fair::build::build_domains;
use schedlab_replay::tasks::{ExtractError, Extraction, Given, GivenPolicy, Request, extract};
use schedlab_sim::{Engine, Settings, TracedNames, check};
use schedlab_trace::Pid;
use std::path::PathBuf;

/// A run goes on for so long beyond the trace, so that its last switches are in it, ns.
const GRACE_NS: u64 = 100_000;

/// The tasks of a trace.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct TracedTasks {
    inner: Extraction,
    name: String,
}

/// What is known of the tasks of a name: name, policy and CPUs.
type GivenText = (String, Option<String>, Option<String>);

fn given((comm, policy, cpus): GivenText) -> PyResult<Given> {
    let policy = match policy.as_deref() {
        None => None,
        Some("batch") => Some(GivenPolicy::Batch),
        Some("idle") => Some(GivenPolicy::Idle),
        Some("rr") => Some(GivenPolicy::RoundRobin),
        Some(other) => {
            return Err(ReplayError::new_err(format!(
                "policy {other} of {comm} is nothing that a trace hides; there are batch, idle and \
                 rr"
            )));
        }
    };
    let cpus = cpus.map(|list| {
        list.parse().map_err(|error| {
            ReplayError::new_err(format!("CPUs {list} of {comm} are no list: {error}"))
        })
    });
    Ok(Given { comm, policy, cpus: cpus.transpose()? })
}

#[pymethods]
impl TracedTasks {
    /// Takes the tasks out of a trace of a machine.
    #[staticmethod]
    #[pyo3(signature = (path, machine, *, hz, given, progress=None))]
    fn extract(
        py: Python<'_>,
        path: PathBuf,
        machine: &Machine,
        hz: Option<u32>,
        given: Vec<GivenText>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<TracedTasks> {
        let given = given.into_iter().map(self::given).collect::<PyResult<Vec<_>>>()?;
        let machine = &machine.inner;
        let tick_ns = hz.map_or(machine.tick_ns(), |hz| 1_000_000_000 / u64::from(hz.max(1)));
        let name = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into());
        let inner = py.detach(|| {
            let request = Request { machine, tick_ns, given: &given };
            let mut pulse = Pulse::new(progress.as_ref());
            let extracted =
                extract(&mut || schedlab_trace::open(&path), &request, &mut |done, total| {
                    pulse.beat(done, total)
                });
            pulse.end()?;
            extracted.map_err(|error| match error {
                ExtractError::Trace(error) => reading::refusal(error),
                other => ReplayError::new_err(format!("{}: {other}", path.display())),
            })
        })?;
        Ok(TracedTasks { inner, name })
    }

    /// What concerns the whole extraction.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = PyDict::new(py);
        let Extraction { causes, calibration, .. } = &self.inner;
        facts.set_item("name", &self.name)?;
        facts.set_item("begin_ns", self.inner.span_ns.0)?;
        facts.set_item("end_ns", self.inner.span_ns.1)?;
        facts.set_item("base_ns", self.inner.base_ns)?;
        facts.set_item("ended_by_timer", causes.timer)?;
        facts.set_item("ended_by_device", causes.device)?;
        facts.set_item("ended_by_task", causes.task)?;
        facts.set_item("ended_from_outside", causes.outside)?;
        facts.set_item("turns", self.inner.turns)?;
        facts.set_item("late", self.inner.late)?;
        facts.set_item("late_ns", self.inner.late_ns)?;
        facts.set_item("interrupts", self.inner.interrupts)?;
        facts.set_item("interrupted_ns", self.inner.interrupted_ns)?;
        facts.set_item("has_hrtimers", calibration.has_hrtimers)?;
        facts.set_item("has_interrupts", calibration.has_interrupts)?;
        Ok(facts)
    }

    /// A row per task.
    fn tasks(&self) -> PyResult<Table> {
        let tasks = || self.inner.recording.tasks.iter();
        let facts = || self.inner.facts.iter();
        Columns::default()
            .text("name", tasks().map(|task| task.name.as_str()))
            .text("comm", tasks().map(|task| task.comm.as_str()))
            .i64("pid", facts().map(|facts| i64::from(facts.pid.0)))
            .u64("run_ns", facts().map(|facts| facts.run_ns))
            .u64("charged_ns", facts().map(|facts| facts.charged_ns))
            .u64("excess_ns", facts().map(|facts| facts.excess_ns))
            .u64("steps", facts().map(|facts| facts.steps))
            .u64("wakeups", facts().map(|facts| facts.wakeups))
            .boolean("real_time", facts().map(|facts| facts.real_time))
            .table()
    }

    /// A row per calibrated cost.
    fn costs(&self) -> PyResult<Table> {
        let costs = || self.inner.calibration.costs.iter();
        Columns::default()
            .text("name", costs().map(|cost| cost.name))
            .u32("state", costs().map(|cost| cost.state))
            .u64("value_ns", costs().map(|cost| cost.value_ns))
            .u64("samples", costs().map(|cost| cost.samples))
            .text("rule", costs().map(|cost| cost.rule))
            .table()
    }

    /// The traced machine with the calibrated costs.
    fn machine(&self) -> Machine {
        self.inner.calibration.machine.clone().into()
    }

    /// The same tasks with loops.
    fn folded(&self, tolerance_pct: u64) -> TracedTasks {
        let recording = self.inner.recording.folded(tolerance_pct);
        let mut inner = self.inner.clone();
        for (facts, task) in inner.facts.iter_mut().zip(&recording.tasks) {
            facts.steps = task.step_count();
        }
        inner.recording = recording;
        TracedTasks { inner, name: self.name.clone() }
    }

    /// The rt-app file.
    fn to_rt_app(&self, tolerance_pct: u64) -> String {
        let (begin_ns, end_ns) = self.inner.span_ns;
        let duration_s = end_ns.saturating_sub(begin_ns).div_ceil(1_000_000_000);
        self.inner.recording.to_rt_app(duration_s, tolerance_pct)
    }

    /// The workload file.
    fn to_toml(&self, name: &str, comment: &str) -> String {
        self.inner.recording.to_toml(name, comment)
    }

    /// Runs the tasks on a machine under a kernel. Gives how the run ended, its energy, and its
    /// trace, whose times and thread ids are those of the trace.
    #[pyo3(signature = (machine, kernel, *, governor, seed, progress=None))]
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        machine: &Machine,
        kernel: &Kernel,
        governor: Option<&str>,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Trace)> {
        let (machine, kernel) = (&machine.inner, &kernel.inner);
        let refusal = |error: &dyn ToString| WorkloadError::new_err(error.to_string());
        let workload =
            self.inner.recording.workload(&self.name).map_err(|error| refusal(&error))?;
        let span_ns = self.inner.span_ns;
        let base_ns = self.inner.base_ns;
        let duration_ns = u64::try_from(span_ns.1 as i64 - base_ns).unwrap_or(0) + GRACE_NS;
        let mut settings = Settings::new(kernel, machine, duration_ns, seed);
        if let Some(governor) = governor {
            let kind = governor.parse();
            settings.governor =
                kind.map_err(|error: schedlab_kernel::cpuidle::UnknownGovernor| {
                    PyValueError::new_err(error.to_string())
                })?;
        }
        check(machine, &workload, &settings).map_err(|error| refusal(&error))?;
        let mut outcome = py.detach(|| {
            let domains = build_domains(machine, kernel.domains);
            let engine = Engine::new(machine, domains, &workload, &settings, Vec::new());
            drive(engine, duration_ns, EVENTS_MAX, progress.as_ref(), None)
        })?;
        let facts = PyDict::new(py);
        facts.set_item("end_ns", outcome.end_ns)?;
        facts.set_item("digest", format!("{:016x}", outcome.digest))?;
        facts.set_item("energy", energy_dict(py, &outcome.energy)?)?;
        let pids: Vec<Pid> = self.inner.facts.iter().map(|facts| facts.pid).collect();
        let span_ns = (span_ns.0, span_ns.1 + GRACE_NS);
        let names = TracedNames { pids: &pids, base_ns, span_ns };
        let run = outcome.take_replayed(&kernel.name, &names);
        let name = format!("{} on {} under {}", self.name, machine.name(), kernel.name);
        let trace = Trace::recorded(PathBuf::from(name), run).map_err(reading::refusal)?;
        Ok((facts, trace))
    }
}

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TracedTasks>()
}

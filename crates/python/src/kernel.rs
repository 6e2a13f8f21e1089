//! Kernel mechanisms on their own for Python: idle governors and PELT.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_kernel::cpuidle::{
    AnyGovernor, Config, FixedHardware, Governor as _, GovernorKind, LATENCY_UNLIMITED_NS, State,
};
use schedlab_kernel::pelt::{Avg, EntityActivity, NICE_0_LOAD};

/// An idle governor of one CPU.
#[pyclass(module = "schedlab._schedlab")]
pub struct Governor {
    governor: AnyGovernor,
    kind: GovernorKind,
    states: Vec<State>,
    hardware: FixedHardware,
}

#[pymethods]
impl Governor {
    /// States are tuples of exit latency, target residency (ns), polling, disabled.
    #[new]
    fn new(
        name: &str,
        states: Vec<(u64, u64, bool, bool)>,
        tick_ns: u64,
        capacity: u64,
    ) -> PyResult<Self> {
        let kind: GovernorKind =
            name.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
        if states.is_empty() {
            return Err(PyValueError::new_err("a governor needs at least one idle state"));
        }
        let state = |(exit_latency_ns, target_residency_ns, polling, disabled)| State {
            exit_latency_ns,
            target_residency_ns,
            polling,
            disabled,
        };
        let config = Config::new(tick_ns, capacity);
        Ok(Self {
            governor: AnyGovernor::with_config(kind, &config),
            kind,
            states: states.into_iter().map(state).collect(),
            hardware: FixedHardware::default(),
        })
    }

    /// The governor's full name.
    #[getter]
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The code that it follows.
    #[getter]
    fn source(&self) -> &'static str {
        self.kind.source()
    }

    /// The chosen state and whether the tick may stop.
    #[pyo3(signature = (sleep_length_ns, delta_next_ns, *, now_ns, latency_limit_ns, tick_stopped, cpu_util, nr_iowait))]
    #[expect(clippy::too_many_arguments, reason = "each is one of the kernel's inputs")]
    fn select(
        &mut self,
        sleep_length_ns: i64,
        delta_next_ns: i64,
        now_ns: u64,
        latency_limit_ns: Option<i64>,
        tick_stopped: bool,
        cpu_util: u64,
        nr_iowait: u32,
    ) -> (usize, bool) {
        self.hardware = FixedHardware {
            now_ns,
            sleep_ns: sleep_length_ns,
            delta_next_ns,
            latency_req_ns: latency_limit_ns.unwrap_or(LATENCY_UNLIMITED_NS),
            tick_stopped,
            cpu_util,
            nr_iowait,
            ..FixedHardware::default()
        };
        let choice = self.governor.select(&self.states, &mut self.hardware);
        (choice.index, choice.stop_tick)
    }

    /// How the sleep went.
    #[pyo3(signature = (state, residency_ns, *, now_ns, got_tick, poll_time_limit))]
    fn reflect(
        &mut self,
        state: usize,
        residency_ns: i64,
        now_ns: u64,
        got_tick: bool,
        poll_time_limit: bool,
    ) -> PyResult<()> {
        if state >= self.states.len() {
            let message = format!("state {state} of {} states", self.states.len());
            return Err(PyValueError::new_err(message));
        }
        self.hardware = FixedHardware { now_ns, got_tick, poll_time_limit, ..self.hardware };
        self.governor.reflect(&self.states, state, residency_ns, &mut self.hardware);
        Ok(())
    }

    /// The driver refused the state.
    fn reject(&mut self) {
        self.governor.reject();
    }

    /// The governor's memory, as names, places and values.
    fn memory(&self) -> Vec<(String, Option<usize>, i64)> {
        let details = self.governor.explain(self.states.len());
        details
            .into_iter()
            .map(|detail| (detail.name.into_owned(), detail.index, detail.value))
            .collect()
    }
}

/// The names of all governors with what each does.
#[pyfunction]
fn governor_names() -> Vec<(&'static str, &'static str)> {
    GovernorKind::ALL.iter().map(|kind| (kind.name(), kind.description())).collect()
}

/// A task's load-tracking signals.
#[pyclass(module = "schedlab._schedlab")]
pub struct PeltSignal {
    avg: Avg,
}

#[pymethods]
impl PeltSignal {
    #[new]
    fn new(now_ns: u64) -> Self {
        Self { avg: Avg { last_update_time: now_ns, ..Avg::default() } }
    }

    /// Brings the signals to a later time.
    #[pyo3(signature = (now_ns, *, running, runnable, weight))]
    fn update(&mut self, now_ns: u64, running: bool, runnable: bool, weight: u64) -> bool {
        let activity = EntityActivity { on_rq: runnable, runnable: runnable.into(), running };
        self.avg.update_entity(now_ns, weight, activity)
    }

    #[getter]
    fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }

    #[getter]
    fn runnable_avg(&self) -> u64 {
        self.avg.runnable_avg
    }

    #[getter]
    fn load_avg(&self) -> u64 {
        self.avg.load_avg
    }

    #[getter]
    fn util_sum(&self) -> u32 {
        self.avg.util_sum
    }

    #[getter]
    fn period_contrib(&self) -> u32 {
        self.avg.period_contrib
    }

    #[getter]
    fn last_update_time(&self) -> u64 {
        self.avg.last_update_time
    }
}

/// Adds this module's classes and functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Governor>()?;
    module.add_class::<PeltSignal>()?;
    module.add_function(wrap_pyfunction!(governor_names, module)?)?;
    module.add("NICE_0_LOAD", NICE_0_LOAD)
}

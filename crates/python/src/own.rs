//! Governors for Python: the kernel's by name, a user's own as a class or as a file of C.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTraceback, PyTuple};
use schedlab_govsource::{GovernorSource as Source, SourceError};
use schedlab_kernel::cpuidle::{
    Candidate, Choice, Detail, Governor, GovernorKind, IdleHardware, OwnGovernor, OwnKind, Served,
    State,
};

use crate::reading;

create_exception!(schedlab, GovernorError, PyValueError, "A user's own governor cannot be run.");

/// A governor's C source, compiled.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct GovernorSource {
    inner: Source,
}

#[pymethods]
impl GovernorSource {
    /// Compiles a file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inner = py.detach(|| Source::open(&path)).map_err(|error| match error {
            SourceError::Unreadable { path, source } if source.raw_os_error().is_some() => {
                let path = path.into_os_string();
                PyOSError::new_err((source.raw_os_error(), reading::told(&source), path))
            }
            other => GovernorError::new_err(other.to_string()),
        })?;
        Ok(Self { inner })
    }

    /// What tables call it.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Where it comes from.
    #[getter]
    fn source(&self) -> &str {
        self.inner.source()
    }

    /// SHA-256 of the file and of what it includes beside it.
    #[getter]
    fn digest(&self) -> &str {
        self.inner.digest()
    }
}

/// What a governor may ask of the CPU it serves.
#[pyclass(frozen, get_all, module = "schedlab._schedlab")]
pub struct IdleView {
    now_ns: u64,
    sleep_length_ns: i64,
    delta_next_ns: i64,
    latency_limit_ns: i64,
    tick_stopped: bool,
    got_tick: bool,
    poll_time_limit: bool,
    cpu_util: u64,
    nr_iowait: u32,
}

impl IdleView {
    fn of(hardware: &mut dyn IdleHardware, at_reflect: bool) -> Self {
        let length = hardware.sleep_length();
        Self {
            now_ns: hardware.now_ns(),
            sleep_length_ns: length.sleep_ns,
            delta_next_ns: length.delta_next_ns,
            latency_limit_ns: hardware.latency_req_ns(),
            tick_stopped: hardware.tick_stopped(),
            got_tick: at_reflect && hardware.got_tick(),
            poll_time_limit: at_reflect && hardware.poll_time_limit(),
            cpu_util: hardware.cpu_util(),
            nr_iowait: hardware.nr_iowait(),
        }
    }
}

/// What went wrong first, for every CPU's governor of a class.
#[derive(Debug, Default)]
struct Failure {
    message: OnceLock<String>,
    raised: Mutex<Option<PyErr>>,
}

impl Failure {
    /// Notes what a method of an object raised.
    fn note(&self, py: Python<'_>, class: &str, method: &str, error: PyErr) {
        let place = error.traceback(py).and_then(|traceback| last_line(&traceback));
        let place = place.map_or_else(String::new, |(file, line)| format!(", {file}:{line}"));
        // What Python itself prints last: the exception's type and its text.
        let message = format!("{class}.{method}(){place}: {error}");
        if self.message.set(message).is_ok() {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

/// Where an exception was raised: the innermost line of its traceback.
fn last_line(traceback: &Bound<'_, PyTraceback>) -> Option<(String, u32)> {
    let mut innermost = traceback.clone().into_any();
    while let Ok(next) = innermost.getattr("tb_next") {
        if next.is_none() {
            break;
        }
        innermost = next;
    }
    let line = innermost.getattr("tb_lineno").ok()?.extract().ok()?;
    let code = innermost.getattr("tb_frame").ok()?.getattr("f_code").ok()?;
    let file = code.getattr("co_filename").ok()?.extract().ok()?;
    Some((file, line))
}

/// A class of governors, or whatever else makes one when it is called.
#[derive(Debug)]
pub struct Class {
    make: Py<PyAny>,
    name: String,
    source: String,
    failure: Arc<Failure>,
}

/// One CPU's governor in Python.
#[derive(Debug)]
struct PyGovernor {
    object: Py<PyAny>,
    kept: Option<Py<PyAny>>,
    class: String,
    /// The states as they were last given, and as Python saw them.
    states: (Vec<State>, Py<PyTuple>),
    failure: Arc<Failure>,
}

/// States as `schedlab.cpuidle.IdleState`.
fn to_python(py: Python<'_>, states: &[State]) -> PyResult<Py<PyTuple>> {
    let class = py.import("schedlab.cpuidle")?.getattr("IdleState")?;
    let state = |state: &State| {
        let State { exit_latency_ns, target_residency_ns, polling, disabled } = *state;
        class.call1((exit_latency_ns, target_residency_ns, polling, disabled))
    };
    let states = states.iter().map(state).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, states)?.unbind())
}

impl PyGovernor {
    fn new(
        py: Python<'_>,
        make: &Py<PyAny>,
        served: &Served<'_>,
        failure: &Arc<Failure>,
    ) -> PyResult<Self> {
        let object = make.bind(py).call0()?;
        let class = object.get_type().name()?.to_string();
        let states = to_python(py, served.states)?;
        object.setattr("cpu", served.cpu)?;
        object.setattr("tick_ns", served.config.tick_ns)?;
        object.setattr("capacity", served.config.capacity)?;
        object.call_method1("start", (&states,))?;
        Ok(Self {
            object: object.unbind(),
            kept: None,
            class,
            states: (served.states.to_vec(), states),
            failure: Arc::clone(failure),
        })
    }

    fn states(&mut self, py: Python<'_>, states: &[State]) -> PyResult<Py<PyTuple>> {
        if self.states.0 != states {
            self.states = (states.to_vec(), to_python(py, states)?);
        }
        Ok(self.states.1.clone_ref(py))
    }

    fn failed(&self) -> bool {
        self.failure.message.get().is_some()
    }

    /// Calls a method of the object, and notes what it raises.
    fn attempt<T>(
        &mut self,
        method: &str,
        call: impl FnOnce(&mut Self, Python<'_>) -> PyResult<T>,
    ) -> Option<T> {
        if self.failed() {
            return None;
        }
        Python::attach(|py| match call(self, py) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure.note(py, &self.class, method, error);
                None
            }
        })
    }
}

/// A state, or a state and whether the tick stops.
fn choice(answer: &Bound<'_, PyAny>, states: usize) -> PyResult<Choice> {
    let (index, stop_tick) = match answer.extract::<(i64, bool)>() {
        Ok(both) => both,
        Err(_) => {
            let only = answer.extract::<i64>().map_err(|_| {
                let found = answer.repr().map_or_else(|_| String::new(), |text| text.to_string());
                PyTypeError::new_err(format!(
                    "a state's number, or it and whether the tick may stop, is expected, not {found}"
                ))
            })?;
            (only, true)
        }
    };
    let index = usize::try_from(index).ok().filter(|index| *index < states).ok_or_else(|| {
        PyValueError::new_err(format!("state {index} of {states}, which are numbered from 0"))
    })?;
    Ok(Choice { index, stop_tick })
}

impl Governor for PyGovernor {
    fn select(&mut self, states: &[State], hardware: &mut dyn IdleHardware) -> Choice {
        let shallowest = Choice { index: 0, stop_tick: false };
        if states.is_empty() {
            return shallowest;
        }
        let view = IdleView::of(hardware, false);
        self.attempt("select", |this, py| {
            let shown = this.states(py, states)?;
            let answer = this.object.bind(py).call_method1("select", (shown, view))?;
            choice(&answer, states.len())
        })
        .unwrap_or(shallowest)
    }

    fn reflect(
        &mut self,
        states: &[State],
        index: usize,
        last_residency_ns: i64,
        hardware: &mut dyn IdleHardware,
    ) {
        if states.is_empty() {
            return;
        }
        let view = IdleView::of(hardware, true);
        self.attempt("reflect", |this, py| {
            let shown = this.states(py, states)?;
            let arguments = (shown, index, last_residency_ns, view);
            this.object.bind(py).call_method1("reflect", arguments).map(|_| ())
        });
    }

    fn reject(&mut self) {
        self.attempt("reject", |this, py| this.object.bind(py).call_method0("reject").map(|_| ()));
    }
}

impl OwnGovernor for PyGovernor {
    fn save(&mut self) {
        self.attempt("__deepcopy__", |this, py| {
            let copy = py.import("copy")?.getattr("deepcopy")?;
            this.kept = Some(copy.call1((&this.object,))?.unbind());
            Ok(())
        });
    }

    fn restore(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.object = kept;
        }
    }

    fn explain(&self) -> Vec<Detail> {
        type Value = (String, Option<usize>, i64);
        let found = Python::attach(|py| {
            let told = self.object.bind(py).call_method0("memory");
            told.and_then(|told| told.extract::<Vec<Value>>()).unwrap_or_else(|error| {
                self.failure.note(py, &self.class, "memory", error);
                Vec::new()
            })
        });
        let detail = |(name, index, value): Value| Detail { name: name.into(), index, value };
        found.into_iter().map(detail).collect()
    }
}

impl OwnKind for Class {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> &str {
        &self.source
    }

    fn make(&self, cpus: &[Served<'_>]) -> Result<Vec<Box<dyn OwnGovernor>>, String> {
        let made = Python::attach(|py| {
            let one = |served: &Served<'_>| {
                PyGovernor::new(py, &self.make, served, &self.failure)
                    .map(|governor| Box::new(governor) as Box<dyn OwnGovernor>)
            };
            let made = cpus.iter().map(one).collect::<PyResult<Vec<_>>>();
            made.map_err(|error| self.failure.note(py, &self.name, "start", error))
        });
        made.map_err(|()| self.failure().unwrap_or_default())
    }

    fn failure(&self) -> Option<String> {
        self.failure.message.get().cloned()
    }
}

/// A governor that was asked for.
pub enum Chosen {
    /// One of the kernel's.
    Known(GovernorKind),
    /// A file of C.
    Source(Source),
    /// A class.
    Class(Class),
}

impl Chosen {
    /// Takes a name, a source, or a class (or whatever else makes a governor when it is called).
    pub fn read(asked: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(name) = asked.extract::<String>() {
            let kind = name.parse::<GovernorKind>();
            return kind.map(Self::Known).map_err(|e| PyValueError::new_err(e.to_string()));
        }
        if let Ok(source) = asked.cast::<GovernorSource>() {
            return Ok(Self::Source(source.get().inner.again()));
        }
        if !asked.is_callable() {
            let found = asked.repr()?;
            return Err(PyTypeError::new_err(format!(
                "{found} is no governor: give a name, a GovernorSource, or a class derived from \
                 schedlab.Governor"
            )));
        }
        // functools.partial is called after what it calls.
        let named = asked.getattr("func").unwrap_or_else(|_| asked.clone());
        let name = match named.getattr("__name__") {
            Ok(name) => name.extract()?,
            Err(_) => asked.get_type().name()?.to_string(),
        };
        let module = asked.getattr("__module__").and_then(|module| module.extract::<String>());
        let source = format!("{name} of Python's {}", module.unwrap_or_default());
        let failure = Arc::default();
        Ok(Self::Class(Class { make: asked.clone().unbind(), name, source, failure }))
    }

    /// The same for the crates below.
    pub fn candidate(&self) -> Candidate<'_> {
        match self {
            Self::Known(kind) => Candidate::Known(*kind),
            Self::Source(source) => Candidate::Own(source),
            Self::Class(class) => Candidate::Own(class),
        }
    }

    /// What has gone wrong, as an exception: the user's own one is its cause.
    pub fn failure(&self) -> Option<PyErr> {
        let message = self.candidate().failure()?;
        let raised = match self {
            Self::Class(class) => {
                class.failure.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
            _ => None,
        };
        Python::attach(|py| match raised {
            // The keyboard's interrupt and the like are nobody's mistake.
            Some(error) if !error.is_instance_of::<PyException>(py) => Some(error),
            cause => {
                let error = GovernorError::new_err(message);
                error.set_cause(py, cause);
                Some(error)
            }
        })
    }
}

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GovernorSource>()?;
    module.add_class::<IdleView>()?;
    module.add("GovernorError", module.py().get_type::<GovernorError>())
}

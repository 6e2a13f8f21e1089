//! Long reads on Python's behalf: the interpreter is free meanwhile, progress is told now and then,
//! and an interrupt from the keyboard ends the read.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use schedlab_metrics::{Collector, drive};
use schedlab_trace::write::{self, Format, Written};
use schedlab_trace::{Event, EventSource, Strings, Summary};
use std::path::Path;
use std::time::{Duration, Instant};

create_exception!(schedlab, TraceError, PyValueError, "A file cannot be read as a trace.");

/// How often progress is told and interrupts are looked for.
const PERIOD: Duration = Duration::from_millis(100);

/// How many stored events are handled between two looks at the clock.
const CHUNK: usize = 1 << 16;

/// An unusable file as Python's exception: `OSError` where the system refused, else `TraceError`.
pub fn refusal(error: schedlab_trace::TraceError) -> PyErr {
    match error {
        schedlab_trace::TraceError::Io { path, source } => match source.raw_os_error() {
            Some(number) => PyOSError::new_err((number, told(&source), path.into_os_string())),
            None => TraceError::new_err(format!("{}: {source}", path.display())),
        },
        other => TraceError::new_err(other.to_string()),
    }
}

/// An error's words without the number that Rust puts behind the system's.
pub fn told(error: &impl ToString) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        text.truncate(end);
    }
    text
}

/// Calls back into Python while a read runs.
pub struct Pulse<'a> {
    progress: Option<&'a Py<PyAny>>,
    last: Instant,
    raised: PyResult<()>,
}

impl<'a> Pulse<'a> {
    pub fn new(progress: Option<&'a Py<PyAny>>) -> Pulse<'a> {
        Pulse { progress, last: Instant::now(), raised: Ok(()) }
    }

    /// Between two pieces of work; false once Python has raised.
    pub fn beat(&mut self, done: u64, total: u64) -> bool {
        if self.last.elapsed() >= PERIOD {
            self.last = Instant::now();
            self.tell(done, total);
        }
        self.raised.is_ok()
    }

    fn tell(&mut self, done: u64, total: u64) {
        self.raised = Python::attach(|py| {
            py.check_signals()?;
            match self.progress {
                Some(progress) => progress.call1(py, (done, total)).map(|_| ()),
                None => Ok(()),
            }
        });
    }

    /// What Python raised meanwhile.
    pub fn end(self) -> PyResult<()> {
        self.raised
    }
}

/// Feeds a file's events to `collector`.
pub fn read_file<C: Collector + Send>(
    py: Python<'_>,
    path: &Path,
    collector: &mut C,
    progress: Option<&Py<PyAny>>,
) -> PyResult<(Summary, Strings)> {
    py.detach(|| {
        let mut pulse = Pulse::new(progress);
        let mut source = schedlab_trace::open(path).map_err(refusal)?;
        drive(source.as_mut(), collector, |source| {
            let (done, total) = source.progress_bytes();
            pulse.beat(done, total)
        })
        .map_err(refusal)?;
        pulse.end()?;
        Ok(source.finish())
    })
}

/// Writes a file's events in another format.
pub fn convert_file(
    py: Python<'_>,
    path: &Path,
    format: Format,
    to: &Path,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Written> {
    py.detach(|| {
        let mut source = schedlab_trace::open(path).map_err(refusal)?;
        convert(source.as_mut(), format, to, progress)
    })
}

/// Writes a source's events to a file; for a caller that does not hold the interpreter.
pub fn convert(
    source: &mut dyn EventSource,
    format: Format,
    to: &Path,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Written> {
    let mut pulse = Pulse::new(progress);
    let beat = |done, total| pulse.beat(done, total);
    let written = write::convert(source, to, format, beat).map_err(refusal)?;
    pulse.end()?;
    // Nothing but what Python raised gives a conversion up.
    written.ok_or_else(|| TraceError::new_err("the conversion was given up"))
}

/// Feeds stored events to `collector`.
pub fn read_stored<C: Collector + Send>(
    py: Python<'_>,
    events: &[Event],
    collector: &mut C,
) -> PyResult<()> {
    py.detach(|| {
        let mut pulse = Pulse::new(None);
        for chunk in events.chunks(CHUNK) {
            for event in chunk {
                collector.push(event);
            }
            if !pulse.beat(0, 0) {
                break;
            }
        }
        pulse.end()
    })
}

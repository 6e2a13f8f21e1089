//! A trace's events table by table, for what Python writes of them.

use crate::reading::{Pulse, refusal};
use crate::stored::Stored;
use crate::table::Table;
use crate::trace::Trace;
use pyo3::prelude::*;
use schedlab_trace::write;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// An iterator over tables of bounded size; what it found in all is known at its end.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct EventTables {
    tables: Mutex<write::EventTables>,
    progress: Option<Py<PyAny>>,
}

impl EventTables {
    fn locked<R>(&self, py: Python<'_>, f: impl FnOnce(&mut write::EventTables) -> R + Send) -> R
    where
        R: Send,
    {
        // A reader that panicked has told so already, and has nothing to hide.
        py.detach(|| f(&mut self.tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
    }
}

#[pymethods]
impl EventTables {
    /// Opens a file.
    #[staticmethod]
    #[pyo3(signature = (path, progress=None))]
    fn open(path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<EventTables> {
        let source = schedlab_trace::open(&path).map_err(refusal)?;
        Ok(EventTables { tables: Mutex::new(write::EventTables::new(source)), progress })
    }

    /// Takes the events that a trace keeps.
    #[staticmethod]
    #[pyo3(signature = (trace, progress=None))]
    fn of(trace: Py<Trace>, progress: Option<Py<PyAny>>) -> PyResult<EventTables> {
        let source = Box::new(Stored::new(trace)?);
        Ok(EventTables { tables: Mutex::new(write::EventTables::new(source)), progress })
    }

    fn __iter__(slf: Py<EventTables>) -> Py<EventTables> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let mut pulse = Pulse::new(self.progress.as_ref());
        let batch = self.locked(py, |tables| -> PyResult<_> {
            while !tables.is_at_end() {
                let batch = tables.read_on().map_err(refusal)?;
                let (done, total) = tables.progress_bytes();
                if batch.is_some() || !pulse.beat(done, total) {
                    return Ok(batch);
                }
            }
            Ok(None)
        });
        let batch = batch?;
        pulse.end()?;
        Ok(batch.map(|batch| Table::new(batch.schema(), vec![batch])))
    }

    /// A table without rows.
    fn empty(&self, py: Python<'_>) -> Table {
        Table::new(self.locked(py, |tables| tables.schema()), Vec::new())
    }

    /// What the trace is: format, clock and kernel release; and the events that its tracer lost.
    fn origin(&self, py: Python<'_>) -> (String, String, String, u64) {
        self.locked(py, |tables| {
            let about = tables.summary();
            let release = about.kernel_release.clone();
            (about.format.clone(), about.clock.clone(), release, about.lost_events)
        })
    }

    /// What `convert_trace` tells.
    fn written(&self, py: Python<'_>) -> (u64, u64, BTreeMap<String, u64>) {
        let written = self.locked(py, |tables| tables.written());
        (written.events, written.dropped, written.dropped_types)
    }
}

/// Adds this module's class.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EventTables>()
}

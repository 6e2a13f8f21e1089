//! A trace in memory as a source of events, so that what writes files can read it.

use crate::trace::{Trace, Whole};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_trace::{Event, EventSource, Strings, Summary, TraceError};

/// Events of one batch.
const BATCH: usize = 1 << 14;

/// Events that a trace keeps.
pub struct Stored {
    trace: Py<Trace>,
    next: usize,
}

impl Stored {
    /// All events of `trace`; `ValueError` if it kept none.
    pub fn new(trace: Py<Trace>) -> PyResult<Stored> {
        match trace.get().kept() {
            Some(_) => Ok(Stored { trace, next: 0 }),
            None => Err(PyValueError::new_err("the events were not kept; convert the file")),
        }
    }

    fn kept(&self) -> (&[Event], &Whole) {
        self.trace.get().kept().expect("a trace that keeps its events does so for good")
    }
}

impl EventSource for Stored {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        let (events, _) = self.kept();
        let end = (self.next + BATCH).min(events.len());
        batch.extend_from_slice(&events[self.next..end]);
        let more = end < events.len();
        self.next = end;
        Ok(more)
    }

    fn summary(&self) -> &Summary {
        &self.kept().1.summary
    }

    fn strings(&self) -> &Strings {
        &self.kept().1.strings
    }

    fn progress_bytes(&self) -> (u64, u64) {
        let bytes = |events: usize| (events * size_of::<Event>()) as u64;
        (bytes(self.next), bytes(self.kept().0.len()))
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        let (_, whole) = self.kept();
        (whole.summary.clone(), whole.strings.clone())
    }
}

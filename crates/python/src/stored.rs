//! A trace in memory as a source of events, so that what writes files can read it.

use schedlab_trace::{Event, EventSource, Strings, Summary, TraceError};

/// Events of one batch.
const BATCH: usize = 1 << 14;

/// Events that were kept.
pub struct Stored<'a> {
    pub events: &'a [Event],
    pub next: usize,
    pub summary: &'a Summary,
    pub strings: &'a Strings,
}

impl EventSource for Stored<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        let end = (self.next + BATCH).min(self.events.len());
        batch.extend_from_slice(&self.events[self.next..end]);
        self.next = end;
        Ok(end < self.events.len())
    }

    fn summary(&self) -> &Summary {
        self.summary
    }

    fn strings(&self) -> &Strings {
        self.strings
    }

    fn progress_bytes(&self) -> (u64, u64) {
        let bytes = |events: usize| (events * size_of::<Event>()) as u64;
        (bytes(self.next), bytes(self.events.len()))
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.summary.clone(), self.strings.clone())
    }
}

//! Events in, figures out: one collector per family of figures, each fed one event at a time, so
//! that a long trace or a long simulated run needs no stored events.
//!
//! # Where a trace cuts an interval
//!
//! No figure is invented where the trace does not tell. An interval that a figure *counts or ranks*
//! (a wakeup latency, an idle period and the verdict on it) needs both of its ends in the trace. A
//! *sum of time* (run, sleep, busy, idle, residency) counts from the first event that shows the
//! state, which for what a CPU runs is that CPU's first event, up to the event that ends it or the
//! end of the trace. Where the tracer lost events ([`EventKind::Lost`]), whatever could have changed
//! unseen is unknown until the next event that shows it, and the time between counts as unknown.
//!
//! [`EventKind::Lost`]: schedlab_trace::EventKind::Lost

pub mod cpus;
pub mod distribution;
pub mod frequency;
pub mod idle;
pub mod idle_miss;
pub mod latency;
pub mod missing;
pub mod tasks;
pub mod timeline;

mod occupant;
mod per_cpu;
mod task_table;
#[cfg(test)]
mod testing;

pub use distribution::Distribution;
pub use task_table::{TaskId, TaskInfo, TaskTable};

use schedlab_trace::{Event, EventSource, TraceError};

/// Something that is fed every event of a trace in time order and has figures in the end.
pub trait Collector {
    /// Takes the next event.
    fn push(&mut self, event: &Event);
}

impl<A: Collector + ?Sized, B: Collector + ?Sized> Collector for (&mut A, &mut B) {
    #[inline]
    fn push(&mut self, event: &Event) {
        self.0.push(event);
        self.1.push(event);
    }
}

/// Feeds all that is left of `source` to `collector`. `between` is called after each batch with the
/// source, for progress and cancellation; its `false` stops the reading.
///
/// # Errors
/// Those of the source.
pub fn drive<C: Collector + ?Sized>(
    source: &mut dyn EventSource,
    collector: &mut C,
    mut between: impl FnMut(&dyn EventSource) -> bool,
) -> Result<(), TraceError> {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        let more = source.read_batch(&mut batch)?;
        for event in &batch {
            collector.push(event);
        }
        if !more || !between(source) {
            return Ok(());
        }
    }
}

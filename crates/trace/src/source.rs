//! One interface to every trace format.

use crate::error::TraceError;
use crate::event::{Event, Pid};
use crate::quality::Quality;
use crate::strings::{StrId, Strings};
use schedlab_machine::CpuId;
use std::collections::BTreeMap;

/// What a source knows of the whole file. It grows while events are read and is complete once
/// [`EventSource::read_batch`] has returned `false`.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The format's short name, such as `trace.dat v7`.
    pub format: String,
    /// The trace clock, such as `mono`, or empty where the file does not say.
    pub clock: String,
    /// The kernel release where the file names it, else empty.
    pub kernel_release: String,
    /// The CPUs that the file declares, or else those seen so far, in order.
    pub cpus: Vec<CpuId>,
    /// Every event of the file by its tracepoint name (without the system), parsed or not.
    pub event_counts: BTreeMap<String, u64>,
    /// Names of tasks that the file keeps beside its events (ftrace's saved command lines), for
    /// tasks that no event names.
    pub task_names: BTreeMap<Pid, StrId>,
    /// Events that the tracer dropped.
    pub lost_events: u64,
    /// First and last timestamp over all events, parsed or not, ns.
    pub time_span_ns: Option<(u64, u64)>,
    /// What is missing or doubtful.
    pub quality: Quality,
}

/// A trace being read, in time order and in bounded memory.
pub trait EventSource: Send {
    /// Appends the next events to `batch`, a few thousand at most, in time order. `false` when
    /// there are no more. Events of types outside the schema are counted, not appended, so a call
    /// may return `true` and append none.
    ///
    /// # Errors
    /// Only what stops all further reading; damage is a row of [`Summary::quality`].
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError>;

    /// What is known of the file so far.
    fn summary(&self) -> &Summary;

    /// The names that events refer to.
    fn strings(&self) -> &Strings;

    /// Bytes consumed and bytes in all, for a progress bar.
    fn progress_bytes(&self) -> (u64, u64);

    /// Takes the summary and the names out, once reading is done.
    fn finish(self: Box<Self>) -> (Summary, Strings);
}

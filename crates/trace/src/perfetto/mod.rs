//! Perfetto's protobuf traces: `FtraceEventBundle` with typed, named and self-described events,
//! compact sched, lost events per CPU, compressed packets, and the whole file in gzip.
//!
//! The file is read packet by packet. Tracers write a run of events per CPU in turn, so events
//! wait in a [`crate::merge::MergeWindow`] until they are in order.

mod compact;
mod decode;
mod events;
pub(crate) mod names;
mod packets;
pub(crate) mod points;
mod source;
pub(crate) mod states;
mod stats;
pub(crate) mod wire;

use crate::error::TraceError;
use crate::input::Input;
use crate::source::EventSource;
use crate::stream::{ByteStream, inflated_head};

/// Whether a file that begins so is a Perfetto trace, or a gzip file of one.
pub(crate) fn knows(head: &[u8]) -> bool {
    packets::sniff(&inflated_head(head))
}

/// Starts reading a Perfetto trace.
///
/// # Errors
/// What the operating system says; anything else becomes a finding.
pub(crate) fn open(input: Input) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Box::new(source::PerfettoSource::new(ByteStream::new(input)?)))
}

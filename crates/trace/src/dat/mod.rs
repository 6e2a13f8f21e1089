//! trace-cmd's `trace.dat`, versions 6 and 7: little and big endian, 32 and 64 bit, compressed
//! with zlib or zstd or not at all, with any number of buffers.
//!
//! Events of all CPUs and buffers are merged as they are read; what stays in memory is a window
//! of pages per CPU and the symbol table.

mod buffers;
mod clock;
mod compression;
pub(crate) mod cursor;
pub(crate) mod event_table;
mod header;
pub(crate) mod metadata;
mod options;
mod page;
mod source;
mod stream;
mod v6;
mod v7;

use crate::error::TraceError;
use crate::input::Input;
use crate::source::EventSource;

/// No single block of a file's description is longer: a symbol table of all modules is a quarter
/// of this.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Whether a file that begins so is a `trace.dat`.
pub(crate) fn knows(head: &[u8]) -> bool {
    head.starts_with(header::MAGIC)
}

/// Starts reading a `trace.dat`.
///
/// # Errors
/// When the first bytes (version, byte order, compression) are illegible or of an unknown kind.
pub(crate) fn open(input: Input) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Box::new(source::DatSource::open(input)?))
}

//! `perf.data` of `perf record` and `perf sched record`: files and pipes, both byte orders,
//! compressed or not. Tracepoints are decoded by the formats that the file carries; other samples
//! are counted.
//!
//! Records come roughly in order, CPU by CPU. `FINISHED_ROUND` records tell when nothing earlier
//! can follow, so events wait for that in a [`crate::merge::MergeWindow`].

mod attr;
mod features;
mod file;
mod records;
mod sample;
mod source;

use crate::error::TraceError;
use crate::format::Abi;
use crate::input::Input;
use crate::source::EventSource;

/// `PERFILE2` as the recording machine writes it.
const MAGIC_LITTLE: &[u8] = b"PERFILE2";
const MAGIC_BIG: &[u8] = b"2ELIFREP";

/// Whether a file that begins so is a `perf.data`.
pub(crate) fn knows(head: &[u8]) -> bool {
    head.starts_with(MAGIC_LITTLE) || head.starts_with(MAGIC_BIG)
}

/// Starts reading a `perf.data`.
///
/// # Errors
/// When the header is cut off or describes no events.
pub(crate) fn open(input: Input) -> Result<Box<dyn EventSource>, TraceError> {
    Ok(Box::new(source::PerfSource::open(input)?))
}

/// Numbers of a perf file are 64 bits wide whatever machine recorded it; only their order differs.
fn abi(big_endian: bool) -> Abi {
    Abi { big_endian, long_size: 8 }
}

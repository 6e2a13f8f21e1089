//! Traces for tests: the samples of the repository, and files that are made up so as to have what
//! no sample has (big-endian, 32-bit, zlib, several buffers, lost events, any length).

#![allow(dead_code, reason = "each test uses a part")]

pub mod compare;
pub mod damage;
pub mod dat_file;
pub mod perf_file;
pub mod protobuf;
pub mod records;
pub mod repeat;
pub mod ring_buffer;
pub mod v7_as_v6;

use schedlab_trace::{Event, EventSource, Strings, Summary, TraceError};
use std::path::{Path, PathBuf};

/// A sample in `tests/data/traces`.
pub fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces").join(name)
}

/// Everything that a source has.
pub struct Contents {
    pub events: Vec<Event>,
    pub summary: Summary,
    pub strings: Strings,
}

impl Contents {
    /// The findings' codes with CPU and count.
    pub fn findings(&self) -> Vec<(&'static str, Option<u32>, u64)> {
        let findings = self.summary.quality.findings().iter();
        findings
            .map(|finding| (finding.code, finding.cpu.map(|cpu| cpu.0), finding.count))
            .collect()
    }
}

/// Reads a source to its end.
pub fn read(mut source: Box<dyn EventSource>) -> Result<Contents, TraceError> {
    let mut events = Vec::new();
    while source.read_batch(&mut events)? {}
    let (summary, strings) = source.finish();
    Ok(Contents { events, summary, strings })
}

/// Reads bytes to their end.
pub fn read_bytes(bytes: &[u8]) -> Result<Contents, TraceError> {
    read(schedlab_trace::open_bytes("made-up.dat", bytes)?)
}

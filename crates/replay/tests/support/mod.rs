//! Traces for tests.

use schedlab_trace::{EventSource, TraceError};
use std::path::PathBuf;

/// Opens a trace of `tests/data/traces`.
pub fn open(name: &str) -> Result<Box<dyn EventSource>, TraceError> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    schedlab_trace::open(&root.join("../../tests/data/traces").join(name))
}

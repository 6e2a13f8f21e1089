//! Any bytes as a textual trace: no panic, time order, nothing counted that was not there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use schedlab_trace::text::TextSource;
use schedlab_trace::{EventKind, EventSource};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    schedlab_trace::text::sniff(bytes);
    for is_html in [false, true] {
        let total_bytes = bytes.len() as u64;
        let mut source = TextSource::new(bytes, Path::new("fuzzed"), total_bytes, is_html);
        let mut events = Vec::new();
        while let Ok(true) = source.read_batch(&mut events) {}
        assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
        let counted: u64 = source.summary().event_counts.values().sum();
        let placed = events.iter().filter(|e| !matches!(e.kind, EventKind::Lost { .. })).count();
        assert!(placed as u64 <= counted);
        let lines = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
        assert!(counted <= lines as u64);
    }
});

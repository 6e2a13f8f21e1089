//! What all fuzz targets do with a trace.

/// Reads bytes to their end, through the registry as a user would. Reading may fail, but what it
/// gives must be in order and add up.
///
/// # Panics
/// When it is not: that is a finding.
pub fn read(name: &str, bytes: &[u8]) {
    let Ok(mut source) = schedlab_trace::open_bytes(name, bytes) else { return };
    let mut events = Vec::new();
    let mut last_ns = 0;
    while source.read_batch(&mut events).is_ok_and(|more| more) {
        for event in &events {
            assert!(event.timestamp_ns >= last_ns, "events are in time order");
            last_ns = event.timestamp_ns;
        }
        events.clear();
    }
    let (done, all) = source.progress_bytes();
    assert!(done <= all, "progress stays within bounds");
    let (summary, _) = source.finish();
    if let Some((first, last)) = summary.time_span_ns {
        assert!(first <= last, "time spans run forward");
    }
}

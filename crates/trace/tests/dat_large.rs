//! A trace far larger than what reading it may keep in memory, in a process of its own, whose memory
//! it looks at.

#[path = "readers/support/mod.rs"]
mod support;

use std::path::Path;

/// The most memory that this process ever had resident, in bytes.
#[cfg(target_os = "linux")]
fn peak_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_file() {
    let source = std::fs::read(support::sample("trappy_arm32.dat")).unwrap();
    let once = support::read_bytes(&source).unwrap();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large.dat");
    let times = support::repeat::repeat(&source, &path, 300 << 20).unwrap();

    let before = peak_resident_bytes();
    let mut trace = schedlab_trace::open(&path).unwrap();
    let (mut events, mut parsed, mut last) = (Vec::new(), 0, 0);
    while trace.read_batch(&mut events).unwrap() {
        parsed += events.len() as u64;
        assert!(events.iter().all(|event| event.timestamp_ns >= last));
        last = events.last().map_or(last, |event| event.timestamp_ns);
        events.clear();
    }
    let grown = peak_resident_bytes() - before;
    let (summary, _) = trace.finish();
    std::fs::remove_file(&path).unwrap();

    assert_eq!(parsed, once.events.len() as u64 * times);
    for (name, count) in &once.summary.event_counts {
        assert_eq!(summary.event_counts[name], count * times);
    }
    assert!(grown < 64 << 20, "{grown} bytes");
}

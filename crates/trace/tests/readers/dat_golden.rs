//! Real `trace.dat` files against what `trace-cmd report -t` prints of them: every event's time,
//! CPU, order and content, and the counts of all events by name.

use crate::support::{Contents, read, read_bytes, sample};
use schedlab_trace::{Event, EventKind, TaskState};
use std::collections::BTreeMap;
use std::io::Read;

/// The trace, and the text that trace-cmd prints of it.
fn golden(name: &str) -> (Contents, String) {
    let contents = read(schedlab_trace::open(&sample(name)).unwrap()).unwrap();
    let packed = std::fs::File::open(sample(&format!("{name}.txt.zst"))).unwrap();
    let mut text = String::new();
    zstd::Decoder::new(packed).unwrap().read_to_string(&mut text).unwrap();
    (contents, text)
}

/// `  COMM-PID  [CPU]  SECONDS: NAME: ...` gives the name.
fn name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    time.contains('.').then_some(())?;
    Some(rest.split(':').next()?.trim())
}

fn counts_by_name(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in text.lines().filter_map(name) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

/// An event with its texts in place of their numbers, and without why a task left its CPU:
/// trace-cmd prints that by a table of its own, which is not the traced kernel's.
fn shown(event: &Event, contents: &Contents) -> String {
    let mut event = *event;
    if let EventKind::Switch { prev_state, .. } = &mut event.kind {
        *prev_state = TaskState::Running;
    }
    let mut text = format!("{event:?}");
    while let Some(start) = text.find("StrId(") {
        let end = start + text[start..].find(')').unwrap();
        let id = schedlab_trace::StrId(text[start + 6..end].parse().unwrap());
        text.replace_range(start..=end, &format!("{:?}", contents.strings.get(id)));
    }
    text
}

fn check(name: &str, format: &str, kernel: &str, clock: &str) -> Contents {
    let (contents, text) = golden(name);
    assert_eq!(contents.summary.event_counts, counts_by_name(&text), "{name}");
    let printed = read_bytes(text.as_bytes()).unwrap();
    assert_eq!(contents.events.len(), printed.events.len(), "{name}");
    for (mine, theirs) in contents.events.iter().zip(&printed.events) {
        assert_eq!(shown(mine, &contents), shown(theirs, &printed), "{name}");
    }
    let summary = &contents.summary;
    assert_eq!(summary.time_span_ns, printed.summary.time_span_ns, "{name}");
    assert_eq!((&*summary.format, &*summary.kernel_release), (format, kernel), "{name}");
    assert_eq!((&*summary.clock, summary.lost_events), (clock, 0), "{name}");
    contents
}

const LINUX_6_12: &str = "6.12.117+deb12-amd64";

#[test]
fn idle_periods_of_linux_6_12() {
    let contents = check("qemu_idle_menu.dat", "trace.dat v7", LINUX_6_12, "mono");
    assert_eq!(contents.summary.event_counts["cpu_idle"], 8129);
    assert_eq!(contents.summary.cpus.len(), 4);
    assert_eq!(contents.findings(), []);
    let dead = |event: &&Event| {
        matches!(event.kind, EventKind::Switch { prev_state: TaskState::Dead, .. })
    };
    assert_eq!(contents.events.iter().filter(dead).count(), 5, "0x10 is X since Linux 4.14");
}

#[test]
fn probed_pelt_values_of_linux_6_12() {
    let contents = check("qemu_pelt_ptask.dat", "trace.dat v7", LINUX_6_12, "mono");
    let pelt = |event: &&Event| matches!(event.kind, EventKind::PeltTask { .. });
    assert_eq!(contents.events.iter().filter(pelt).count(), 2401);
    assert_eq!(contents.findings(), []);
    let names: Vec<_> = contents.summary.task_names.values().collect();
    assert!(names.iter().any(|&&name| contents.strings.get(name) == "nicehog"));
}

#[test]
fn pelt_tracepoints_of_an_arm64_kernel() {
    let contents = check("lisa_sched_load.dat", "trace.dat v6", "", "");
    let groups = contents.summary.event_counts["sched_load_cfs_rq"];
    let root = |event: &&Event| matches!(event.kind, EventKind::PeltCpu { .. });
    let roots = contents.events.iter().filter(root).count();
    assert_eq!((groups, roots), (2437, 191), "queues of task groups are not CPUs");
}

#[test]
fn a_32_bit_kernel_with_wrong_comm_bounds() {
    let contents = check("trappy_arm32.dat", "trace.dat v6", "", "");
    let v7 = read(schedlab_trace::open(&sample("trappy_arm32_v7.dat")).unwrap()).unwrap();
    assert_eq!(v7.events, contents.events);
    assert_eq!(v7.summary.event_counts, contents.summary.event_counts);
}

#[test]
fn version_6_and_7_of_one_trace() {
    for name in ["qemu_idle_menu.dat", "qemu_pelt_ptask.dat"] {
        let v7 = std::fs::read(sample(name)).unwrap();
        let v6 = read_bytes(&crate::support::v7_as_v6::v7_as_v6(&v7).unwrap()).unwrap();
        let v7 = read_bytes(&v7).unwrap();
        assert_eq!(v6.events, v7.events);
        assert_eq!(v6.summary.event_counts, v7.summary.event_counts);
        assert_eq!(v6.summary.task_names, v7.summary.task_names);
    }
}

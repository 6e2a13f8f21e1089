//! Perfetto traces that others encoded.

use crate::support::compare::assert_same_events;
use crate::support::{Contents, read, sample};
use schedlab_trace::{Event, EventKind, Pid, StrId, Task};
use std::collections::BTreeMap;

fn open(name: &str) -> Contents {
    read(schedlab_trace::open(&sample(name)).unwrap()).unwrap()
}

/// What compact sched keeps of a trace: switches and wakings, the task that leaves being the one
/// that came last.
fn compacted(mut contents: Contents) -> Contents {
    let nobody = (Task { pid: Pid::UNKNOWN, comm: StrId::EMPTY }, 0);
    let mut running = BTreeMap::new();
    contents.events.retain_mut(|event| {
        let current = running.entry(event.cpu).or_insert(nobody);
        event.pid = current.0.pid;
        match &mut event.kind {
            EventKind::Switch { prev, prev_prio, next, next_prio, .. } => {
                (*prev, *prev_prio) = *current;
                *current = (*next, *next_prio);
                true
            }
            EventKind::Waking { .. } => true,
            _ => false,
        }
    });
    contents
}

#[test]
fn compact_sched_holds_what_the_original_trace_says() {
    let compact = open("qemu_idle_menu_compact.pftrace");
    let original = compacted(open("qemu_idle_menu.dat"));
    assert_same_events(&compact, &original);
    let counts = &compact.summary.event_counts;
    assert_eq!(counts.values().sum::<u64>(), 9184);
    assert_eq!(counts["sched_switch"], 6118);
    assert_eq!((&*compact.summary.clock, compact.summary.lost_events), ("boot", 0));
    assert_eq!(compact.summary.kernel_release, "6.12.117+deb12-amd64");
    assert_eq!(compact.strings.get(compact.summary.task_names[&Pid(617)]), "ptask");
    assert_eq!(compact.findings(), []);
}

#[test]
fn switches_of_one_cpu_follow_one_another() {
    let compact = open("qemu_idle_menu_compact.pftrace");
    let mut running = BTreeMap::new();
    for Event { cpu, kind, .. } in &compact.events {
        if let EventKind::Switch { prev, next, .. } = kind {
            let expected = running.insert(*cpu, next.pid).unwrap_or(Pid::UNKNOWN);
            assert_eq!(prev.pid, expected);
        }
    }
}

#[test]
fn a_phone_s_trace_in_gzip() {
    let contents = open("android_print.pftrace.gz");
    let counts = BTreeMap::from([("print".to_owned(), 1614)]);
    assert_eq!(contents.summary.event_counts, counts);
    assert_eq!(contents.summary.cpus.len(), 8);
    assert!(contents.summary.kernel_release.starts_with("5.10.157-android13"));
    assert_eq!((contents.events.len(), contents.findings()), (0, vec![]));
    let (first, last) = contents.summary.time_span_ns.unwrap();
    assert!(last > first && last - first < 2_000_000_000);
}

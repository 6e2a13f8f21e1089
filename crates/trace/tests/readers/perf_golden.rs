//! A real `perf.data` against what `perf script` prints of it: every event's time, CPU, order and
//! content, and the counts by name.

use crate::support::compare::shown;
use crate::support::{Contents, read, sample};
use schedlab_trace::Pid;
use std::collections::BTreeMap;

fn open(name: &str) -> Contents {
    read(schedlab_trace::open(&sample(name)).unwrap()).unwrap()
}

#[test]
fn perf_sched_record_of_linux_6_12() {
    let (binary, printed) = (open("qemu_psched_hackbench.data"), open("qemu_perf_script_ns.txt"));
    let expected = BTreeMap::from(
        [
            ("sched_migrate_task", 39),
            ("sched_process_fork", 16),
            ("sched_stat_runtime", 470),
            ("sched_switch", 438),
            ("sched_wakeup_new", 16),
            ("sched_waking", 224),
        ]
        .map(|(name, count)| (name.to_owned(), count)),
    );
    assert_eq!(binary.summary.event_counts, expected);
    assert_eq!(printed.summary.event_counts, expected);
    assert_eq!(binary.events.len(), 1203);
    for (mine, theirs) in binary.events.iter().zip(&printed.events) {
        // perf knows no id of a task that is exiting; the tracepoint's own record does.
        let mut theirs = *theirs;
        if theirs.pid == Pid(-1) {
            theirs.pid = mine.pid;
        }
        assert_eq!(shown(mine, &binary), shown(&theirs, &printed));
    }
    let summary = &binary.summary;
    assert_eq!(summary.time_span_ns, Some((113_847_594_607, 113_890_334_809)));
    assert_eq!((&*summary.format, &*summary.clock), ("perf.data", "perf"));
    assert_eq!((&*summary.kernel_release, summary.cpus.len()), ("6.12.117+deb12-amd64", 8));
    assert_eq!((summary.lost_events, binary.findings()), (0, vec![]));
    assert_eq!(binary.strings.get(summary.task_names[&Pid(2)]), "kthreadd");
}

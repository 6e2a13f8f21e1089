use super::*;
use crate::testing::{at, by, switch, wakeup, wakeup_new, waking};
use TaskState::{Dead, DiskSleep, Preempted, Sleeping};
use proptest::prelude::*;

fn tasks(events: &[Event], end_ns: u64) -> Vec<(i32, TaskFigures)> {
    let mut collector = Tasks::default();
    events.iter().for_each(|event| collector.push(event));
    let rows = collector.finish(end_ns).into_iter();
    rows.map(|row| (row.info.pid.0, row.figures)).collect()
}

#[test]
fn a_life_by_hand() {
    let events = [
        at(100, 0, wakeup_new(7)),           // waits 20
        at(120, 1, switch(0, Preempted, 7)), // runs 30
        at(150, 1, switch(7, Preempted, 8)), // waits 10
        at(160, 2, switch(0, Preempted, 7)), // runs 5
        at(165, 2, switch(7, Sleeping, 0)),  // sleeps 35
        at(200, 0, waking(7)),               // waits 12, from the first wake event
        at(204, 0, wakeup(7)),
        at(212, 2, switch(0, Preempted, 7)), // runs 8
        at(220, 2, switch(7, DiskSleep, 0)), // blocked 30
        at(250, 0, waking(7)),               // waits 1
        at(251, 2, switch(0, Preempted, 7)), // runs 9
        at(260, 2, switch(7, Dead, 0)),
    ];
    let rows = tasks(&events, 1_000);
    let (pid, figures) = &rows[0];
    assert_eq!(*pid, 7);
    assert_eq!(
        *figures,
        TaskFigures {
            run_ns: 52,
            runnable_ns: 43,
            sleep_ns: 35,
            blocked_ns: 30,
            unknown_ns: 0,
            wakeups: 2,
            switches: 4,
            preemptions: 1,
            voluntary: 3,
            migrations: 0,
            cpu_changes: 1,
            cpus: vec![CpuId(1), CpuId(2)],
            first_seen_ns: 100,
            last_seen_ns: 260,
        }
    );
    let (pid, figures) = &rows[1];
    assert_eq!((*pid, figures.run_ns), (8, 850), "task 8 runs from 150 to the trace's end");
}

#[test]
fn a_trace_with_only_waking_counts_wakeups_by_it() {
    let events = [at(10, 0, waking(7)), at(20, 0, switch(0, Preempted, 7))];
    assert_eq!(tasks(&events, 20)[0].1.wakeups, 1);
    // As `perf sched record` writes it, with births besides.
    let born = [at(1, 0, wakeup_new(7)), at(2, 0, switch(0, Preempted, 7))];
    let slept = [at(5, 0, switch(7, Sleeping, 0))];
    let events: Vec<Event> = born.into_iter().chain(slept).chain(events).collect();
    assert_eq!(tasks(&events, 20)[0].1.wakeups, 2);
}

#[test]
fn a_task_runs_from_the_first_record_that_shows_it() {
    let events = [
        by(7, 100, 0, EventKind::SoftirqRaise { vec: 1 }),
        by(7, 130, 0, switch(7, Sleeping, 0)),
        at(150, 1, switch(8, Sleeping, 0)),
    ];
    let rows = tasks(&events, 200);
    assert_eq!((rows[0].1.run_ns, rows[0].1.sleep_ns), (30, 70));
    // Task 8 was there since nobody knows when.
    assert_eq!((rows[1].1.run_ns, rows[1].1.sleep_ns), (0, 50));
}

#[test]
fn lost_events_make_unknown_time() {
    let events = [
        at(100, 0, switch(0, Preempted, 7)),
        at(110, 1, switch(8, Sleeping, 0)),
        at(150, 0, EventKind::Lost { count: 5 }),
        at(170, 0, switch(7, Sleeping, 0)),
        at(180, 1, waking(8)),
        at(190, 1, switch(0, Preempted, 8)),
    ];
    let rows = tasks(&events, 200);
    // Of task 7, what it did from 100 to 170 is unknown: it may have slept in between.
    assert_eq!((rows[0].1.run_ns, rows[0].1.unknown_ns, rows[0].1.sleep_ns), (0, 70, 30));
    // Task 8 may have run between 110 and 180.
    assert_eq!((rows[1].1.sleep_ns, rows[1].1.unknown_ns), (0, 70));
    assert_eq!((rows[1].1.runnable_ns, rows[1].1.run_ns), (10, 10));
}

proptest! {
    /// However damaged the sequence, the times of a task add up to the time since its first sight.
    #[test]
    fn times_add_up(steps in prop::collection::vec(any::<(u8, u8, u8, u8, u8)>(), 0..200)) {
        let mut now_ns = 1_000;
        let mut collector = Tasks::default();
        for (what, cpu, pid, other, delay) in steps {
            now_ns += u64::from(delay);
            let (pid, other) = (i32::from(pid % 5), i32::from(other % 5));
            let kind = match what % 8 {
                0 => waking(pid),
                1 => wakeup(pid),
                2 => wakeup_new(pid),
                3 => EventKind::Lost { count: 1 },
                4 => switch(pid, DiskSleep, other),
                5 => switch(pid, Sleeping, other),
                _ => switch(pid, Preempted, other),
            };
            collector.push(&by(pid, now_ns, u32::from(cpu % 3), kind));
        }
        for row in collector.finish(now_ns + 10) {
            let figures = row.figures;
            let sum = figures.run_ns + figures.runnable_ns + figures.sleep_ns
                + figures.blocked_ns + figures.unknown_ns;
            prop_assert_eq!(sum, now_ns + 10 - figures.first_seen_ns);
        }
    }
}

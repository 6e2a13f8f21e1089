use super::*;
use crate::testing::{at, by, enter, exit, khz, switch, task, waking};

fn collect(events: &[Event], intervals_max: usize, end_ns: u64) -> Intervals {
    let machine = Machine::preset("simidle").unwrap();
    let mut timeline = Timeline::new(Some(&machine), From::Waking, intervals_max);
    for event in events {
        timeline.push(event);
    }
    timeline.finish(end_ns)
}

#[test]
fn a_run_lasts_from_switch_to_switch_and_knows_its_wait() {
    let found = collect(
        &[
            by(0, 5, 0, waking(7)),
            by(0, 20, 0, switch(0, TaskState::Running, 7)),
            by(7, 50, 0, switch(7, TaskState::Sleeping, 8)),
        ],
        100,
        90,
    );
    let run = |start_ns, end_ns, pid, latency_ns, left| Run {
        cpu: CpuId(0),
        start_ns,
        end_ns,
        task: task(pid),
        latency_ns,
        left,
    };
    assert_eq!(
        found.runs,
        [run(20, 50, 7, Some(15), Some(TaskState::Sleeping)), run(50, 90, 8, None, None)]
    );
}

#[test]
fn a_run_from_before_the_trace_begins_at_the_first_event_and_is_named_by_its_end() {
    let found = collect(
        &[by(7, 10, 0, waking(9)), by(7, 30, 0, switch(7, TaskState::Preempted, 0))],
        100,
        90,
    );
    assert_eq!(found.runs.len(), 1);
    assert_eq!((found.runs[0].start_ns, found.runs[0].end_ns), (10, 30));
    assert_eq!(found.runs[0].task, task(7));
}

#[test]
fn lost_events_end_a_run_and_what_follows_is_unknown() {
    let found = collect(
        &[
            at(10, 0, switch(0, TaskState::Running, 7)),
            at(20, 0, EventKind::Lost { count: 3 }),
            at(40, 0, switch(8, TaskState::Sleeping, 0)),
        ],
        100,
        90,
    );
    assert_eq!(found.runs.len(), 1);
    assert_eq!((found.runs[0].end_ns, found.runs[0].left), (20, None));
}

#[test]
fn a_task_that_leaves_without_having_come_discards_the_believed_run() {
    let found = collect(
        &[
            at(10, 0, switch(0, TaskState::Running, 7)),
            at(40, 0, switch(8, TaskState::Sleeping, 9)),
            at(50, 0, switch(9, TaskState::Sleeping, 0)),
        ],
        100,
        90,
    );
    assert_eq!(found.runs.iter().map(|run| run.task.pid.0).collect::<Vec<_>>(), [9]);
}

#[test]
fn sleeps_are_judged_when_whole() {
    // State 3 of simidle is C3: 100 us residency.
    let found = collect(
        &[
            at(0, 0, enter(0, 3)),
            at(99_999, 0, exit(0)),
            at(200_000, 0, enter(0, 3)),
            at(300_000, 0, exit(0)),
            at(400_000, 0, enter(0, 3)),
        ],
        100,
        900_000,
    );
    let seen: Vec<_> = found.sleeps.iter().map(|sleep| (sleep.whole, sleep.verdict)).collect();
    assert_eq!(seen, [(true, Some(Verdict::TooDeep)), (true, Some(Verdict::Fits)), (false, None)]);
    assert_eq!(found.sleeps[2].period.exit_ns, 900_000);
}

#[test]
fn a_full_timeline_says_where_it_was_cut() {
    let found = collect(
        &[
            at(10, 0, switch(0, TaskState::Running, 7)),
            at(20, 0, khz(0, 800_000)),
            at(30, 0, khz(0, 900_000)),
            at(40, 0, khz(0, 1_000_000)),
            at(50, 0, switch(7, TaskState::Sleeping, 0)),
        ],
        2,
        90,
    );
    assert_eq!(found.cut_ns, Some(40));
    assert_eq!(found.samples.len(), 2);
    assert_eq!((found.runs[0].start_ns, found.runs[0].end_ns), (10, 40));
}

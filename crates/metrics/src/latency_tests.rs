use super::*;
use crate::testing::{at, by, switch, task, wakeup, wakeup_new, waking};
use proptest::prelude::*;
use schedlab_trace::TaskState::{Dead, Preempted, Sleeping};
use std::collections::BTreeMap;

fn latencies(from: From, events: &[Event]) -> Vec<(i32, Vec<u64>)> {
    let mut collector = WakeupLatency::new(from);
    events.iter().for_each(|event| collector.push(event));
    collector.finish().into_iter().map(|task| (task.pid.0, task.latencies_ns)).collect()
}

#[test]
fn a_latency_runs_from_the_first_wake_to_the_switch_in() {
    let events = [
        at(100, 0, waking(7)),
        at(103, 0, wakeup(7)),
        at(110, 1, waking(7)),
        at(150, 1, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![50])]);
    assert_eq!(latencies(From::Wakeup, &events), [(7, vec![47])]);
}

#[test]
fn a_first_wakeup_counts_in_both_modes() {
    let events = [at(100, 0, wakeup_new(7)), at(150, 1, switch(0, Preempted, 7))];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![50])]);
    assert_eq!(latencies(From::Wakeup, &events), [(7, vec![50])]);
}

#[test]
fn wakes_of_a_running_task_are_ignored() {
    let events = [
        at(100, 1, switch(0, Preempted, 7)),
        at(120, 0, waking(7)),
        at(140, 1, switch(7, Sleeping, 0)),
        at(160, 1, switch(0, Preempted, 7)),
        at(170, 1, switch(7, Sleeping, 0)),
        at(200, 0, waking(7)),
        at(230, 2, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![30])]);
}

#[test]
fn a_task_that_a_record_shows_running_is_running() {
    let events = [
        by(7, 100, 1, EventKind::SoftirqRaise { vec: 1 }),
        at(120, 0, waking(7)),
        at(140, 1, switch(7, Preempted, 8)),
        at(160, 1, switch(8, Sleeping, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), []);
}

#[test]
fn what_a_task_ran_through_before_its_first_switch_is_no_wait() {
    // Nothing showed task 7 on CPU 1 when it was woken, but its switch-out does.
    let events = [
        at(120, 0, waking(7)),
        at(140, 1, switch(7, Sleeping, 0)),
        at(160, 1, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), []);
}

#[test]
fn a_preempted_task_waits_without_a_wakeup() {
    let events = [
        at(100, 0, switch(0, Preempted, 7)),
        at(110, 0, switch(7, Preempted, 8)),
        at(120, 0, switch(8, Sleeping, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), []);
}

#[test]
fn no_wait_reaches_across_lost_events() {
    let events = [
        at(100, 0, waking(7)),
        at(110, 1, EventKind::Lost { count: 9 }),
        at(120, 0, switch(0, Preempted, 7)),
        at(130, 0, switch(7, Sleeping, 0)),
        at(140, 0, waking(7)),
        at(145, 0, switch(0, Preempted, 7)),
        at(150, 0, EventKind::Lost { count: 9 }),
        at(160, 1, waking(7)),
        at(163, 1, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![5, 3])]);
}

#[test]
fn a_task_that_left_unseen_is_off_its_cpu() {
    let events = [
        at(100, 0, switch(0, Preempted, 7)),
        at(110, 0, switch(8, Sleeping, 0)),
        at(120, 0, waking(7)),
        at(126, 0, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![6])]);
}

#[test]
fn a_reused_thread_id_is_another_task() {
    let events = [
        at(100, 0, waking(7)),
        at(105, 0, switch(0, Preempted, 7)),
        at(110, 0, switch(7, Dead, 0)),
        at(120, 0, wakeup_new(7)),
        at(127, 0, switch(0, Preempted, 7)),
    ];
    assert_eq!(latencies(From::Waking, &events), [(7, vec![5]), (7, vec![7])]);
}

#[test]
fn names_group_tasks() {
    let with = |pid, latencies_ns| TaskLatencies { pid: Pid(pid), comm: StrId(3), latencies_ns };
    let mut tasks = [with(1, vec![10, 30]), with(2, vec![20])];
    let rows = by_comm(&tasks);
    assert_eq!((rows.len(), rows[0].tasks, rows[0].pid), (1, 2, None));
    assert_eq!((rows[0].latency.count, rows[0].latency.p50_ns), (3, 20.0));
    let rows = by_task(&mut tasks);
    assert_eq!((rows.len(), rows[1].pid, rows[1].latency.max_ns), (2, Some(Pid(2)), 20));
}

/// The definition, written down without regard to speed: for each switch-in, look back over all
/// earlier events for the last time the task was on a CPU, and take the first wake since.
fn model(from: From, events: &[Event]) -> BTreeMap<i32, Vec<u64>> {
    let mut found = BTreeMap::<i32, Vec<u64>>::new();
    for (now, event) in events.iter().enumerate() {
        let EventKind::Switch { next, .. } = event.kind else { continue };
        let last_on_cpu = events[..now].iter().rposition(
            |e| matches!(e.kind, EventKind::Switch { prev, .. } if prev.pid == next.pid),
        );
        let first_wake = events[last_on_cpu.map_or(0, |at| at + 1)..now].iter().find(|e| {
            let whom = match e.kind {
                EventKind::Waking { task, .. } if from == From::Waking => task,
                EventKind::Wakeup { task, .. } if from == From::Wakeup => task,
                EventKind::WakeupNew { task, .. } => task,
                _ => return false,
            };
            whom.pid == next.pid
        });
        if let (Some(wake), true) = (first_wake, next.pid != Pid::IDLE) {
            let latency_ns = event.timestamp_ns - wake.timestamp_ns;
            found.entry(next.pid.0).or_default().push(latency_ns);
        }
    }
    found
}

/// A consistent schedule: every switch takes out what the CPU runs and brings in a task that no
/// other CPU runs; wakes name any task, running or not.
fn schedule(steps: &[(u8, u8, u8, u8)]) -> Vec<Event> {
    const CPUS: usize = 3;
    let mut running = [0_i32; CPUS];
    let mut now_ns = 0;
    let mut events = Vec::new();
    for &(what, cpu, pid, delay) in steps {
        now_ns += u64::from(delay);
        let (cpu, pid) = (usize::from(cpu) % CPUS, i32::from(pid % 6));
        let kind = match what % 6 {
            0 => waking(pid.max(1)),
            1 => wakeup(pid.max(1)),
            2 => wakeup_new(pid.max(1)),
            _ if pid != 0 && running.contains(&pid) => continue,
            _ => switch(std::mem::replace(&mut running[cpu], pid), Sleeping, pid),
        };
        events.push(at(now_ns, cpu as u32, kind));
    }
    events
}

proptest! {
    #[test]
    fn the_collector_agrees_with_the_definition(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8)>(), 0..200)
    ) {
        let events = schedule(&steps);
        for from in [From::Waking, From::Wakeup] {
            let mut found = latencies(from, &events);
            found.sort();
            prop_assert_eq!(found, model(from, &events).into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn nonsense_is_survived(
        steps in prop::collection::vec(any::<(u8, u32, i32, u64)>(), 0..100)
    ) {
        let mut collector = WakeupLatency::new(From::Waking);
        for (what, cpu, pid, timestamp_ns) in steps {
            let kind = match what % 5 {
                0 => waking(pid),
                1 => switch(pid, Dead, pid.wrapping_add(1)),
                2 => EventKind::Exit { task: task(pid) },
                3 => EventKind::Lost { count: 0 },
                _ => switch(1, Sleeping, pid),
            };
            collector.push(&by(pid, timestamp_ns, cpu, kind));
        }
        collector.finish();
    }
}

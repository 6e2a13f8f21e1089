//! What each operation of the task language means, seen from outside.

use crate::support::{run, settings};
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_sim::{Ending, Nothing, Outcome};
use schedlab_workload::build::{Builder, Code};
use schedlab_workload::program::{
    Amount, Better, MetricId, MetricKind, ObjectId, ObjectKind, Op, Slot, Which, Workload,
};

/// A program's name and what writes it.
type Part<'a> = (&'a str, &'a dyn Fn(&mut Code));

const MS: u64 = 1_000_000;

fn one(id: u32) -> Which {
    Which::One(ObjectId(id))
}

/// Runs on eight CPUs for at most a second.
fn simulate(workload: &Workload) -> Outcome<Nothing> {
    let settings = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
    run("generic", workload, &settings, Nothing)
}

/// A task per program, each created on a CPU of its own, with a total and the first and last time
/// of use as metrics 0 to 2.
fn tasks(objects: &[ObjectKind], programs: &[Part<'_>]) -> Outcome<Nothing> {
    let mut build = Builder::new("test");
    for &object in objects {
        build.object(object);
    }
    build.metric("total", "1", Better::Higher, MetricKind::Total);
    build.metric("earliest", "us", Better::Lower, MetricKind::Percentile(0.0));
    build.metric("finish", "s", Better::Lower, MetricKind::Finish);
    for (index, (comm, write)) in programs.iter().enumerate() {
        let program = build.program(*comm, |code| write(code));
        build.spawn(program, index as u32 % 8, 0);
    }
    simulate(&build.finish().expect("a valid workload"))
}

const COUNT: Op = Op::Count { metric: MetricId(0), amount: 1 };

/// Takes the time since the start down: nothing ever marks this slot.
const NOW: Op = Op::Measure { metric: MetricId(1), since: Slot(15) };

fn figure(outcome: &Outcome<Nothing>, index: usize) -> f64 {
    outcome.figures[index].value.expect("measured")
}

fn waits(outcome: &Outcome<Nothing>) -> &[String] {
    match &outcome.ending {
        Ending::Stuck(waits) => waits,
        other => panic!("not stuck: {other:?}"),
    }
}

#[test]
fn a_mutex_lets_in_one_at_a_time() {
    let section = |code: &mut Code| {
        code.repeat(10, |code| {
            code.op(Op::Lock(one(0))).run(MS).op(Op::Unlock(one(0))).op(COUNT);
        });
    };
    let four: [Part<'_>; 4] = [("t", &section); 4];
    let outcome = tasks(&[ObjectKind::Mutex], &four);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, 0), 40.0);
    assert!(outcome.end_ns >= 40 * MS, "{}", outcome.end_ns);
}

#[test]
fn a_device_serves_as_many_requests_at_once_as_it_can() {
    let reads = |code: &mut Code| {
        code.repeat(10, |code| {
            code.op(Op::Io { device: one(0), service_ns: Amount::Fixed(MS) }).op(COUNT);
        });
    };
    let four: [Part<'_>; 4] = [("t", &reads); 4];
    for (at_once, rounds) in [(1, 40), (2, 20), (4, 10)] {
        let outcome = tasks(&[ObjectKind::Device(at_once)], &four);
        assert_eq!(outcome.ending, Ending::Finished);
        assert_eq!(figure(&outcome, 0), 40.0);
        // A request comes a little after the one before was done: the CPU may have to leave C8.
        let (least_ns, most_ns) = (rounds * MS, rounds * MS * 5 / 4);
        assert!((least_ns..most_ns).contains(&outcome.end_ns), "{at_once}: {}", outcome.end_ns);
    }
}

#[test]
fn a_semaphore_lets_in_as_many_as_it_counts() {
    let section = |code: &mut Code| {
        code.repeat(10, |code| {
            code.op(Op::Down(one(0))).run(MS).op(Op::Up(one(0))).op(COUNT);
        });
    };
    let four: [Part<'_>; 4] = [("t", &section); 4];
    let outcome = tasks(&[ObjectKind::Semaphore(2)], &four);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, 0), 40.0);
    assert!((20 * MS..30 * MS).contains(&outcome.end_ns), "{}", outcome.end_ns);
}

#[test]
fn an_empty_semaphore_waits_for_an_up() {
    let down = |code: &mut Code| {
        code.op(Op::Down(one(0))).op(COUNT);
    };
    let up = |code: &mut Code| {
        code.op(Op::Up(one(0)));
    };
    let outcome = tasks(&[ObjectKind::Semaphore(0)], &[("a", &down), ("b", &down), ("up", &up)]);
    assert_eq!(figure(&outcome, 0), 1.0);
    assert_eq!(waits(&outcome).len(), 1);
}

#[test]
fn a_barrier_opens_when_the_last_has_come() {
    let quick = |code: &mut Code| {
        code.run(MS).op(Op::Barrier(one(0))).op(NOW);
    };
    let slow = |code: &mut Code| {
        code.run(20 * MS).op(Op::Barrier(one(0))).op(NOW);
    };
    let programs: [Part<'_>; 3] = [("q", &quick), ("q", &quick), ("s", &slow)];
    let outcome = tasks(&[ObjectKind::Barrier(3)], &programs);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.figures[1].samples, 3);
    assert!(figure(&outcome, 1) >= 19_500.0, "{:?}", outcome.figures);
}

#[test]
fn a_run_that_cannot_go_on_names_who_waits_for_what() {
    let once = |code: &mut Code| {
        code.op(Op::Barrier(one(0)));
    };
    let twice = |code: &mut Code| {
        code.op(Op::Barrier(one(0))).op(Op::Barrier(one(0)));
    };
    let outcome = tasks(&[ObjectKind::Barrier(2)], &[("once", &once), ("twice", &twice)]);
    assert_eq!(waits(&outcome), ["twice (task 1) waits for barrier 0"]);
}

#[test]
fn a_channel_keeps_every_byte_and_no_more_than_its_capacity() {
    let channel = ObjectKind::Channel { capacity_bytes: 4096, sync_wakeup: true };
    let write = |code: &mut Code| {
        code.repeat(100, |code| {
            code.op(Op::Write { channel: one(0), bytes: 1000 });
        });
        code.op(NOW);
    };
    let read = |bytes, times| {
        move |code: &mut Code| {
            code.sleep(5 * MS).repeat(times, |code| {
                code.op(Op::Read { channel: one(0), bytes }).op(COUNT);
            });
        }
    };
    // Message boundaries do not matter, only bytes.
    let outcome = tasks(&[channel], &[("w", &write), ("r", &read(2500, 40))]);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, 0), 40.0);
    assert!(figure(&outcome, 1) >= 4_900.0, "the writer had to wait for the reader");
    // One message more than was written never comes.
    let outcome = tasks(&[channel], &[("w", &write), ("r", &read(1000, 101))]);
    assert_eq!(figure(&outcome, 0), 100.0);
    assert_eq!(waits(&outcome), ["r (task 1) waits for channel 0"]);
    // Nobody reads.
    let outcome = tasks(&[channel], &[("w", &write)]);
    assert_eq!(waits(&outcome), ["w (task 0) waits for channel 0"]);
}

#[test]
fn a_condition_wakes_one_or_all_and_gives_the_mutex_back() {
    let wait = |code: &mut Code| {
        let condition = one(0);
        code.op(Op::Lock(one(1))).op(Op::CondWait { condition, mutex: one(1) });
        code.run(2 * MS).op(COUNT).op(Op::Unlock(one(1)));
    };
    let wake = |op| {
        move |code: &mut Code| {
            code.sleep(5 * MS).op(op);
        }
    };
    let objects = [ObjectKind::Condition, ObjectKind::Mutex];
    let waiters: [Part<'_>; 3] = [("a", &wait), ("b", &wait), ("c", &wait)];
    let run = |op| {
        let wake = wake(op);
        let mut all = waiters.to_vec();
        all.push(("wake", &wake));
        tasks(&objects, &all)
    };
    let outcome = run(Op::CondSignal(one(0)));
    assert_eq!(figure(&outcome, 0), 1.0);
    assert_eq!(waits(&outcome).len(), 2);
    let outcome = run(Op::CondBroadcast(one(0)));
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, 0), 3.0);
    assert!(outcome.end_ns >= 11 * MS, "the mutex still excludes: {}", outcome.end_ns);
}

#[test]
fn a_futex_wakes_as_many_as_asked() {
    let wait = |code: &mut Code| {
        code.op(Op::FutexWait(one(0))).op(COUNT);
    };
    let wake = |code: &mut Code| {
        code.sleep(5 * MS).op(Op::FutexWake { futex: one(0), count: 2 });
    };
    let programs: [Part<'_>; 4] = [("a", &wait), ("b", &wait), ("c", &wait), ("wake", &wake)];
    let outcome = tasks(&[ObjectKind::Futex], &programs);
    assert_eq!(figure(&outcome, 0), 2.0);
    assert_eq!(waits(&outcome), ["c (task 2) waits for futex or condition 0"]);
}

#[test]
fn join_waits_for_the_children() {
    let mut build = Builder::new("join");
    build.metric("joined", "us", Better::Lower, MetricKind::Mean);
    let child = build.program("child", |code| {
        code.run(10 * MS);
    });
    let main = build.program("main", |code| {
        code.op(Op::Fork { program: child, count: 4, thread: false }).op(Op::Join);
        code.op(Op::Measure { metric: MetricId(0), since: Slot(15) });
    });
    build.spawn(main, 0, 0);
    let outcome = simulate(&build.finish().expect("valid"));
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.tasks.len(), 5);
    assert!((9_900.0..60_000.0).contains(&figure(&outcome, 0)), "{:?}", outcome.figures);
}

#[test]
fn one_task_can_end_all() {
    let sleeper = |code: &mut Code| code.forever(|code| _ = code.run(MS).op(COUNT));
    let end = |code: &mut Code| {
        code.sleep(20 * MS).op(Op::ExitGroup);
    };
    let outcome = tasks(&[], &[("endless", &sleeper), ("end", &end)]);
    assert_eq!(outcome.ending, Ending::Finished);
    assert!((20 * MS..22 * MS).contains(&outcome.end_ns), "{}", outcome.end_ns);
}

/// Uses of a timer of 10 ms within 200 ms by a task that is once late by 55 ms.
fn expiries(timer: &dyn Fn(Slot) -> Op, objects: &[ObjectKind]) -> f64 {
    let beat = |code: &mut Code| {
        let slot = code.slot();
        code.op(timer(slot)).run(65 * MS);
        code.forever(|code| _ = code.op(timer(slot)).op(COUNT));
    };
    let end = |code: &mut Code| {
        code.sleep(204 * MS).op(Op::ExitGroup);
    };
    figure(&tasks(objects, &[("beat", &beat), ("end", &end)]), 0)
}

#[test]
fn a_late_timer_catches_up_or_starts_anew() {
    let period_ns = 10 * MS;
    // Expiries at 20, 30, ... 200 ms, those up to 75 ms late.
    assert_eq!(expiries(&|slot| Op::Timer { slot, period_ns }, &[]), 19.0);
    // One late use at 75 ms, and then at 85, 95, ... 195 ms.
    assert_eq!(expiries(&|slot| Op::RestartingTimer { slot, period_ns }, &[]), 13.0);
    let shared = Op::SharedTimer { timer: one(0), period_ns, restarts: true };
    assert_eq!(expiries(&|_| shared, &[ObjectKind::Counter]), 13.0);
}

#[test]
fn a_pick_stays_while_its_source_moves_on() {
    let counter = ObjectId(2);
    let which = Which::Next { first: ObjectId(0), count: 2, counter };
    let hold = |code: &mut Code| {
        let slot = code.slot();
        code.op(Op::Pick { slot, which }).repeat(5, |code| {
            code.op(Op::Lock(Which::Picked(slot))).run(2 * MS);
            code.op(Op::Unlock(Which::Picked(slot))).op(COUNT);
        });
    };
    let objects = [ObjectKind::Mutex, ObjectKind::Mutex, ObjectKind::Counter];
    let four: [Part<'_>; 4] = [("t", &hold); 4];
    let outcome = tasks(&objects, &four);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, 0), 20.0);
    // Two share each mutex.
    assert!((20 * MS..30 * MS).contains(&outcome.end_ns), "{}", outcome.end_ns);
}

#[test]
fn a_mailbox_loses_nobody() {
    let client = |code: &mut Code| {
        code.repeat(500, |code| {
            code.op(Op::Post(one(0)));
            code.op(Op::AwaitServed { mailbox: one(0), slot: Slot(7) }).op(COUNT).run(3_000);
        });
    };
    let server = |code: &mut Code| {
        code.forever(|code| _ = code.op(Op::AwaitPosted(one(0))).op(Op::Serve(one(0))));
    };
    let programs: [Part<'_>; 4] =
        [("c", &client), ("c", &client), ("c", &client), ("server", &server)];
    let outcome = tasks(&[ObjectKind::Mailbox], &programs);
    assert_eq!(figure(&outcome, 0), 1500.0);
    assert_eq!(waits(&outcome), ["server (task 3) waits for mailbox 0"]);
}

#[test]
fn a_flag_ends_the_spinning() {
    let spin = |code: &mut Code| {
        code.op(Op::SpinUntil(one(0))).op(NOW);
    };
    let set = |code: &mut Code| {
        code.sleep(5 * MS).op(Op::SetFlag(one(0)));
    };
    let outcome = tasks(&[ObjectKind::Flag], &[("a", &spin), ("b", &spin), ("set", &set)]);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.figures[1].samples, 2);
    assert!((4_900.0..7_000.0).contains(&figure(&outcome, 1)), "{:?}", outcome.figures);
}

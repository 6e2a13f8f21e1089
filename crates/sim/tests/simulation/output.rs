//! What leaves a run: events as of a real trace, decisions with their reasons, and refusals.

use crate::support::{fork_storm, run, settings};
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{CpuTimes, Ending, Engine, InOrder, Nothing, Settings, SimError, simulate};
use schedlab_trace::{Event, EventKind, EventSource};
use schedlab_workload::build::Builder;
use schedlab_workload::models::{Model, hackbench};
use schedlab_workload::program::Workload;

fn small_hackbench() -> Workload {
    let options =
        hackbench::Options { groups: 1, fds: 3, loops: 20, ..hackbench::Options::default() };
    options.workload("test", 8).expect("valid")
}

fn periodic() -> Workload {
    let text = schedlab_workload::preset_text("periodic").expect("a preset");
    Workload::from_toml(text, "periodic.toml".as_ref(), 8).expect("valid")
}

#[test]
fn a_recorded_run_reads_like_a_trace() {
    let settings = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
    let mut outcome = run("generic", &small_hackbench(), &settings, Vec::<Event>::new());
    let recorded = outcome.observer.len();
    let mut trace = outcome.take_trace("v5.9");
    let mut events = Vec::new();
    while trace.read_batch(&mut events).expect("no error") {}
    assert_eq!(events.len(), recorded);
    assert!(events.is_sorted_by_key(|event| (event.timestamp_ns, event.cpu)));
    let summary = trace.summary();
    assert_eq!(summary.cpus.len(), 8);
    assert_eq!(summary.event_counts.values().sum::<u64>(), recorded as u64);
    assert!(!summary.event_counts.contains_key("other"));
    assert!(summary.event_counts["sched_waking"] > 0);
    assert_eq!(summary.event_counts["sched_wakeup_new"], 7);
    let names: Vec<_> =
        summary.task_names.values().map(|&comm| trace.strings().get(comm)).collect();
    assert_eq!(names.len(), 7);
    assert!(names.iter().all(|name| name.contains("hackbench")), "{names:?}");
    // Each switch begins with whom the one before ended with.
    let mut running = [schedlab_trace::Pid::IDLE; 8];
    for event in &events {
        if let EventKind::Switch { prev, next, .. } = event.kind {
            assert_eq!(running[event.cpu.index()], prev.pid, "{event:?}");
            running[event.cpu.index()] = next.pid;
        }
    }
}

#[test]
fn streaming_in_order_yields_the_recorded_trace() {
    let settings = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
    let workload = small_hackbench();
    let mut recorded = run("generic", &workload, &settings, Vec::<Event>::new());
    let mut streamed = Vec::new();
    let outcome = run("generic", &workload, &settings, InOrder::new(|e: &Event| streamed.push(*e)));
    assert_eq!(outcome.digest, recorded.digest);
    _ = outcome.observer.finish();
    let mut events = Vec::new();
    let mut trace = recorded.take_trace("v5.9");
    while trace.read_batch(&mut events).expect("no error") {}
    assert_eq!(streamed, events);
}

#[test]
fn what_watches_does_not_change_the_run() {
    let plain = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
    let workload = small_hackbench();
    let unseen = run("generic", &workload, &plain, Nothing);
    let explained = Settings { explain: true, ..plain };
    let seen = run("generic", &workload, &explained, Vec::<Event>::new());
    assert_eq!((unseen.digest, unseen.end_ns), (seen.digest, seen.end_ns));
    assert!(unseen.decisions.is_empty());
    // The kernel's verdicts on sleeps follow from the other events, and do not count.
    let counts = |event: &&Event| !matches!(event.kind, EventKind::IdleMiss { .. });
    assert_eq!(unseen.events, seen.observer.iter().filter(counts).count() as u64);
}

#[test]
fn timers_and_interrupts_are_remarks_on_the_same_run() {
    let plain = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
    let told = Settings { interrupts: true, duration_ns: 100_000_000, ..plain };
    let plain = Settings { duration_ns: 100_000_000, ..plain };
    let (machine, workload) = ("generic", periodic());
    let short = run(machine, &workload, &plain, Vec::<Event>::new());
    let long = run(machine, &workload, &told, Vec::<Event>::new());
    assert_eq!((short.digest, short.events), (long.digest, long.events));
    let count = |wanted: fn(&EventKind) -> bool| {
        long.observer.iter().filter(|event| wanted(&event.kind)).count() as u64
    };
    let sum = |of: fn(&CpuTimes) -> u64| long.cpus.iter().map(of).sum::<u64>();
    let begun = count(|kind| matches!(kind, EventKind::HrtimerExpireEntry { .. }));
    assert_eq!(begun, long.expiries + sum(|cpu| cpu.ticks));
    assert_eq!(begun, count(|kind| matches!(kind, EventKind::HrtimerExpireExit { .. })));
    let sent = count(|kind| matches!(kind, EventKind::VectorEntry { .. }));
    assert_eq!((sent > 0, sent), (true, sum(|cpu| cpu.ipis)));
    // Without them, it is the other run, event by event.
    let remark = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::HrtimerStart { .. }
                | EventKind::HrtimerExpireEntry { .. }
                | EventKind::HrtimerExpireExit { .. }
                | EventKind::HrtimerCancel { .. }
                | EventKind::TickStop { .. }
                | EventKind::SoftirqEntry { .. }
                | EventKind::SoftirqExit { .. }
                | EventKind::VectorEntry { .. }
                | EventKind::VectorExit { .. }
        )
    };
    let left: Vec<Event> =
        long.observer.iter().filter(|event| !remark(&event.kind)).copied().collect();
    assert_eq!(left.len(), short.observer.len());
    assert!(left.iter().zip(&short.observer).all(|(one, other)| {
        (one.timestamp_ns, one.cpu, one.pid) == (other.timestamp_ns, other.cpu, other.pid)
    }));
}

#[test]
fn what_is_kept_is_counted_with_the_remarks() {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let machine = Machine::preset("generic").expect("a preset");
    let settings = Settings { interrupts: true, ..Settings::new(&kernel, &machine, 20_000_000, 1) };
    let workload = periodic();
    let domains = build_domains(&machine, kernel.domains);
    let mut engine = Engine::new(&machine, domains, &workload, &settings, Vec::<Event>::new());
    let ending = engine.advance(20_000_000, u32::MAX).expect("the time is up");
    let told = engine.told();
    let outcome = engine.finish(ending, 20_000_000);
    assert_eq!(told, outcome.observer.len() as u64);
    assert!(told > outcome.events);
    // Every CPU begins without a tick.
    let stopped = |event: &&Event| matches!(event.kind, EventKind::TickStop { success: true, .. });
    let first = outcome.observer.iter().take_while(|event| event.timestamp_ns == 0);
    assert_eq!(first.filter(stopped).count(), machine.cpu_count());
}

#[test]
fn every_placement_is_explained() {
    let explained =
        Settings { explain: true, ..settings(IdlestTie::GroupUtil, NumaAllowance::LocalIdle) };
    let outcome = run("kunpeng920-2s", &fork_storm(8), &explained, Vec::<Event>::new());
    let count = |wanted: fn(&EventKind) -> bool| {
        outcome.observer.iter().filter(|event| wanted(&event.kind)).count()
    };
    let placed = count(|kind| matches!(kind, EventKind::WakeupNew { .. }));
    let forks = outcome.decisions.iter().filter(|(_, _, d)| d.occasion() == "fork");
    assert_eq!(forks.count(), placed);
    let wakes = outcome.decisions.iter().filter(|(_, _, d)| d.occasion() == "wake").count();
    assert!(wakes > 0 && wakes <= count(|kind| matches!(kind, EventKind::Waking { .. })));
    // The second thread: CPU 1 is idle again, but keeps the utilisation of the first.
    let (_, _, second) = &outcome.decisions[2];
    assert_eq!(second.cpu().0, 2);
    assert!(second.reason().contains("tie by group_util"), "{}", second.reason());
    let text = second.to_string();
    assert!(text.starts_with("fork of task 2 from CPU 0: CPU 2"), "{text}");
    assert!(text.contains("idle_cpus=1") && text.contains("spare_capacity="), "{text}");
}

#[test]
fn no_balancing_leaves_tasks_where_placement_put_them() {
    let mut build = Builder::new("crowd");
    let program = build.program("t", |code| {
        code.run(50_000_000);
    });
    // All are created on CPU 0 and start within the time that an idle CPU needs to notice.
    for _ in 0..8 {
        build.spawn(program, 0, 0);
    }
    let workload = build.finish().expect("valid");
    let machine = Machine::preset("generic").expect("a preset");
    let moved = |text: &str| {
        let kernel = Kernel::from_toml("k", text).unwrap_or_else(|error| panic!("{error}"));
        let settings = Settings::new(&kernel, &machine, 1_000_000_000, 1);
        let domains = kernel.domains;
        let outcome = simulate(&machine, domains, &workload, &settings, Nothing);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.ending, Ending::Finished);
        outcome.tasks.iter().map(|task| task.migrations).sum::<u64>()
    };
    let full = Kernel::preset_text("v6.12").expect("a preset");
    let none = full.replace("mode = \"full\"", "mode = \"none\"");
    assert_ne!(full, none);
    assert_eq!(moved(&none), 0);
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let machine = Machine::preset("generic").expect("a preset");
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let refusal = |workload: &Workload, duration_ns| {
        let settings = Settings::new(&kernel, &machine, duration_ns, 1);
        match simulate(&machine, kernel.domains, workload, &settings, Nothing) {
            Ok(outcome) => panic!("it runs: {:?}", outcome.ending),
            Err(error) => error,
        }
    };
    let mut workload = small_hackbench();
    assert!(matches!(refusal(&workload, 0), SimError::Duration { .. }));
    workload.programs[0].attributes.affinity =
        Some(schedlab_machine::CpuSet::of(schedlab_machine::CpuId(100)));
    let message = refusal(&workload, 1_000_000).to_string();
    assert!(message.contains("allowed on no CPU of this machine"), "{message}");
}

#[test]
fn endless_creation_ends_the_run() {
    let mut build = Builder::new("bomb");
    let child = build.program("child", |code| {
        code.sleep(100_000_000_000);
    });
    let main = build.program("main", |code| {
        code.forever(|code| {
            code.op(schedlab_workload::program::Op::Fork {
                program: child,
                count: 1000,
                thread: true,
            });
        });
    });
    build.spawn(main, 0, 0);
    let machine = Machine::preset("generic").expect("a preset");
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let settings = Settings::new(&kernel, &machine, 1_000_000_000_000, 1);
    let workload = build.finish().expect("valid");
    let outcome = simulate(&machine, kernel.domains, &workload, &settings, Nothing);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(outcome.ending, Ending::TooManyTasks(_)), "{:?}", outcome.ending);
}

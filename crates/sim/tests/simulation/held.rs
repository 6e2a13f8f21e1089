//! Wake-ups that the host of a virtual machine holds up.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_sim::{Engine, Settings, run_watched};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::program::{Attributes, Policy};
use schedlab_workload::recorded::{RecordedTask, Recording, Start, Step};

const US: u64 = 1_000;

/// A task of CPU 0 that computes for 100 us at a time.
fn task(name: &str, policy: Policy, at_us: u64, late_us: u64) -> RecordedTask {
    let mut steps = vec![Step::Until { soft_ns: at_us * US, slack_ns: 0 }];
    steps.extend((late_us > 0).then_some(Step::Late(late_us * US)));
    steps.push(Step::Run(100 * US));
    RecordedTask {
        name: name.to_owned(),
        comm: name.to_owned(),
        attributes: Attributes {
            policy,
            affinity: Some(CpuSet::of(CpuId(0))),
            ..Attributes::default()
        },
        cpu: 0,
        start: Start::At(0),
        steps,
    }
}

/// How long each task waited from its wake-up until it ran, in the order in which they ran, us.
fn waits_us(tasks: Vec<RecordedTask>) -> Vec<(String, u64)> {
    let machine = Machine::preset("qemu4").expect("a preset");
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let recording = Recording { tasks, interrupts: Vec::new() };
    let workload = recording.workload("held").expect("valid");
    let settings = Settings::new(&kernel, &machine, 50_000 * US, 1);
    let domains = build_domains(&machine, kernel.domains);
    let engine = Engine::new(&machine, domains, &workload, &settings, Vec::new());
    let outcome = run_watched(&machine, engine, 50_000 * US, 1).expect("all checkers hold");
    let woken = |pid| {
        let waking = |event: &&Event| match event.kind {
            EventKind::Waking { task, .. } => task.pid == pid,
            _ => false,
        };
        outcome.observer.iter().find(waking).map(|event| event.timestamp_ns)
    };
    let ran = outcome.observer.iter().filter_map(|event| match event.kind {
        EventKind::Switch { next, .. } => {
            let waited_ns = event.timestamp_ns.checked_sub(woken(next.pid)?)?;
            Some((outcome.strings.get(next.comm).to_owned(), waited_ns / US))
        }
        _ => None,
    });
    ran.collect()
}

#[test]
fn a_cpu_schedules_as_late_as_its_wakeup_was() {
    let waits = waits_us(vec![task("fair", Policy::Normal, 1_000, 8_000)]);
    assert_eq!(waits.len(), 1);
    assert!((8_000..8_050).contains(&waits[0].1), "{waits:?}");
}

#[test]
fn who_is_urgent_and_was_not_held_up_does_not_wait_for_others() {
    let waits = waits_us(vec![
        task("fair", Policy::Normal, 1_000, 8_000),
        task("urgent", Policy::Fifo(50), 3_000, 0),
        task("late", Policy::Fifo(50), 20_000, 2_000),
    ]);
    let wait = |name: &str| waits.iter().find(|(comm, _)| comm == name).map(|(_, us)| *us);
    assert!(wait("urgent") < Some(50), "{waits:?}");
    assert!(wait("late") >= Some(2_000) && wait("late") < Some(2_050), "{waits:?}");
    assert_eq!(waits[0].0, "urgent", "{waits:?}");
}

//! Wake-ups that the host of a virtual machine holds up.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_sim::{Engine, Settings, run_watched};
use schedlab_trace::{Event, EventKind, Strings};
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

/// The events of a run, and the names in them.
fn events(tasks: Vec<RecordedTask>) -> (Vec<Event>, Strings) {
    events_on(&Machine::preset("qemu4").expect("a preset"), tasks)
}

fn events_on(machine: &Machine, tasks: Vec<RecordedTask>) -> (Vec<Event>, Strings) {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let recording = Recording { tasks, ..Recording::default() };
    let workload = recording.workload("held").expect("valid");
    let settings = Settings::new(&kernel, machine, 50_000 * US, 1);
    let domains = build_domains(machine, kernel.domains);
    let engine = Engine::new(machine, domains, &workload, &settings, Vec::new());
    let outcome = run_watched(machine, engine, 50_000 * US, 1).expect("all checkers hold");
    (outcome.observer, outcome.strings)
}

/// How long each task waited from its wake-up until it ran, in the order in which they ran, us.
fn waits_us(tasks: Vec<RecordedTask>) -> Vec<(String, u64)> {
    let (events, strings) = events(tasks);
    let woken = |pid| {
        let waking = |event: &&Event| match event.kind {
            EventKind::Waking { task, .. } => task.pid == pid,
            _ => false,
        };
        events.iter().find(waking).map(|event| event.timestamp_ns)
    };
    let ran = events.iter().filter_map(|event| match event.kind {
        EventKind::Switch { next, .. } => {
            let waited_ns = event.timestamp_ns.checked_sub(woken(next.pid)?)?;
            Some((strings.get(next.comm).to_owned(), waited_ns / US))
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

#[test]
fn an_interrupt_brings_another_task_as_it_ends() {
    let helper = |steps| RecordedTask { steps, ..task("helper", Policy::Normal, 0, 0) };
    let waits_for_it = vec![Step::Await, Step::Run(20 * US)];
    // Whoever is more urgent runs first, as both are there when the CPU schedules.
    for (policy, first) in [(Policy::Fifo(50), "woken"), (Policy::Normal, "helper")] {
        for late_us in [2_000, 0] {
            let mut woken = task("woken", policy, 10_000, late_us);
            woken.steps.insert(woken.steps.len() - 1, Step::Brings(1));
            let waits = waits_us(vec![woken, helper(waits_for_it.clone())]);
            assert_eq!(waits.len(), 2, "{waits:?}");
            let wait = |name: &str| waits.iter().find(|(comm, _)| comm == name).expect("ran").1;
            assert!(wait("woken") >= late_us, "{waits:?}");
            if policy != Policy::Normal {
                assert_eq!(waits[0].0, first);
                assert!((100..200).contains(&wait("helper")), "{waits:?}");
            } else {
                assert!(wait("helper") < 200, "{waits:?}");
            }
        }
    }
}

#[test]
fn who_is_awake_already_brings_the_other_itself() {
    let mut early = task("early", Policy::Normal, 0, 0);
    // The second time is past, so that nothing wakes it.
    let past = Step::Until { soft_ns: 1, slack_ns: 0 };
    early.steps = vec![Step::Until { soft_ns: 1_000 * US, slack_ns: 0 }, Step::Run(100 * US)];
    early.steps.extend([past, Step::Brings(1), Step::Run(100 * US)]);
    let mut helper = task("helper", Policy::Normal, 0, 0);
    helper.steps = vec![Step::Await, Step::Run(20 * US)];
    let waits = waits_us(vec![early, helper]);
    assert!(waits.iter().any(|(comm, _)| comm == "helper"), "{waits:?}");
}

#[test]
fn a_real_time_task_of_a_fair_one_is_placed_as_a_fair_one() {
    let cpu_of = |born_fair| {
        let mut parent = task("parent", Policy::Normal, 1_000, 0);
        parent.attributes.affinity = None;
        parent.steps.extend([Step::Fork(1), Step::Run(5_000 * US)]);
        let mut child = task("child", Policy::Fifo(50), 0, 0);
        child.attributes = Attributes { affinity: None, born_fair, ..child.attributes };
        (child.start, child.steps) = (Start::Forked, vec![Step::Run(100 * US)]);
        let (events, _) = events(vec![parent, child]);
        let born = events.iter().rev().find_map(|event| match event.kind {
            EventKind::WakeupNew { target_cpu, .. } => Some((event.cpu, target_cpu)),
            _ => None,
        });
        born.expect("it was born")
    };
    // A real-time task preempts its creator; a fair one goes where nobody runs.
    let (parent, child) = cpu_of(false);
    assert_eq!(parent, child);
    let (parent, child) = cpu_of(true);
    assert_ne!(parent, child);
}

#[test]
fn an_idle_cpu_balances_when_the_short_runs_of_others_are_over() {
    // The tick of CPU 0 within a run of 60 us kicks CPU 2 to balance.
    let kicked = |machine: &Machine| {
        let free = |name: &str, cpu: u32, steps: Vec<Step>| {
            let mut free = task(name, Policy::Normal, 0, 0);
            free.attributes.affinity = (cpu > 0).then(|| CpuSet::of(CpuId(cpu)));
            RecordedTask { cpu, steps, ..free }
        };
        let until = Step::Until { soft_ns: 10_000 * US, slack_ns: 0 };
        let late = [until, Step::Late(1_950 * US), Step::Brings(1), Step::Run(60 * US)];
        let nap = [Step::Run(500 * US), Step::Sleep { ns: 700 * US, slack_ns: 0 }];
        let tasks = vec![
            free("late", 0, late.to_vec()),
            free("brought", 0, vec![Step::Await, Step::Run(60 * US)]),
            free("naps", 1, std::iter::repeat_n(nap, 40).flatten().collect()),
        ];
        let (events, _) = events_on(machine, tasks);
        let tick = events.iter().skip_while(|event| event.timestamp_ns < 12_000 * US);
        let find = |cpu: u32, wanted: fn(&EventKind) -> bool| {
            let found = tick.clone().find(|event| event.cpu == CpuId(cpu) && wanted(&event.kind));
            found.expect("it happens").timestamp_ns
        };
        let over_ns = find(0, |kind| matches!(kind, EventKind::Switch { .. }));
        (find(2, |kind| matches!(kind, EventKind::IdleExit { .. })), over_ns)
    };
    let text = Machine::preset_text("qemu4").expect("a preset");
    let shared = "shared_instruction_stream = true";
    assert!(text.contains(shared));
    let own = text.replace(shared, "shared_instruction_stream = false");
    let parsed = |text: &str| Machine::parse(text, "qemu4.toml".as_ref()).expect("a machine");
    let (answers_ns, over_ns) = kicked(&parsed(text));
    assert!(answers_ns >= over_ns, "{answers_ns} before {over_ns}");
    let (answers_ns, over_ns) = kicked(&parsed(&own));
    assert!(answers_ns < over_ns, "{answers_ns} after {over_ns}");
}

#[test]
fn who_finds_nobody_held_up_any_more_does_not_wait() {
    // CPU 1 takes the one who is held up away as soon as it has nothing else to do.
    let both: CpuSet = [CpuId(0), CpuId(1)].into_iter().collect();
    let mut late = task("late", Policy::Normal, 1_000, 8_000);
    late.attributes.affinity = Some(both);
    let busy = |name: &str, cpu: u32, run_us: u64| {
        let mut busy = task(name, Policy::Normal, 500, 0);
        busy.attributes.affinity = Some(CpuSet::of(CpuId(cpu)));
        *busy.steps.last_mut().expect("a run") = Step::Run(run_us * US);
        RecordedTask { cpu, ..busy }
    };
    let (here, mut there) = (busy("here", 0, 3_500), busy("there", 1, 1_000));
    // It balances every other time that it idles, by chance.
    let nap = [Step::Sleep { ns: 50 * US, slack_ns: 0 }, Step::Run(50 * US)];
    there.steps.extend(std::iter::repeat_n(nap, 10).flatten());
    let others = [here, there];
    let prompt = task("prompt", Policy::Normal, 5_000, 0);
    let waits = waits_us([late, prompt].into_iter().chain(others).collect());
    let wait = |name: &str| waits.iter().find(|(comm, _)| comm == name).map(|(_, us)| *us);
    assert!(wait("late").is_some_and(|us| us < 3_000), "{waits:?}");
    assert!(wait("prompt").is_some_and(|us| us < 50), "{waits:?}");
}

#[test]
fn who_follows_interrupts_runs_where_they_come() {
    let ran_on = |follows_interrupts| {
        let mut woken = task("woken", Policy::Normal, 10_000, 2_000);
        woken.steps.insert(2, Step::Brings(1));
        let mut thread = task("thread", Policy::Normal, 0, 0);
        let affinity = Some(CpuSet::of(CpuId(1)));
        thread.attributes = Attributes { affinity, follows_interrupts, ..thread.attributes };
        (thread.cpu, thread.steps) = (1, vec![Step::Await, Step::Run(20 * US)]);
        let (events, strings) = events(vec![woken, thread]);
        let ran = events.iter().rev().find_map(|event| match event.kind {
            EventKind::Switch { next, .. } if strings.get(next.comm) == "thread" => Some(event.cpu),
            _ => None,
        });
        ran.expect("it ran")
    };
    assert_eq!((ran_on(true), ran_on(false)), (CpuId(0), CpuId(1)));
}

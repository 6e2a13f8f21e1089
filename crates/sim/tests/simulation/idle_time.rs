//! Idle states take time to enter and to leave, and polling has its limit.

use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::cpuidle::GovernorKind;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CpuId, CpuSet, Machine, PathCosts};
use schedlab_sim::{IdleCounts, Outcome, Settings, simulate, verify_outcome};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::build::Builder;
use schedlab_workload::models::{Model, schbench};
use schedlab_workload::program::{Amount, ObjectKind, Op, Which, Workload};
use std::path::Path;

const US: u64 = 1_000;

fn watched(
    machine: &Machine,
    kernel: &Kernel,
    workload: &Workload,
    settings: &Settings,
) -> Outcome<Vec<Event>> {
    let outcome = simulate(machine, kernel.domains, workload, settings, Vec::new());
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    verify_outcome(machine, &outcome).unwrap_or_else(|what| panic!("{what}"));
    outcome
}

fn run(machine: &Machine, governor: GovernorKind) -> Outcome<Vec<Event>> {
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let settings = Settings { governor, ..Settings::new(&kernel, machine, 500_000 * US, 3) };
    let workload = schbench::Options { runtime: 1, ..schbench::Options::default() };
    let workload = workload.workload("schbench", machine.cpu_count() as u32).expect("valid");
    watched(machine, &kernel, &workload, &settings)
}

/// How long each sleep in a state of a CPU lasted, ns, the one from before the run aside.
fn sleeps(outcome: &Outcome<Vec<Event>>, cpu: CpuId, wanted: u32) -> Vec<u64> {
    let mut since_ns = None;
    let mut found = Vec::new();
    for event in &outcome.observer {
        match event.kind {
            EventKind::IdleEnter { cpu: own, state } if own == cpu => {
                since_ns =
                    (state == wanted && event.timestamp_ns > 0).then_some(event.timestamp_ns);
            }
            EventKind::IdleExit { cpu: own } if own == cpu => {
                found.extend(since_ns.take().map(|since_ns| event.timestamp_ns - since_ns));
            }
            _ => {}
        }
    }
    found
}

/// The phone, whose way into idle states is so long that interrupts meet it.
fn slow_phone(rejects: bool) -> Machine {
    let text = Machine::preset_text("pixel6-gs101").expect("a preset");
    let text = match rejects {
        true => text.replace("local_timer_stop = true", "rejects_pending = true"),
        false => text.to_owned(),
    };
    let machine = Machine::parse(&text, Path::new("phone")).unwrap_or_else(|e| panic!("{e}"));
    machine.with_path_costs(PathCosts { idle_entry_ns: 100_000, ..PathCosts::default() })
}

#[test]
fn an_entry_that_began_runs_to_completion() {
    let machine = Machine::preset("pixel6-gs101").expect("a preset");
    let outcome = run(&machine, GovernorKind::Menu6_1);
    // Of the big cores: 235 us to enter the deep state, 220 us to leave it.
    let all: Vec<u64> = [6, 7].iter().flat_map(|&cpu| sleeps(&outcome, CpuId(cpu), 1)).collect();
    assert!(all.len() > 20, "{} sleeps", all.len());
    assert!(all.iter().all(|&ns| ns == 0 || ns >= 455 * US));
    assert!(all.contains(&(455 * US)), "somebody is woken on the way: {all:?}");
}

/// A task on CPU 6 that wakes another on CPU 7 every 60 us, which then has 10 us of work.
/// Without polling states, haltpoll always takes state 1, here the deep one.
fn ping(machine: &Machine) -> Outcome<Vec<Event>> {
    let mut build = Builder::new("ping");
    let pipe = build.object(ObjectKind::Channel { capacity_bytes: 65_536, sync_wakeup: false });
    let (pipe, bytes) = (Which::One(pipe), 1);
    let write = build.program("write", |code| {
        code.repeat(1_000, |code| {
            code.op(Op::Write { channel: pipe, bytes }).run(60 * US);
        });
    });
    let read = build.program("read", |code| {
        code.repeat(1_000, |code| {
            code.op(Op::Read { channel: pipe, bytes }).run(10 * US);
        });
    });
    for (program, cpu) in [(read, 7), (write, 6)] {
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(cpu)));
        build.spawn(program, cpu, 0);
    }
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let governor = GovernorKind::Haltpoll6_1;
    let mut settings = Settings { governor, ..Settings::new(&kernel, machine, 2_000_000 * US, 3) };
    settings.cpufreq.governor = Some(CpufreqGovernor::Performance);
    watched(machine, &kernel, &build.finish().expect("valid"), &settings)
}

#[test]
fn a_pending_interrupt_ends_the_entry_before_it_begins() {
    let sum = |outcome: &Outcome<Vec<Event>>| {
        let counts = outcome.cpus.iter().map(|cpu| cpu.idle_counts[1]);
        counts.fold(IdleCounts::default(), |sum, own| IdleCounts {
            usage: sum.usage + own.usage,
            above: sum.above + own.above,
            rejected: sum.rejected + own.rejected,
            ..sum
        })
    };
    let aborted = |outcome: &Outcome<Vec<Event>>| {
        let cpus = (0..8).flat_map(|cpu| sleeps(outcome, CpuId(cpu), 1));
        cpus.filter(|&ns| ns == 0).count() as u64
    };
    let returns = ping(&slow_phone(false));
    assert!(aborted(&returns) > 50, "{}", aborted(&returns));
    assert_eq!(sum(&returns).rejected, 0);
    assert!(sum(&returns).above >= aborted(&returns), "the kernel takes them for short sleeps");
    let refuses = ping(&slow_phone(true));
    assert!(aborted(&refuses) > 50, "{}", aborted(&refuses));
    assert_eq!(sum(&refuses).rejected, aborted(&refuses));
}

#[test]
fn haltpoll_polls_for_as_long_as_it_says() {
    let machine = Machine::preset("generic").expect("a preset");
    let outcome = run(&machine, GovernorKind::Haltpoll6_12);
    let polls: Vec<u64> = (0..8).flat_map(|cpu| sleeps(&outcome, CpuId(cpu), 0)).collect();
    assert!(!polls.is_empty());
    // guest_halt_poll_ns is 200 us, the first poll 50 us.
    assert!(polls.iter().all(|&ns| ns <= 200 * US), "{polls:?}");
    assert!(polls.iter().any(|&ns| ns > 20 * US), "longer than by the states' residencies");
}

/// A task on CPU 7 that computes and sleeps, while the others sleep all the time.
fn alone(machine: &Machine) -> Outcome<Vec<Event>> {
    let mut build = Builder::new("alone");
    let program = build.program("alone", |code| {
        code.repeat(40, |code| {
            code.run(1_000 * US);
            code.op(Op::Sleep(Amount::Fixed(20_000 * US)));
        });
    });
    build.attributes(program).affinity = Some(CpuSet::of(CpuId(7)));
    build.spawn(program, 7, 0);
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let mut settings = Settings::new(&kernel, machine, 2_000_000 * US, 3);
    settings.cpufreq.governor = Some(CpufreqGovernor::Performance);
    watched(machine, &kernel, &build.finish().expect("valid"), &settings)
}

#[test]
fn what_cpus_share_sleeps_with_the_last_and_delays_the_first() {
    let text = Machine::preset_text("pixel6-gs101").expect("a preset");
    let shared = "\n[[group_state]]\nname = \"logic\"\nlevel = \"llc\"\npromise = \"c2\"\n\
                  exit_latency_us = 300\nactive_mw = 20\nasleep_mw = 2\n";
    let parse = |text: &str| Machine::parse(text, Path::new("phone"));
    let plain = alone(&parse(text).unwrap_or_else(|error| panic!("{error}")));
    let grouped = alone(&parse(&format!("{text}{shared}")).unwrap_or_else(|e| panic!("{e}")));
    let median_ns = |outcome: &Outcome<Vec<Event>>| {
        let mut all = sleeps(outcome, CpuId(7), 1);
        all.sort_unstable();
        assert!(all.len() > 30, "{} sleeps", all.len());
        all[all.len() / 2]
    };
    // The only CPU that wakes waits for what all share.
    assert_eq!(median_ns(&grouped) - median_ns(&plain), 300 * US);
    let part = &grouped.groups[0];
    assert!(part.entries > 30, "{}", part.entries);
    let asleep_pct = 100 * part.asleep_ns / grouped.end_ns;
    assert!((85..96).contains(&asleep_pct), "{asleep_pct} %");
    let awake_ns = (grouped.end_ns - part.asleep_ns) as f64;
    let expected_j = (20e-3 * awake_ns + 2e-3 * part.asleep_ns as f64) / 1e9;
    assert!((part.energy_j - expected_j).abs() < 1e-12, "{} J", part.energy_j);
    assert!((grouped.energy.groups_j - part.energy_j).abs() < 1e-12);
}

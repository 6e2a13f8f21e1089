//! One digest per run, wherever it was compiled: these tests run in debug and in release builds.
//! Whoever changes what the simulator does on purpose takes the new numbers over.

#![cfg(test)]

#[path = "../../sim/benches/support/mod.rs"]
#[allow(dead_code, reason = "each benchmark takes what it needs")]
mod scenarios;

use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Settings, simulate, verify_outcome};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::models::{Model, hackbench, schbench};
use schedlab_workload::program::Workload;

fn run(machine: &str, kernel: &str, workload: &Workload, shuffle_ties: bool) -> (u64, u64) {
    run_on(&Machine::preset(machine).expect("a preset"), kernel, workload, shuffle_ties, 200)
}

fn run_on(
    machine: &Machine,
    kernel: &str,
    workload: &Workload,
    shuffle_ties: bool,
    ms: u64,
) -> (u64, u64) {
    let kernel = Kernel::preset(kernel).expect("a preset");
    let settings = Settings { shuffle_ties, ..Settings::new(&kernel, machine, ms * 1_000_000, 7) };
    let outcome = simulate(machine, kernel.domains, workload, &settings, Nothing);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let seen = simulate(machine, kernel.domains, workload, &settings, Vec::<Event>::new());
    let seen = seen.unwrap_or_else(|error| panic!("{error}"));
    verify_outcome(machine, &seen).unwrap_or_else(|what| panic!("{what}"));
    assert_eq!((seen.digest, seen.events), (outcome.digest, outcome.events));
    // The kernel's verdicts follow from the other events, and do not count.
    let counts = |event: &&Event| !matches!(event.kind, EventKind::IdleMiss { .. });
    assert_eq!(seen.observer.iter().filter(counts).count() as u64, outcome.events);
    (outcome.digest, outcome.events)
}

fn hackbench() -> Workload {
    let options =
        hackbench::Options { groups: 2, fds: 5, loops: 40, ..hackbench::Options::default() };
    options.workload("hackbench", 8).expect("valid")
}

fn schbench() -> Workload {
    schbench::Options { runtime: 1, ..schbench::Options::default() }
        .workload("schbench", 8)
        .expect("valid")
}

#[test]
fn digests_are_those_that_were_recorded() {
    // What a core shares is left out where it has one thread; wide machines have levels of their own.
    let (small, wide) = (scenarios::eight(), scenarios::many());
    let found = [
        run("generic", "v6.12", &hackbench(), false),
        run("generic", "v6.1", &hackbench(), true),
        run("kunpeng920-2s", "v5.7", &hackbench(), false),
        run("generic", "v6.12", &schbench(), false),
        run("pixel6-gs101", "v6.12", &schbench(), false),
        run_on(&small, "v6.12", &scenarios::periodic(&small, 32), false, 1000),
        run_on(&wide, "v6.12", &scenarios::periodic(&wide, 768), false, 60),
    ];
    assert_eq!(found, RECORDED, "{found:#x?}");
}

/// Digest and number of events.
const RECORDED: [(u64, u64); 7] = [
    (0x647e500f4d1d2e23, 1118),
    (0xed2df7a927ca197f, 2482),
    (0x9242883fdbce0a72, 530),
    (0x76c0c4cb21abfdba, 2448),
    (0xfb3923588dc91e29, 2083),
    (0xc7d0ba78b748eedf, 15120),
    (0x2e4637bc95bf4be2, 31683),
];

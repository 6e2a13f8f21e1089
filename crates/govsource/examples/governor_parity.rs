//! The kernel's own governors, compiled from their source, against those in Rust: decision by
//! decision, through whole simulated runs and through every trace with idle periods.
//!
//! `governor_parity TREES [TRACES...]`: `TREES` holds a folder for each release (6.1, 6.12) with
//! its `drivers/cpuidle/governors` files; traces are files, or folders that are searched. Fails on
//! any mismatch, or if a governor was never asked.

#[path = "../tests/support/mod.rs"]
mod support;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;

use schedlab_govsource::GovernorSource;
use schedlab_kernel::cpuidle::{AnyGovernor, GovernorKind, Served};
use schedlab_machine::Machine;
use support::{Ours, Twins, replay, simulate};

const SOURCES: [(&str, &str, GovernorKind); 8] = [
    ("6.1", "menu", GovernorKind::Menu6_1),
    ("6.1", "teo", GovernorKind::Teo6_1),
    ("6.1", "ladder", GovernorKind::Ladder6_1),
    ("6.1", "haltpoll", GovernorKind::Haltpoll6_1),
    ("6.12", "menu", GovernorKind::Menu6_12),
    ("6.12", "teo", GovernorKind::Teo6_12),
    ("6.12", "ladder", GovernorKind::Ladder6_12),
    ("6.12", "haltpoll", GovernorKind::Haltpoll6_12),
];

/// Machine, workload and duration of each simulated run, ns.
const RUNS: [(&str, &str, u64); 4] = [
    ("pixel6-gs101", "periodic", 2_000_000_000),
    ("simidle", "perf-sched-pipe", 500_000_000),
    ("generic", "hackbench", 1_000_000_000),
    ("atom-netbook-ht", "periodic", 2_000_000_000),
];

/// Machines whose idle states traces are replayed with.
const MACHINES: [&str; 2] = ["simidle", "pixel6-gs101"];

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let Some(trees) = arguments.next() else {
        eprintln!("governor_parity: name the folder of the kernels' sources, then traces");
        return ExitCode::from(2);
    };
    let mut traces = Vec::new();
    arguments.for_each(|path| find(&path, &mut traces));
    traces.sort();
    let mut failed = false;
    // As many at a time as there are CPUs, so that the times of answers mean something.
    let together = thread::available_parallelism().map_or(1, usize::from);
    for sources in SOURCES.chunks(together) {
        let lines: Vec<_> = thread::scope(|scope| {
            let started = sources.iter().map(|&(release, name, kind)| {
                let file = trees.join(release).join(format!("{name}.c"));
                let traces = &traces;
                scope.spawn(move || compare(&file, kind, traces))
            });
            let started: Vec<_> = started.collect();
            started.into_iter().map(|one| one.join().expect("it does not panic")).collect()
        });
        for ((release, name, _), line) in sources.iter().zip(lines) {
            failed |= line.is_err();
            let (Ok(line) | Err(line)) = line;
            println!("{name:<9} {release:<5} {line}");
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// All files below a folder.
fn find(path: &Path, to: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| find(&entry.path(), to)),
        Err(_) => to.push(path.to_owned()),
    }
}

/// One governor in every run and through every trace; a line about it.
fn compare(file: &Path, kind: GovernorKind, traces: &[PathBuf]) -> Result<String, String> {
    let ours: Ours = Box::new(move |cpus| {
        let make = |cpu: &Served<'_>| AnyGovernor::with_config(kind, &cpu.config);
        cpus.iter().map(make).collect()
    });
    let source = GovernorSource::open(file).map_err(|error| error.to_string())?;
    let twins = Twins::new(source, ours);
    for (machine, workload, ns) in RUNS {
        simulate(machine, "v6.12", workload, ns, &twins);
    }
    let (simulated, _) = twins.count.get();
    let mut replayed = 0;
    for trace in traces {
        for machine in MACHINES {
            let machine = Machine::preset(machine).expect("a built-in machine");
            // A file that is no trace, or one of another machine, has nothing to compare.
            replayed +=
                u32::from(replay(&mut || schedlab_trace::open(trace), &machine, &twins).is_ok());
        }
    }
    if let Some(failure) = schedlab_kernel::cpuidle::OwnKind::failure(&twins) {
        return Err(failure);
    }
    let (decisions, mismatches) = twins.count.get();
    if mismatches > 0 {
        return Err(format!(
            "{mismatches} of {decisions} decisions differ; {}",
            twins.count.first()
        ));
    }
    if simulated == 0 || (replayed == 0 && !traces.is_empty()) {
        return Err("nothing to compare".to_owned());
    }
    let answered_ns = twins.count.answered_ns.load(Ordering::Relaxed);
    let answer_us = answered_ns as f64 / 1e3 / decisions as f64;
    Ok(format!(
        "{simulated:>8} decisions in {} runs, {:>8} in {replayed} replays, 0 mismatches, \
         an answer in {answer_us:.1} us",
        RUNS.len(),
        decisions - simulated,
    ))
}

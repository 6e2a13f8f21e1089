//! Machines and loads that the benchmarks share.

use schedlab_machine::Machine;
use schedlab_workload::models::{Model, hackbench, periodic, sysbench};
use schedlab_workload::program::Workload;
use std::path::Path;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// A preset machine with some lines changed.
pub fn machine(preset: &str, changes: &[(&str, &str)]) -> Machine {
    let mut text = Machine::preset_text(preset).expect("a preset").to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{preset} has no {from}");
        text = text.replace(from, to);
    }
    Machine::parse(&text, Path::new(preset)).unwrap_or_else(|error| panic!("{error}"))
}

/// The plain machine with other counts: cores of one thread, `cores` to a cache.
fn single_threads(packages: u32, caches: u32, cores: u32) -> Machine {
    let distances = if packages == 1 { "[[10]]" } else { "[[10, 32], [32, 10]]" };
    machine(
        "generic",
        &[
            ("packages = 1\n", &format!("packages = {packages}\n")),
            ("llcs_per_node = 1", &format!("llcs_per_node = {caches}")),
            ("cores_per_llc = 4", &format!("cores_per_llc = {cores}")),
            ("threads_per_core = 2", "threads_per_core = 1"),
            ("throughput = [1.0, 1.25]", "throughput = [1.0]"),
            ("power = [1.0, 1.15]", "power = [1.0]"),
            ("distances = [[10]]", &format!("distances = {distances}")),
        ],
    )
}

/// 8 CPUs without second threads.
pub fn eight() -> Machine {
    single_threads(1, 1, 8)
}

/// 384 CPUs without second threads: two packages of 12 caches, 16 cores to each, as two EPYC 9965
/// are without SMT.
pub fn many_cores() -> Machine {
    single_threads(2, 12, 16)
}

/// 384 CPUs: 192 cores of 2 threads on 6 nodes whose distances differ, which makes seven levels of
/// domains.
pub fn many() -> Machine {
    machine("gnr-2s-snc3", &[("cores_per_llc = 40", "cores_per_llc = 32")])
}

/// A model on a machine.
pub fn load(model: &impl Model, name: &str, machine: &Machine) -> Workload {
    let workload = model.workload(name, machine.cpu_count() as u32);
    workload.unwrap_or_else(|error| panic!("{error}"))
}

/// Tasks of 2 ms every 10 ms.
pub fn periodic(machine: &Machine, tasks: u32) -> Workload {
    load(&periodic::Options { tasks, ..Default::default() }, "periodic", machine)
}

/// Groups of 20 senders and 20 receivers that never end.
pub fn hackbench(machine: &Machine, groups: u32) -> Workload {
    let options = hackbench::Options { groups, loops: 1_000_000_000, ..Default::default() };
    load(&options, "hackbench", machine)
}

/// As many groups as a machine is loaded with.
pub fn groups(machine: &Machine) -> u32 {
    (machine.cpu_count() as u32 / 32).max(1)
}

/// A thread per CPU that computes.
pub fn sysbench_cpu(machine: &Machine) -> Workload {
    let threads = machine.cpu_count() as u32;
    let options = sysbench::Options { threads, time: 1000, ..Default::default() };
    load(&options, "sysbench cpu", machine)
}

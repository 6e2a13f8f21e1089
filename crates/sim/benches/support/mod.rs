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

/// 8 CPUs without second threads.
pub fn eight() -> Machine {
    machine(
        "generic",
        &[
            ("cores_per_llc = 4", "cores_per_llc = 8"),
            ("threads_per_core = 2", "threads_per_core = 1"),
            ("throughput = [1.0, 1.25]", "throughput = [1.0]"),
            ("power = [1.0, 1.15]", "power = [1.0]"),
        ],
    )
}

/// 384 CPUs: 192 cores of 2 threads on 6 nodes.
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

//! Speed of short runs, compared with the last time they were measured: events of the trace a second
//! under wakeup-heavy and compute-heavy load on 8, 128 and 480 CPUs. Most operations of a
//! message-passing load cause no event. Whole runs and their budgets are in `budgets`.

#[allow(dead_code, reason = "each benchmark takes what it needs")]
mod support;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Outcome, Settings, simulate};
use schedlab_workload::program::Workload;
use std::time::Duration;
use support::{MS, eight, groups, hackbench, machine, sysbench_cpu};

fn run(machine: &Machine, load: &Workload, ms: u64) -> Outcome<Nothing> {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let settings = Settings::new(&kernel, machine, ms * MS, 1);
    let outcome = simulate(machine, kernel.domains, load, &settings, Nothing);
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

fn loads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    for machine in [eight(), machine("kunpeng920-2s", &[]), machine("gnr-2s-snc3", &[])] {
        let cpus = machine.cpu_count() as u64;
        let cases = [
            ("hackbench", hackbench(&machine, groups(&machine)), 800 / cpus),
            ("sysbench-cpu", sysbench_cpu(&machine), 8000 / cpus),
        ];
        for (name, load, ms) in cases {
            let events = run(&machine, &load, ms.max(1)).events;
            group.throughput(Throughput::Elements(events));
            group.bench_function(BenchmarkId::new(name, cpus), |bench| {
                bench.iter(|| run(&machine, &load, ms.max(1)).digest);
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    // `cargo test` only wants to know that it runs; only `cargo bench` says so.
    if !std::env::args().any(|argument| argument == "--bench") {
        assert!(run(&eight(), &hackbench(&eight(), 1), 10).events > 0);
        return;
    }
    loads(&mut criterion);
    criterion.final_summary();
}

//! What idle states and frequencies cost the simulator: the same load on a phone with one idle state
//! and no choice, with its idle states and a governor, and with schedutil besides.

use criterion::{Criterion, SamplingMode, Throughput};
use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Outcome, Settings, simulate};
use schedlab_workload::models::{Model, periodic};
use schedlab_workload::program::Workload;
use std::path::Path;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// The phone, with its deep idle states or without.
fn phone(sleeps: bool) -> Machine {
    let text = Machine::preset_text("pixel6-gs101").expect("a preset");
    let kept = text.lines().filter(|line| sleeps || !line.contains("name = \"c2\""));
    let text = kept.collect::<Vec<_>>().join("\n");
    Machine::parse(&text, Path::new("phone")).unwrap_or_else(|error| panic!("{error}"))
}

fn load() -> Workload {
    let options =
        periodic::Options { tasks: 16, run_us: 200, period_us: 4_000, ..Default::default() };
    options.workload("periodic", 8).expect("valid")
}

fn run(machine: &Machine, governor: CpufreqGovernor, ms: u64) -> Outcome<Nothing> {
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let mut settings = Settings::new(&kernel, machine, ms * MS, 1);
    settings.cpufreq.governor = Some(governor);
    let outcome = simulate(machine, kernel.domains, &load(), &settings, Nothing);
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

fn main() {
    let cases = [
        ("one idle state, fixed frequency", false, CpufreqGovernor::Performance),
        ("idle states and governor, fixed frequency", true, CpufreqGovernor::Performance),
        ("one idle state, schedutil", false, CpufreqGovernor::Schedutil),
        ("idle states and governor, schedutil", true, CpufreqGovernor::Schedutil),
    ];
    // `cargo test` only wants to know that it runs; only `cargo bench` says so.
    if !std::env::args().any(|argument| argument == "--bench") {
        for (_, sleeps, governor) in cases {
            assert!(run(&phone(sleeps), governor, 20).events > 0);
        }
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("physics");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    for (name, sleeps, governor) in cases {
        let machine = phone(sleeps);
        group.throughput(Throughput::Elements(run(&machine, governor, 1_000).events));
        group.bench_function(name, |bench| {
            bench.iter(|| run(&machine, governor, 1_000).digest);
        });
    }
    group.finish();
    criterion.final_summary();
}

//! Speed of whole runs: scheduling events and operations of tasks a second under wakeup-heavy and
//! compute-heavy load on 8, 128 and 480 CPUs, and the two scenarios by which scheduler simulators
//! are compared. Most operations of a message-passing load cause no scheduling event.

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Observer, Outcome, Settings, simulate};
use schedlab_trace::Event;
use schedlab_workload::models::{Model, hackbench, periodic, sysbench};
use schedlab_workload::program::Workload;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Knows how much memory is in use, and how much was at most.
struct Peak;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed to the system's allocator as it comes.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Peak = Peak;

const MS: u64 = 1_000_000;

/// A preset machine with some lines changed.
fn machine(preset: &str, changes: &[(&str, &str)]) -> Machine {
    let mut text = Machine::preset_text(preset).expect("a preset").to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{preset} has no {from}");
        text = text.replace(from, to);
    }
    Machine::parse(&text, Path::new(preset)).unwrap_or_else(|error| panic!("{error}"))
}

/// 8 CPUs without second threads.
fn eight() -> Machine {
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

fn run<O: Observer>(machine: &Machine, load: &Workload, ms: u64, observer: O) -> Outcome<O> {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let settings = Settings::new(&kernel, machine, ms * MS, 1);
    let outcome = simulate(machine, kernel.domains, load, &settings, observer);
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

fn hackbench(cpus: u32) -> Workload {
    let groups = (cpus / 32).max(1);
    let options = hackbench::Options { groups, loops: 1_000_000, ..Default::default() };
    options.workload("hackbench", cpus).unwrap_or_else(|error| panic!("{error}"))
}

fn sysbench_cpu(cpus: u32) -> Workload {
    let options = sysbench::Options { threads: cpus, time: 1000, ..Default::default() };
    options.workload("sysbench cpu", cpus).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs once for long, and tells time and memory.
fn long_run(name: &str, machine: &Machine, load: &Workload, ms: u64) {
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let start = Instant::now();
    let outcome = run(machine, load, ms, Nothing);
    let wall_s = start.elapsed().as_secs_f64();
    println!(
        "{name:<13} {:>4} CPUs: {:>5.1} simulated s in {wall_s:>7.2} s, {:>6.2} M events/s, \
         {:>6.2} M operations/s, peak {:>6.1} MiB",
        machine.cpu_count(),
        ms as f64 / 1e3,
        outcome.events as f64 / wall_s / 1e6,
        outcome.operations as f64 / wall_s / 1e6,
        (MOST.load(Ordering::Relaxed) - before) as f64 / 1048576.0,
    );
}

fn loads(criterion: &mut Criterion) {
    let machines = [eight(), machine("kunpeng920-2s", &[]), machine("gnr-2s-snc3", &[])];
    for machine in &machines {
        let cpus = machine.cpu_count() as u32;
        // About as many operations on every machine.
        long_run("hackbench", machine, &hackbench(cpus), 16_000 / u64::from(cpus));
        long_run("sysbench cpu", machine, &sysbench_cpu(cpus), 160_000 / u64::from(cpus));
    }
    let mut group = criterion.benchmark_group("events");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    for machine in &machines {
        let cpus = machine.cpu_count() as u32;
        let cases = [
            ("hackbench", hackbench(cpus), 800 / u64::from(cpus)),
            ("sysbench-cpu", sysbench_cpu(cpus), 8000 / u64::from(cpus)),
        ];
        for (name, load, ms) in cases {
            let events = run(machine, &load, ms.max(1), Nothing).events;
            group.throughput(Throughput::Elements(events));
            group.bench_function(BenchmarkId::new(name, cpus), |bench| {
                bench.iter(|| run(machine, &load, ms.max(1), Nothing).digest);
            });
        }
    }
    group.finish();
}

/// Periodic tasks of 2 ms every 10 ms: 32 on 8 CPUs for 100 s, and 768 on 384 CPUs for 5 s.
fn rival(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rival");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    let load = |tasks, cpus| {
        let options = periodic::Options { tasks, ..Default::default() };
        options.workload("periodic", cpus).unwrap_or_else(|error| panic!("{error}"))
    };
    let (small, few) = (eight(), load(32, 8));
    group.throughput(Throughput::Elements(run(&small, &few, 100_000, Nothing).events));
    group.bench_function("8 CPUs, streaming", |bench| {
        bench.iter(|| run(&small, &few, 100_000, Nothing).digest);
    });
    group.bench_function("8 CPUs, recorded", |bench| {
        bench.iter(|| run(&small, &few, 100_000, Vec::<Event>::new()).observer.len());
    });
    let (large, many) =
        (machine("gnr-2s-snc3", &[("cores_per_llc = 40", "cores_per_llc = 32")]), load(768, 384));
    group.throughput(Throughput::Elements(run(&large, &many, 5_000, Nothing).events));
    group.bench_function("384 CPUs, streaming", |bench| {
        bench.iter(|| run(&large, &many, 5_000, Nothing).digest);
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    // `cargo test` only wants to know that it runs; only `cargo bench` says so.
    if !std::env::args().any(|argument| argument == "--bench") {
        long_run("hackbench", &eight(), &hackbench(8), 10);
        return;
    }
    rival(&mut criterion);
    loads(&mut criterion);
    criterion.final_summary();
}

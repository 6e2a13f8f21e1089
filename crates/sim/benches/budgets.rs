//! Whole runs against their budgets: how long they take on one core, how much memory they need,
//! and how many scheduling events a second that is.
//!
//! A scheduling event is what [`Outcome::scheduling_events`] counts: every event of the trace,
//! whether it is kept or only digested, every interrupt that a CPU handles (timer expiry, tick,
//! interrupt of another CPU) and every operation of a task. Simulators of schedulers count that way:
//! scx_simulator's trace has an event for every call into the scheduler and for every phase of a
//! task. Events of the trace alone, which are fewer, stand in a column of their own.
//!
//! Time is that of the process on its core, so that other load on the machine hardly counts; of
//! several runs the best one is told.
//!
//! `cargo bench -p schedlab-sim --bench budgets -- hackbench` runs the rows whose name or machine
//! contains a word.

mod support;

use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Observer, Outcome, Settings, simulate};
use schedlab_trace::Event;
use schedlab_workload::models::ffmpeg;
use schedlab_workload::program::Workload;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use support::{
    MS, eight, groups, hackbench, load, machine, many, many_cores, periodic, sysbench_cpu,
};

/// Knows how much memory is in use, and how much was at most.
struct Peak;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: everything is handed to the system's allocator as it comes.
unsafe impl GlobalAlloc for Peak {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` or `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        grow(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Peak = Peak;

/// What a row must keep to.
#[derive(Clone, Copy)]
enum Budget {
    /// At most so many seconds.
    Seconds(f64),
    /// At least so many million scheduling events a second.
    MillionEvents(f64),
    /// It is only measured.
    None,
}

/// One row.
struct Row {
    name: &'static str,
    machine: Machine,
    load: Workload,
    ms: u64,
    runs: u32,
    recorded: bool,
    budget: Budget,
}

/// Times of one run, s.
#[derive(Clone, Copy)]
struct Times {
    core: f64,
    wall: f64,
}

/// The two scenarios by which scheduler simulators are compared, on CPUs without second threads, as
/// scx_simulator has them unless told otherwise: once more with every event kept, and once more on a
/// machine that is harder to balance; message passing on a large machine that is two thirds full; 60
/// ffmpeg processes whose real-time threads fill it; and wakeup-heavy and compute-heavy load on
/// machines of three sizes.
fn rows() -> Vec<Row> {
    let large = || machine("gnr-2s-snc3", &[]);
    let (small, cores, wide) = (eight(), many_cores(), many());
    let mut rows = vec![
        Row {
            name: "periodic",
            load: periodic(&small, 32),
            machine: small.clone(),
            ms: 100_000,
            runs: 7,
            recorded: false,
            budget: Budget::Seconds(0.26),
        },
        Row {
            name: "periodic, recorded",
            load: periodic(&small, 32),
            machine: small,
            ms: 100_000,
            runs: 5,
            recorded: true,
            budget: Budget::Seconds(0.52),
        },
        Row {
            name: "periodic",
            load: periodic(&cores, 768),
            machine: cores,
            ms: 5_000,
            runs: 5,
            recorded: false,
            budget: Budget::Seconds(0.5),
        },
        Row {
            name: "periodic, 6 nodes",
            load: periodic(&wide, 768),
            machine: wide,
            ms: 5_000,
            runs: 5,
            recorded: false,
            budget: Budget::None,
        },
        Row {
            name: "hackbench -g 8",
            load: hackbench(&large(), 8),
            machine: large(),
            ms: 200,
            runs: 3,
            recorded: false,
            budget: Budget::MillionEvents(3.0),
        },
        Row {
            name: "ffmpeg FIFO 99",
            load: load(&ffmpeg::Options::default(), "ffmpeg", &large()),
            machine: large(),
            ms: 1_000,
            runs: 3,
            recorded: false,
            budget: Budget::Seconds(5.0),
        },
    ];
    for (machine, least) in [
        (eight(), Budget::MillionEvents(10.0)),
        (machine("kunpeng920-2s", &[]), Budget::None),
        (large(), Budget::MillionEvents(3.0)),
    ] {
        let loads = [
            ("hackbench", hackbench(&machine, groups(&machine)), least),
            ("sysbench cpu", sysbench_cpu(&machine), Budget::None),
        ];
        for (name, load, budget) in loads {
            let machine = machine.clone();
            rows.push(Row { name, machine, load, ms: 10_000, runs: 1, recorded: false, budget });
        }
    }
    rows
}

/// How long this process had a core, s; where the kernel does not tell, time passes by the clock.
fn on_core_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let ns: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

fn run<O: Observer>(row: &Row, ms: u64, observer: O) -> (Outcome<O>, Times) {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let settings = Settings::new(&kernel, &row.machine, ms * MS, 1);
    let (start, before) = (Instant::now(), on_core_s());
    let outcome = simulate(&row.machine, kernel.domains, &row.load, &settings, observer);
    let wall = start.elapsed().as_secs_f64();
    let core = on_core_s().zip(before).map_or(wall, |(after, before)| after - before);
    (outcome.unwrap_or_else(|error| panic!("{error}")), Times { core, wall })
}

/// Scheduling events, events of the trace, and times.
fn run_once(row: &Row, ms: u64) -> (u64, u64, Times) {
    if row.recorded {
        let (outcome, times) = run(row, ms, Vec::<Event>::new());
        // The kernel's verdicts on idle states are kept beside the events that count.
        assert!(outcome.observer.len() as u64 >= outcome.events);
        (outcome.scheduling_events(), outcome.events, times)
    } else {
        let (outcome, times) = run(row, ms, Nothing);
        (outcome.scheduling_events(), outcome.events, times)
    }
}

/// Runs a row and prints it.
fn measure(row: &Row) {
    let memory = IN_USE.load(Ordering::Relaxed);
    MOST.store(memory, Ordering::Relaxed);
    let results: Vec<_> = (0..row.runs).map(|_| run_once(row, row.ms)).collect();
    let best = results.iter().min_by(|a, b| a.2.core.total_cmp(&b.2.core));
    let &(handled, traced, Times { core, wall }) = best.expect("every row runs");
    let peak = (MOST.load(Ordering::Relaxed) - memory) as f64 / 1048576.0;
    let million = handled as f64 / 1e6 / core;
    let verdict = |met| if met { "met" } else { "MISSED" };
    let budget = match row.budget {
        Budget::Seconds(most) => format!("<= {most} s: {}", verdict(core <= most)),
        Budget::MillionEvents(least) => format!(">= {least} M/s: {}", verdict(million >= least)),
        Budget::None => String::new(),
    };
    println!(
        "{:<19}{:>5}{:>11.1}{core:>9.3}{wall:>9.3}{million:>11.2}{:>11.2}{peak:>10.1}  {budget}",
        row.name,
        row.machine.cpu_count(),
        row.ms as f64 / 1e3,
        traced as f64 / 1e6 / core,
    );
}

fn main() {
    // `cargo test` only wants to know that it runs; only `cargo bench` says so.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if !quick {
        println!(
            "{:<19}{:>5}{:>11}{:>9}{:>9}{:>11}{:>11}{:>10}  budget",
            "load",
            "CPUs",
            "simulated s",
            "core s",
            "wall s",
            "M events/s",
            "M traced/s",
            "peak MiB"
        );
    }
    for row in rows() {
        let label = format!("{}/{}", row.name, row.machine.cpu_count());
        if !words.iter().all(|word| label.contains(word.as_str())) {
            continue;
        }
        if quick {
            let (handled, traced, _) = run_once(&row, 2);
            assert!(handled >= traced && traced > 0, "{label}");
        } else {
            measure(&row);
        }
    }
}

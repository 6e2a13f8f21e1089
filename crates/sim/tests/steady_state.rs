//! Nothing allocates once a run has warmed up: neither the engine nor the scheduler.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Engine, KernelLines, Nothing, Settings};
use schedlab_workload::models::{Model, hackbench, periodic, schbench, sysbench};
use schedlab_workload::program::Workload;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed to the system's allocator as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const S: u64 = 1_000_000_000;

/// Events until every queue has been as long as it gets.
const WARM_UP: u32 = 500_000;

/// Allocations of so many events after that.
fn allocations(machine: &str, kernel: &str, workload: &Workload, events: u32) -> u64 {
    let machine = Machine::preset(machine).expect("a preset");
    let kernel = Kernel::preset(kernel).expect("a preset");
    let mut settings = Settings::new(&kernel, &machine, 1000 * S, 1);
    // Where there are real-time tasks, this is the whole model of lines.
    settings.kernel_lines = KernelLines::Recorded;
    let domains = build_domains(&machine, kernel.domains);
    let mut engine = Engine::new(&machine, domains, workload, &settings, Nothing);
    assert_eq!(engine.advance(1000 * S, WARM_UP), None, "it goes on");
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(engine.advance(1000 * S, events), None, "it goes on");
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// One test only, since tests of a file run at the same time and count together.
#[test]
fn nothing_allocates_in_the_steady_state() {
    let hackbench = |pipe| {
        let options = hackbench::Options {
            groups: 2,
            fds: 10,
            loops: 1_000_000,
            pipe,
            ..hackbench::Options::default()
        };
        options.workload("hackbench", 8).expect("valid")
    };
    let sysbench = |test| {
        let options =
            sysbench::Options { test, threads: 16, time: 10_000, ..sysbench::Options::default() };
        options.workload("sysbench", 8).expect("valid")
    };
    let schbench = schbench::Options { runtime: 10_000, ..schbench::Options::default() };
    let schbench = schbench.workload("schbench", 8).expect("valid");
    let periodic = periodic::Options::default().workload("periodic", 8).expect("valid");
    let urgent = periodic::Options {
        policy: periodic::PolicyName::Fifo,
        tasks: 12,
        run_us: 1_000,
        period_us: 1_500,
        ..periodic::Options::default()
    };
    let urgent = urgent.workload("urgent", 8).expect("valid");
    for (name, workload) in [
        ("hackbench, sockets", hackbench(false)),
        ("hackbench, pipes", hackbench(true)),
        ("sysbench cpu", sysbench(sysbench::Test::Cpu)),
        ("sysbench threads", sysbench(sysbench::Test::Threads)),
        ("schbench", schbench),
        ("periodic", periodic),
        ("periodic, real-time", urgent),
    ] {
        for (machine, kernel) in [
            ("generic", "v6.12"),
            ("nehalem-ep-2s", "v6.1"),
            ("nehalem-ep-2s", "v2.6.32"),
            ("generic", "v2.6.36"),
        ] {
            let count = allocations(machine, kernel, &workload, 100_000);
            assert_eq!(count, 0, "{name} on {machine} under {kernel}");
        }
    }
}

//! The RT priority map under real threads: each stands for a CPU that now runs a task of the most
//! urgent priority, now a normal one, and searches in vain for a CPU that runs something less
//! urgent.

use crate::cycles::Counter;
use crate::pin;
use schedlab_kernel::rt::cpupri::memory::Atomics;
use schedlab_kernel::rt::cpupri::{Groups, Layout, Level, Plan, RootDomain};
use schedlab_machine::{CpuId, CpuSet};
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Operations between two looks at the clock, which takes as long as one of them.
const BATCH: u32 = 256;

/// Batches of a thread that are kept.
const BATCHES_MAX: usize = 1 << 16;

/// What one operation takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// How many there were.
    pub operations: u64,
    /// Their mean, ns.
    pub mean_ns: f64,
    /// The median of batches, ns an operation.
    pub p50_ns: f64,
    /// The 99th percentile of batches, ns an operation.
    pub p99_ns: f64,
    /// Their mean, cycles in user space, where they can be counted.
    pub cycles: Option<f64>,
}

/// A layout under so many threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// A search in vain (`cpupri_find()`).
    pub find: Costs,
    /// A CPU's change from normal to the most urgent priority, or back (`cpupri_set()`).
    pub set: Costs,
}

/// Time and cycles of batches.
#[derive(Default)]
struct Samples {
    batch_ns: Vec<u64>,
    cycles: Option<u64>,
}

impl Samples {
    fn add(&mut self, since: Instant, until: Instant, cycles: Option<u64>) {
        if self.batch_ns.len() < BATCHES_MAX {
            self.batch_ns.push((until - since).as_nanos() as u64);
            self.cycles = match (self.cycles, self.batch_ns.len()) {
                (None, 1) => cycles,
                (sum, _) => sum.zip(cycles).map(|(sum, more)| sum + more),
            };
        }
    }
}

fn costs(threads: Vec<Samples>) -> Costs {
    let cycles = threads.iter().map(|samples| samples.cycles).sum::<Option<u64>>();
    let mut batch_ns: Vec<u64> = threads.into_iter().flat_map(|samples| samples.batch_ns).collect();
    batch_ns.sort_unstable();
    let operations = batch_ns.len() as u64 * u64::from(BATCH);
    let at = |percent: usize| {
        let index = (batch_ns.len() * percent / 100).min(batch_ns.len().saturating_sub(1));
        batch_ns.get(index).map_or(0.0, |&ns| ns as f64 / f64::from(BATCH))
    };
    let each = |sum: u64| sum as f64 / operations.max(1) as f64;
    Costs {
        operations,
        mean_ns: each(batch_ns.iter().sum()),
        p50_ns: at(50),
        p99_ns: at(99),
        cycles: cycles.map(each),
    }
}

/// Measures a layout of a map for `groups`. Thread by thread, `threads` names the CPU of this
/// machine that it runs on and the CPU of the map that it stands for.
///
/// # Errors
/// A thread cannot be bound to its CPU.
pub fn measure_cpupri(
    layout: Layout,
    groups: &Groups,
    threads: &[(u32, CpuId)],
    duration: Duration,
) -> io::Result<Measurement> {
    let plan = Plan::new(layout, groups);
    let memory = Atomics::new(&plan);
    let map = RootDomain::new(plan, memory);
    for cpu in 0..groups.cpus {
        map.set(CpuId(cpu as u32), Some(Level::NORMAL));
    }
    let (start, stop) = (Barrier::new(threads.len() + 1), AtomicBool::new(false));
    let samples = thread::scope(|scope| {
        let threads: Vec<_> = threads
            .iter()
            .map(|&(here, cpu)| {
                let (map, start, stop) = (&map, &start, &stop);
                scope.spawn(move || {
                    // Who cannot be bound comes to the barrier all the same.
                    let bound = pin::to(here);
                    start.wait();
                    bound.map(|()| work(map, cpu, stop))
                })
            })
            .collect();
        start.wait();
        thread::sleep(duration);
        stop.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(samples) => samples,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<io::Result<Vec<_>>>()
    })?;
    let (finds, sets) = samples.into_iter().unzip();
    Ok(Measurement { find: costs(finds), set: costs(sets) })
}

/// One thread: its searches and its changes.
fn work(map: &RootDomain<Atomics>, cpu: CpuId, stop: &AtomicBool) -> (Samples, Samples) {
    let (mut finds, mut sets) = (Samples::default(), Samples::default());
    let mut counter = Counter::open();
    let mut cycles = || counter.as_mut().and_then(Counter::read);
    let urgent = Level::of_prio(0);
    let Some(level) = urgent else { return (finds, sets) };
    let own = CpuSet::of(cpu);
    let active = CpuSet::first_n(map.plan().cpus());
    while !stop.load(Ordering::Relaxed) {
        let (since, before) = (Instant::now(), cycles());
        for _ in 0..BATCH / 2 {
            map.set(cpu, urgent);
            map.set(cpu, Some(Level::NORMAL));
        }
        let (until, after) = (Instant::now(), cycles());
        sets.add(since, until, after.zip(before).map(|(after, before)| after - before));
        map.set(cpu, urgent);
        let (since, before) = (Instant::now(), cycles());
        for _ in 0..BATCH {
            black_box(map.find(cpu, level, &own, &active));
        }
        let (until, after) = (Instant::now(), cycles());
        finds.add(since, until, after.zip(before).map(|(after, before)| after - before));
        map.set(cpu, Some(Level::NORMAL));
    }
    (finds, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_measures_both_operations_in_every_layout() {
        let groups = Groups::even(128, 16, 64);
        for layout in Layout::ALL {
            let millis = Duration::from_millis(5);
            let measured = measure_cpupri(layout, &groups, &[(0, CpuId(3))], millis);
            let Measurement { find, set } = measured.expect("CPU 0 is there");
            for costs in [find, set] {
                assert!(costs.operations >= u64::from(BATCH), "{layout:?}");
                assert!(costs.p50_ns > 1.0 && costs.p99_ns >= costs.p50_ns, "{layout:?}");
            }
        }
        let beyond = measure_cpupri(Layout::Global, &groups, &[(5_000, CpuId(0))], Duration::ZERO);
        assert!(beyond.is_err_and(|error| error.to_string().contains("CPU 5000")));
    }
}

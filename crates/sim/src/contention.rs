//! The priority map alone under all CPUs of a machine, without a scheduler around it: how long a
//! search and a change take, and how many lines each touches.

use crate::c2c::C2cReport;
use crate::coherence::Coherence;
use crate::random::Pcg;
use schedlab_kernel::hardware::Touch;
use schedlab_kernel::rt::cpupri::memory::Traced;
use schedlab_kernel::rt::cpupri::{Groups, Layout, Level, Plan, RootDomain};
use schedlab_machine::{CpuId, CpuSet, Machine};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the CPUs do.
#[derive(Clone, Copy, Debug)]
pub struct ContentionOptions {
    /// How the map is kept.
    pub layout: Layout,
    /// CPUs that share their tasks, neighbours in the tree.
    pub group: usize,
    /// Time between two operations of a CPU on average, ns.
    pub think_ns: u64,
    /// Rounds of each CPU: a task comes, a search for another CPU, the task goes.
    pub rounds: u32,
    /// What the draws come from.
    pub seed: u64,
    /// Keep a report as a profiler's.
    pub record: bool,
}

/// One kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationTimes {
    /// How many there were.
    pub count: u64,
    /// Their mean, ns.
    pub mean_ns: f64,
    /// Their median, ns.
    pub p50_ns: f64,
    /// Their 99th percentile, ns.
    pub p99_ns: f64,
    /// Lines that each touches, on average.
    pub lines: f64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Contention {
    /// Searches.
    pub find: OperationTimes,
    /// Changes.
    pub set: OperationTimes,
    /// Accesses by line, if wanted.
    pub c2c: Option<C2cReport>,
}

#[derive(Default)]
struct Tally {
    ps: Vec<u64>,
    lines: u64,
}

impl Tally {
    fn finish(mut self) -> OperationTimes {
        self.ps.sort_unstable();
        let count = self.ps.len();
        let at = |percent: usize| {
            let index = (count * percent / 100).min(count.saturating_sub(1));
            self.ps.get(index).map_or(0.0, |&ps| ps as f64 / 1e3)
        };
        let each = |sum: u64| sum as f64 / count.max(1) as f64;
        OperationTimes {
            count: count as u64,
            mean_ns: each(self.ps.iter().sum()) / 1e3,
            p50_ns: at(50),
            p99_ns: at(99),
            lines: each(self.lines),
        }
    }
}

/// Runs it: on each CPU in turn a task of the most urgent priority comes, looks for a CPU of its
/// group that runs something less urgent, and goes. The first round of each CPU, in which lines come
/// from memory, does not count.
pub fn contend(machine: &Machine, options: &ContentionOptions) -> Contention {
    let groups = Groups::of(machine.topology());
    let plan = Plan::new(options.layout, &groups);
    let memory = Traced::new(&plan);
    let map = RootDomain::new(plan.clone(), memory);
    let mut coherence = Coherence::new(plan, options.record);
    let active = CpuSet::first_n(groups.cpus);
    let chunks = groups.order.chunks(options.group.max(1));
    let mut allowed = vec![CpuSet::EMPTY; groups.cpus];
    for chunk in chunks {
        let all: CpuSet = chunk.iter().copied().collect();
        chunk.iter().for_each(|cpu| allowed[cpu.index()] = all);
    }
    for &cpu in &groups.order {
        map.set(cpu, Some(Level::NORMAL));
    }
    map.memory().drain(|_| {});
    let mut random = Pcg::new(options.seed, 0);
    let think_ps = options.think_ns.saturating_mul(1000);
    let mut pause_ps = move || think_ps / 2 + random.below(think_ps.max(1));
    let mut queue: BinaryHeap<Reverse<(u64, u32, u32)>> =
        machine.cpu_ids().map(|cpu| Reverse((pause_ps(), cpu.0, 0))).collect();
    let (mut finds, mut sets) = (Tally::default(), Tally::default());
    let urgent = Level::of_prio(0).unwrap_or(Level::HIGHER);
    let mut touched: Vec<Touch> = Vec::new();
    while let Some(Reverse((now_ps, cpu, step))) = queue.pop() {
        let at = CpuId(cpu);
        let tally = match step % 3 {
            0 => {
                map.set(at, Some(urgent));
                &mut sets
            }
            1 => {
                map.find(at, urgent, &allowed[at.index()], &active);
                &mut finds
            }
            _ => {
                map.set(at, Some(Level::NORMAL));
                &mut sets
            }
        };
        map.memory().drain(|touches| touched.extend_from_slice(touches));
        let mut end_ps = now_ps;
        for touch in &touched {
            end_ps = coherence.one(machine, at, touch, end_ps);
        }
        if step >= 3 {
            touched.sort_unstable_by_key(Touch::line);
            touched.dedup_by_key(|touch| touch.line());
            tally.ps.push(end_ps - now_ps);
            tally.lines += touched.len() as u64;
        }
        touched.clear();
        if step + 1 < options.rounds.max(2) * 3 {
            // A search follows at once; tasks come and go with time between.
            let next_ps = if step % 3 == 0 { end_ps } else { end_ps + pause_ps() };
            queue.push(Reverse((next_ps, cpu, step + 1)));
        }
    }
    Contention { find: finds.finish(), set: sets.finish(), c2c: coherence.report() }
}

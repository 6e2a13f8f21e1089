//! The earliest deadline of every CPU, in a heap with the latest one on top, so that the CPU that
//! can wait longest is found fast (`cpudl`).
//!
//! Source: `kernel/sched/cpudeadline.c` of Linux 6.12.117.

use super::entity::before;
use schedlab_machine::{CpuId, CpuSet};

/// What is asked for: a task that looks for a CPU.
#[derive(Clone, Copy, Debug)]
pub struct DeadlineTask<'a> {
    /// Its absolute deadline, ns; deadlines wrap.
    pub deadline_ns: u64,
    /// The CPUs that it may use.
    pub allowed: &'a CpuSet,
    /// The CPU that it is on or was on.
    pub cpu: CpuId,
    /// Run time per deadline, as a fixed-point number of 20 bits (`dl_density`).
    pub density: u64,
}

/// `BW_SHIFT - SCHED_CAPACITY_SHIFT`: from a density to a capacity out of 1024.
const DENSITY_SHIFT: u32 = 10;

impl DeadlineTask<'_> {
    /// A CPU of so much capacity, out of 1024, is fast enough (`dl_task_fits_capacity()`).
    pub fn fits(&self, capacity: u64) -> bool {
        capacity >= self.density >> DENSITY_SHIFT
    }
}

/// The map of deadlines.
#[derive(Clone, Debug)]
pub struct DeadlineMap {
    /// The heap; what lies beyond its size is left from earlier, and the kernel looks at the top
    /// even of an empty heap.
    items: Vec<(u64, CpuId)>,
    size: usize,
    /// Where each CPU is in the heap.
    places: Vec<Option<usize>>,
    free: CpuSet,
}

impl DeadlineMap {
    /// A map for CPUs 0 to `cpus` - 1, all of them online and free of deadline tasks.
    pub fn new(cpus: usize) -> DeadlineMap {
        DeadlineMap {
            items: vec![(0, CpuId(0)); cpus],
            size: 0,
            places: vec![None; cpus],
            free: CpuSet::first_n(cpus),
        }
    }

    /// CPUs that have a deadline.
    pub fn len(&self) -> usize {
        self.size
    }

    /// True if no CPU has one.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The CPU with the latest deadline (`cpudl_maximum()`).
    pub fn latest(&self) -> Option<CpuId> {
        (self.size > 0).then(|| self.items[0].1)
    }

    /// `cpu`'s earliest deadline is this one from now on (`cpudl_set()`).
    pub fn set(&mut self, cpu: CpuId, deadline_ns: u64) {
        match self.places[cpu.index()] {
            None => {
                let place = self.size;
                self.size += 1;
                self.put(place, (deadline_ns, cpu));
                self.up(place);
                self.free.remove(cpu);
            }
            Some(place) => {
                self.items[place].0 = deadline_ns;
                self.settle(place);
            }
        }
    }

    /// `cpu` has no deadline task any more, and is online or not (`cpudl_clear()`).
    pub fn clear(&mut self, cpu: CpuId, online: bool) {
        if let Some(place) = self.places[cpu.index()] {
            self.put(place, self.items[self.size - 1]);
            self.size -= 1;
            self.places[cpu.index()] = None;
            self.settle(place);
            // What was moved last may have been the CPU itself.
            self.places[cpu.index()] = None;
        }
        if online {
            self.free.insert(cpu);
        } else {
            self.free.remove(cpu);
        }
    }

    /// CPUs on which the task would not wait: those that are free, or else the one with the latest
    /// deadline if the task's is earlier (`cpudl_find()`). With `capacities`, by CPU number, where
    /// they differ: of the free CPUs those that are big enough, or else the biggest.
    pub fn find(&self, task: &DeadlineTask<'_>, capacities: Option<&[u64]>) -> CpuSet {
        let free = self.free & *task.allowed;
        if !free.is_empty() {
            return match capacities {
                Some(capacities) => Self::big_enough(task, free, capacities),
                None => free,
            };
        }
        if self.is_latest_later(task) { CpuSet::of(self.items[0].1) } else { CpuSet::EMPTY }
    }

    /// The CPU with the latest deadline is allowed, and its deadline is after the task's
    /// (`cpudl_find()` without a mask to fill in, which does not ask for free CPUs).
    pub fn is_latest_later(&self, task: &DeadlineTask<'_>) -> bool {
        let (deadline_ns, cpu) = self.items[0];
        task.allowed.contains(cpu) && before(task.deadline_ns, deadline_ns)
    }

    fn big_enough(task: &DeadlineTask<'_>, free: CpuSet, capacities: &[u64]) -> CpuSet {
        let fitting: CpuSet =
            free.iter().filter(|cpu| task.fits(capacities[cpu.index()])).collect();
        if !fitting.is_empty() {
            return fitting;
        }
        let (mut most, mut biggest) = (0, CpuSet::EMPTY);
        for cpu in free.iter() {
            let capacity = capacities[cpu.index()];
            if capacity > most || (cpu == task.cpu && capacity == most) {
                (most, biggest) = (capacity, CpuSet::of(cpu));
            }
        }
        biggest
    }

    fn put(&mut self, place: usize, item: (u64, CpuId)) {
        self.items[place] = item;
        self.places[item.1.index()] = Some(place);
    }

    /// `cpudl_heapify()`.
    fn settle(&mut self, place: usize) {
        if place > 0 && before(self.items[(place - 1) / 2].0, self.items[place].0) {
            self.up(place);
        } else {
            self.down(place);
        }
    }

    /// `cpudl_heapify_up()`.
    fn up(&mut self, mut place: usize) {
        let item = self.items[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if before(item.0, self.items[parent].0) {
                break;
            }
            self.put(place, self.items[parent]);
            place = parent;
        }
        self.put(place, item);
    }

    /// `cpudl_heapify_down()`.
    fn down(&mut self, mut place: usize) {
        if 2 * place + 1 >= self.size {
            return;
        }
        let item = self.items[place];
        loop {
            let (mut latest, mut deadline_ns) = (place, item.0);
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.size && before(deadline_ns, self.items[child].0) {
                    (latest, deadline_ns) = (child, self.items[child].0);
                }
            }
            if latest == place {
                break;
            }
            self.put(place, self.items[latest]);
            place = latest;
        }
        self.put(place, item);
    }
}

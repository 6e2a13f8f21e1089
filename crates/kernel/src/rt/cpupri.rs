//! What every CPU runs, kept by priority, so that the CPUs that run the least urgent tasks are
//! found fast (`cpupri`).
//!
//! Source: `kernel/sched/cpupri.c` of Linux 6.12.117.

use super::NOT_RT;
use schedlab_machine::{CpuId, CpuSet};

/// Levels: normal, 99 real-time priorities, and above all of them deadline tasks
/// (`CPUPRI_NR_PRIORITIES`).
pub const LEVELS: usize = 101;

/// A place among the levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// Nothing real-time (`CPUPRI_NORMAL`).
    pub const NORMAL: Level = Level(0);
    /// Above every real-time priority (`CPUPRI_HIGHER`).
    pub const HIGHER: Level = Level(100);

    /// Of the kernel's priority (`convert_prio()`): 0 to 98 are real-time, 99 is normal, 100 is
    /// higher; none is `CPUPRI_INVALID`.
    pub const fn of_prio(prio: u8) -> Option<Level> {
        match prio {
            0..NOT_RT => Some(Level(NOT_RT - prio)),
            NOT_RT => Some(Level::NORMAL),
            100 => Some(Level::HIGHER),
            _ => None,
        }
    }

    /// From 0, the lowest, to 100.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Keeps what each CPU runs. Layouts differ in which memory they touch, not in what they answer.
pub trait PriorityMap {
    /// `cpu` runs something of this level from now on; none takes it out, as when it goes offline
    /// (`cpupri_set()`).
    fn set(&mut self, cpu: CpuId, level: Option<Level>);

    /// Of the `allowed` and `active` CPUs, those of the lowest level below `level` that has any and
    /// of these at least one that `fits`; if nowhere one fits, as if all did
    /// (`cpupri_find_fitness()`). Empty if there is none.
    fn find_fitting(
        &self,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet;

    /// The same where every CPU fits (`cpupri_find()`).
    fn find(&self, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet {
        self.find_fitting(level, allowed, active, |_| true)
    }

    /// True if some allowed CPU, active or not, is at a lower level (`cpupri_find()` without a
    /// mask to fill in).
    fn any_lower(&self, level: Level, allowed: &CpuSet) -> bool;
}

/// The layout of Linux up to 6.12: for each level, a count and one mask of all CPUs.
#[derive(Clone, Debug)]
pub struct GlobalMap {
    counts: [u32; LEVELS],
    masks: Box<[CpuSet; LEVELS]>,
    /// Levels whose count is not 0, so that a search need not look at the others.
    occupied: u128,
    levels: Vec<Option<Level>>,
}

impl GlobalMap {
    /// A map for CPUs 0 to `cpus` - 1, which nothing is known of yet (`cpupri_init()`).
    pub fn new(cpus: usize) -> GlobalMap {
        GlobalMap {
            counts: [0; LEVELS],
            masks: Box::new([CpuSet::EMPTY; LEVELS]),
            occupied: 0,
            levels: vec![None; cpus],
        }
    }

    /// What `cpu` runs.
    pub fn level(&self, cpu: CpuId) -> Option<Level> {
        self.levels[cpu.index()]
    }

    /// The levels below this one that are not empty, from the lowest.
    fn below(&self, level: Level) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.occupied & ((1 << level.index()) - 1);
        std::iter::from_fn(move || {
            let next = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (next < LEVELS).then_some(next)
        })
    }
}

impl PriorityMap for GlobalMap {
    fn set(&mut self, cpu: CpuId, level: Option<Level>) {
        let before = std::mem::replace(&mut self.levels[cpu.index()], level);
        if level == before {
            return;
        }
        // The new place first, so that a search never misses the CPU.
        if let Some(level) = level {
            self.masks[level.index()].insert(cpu);
            self.counts[level.index()] += 1;
            self.occupied |= 1 << level.index();
        }
        if let Some(before) = before {
            self.counts[before.index()] -= 1;
            if self.counts[before.index()] == 0 {
                self.occupied &= !(1 << before.index());
            }
            self.masks[before.index()].remove(cpu);
        }
    }

    fn find_fitting(
        &self,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet {
        let mut any = CpuSet::EMPTY;
        for at in self.below(level) {
            let found = *allowed & self.masks[at] & *active;
            if any.is_empty() {
                any = found;
            }
            let fitting: CpuSet = found.iter().filter(|&cpu| fits(cpu)).collect();
            if !fitting.is_empty() {
                return fitting;
            }
        }
        any
    }

    fn any_lower(&self, level: Level, allowed: &CpuSet) -> bool {
        self.below(level).any(|at| allowed.intersects(&self.masks[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_level_with_an_allowed_cpu_is_found() {
        let mut map = GlobalMap::new(4);
        for (cpu, prio) in [(0, 0), (1, 50), (2, 50), (3, NOT_RT)] {
            map.set(CpuId(cpu), Level::of_prio(prio));
        }
        let all = CpuSet::first_n(4);
        let top = Level::of_prio(0).expect("a priority");
        assert_eq!(map.find(top, &all, &all), CpuSet::of(CpuId(3)));
        let low: CpuSet = [CpuId(0), CpuId(1), CpuId(2)].into_iter().collect();
        assert_eq!(map.find(top, &low, &all), [CpuId(1), CpuId(2)].into_iter().collect());
        // Nothing is below a CPU's own level.
        let same = Level::of_prio(50).expect("a priority");
        assert!(map.find(same, &low, &all).is_empty());
    }

    #[test]
    fn priority_goes_before_fitness() {
        let mut map = GlobalMap::new(3);
        for (cpu, prio) in [(0, NOT_RT), (1, 50), (2, 40)] {
            map.set(CpuId(cpu), Level::of_prio(prio));
        }
        let all = CpuSet::first_n(3);
        let top = Level::of_prio(10).expect("a priority");
        let big = |cpu: CpuId| cpu == CpuId(2);
        assert_eq!(map.find_fitting(top, &all, &all, big), CpuSet::of(CpuId(2)));
        // Where none fits, the lowest level is taken all the same.
        assert_eq!(map.find_fitting(top, &all, &all, |_| false), CpuSet::of(CpuId(0)));
    }
}

//! The answers alone: what every layout must agree with, and what a run without a model of cache
//! lines uses.

use super::{LEVELS, Level, PriorityMap};
use schedlab_machine::{CpuId, CpuSet};

/// For each level, a count and one set of CPUs.
#[derive(Clone, Debug)]
pub struct PlainMap {
    counts: Box<[u32; LEVELS]>,
    masks: Box<[CpuSet; LEVELS]>,
    /// Levels whose count is not 0, so that a search need not look at the others.
    occupied: u128,
    levels: Vec<Option<Level>>,
}

impl PlainMap {
    /// A map for CPUs 0 to `cpus` - 1, which nothing is known of yet (`cpupri_init()`).
    pub fn new(cpus: usize) -> PlainMap {
        PlainMap {
            counts: Box::new([0; LEVELS]),
            masks: Box::new([CpuSet::EMPTY; LEVELS]),
            occupied: 0,
            levels: vec![None; cpus],
        }
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

impl PriorityMap for PlainMap {
    fn set(&mut self, cpu: CpuId, level: Option<Level>) {
        let before = std::mem::replace(&mut self.levels[cpu.index()], level);
        if level == before {
            return;
        }
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
        _: CpuId,
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

    fn find(&self, _: CpuId, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet {
        let mut found = self.below(level).map(|at| *allowed & self.masks[at] & *active);
        found.find(|found| !found.is_empty()).unwrap_or(CpuSet::EMPTY)
    }

    fn any_lower(&self, _: CpuId, level: Level, allowed: &CpuSet) -> bool {
        self.below(level).any(|at| allowed.intersects(&self.masks[at]))
    }

    fn level(&self, cpu: CpuId) -> Option<Level> {
        self.levels[cpu.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::NOT_RT;

    const HERE: CpuId = CpuId(0);

    #[test]
    fn the_lowest_level_with_an_allowed_cpu_is_found() {
        let mut map = PlainMap::new(4);
        for (cpu, prio) in [(0, 0), (1, 50), (2, 50), (3, NOT_RT)] {
            map.set(CpuId(cpu), Level::of_prio(prio));
        }
        let all = CpuSet::first_n(4);
        let top = Level::of_prio(0).expect("a priority");
        assert_eq!(map.find(HERE, top, &all, &all), CpuSet::of(CpuId(3)));
        let low: CpuSet = [CpuId(0), CpuId(1), CpuId(2)].into_iter().collect();
        let found = map.find(HERE, top, &low, &all);
        assert_eq!(found, [CpuId(1), CpuId(2)].into_iter().collect());
        // Nothing is below a CPU's own level.
        let same = Level::of_prio(50).expect("a priority");
        assert!(map.find(HERE, same, &low, &all).is_empty());
    }

    #[test]
    fn priority_goes_before_fitness() {
        let mut map = PlainMap::new(3);
        for (cpu, prio) in [(0, NOT_RT), (1, 50), (2, 40)] {
            map.set(CpuId(cpu), Level::of_prio(prio));
        }
        let all = CpuSet::first_n(3);
        let top = Level::of_prio(10).expect("a priority");
        let big = |cpu: CpuId| cpu == CpuId(2);
        assert_eq!(map.find_fitting(HERE, top, &all, &all, big), CpuSet::of(CpuId(2)));
        // Where none fits, the lowest level is taken all the same.
        let none = map.find_fitting(HERE, top, &all, &all, |_| false);
        assert_eq!(none, CpuSet::of(CpuId(0)));
    }
}

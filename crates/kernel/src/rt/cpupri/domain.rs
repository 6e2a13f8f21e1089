//! The map over any memory, in any layout.
//!
//! # Orderings
//!
//! Writers of one CPU are serialised by the lock of its run queue; writers of different CPUs and
//! all searches run side by side.
//!
//! *A CPU whose level rises is always found*, at its old level or its new one. [`RootDomain::set`]
//! sets the new bit, adds to the new count, takes from the old count and clears the old bit, in
//! this order, and each step but the first releases what was before it. A search goes up from the
//! lowest level and acquires with each load. It leaves the old level without the CPU only if it
//! read the old count after the subtraction, or the old mask after the bit was cleared. Either way
//! it has acquired the addition and the new bit before it comes to the new level, where the count
//! can only be less than that again if the CPU went on, and then the same holds of the next level.
//! Other CPUs' additions and subtractions are read-modify-writes of the same counts, which continue
//! the release sequence, so that reading one of them acquires as well.
//!
//! *Counts are not torn*: they are changed by single atomic additions.
//!
//! *No CPU is lost*: bits of one word belong to different CPUs, and are set and cleared by single
//! atomic operations.
//!
//! A CPU whose level falls can be missed; the kernel then pulls (`cpupri_find()` says so).
//!
//! The kernel has a full barrier between the steps of a writer, which is at least a release, and
//! a read barrier between a count and its mask. It has none between a mask and the next count, so
//! that on a machine that reorders loads a search may read the new count before the writer added
//! to it, and the old mask after the bit was cleared, and find the CPU nowhere. Here loads of masks
//! acquire, which costs nothing on x86.

use super::memory::{Memory, Symbol, Traced};
use super::plan::Split;
use super::{Level, Plan, PriorityMap};
use schedlab_machine::{CpuId, CpuSet};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// In place of a level: nothing is known of the CPU (`CPUPRI_INVALID`).
const INVALID: u32 = u32::MAX;

/// The kernel's `struct root_domain`, as far as real-time tasks use it: the priority map and the
/// overloaded CPUs, which share its cache lines.
#[derive(Debug)]
pub struct RootDomain<M> {
    pub(super) plan: Plan,
    pub(super) memory: M,
}

type Fits<'a> = Option<&'a dyn Fn(CpuId) -> bool>;

impl<M: Memory> RootDomain<M> {
    /// A map which knows nothing of any CPU, in zeroed memory (`init_rootdomain()`).
    pub fn new(plan: Plan, memory: M) -> RootDomain<M> {
        let by = Symbol::CpupriSet;
        for cpu in 0..plan.cpus() {
            memory.store32(plan.cpu_to_pri(CpuId(cpu as u32)), INVALID, Relaxed, by);
        }
        for level in 0..plan.levels() {
            let first = if plan.has_arrays() { plan.array(level) } else { plan.mask(level, 0) };
            memory.store32(plan.pointer(level), first, Relaxed, by);
            for (part, cpus) in plan.parts().iter().enumerate() {
                let mask = plan.mask(level, part);
                if plan.has_arrays() {
                    memory.store32(plan.array(level) + 8 * part as u32, mask, Relaxed, by);
                }
                if plan.split() == Split::Masks {
                    // Bits of other nodes are set, so that all masks together give the whole.
                    for word in 0..plan.words() {
                        let at = mask + 8 * word as u32;
                        memory.store64(at, !cpus.word(word), Relaxed, by);
                    }
                }
            }
        }
        RootDomain { plan, memory }
    }

    /// Where everything is.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What it is kept in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// [`PriorityMap::set`]; the caller holds the lock of the CPU's run queue.
    pub fn set(&self, cpu: CpuId, level: Option<Level>) {
        let by = Symbol::CpupriSet;
        let (plan, memory) = (&self.plan, &self.memory);
        memory.load32(plan.cpu_to_pri_pointer(), Relaxed, by);
        let place = plan.cpu_to_pri(cpu);
        // Written under the lock alone, which orders it.
        let before = memory.load32(place, Relaxed, by);
        let after = level.map_or(INVALID, |level| level.index() as u32);
        if before == after {
            return;
        }
        let (from, bit) = plan.bit(cpu);
        if let Some(level) = level {
            let mask = self.mask(level.index(), plan.part_of(cpu), by);
            memory.or64(mask + from, bit, Release, by);
            memory.add32(plan.count(level.index()), 1, Release, by);
        }
        if before != INVALID {
            let old = before as usize;
            memory.add32(plan.count(old), u32::MAX, Release, by);
            let mask = self.mask(old, plan.part_of(cpu), by);
            memory.and64(mask + from, !bit, Release, by);
        }
        memory.store32(place, after, Relaxed, by);
    }

    /// [`PriorityMap::level`], for the holder of the CPU's run queue.
    pub fn level(&self, cpu: CpuId) -> Option<Level> {
        let place = self.plan.cpu_to_pri(cpu);
        Level::at(self.memory.load32(place, Relaxed, Symbol::CpupriSet) as usize)
    }

    /// [`PriorityMap::find`]; what it finds may have changed when it returns.
    pub fn find(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet {
        self.search(this_cpu, level, allowed, active, None)
    }

    /// [`PriorityMap::find_fitting`].
    pub fn find_fitting(
        &self,
        this_cpu: CpuId,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet {
        let found = self.search(this_cpu, level, allowed, active, Some(&fits));
        // Priority goes before fitness: the kernel searches once more.
        if found.is_empty() { self.find(this_cpu, level, allowed, active) } else { found }
    }

    /// [`PriorityMap::any_lower`].
    pub fn any_lower(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet) -> bool {
        (0..level.index()).any(|at| self.is_used(at) && self.any(at, this_cpu, allowed))
    }

    fn search(
        &self,
        this_cpu: CpuId,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: Fits<'_>,
    ) -> CpuSet {
        for at in 0..level.index() {
            if !self.is_used(at) || !self.any(at, this_cpu, allowed) {
                continue;
            }
            // The masks may have changed since, so that nothing may be left.
            let mut found = self.lowest(at, allowed) & *active;
            if let Some(fits) = fits {
                found = found.iter().filter(|&cpu| fits(cpu)).collect();
            }
            if !found.is_empty() {
                return found;
            }
        }
        CpuSet::EMPTY
    }

    #[inline]
    fn is_used(&self, level: usize) -> bool {
        self.memory.load32(self.plan.count(level), Acquire, Symbol::CpupriFind) != 0
    }

    /// The address of a part's mask, by the pointers to it.
    #[inline]
    fn mask(&self, level: usize, part: usize, by: Symbol) -> u32 {
        // Written once, before other threads know of the map.
        let pointer = self.memory.load32(self.plan.pointer(level), Relaxed, by);
        if self.plan.has_arrays() { self.entry(pointer, part, by) } else { pointer }
    }

    #[inline]
    fn entry(&self, array: u32, part: usize, by: Symbol) -> u32 {
        self.memory.load32(array + 8 * part as u32, Relaxed, by)
    }

    #[inline]
    fn word(&self, mask: u32, word: usize, by: Symbol) -> u64 {
        self.memory.load64(mask + 8 * word as u32, Acquire, by)
    }

    /// True if an allowed CPU is at this level. Parts are looked at from the local one on.
    fn any(&self, level: usize, this_cpu: CpuId, allowed: &CpuSet) -> bool {
        let by = Symbol::FindFirstAnd;
        let parts = self.plan.parts();
        let (first, count) = (self.plan.part_of(this_cpu), parts.len());
        let pointer = self.memory.load32(self.plan.pointer(level), Relaxed, Symbol::CpupriFind);
        let mut from_first = (first..count).chain(0..first);
        match self.plan.split() {
            Split::Whole => {
                let mut words = 0..self.plan.words();
                words.any(|word| self.word(pointer, word, by) & allowed.word(word) != 0)
            }
            Split::Masks => from_first.any(|part| {
                let mask = self.entry(pointer, part, Symbol::CpupriFind);
                (0..self.plan.words()).any(|word| {
                    let own = allowed.word(word) & parts[part].word(word);
                    self.word(mask, word, by) & own != 0
                })
            }),
            Split::Leaves => {
                from_first.filter(|&part| allowed.intersects(&parts[part])).any(|part| {
                    let mut found = false;
                    self.leaf(pointer, part, by, |cpu| {
                        found = allowed.contains(cpu);
                        found
                    });
                    found
                })
            }
        }
    }

    /// The allowed CPUs of this level.
    fn lowest(&self, level: usize, allowed: &CpuSet) -> CpuSet {
        let by = Symbol::BitmapAnd;
        let parts = self.plan.parts();
        let pointer = self.memory.load32(self.plan.pointer(level), Relaxed, Symbol::CpupriFind);
        let mut found = CpuSet::EMPTY;
        match self.plan.split() {
            Split::Whole => {
                for word in 0..self.plan.words() {
                    found.set_word(word, self.word(pointer, word, by) & allowed.word(word));
                }
            }
            Split::Masks => {
                found = *allowed;
                for part in 0..parts.len() {
                    let mask = self.entry(pointer, part, Symbol::CpupriFind);
                    for word in 0..self.plan.words() {
                        found.set_word(word, self.word(mask, word, by) & found.word(word));
                    }
                }
                // Of words beyond the machine's CPUs the masks say nothing.
                found &= CpuSet::first_n(self.plan.cpus());
            }
            Split::Leaves => {
                for (part, cpus) in parts.iter().enumerate() {
                    if allowed.intersects(cpus) {
                        self.leaf(pointer, part, by, |cpu| {
                            if allowed.contains(cpu) {
                                found.insert(cpu);
                            }
                            false
                        });
                    }
                }
            }
        }
        found
    }

    /// Hands on the CPUs of a leaf until one is the last.
    fn leaf(&self, pointer: u32, part: usize, by: Symbol, mut is_last: impl FnMut(CpuId) -> bool) {
        let leaf = match self.plan.has_arrays() {
            true => self.entry(pointer, part, Symbol::CpupriFind),
            false => pointer,
        };
        for (chunk, cpus) in self.plan.ranked(part).chunks(64).enumerate() {
            let mut word = self.word(leaf, chunk + 1, by);
            while word != 0 {
                if is_last(cpus[word.trailing_zeros() as usize]) {
                    return;
                }
                word &= word - 1;
            }
        }
    }
}

impl RootDomain<Traced> {
    /// What `cpu` runs, for whoever looks from outside.
    pub fn peek_level(&self, cpu: CpuId) -> Option<Level> {
        Level::at(self.memory.peek32(self.plan.cpu_to_pri(cpu)) as usize)
    }
}

impl<M: Memory> PriorityMap for RootDomain<M> {
    fn set(&mut self, cpu: CpuId, level: Option<Level>) {
        RootDomain::set(self, cpu, level);
    }

    fn find_fitting(
        &self,
        this_cpu: CpuId,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet {
        RootDomain::find_fitting(self, this_cpu, level, allowed, active, fits)
    }

    fn find(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet {
        RootDomain::find(self, this_cpu, level, allowed, active)
    }

    fn any_lower(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet) -> bool {
        RootDomain::any_lower(self, this_cpu, level, allowed)
    }

    fn level(&self, cpu: CpuId) -> Option<Level> {
        RootDomain::level(self, cpu)
    }
}

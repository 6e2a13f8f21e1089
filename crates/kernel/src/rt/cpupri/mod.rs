//! What every CPU runs, kept by priority, so that the CPUs that run the least urgent tasks are
//! found fast (`cpupri`), and where in memory it is kept.
//!
//! [`PlainMap`] is what every layout answers. [`RootDomain`] is one source for every layout over
//! any [`Memory`]: [`Atomics`](memory::Atomics) for real threads, [`Traced`](memory::Traced) for a
//! simulator that is told of each load, store and atomic operation.
//!
//! Source: `kernel/sched/cpupri.c` of Linux 6.12.117.

mod domain;
mod groups;
pub mod memory;
mod overload;
mod plain;
pub mod plan;

pub use domain::RootDomain;
pub use groups::Groups;
pub use memory::Memory;
pub use plain::PlainMap;
pub use plan::{Layout, Plan};

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

    /// By its place, 0 to 100.
    pub const fn at(index: usize) -> Option<Level> {
        if index < LEVELS { Some(Level(index as u8)) } else { None }
    }

    /// From 0, the lowest, to 100.
    #[inline]
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
    /// (`cpupri_find_fitness()`). Empty if there is none. `this_cpu` executes the search, which
    /// begins near it where a layout has parts.
    fn find_fitting(
        &self,
        this_cpu: CpuId,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet;

    /// The same where every CPU fits (`cpupri_find()`).
    fn find(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet;

    /// True if some allowed CPU, active or not, is at a lower level (`cpupri_find()` without a
    /// mask to fill in).
    fn any_lower(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet) -> bool;

    /// What `cpu` runs.
    fn level(&self, cpu: CpuId) -> Option<Level>;
}

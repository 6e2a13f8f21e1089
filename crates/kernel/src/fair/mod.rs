//! The fair scheduling class (`kernel/sched/fair.c`).

pub mod balance;
pub mod build;
pub mod capacity;
pub mod census;
pub mod cfs;
pub mod classic;
pub mod eevdf;
pub mod energy;
pub mod entity;
pub mod group;
pub mod nohz;
pub mod power_aware;
pub mod queue;
pub mod slow_path;
pub mod sums;
pub mod topology;
pub mod uclamp;
pub mod view;
pub mod wake;
mod wake_prop;
pub mod weight;

/// A task, by its place in the caller's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    /// The number as an index into per-task tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

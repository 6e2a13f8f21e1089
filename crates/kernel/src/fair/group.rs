//! Group statistics and group types, the currency of placement and balancing.

use super::sums::CpuSums;
use super::topology::Group;

/// What a group of CPUs is like, from the best place to pull to up to the best to pull from
/// (`enum group_type`, 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    /// Room for more tasks.
    HasSpare,
    /// Full, but nobody waits for long.
    FullyBusy,
    /// Holds a task that its CPUs are too small for.
    MisfitTask,
    /// A core whose threads are all busy, while other cores idle.
    SmtBalance,
    /// Busy on CPUs that are not the preferred ones.
    AsymPacking,
    /// Affinity kept it from being balanced.
    Imbalanced,
    /// More work than capacity.
    Overloaded,
}

/// Sums over the CPUs of a group (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// Load per capacity, only for groups without spare capacity.
    pub avg_load: u64,
    /// Sum of load.
    pub load: u64,
    /// Capacity of the group.
    pub capacity: u64,
    /// Sum of utilisation.
    pub util: u64,
    /// Sum of runnable averages.
    pub runnable: u64,
    /// Tasks of all classes.
    pub sum_nr_running: u32,
    /// Fair tasks.
    pub sum_h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs.
    pub weight: u32,
    /// The verdict.
    pub group_type: GroupType,
    /// Busy on CPUs that are not preferred.
    pub asym_packing: bool,
    /// SMT balance wanted.
    pub smt_balance: bool,
    /// Load of a task that does not fit (1 in placement: the placed task fits nowhere).
    pub misfit_task_load: u64,
    /// Tasks that NUMA balancing placed.
    pub nr_numa_running: u32,
    /// Tasks on their preferred node.
    pub nr_preferred_running: u32,
}

impl GroupStats {
    /// Nothing counted yet.
    pub const EMPTY: GroupStats = GroupStats {
        avg_load: 0,
        load: 0,
        capacity: 0,
        util: 0,
        runnable: 0,
        sum_nr_running: 0,
        sum_h_nr_running: 0,
        idle_cpus: 0,
        weight: 0,
        group_type: GroupType::HasSpare,
        asym_packing: false,
        smt_balance: false,
        misfit_task_load: 0,
        nr_numa_running: 0,
        nr_preferred_running: 0,
    };

    /// Of a group whose CPUs come to these sums.
    #[inline]
    pub fn of(group: &Group, sums: &CpuSums) -> GroupStats {
        GroupStats {
            load: sums.load,
            capacity: group.capacity,
            util: sums.util,
            runnable: sums.runnable,
            sum_nr_running: sums.nr_running,
            sum_h_nr_running: sums.h_nr_queued,
            idle_cpus: sums.idle_cpus,
            weight: group.weight,
            ..GroupStats::EMPTY
        }
    }

    /// Sets the type (`group_classify()`).
    #[inline]
    pub fn classify(&mut self, imbalance_pct: u32, imbalanced: bool) {
        self.group_type = if self.is_overloaded(imbalance_pct) {
            GroupType::Overloaded
        } else if imbalanced {
            GroupType::Imbalanced
        } else if self.asym_packing {
            GroupType::AsymPacking
        } else if self.smt_balance {
            GroupType::SmtBalance
        } else if self.misfit_task_load != 0 {
            GroupType::MisfitTask
        } else if !self.has_capacity(imbalance_pct) {
            GroupType::FullyBusy
        } else {
            GroupType::HasSpare
        };
    }

    /// `group_has_capacity()`.
    #[inline]
    fn has_capacity(&self, imbalance_pct: u32) -> bool {
        let pct = u64::from(imbalance_pct);
        self.sum_nr_running < self.weight
            || (self.capacity * pct >= self.runnable * 100 && self.capacity * 100 > self.util * pct)
    }

    /// `group_is_overloaded()`; not the opposite of [`GroupStats::has_capacity`]: a group with
    /// exactly enough tasks is neither.
    #[inline]
    fn is_overloaded(&self, imbalance_pct: u32) -> bool {
        let pct = u64::from(imbalance_pct);
        self.sum_nr_running > self.weight
            && (self.capacity * 100 < self.util * pct || self.capacity * pct < self.runnable * 100)
    }
}

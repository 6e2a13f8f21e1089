//! What placement and balancing read of run queues and tasks. Callers keep one [`CpuState`] per
//! CPU up to date; as in the kernel, averages are as fresh as their last update.

use super::uclamp::QueueClamps;
use schedlab_machine::{CpuId, CpuSet};

/// The run queue of one CPU, as other CPUs see it (`struct rq`). What balancing adds up comes first,
/// so that it is in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct CpuState {
    /// `rq->curr` is the idle task.
    pub curr_is_idle: bool,
    /// Wake-ups are queued on the CPU, but not yet done.
    pub ttwu_pending: bool,
    /// Tasks of all classes.
    pub nr_running: u32,
    /// Fair tasks, delayed ones included (`cfs.h_nr_queued`).
    pub h_nr_queued: u32,
    /// Of these, delayed ones.
    pub h_nr_delayed: u32,
    /// Fair tasks of policy `SCHED_IDLE`.
    pub idle_h_nr_running: u32,
    /// `cfs.avg.load_avg`.
    pub load: u64,
    /// `cfs.avg.util_avg`.
    pub util: u64,
    /// `cfs.avg.runnable_avg`.
    pub runnable: u64,
    /// `cfs.avg.util_est`.
    pub util_est: u64,
    /// `arch_scale_cpu_capacity()`.
    pub capacity_orig: u64,
    /// Capacity left for fair tasks (`capacity_of()`).
    pub capacity: u64,
    /// Tasks that NUMA balancing placed.
    pub nr_numa_running: u32,
    /// Of these, tasks on their preferred node.
    pub nr_preferred_running: u32,
    /// Exit latency of the idle state that the CPU is in, us.
    pub idle_exit_latency_us: Option<u32>,
    /// When the CPU became idle, ns.
    pub idle_stamp_ns: u64,
    /// Load of a task that does not fit the CPU.
    pub misfit_task_load: u64,
    /// Capacity taken by thermal limits.
    pub hw_pressure: u64,
    /// Utilisation by real-time tasks.
    pub util_rt: u64,
    /// Utilisation by deadline tasks.
    pub util_dl: u64,
    /// Deadline tasks.
    pub nr_dl: u32,
    /// Capacity that the CPU's deadline tasks have reserved and use (`cpu_bw_dl()`).
    pub bw_dl: u64,
    /// Utilisation by interrupts.
    pub util_irq: u64,
    /// `arch_asym_cpu_priority()`.
    pub asym_priority: i32,
    /// What its tasks want to be taken for.
    pub clamps: QueueClamps,
}

impl CpuState {
    /// An idle CPU of the given capacity.
    pub fn idle(cpu: CpuId, capacity: u64) -> CpuState {
        CpuState {
            curr_is_idle: true,
            ttwu_pending: false,
            nr_running: 0,
            h_nr_queued: 0,
            h_nr_delayed: 0,
            idle_h_nr_running: 0,
            load: 0,
            util: 0,
            runnable: 0,
            util_est: 0,
            capacity,
            capacity_orig: capacity,
            idle_exit_latency_us: None,
            idle_stamp_ns: 0,
            misfit_task_load: 0,
            nr_numa_running: 0,
            nr_preferred_running: 0,
            hw_pressure: 0,
            util_rt: 0,
            util_dl: 0,
            nr_dl: 0,
            bw_dl: 0,
            util_irq: 0,
            asym_priority: -(cpu.0 as i32),
            clamps: QueueClamps::default(),
        }
    }

    /// `idle_cpu()`: nothing runs, nothing waits, nothing is on its way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.curr_is_idle & (self.nr_running == 0) & !self.ttwu_pending
    }

    /// `sched_idle_cpu()`: only `SCHED_IDLE` tasks.
    #[inline]
    pub fn runs_only_idle_policy(&self) -> bool {
        (self.nr_running != 0) & (self.nr_running == self.idle_h_nr_running)
    }

    /// Free for a waking task.
    #[inline]
    pub fn is_available(&self) -> bool {
        self.is_idle() || self.runs_only_idle_policy()
    }

    /// `cpu_util_cfs()`.
    #[inline]
    pub fn cfs_util(&self) -> u64 {
        self.util.max(self.util_est).min(self.capacity_orig)
    }

    /// `cpu_util_cfs_boost()`: tasks that wait count, too.
    #[inline]
    pub fn cfs_util_boost(&self) -> u64 {
        self.util.max(self.runnable).max(self.util_est).min(self.capacity_orig)
    }

    /// More than four fifths of what fair tasks can have are used, or more than they ask for
    /// (`cpu_overutilized()`).
    #[inline]
    pub fn is_overutilized(&self) -> bool {
        let QueueClamps { used, .. } = self.clamps;
        let clamps = Clamps { used, min: self.clamps.min(), max: self.clamps.max() };
        util_fits_cpu(self.cfs_util(), &clamps, self) == Fit::No
    }

    /// `get_actual_cpu_capacity()`.
    #[inline]
    pub fn actual_capacity(&self) -> u64 {
        self.capacity_orig.saturating_sub(self.hw_pressure)
    }
}

/// Utilisation clamps of a task, if the kernel uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamps {
    /// `uclamp_is_used()`.
    pub used: bool,
    /// Effective minimum.
    pub min: u64,
    /// Effective maximum.
    pub max: u64,
}

impl Default for Clamps {
    fn default() -> Self {
        Clamps { used: false, min: 0, max: 1024 }
    }
}

/// The task that is placed.
#[derive(Clone, Copy, Debug)]
pub struct TaskView<'a> {
    /// The CPU it is on or was on (`task_cpu()`).
    pub cpu: CpuId,
    /// CPUs that it may use.
    pub allowed: &'a CpuSet,
    /// Its averages are part of `cpu`'s sums (`se->avg.last_update_time` is not 0).
    pub contributes: bool,
    /// On a run queue.
    pub on_rq: bool,
    /// It is what `cpu` runs.
    pub is_current: bool,
    /// `util_avg`.
    pub util: u64,
    /// `load_avg`.
    pub load: u64,
    /// `runnable_avg`.
    pub runnable: u64,
    /// `util_est`.
    pub util_est: u64,
    /// Utilisation clamps.
    pub clamps: Clamps,
    /// The node that NUMA balancing prefers.
    pub numa_preferred_node: Option<u32>,
}

impl TaskView<'_> {
    /// The larger of utilisation and its estimate (`task_util_est()`).
    #[inline]
    pub fn util_estimate(&self) -> u64 {
        self.util.max(self.util_est)
    }

    /// True if the task's averages are part of this CPU's.
    #[inline]
    fn counts_on(&self, cpu: CpuId) -> bool {
        self.cpu == cpu && self.contributes
    }

    /// 1 if the task is one of this CPU's running ones (`task_running_on_cpu()`).
    #[inline]
    pub fn runs_on(&self, cpu: CpuId) -> u32 {
        u32::from(self.counts_on(cpu) && self.on_rq)
    }

    /// `cpu_load_without()`.
    #[inline]
    pub fn load_without(&self, cpu: CpuId, state: &CpuState) -> u64 {
        if self.counts_on(cpu) { state.load.saturating_sub(self.load) } else { state.load }
    }

    /// `cpu_runnable_without()`.
    #[inline]
    pub fn runnable_without(&self, cpu: CpuId, state: &CpuState) -> u64 {
        if self.counts_on(cpu) {
            state.runnable.saturating_sub(self.runnable)
        } else {
            state.runnable
        }
    }

    /// `cpu_util_without()`: the estimate only holds the task while it is queued or runs.
    #[inline]
    pub fn util_without(&self, cpu: CpuId, state: &CpuState) -> u64 {
        let (mut util, mut util_est) = (state.util, state.util_est);
        if self.counts_on(cpu) {
            util = util.saturating_sub(self.util);
            if self.on_rq || self.is_current {
                util_est = util_est.saturating_sub(self.util_est);
            }
        }
        util.max(util_est).min(state.capacity_orig)
    }

    /// `idle_cpu_without()`, given that no other task is counted there.
    #[inline]
    pub fn leaves_idle(&self, cpu: CpuId, state: &CpuState) -> bool {
        (state.curr_is_idle || (self.is_current && self.cpu == cpu)) && !state.ttwu_pending
    }

    /// It may use all of these CPUs, and what they are like does not depend on it.
    pub fn leaves_alone(&self, cpus: &CpuSet) -> bool {
        let part = (self.contributes || self.is_current) && cpus.contains(self.cpu);
        !part && cpus.is_subset(self.allowed)
    }

    /// How well the CPU suits this task.
    pub fn fit(&self, state: &CpuState) -> Fit {
        util_fits_cpu(self.util_estimate(), &self.clamps, state)
    }
}

/// How well a CPU suits a utilisation under clamps (`util_fits_cpu()`).
pub fn util_fits_cpu(util: u64, clamps: &Clamps, state: &CpuState) -> Fit {
    let mut fits = fits_capacity(util, state.capacity);
    if clamps.used {
        let Clamps { min, max, .. } = *clamps;
        let full = state.capacity_orig == 1024 && max == 1024;
        fits |= !full && max <= state.capacity_orig;
        let min = min.min(max);
        if fits && util < min && min > state.actual_capacity() {
            return Fit::ExceptMinimum;
        }
    }
    if fits { Fit::Full } else { Fit::No }
}

/// How well a task's utilisation and clamps fit a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Entirely.
    Full,
    /// But for the requested minimum.
    ExceptMinimum,
    /// Not.
    No,
}

/// A fifth of the capacity is kept free (`fits_capacity()`).
#[inline]
pub fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

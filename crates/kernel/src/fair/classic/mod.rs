//! Placement and load balancing by load weights, as the kernel had them before it tracked the load
//! of each task (up to v3.7) and long after in spirit: `cpu_load[]`, `cpu_power`, the busiest group
//! by its average load, and small imbalances by what they would yield.
//!
//! Sources: `kernel/sched.c` and `kernel/sched_fair.c` of the long-term release 2.6.32 and of
//! 2.6.36, with their features at their defaults (LB_BIAS, AFFINE_WAKEUPS, CACHE_HOT_BUDDY), without
//! task groups; for [`room`], `kernel/sched/fair.c` of 3.9, whose balancing still goes by weights.

pub mod busiest;
pub mod domains;
mod imbalance;
pub mod load;
pub mod place;
pub mod room;
mod savings;
pub mod stats;

use super::balance::BalanceMode;
use super::power_aware::PowerRules;
use super::topology::Domains;
use crate::sched::TtwuQueue;
use load::LoadIndices;
use schedlab_machine::CpuId;
use serde::Deserialize;

/// `SCHED_LOAD_SCALE`: the load of a task of nice 0, and the power of a CPU.
pub const LOAD_SCALE: u64 = 1024;

/// What of classic balancing differs between releases, and what a user may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassicRules {
    /// What balancing may do.
    #[serde(default)]
    pub mode: BalanceMode,
    /// `cpu_load[]` of a CPU that slept without a tick decays for the ticks that it missed
    /// (v2.6.36, fdf3e95d3916). Before, it stood still.
    pub missed_ticks_decay: bool,
    /// `wake_affine()` weighs loads by the power of their CPUs (v2.6.35, e51fd5e22e12).
    pub affine_by_power: bool,
    /// A thread of a core counts as room for a task however small it is (v2.6.36, 9d5efe05eb0c).
    pub small_capacity: bool,
    /// Balancing before idling is that of the tick, with its failures and intervals (v2.6.34,
    /// 1af3ed3ddf27). Before, it was a path of its own.
    pub newidle_counts: bool,
    /// `sched_mc_power_savings`: 0, 1 (fill one package first) or 2 (wake-ups, too). Gone since v3.5
    /// (8e7fbcbc22c1).
    #[serde(default)]
    pub mc_power_savings: u8,
    /// `sched_smt_power_savings`: the same for cores.
    #[serde(default)]
    pub smt_power_savings: u8,
    /// What came until v3.9, if the kernel has it: see [`room`].
    pub v3_9: Option<V39Rules>,
    /// The 'power aware scheduling' series on top of that.
    pub power: Option<PowerRules>,
}

/// What of 3.9 depends on the architecture, or is worth turning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct V39Rules {
    /// Which wake-ups are left to the CPU that the task wakes on (v3.0, 317f394160e9).
    pub ttwu_queue: TtwuQueue,
    /// The lower threads of a core are preferred (`arch_sd_sibling_asym_packing()`, which POWER7
    /// answers by its `CPU_FTR_ASYM_SMT`).
    pub smt_asym_packing: bool,
    /// Beyond this distance, fork, exec and wake-up do not place tasks (`RECLAIM_DISTANCE`): 30, but
    /// 10 in powerpc's headers.
    pub reclaim_distance: u32,
    /// What one thread of a core that is shared by all of them achieves is this over their number, of
    /// 1024 (`smt_gain`).
    pub smt_gain: u32,
}

impl ClassicRules {
    /// Tasks are to be packed.
    pub fn saves_power(&self) -> bool {
        self.mc_power_savings > 0 || self.smt_power_savings > 0
    }
}

/// A run queue as other CPUs see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuView {
    /// Sum of the weights of its tasks (`rq->load.weight`).
    pub weight: u64,
    /// Its tasks.
    pub nr_running: u32,
    /// Of these, fair ones.
    pub cfs_nr_running: u32,
    /// The idle task runs (`idle_cpu()`, which did not look at the queue up to v3.2), and nothing
    /// waits (from v3.3 on, 908a3283728d).
    pub idle: bool,
    /// Its load over time.
    pub load: load::CpuLoad,
    /// The share of time in which it has tasks, 0 to 1024 (`rq->util` of power-aware scheduling).
    pub util: u64,
    /// That in which real-time tasks have it.
    pub rt_util: u64,
    /// How long it idles at a time, on average, ns; of meaning only for power-aware scheduling.
    pub avg_idle_ns: u64,
}

impl CpuView {
    /// A low guess, for a CPU from which tasks would go; `index` is 0 for the load of now.
    pub fn source_load(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.weight,
            Some(index) => self.load.cpu_load[index].min(self.weight),
        }
    }

    /// A high guess, for a CPU to which they would go.
    pub fn target_load(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.weight,
            Some(index) => self.load.cpu_load[index].max(self.weight),
        }
    }

    /// `cpu_avg_load_per_task()`.
    pub fn load_per_task(&self) -> u64 {
        self.weight.checked_div(u64::from(self.nr_running)).unwrap_or(0)
    }
}

/// `power_of()`: of a whole CPU 1024, of a thread its part of a core's.
pub fn power_of(domains: &Domains, cpu: CpuId) -> u64 {
    let lowest = domains.stack(cpu).first();
    let group = lowest.and_then(|&lowest| domains.ring(lowest).next());
    group.map_or(LOAD_SCALE, |group| group.capacity)
}

/// What a domain's balancing looks at (`busy_idx`, `idle_idx`, `newidle_idx`).
pub(crate) fn load_indices(name: &str) -> LoadIndices {
    match name {
        "SIBLING" => LoadIndices { busy: 0, idle: 0, newidle: 0 },
        "MC" => LoadIndices { busy: 2, idle: 0, newidle: 0 },
        "NODE" | "NUMA" => LoadIndices { busy: 3, idle: 2, newidle: 0 },
        _ => LoadIndices { busy: 2, idle: 1, newidle: 0 },
    }
}

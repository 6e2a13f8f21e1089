//! Load balancing: from which group and which run queue to pull, and how much
//! (`sched_balance_find_src_group()`, `sched_balance_find_src_rq()`; up to 6.9
//! `find_busiest_group()`, `find_busiest_queue()`).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117. Without an energy model the machine always counts
//! as over-utilised.

mod imbalance;
mod quiet;
mod source;
mod stats;

pub use quiet::Quiet;

use super::census::Census;
use super::group::GroupStats;
use super::sums::Sums;
use super::topology::{Domain, DomainFlags, Domains, Group};
use super::view::CpuState;
use schedlab_machine::{CpuId, CpuSet};
use serde::Deserialize;

/// What of load balancing differs between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalanceRules {
    /// What balancing may do.
    #[serde(default)]
    pub mode: BalanceMode,
    /// Which imbalance between nodes may stay.
    pub numa_imbalance: NumaImbalance,
    /// Cores with several busy threads are a kind of group of their own, and groups are compared
    /// by tasks per core (v6.6, fee1759e4f04, 7ff1693236f5 and their neighbours).
    pub smt_groups: bool,
    /// The busiest CPU by utilisation is judged by waiting tasks, too (v6.5, 7d0583cf9ec7).
    pub boosted_util: bool,
    /// How large a task may be to be moved.
    pub detach: DetachLimit,
    /// A CPU that never idles for long does not balance before it idles (until v5.16,
    /// c5b0a7eefc70).
    pub newidle_needs_idle_time: bool,
    /// A CPU that is about to idle balances with the probability that it paid before (v6.19,
    /// 33cf66d88306, and long-term releases).
    pub newidle_random: bool,
}

impl BalanceRules {
    /// 6.12.117.
    pub const V6_12: BalanceRules = BalanceRules {
        mode: BalanceMode::Full,
        numa_imbalance: NumaImbalance::ImbNumaNr,
        smt_groups: true,
        boosted_util: true,
        detach: DetachLimit::Shift,
        newidle_needs_idle_time: false,
        newidle_random: true,
    };
}

/// What balancing may do. No kernel has such a switch: it serves to study placement alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceMode {
    /// Move no task. Averages of idle CPUs still age as balancing ages them, since placement
    /// reads them.
    None,
    /// All that the kernel does.
    #[default]
    Full,
}

/// Which imbalance between nodes may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaImbalance {
    /// Up to v5.10 (fb86f5b21192): that of a node with two tasks, which may talk to each other.
    SourcePair,
    /// From v5.18 on: as in placement.
    ImbNumaNr,
}

/// How large a task may be to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DetachLimit {
    /// Up to v5.9: twice the imbalance in load, the imbalance in utilisation, and without limit
    /// in load after some failures.
    Half,
    /// From v5.10 on (5a7f55590467): the imbalance, doubled with every failure.
    Shift,
}

/// Why a CPU balances (`enum cpu_idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuIdle {
    /// It has work.
    Busy,
    /// It idles.
    Idle,
    /// It is about to idle.
    NewlyIdle,
}

impl CpuIdle {
    /// The CPU has nothing to do.
    #[inline]
    pub fn is_idle(self) -> bool {
        self != CpuIdle::Busy
    }
}

/// In what the imbalance is measured (`enum migration_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migration {
    /// Load.
    #[default]
    Load,
    /// Utilisation.
    Util,
    /// Number of tasks.
    Task,
    /// One task that does not fit its CPU.
    Misfit,
}

/// Which run queues to pull from, by the placement of NUMA balancing (`enum fbq_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Those with tasks that NUMA balancing does not place.
    Regular,
    /// Those with tasks on a node that is not theirs, too.
    Remote,
    /// Any.
    All,
}

/// One attempt to balance: a CPU, one of its domains, and the CPUs that take part
/// (`struct lb_env`).
#[derive(Clone, Copy, Debug)]
pub struct Balance<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuState],
    /// Which of them idle, and which have tasks.
    pub census: &'a Census,
    /// The CPU that would pull.
    pub dst_cpu: CpuId,
    /// Which of its domains, 0 being the lowest.
    pub level: usize,
    /// Whether it idles.
    pub idle: CpuIdle,
    /// CPUs of the domain to look at.
    pub candidates: &'a CpuSet,
    /// The release's rules.
    pub rules: BalanceRules,
    /// What groups consist of and the sums of their parts, if someone keeps them.
    pub sums: Option<&'a Sums>,
    /// Placement weighs energy, so that over-utilised CPUs are looked for.
    pub energy_aware: bool,
}

/// A group with its sums.
pub(super) type Weighed<'a> = (&'a Group, GroupStats);

/// The domain's sums (`struct sd_lb_stats`).
#[derive(Clone, Copy, Debug)]
pub struct DomainStats<'a> {
    /// The busiest group other than the own, if one has tasks to pull.
    pub busiest: Option<(&'a Group, GroupStats)>,
    /// The group of the CPU that would pull.
    pub local: Option<(&'a Group, GroupStats)>,
    /// Load of all groups.
    pub total_load: u64,
    /// Capacity of all groups.
    pub total_capacity: u64,
    /// Average load, once it is needed.
    pub avg_load: u64,
    /// The busiest group's tasks should rather run in sibling groups.
    pub prefer_sibling: bool,
    /// Some CPU has more than one task, or one that does not fit.
    pub overloaded: bool,
    /// Some CPU uses more than four fifths of its capacity; looked for if energy counts.
    pub overutilized: bool,
    /// Placement by energy put the tasks where they are: only those that do not fit are moved.
    pub left_to_energy: bool,
    /// CPUs at which a wake-up may look from now on, if the cache's hint is due
    /// (`nr_idle_scan`).
    pub nr_idle_scan: Option<u32>,
    /// Which run queues to pull from.
    pub source_kind: SourceKind,
}

/// What should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// How much, in what `migration` says.
    pub amount: i64,
    /// In what it is measured.
    pub migration: Migration,
}

impl<'a> Balance<'a> {
    /// The domain.
    pub fn domain(&self) -> &'a Domain {
        self.domains.get(self.domains.stack(self.dst_cpu)[self.level])
    }

    fn state(&self, cpu: CpuId) -> &'a CpuState {
        &self.cpus[cpu.index()]
    }

    fn asymmetric(&self) -> bool {
        self.domain().flags.has(DomainFlags::ASYM_CPUCAPACITY)
    }

    fn prefers(&self, a: CpuId, b: CpuId) -> bool {
        self.state(a).asym_priority > self.state(b).asym_priority
    }
}

/// `is_core_idle()`: every other thread of the core idles.
pub(crate) fn is_core_idle(domains: &Domains, cpus: &[CpuState], cpu: CpuId) -> bool {
    domains.threads(cpu).iter().all(|&thread| thread == cpu || cpus[thread.index()].is_idle())
}

/// Priorities matter between threads of a core, and between cores only if this one idles
/// (`sched_use_asym_prio()`).
pub(crate) fn follows_priority(
    domains: &Domains,
    cpus: &[CpuState],
    domain: &Domain,
    cpu: CpuId,
) -> bool {
    domain.flags.has(DomainFlags::ASYM_PACKING)
        && (!domains.smt_active()
            || domain.flags.has(DomainFlags::SHARE_CPUCAPACITY)
            || is_core_idle(domains, cpus, cpu))
}

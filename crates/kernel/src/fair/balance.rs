//! Load balancing: from which group and which run queue to pull, and how much
//! (`sched_balance_find_src_group()`, `sched_balance_find_src_rq()`; up to 6.9
//! `find_busiest_group()`, `find_busiest_queue()`).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117, without an energy model, so that the root
//! domain always counts as over-utilised.

use super::capacity::{capacity_greater, is_reduced};
use super::group::{GroupStats, GroupType};
use super::imbalance::{calculate_imbalance, sibling_imbalance};
use super::sums::{Parts, Sums};
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
    /// What groups consist of and the sums of their caches, if someone keeps them.
    pub sums: Option<&'a Sums>,
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

    /// The sums of all groups, and the busiest of them (`update_sd_lb_stats()`).
    pub fn domain_stats(&self) -> DomainStats<'a> {
        let domain = self.domain();
        let membership = self.domains.stack(self.dst_cpu)[self.level];
        let dst_core_idle =
            !self.domains.smt_active() || is_core_idle(self.domains, self.cpus, self.dst_cpu);
        let mut stats = DomainStats {
            busiest: None,
            local: None,
            total_load: 0,
            total_capacity: 0,
            avg_load: 0,
            prefer_sibling: false,
            overloaded: false,
            nr_idle_scan: None,
            source_kind: SourceKind::All,
        };
        let mut sum_util = 0_u64;
        let everyone = self.sums.is_some() && *self.candidates == domain.span;
        let first = membership.first_group as usize;
        for (place, group) in self.domains.ring(membership).enumerate() {
            let local = group.span.contains(self.dst_cpu);
            let parts = self.sums.filter(|_| everyone).map(|sums| {
                let index = first + place;
                let count = domain.groups.len();
                sums.parts(membership.domain, if index < count { index } else { index - count })
            });
            let own = self.group_stats(domain, group, parts, local, &mut stats.overloaded);
            if local {
                stats.local = Some((group, own));
            } else if self.is_busier(&stats, group, &own, dst_core_idle) {
                stats.busiest = Some((group, own));
            }
            stats.total_load += own.load;
            stats.total_capacity += own.capacity;
            sum_util += own.util;
        }
        if let Some((group, own)) = &stats.busiest {
            if self.rules.smt_groups {
                stats.prefer_sibling = group.flags.has(DomainFlags::PREFER_SIBLING);
            }
            if domain.flags.has(DomainFlags::NUMA) {
                stats.source_kind = kind_of_group(own);
            }
        }
        if !self.rules.smt_groups {
            let below = self.level.checked_sub(1);
            let child = below.map(|below| self.domains.stack(self.dst_cpu)[below]);
            stats.prefer_sibling = child.is_some_and(|child| {
                self.domains.get(child).flags.has(DomainFlags::PREFER_SIBLING)
            });
        }
        stats.nr_idle_scan = self.nr_idle_scan(domain, sum_util);
        stats
    }

    /// `update_sg_lb_stats()`.
    fn group_stats(
        &self,
        domain: &Domain,
        group: &Group,
        parts: Option<&Parts>,
        local: bool,
        overloaded: &mut bool,
    ) -> GroupStats {
        let mut stats =
            GroupStats { capacity: group.capacity, weight: group.weight, ..GroupStats::EMPTY };
        let asymmetric = domain.flags.has(DomainFlags::ASYM_CPUCAPACITY);
        let mut add = |cpu: CpuId| {
            let state = self.state(cpu);
            stats.load += state.load;
            stats.util += state.cfs_util();
            stats.runnable += state.runnable;
            stats.sum_h_nr_running += state.h_nr_queued;
            stats.sum_nr_running += state.nr_running;
            *overloaded |= state.nr_running > 1;
            stats.nr_numa_running += state.nr_numa_running;
            stats.nr_preferred_running += state.nr_preferred_running;
            if state.is_idle() {
                stats.idle_cpus += 1;
                return;
            }
            if local {
                return;
            }
            if asymmetric {
                if stats.misfit_task_load < state.misfit_task_load {
                    stats.misfit_task_load = state.misfit_task_load;
                    *overloaded = true;
                }
            } else if self.idle.is_idle()
                && state.h_nr_queued == 1
                && is_reduced(state, domain.imbalance_pct)
            {
                stats.misfit_task_load = stats.misfit_task_load.max(state.load);
            }
        };
        match (parts, self.sums) {
            (Some(Parts::Caches(caches)), Some(sums)) => {
                for &cache in caches {
                    let cache = sums.cache(cache);
                    stats.load += cache.load;
                    stats.util += cache.util;
                    stats.runnable += cache.runnable;
                    stats.sum_h_nr_running += cache.h_nr_queued;
                    stats.sum_nr_running += cache.nr_running;
                    stats.idle_cpus += cache.idle_cpus;
                    *overloaded |= cache.overloaded_cpus > 0;
                }
            }
            (Some(Parts::Cpus(cpus)), _) => cpus.iter().for_each(|&cpu| add(cpu)),
            _ => (group.span & *self.candidates).iter().for_each(add),
        }
        if !local && self.idle.is_idle() {
            stats.asym_packing =
                stats.sum_h_nr_running != 0 && self.packs_from(domain, group, &stats);
            let threads = group.flags.has(DomainFlags::SHARE_CPUCAPACITY);
            stats.smt_balance = self.rules.smt_groups && threads && stats.sum_h_nr_running > 1;
        }
        stats.classify(domain.imbalance_pct, group.imbalance);
        if stats.group_type == GroupType::Overloaded {
            stats.avg_load = stats.load * 1024 / stats.capacity.max(1);
        }
        stats
    }

    /// The pulling CPU is preferred to the group's (`sched_group_asym()`). Priorities mean nothing
    /// on a core with more than one busy thread.
    fn packs_from(&self, domain: &Domain, group: &Group, stats: &GroupStats) -> bool {
        if group.flags.has(DomainFlags::SHARE_CPUCAPACITY) && stats.weight - stats.idle_cpus != 1 {
            return false;
        }
        follows_priority(self.domains, self.cpus, domain, self.dst_cpu)
            && self.prefers(self.dst_cpu, group.asym_prefer_cpu)
    }

    fn prefers(&self, a: CpuId, b: CpuId) -> bool {
        self.state(a).asym_priority > self.state(b).asym_priority
    }

    /// True if `group` is busier than the busiest one so far (`update_sd_pick_busiest()`).
    fn is_busier(
        &self,
        so_far: &DomainStats<'_>,
        group: &Group,
        stats: &GroupStats,
        dst_core_idle: bool,
    ) -> bool {
        if stats.sum_h_nr_running == 0 {
            return false;
        }
        let dst_capacity = self.state(self.dst_cpu).capacity;
        let asymmetric = self.asymmetric();
        let local_type = so_far.local.map_or(GroupType::HasSpare, |(_, local)| local.group_type);
        // A task that does not fit is pulled only to where it would fit better.
        if asymmetric
            && stats.group_type == GroupType::MisfitTask
            && (!dst_core_idle
                || !capacity_greater(dst_capacity, group.max_capacity)
                || local_type != GroupType::HasSpare)
        {
            return false;
        }
        // Tasks that have a CPU each stay on the bigger ones.
        if asymmetric
            && stats.group_type <= GroupType::FullyBusy
            && capacity_greater(group.min_capacity, dst_capacity)
        {
            return false;
        }
        let (best_type, best_group, best) = match &so_far.busiest {
            None => (GroupType::HasSpare, None, &WORST),
            Some((best_group, best)) => (best.group_type, Some(*best_group), best),
        };
        if stats.group_type != best_type {
            return stats.group_type > best_type;
        }
        let fewer_idle = || {
            stats.idle_cpus < best.idle_cpus
                || (stats.idle_cpus == best.idle_cpus && stats.sum_nr_running > best.sum_nr_running)
        };
        let threads = |group: &Group| {
            self.rules.smt_groups && group.flags.has(DomainFlags::SHARE_CPUCAPACITY)
        };
        let fuller = || {
            // Threads of one core need help more than whole cores do.
            stats.avg_load > best.avg_load
                || (self.rules.smt_groups
                    && stats.avg_load == best.avg_load
                    && !best_group.is_some_and(threads))
        };
        match stats.group_type {
            GroupType::Overloaded => stats.avg_load > best.avg_load,
            GroupType::Imbalanced => false,
            GroupType::AsymPacking => best_group
                .is_some_and(|best| self.prefers(best.asym_prefer_cpu, group.asym_prefer_cpu)),
            GroupType::MisfitTask => stats.misfit_task_load > best.misfit_task_load,
            GroupType::SmtBalance if stats.idle_cpus != 0 || best.idle_cpus != 0 => fewer_idle(),
            GroupType::SmtBalance | GroupType::FullyBusy => fuller(),
            GroupType::HasSpare => match best_group {
                // A core with one task is not emptied while there are others to choose from.
                Some(best) if threads(best) != threads(group) => {
                    !(threads(group) && stats.sum_h_nr_running <= 1)
                }
                _ => fewer_idle(),
            },
        }
    }

    /// How many CPUs of the cache a wake-up may look at: all when it is idle, none from 85 % of
    /// its capacity on (`update_idle_cpu_scan()`).
    fn nr_idle_scan(&self, domain: &Domain, sum_util: u64) -> Option<u32> {
        let weight = u64::from(self.domains.llc_size(self.dst_cpu));
        if self.idle == CpuIdle::NewlyIdle || u64::from(domain.weight) != weight {
            return None;
        }
        self.domains.llc(self.dst_cpu)?;
        let mean = sum_util / weight;
        let pct = u64::from(domain.imbalance_pct);
        let used = (mean * mean * pct * pct / (10_000 * 1024)).min(1024);
        Some(((1024 - used) * weight / 1024) as u32)
    }

    /// What to move from the busiest group, or `None` if the domain is balanced well enough
    /// (`sched_balance_find_src_group()`). The migration type of a balance that comes to nothing is
    /// in the error.
    pub fn imbalance(&self, stats: &mut DomainStats<'a>) -> Result<Imbalance, Migration> {
        let (Some((_, busiest)), Some((_, local))) = (stats.busiest, stats.local) else {
            return Err(Migration::default());
        };
        let forced = matches!(
            busiest.group_type,
            GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced
        );
        if !forced && self.is_balanced(stats, &busiest, &local) {
            return Err(Migration::default());
        }
        let found = calculate_imbalance(self.idle, self.domain(), self.rules, stats);
        if found.amount != 0 { Ok(found) } else { Err(found.migration) }
    }

    fn is_balanced(
        &self,
        stats: &mut DomainStats<'a>,
        busiest: &GroupStats,
        local: &GroupStats,
    ) -> bool {
        if local.group_type > busiest.group_type {
            return true;
        }
        if local.group_type == GroupType::Overloaded {
            if local.avg_load >= busiest.avg_load {
                return true;
            }
            stats.avg_load = stats.total_load * 1024 / stats.total_capacity.max(1);
            let pct = u64::from(self.domain().imbalance_pct);
            if local.avg_load >= stats.avg_load || 100 * busiest.avg_load <= pct * local.avg_load {
                return true;
            }
        }
        if stats.prefer_sibling
            && local.group_type == GroupType::HasSpare
            && sibling_imbalance(self.idle, self.rules, stats) > 1
        {
            return false;
        }
        if busiest.group_type == GroupType::Overloaded {
            return false;
        }
        // A busy CPU leaves it to an idle one.
        if !self.idle.is_idle() {
            return true;
        }
        let threads = |weighed: Option<Weighed<'_>>| {
            weighed.is_some_and(|(group, _)| group.flags.has(DomainFlags::SHARE_CPUCAPACITY))
        };
        if busiest.group_type == GroupType::SmtBalance
            && threads(stats.local) != threads(stats.busiest)
        {
            return false;
        }
        // One idle CPU more or less would only move the imbalance elsewhere.
        (busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1))
            || busiest.sum_h_nr_running == 1
    }

    /// The run queue of `group` to pull from (`sched_balance_find_src_rq()`).
    pub fn source(
        &self,
        group: &Group,
        found: Imbalance,
        source_kind: SourceKind,
    ) -> Option<CpuId> {
        let domain = self.domain();
        let dst_capacity = self.state(self.dst_cpu).capacity;
        let mut busiest = None;
        let (mut most, mut most_capacity) = (0_u64, 1_u64);
        let asymmetric = self.asymmetric();
        for cpu in (group.span & *self.candidates).iter() {
            let state = self.state(cpu);
            let nr_running = state.h_nr_queued;
            if nr_running == 0 {
                continue;
            }
            if kind_of_queue(state) > source_kind {
                continue;
            }
            if asymmetric && !capacity_greater(dst_capacity, state.capacity) && nr_running == 1 {
                continue;
            }
            if nr_running == 1
                && follows_priority(self.domains, self.cpus, domain, cpu)
                && self.prefers(cpu, self.dst_cpu)
            {
                continue;
            }
            match found.migration {
                Migration::Load => {
                    let load = state.load;
                    if nr_running == 1
                        && load as i64 > found.amount
                        && !is_reduced(state, domain.imbalance_pct)
                    {
                        continue;
                    }
                    // load / capacity, without the division.
                    if load * most_capacity > most * state.capacity {
                        (most, most_capacity, busiest) = (load, state.capacity, Some(cpu));
                    }
                }
                Migration::Util => {
                    let util = if self.rules.boosted_util {
                        state.cfs_util_boost()
                    } else {
                        state.cfs_util()
                    };
                    if nr_running > 1 && most < util {
                        (most, busiest) = (util, Some(cpu));
                    }
                }
                Migration::Task => {
                    if most < u64::from(nr_running) {
                        (most, busiest) = (u64::from(nr_running), Some(cpu));
                    }
                }
                Migration::Misfit => {
                    if state.misfit_task_load > most {
                        (most, busiest) = (state.misfit_task_load, Some(cpu));
                    }
                }
            }
        }
        busiest
    }

    /// True if running tasks are to be moved to the preferred CPU (`asym_active_balance()`).
    pub fn packs_actively(&self, dst_cpu: CpuId, src_cpu: CpuId) -> bool {
        let domain = self.domain();
        let follows = |cpu| follows_priority(self.domains, self.cpus, domain, cpu);
        self.idle.is_idle()
            && follows(dst_cpu)
            && (self.prefers(dst_cpu, src_cpu) || !follows(src_cpu))
    }

    /// True if this CPU is the one of its group to balance: the first idle one, if possible on an
    /// idle core, else the group's first (`should_we_balance()`).
    pub fn should_balance(&self) -> bool {
        let dst = self.state(self.dst_cpu);
        if self.idle == CpuIdle::NewlyIdle {
            return dst.nr_running == 0 && !dst.ttwu_pending;
        }
        let domain = self.domain();
        let membership = self.domains.stack(self.dst_cpu)[self.level];
        let Some(group) = self.domains.ring(membership).next() else { return false };
        // Threads of cores that are not idle are left out once one of them was looked at.
        let mut left_out = CpuSet::EMPTY;
        let mut idle_thread = None;
        let mut next = group.balance_mask.first();
        while let Some(at) = next {
            next = group.balance_mask.next(CpuId(at.0 + 1));
            if left_out.contains(at) {
                continue;
            }
            if self.candidates.contains(at) && self.state(at).is_idle() {
                let core_matters =
                    self.rules.smt_groups && !domain.flags.has(DomainFlags::SHARE_CPUCAPACITY);
                if !core_matters || is_core_idle(self.domains, self.cpus, at) {
                    return at == self.dst_cpu;
                }
                idle_thread = idle_thread.or(Some(at));
                for &thread in self.domains.threads(at) {
                    left_out.insert(thread);
                }
            }
        }
        idle_thread.or(group.balance_mask.first()) == Some(self.dst_cpu)
    }
}

/// What a group competes with while there is no busiest one.
const WORST: GroupStats = GroupStats { idle_cpus: u32::MAX, ..GroupStats::EMPTY };

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

/// `fbq_classify_group()`.
fn kind_of_group(stats: &GroupStats) -> SourceKind {
    if stats.sum_h_nr_running > stats.nr_numa_running {
        SourceKind::Regular
    } else if stats.sum_h_nr_running > stats.nr_preferred_running {
        SourceKind::Remote
    } else {
        SourceKind::All
    }
}

/// `fbq_classify_rq()`.
fn kind_of_queue(state: &CpuState) -> SourceKind {
    if state.nr_running > state.nr_numa_running {
        SourceKind::Regular
    } else if state.nr_running > state.nr_preferred_running {
        SourceKind::Remote
    } else {
        SourceKind::All
    }
}

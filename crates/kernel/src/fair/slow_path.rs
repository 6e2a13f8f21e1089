//! Fork and exec placement: the walk from the widest domain down, each time to the idlest group
//! and its idlest CPU (`sched_balance_find_dst_cpu()`, before 6.10 `find_idlest_cpu()`).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12 and 6.1, whose slow paths decide alike; the rules
//! before v5.9 and v5.11 are from commits 3edecfef0288 and 7d2b5dd0bcc4, which replaced them.

use super::group::{GroupStats, GroupType};
use super::sums::{Parts, Sums};
use super::topology::{Domain, DomainFlags, Domains, Group, Membership};
use super::view::{CpuState, Fit, TaskView};
use schedlab_machine::CpuId;
use serde::Deserialize;

/// Which of two groups with spare capacity is idler when both have equally many idle CPUs
/// (`update_pick_idlest()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdlestTie {
    /// Up to v5.8: the one that comes first in the ring.
    First,
    /// From v5.9 on (3edecfef0288): the one with less utilisation.
    GroupUtil,
}

/// When a task stays on its node although another node has more idle CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaAllowance {
    /// Up to v5.10: as long as the local node has an idle CPU.
    LocalIdle,
    /// From v6.0 on: while the node runs at most `imb_numa_nr` tasks and the difference is small.
    ImbNumaNr,
}

/// The variants of the slow path that a kernel release has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowPathRules {
    /// The tie-break.
    pub idlest_tie: IdlestTie,
    /// The NUMA rule.
    pub numa_allowance: NumaAllowance,
}

impl SlowPathRules {
    /// 6.12.
    pub const V6_12: SlowPathRules = SlowPathRules {
        idlest_tie: IdlestTie::GroupUtil,
        numa_allowance: NumaAllowance::ImbNumaNr,
    };
}

/// A NUMA imbalance of at most this many idle CPUs may stay (`NUMA_IMBALANCE_MIN`).
const NUMA_IMBALANCE_MIN: i64 = 2;

/// Sets the type, and the average load where placement compares it.
fn judge(stats: &mut GroupStats, domain: &Domain, group: &Group) {
    stats.classify(domain.imbalance_pct, group.imbalance);
    if matches!(stats.group_type, GroupType::FullyBusy | GroupType::Overloaded) {
        stats.avg_load = stats.load * 1024 / stats.capacity.max(1);
    }
}

/// `adjust_numa_imbalance()`.
pub fn adjust_numa_imbalance(imbalance: i64, destination_running: u32, imb_numa_nr: u32) -> i64 {
    if destination_running > imb_numa_nr || imbalance > NUMA_IMBALANCE_MIN { imbalance } else { 0 }
}

/// One group that was weighed, for decision logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// First CPU of the group.
    pub first_cpu: CpuId,
    /// It holds the CPU from which the walk looks.
    pub local: bool,
    /// It was weighed by its load alone, as by kernels before v5.5.
    pub by_load: bool,
    /// Its sums.
    pub stats: GroupStats,
}

/// What decided between the local group and the idlest of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRule {
    /// There is no other group that the task may use.
    NoOther,
    /// The task may not use the local group.
    LocalForbidden,
    /// The groups are of different types.
    Type,
    /// The average load, beyond what may stay.
    Load,
    /// The capacity of the biggest CPU.
    Capacity,
    /// The node that NUMA balancing prefers for the task.
    PreferredNode,
    /// The imbalance that may stay on a node.
    NumaAllowance,
    /// The number of idle CPUs.
    IdleCpus,
    /// Groups of this type are left alone.
    Stays,
    /// Tasks are packed: the group that has room, but least of it.
    LeastRoom,
}

/// What decided between the CPUs of the chosen group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuRule {
    /// It has but one CPU.
    Only,
    /// It runs nothing but `SCHED_IDLE` tasks.
    IdlePolicy,
    /// The smallest exit latency of all idle ones.
    ExitLatency,
    /// Equal latencies: it became idle last.
    LatestIdle,
    /// None is idle: the least load.
    Load,
    /// The task is small, and this one has room for it.
    SmallTask,
}

/// One choice between groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupChoice {
    /// How many domains of `from` lie below.
    pub level: u32,
    /// The CPU from which the walk looks.
    pub from: CpuId,
    /// First CPU of the chosen group; `None`: stay in the local one.
    pub chosen: Option<CpuId>,
    /// What decided whether to leave the local group.
    pub rule: GroupRule,
    /// What decided between the others, if the idlest of them had equals in idle CPUs.
    pub tie: Option<IdlestTie>,
    /// The CPU of the chosen group, and what decided for it.
    pub picked: Option<(CpuId, CpuRule)>,
    /// The groups in the order in which they were weighed.
    pub candidates: Vec<Candidate>,
}

/// The slow path over a machine's state.
#[derive(Clone, Copy, Debug)]
pub struct SlowPath<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuState],
    /// What groups consist of and the sums of their parts, if someone keeps them.
    pub sums: Option<&'a Sums>,
    /// The release's rules.
    pub rules: SlowPathRules,
}

impl SlowPath<'_> {
    /// A CPU for a task that forks or calls exec on `this_cpu` (`select_task_rq_fair()` with
    /// `WF_FORK` or `WF_EXEC`, whose bits are those of the domain flags): its previous one if no
    /// domain balances at that occasion.
    pub fn select(
        &self,
        task: &TaskView<'_>,
        this_cpu: CpuId,
        flag: DomainFlags,
        log: Option<&mut Vec<GroupChoice>>,
    ) -> CpuId {
        let stack = self.domains.stack(this_cpu).iter();
        let top = stack.take_while(|&&m| self.domains.get(m).flags.has(flag)).last();
        top.map_or(task.cpu, |&top| self.find_cpu(top, task, this_cpu, flag, log))
    }

    /// Walks from `top` of `cpu`'s domains, the highest with `flag`, to a CPU for `task`. Every
    /// choice between groups goes to `log`, if one is kept.
    pub fn find_cpu(
        &self,
        top: Membership,
        task: &TaskView<'_>,
        cpu: CpuId,
        flag: DomainFlags,
        mut log: Option<&mut Vec<GroupChoice>>,
    ) -> CpuId {
        if !self.domains.get(top).span.intersects(task.allowed) {
            return task.cpu;
        }
        let mut cpu = cpu;
        let mut level = self.level_of(cpu, top);
        while let Some(at) = level {
            let membership = self.domains.stack(cpu)[at];
            let domain = self.domains.get(membership);
            let below = at.checked_sub(1);
            if !domain.flags.has(flag) {
                level = below;
                continue;
            }
            let group = self.find_group(at, membership, task, cpu, log.as_deref_mut());
            let picked = group.map(|group| self.find_cpu_in(group, task, cpu));
            if let Some(choice) = log.as_deref_mut().and_then(|log| log.last_mut()) {
                choice.picked = picked;
            }
            match picked.map(|(next, _)| next) {
                Some(next) if next != cpu => {
                    cpu = next;
                    level = self.highest_below(cpu, domain.weight, flag);
                }
                _ => level = below,
            }
        }
        cpu
    }

    fn level_of(&self, cpu: CpuId, membership: Membership) -> Option<usize> {
        self.domains.stack(cpu).iter().position(|&m| m == membership)
    }

    /// The highest domain of `cpu` with `flag` that is narrower than `weight` CPUs.
    fn highest_below(&self, cpu: CpuId, weight: u32, flag: DomainFlags) -> Option<usize> {
        let narrower = self.domains.stack(cpu).iter().map(|&m| self.domains.get(m));
        narrower
            .take_while(|domain| domain.weight < weight)
            .enumerate()
            .filter(|(_, domain)| domain.flags.has(flag))
            .last()
            .map(|(at, _)| at)
    }

    /// The group to send `task` to, or `None` if the local one is good enough
    /// (`sched_balance_find_dst_group()`).
    fn find_group(
        &self,
        level: usize,
        membership: Membership,
        task: &TaskView<'_>,
        this_cpu: CpuId,
        log: Option<&mut Vec<GroupChoice>>,
    ) -> Option<&Group> {
        let domain = self.domains.get(membership);
        let mut candidates = log.is_some().then(Vec::new);
        let mut local: Option<(&Group, GroupStats)> = None;
        let mut idlest: Option<(&Group, GroupStats)> = None;
        let plain = self.sums.filter(|sums| sums.plain());
        let mut known = plain.map(|sums| (sums, sums.ring(membership)));
        for group in self.domains.ring(membership) {
            let parts = known.as_mut().and_then(|(sums, ring)| Some((*sums, ring.next()?)));
            if !group.span.intersects(task.allowed) {
                continue;
            }
            let stats = match parts {
                Some((sums, parts)) if task.leaves_alone(&group.span) => {
                    self.known_stats(domain, group, sums, parts)
                }
                _ => self.wakeup_stats(domain, group, task),
            };
            let is_local = group.span.contains(this_cpu);
            if let Some(candidates) = &mut candidates {
                let first_cpu = group.span.first().unwrap_or_default();
                let by_load = false;
                candidates.push(Candidate { first_cpu, local: is_local, by_load, stats });
            }
            if is_local {
                local = Some((group, stats));
            } else if self.is_idler(idlest.as_ref(), group, &stats) {
                idlest = Some((group, stats));
            }
        }
        let (chosen, rule) = match (local, idlest) {
            (_, None) => (None, GroupRule::NoOther),
            (None, Some((group, _))) => (Some(group), GroupRule::LocalForbidden),
            (Some(local), Some(idlest)) => {
                let (leave, rule) = self.should_leave(domain, task, this_cpu, local, idlest);
                (leave.then_some(idlest.0), rule)
            }
        };
        if let (Some(log), Some(candidates)) = (log, candidates) {
            log.push(GroupChoice {
                level: level as u32,
                from: this_cpu,
                chosen: chosen.and_then(|group| group.span.first()),
                rule,
                tie: idlest.and_then(|(_, idlest)| self.tie_among(&candidates, &idlest)),
                picked: None,
                candidates,
            });
        }
        chosen
    }

    /// The rule that decided between groups with equally many idle CPUs, if there were any.
    fn tie_among(&self, candidates: &[Candidate], idlest: &GroupStats) -> Option<IdlestTie> {
        let equals = candidates.iter().filter(|other| {
            !other.local
                && other.stats.group_type == GroupType::HasSpare
                && idlest.group_type == GroupType::HasSpare
                && other.stats.idle_cpus == idlest.idle_cpus
        });
        (equals.count() > 1).then_some(self.rules.idlest_tie)
    }

    /// `update_sg_wakeup_stats()`: the group as it would be without the task.
    fn wakeup_stats(&self, domain: &Domain, group: &Group, task: &TaskView<'_>) -> GroupStats {
        let asym = domain.flags.has(DomainFlags::ASYM_CPUCAPACITY);
        let mut stats = GroupStats {
            capacity: group.capacity,
            weight: group.weight,
            misfit_task_load: u64::from(asym),
            ..GroupStats::EMPTY
        };
        for cpu in (group.span & *task.allowed).iter() {
            let state = &self.cpus[cpu.index()];
            let own = task.runs_on(cpu);
            stats.load += task.load_without(cpu, state);
            stats.util += task.util_without(cpu, state);
            stats.runnable += task.runnable_without(cpu, state);
            stats.sum_h_nr_running += state.h_nr_queued.wrapping_sub(own);
            let nr_running = state.nr_running.wrapping_sub(own);
            stats.sum_nr_running = stats.sum_nr_running.wrapping_add(nr_running);
            if nr_running == 0 && task.leaves_idle(cpu, state) {
                stats.idle_cpus += 1;
            }
            if stats.misfit_task_load != 0 && task.fit(state) == Fit::Full {
                stats.misfit_task_load = 0;
            }
        }
        judge(&mut stats, domain, group);
        stats
    }

    /// The same of a group that the task may use all of and is no part of, of CPUs that do not
    /// differ.
    fn known_stats(
        &self,
        domain: &Domain,
        group: &Group,
        sums: &Sums,
        parts: &Parts,
    ) -> GroupStats {
        let mut stats = GroupStats::of(group, &sums.of(parts, self.cpus));
        judge(&mut stats, domain, group);
        stats
    }

    /// True if `group` is idler than the best so far (`update_pick_idlest()`).
    fn is_idler(
        &self,
        best: Option<&(&Group, GroupStats)>,
        group: &Group,
        stats: &GroupStats,
    ) -> bool {
        // Without a best one, the group competes with an overloaded one of the largest 32-bit load.
        let (best_type, best_avg_load) = best
            .map_or((GroupType::Overloaded, u64::from(u32::MAX)), |(_, best)| {
                (best.group_type, best.avg_load)
            });
        if stats.group_type != best_type {
            return stats.group_type < best_type;
        }
        match (stats.group_type, best) {
            (GroupType::Overloaded | GroupType::FullyBusy, _) => stats.avg_load < best_avg_load,
            (GroupType::MisfitTask, Some((best_group, _))) => {
                group.max_capacity > best_group.max_capacity
            }
            (GroupType::HasSpare, Some((_, best))) => {
                if stats.idle_cpus != best.idle_cpus {
                    stats.idle_cpus > best.idle_cpus
                } else {
                    self.rules.idlest_tie == IdlestTie::GroupUtil && stats.util < best.util
                }
            }
            _ => false,
        }
    }

    /// Whether the idlest group is enough idler than the local one, and what decided that.
    fn should_leave(
        &self,
        domain: &Domain,
        task: &TaskView<'_>,
        this_cpu: CpuId,
        (local_group, local): (&Group, GroupStats),
        (idlest_group, idlest): (&Group, GroupStats),
    ) -> (bool, GroupRule) {
        if local.group_type != idlest.group_type {
            return (local.group_type > idlest.group_type, GroupRule::Type);
        }
        let numa = domain.flags.has(DomainFlags::NUMA);
        match local.group_type {
            GroupType::Overloaded | GroupType::FullyBusy => {
                let pct = u64::from(domain.imbalance_pct);
                let allowed = 1024 * (pct - 100) / 100;
                // Remote memory makes an idle remote CPU look better than it is.
                let far = numa && idlest.avg_load + allowed >= local.avg_load;
                let leaves = !far
                    && idlest.avg_load < local.avg_load + allowed
                    && 100 * local.avg_load > pct * idlest.avg_load;
                (leaves, GroupRule::Load)
            }
            GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => {
                (false, GroupRule::Stays)
            }
            GroupType::MisfitTask => {
                (local_group.max_capacity < idlest_group.max_capacity, GroupRule::Capacity)
            }
            GroupType::HasSpare => {
                if numa {
                    if task.numa_preferred_node == Some(self.domains.node(this_cpu)) {
                        return (false, GroupRule::PreferredNode);
                    }
                    let idlest_node = idlest_group.span.first().map(|cpu| self.domains.node(cpu));
                    if task.numa_preferred_node.is_some() && idlest_node == task.numa_preferred_node
                    {
                        return (true, GroupRule::PreferredNode);
                    }
                    if self.stays_on_node(domain, task, local_group, &local, &idlest) {
                        return (false, GroupRule::NumaAllowance);
                    }
                }
                (local.idle_cpus < idlest.idle_cpus, GroupRule::IdleCpus)
            }
        }
    }

    fn stays_on_node(
        &self,
        domain: &Domain,
        task: &TaskView<'_>,
        local_group: &Group,
        local: &GroupStats,
        idlest: &GroupStats,
    ) -> bool {
        match self.rules.numa_allowance {
            NumaAllowance::LocalIdle => local.idle_cpus > 0,
            NumaAllowance::ImbNumaNr => {
                let usable = local_group.span.weight_and(task.allowed) as u32;
                let imb_numa_nr = domain.imb_numa_nr.min(usable);
                let imbalance =
                    i64::from(local.idle_cpus).abs_diff(i64::from(idlest.idle_cpus)) as i64;
                let running = local.sum_nr_running.wrapping_add(1);
                adjust_numa_imbalance(imbalance, running, imb_numa_nr) == 0
            }
        }
    }

    /// The idlest CPU of a group: the one that wakes fastest, then the one that went idle last,
    /// because its cache is warmest; without an idle one the least loaded
    /// (`sched_balance_find_dst_group_cpu()`).
    fn find_cpu_in(&self, group: &Group, task: &TaskView<'_>, this_cpu: CpuId) -> (CpuId, CpuRule) {
        if group.weight == 1 {
            return (group.span.first().unwrap_or(this_cpu), CpuRule::Only);
        }
        let mut shallowest: Option<(CpuId, CpuRule)> = None;
        let mut exit_latency_us = u32::MAX;
        let mut idle_stamp_ns = 0;
        let mut least_loaded = this_cpu;
        let mut least_load = u64::MAX;
        for cpu in (group.span & *task.allowed).iter() {
            let state = &self.cpus[cpu.index()];
            if state.runs_only_idle_policy() {
                return (cpu, CpuRule::IdlePolicy);
            }
            if state.is_idle() {
                let same_depth =
                    state.idle_exit_latency_us.is_none_or(|latency| latency == exit_latency_us);
                if let Some(latency) = state.idle_exit_latency_us
                    && latency < exit_latency_us
                {
                    exit_latency_us = latency;
                    idle_stamp_ns = state.idle_stamp_ns;
                    shallowest = Some((cpu, CpuRule::ExitLatency));
                } else if same_depth && state.idle_stamp_ns > idle_stamp_ns {
                    idle_stamp_ns = state.idle_stamp_ns;
                    shallowest = Some((cpu, CpuRule::LatestIdle));
                }
            } else if shallowest.is_none() && state.load < least_load {
                least_load = state.load;
                least_loaded = cpu;
            }
        }
        shallowest.unwrap_or((least_loaded, CpuRule::Load))
    }
}

//! The sums of a domain's groups, and which of them is the busiest (`update_sd_lb_stats()`,
//! `update_sg_lb_stats()`, `update_sd_pick_busiest()`).

use super::{Balance, CpuIdle, DomainStats, SourceKind, follows_priority, is_core_idle};
use crate::fair::capacity::{capacity_greater, is_reduced};
use crate::fair::group::{GroupStats, GroupType};
use crate::fair::sums::Parts;
use crate::fair::topology::{Domain, DomainFlags, Group};
use schedlab_machine::CpuId;

impl<'a> Balance<'a> {
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
            overutilized: false,
            left_to_energy: false,
            nr_idle_scan: None,
            source_kind: SourceKind::All,
        };
        let mut sum_util = 0_u64;
        let everyone =
            std::ptr::eq(self.candidates, &domain.span) || *self.candidates == domain.span;
        let first = membership.first_group as usize;
        for (place, group) in self.domains.ring(membership).enumerate() {
            let local = group.span.contains(self.dst_cpu);
            let parts = self.sums.filter(|_| everyone).map(|sums| {
                let index = first + place;
                let count = domain.groups.len();
                sums.parts(membership.domain, if index < count { index } else { index - count })
            });
            let own = self.group_stats(domain, group, parts, local, &mut stats.overloaded);
            if self.energy_aware && !stats.overutilized {
                let mut cpus = group.span.iter_and(self.candidates);
                stats.overutilized = cpus.any(|cpu| self.state(cpu).is_overutilized());
            }
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
        stats.nr_idle_scan = self.nr_idle_scan(domain, || sum_util);
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
            (Some(parts), Some(sums)) if sums.plain() => {
                let part = sums.of(parts, self.cpus);
                stats.load = part.load;
                stats.util = part.util;
                stats.runnable = part.runnable;
                stats.sum_h_nr_running = part.h_nr_queued;
                stats.sum_nr_running = part.nr_running;
                stats.idle_cpus = part.idle_cpus;
                *overloaded |= part.overloaded_cpus > 0;
                if !sums.suffice() && !local && self.idle.is_idle() && stats.sum_h_nr_running > 0 {
                    stats.misfit_task_load = self.squeezed_load(domain, group);
                }
            }
            (Some(Parts::Cpus(cpus)), _) => cpus.iter().for_each(|&cpu| add(cpu)),
            _ => (group.span & *self.candidates).iter().for_each(add),
        }
        if !local && stats.sum_h_nr_running == 0 {
            // Whatever its type, it has nothing to pull.
            return stats;
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

    /// The largest load of a CPU whose only fair task has too little left of it, where CPUs do not
    /// differ.
    fn squeezed_load(&self, domain: &Domain, group: &Group) -> u64 {
        let busy = group.span.iter_and(&self.census.queued).map(|cpu| self.state(cpu));
        let squeezed = busy.filter(|state| {
            !state.is_idle() && state.h_nr_queued == 1 && is_reduced(state, domain.imbalance_pct)
        });
        squeezed.map(|state| state.load).max().unwrap_or_default()
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
    pub(super) fn nr_idle_scan(
        &self,
        domain: &Domain,
        sum_util: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let weight = u64::from(self.domains.llc_size(self.dst_cpu));
        if self.idle == CpuIdle::NewlyIdle || u64::from(domain.weight) != weight {
            return None;
        }
        self.domains.llc(self.dst_cpu)?;
        let mean = sum_util() / weight;
        let pct = u64::from(domain.imbalance_pct);
        let used = (mean * mean * pct * pct / (10_000 * 1024)).min(1024);
        Some(((1024 - used) * weight / 1024) as u32)
    }
}

/// What a group competes with while there is no busiest one.
const WORST: GroupStats = GroupStats { idle_cpus: u32::MAX, ..GroupStats::EMPTY };

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

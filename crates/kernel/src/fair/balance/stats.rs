//! The sums of a domain's groups, and which of them is the busiest (`update_sd_lb_stats()`,
//! `update_sg_lb_stats()`, `update_sd_pick_busiest()`).

use super::{Balance, CpuIdle, DomainStats, SourceKind, follows_priority, is_core_idle};
use crate::fair::capacity::{capacity_greater, is_reduced};
use crate::fair::group::{GroupStats, GroupType};
use crate::fair::sums::{CpuSums, Parts, Sums};
use crate::fair::topology::{Domain, DomainFlags, Group};
use crate::fair::view::CpuState;
use schedlab_machine::CpuId;

/// A walk over the groups of a domain: what it looks at all the time, and what it found so far.
struct Search<'a, 'b> {
    balance: &'b Balance<'a>,
    domain: &'a Domain,
    /// CPUs differ.
    asymmetric: bool,
    /// Some CPUs are preferred.
    packs: bool,
    /// Groups share CPUs, so that several may hold the own one.
    overlaps: bool,
    stats: &'b mut DomainStats<'a>,
    sum_util: u64,
    /// The busiest group is such that none is busier unless it is overloaded, or kept from being
    /// balanced.
    crowded: bool,
}

/// What sums do not tell of a group.
#[derive(Clone, Copy, Default)]
struct Extra {
    misfit_task_load: u64,
    nr_numa_running: u32,
    nr_preferred_running: u32,
}

impl<'a> Balance<'a> {
    /// The sums of all groups, and the busiest of them (`update_sd_lb_stats()`).
    pub fn domain_stats(&self) -> DomainStats<'a> {
        let membership = self.domains.stack(self.dst_cpu)[self.level];
        let domain = self.domains.get(membership);
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
        let mut search = Search {
            balance: self,
            domain,
            asymmetric: domain.flags.has(DomainFlags::ASYM_CPUCAPACITY),
            packs: domain.flags.has(DomainFlags::ASYM_PACKING),
            overlaps: domain.flags.has(DomainFlags::OVERLAP),
            stats: &mut stats,
            sum_util: 0,
            crowded: false,
        };
        let first = membership.first_group as usize;
        let (before, from) = domain.groups.split_at(first);
        match self.sums.filter(|_| self.everyone(domain)) {
            Some(sums) => {
                let (parts_before, parts_from) = sums.parts(membership.domain).split_at(first);
                for (groups, parts) in [(from, parts_from), (before, parts_before)] {
                    for (group, parts) in groups.iter().zip(parts) {
                        search.add_parts(group, sums, parts);
                    }
                }
            }
            None => {
                for group in from.iter().chain(before) {
                    search.add_cpus(group, group.span.iter_and(self.candidates));
                }
            }
        }
        let sum_util = search.sum_util;
        if self.energy_aware {
            let mut cpus = domain.groups.iter().flat_map(|g| g.span.iter_and(self.candidates));
            stats.overutilized = cpus.any(|cpu| self.state(cpu).is_overutilized());
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
    #[cold]
    fn packs_from(&self, domain: &Domain, group: &Group, sums: &CpuSums) -> bool {
        if group.flags.has(DomainFlags::SHARE_CPUCAPACITY) && group.weight - sums.idle_cpus != 1 {
            return false;
        }
        follows_priority(self.domains, self.cpus, domain, self.dst_cpu)
            && self.prefers(self.dst_cpu, group.asym_prefer_cpu)
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

    /// All CPUs of the domain take part.
    #[inline]
    pub(super) fn everyone(&self, domain: &Domain) -> bool {
        std::ptr::eq(self.candidates, &domain.span) || *self.candidates == domain.span
    }
}

impl<'a> Search<'a, '_> {
    /// Weighs a group of which all CPUs take part.
    #[inline]
    fn add_parts(&mut self, group: &'a Group, sums: &Sums, parts: &Parts) {
        let balance = self.balance;
        let added;
        let part = match parts {
            Parts::Domain(domain) => sums.domain(*domain),
            Parts::Cpu(cpu) => {
                added = CpuSums::of(balance.state(*cpu));
                &added
            }
            Parts::Cpus(list) if !sums.plain() => {
                return self.add_cpus(group, list.iter().copied());
            }
            _ => {
                added = sums.of(parts, balance.cpus);
                &added
            }
        };
        self.add(group, part, sums);
    }

    /// Weighs a group whose sums are known, of CPUs that do not differ (`update_sg_lb_stats()`).
    #[inline]
    fn add(&mut self, group: &'a Group, part: &CpuSums, sums: &Sums) {
        let balance = self.balance;
        self.stats.overloaded |= part.overloaded_cpus > 0;
        self.count(group, part);
        let local = self.is_local(group);
        if local || self.may_win(group, part) {
            let mut extra = Extra::default();
            if !sums.suffice() && !local && balance.idle.is_idle() {
                extra.misfit_task_load = balance.squeezed_load(self.domain, group);
            }
            self.weigh(group, part, extra, local);
        }
    }

    /// Adds the CPUs of a group that take part, and weighs it (`update_sg_lb_stats()`).
    fn add_cpus(&mut self, group: &'a Group, cpus: impl Iterator<Item = CpuId>) {
        let balance = self.balance;
        let local = self.is_local(group);
        let (mut sums, mut extra) = (CpuSums::default(), Extra::default());
        for cpu in cpus {
            let state = balance.state(cpu);
            sums.add(&CpuSums::of(state));
            extra.nr_numa_running += state.nr_numa_running;
            extra.nr_preferred_running += state.nr_preferred_running;
            if !local && !state.is_idle() {
                self.note_misfit(&mut extra, state);
            }
        }
        self.stats.overloaded |= sums.overloaded_cpus > 0;
        self.count(group, &sums);
        if local || self.may_win(group, &sums) {
            self.weigh(group, &sums, extra, local);
        }
    }

    /// The group holds the CPU that would pull. The first one does, if any.
    #[inline]
    fn is_local(&self, group: &Group) -> bool {
        (self.stats.local.is_none() || self.overlaps) && group.span.contains(self.balance.dst_cpu)
    }

    /// A CPU of another group has a task that it is too small for.
    fn note_misfit(&mut self, extra: &mut Extra, state: &CpuState) {
        if self.asymmetric {
            if extra.misfit_task_load < state.misfit_task_load {
                extra.misfit_task_load = state.misfit_task_load;
                self.stats.overloaded = true;
            }
        } else if self.balance.idle.is_idle()
            && state.h_nr_queued == 1
            && is_reduced(state, self.domain.imbalance_pct)
        {
            extra.misfit_task_load = extra.misfit_task_load.max(state.load);
        }
    }

    /// Adds to the domain's sums.
    #[inline]
    fn count(&mut self, group: &Group, sums: &CpuSums) {
        self.stats.total_load += sums.load;
        self.stats.total_capacity += group.capacity;
        self.sum_util += sums.util;
    }

    /// A group other than the own one has tasks to pull, and may be busier than the busiest: only one
    /// with more tasks than CPUs can be overloaded.
    #[inline]
    fn may_win(&self, group: &Group, sums: &CpuSums) -> bool {
        sums.h_nr_queued != 0
            && (!self.crowded || sums.nr_running > group.weight || group.imbalance)
    }

    /// None is busier than `best` unless it is overloaded, or kept from being balanced.
    fn is_crowded(&self, best: &GroupStats) -> bool {
        match best.group_type {
            GroupType::Overloaded => true,
            GroupType::SmtBalance => best.idle_cpus == 0 && !self.packs,
            _ => false,
        }
    }

    /// Classifies a group, and keeps it if it is the own or the busiest one.
    #[inline]
    fn weigh(&mut self, group: &'a Group, sums: &CpuSums, extra: Extra, local: bool) {
        let balance = self.balance;
        let pulls = !local && balance.idle.is_idle();
        let threads = group.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        let mut stats = GroupStats {
            asym_packing: pulls && self.packs && balance.packs_from(self.domain, group, sums),
            smt_balance: pulls && balance.rules.smt_groups && threads && sums.h_nr_queued > 1,
            misfit_task_load: extra.misfit_task_load,
            nr_numa_running: extra.nr_numa_running,
            nr_preferred_running: extra.nr_preferred_running,
            ..GroupStats::of(group, sums)
        };
        stats.classify(self.domain.imbalance_pct, group.imbalance);
        if stats.group_type == GroupType::Overloaded {
            stats.avg_load = stats.load * 1024 / stats.capacity.max(1);
        }
        if local {
            self.stats.local = Some((group, stats));
        } else if self.is_busier(group, &stats) {
            self.crowded = self.is_crowded(&stats);
            self.stats.busiest = Some((group, stats));
        }
    }

    /// True if `group`, which has tasks, is busier than the busiest one so far
    /// (`update_sd_pick_busiest()`).
    #[inline]
    fn is_busier(&self, group: &Group, stats: &GroupStats) -> bool {
        if self.asymmetric && self.suits_its_cpus(group, stats) {
            return false;
        }
        let Some((best_group, best)) = &self.stats.busiest else { return true };
        if stats.group_type != best.group_type {
            return stats.group_type > best.group_type;
        }
        let smt_groups = self.balance.rules.smt_groups;
        let fewer_idle = || {
            stats.idle_cpus < best.idle_cpus
                || (stats.idle_cpus == best.idle_cpus && stats.sum_nr_running > best.sum_nr_running)
        };
        let threads = |group: &Group| smt_groups && group.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        match stats.group_type {
            GroupType::Overloaded => stats.avg_load > best.avg_load,
            GroupType::Imbalanced => false,
            GroupType::AsymPacking => {
                self.balance.prefers(best_group.asym_prefer_cpu, group.asym_prefer_cpu)
            }
            GroupType::MisfitTask => stats.misfit_task_load > best.misfit_task_load,
            GroupType::SmtBalance if stats.idle_cpus != 0 || best.idle_cpus != 0 => fewer_idle(),
            // Threads of one core need help more than whole cores do. Neither type has an average
            // load.
            GroupType::SmtBalance | GroupType::FullyBusy => smt_groups && !threads(best_group),
            GroupType::HasSpare => {
                // A core with one task is not emptied while there are others to choose from.
                if threads(best_group) != threads(group) {
                    !(threads(group) && stats.sum_h_nr_running <= 1)
                } else {
                    fewer_idle()
                }
            }
        }
    }

    /// Where CPUs differ, the group's tasks had better stay.
    #[cold]
    fn suits_its_cpus(&self, group: &Group, stats: &GroupStats) -> bool {
        let Balance { domains, cpus, dst_cpu, .. } = *self.balance;
        let dst_capacity = cpus[dst_cpu.index()].capacity;
        if stats.group_type == GroupType::MisfitTask {
            // A task that does not fit is pulled only to where it would fit better.
            let local = self.stats.local.map_or(GroupType::HasSpare, |(_, local)| local.group_type);
            return !capacity_greater(dst_capacity, group.max_capacity)
                || local != GroupType::HasSpare
                || (domains.smt_active() && !is_core_idle(domains, cpus, dst_cpu));
        }
        // Tasks that have a CPU each stay on the bigger ones.
        stats.group_type <= GroupType::FullyBusy
            && capacity_greater(group.min_capacity, dst_capacity)
    }
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

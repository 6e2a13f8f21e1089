//! Which run queue of the busiest group to pull from, and who is to pull
//! (`sched_balance_find_src_rq()`, `should_we_balance()`).

use super::{Balance, CpuIdle, Imbalance, Migration, SourceKind, follows_priority};
use crate::fair::capacity::{capacity_greater, is_reduced};
use crate::fair::census::Census;
use crate::fair::topology::{DomainFlags, Group};
use crate::fair::view::CpuState;
use schedlab_machine::{CpuId, CpuSet};

impl Balance<'_> {
    /// The run queue of `group` to pull from (`sched_balance_find_src_rq()`).
    pub fn source(
        &self,
        group: &Group,
        found: Imbalance,
        source_kind: SourceKind,
    ) -> Option<CpuId> {
        let able = |with_tasks| self.able(&group.span, with_tasks, source_kind);
        let Census { crowded, queued, .. } = self.census;
        match found.migration {
            Migration::Util => {
                let boosted = self.rules.boosted_util;
                most(able(crowded).map(|(cpu, state)| {
                    (cpu, if boosted { state.cfs_util_boost() } else { state.cfs_util() })
                }))
            }
            // Where no queue has several, one with a single task is as good as the next.
            Migration::Task => {
                most(able(crowded).map(|(cpu, state)| (cpu, u64::from(state.h_nr_queued))))
                    .or_else(|| able(queued).next().map(|(cpu, _)| cpu))
            }
            Migration::Load => self.most_load(able(queued), found.amount),
            Migration::Misfit => {
                most(able(queued).map(|(cpu, state)| (cpu, state.misfit_task_load)))
            }
        }
    }

    /// The run queues of a group from which tasks may be pulled, of those that have some.
    #[inline]
    fn able<'b>(
        &'b self,
        group: &'b CpuSet,
        with_tasks: &'b CpuSet,
        source_kind: SourceKind,
    ) -> impl Iterator<Item = (CpuId, &'b CpuState)> {
        let domain = self.domain();
        let may_stay = domain.flags.has(DomainFlags::ASYM_CPUCAPACITY)
            || domain.flags.has(DomainFlags::ASYM_PACKING);
        // Groups that overlap may reach beyond their domain.
        let everyone =
            std::ptr::eq(self.candidates, &domain.span) && !domain.flags.has(DomainFlags::OVERLAP);
        group.iter_and(with_tasks).filter_map(move |cpu| {
            let state = self.state(cpu);
            let gives = (everyone || self.candidates.contains(cpu))
                && kind_of_queue(state) <= source_kind
                && !(may_stay && self.only_task_stays(cpu, state));
            gives.then_some((cpu, state))
        })
    }

    /// A CPU's task is the only one, and the receiving CPU would be worse for it.
    #[cold]
    fn only_task_stays(&self, cpu: CpuId, state: &CpuState) -> bool {
        let domain = self.domain();
        let dst_capacity = self.state(self.dst_cpu).capacity;
        let smaller = domain.flags.has(DomainFlags::ASYM_CPUCAPACITY)
            && !capacity_greater(dst_capacity, state.capacity);
        let preferred = || {
            domain.flags.has(DomainFlags::ASYM_PACKING)
                && follows_priority(self.domains, self.cpus, domain, cpu)
                && self.prefers(cpu, self.dst_cpu)
        };
        state.h_nr_queued == 1 && (smaller || preferred())
    }

    /// The queue with the most load for its capacity, but for those whose only task is too large.
    fn most_load<'b>(
        &self,
        queues: impl Iterator<Item = (CpuId, &'b CpuState)>,
        amount: i64,
    ) -> Option<CpuId> {
        let imbalance_pct = self.domain().imbalance_pct;
        let (mut most, mut most_capacity, mut busiest) = (0, 1, None);
        for (cpu, state) in queues {
            let load = state.load;
            if state.h_nr_queued == 1 && load as i64 > amount && !is_reduced(state, imbalance_pct) {
                continue;
            }
            // load / capacity, without the division.
            if load * most_capacity > most * state.capacity {
                (most, most_capacity, busiest) = (load, state.capacity, Some(cpu));
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

    /// True if this CPU is the one to balance: it idles already, or else it is its group's
    /// (`should_we_balance()`).
    #[inline]
    pub fn should_balance(&self) -> bool {
        if self.idle == CpuIdle::NewlyIdle {
            let dst = self.state(self.dst_cpu);
            return dst.nr_running == 0 && !dst.ttwu_pending;
        }
        self.is_groups_balancer()
    }

    /// True if this CPU is its group's first idle one, if possible on an idle core, or else the
    /// group's first.
    fn is_groups_balancer(&self) -> bool {
        let domain = self.domain();
        let membership = self.domains.stack(self.dst_cpu)[self.level];
        let Some(group) = self.domains.ring(membership).next() else { return false };
        let first = |idle: &CpuSet| {
            let mut idle = group.balance_mask.iter_and(idle);
            idle.find(|&cpu| self.candidates.contains(cpu))
        };
        let core_matters =
            self.rules.smt_groups && !domain.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        let preferred = if core_matters { first(&self.census.idle_cores) } else { None };
        preferred.or_else(|| first(&self.census.idle)).or_else(|| group.balance_mask.first())
            == Some(self.dst_cpu)
    }
}

/// `fbq_classify_rq()`.
#[inline]
fn kind_of_queue(state: &CpuState) -> SourceKind {
    if state.nr_running > state.nr_numa_running {
        SourceKind::Regular
    } else if state.nr_running > state.nr_preferred_running {
        SourceKind::Remote
    } else {
        SourceKind::All
    }
}

/// The first of the CPUs with the most of something, if any has some.
#[inline]
fn most(cpus: impl Iterator<Item = (CpuId, u64)>) -> Option<CpuId> {
    let (mut most, mut busiest) = (0, None);
    cpus.for_each(|(cpu, amount)| {
        if amount > most {
            (most, busiest) = (amount, Some(cpu));
        }
    });
    busiest
}

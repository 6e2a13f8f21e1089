//! Which run queue of the busiest group to pull from, and who is to pull
//! (`sched_balance_find_src_rq()`, `should_we_balance()`).

use super::{Balance, CpuIdle, Imbalance, Migration, SourceKind, follows_priority};
use crate::fair::capacity::{capacity_greater, is_reduced};
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
        let crowded = || self.busiest_of(&group.span, &self.census.crowded, found, source_kind);
        let queued = || self.busiest_of(&group.span, &self.census.queued, found, source_kind);
        match found.migration {
            Migration::Util => crowded(),
            Migration::Task => crowded().or_else(queued),
            Migration::Load | Migration::Misfit => queued(),
        }
    }

    /// The busiest run queue of those of a group that have tasks.
    fn busiest_of(
        &self,
        group: &CpuSet,
        with_tasks: &CpuSet,
        found: Imbalance,
        source_kind: SourceKind,
    ) -> Option<CpuId> {
        let domain = self.domain();
        let dst_capacity = self.state(self.dst_cpu).capacity;
        let mut busiest = None;
        let (mut most, mut most_capacity) = (0_u64, 1_u64);
        let asymmetric = self.asymmetric();
        for cpu in group.iter_and(with_tasks) {
            if !self.candidates.contains(cpu) {
                continue;
            }
            let state = self.state(cpu);
            let nr_running = state.h_nr_queued;
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
fn kind_of_queue(state: &CpuState) -> SourceKind {
    if state.nr_running > state.nr_numa_running {
        SourceKind::Regular
    } else if state.nr_running > state.nr_preferred_running {
        SourceKind::Remote
    } else {
        SourceKind::All
    }
}

//! Where a real-time task goes when it wakes, and which CPU runs the least urgent
//! (`select_task_rq_rt()`, `find_lowest_rq()`).

use super::super::Scheduler;
use crate::fair::TaskId;
use crate::fair::topology::DomainFlags;
use crate::hardware::{Decision, Hardware};
use crate::rt::cpupri::{Level, PriorityMap};
use crate::rt::{Choice, NOT_RT};
use schedlab_machine::{CpuId, CpuSet};

impl Scheduler {
    /// The CPU for a task that wakes or is new. It stays where it was unless a task is there that
    /// it would have to wait for (`select_task_rq_rt()`).
    pub(in super::super) fn select_rt(
        &mut self,
        id: TaskId,
        this_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        let prev_cpu = self.tasks[id.index()].cpu;
        let entity = self.rt.entities[id.index()];
        let allowed = *self.allowed(id);
        if !entity.is_migratable() {
            return Self::within(&allowed, prev_cpu);
        }
        let waits = self.rqs[prev_cpu.index()].curr.is_some_and(|curr| {
            let curr = &self.rt.entities[curr.index()];
            curr.prio <= entity.prio || (curr.prio < NOT_RT && !curr.is_migratable())
        });
        let mut lowest = None;
        let mut cpu = prev_cpu;
        if waits || !self.rt_fits(id, prev_cpu) {
            lowest = self.find_lowest(id, this_cpu);
            self.settle(this_cpu, hardware);
            if let Some(lowest) = lowest
                && (waits || self.rt_fits(id, lowest))
                && entity.prio < self.rt.queues[lowest.index()].queue.highest()
            {
                cpu = lowest;
            }
        }
        let cpu = Self::within(&allowed, cpu);
        if hardware.explains() {
            let decision = Decision::RealTime { task: id, prev_cpu, waits, lowest, cpu };
            hardware.explain(this_cpu, decision);
        }
        cpu
    }

    /// A CPU is as big as a task wants one to be, which a real-time task does of the biggest unless
    /// it says otherwise; where all are alike, every one is (`rt_task_fits_capacity()`).
    fn rt_fits(&self, id: TaskId, cpu: CpuId) -> bool {
        let clamps = self.tasks[id.index()].clamps;
        let wanted = u64::from(clamps.min.min(clamps.max));
        !self.domains.asym_cpucapacity_active() || self.cpus[cpu.index()].capacity_orig >= wanted
    }

    /// Of the CPUs that run the least urgent, below the task's priority, the one nearest to where
    /// the task was (`find_lowest_rq()`).
    pub(super) fn find_lowest(&mut self, id: TaskId, this_cpu: CpuId) -> Option<CpuId> {
        let entity = self.rt.entities[id.index()];
        if !entity.is_migratable() {
            return None;
        }
        let level = Level::of_prio(entity.prio)?;
        let active = CpuSet::first_n(self.cpus.len());
        let lowest = if self.domains.asym_cpucapacity_active() {
            let fits = |cpu| self.rt_fits(id, cpu);
            self.rt.map.find_fitting(this_cpu, level, self.allowed_outside(id), &active, fits)
        } else {
            self.rt.map.find(this_cpu, level, self.allowed_outside(id), &active)
        };
        if lowest.is_empty() {
            return None;
        }
        self.nearest_of(&lowest, self.tasks[id.index()].cpu, this_cpu)
    }

    /// Of the CPUs that would take a task, the one nearest to `cpu`, where it was: that one, or the
    /// one that executes, or another of the smallest domain that has any.
    pub(in crate::sched) fn nearest_of(
        &mut self,
        takers: &CpuSet,
        cpu: CpuId,
        this_cpu: CpuId,
    ) -> Option<CpuId> {
        if takers.contains(cpu) {
            return Some(cpu);
        }
        let here = Some(this_cpu).filter(|&here| takers.contains(here));
        for &membership in self.domains.stack(cpu) {
            let domain = self.domains.get(membership);
            if !domain.flags.has(DomainFlags::WAKE_AFFINE) {
                continue;
            }
            // The CPU that executes is cheaper to preempt than another one.
            if let Some(here) = here
                && domain.span.contains(here)
            {
                return Some(here);
            }
            let near = *takers & domain.span;
            if !near.is_empty() {
                return self.choose(this_cpu, &near);
            }
        }
        here.or_else(|| self.choose(this_cpu, takers))
    }

    fn choose(&mut self, executing_cpu: CpuId, from: &CpuSet) -> Option<CpuId> {
        match self.config.rt.choice {
            Choice::First => from.first(),
            Choice::InTurn => self.any_in_turn(executing_cpu, from),
        }
    }
}

//! Where a deadline task goes when it wakes, and which CPU can wait longest
//! (`select_task_rq_dl()`, `find_later_rq()`).

use super::super::Scheduler;
use crate::deadline::cpudl::DeadlineTask;
use crate::deadline::entity::before;
use crate::fair::TaskId;
use crate::hardware::{Decision, Hardware};
use schedlab_machine::{CpuId, CpuSet};

impl Scheduler {
    /// True if another CPU may take it (`nr_cpus_allowed` is more than 1).
    pub(in crate::sched) fn roams(&self, id: TaskId) -> bool {
        self.allowed_outside(id).weight_and(&CpuSet::first_n(self.cpus.len())) > 1
    }

    /// What the map of deadlines is asked for.
    fn wanted<'a>(&self, id: TaskId, allowed: &'a CpuSet) -> DeadlineTask<'a> {
        let entity = &self.dl.entities[id.index()];
        DeadlineTask {
            deadline_ns: entity.deadline_ns(),
            allowed,
            cpu: self.tasks[id.index()].cpu,
            density: entity.reservation().density(),
        }
    }

    /// The task's deadline is before all of a CPU (`dl_task_is_earliest_deadline()`).
    pub(in crate::sched) fn is_earliest(&self, id: TaskId, cpu: CpuId) -> bool {
        let deadline_ns = self.dl.entities[id.index()].deadline_ns();
        let earliest_ns = self.dl.queues[cpu.index()].earliest_ns;
        earliest_ns.is_none_or(|earliest_ns| before(deadline_ns, earliest_ns))
    }

    /// The CPU that can wait longest would take the task (`cpudl_find()` without a mask to fill
    /// in).
    pub(super) fn finds_later(&self, id: TaskId) -> bool {
        let task = self.wanted(id, self.allowed_outside(id));
        self.dl.map.as_ref().is_some_and(|map| map.is_latest_later(&task))
    }

    /// The CPU for a task that wakes. It stays where it was unless it would have to wait there for
    /// an earlier deadline, or the CPU is too small (`select_task_rq_dl()`).
    pub(in super::super) fn select_dl(
        &mut self,
        id: TaskId,
        this_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        let prev_cpu = self.tasks[id.index()].cpu;
        let entity = self.dl.entities[id.index()];
        let mut waits = self.rqs[prev_cpu.index()].curr.is_some_and(|curr| {
            self.is_deadline(curr)
                && (!self.roams(curr) || !entity.preempts(&self.dl.entities[curr.index()]))
                && self.roams(id)
        });
        if let Some(capacities) = &self.dl.capacities {
            waits |= !self.wanted(id, self.allowed_outside(id)).fits(capacities[prev_cpu.index()]);
        }
        let later = if waits { self.find_later(id, this_cpu) } else { None };
        let cpu = later.filter(|&later| self.is_earliest(id, later)).unwrap_or(prev_cpu);
        let cpu = Self::within(self.allowed(id), cpu);
        if hardware.explains() {
            let decision = Decision::Deadline { task: id, prev_cpu, waits, later, cpu };
            hardware.explain(this_cpu, decision);
        }
        cpu
    }

    /// Of the CPUs without deadline tasks, or else the one with the latest deadline if it is after
    /// the task's, the one nearest to where the task was (`find_later_rq()`).
    pub(in crate::sched) fn find_later(&mut self, id: TaskId, this_cpu: CpuId) -> Option<CpuId> {
        if !self.roams(id) {
            return None;
        }
        let allowed = *self.allowed_outside(id) & CpuSet::first_n(self.cpus.len());
        let task = self.wanted(id, &allowed);
        let later = self.dl.map.as_ref()?.find(&task, self.dl.capacities.as_deref());
        if later.is_empty() {
            return None;
        }
        self.nearest_of(&later, self.tasks[id.index()].cpu, this_cpu)
    }
}

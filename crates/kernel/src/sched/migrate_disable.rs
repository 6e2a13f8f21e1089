//! Sections in which a task stays on its CPU although others may preempt it there
//! (`migrate_disable()`, `migrate_enable()`, v5.11, af449901b84c; here as of 6.12).
//!
//! A real-time task that waits within such a section cannot be pushed to a CPU that would run it.
//! What the kernel can do is send the task away that runs in its place, by the stopper thread
//! (`push_cpu_stop()`).

use super::{AffinityId, Class, Scheduler, TaskState};
use crate::fair::TaskId;
use crate::hardware::Hardware;
use schedlab_machine::{CpuId, CpuSet};

/// Where a task stands with regard to such sections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Staying {
    /// How many sections, one within another, it is in (`p->migration_disabled`).
    depth: u16,
    /// Once it lost its CPU within: the CPUs that it may use outside (`p->cpus_mask`, to which
    /// `p->cpus_ptr` does not point then).
    outside: Option<AffinityId>,
    /// Somebody would have had it go meanwhile (`MDF_PUSH`).
    should_go: bool,
}

impl Scheduler {
    /// The current task of `cpu` stays there from now on (`migrate_disable()`). Sections may stand
    /// within one another.
    pub fn disable_migration(&mut self, cpu: CpuId) {
        if self.singles.is_empty() {
            let cpus = 0..self.cpus.len() as u32;
            self.singles = cpus.map(|cpu| self.affinity(CpuSet::from_iter([CpuId(cpu)]))).collect();
        }
        if let Some(id) = self.rqs[cpu.index()].curr {
            self.tasks[id.index()].staying.depth += 1;
        }
    }

    /// The current task of `cpu` may go again, once it left the outermost section
    /// (`migrate_enable()`). If it should have gone meanwhile, the stopper thread now looks for a
    /// CPU for it. Returns where the task is; the caller schedules next if that is elsewhere.
    pub fn enable_migration(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> CpuId {
        let Some(id) = self.rqs[cpu.index()].curr else { return cpu };
        let task = &mut self.tasks[id.index()];
        task.staying.depth = task.staying.depth.saturating_sub(1);
        if task.staying.depth > 0 {
            return cpu;
        }
        let Some(outside) = task.staying.outside.take() else { return cpu };
        task.affinity = outside;
        if task.staying.should_go && self.rqs[cpu.index()].push_task.is_none() {
            self.rqs[cpu.index()].push_task = Some(id);
            self.push_by_stopper(cpu, hardware);
        }
        self.tasks[id.index()].cpu
    }

    /// True if a task must stay where it is (`is_migration_disabled()`).
    #[inline]
    pub(super) fn stays(&self, id: TaskId) -> bool {
        self.tasks[id.index()].staying.depth > 0
    }

    /// The CPUs that a task may use outside of such sections (`p->cpus_mask`).
    #[inline]
    pub(super) fn allowed_outside(&self, id: TaskId) -> &CpuSet {
        let task = &self.tasks[id.index()];
        &self.affinities[task.staying.outside.unwrap_or(task.affinity).0 as usize]
    }

    /// Notes what [`Scheduler::allowed_outside`] answers from now on.
    pub(super) fn set_allowed_outside(&mut self, id: TaskId, affinity: AffinityId) {
        let task = &mut self.tasks[id.index()];
        match &mut task.staying.outside {
            Some(outside) => *outside = affinity,
            None => task.affinity = affinity,
        }
    }

    /// A task loses its CPU: within a section no other is allowed until it has left that
    /// (`migrate_disable_switch()`).
    #[inline]
    pub(super) fn stay_behind(&mut self, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if task.staying.depth > 0 && task.staying.outside.is_none() {
            task.staying.outside = Some(task.affinity);
            task.affinity = self.singles[cpu.index()];
        }
    }

    /// The stopper thread of `cpu` is to send away the task that runs there, in whose place one
    /// waits that cannot go itself (`get_push_task()`).
    pub(super) fn ask_stopper_to_push(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let Some(curr) = self.rqs[cpu.index()].curr else { return };
        if self.rqs[cpu.index()].push_task.is_some() || !self.roams(curr) || self.stays(curr) {
            return;
        }
        self.rqs[cpu.index()].push_task = Some(curr);
        // A CPU that asks itself is in an interrupt's handler, after which its stopper runs.
        if cpu != executing_cpu {
            hardware.send_reschedule(executing_cpu, cpu);
        }
    }

    /// The stopper thread sends a task away that runs, or waits by now, on `cpu`, if another CPU
    /// runs something less urgent (`push_cpu_stop()`).
    pub(super) fn push_by_stopper(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let Some(id) = self.rqs[cpu.index()].push_task.take() else { return };
        let task = &self.tasks[id.index()];
        if task.cpu != cpu || task.state != TaskState::Runnable || !self.is_queued(id) {
            return;
        }
        if let Some(curr) = self.rqs[cpu.index()].curr {
            self.preempt_for_stopper(cpu, curr, hardware);
        }
        let stays = self.stays(id);
        self.tasks[id.index()].staying.should_go = stays;
        if stays {
            return;
        }
        let to_cpu = match self.class(id) {
            Class::RealTime => self.find_less_urgent(id, cpu),
            Class::Deadline => self.find_later(id, cpu).filter(|&to| self.is_earliest(id, to)),
            Class::Fair => None,
        };
        if let Some(to_cpu) = to_cpu.filter(|&to_cpu| to_cpu != cpu) {
            self.move_to_preempt(id, to_cpu, cpu, hardware);
        }
    }
}

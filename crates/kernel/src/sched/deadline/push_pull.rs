//! How waiting deadline tasks get to CPUs that can wait longer: the CPU that holds them pushes, a
//! CPU whose deadline task goes pulls (`push_dl_task()`, `pull_dl_task()`).

use super::super::Scheduler;
use crate::deadline::entity::before;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// Other CPUs may take a task that does not run (`enqueue_pushable_dl_task()`).
    pub(super) fn offer_dl(&mut self, cpu: CpuId, id: TaskId) {
        if !self.roams(id) {
            return;
        }
        let deadline_ns = self.dl.entities[id.index()].deadline_ns();
        let part = &mut self.dl.queues[cpu.index()];
        part.pushable.remove(id);
        part.pushable.insert(deadline_ns, id);
        self.dl.overloaded.insert(cpu);
    }

    /// They may not any more (`dequeue_pushable_dl_task()`).
    pub(super) fn withdraw_dl(&mut self, cpu: CpuId, id: TaskId) {
        let part = &mut self.dl.queues[cpu.index()];
        part.pushable.remove(id);
        if part.pushable.first().is_none() {
            self.dl.overloaded.remove(cpu);
        }
    }

    /// A task that was woken and does not take the CPU over is pushed to another one at once
    /// (`task_woken_dl()`).
    pub(in super::super) fn woken_dl(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let Some(curr) = self.rqs[cpu.index()].curr else { return };
        let waits = self.is_deadline(curr)
            && (!self.roams(curr)
                || !self.dl.entities[id.index()].preempts(&self.dl.entities[curr.index()]));
        if waits && curr != id && self.roams(id) && !self.need_resched(cpu) {
            self.push_all_dl(cpu, executing_cpu, hardware);
        }
    }

    /// Pushes waiting tasks away until one finds no place (`push_dl_tasks()`).
    pub(in super::super) fn push_all_dl(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        while self.push_one_dl(cpu, executing_cpu, hardware) {}
    }

    /// Pushes the waiting task of the earliest deadline away. `false` if there is none, or no CPU
    /// would run it at once (`push_dl_task()`).
    pub(super) fn push_one_dl(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> bool {
        let Some((deadline_ns, id)) = self.dl.queues[cpu.index()].pushable.first() else {
            return false;
        };
        if let Some(curr) = self.rqs[cpu.index()].curr
            && self.is_deadline(curr)
            && before(deadline_ns, self.dl.entities[curr.index()].deadline_ns())
            && self.roams(curr)
        {
            // It is about to run here.
            self.rqs[cpu.index()].need_resched = true;
            self.tell(cpu, executing_cpu, hardware);
            return false;
        }
        if self.stays(id) {
            return false;
        }
        let Some(later) = self.find_later(id, executing_cpu) else { return false };
        if later == cpu || !self.is_earliest(id, later) {
            return false;
        }
        self.move_to_preempt(id, later, executing_cpu, hardware);
        true
    }

    /// The deadline task of `cpu` went: it takes over what waits elsewhere for later deadlines to
    /// pass (`pull_dl_task()`).
    pub(super) fn pull_dl(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let overloaded = self.dl.overloaded;
        for src_cpu in overloaded.iter().filter(|&src_cpu| src_cpu != cpu) {
            if self.dl_nr_running(src_cpu) <= 1 {
                continue;
            }
            let mut pushable = self.dl.queues[src_cpu.index()].pushable.all().iter();
            let allowed = |&&(_, id): &&(u64, TaskId)| self.allowed_outside(id).contains(cpu);
            let Some(&(deadline_ns, id)) = pushable.find(allowed) else { continue };
            // What is earlier than the task that runs there is about to run there.
            let about_to_run = self.rqs[src_cpu.index()].curr.is_some_and(|curr| {
                self.is_deadline(curr)
                    && before(deadline_ns, self.dl.entities[curr.index()].deadline_ns())
            });
            if self.is_earliest(id, cpu) && !about_to_run {
                if self.stays(id) {
                    self.ask_stopper_to_push(src_cpu, cpu, hardware);
                } else {
                    self.move_to_preempt(id, cpu, cpu, hardware);
                }
            }
        }
    }
}

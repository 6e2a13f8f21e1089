//! How waiting real-time tasks get to CPUs that run less urgent ones: the CPU that holds them
//! pushes, a CPU that becomes less urgent pulls (`push_rt_task()`, `pull_rt_task()`).

use super::super::Scheduler;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use crate::rt::{NOT_RT, Pull};
use schedlab_machine::CpuId;

impl Scheduler {
    /// Other CPUs may take a task that does not run (`enqueue_pushable_task()`).
    pub(super) fn offer(&mut self, cpu: CpuId, id: TaskId) {
        if !self.rt.entities[id.index()].is_migratable() {
            return;
        }
        let part = &mut self.rt.queues[cpu.index()];
        part.queue.offer(&self.rt.entities, id);
        if !std::mem::replace(&mut part.overloaded, true) {
            self.rt.overloaded.insert(cpu);
            self.rt.overload_count += 1;
            self.rt.map.note_overload(cpu, true);
        }
    }

    /// They may not any more (`dequeue_pushable_task()`).
    pub(super) fn withdraw(&mut self, cpu: CpuId, id: TaskId) {
        let part = &mut self.rt.queues[cpu.index()];
        part.queue.withdraw(id);
        if part.queue.pushable().is_empty() && std::mem::take(&mut part.overloaded) {
            self.rt.overload_count -= 1;
            self.rt.overloaded.remove(cpu);
            self.rt.map.note_overload(cpu, false);
        }
    }

    /// A task that was woken and does not take the CPU over is pushed to another one at once
    /// (`task_woken_rt()`).
    pub(in super::super) fn woken_rt(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let Some(curr) = self.rqs[cpu.index()].curr else { return };
        let (woken, running) = (self.rt.entities[id.index()], self.rt.entities[curr.index()]);
        let waits = self.is_deadline(curr)
            || (running.prio < NOT_RT && (!running.is_migratable() || running.prio <= woken.prio));
        if waits && curr != id && woken.is_migratable() && !self.need_resched(cpu) {
            self.push_all(cpu, executing_cpu, hardware);
        }
    }

    /// Pushes waiting tasks away until one finds no place (`push_rt_tasks()`).
    pub(in super::super) fn push_all(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        while self.push_one(cpu, executing_cpu, false, hardware) {}
    }

    /// Pushes the most urgent waiting task away. `false` if there is none, or no CPU runs anything
    /// less urgent (`push_rt_task()`).
    ///
    /// Where an interrupt asks for it (`pull`), the running task makes room for one that has to stay.
    fn push_one(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        pull: bool,
        hardware: &mut impl Hardware,
    ) -> bool {
        let Some(&(prio, id)) = self.rt.queues[cpu.index()].queue.pushable().first() else {
            return false;
        };
        if prio < self.curr_prio(cpu) {
            // It is about to run here.
            self.rqs[cpu.index()].need_resched = true;
            self.tell(cpu, executing_cpu, hardware);
            return false;
        }
        if self.stays(id) {
            if pull
                && self.rqs[cpu.index()].push_task.is_none()
                && let Some(curr) = self.rqs[cpu.index()].curr.filter(|&curr| self.is_rt(curr))
                && self.find_lowest(curr, executing_cpu).is_some_and(|lowest| lowest != cpu)
            {
                self.ask_stopper_to_push(cpu, executing_cpu, hardware);
            }
            return false;
        }
        let Some(lowest) = self.find_less_urgent(id, executing_cpu) else { return false };
        if lowest == cpu {
            return false;
        }
        self.move_to_preempt(id, lowest, executing_cpu, hardware);
        true
    }

    /// The CPU that [`Scheduler::find_lowest`] finds, unless something as urgent runs there by now
    /// (`find_lock_lowest_rq()`).
    pub(in crate::sched) fn find_less_urgent(
        &mut self,
        id: TaskId,
        executing_cpu: CpuId,
    ) -> Option<CpuId> {
        let prio = self.rt.entities[id.index()].prio;
        let lowest = self.find_lowest(id, executing_cpu)?;
        (self.rt.queues[lowest.index()].queue.highest() > prio).then_some(lowest)
    }

    /// Moves a waiting task to a CPU that it preempts.
    pub(in crate::sched) fn move_to_preempt(
        &mut self,
        id: TaskId,
        to_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        self.move_queued(id, to_cpu, executing_cpu, hardware);
        self.rqs[to_cpu.index()].need_resched = true;
        self.tell(to_cpu, executing_cpu, hardware);
    }

    /// `cpu` is about to run something less urgent than before: it gets at what waits elsewhere
    /// (`pull_rt_task()`).
    pub(super) fn pull_rt(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        self.rt.map.note_pull(cpu);
        let count = self.rt.overload_count;
        if count == 0 || (count == 1 && self.rt.overloaded.contains(cpu)) {
            return;
        }
        if self.config.rt.pull == Pull::PushIpi {
            return self.ask_to_push_rt(cpu, hardware);
        }
        let overloaded = self.rt.overloaded;
        for src_cpu in overloaded.iter().filter(|&src_cpu| src_cpu != cpu) {
            let highest = self.rt.queues[cpu.index()].queue.highest();
            let src = &self.rt.queues[src_cpu.index()].queue;
            if src.next_pushable() >= highest {
                continue;
            }
            let mut pushable = src.pushable().iter();
            let fits = |&&(_, id): &&(u8, TaskId)| self.allowed_outside(id).contains(cpu);
            let Some(&(prio, id)) = pushable.find(fits) else { continue };
            // What is more urgent than the task that runs there is about to run there.
            if prio < highest && prio >= self.curr_prio(src_cpu) {
                if self.stays(id) {
                    self.ask_stopper_to_push(src_cpu, cpu, hardware);
                } else {
                    self.move_to_preempt(id, cpu, cpu, hardware);
                }
            }
        }
    }

    /// Sends an interrupt on its way through all overloaded CPUs, unless one is under way, which
    /// will then go round once more (`tell_cpu_to_push()`).
    fn ask_to_push_rt(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if let Some(domain) = self.rt.map.domain() {
            let next = domain.ask_to_push(cpu);
            return self.visit(cpu, next, hardware);
        }
        self.rt.rounds_asked = self.rt.rounds_asked.wrapping_add(1);
        if self.rt.visited.is_none() {
            let next = self.next_visit(cpu);
            self.visit(cpu, next, hardware);
        }
    }

    /// The interrupt's part: pushes what it can, and passes the interrupt on
    /// (`rto_push_irq_work_func()`).
    pub(in super::super) fn push_by_interrupt(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if !std::mem::take(&mut self.rt.queues[cpu.index()].push_asked) {
            return;
        }
        self.update_clock(cpu, hardware);
        while self.push_one(cpu, cpu, true, hardware) {}
        let next = match self.rt.map.domain() {
            Some(domain) => domain.pass_on(cpu),
            None => self.next_visit(cpu),
        };
        self.visit(cpu, next, hardware);
    }

    /// The interrupt goes to the next CPU, if there is one.
    fn visit(&mut self, this_cpu: CpuId, next: Option<CpuId>, hardware: &mut impl Hardware) {
        if let Some(next) = next {
            self.rt.queues[next.index()].push_asked = true;
            self.settle(this_cpu, hardware);
            hardware.send_reschedule(this_cpu, next);
        }
    }

    /// The next overloaded CPU on the way, but never the one that asks (`rto_next_cpu()`).
    fn next_visit(&mut self, this_cpu: CpuId) -> Option<CpuId> {
        loop {
            let from = self.rt.visited.map_or(CpuId(0), |visited| CpuId(visited.0 + 1));
            self.rt.visited = self.rt.overloaded.next(from);
            match self.rt.visited {
                Some(next) if next == this_cpu => {}
                Some(next) => return Some(next),
                None if self.rt.rounds_begun == self.rt.rounds_asked => return None,
                None => self.rt.rounds_begun = self.rt.rounds_asked,
            }
        }
    }
}

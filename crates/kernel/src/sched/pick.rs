//! Tasks go: block, yield, end; and the CPU picks its next one (`__schedule()`).

use super::{Class, Scheduler, TaskState};
use crate::fair::TaskId;
use crate::fair::balance::is_core_idle;
use crate::fair::entity::Dequeue;
use crate::hardware::{Hardware, LeaveReason, Path, TracePoint};
use schedlab_machine::CpuId;

impl Scheduler {
    /// The current task of `cpu` waits for something. `special` states must not be woken
    /// spuriously, so the task never stays queued. The caller schedules next.
    pub fn block(&mut self, cpu: CpuId, special: bool, hardware: &mut impl Hardware) {
        self.update_clock(cpu, hardware);
        self.block_current(cpu, TaskState::Blocked, special);
        self.rqs[cpu.index()].need_resched = true;
    }

    /// The current task of `cpu` ends. The caller schedules next.
    pub fn exit(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        self.update_clock(cpu, hardware);
        self.block_current(cpu, TaskState::Dead, true);
        self.rqs[cpu.index()].need_resched = true;
    }

    /// The current task of `cpu` calls `sched_yield()`. The caller schedules next.
    pub fn yield_current(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        self.update_clock(cpu, hardware);
        let curr = self.rqs[cpu.index()].curr;
        if let Some(curr) = curr.filter(|&curr| self.is_rt(curr)) {
            self.yield_rt(cpu, curr);
        } else if let Some(curr) = curr.filter(|&curr| self.is_deadline(curr)) {
            self.yield_dl(cpu, curr);
        } else {
            let rq = &mut self.rqs[cpu.index()];
            rq.fair.yield_curr(&mut self.entities, rq.clock.clock_task);
        }
        self.rqs[cpu.index()].need_resched = true;
    }

    /// Picks the task that `cpu` runs next and switches to it (`__schedule()`). `None` is the idle
    /// task.
    pub fn schedule(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> Option<TaskId> {
        self.update_clock(cpu, hardware);
        let mut next = self.pick_class(cpu, hardware);
        if next.is_none() {
            self.update_misfit(cpu, None);
            if self.balance_newidle(cpu, hardware) {
                next = self.pick_class(cpu, hardware);
            }
        }
        let class = next.map_or(Class::Fair, |next| self.class(next));
        if let Some(next) = next
            && class == Class::Fair
        {
            // The task that runs goes to the end of the list, so that it is moved last. Classic
            // kernels keep the order in which tasks came.
            let tasks = &mut self.rqs[cpu.index()].tasks;
            if self.config.classic.is_none()
                && tasks.last() != Some(&next)
                && let Some(place) = tasks.iter().rposition(|&task| task == next)
            {
                tasks.remove(place);
                tasks.push(next);
            }
            self.update_misfit(cpu, Some(next));
        }
        if let Some(next) = next
            && self.rqs[cpu.index()].curr != Some(next)
        {
            hardware.wait_for(cpu, next);
            self.update_clock(cpu, hardware);
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.need_resched = false;
        rq.told = false;
        let prev = rq.curr;
        // After the stopper thread, the idle task is a change although no fair task ran before.
        let stopper_ran = std::mem::take(&mut rq.stopper_ran);
        if next == prev && !stopper_ran {
            rq.fair.clear_resched();
            self.publish(cpu);
            return next;
        }
        if let Some(prev) = prev {
            self.stay_behind(cpu, prev);
            match self.class(prev) {
                Class::RealTime => self.put_prev_rt(cpu, prev),
                Class::Deadline => {
                    // That its run time is used up at last changes nothing: it goes.
                    self.put_prev_dl(cpu, prev);
                    self.rqs[cpu.index()].need_resched = false;
                }
                Class::Fair if self.entities[prev.index()].on_rq => self.update_load(cpu, prev),
                Class::Fair => {}
            }
        }
        let rq = &mut self.rqs[cpu.index()];
        let now_ns = rq.clock.clock_task;
        rq.fair.put_prev(&mut self.entities, now_ns);
        if self.rt.active {
            self.account_switch(cpu, prev, next);
        }
        if let Some(next) = next {
            match class {
                Class::RealTime => self.set_next_rt(cpu, next, prev),
                Class::Deadline => self.set_next_dl(cpu, next, prev),
                Class::Fair => self.update_load(cpu, next),
            }
            self.tasks[next.index()].switches += 1;
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.fair.switch_to(&mut self.entities, next.filter(|_| class == Class::Fair), now_ns);
        rq.curr = next;
        // The trace shows the stopper thread as the idle task.
        if next != prev {
            self.trace_switch(cpu, prev, next, hardware);
        }
        if next.is_none() {
            self.keep_tick(cpu, hardware);
            self.enter_idle(cpu);
        } else {
            self.publish(cpu);
        }
        if self.rt.active {
            self.arm_timer(cpu, hardware);
        }
        // What waits behind it may find another CPU (rt_queue_push_tasks(),
        // deadline_queue_push_tasks()).
        match class {
            Class::RealTime => self.push_all(cpu, cpu, hardware),
            Class::Deadline => self.push_all_dl(cpu, cpu, hardware),
            Class::Fair => {}
        }
        next
    }

    /// The next task of the most urgent class that has any.
    #[inline]
    fn pick_class(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> Option<TaskId> {
        if self.rt.active
            && let Some(next) = self.pick_urgent(cpu, hardware)
        {
            return Some(next);
        }
        self.pick(cpu)
    }

    fn pick_urgent(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> Option<TaskId> {
        if self.dl.active
            && let Some(next) = self.pick_dl(cpu, hardware)
        {
            return Some(next);
        }
        self.pick_rt(cpu, hardware)
    }

    /// The next fair task; delayed ones that have used up their lag leave the queue on the way.
    fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        loop {
            let rq = &mut self.rqs[cpu.index()];
            match rq.fair.candidate(&mut self.entities, rq.clock.clock_task) {
                Some(id) if self.entities[id.index()].sched_delayed => {
                    self.dequeue_to_schedule(cpu, id, Dequeue::Sleep);
                }
                candidate => return candidate,
            }
        }
    }

    fn trace_switch(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        hardware: &mut impl Hardware,
    ) {
        let reason = match prev.map(|prev| self.tasks[prev.index()].state) {
            Some(TaskState::Blocked) if prev.is_some_and(|prev| self.waits_for_io(prev)) => {
                LeaveReason::BlockedSpecial
            }
            Some(TaskState::Blocked) => LeaveReason::Blocked,
            Some(TaskState::Dead) => LeaveReason::Dead,
            _ => LeaveReason::Preempted,
        };
        hardware.charge(cpu, Path::ContextSwitch);
        hardware.trace(cpu, TracePoint::Switch { prev, reason, next });
    }

    /// `set_next_task_idle()`: the PELT clock catches up, and a core whose threads are now all
    /// idle is noted for wake-ups.
    fn enter_idle(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu.index()];
        let none = crate::pelt::Avg::default();
        let rt = self.rt.queues.get(cpu.index()).map_or(&none, |part| &part.avg);
        let dl = self.dl.queues.get(cpu.index()).map_or(&none, |part| &part.avg);
        rq.clock.enter_idle(&rq.avg, rt, dl);
        self.publish(cpu);
        if !self.domains.smt_active() {
            return;
        }
        if is_core_idle(&self.domains, &self.cpus, cpu) {
            self.llcs[self.domains.llc_id(cpu).index()].has_idle_cores = true;
        }
    }

    /// A CPU's stopper thread takes the CPU from its task, which waits meanwhile.
    pub(super) fn preempt_for_stopper(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        hardware: &mut impl Hardware,
    ) {
        self.update_clock(cpu, hardware);
        self.stay_behind(cpu, id);
        match self.class(id) {
            Class::RealTime => self.put_prev_rt(cpu, id),
            Class::Deadline => self.put_prev_dl(cpu, id),
            Class::Fair => self.update_load(cpu, id),
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.fair.put_prev(&mut self.entities, rq.clock.clock_task);
        rq.curr = None;
        rq.stopper_ran = true;
        rq.need_resched = true;
        hardware.charge(cpu, Path::ContextSwitch);
        let point =
            TracePoint::Switch { prev: Some(id), reason: LeaveReason::Preempted, next: None };
        hardware.trace(cpu, point);
        self.publish(cpu);
    }
}

//! When deadline tasks get new run time, and when the bandwidth of those that sleep is free
//! (`dl_task_timer()`, `inactive_task_timer()`).

use super::super::Scheduler;
use crate::deadline::entity::Why;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

/// A timer of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    at_ns: u64,
    task: TaskId,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its next period begins.
    Period,
    /// It sleeps, and has used what its bandwidth was counted for.
    ZeroLag,
}

impl Scheduler {
    /// When the timer of `cpu` is due for deadline tasks, ns.
    pub(in super::super) fn dl_timer_ns(&self, cpu: CpuId) -> Option<u64> {
        let part = self.dl.queues.get(cpu.index())?;
        part.timers.iter().map(|timer| timer.at_ns).min()
    }

    /// A runnable task has no run time until its next period (`start_dl_timer()`).
    pub(super) fn wait_for_period(&mut self, cpu: CpuId, id: TaskId) {
        let entity = &mut self.dl.entities[id.index()];
        let at_ns = entity.next_period_ns();
        let armed = std::mem::replace(&mut entity.armed, true);
        let part = &mut self.dl.queues[cpu.index()];
        if !armed {
            part.timers.push(Timer { at_ns, task: id, kind: Kind::Period });
        }
        if !part.throttled.contains(&id) {
            part.throttled.push(id);
        }
    }

    /// Does what is due of `cpu`'s timers.
    pub(in super::super) fn expire_dl(
        &mut self,
        cpu: CpuId,
        now_ns: u64,
        hardware: &mut impl Hardware,
    ) {
        while let Some(part) = self.dl.queues.get_mut(cpu.index())
            && let Some(due) = part.timers.iter().position(|timer| timer.at_ns <= now_ns)
        {
            let timer = part.timers.remove(due);
            match timer.kind {
                Kind::Period => self.begin_period(cpu, timer.task, hardware),
                Kind::ZeroLag => self.end_zero_lag(timer),
            }
        }
    }

    /// The next period of a task begins (`dl_task_timer()`). One that sleeps gets its run time, too.
    fn begin_period(&mut self, timer_cpu: CpuId, id: TaskId, hardware: &mut impl Hardware) {
        let cpu = self.tasks[id.index()].cpu;
        self.update_clock(cpu, hardware);
        let now_ns = self.rqs[cpu.index()].clock.clock;
        let entity = &mut self.dl.entities[id.index()];
        entity.armed = false;
        if !entity.is_throttled() {
            return;
        }
        if !entity.on_rq {
            entity.replenish(now_ns);
            return;
        }
        self.dl.queues[cpu.index()].throttled.retain(|&other| other != id);
        self.enqueue_dl(cpu, id, Why::Replenish);
        match self.rqs[cpu.index()].curr {
            Some(curr) if self.is_deadline(curr) => self.preempt_dl(cpu, id, curr),
            _ => self.rqs[cpu.index()].need_resched = true,
        }
        self.tell(cpu, timer_cpu, hardware);
        self.push_one_dl(cpu, timer_cpu, hardware);
    }

    /// A task begins to use its bandwidth on `cpu` (`task_contending()`).
    pub(super) fn contend(&mut self, cpu: CpuId, id: TaskId) {
        let entity = &mut self.dl.entities[id.index()];
        entity.zero_lag_ns = None;
        if !std::mem::replace(&mut entity.contending, true) {
            self.dl.queues[cpu.index()].running_bw += entity.reservation().bandwidth();
            self.rqs[cpu.index()].util_changed = true;
        }
    }

    /// A task goes to sleep: its bandwidth is free at its zero-lag time (`task_non_contending()`).
    pub(super) fn stop_contending(&mut self, cpu: CpuId, id: TaskId) {
        let now_ns = self.rqs[cpu.index()].clock.clock;
        match self.dl.entities[id.index()].zero_lag(now_ns) {
            Some(at_ns) => {
                self.dl.entities[id.index()].zero_lag_ns = Some(at_ns);
                let timer = Timer { at_ns, task: id, kind: Kind::ZeroLag };
                self.dl.queues[cpu.index()].timers.push(timer);
            }
            None => self.leave_bandwidth(cpu, id),
        }
    }

    /// A task's bandwidth does not count on `cpu` any more (`sub_running_bw()`).
    pub(in super::super) fn leave_bandwidth(&mut self, cpu: CpuId, id: TaskId) {
        let entity = &mut self.dl.entities[id.index()];
        entity.zero_lag_ns = None;
        if std::mem::take(&mut entity.contending) {
            self.dl.queues[cpu.index()].running_bw -= entity.reservation().bandwidth();
            self.rqs[cpu.index()].util_changed = true;
        }
    }

    /// `inactive_task_timer()`; one that woke meanwhile has cancelled it.
    fn end_zero_lag(&mut self, timer: Timer) {
        let Timer { at_ns, task: id, .. } = timer;
        if self.dl.entities[id.index()].zero_lag_ns == Some(at_ns) {
            let cpu = self.tasks[id.index()].cpu;
            self.leave_bandwidth(cpu, id);
            self.publish(cpu);
        }
    }
}

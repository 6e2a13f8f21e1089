//! Tasks that wait for I/O (`io_schedule()`): CPUs count them, `menu` of 6.1 asks for their number,
//! and schedutil raises the frequency when they wake.

use super::Scheduler;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// The current task of `cpu` waits for a device (`io_schedule()`). The caller schedules next,
    /// and calls [`Scheduler::end_io`] when the task runs again.
    pub fn block_for_io(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if let Some(id) = self.rqs[cpu.index()].curr {
            self.tasks[id.index()].in_iowait = true;
        }
        self.block(cpu, false, hardware);
    }

    /// A task runs again after it waited for a device (`io_schedule_finish()`).
    pub fn end_io(&mut self, id: TaskId) {
        self.tasks[id.index()].in_iowait = false;
    }

    /// Tasks that wait for I/O and ran on `cpu` last (`nr_iowait_cpu()`).
    pub fn nr_iowait(&self, cpu: CpuId) -> u32 {
        self.rqs[cpu.index()].nr_iowait
    }

    pub(super) fn waits_for_io(&self, id: TaskId) -> bool {
        self.tasks[id.index()].in_iowait
    }

    /// A task that waits for I/O left its queue (`__block_task()`).
    pub(super) fn count_io_wait(&mut self, cpu: CpuId, id: TaskId) {
        self.tasks[id.index()].counted_in_iowait = true;
        self.rqs[cpu.index()].nr_iowait += 1;
    }

    /// It is woken; its CPU counts it no more (`try_to_wake_up()`, `ttwu_do_activate()`).
    #[inline]
    pub(super) fn end_io_wait(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if std::mem::take(&mut task.counted_in_iowait) {
            self.rqs[task.cpu.index()].nr_iowait -= 1;
        }
    }

    /// A task that waited for I/O is about to be enqueued on `cpu`: the governor of its frequency
    /// hears of that alone (`SCHED_CPUFREQ_IOWAIT`), before what the task adds is known.
    #[cold]
    pub(super) fn boost_after_io(&mut self, cpu: CpuId) {
        if self.schedutil.is_some() {
            let rq = &mut self.rqs[cpu.index()];
            (rq.util_changed, rq.io_ended) = (true, true);
            self.publish(cpu);
        }
    }
}

//! What power-aware scheduling knows of tasks and run queues, kept up to date. Its decisions are in
//! [`crate::fair::power_aware`].

use super::Scheduler;
use crate::fair::TaskId;
use crate::fair::power_aware::balance::Moment;
use schedlab_machine::CpuId;

/// Groups are emptied after so many of a domain's longest intervals without balancing.
const QUIET_INTERVALS: u64 = 8;

impl Scheduler {
    /// `update_rq_runnable_avg()`.
    pub(super) fn track_queue(&mut self, cpu: CpuId) {
        let runnable = self.nr_running(cpu) > 0;
        let rq = &mut self.rqs[cpu.index()];
        rq.runnable.update(rq.clock.clock_task, runnable);
    }

    /// `update_entity_load_avg()`, and the queue with it.
    pub(super) fn track_task(&mut self, cpu: CpuId, id: TaskId) {
        let now_ns = self.rqs[cpu.index()].clock.clock_task;
        let entity = &self.entities[id.index()];
        let (on_rq, weight) = (entity.on_rq, entity.load.unscaled());
        self.tasks[id.index()].runnable.update_task(now_ns, on_rq, weight);
        self.track_queue(cpu);
    }

    /// When `cpu` tries to balance in its domain at `level`.
    pub(super) fn moment(&self, cpu: CpuId, level: usize, jiffies: u64) -> Moment {
        let longest_ms = self.domains.get(self.domains.stack(cpu)[level]).interval_max_ms;
        Moment {
            jiffies,
            last_balance: self.rqs[cpu.index()].balance.levels[level].last_balance(),
            quiet_interval: self.jiffies_of_ms(QUIET_INTERVALS * u64::from(longest_ms)),
        }
    }
}

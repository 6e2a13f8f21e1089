//! Which CPUs a task may use, and what becomes of one that may not stay where it is
//! (`sched_setaffinity()`).

use super::{AffinityId, Scheduler, TaskState};
use crate::fair::TaskId;
use crate::hardware::Hardware;
use schedlab_machine::{CpuId, CpuSet};

impl Scheduler {
    /// The current task of `cpu` changes the CPUs that it may use. If `cpu` is not one of them, the
    /// stopper thread takes the CPU from it and moves it (`__set_cpus_allowed_ptr()`,
    /// `migration_cpu_stop()`). Returns where it is now; the caller schedules next.
    pub fn set_affinity(
        &mut self,
        cpu: CpuId,
        affinity: AffinityId,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        let Some(id) = self.rqs[cpu.index()].curr else { return cpu };
        if self.is_deadline(id) {
            // Its reservation is one of all CPUs together: EBUSY.
            return cpu;
        }
        let allowed = self.affinities[affinity.0 as usize] & CpuSet::first_n(self.cpus.len());
        if self.stays(id) && !allowed.contains(cpu) {
            // It has asked to stay: EBUSY.
            return cpu;
        }
        self.set_allowed_outside(id, affinity);
        if self.is_rt(id) {
            self.rt.entities[id.index()].cpus_allowed = allowed.weight() as u32;
        }
        if allowed.contains(cpu) {
            return cpu;
        }
        let Some(to_cpu) = self.any_in_turn(cpu, &allowed) else { return cpu };
        self.preempt_for_stopper(cpu, id, hardware);
        self.move_queued(id, to_cpu, cpu, hardware);
        to_cpu
    }

    /// A task may use this CPU alone from here on, if it sleeps and has left its queue; else it stays
    /// as it is.
    pub fn bind_asleep(&mut self, id: TaskId, cpu: CpuId) {
        let asleep = self.tasks[id.index()].state == TaskState::Blocked;
        if asleep && !self.entities[id.index()].on_rq {
            let affinity = self.affinity(CpuSet::of(cpu));
            self.set_allowed_outside(id, affinity);
        }
    }

    /// Any of several CPUs: the next after the one that code on `executing_cpu` chose last
    /// (`cpumask_any_distribute()`).
    pub(super) fn any_in_turn(&mut self, executing_cpu: CpuId, from: &CpuSet) -> Option<CpuId> {
        let last = &mut self.rqs[executing_cpu.index()].chosen_last;
        let next = CpuId(last.map_or(1, |last| last.0 + 1));
        let chosen = from.next_wrapping(next);
        *last = chosen;
        chosen
    }
}

//! What must hold of real-time tasks between any two steps, as a check that tests run.

use super::super::Scheduler;
use crate::fair::TaskId;
use crate::rt::NOT_RT;
use crate::rt::cpupri::{Level, PriorityMap};
use schedlab_machine::CpuId;

impl Scheduler {
    /// The real-time part of [`Scheduler::verify`]: counts what is on `cpu`'s queue in `places`.
    pub(in super::super) fn verify_rt_queue(
        &self,
        cpu: CpuId,
        places: &mut [u32],
    ) -> Result<(), String> {
        if !self.rt.active {
            return Ok(());
        }
        let part = &self.rt.queues[cpu.index()];
        let rq = &self.rqs[cpu.index()];
        let wrong = |what: String| Err(format!("real-time queue of CPU {}: {what}", cpu.0));
        let (mut last, mut count) = (0, 0);
        for id in part.queue.iter(&self.rt.entities) {
            let entity = &self.rt.entities[id.index()];
            places[id.index()] += 1;
            count += 1;
            if entity.prio >= NOT_RT || entity.prio < last || !entity.on_rq {
                return wrong(format!("task {} has no place at priority {last}", id.0));
            }
            last = entity.prio;
            if self.tasks[id.index()].cpu != cpu || !self.allowed(id).contains(cpu) {
                return wrong(format!("task {} belongs elsewhere", id.0));
            }
            let offered = part.queue.pushable().contains(&(entity.prio, id));
            if offered != (rq.curr != Some(id) && entity.is_migratable()) {
                return wrong(format!("task {} is offered to others: {offered}", id.0));
            }
        }
        if count != part.queue.nr_running() {
            return wrong(format!("it counts {}, but holds {count}", part.queue.nr_running()));
        }
        let overloaded = !part.queue.pushable().is_empty();
        if (part.overloaded, self.rt.overloaded.contains(cpu)) != (overloaded, overloaded) {
            return wrong(format!("overloaded: {}, but {overloaded}", part.overloaded));
        }
        let level = Level::of_prio(part.queue.highest());
        if self.rt.map.level(cpu) != level && !part.served {
            return wrong(format!("the map says {:?}", self.rt.map.level(cpu)));
        }
        // Nothing less urgent runs than what waits here, or the CPU is about to change that.
        let highest = part.queue.highest();
        let runs = !part.is_held_back();
        if runs && highest < NOT_RT.min(self.curr_prio(cpu)) && !self.need_resched(cpu) {
            return wrong(format!("priority {highest} waits"));
        }
        Ok(())
    }

    /// The real-time part of the whole machine.
    pub(in super::super) fn verify_rt(&self) -> Result<(), String> {
        let weight = self.rt.overloaded.weight() as u32;
        if self.rt.overload_count != weight {
            return Err(format!("{} CPUs are overloaded, of {weight}", self.rt.overload_count));
        }
        let rounds = self.rt.rounds_asked != self.rt.rounds_begun;
        if self.rt.active && rounds && self.rt.visited.is_none() {
            return Err("overloaded CPUs should push, but no interrupt is on its way".to_owned());
        }
        Ok(())
    }

    /// A real-time task that waits although a CPU which it may use runs nothing as urgent, and
    /// that CPU: what pushing and pulling are there to end. Tasks about to run are left out.
    pub fn neglected(&self) -> Option<(TaskId, CpuId)> {
        if !self.rt.active {
            return None;
        }
        self.rt.overloaded.iter().find_map(|cpu| {
            let queue = &self.rt.queues[cpu.index()].queue;
            let &(prio, id) = queue.pushable().first()?;
            if queue.first() == Some(id) || self.rt.queues[cpu.index()].is_held_back() {
                return None;
            }
            let less = |&other: &CpuId| {
                let part = &self.rt.queues[other.index()];
                part.queue.highest() > prio && !part.served && !part.is_held_back()
            };
            let other =
                self.allowed(id).iter().filter(|cpu| cpu.index() < self.rqs.len()).find(less);
            other.map(|other| (id, other))
        })
    }
}

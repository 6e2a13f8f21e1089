//! What must hold of deadline tasks between any two steps, as a check that tests run.

use super::super::Scheduler;
use crate::deadline::entity::{before, fits};
use crate::fair::TaskId;
use crate::rt::Limit;
use schedlab_machine::CpuId;

impl Scheduler {
    /// The deadline part of [`Scheduler::verify`]: counts what is on `cpu`'s queue in `places`.
    pub(in super::super) fn verify_dl_queue(
        &self,
        cpu: CpuId,
        places: &mut [u32],
    ) -> Result<(), String> {
        let Some(part) = self.dl.queues.get(cpu.index()) else { return Ok(()) };
        let rq = &self.rqs[cpu.index()];
        let wrong = |what: String| Err(format!("deadline queue of CPU {}: {what}", cpu.0));
        let mut last_ns = None;
        for &(deadline_ns, id) in part.queue.all() {
            let entity = &self.dl.entities[id.index()];
            places[id.index()] += 1;
            let in_order = last_ns.is_none_or(|last_ns| !before(deadline_ns, last_ns));
            if !in_order || deadline_ns != entity.deadline_ns() || !entity.queued {
                return wrong(format!("task {} has no place at {deadline_ns}", id.0));
            }
            last_ns = Some(deadline_ns);
            if self.tasks[id.index()].cpu != cpu || entity.is_throttled() {
                return wrong(format!("task {} belongs elsewhere", id.0));
            }
            let offered = part.pushable.all().contains(&(deadline_ns, id));
            if offered != (rq.curr != Some(id) && self.roams(id)) {
                return wrong(format!("task {} is offered to others: {offered}", id.0));
            }
        }
        for &id in &part.throttled {
            let entity = &self.dl.entities[id.index()];
            places[id.index()] += 1;
            if entity.queued || !entity.is_throttled() || !entity.armed || !entity.on_rq {
                return wrong(format!("task {} waits for no period", id.0));
            }
        }
        if self.dl.overloaded.contains(cpu) != part.pushable.first().is_some() {
            return wrong("whether it is overloaded is not known".to_owned());
        }
        let contends = |(index, entity): (usize, &crate::deadline::entity::DlEntity)| {
            let here = entity.contending && self.tasks[index].cpu == cpu;
            here.then(|| entity.reservation().bandwidth())
        };
        let bw: u64 = self.dl.entities.iter().enumerate().filter_map(contends).sum();
        if bw != part.running_bw {
            return wrong(format!("it counts a bandwidth of {}, of {bw}", part.running_bw));
        }
        let first = self.first_dl(cpu);
        if first.is_some_and(|first| rq.curr != Some(first)) && !self.need_resched(cpu) {
            return wrong(format!("{first:?} waits, but {:?} runs", rq.curr));
        }
        Ok(())
    }

    /// The deadline part of the whole machine: what its tasks reserve fits.
    pub(in super::super) fn verify_dl(&self) -> Result<(), String> {
        let reserved: u64 = self
            .dl
            .entities
            .iter()
            .filter(|e| e.is_deadline())
            .map(|e| e.reservation().bandwidth())
            .sum();
        let capacity = self.cpus.iter().map(|state| state.capacity_orig).sum();
        if self.config.rt.limit != Limit::None && !fits(reserved, capacity) {
            return Err(format!("a bandwidth of {reserved} is reserved on {capacity}"));
        }
        Ok(())
    }

    /// A deadline task that waits although a CPU runs nothing of an earlier deadline, and that CPU:
    /// what pushing and pulling are there to end. Tasks about to run are left out.
    pub fn neglected_deadline(&self) -> Option<(TaskId, CpuId)> {
        self.dl.overloaded.iter().find_map(|cpu| {
            let (_, id) = self.dl.queues[cpu.index()].pushable.first()?;
            if self.first_dl(cpu) == Some(id) {
                return None;
            }
            let mut others = (0..self.rqs.len()).map(|index| CpuId(index as u32));
            let takes =
                |&other: &CpuId| self.allowed(id).contains(other) && self.is_earliest(id, other);
            others.find(takes).map(|other| (id, other))
        })
    }
}

//! The deadline class at work: queueing by earliest deadline first (EDF), run time by constant
//! bandwidth servers (CBS), preemption, and what a tick does (`kernel/sched/deadline.c`, 6.12).
//! Where a task goes is decided in `select`, how waiting ones get to other CPUs in `push_pull`, and
//! when they get new run time in `timers`.
//!
//! Tasks are deadline tasks from their birth on: that one becomes one, or ceases to be, is not
//! modelled, nor are inheritance of deadlines through locks and reclaiming of unused bandwidth
//! (`SCHED_FLAG_RECLAIM`).

mod push_pull;
mod select;
mod timers;
mod verify;

use super::Scheduler;
use crate::deadline::cpudl::DeadlineMap;
use crate::deadline::entity::{DlEntity, Reservation, Spent, Why, before};
use crate::deadline::queue::ByDeadline;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use crate::pelt::Avg;
use crate::rt::Limit;
use crate::rt::RT_RUNTIME_NS;
use schedlab_machine::{CpuId, CpuSet};
use timers::Timer;

/// The deadline tasks of all CPUs. Without any, nothing of it is built, and nothing is looked at but
/// whether it is.
#[derive(Debug, Default)]
pub(super) struct DlClass {
    /// There is a deadline task, or was.
    pub active: bool,
    /// By CPU number.
    pub queues: Vec<DlRunQueue>,
    /// By task number; of other tasks they say nothing.
    pub entities: Vec<DlEntity>,
    /// The earliest deadline of every CPU.
    map: Option<DeadlineMap>,
    /// By CPU number, where they differ.
    capacities: Option<Vec<u64>>,
    /// CPUs that hold tasks for others (`rd->dlo_mask`).
    overloaded: CpuSet,
}

/// One CPU's part (`struct dl_rq`).
#[derive(Clone, Debug, Default)]
pub(super) struct DlRunQueue {
    /// Tasks that may run, the running one included.
    pub queue: ByDeadline,
    /// Of these, those that other CPUs may take (`pushable_dl_tasks_root`).
    pushable: ByDeadline,
    /// Runnable tasks without run time, which wait for their next period.
    throttled: Vec<TaskId>,
    /// How busy the CPU is with deadline tasks (`rq->avg_dl`).
    pub avg: Avg,
    /// Bandwidth of its tasks that is in use (`running_bw`).
    pub running_bw: u64,
    /// The earliest deadline as the map knows it (`earliest_dl.curr`).
    earliest_ns: Option<u64>,
    /// Timers of tasks, armed on this CPU.
    timers: Vec<Timer>,
}

impl Scheduler {
    /// True if a task is a deadline task.
    #[inline]
    pub(super) fn is_deadline(&self, id: TaskId) -> bool {
        self.dl.active && self.dl.entities[id.index()].is_deadline()
    }

    /// Takes down what a new task, the last of the table, is to the deadline class.
    pub(super) fn create_dl(&mut self, reservation: Option<Reservation>) {
        if reservation.is_some() && !self.dl.active {
            self.activate_dl();
        }
        if self.dl.active {
            self.dl.entities.push(reservation.map_or_else(DlEntity::default, DlEntity::new));
        }
    }

    /// The first deadline task comes. Real-time tasks may come later.
    fn activate_dl(&mut self) {
        let cpus = self.rqs.len();
        let mut map = DeadlineMap::new(cpus);
        for index in 0..cpus {
            map.clear(CpuId(index as u32), true);
        }
        let capacities = self.cpus.iter().map(|state| state.capacity_orig).collect();
        self.dl = DlClass {
            active: true,
            queues: vec![DlRunQueue::default(); cpus],
            entities: vec![DlEntity::default(); self.tasks.len() - 1],
            map: Some(map),
            capacities: self.domains.asym_cpucapacity_active().then_some(capacities),
            overloaded: CpuSet::EMPTY,
        };
        for index in 0..cpus {
            self.note_deadlines(CpuId(index as u32));
        }
    }

    /// Deadline tasks on a CPU that may run (`dl_nr_running`, servers aside).
    #[inline]
    pub(super) fn dl_nr_running(&self, cpu: CpuId) -> u32 {
        if self.dl.active { self.dl.queues[cpu.index()].queue.all().len() as u32 } else { 0 }
    }

    /// What a CPU waits for until its earliest deadline, of a task or of the fair tasks' server,
    /// changed: maps of deadlines and priorities are told (`inc_dl_deadline()`,
    /// `dec_dl_deadline()`).
    pub(super) fn note_deadlines(&mut self, cpu: CpuId) {
        let server = &self.rt.queues[cpu.index()].server;
        let mut earliest_ns = server.is_queued().then(|| server.deadline_ns());
        if let Some((deadline_ns, _)) =
            self.dl.queues.get(cpu.index()).and_then(|part| part.queue.first())
            && earliest_ns.is_none_or(|server_ns| before(deadline_ns, server_ns))
        {
            earliest_ns = Some(deadline_ns);
        }
        self.note_served(cpu, earliest_ns.is_some());
        let (Some(part), Some(map)) = (self.dl.queues.get_mut(cpu.index()), &mut self.dl.map)
        else {
            return;
        };
        if std::mem::replace(&mut part.earliest_ns, earliest_ns) != earliest_ns {
            match earliest_ns {
                Some(deadline_ns) => map.set(cpu, deadline_ns),
                None => map.clear(cpu, true),
            }
        }
    }

    /// Puts a task that may run into its CPU's queue (`__enqueue_dl_entity()`).
    fn insert_dl(&mut self, cpu: CpuId, id: TaskId) {
        let entity = &mut self.dl.entities[id.index()];
        entity.queued = true;
        self.dl.queues[cpu.index()].queue.insert(entity.deadline_ns(), id);
        self.note_deadlines(cpu);
        if self.rqs[cpu.index()].curr != Some(id) {
            self.offer_dl(cpu, id);
        }
        self.overloaded |= self.nr_running(cpu) == 2;
    }

    /// Takes it off (`__dequeue_dl_entity()`).
    fn remove_dl(&mut self, cpu: CpuId, id: TaskId) {
        if std::mem::take(&mut self.dl.entities[id.index()].queued) {
            self.dl.queues[cpu.index()].queue.remove(id);
            self.withdraw_dl(cpu, id);
            self.note_deadlines(cpu);
        }
    }

    /// Enqueues a task on `cpu`, which it must already belong to (`enqueue_task_dl()`).
    pub(super) fn enqueue_dl(&mut self, cpu: CpuId, id: TaskId, why: Why) {
        if why != Why::Replenish {
            self.contend(cpu, id);
        }
        let now_ns = self.rqs[cpu.index()].clock.clock;
        let entity = &mut self.dl.entities[id.index()];
        entity.on_rq = true;
        if entity.enqueue(why, now_ns) {
            self.insert_dl(cpu, id);
        } else {
            self.wait_for_period(cpu, id);
        }
        self.publish(cpu);
    }

    /// Takes a task off `cpu`'s queue (`dequeue_task_dl()`).
    pub(super) fn dequeue_dl(&mut self, cpu: CpuId, id: TaskId, sleeps: bool) {
        if self.rqs[cpu.index()].curr == Some(id) {
            self.update_curr_dl(cpu, id);
        }
        self.remove_dl(cpu, id);
        self.dl.entities[id.index()].on_rq = false;
        self.dl.queues[cpu.index()].throttled.retain(|&other| other != id);
        if sleeps {
            self.stop_contending(cpu, id);
        } else {
            self.leave_bandwidth(cpu, id);
        }
        self.publish(cpu);
    }

    /// Accounts the run time of the current task, which must be a deadline task
    /// (`update_curr_dl()`): if it used its own up, it waits for its next period.
    fn update_curr_dl(&mut self, cpu: CpuId, id: TaskId) {
        if !self.dl.entities[id.index()].queued {
            return;
        }
        let rq = &self.rqs[cpu.index()];
        let (now_ns, clock_ns) = (rq.clock.clock_task, rq.clock.clock);
        let (frequency, capacity) = (rq.frequency, self.cpus[cpu.index()].capacity_orig);
        let entity = &mut self.entities[id.index()];
        let delta_ns = now_ns.saturating_sub(entity.exec_start_ns);
        entity.sum_exec_runtime_ns += delta_ns;
        entity.exec_start_ns = now_ns;
        // Run time is that of the biggest CPU at full speed (dl_scaled_delta_exec()).
        let scaled_ns = (((delta_ns * frequency) >> 10) * capacity) >> 10;
        let spent = self.dl.entities[id.index()].account(scaled_ns, clock_ns);
        if spent != Spent::No {
            self.remove_dl(cpu, id);
            match spent {
                Spent::Replenish => self.enqueue_dl(cpu, id, Why::Replenish),
                _ => self.wait_for_period(cpu, id),
            }
            if self.first_dl(cpu) != Some(id) {
                self.rqs[cpu.index()].need_resched = true;
            }
        }
        // Throttled real-time tasks pay for deadline tasks, too.
        if matches!(self.config.rt.limit, Limit::Throttling | Limit::ThrottlingShared) {
            let accounts = self.rt.period_end_ns.is_some();
            let part = &mut self.rt.queues[cpu.index()];
            if accounts || part.time_ns < RT_RUNTIME_NS {
                part.time_ns += delta_ns;
            }
        }
    }

    /// Ages how busy a CPU is with deadline tasks (`update_dl_rq_load_avg()`).
    fn update_dl_load(&mut self, cpu: CpuId, running: bool) {
        let now = self.rqs[cpu.index()].clock.pelt();
        self.dl.queues[cpu.index()].avg.update_class_rq(now, running);
    }

    /// The same for a CPU that may sleep. `true` if it still decays.
    pub(super) fn age_dl_load(&mut self, cpu: CpuId) -> bool {
        if !self.dl.active {
            return false;
        }
        let curr = self.rqs[cpu.index()].curr;
        self.update_dl_load(cpu, curr.is_some_and(|curr| self.is_deadline(curr)));
        self.dl.queues[cpu.index()].avg.util_avg != 0
    }

    /// The tick's part (`task_tick_dl()`).
    pub(super) fn tick_dl(&mut self, cpu: CpuId, id: TaskId, hardware: &mut impl Hardware) {
        self.update_curr_dl(cpu, id);
        self.update_dl_load(cpu, true);
        self.publish(cpu);
        self.arm_timer(cpu, hardware);
    }

    /// The current task gives up the rest of its run time (`yield_task_dl()`).
    pub(super) fn yield_dl(&mut self, cpu: CpuId, id: TaskId) {
        self.dl.entities[id.index()].give_up();
        self.update_curr_dl(cpu, id);
        self.publish(cpu);
    }

    /// The current task, a deadline task, leaves the CPU (`put_prev_task_dl()`).
    pub(super) fn put_prev_dl(&mut self, cpu: CpuId, id: TaskId) {
        self.update_curr_dl(cpu, id);
        self.update_dl_load(cpu, true);
        if self.dl.entities[id.index()].queued {
            self.offer_dl(cpu, id);
        }
    }

    /// A deadline task gets the CPU (`set_next_task_dl()`).
    pub(super) fn set_next_dl(&mut self, cpu: CpuId, id: TaskId, prev: Option<TaskId>) {
        self.entities[id.index()].exec_start_ns = self.rqs[cpu.index()].clock.clock_task;
        self.withdraw_dl(cpu, id);
        if !prev.is_some_and(|prev| self.is_deadline(prev)) {
            self.update_dl_load(cpu, false);
        }
    }

    /// The task whose turn it is by deadlines, unless it is the fair tasks' (`pick_task_dl()`).
    fn first_dl(&self, cpu: CpuId) -> Option<TaskId> {
        let (deadline_ns, id) = self.dl.queues[cpu.index()].queue.first()?;
        let server = &self.rt.queues[cpu.index()].server;
        let fair_first = server.is_queued() && before(server.deadline_ns(), deadline_ns);
        (!fair_first).then_some(id)
    }

    /// The next deadline task, if there is one and the fair tasks' server does not come before it.
    /// A CPU whose deadline task went to sleep first looks at what waits elsewhere
    /// (`balance_dl()`).
    pub(super) fn pick_dl(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> Option<TaskId> {
        if let Some(prev) = self.rqs[cpu.index()].curr
            && self.is_deadline(prev)
            && !self.dl.entities[prev.index()].queued
        {
            self.pull_dl(cpu, hardware);
        }
        let first = self.first_dl(cpu);
        if first.is_some() || self.dl_nr_running(cpu) == 0 {
            return first;
        }
        if self.rqs[cpu.index()].fair.nr_running() > 0 {
            return None;
        }
        self.end_service(cpu);
        self.first_dl(cpu)
    }

    /// The current task of `cpu` was a deadline task and leaves none behind, so that real-time tasks
    /// have their turn.
    pub(super) fn deadlines_end(&self, cpu: CpuId) -> bool {
        let prev = self.rqs[cpu.index()].curr;
        prev.is_some_and(|prev| self.is_deadline(prev) && !self.dl.entities[prev.index()].queued)
            && self.dl_nr_running(cpu) == 0
            && !self.rt.queues[cpu.index()].server.is_queued()
    }

    /// `wakeup_preempt_dl()`: the earlier deadline takes the CPU. Of equals the new one does if it
    /// can go nowhere else, but the current one can.
    pub(super) fn preempt_dl(&mut self, cpu: CpuId, id: TaskId, curr: TaskId) {
        let (new, old) = (self.dl.entities[id.index()], self.dl.entities[curr.index()]);
        let equal = new.deadline_ns() == old.deadline_ns() && !self.need_resched(cpu);
        let resched = new.preempts(&old)
            || (equal
                && self.roams(curr)
                && self.finds_later(curr)
                && !(self.roams(id) && self.finds_later(id)));
        if resched {
            self.rqs[cpu.index()].need_resched = true;
        }
    }
}

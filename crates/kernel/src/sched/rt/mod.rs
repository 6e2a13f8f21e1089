//! The real-time class at work: queueing, preemption, time slices and what a tick does
//! (`kernel/sched/rt.c`, 6.12). Where a task goes is decided in `select`, how waiting ones get
//! to other CPUs in `push_pull`.

mod limit;
mod lines;
mod push_pull;
mod select;
mod verify;

use super::{Class, Scheduler};
use crate::deadline::fair_server::FairServer;
use crate::fair::TaskId;
use crate::hardware::Hardware;
use crate::pelt::Avg;
use crate::rt::cpupri::{Groups, Layout, Level, PriorityMap};
use crate::rt::queue::{RtEntity, RtQueue};
use crate::rt::{NOT_RT, RR_TIMESLICE_MS, RT_RUNTIME_NS, RealTime, RtPolicy};
use schedlab_machine::{CpuId, CpuSet};

/// The kernel's priority of the idle task; fair tasks have 100 to 139.
const IDLE_PRIO: u8 = 140;

/// The kernel's priority of a fair task of nice 0, as far as real-time tasks care.
const FAIR_PRIO: u8 = 120;

/// The real-time tasks of all CPUs. Without any, nothing of it is built, and nothing is looked at
/// but whether it is.
#[derive(Debug)]
pub(super) struct RtClass {
    /// There is a real-time task, or was.
    pub active: bool,
    /// By CPU number.
    pub queues: Vec<RtRunQueue>,
    /// By task number; of fair tasks they say nothing.
    pub entities: Vec<RtEntity>,
    /// What every CPU runs.
    pub map: lines::RtMap,
    /// Where cache lines are modelled, which CPUs its layout keeps together.
    pub groups: Option<Groups>,
    /// CPUs that hold tasks for others (`rd->rto_mask`, `rto_count`).
    pub overloaded: CpuSet,
    pub overload_count: u32,
    /// The CPU at which the interrupt that makes overloaded CPUs push is (`rd->rto_cpu`).
    pub visited: Option<CpuId>,
    /// Rounds of that interrupt, as asked for and as begun (`rto_loop_next`, `rto_loop`).
    pub rounds_asked: u32,
    pub rounds_begun: u32,
    /// When the period of throttling ends, ns, and on which CPU the timer fires.
    pub period_end_ns: Option<(CpuId, u64)>,
}

/// One CPU's part (`struct rt_rq`).
#[derive(Clone, Debug, Default)]
pub(super) struct RtRunQueue {
    pub queue: RtQueue,
    /// How busy the CPU is with real-time tasks (`rq->avg_rt`).
    pub avg: Avg,
    /// It holds tasks for others.
    pub overloaded: bool,
    /// The interrupt that makes it push is on its way.
    pub push_asked: bool,
    /// What real-time tasks ran in this period, and what they may, ns.
    pub time_ns: u64,
    pub runtime_ns: u64,
    /// They ran longer, and wait for the next period.
    pub throttled: bool,
    /// Keeps fair tasks from starving.
    pub server: FairServer,
    /// It or a deadline task has its turn, as the map of priorities knows.
    pub served: bool,
    /// Run time of the current fair task up to which the server knows it, ns.
    pub fair_seen_ns: u64,
    /// From when on idle time is yet to be accounted to the server, ns of the task clock.
    pub idle_from_ns: u64,
    /// When the hardware's timer fires, ns.
    pub armed_ns: Option<u64>,
}

impl RtRunQueue {
    /// Tasks that may run (`rt_queued`).
    #[inline]
    pub(super) fn nr_running(&self) -> u32 {
        if self.throttled { 0 } else { self.queue.nr_running() }
    }

    /// Its tasks do not run, however urgent they are.
    pub(super) fn is_held_back(&self) -> bool {
        self.throttled || self.server.is_queued()
    }
}

impl RtClass {
    pub(super) fn new() -> RtClass {
        RtClass {
            active: false,
            queues: Vec::new(),
            entities: Vec::new(),
            map: lines::RtMap::new(0, Layout::Global, None),
            groups: None,
            overloaded: CpuSet::EMPTY,
            overload_count: 0,
            visited: None,
            rounds_asked: 0,
            rounds_begun: 0,
            period_end_ns: None,
        }
    }
}

impl Scheduler {
    /// True if a task is a real-time one.
    #[inline]
    pub(super) fn is_rt(&self, id: TaskId) -> bool {
        self.rt.active && self.rt.entities[id.index()].prio < NOT_RT
    }

    /// Ticks of a `SCHED_RR` task's turn.
    fn time_slice(&self) -> u32 {
        (RR_TIMESLICE_MS * self.config.hz / 1000).max(1)
    }

    /// Takes down what a new task, the last of the table, is to the real-time class.
    pub(super) fn create_rt(&mut self, real_time: Option<RealTime>) {
        if real_time.is_some() && !self.rt.active {
            self.activate_rt();
        }
        if self.rt.active {
            let id = TaskId(self.tasks.len() as u32 - 1);
            let cpus = self.allowed(id).weight_and(&CpuSet::first_n(self.cpus.len())) as u32;
            let (policy, prio) =
                real_time.map_or((RtPolicy::Fifo, NOT_RT), |rt| (rt.policy, rt.priority.prio()));
            self.rt.entities.push(RtEntity::new(policy, prio, self.time_slice(), cpus));
        }
    }

    /// The first real-time task comes.
    pub(super) fn activate_rt(&mut self) {
        let cpus = self.rqs.len();
        let fair = RtEntity::new(RtPolicy::Fifo, NOT_RT, 0, 0);
        self.rt.active = true;
        let part = |rq: &super::RunQueue| RtRunQueue {
            runtime_ns: RT_RUNTIME_NS,
            idle_from_ns: rq.clock.clock_task,
            ..RtRunQueue::default()
        };
        self.rt.queues = self.rqs.iter().map(part).collect();
        self.rt.entities = vec![fair; self.tasks.len() - 1];
        let layout = self.config.rt.priority_map;
        self.rt.map = lines::RtMap::new(cpus, layout, self.rt.groups.as_ref());
        for index in 0..cpus {
            self.rt.map.set(CpuId(index as u32), Some(Level::NORMAL));
        }
        self.rt.map.forget_touches();
        for index in 0..cpus {
            let cpu = CpuId(index as u32);
            if let Some(curr) = self.rqs[index].curr {
                let total_ns = self.entities[curr.index()].sum_exec_runtime_ns;
                self.rt.queues[index].fair_seen_ns = total_ns;
            }
            if self.rqs[index].fair.nr_running() > 0 {
                // The server was there before, so that the CPU need not schedule because of it.
                let resched = self.rqs[index].need_resched;
                self.serve_fair(cpu, false);
                self.rqs[index].need_resched = resched;
            }
        }
        self.sums.expect_reduced();
    }

    /// Tasks of all classes on a CPU (`rq->nr_running`).
    #[inline]
    pub(super) fn nr_running(&self, cpu: CpuId) -> u32 {
        let fair = self.rqs[cpu.index()].fair.nr_running();
        if !self.rt.active {
            return fair;
        }
        fair + self.rt_nr_running(cpu) + self.dl_nr_running(cpu)
    }

    /// Real-time tasks on a CPU that may run (`rt_rq->rt_queued`).
    #[inline]
    pub(super) fn rt_nr_running(&self, cpu: CpuId) -> u32 {
        self.rt.queues[cpu.index()].nr_running()
    }

    /// The priority of what a CPU runs (`rq->curr->prio`).
    fn curr_prio(&self, cpu: CpuId) -> u8 {
        let rq = &self.rqs[cpu.index()];
        match rq.curr {
            // Nothing is more urgent than the stopper thread, or a deadline task.
            None if rq.stopper_ran => 0,
            None => IDLE_PRIO,
            Some(id) if self.is_deadline(id) => 0,
            Some(id) => match self.rt.entities[id.index()].prio {
                NOT_RT => FAIR_PRIO,
                prio => prio,
            },
        }
    }

    /// Accounts the run time of the current task, which must be a real-time one
    /// (`update_curr_rt()`).
    fn update_curr_rt(&mut self, cpu: CpuId, id: TaskId) {
        let now_ns = self.rqs[cpu.index()].clock.clock_task;
        let entity = &mut self.entities[id.index()];
        let delta_ns = now_ns.wrapping_sub(entity.exec_start_ns) as i64;
        if delta_ns > 0 {
            entity.sum_exec_runtime_ns += delta_ns as u64;
            entity.exec_start_ns = now_ns;
            self.account_rt(cpu, delta_ns as u64);
        }
    }

    /// Ages how busy a CPU is with real-time tasks (`update_rt_rq_load_avg()`).
    pub(super) fn update_rt_load(&mut self, cpu: CpuId, running: bool) {
        let now = self.rqs[cpu.index()].clock.pelt();
        self.rt.queues[cpu.index()].avg.update_class_rq(now, running);
    }

    /// The same for a CPU that may sleep. `true` if it still decays.
    pub(super) fn age_rt_load(&mut self, cpu: CpuId) -> bool {
        let curr = self.rqs[cpu.index()].curr;
        self.update_rt_load(cpu, curr.is_some_and(|curr| self.is_rt(curr)));
        self.rt.queues[cpu.index()].avg.util_avg != 0
    }

    /// True if a task is on the queue of its class.
    pub(super) fn is_queued(&self, id: TaskId) -> bool {
        match self.class(id) {
            Class::RealTime => self.rt.entities[id.index()].on_rq,
            Class::Deadline => self.dl.entities[id.index()].on_rq,
            Class::Fair => self.entities[id.index()].on_rq,
        }
    }

    /// Tells the map of priorities what the CPU's most urgent task is now, if that changed.
    fn note_highest(&mut self, cpu: CpuId, before: u8) {
        let highest = self.rt.queues[cpu.index()].queue.highest();
        if highest != before {
            self.rt.map.set(cpu, Level::of_prio(highest));
        }
    }

    /// Tells it that deadline tasks, or the server of the fair ones, have their turn, or have it no
    /// longer.
    pub(super) fn note_served(&mut self, cpu: CpuId, served: bool) {
        let part = &mut self.rt.queues[cpu.index()];
        if std::mem::replace(&mut part.served, served) == served {
            return;
        }
        let own = Level::of_prio(part.queue.highest());
        self.rt.map.set(cpu, if served { Some(Level::HIGHER) } else { own });
    }

    /// Enqueues a task on `cpu`, which it must already belong to (`enqueue_task_rt()`).
    pub(super) fn enqueue_rt(&mut self, cpu: CpuId, id: TaskId) {
        let before = self.rt.queues[cpu.index()].queue.highest();
        self.rt.queues[cpu.index()].queue.enqueue(&mut self.rt.entities, id, false);
        self.note_highest(cpu, before);
        self.start_period(cpu);
        if self.rqs[cpu.index()].curr != Some(id) {
            self.offer(cpu, id);
        }
        self.note_second(cpu);
        self.rqs[cpu.index()].util_changed = true;
        self.publish(cpu);
    }

    /// Takes a task off `cpu`'s queue (`dequeue_task_rt()`).
    pub(super) fn dequeue_rt(&mut self, cpu: CpuId, id: TaskId) {
        if self.rqs[cpu.index()].curr == Some(id) {
            self.update_curr_rt(cpu, id);
        }
        let before = self.rt.queues[cpu.index()].queue.highest();
        self.rt.queues[cpu.index()].queue.dequeue(&mut self.rt.entities, id);
        self.note_highest(cpu, before);
        self.withdraw(cpu, id);
        self.publish(cpu);
    }

    /// The current task goes behind its equals (`yield_task_rt()`).
    pub(super) fn yield_rt(&mut self, cpu: CpuId, id: TaskId) {
        self.rt.queues[cpu.index()].queue.requeue(&mut self.rt.entities, id, false);
    }

    /// The tick's part: a `SCHED_RR` task that had its turn goes behind its equals
    /// (`task_tick_rt()`).
    pub(super) fn tick_rt(&mut self, cpu: CpuId, id: TaskId) {
        self.update_curr_rt(cpu, id);
        self.update_rt_load(cpu, true);
        self.publish(cpu);
        let entity = &mut self.rt.entities[id.index()];
        if entity.policy != RtPolicy::RoundRobin {
            return;
        }
        entity.time_slice -= 1;
        if entity.time_slice > 0 {
            return;
        }
        self.rt.entities[id.index()].time_slice = self.time_slice();
        if !self.rt.queues[cpu.index()].queue.is_alone(&self.rt.entities, id) {
            self.yield_rt(cpu, id);
            self.rqs[cpu.index()].need_resched = true;
        }
    }

    /// Decides whether a task of any class that was just enqueued on `cpu` takes the CPU over
    /// (`wakeup_preempt()`); there are real-time tasks.
    pub(super) fn preempt_by_class(&mut self, cpu: CpuId, id: TaskId) {
        let Some(curr) = self.rqs[cpu.index()].curr else {
            self.rqs[cpu.index()].need_resched = true;
            return;
        };
        match (self.class(id), self.class(curr)) {
            (Class::Deadline, Class::Deadline) => self.preempt_dl(cpu, id, curr),
            (Class::RealTime, Class::RealTime) => self.preempt_rt(cpu, id, curr),
            (Class::Fair, Class::Fair) => {
                let rq = &mut self.rqs[cpu.index()];
                rq.fair.check_preempt(&mut self.entities, id, rq.clock.clock_task);
            }
            (Class::Deadline, _) | (_, Class::Fair) => self.rqs[cpu.index()].need_resched = true,
            (_, Class::Deadline) | (Class::Fair, _) => {}
        }
    }

    /// `wakeup_preempt_rt()`: the more urgent task takes the CPU. Of equals the new one does if it
    /// can go nowhere else, but the current one can.
    fn preempt_rt(&mut self, cpu: CpuId, id: TaskId, curr: TaskId) {
        let (new, old) = (self.rt.entities[id.index()], self.rt.entities[curr.index()]);
        if new.prio < old.prio {
            self.rqs[cpu.index()].need_resched = true;
            return;
        }
        if new.prio > old.prio || self.need_resched(cpu) {
            return;
        }
        let Some(level) = Level::of_prio(new.prio) else { return };
        let goes = |id: TaskId| self.rt.map.any_lower(cpu, level, self.allowed_outside(id));
        if !old.is_migratable() || !goes(curr) || (new.is_migratable() && goes(id)) {
            return;
        }
        self.rt.queues[cpu.index()].queue.requeue(&mut self.rt.entities, id, true);
        self.rqs[cpu.index()].need_resched = true;
    }

    /// The current task, a real-time one, leaves the CPU (`put_prev_task_rt()`).
    pub(super) fn put_prev_rt(&mut self, cpu: CpuId, id: TaskId) {
        self.update_curr_rt(cpu, id);
        self.update_rt_load(cpu, true);
        if self.rt.entities[id.index()].on_rq {
            self.offer(cpu, id);
        }
    }

    /// A real-time task gets the CPU (`set_next_task_rt()`).
    pub(super) fn set_next_rt(&mut self, cpu: CpuId, id: TaskId, prev: Option<TaskId>) {
        self.entities[id.index()].exec_start_ns = self.rqs[cpu.index()].clock.clock_task;
        self.withdraw(cpu, id);
        if !prev.is_some_and(|prev| self.is_rt(prev)) {
            self.update_rt_load(cpu, false);
        }
    }

    /// The next real-time task, if there is one. A CPU whose last real-time task went to sleep
    /// first looks at what waits elsewhere (`balance_rt()`, `pick_task_rt()`).
    pub(super) fn pick_rt(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> Option<TaskId> {
        let rq = &self.rqs[cpu.index()];
        let lowers = match rq.curr {
            Some(prev) => {
                let prev = self.rt.entities[prev.index()];
                (prev.prio < NOT_RT
                    && !prev.on_rq
                    && self.rt.queues[cpu.index()].queue.highest() > prev.prio)
                    || self.deadlines_end(cpu)
            }
            None => rq.stopper_ran,
        };
        if lowers {
            self.pull_rt(cpu, hardware);
        }
        let part = &self.rt.queues[cpu.index()];
        if part.server.is_queued() {
            if self.rqs[cpu.index()].fair.nr_running() > 0 {
                return None;
            }
            self.end_service(cpu);
        }
        let part = &self.rt.queues[cpu.index()];
        part.queue.first().filter(|_| !part.throttled)
    }
}

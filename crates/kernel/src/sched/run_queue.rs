//! One CPU's run queue: its fair tasks, clocks and averages.

use super::balance::QueueState;
use super::{Class, Scheduler, Task, TaskState};
use crate::deadline::entity::{BW_SHIFT, Why};
use crate::fair::TaskId;
use crate::fair::entity::{Dequeue, Enqueue, Entity};
use crate::fair::power_aware::tracking::RunnableAvg;
use crate::fair::queue::{FairQueue, FairRules};
use crate::fair::uclamp::QueuedClamps;
use crate::fair::view::Fit;
use crate::hardware::Hardware;
use crate::pelt::{Avg, EntityActivity, RqClock};
use schedlab_machine::CpuId;

/// `struct rq` with its `struct cfs_rq`. What most events need comes first, so that it is in few
/// cache lines.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct RunQueue {
    /// Clocks of real, task and PELT time.
    pub clock: RqClock,
    pub(super) curr: Option<TaskId>,
    pub(super) need_resched: bool,
    /// The CPU knows, or will by an interrupt.
    pub(super) told: bool,
    /// The stopper thread has the CPU.
    pub(super) stopper_ran: bool,
    /// Its utilisation changed, of which the governor of its frequency is yet to hear.
    pub(super) util_changed: bool,
    /// A task that waited for I/O is being enqueued, of which that governor is yet to hear.
    pub(super) io_ended: bool,
    /// Sum of the estimates of its queued tasks.
    pub util_est: u64,
    /// How fast the CPU ran until the clocks were brought up to date, out of 1024.
    pub(super) frequency: u64,
    /// Sums of the averages of all its fair tasks, blocked ones included.
    pub avg: Avg,
    /// The fair tasks.
    pub fair: FairQueue,
    /// Its tasks, the one that ran or came last at the end (`cfs_tasks`, backwards).
    pub(super) tasks: Vec<TaskId>,
    /// When the CPU became idle, ns; 0 once a task was woken on it.
    pub(super) idle_stamp_ns: u64,
    /// How long the CPU idles at a time, on average, ns.
    pub(super) avg_idle_ns: u64,
    /// The longest time that balancing took before the CPU went idle, ns.
    pub(super) max_idle_balance_cost_ns: u64,
    /// How long a search for an idle CPU takes from here, on average, ns.
    pub(super) avg_scan_cost_ns: u64,
    /// What tasks that left while asleep still contribute.
    pub(super) removed: Removed,
    /// Wake-ups that other CPUs left here.
    pub(super) wake_list: Vec<TaskId>,
    /// What balancing remembers.
    pub(super) balance: QueueState,
    /// The share of time in which it had tasks, as power-aware scheduling tells it (`rq->avg`).
    pub(super) runnable: RunnableAvg,
    /// Tasks that wait for I/O and ran here last (`rq->nr_iowait`).
    pub(super) nr_iowait: u32,
    /// What its tasks want to be taken for.
    pub(super) clamps: QueuedClamps,
    /// The CPU that code on this one chose last where any would do (`distribute_cpu_mask_prev`).
    pub(super) chosen_last: Option<CpuId>,
    /// The task that the stopper thread is to send away (`push_busy`, `push_work`).
    pub(super) push_task: Option<TaskId>,
}

/// `cfs_rq->removed`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Removed {
    pub count: u32,
    pub load_avg: u64,
    pub util_avg: u64,
    pub runnable_avg: u64,
}

/// Fractional bits of a capacity (`SCHED_CAPACITY_SHIFT`).
const SCHED_CAPACITY_SHIFT: u32 = 10;

/// Waiting tasks for which a queue has room without allocating.
const QUEUE_ROOM: usize = 64;

/// Time within which a task that ran counts as cache-hot (`sysctl_sched_migration_cost`).
pub(super) const MIGRATION_COST_NS: u64 = 500_000;

/// `update_avg()`: a new sample counts an eighth.
pub(super) fn update_avg(average: &mut u64, sample: u64) {
    let difference = sample.wrapping_sub(*average) as i64;
    *average = average.wrapping_add((difference / 8) as u64);
}

impl RunQueue {
    pub(super) fn new(rules: FairRules, now_ns: u64) -> RunQueue {
        // init_cfs_rq() starts virtual time 2^20 before it wraps, so that wrapping is exercised.
        let start = 0u64.wrapping_sub(1 << 20);
        RunQueue {
            fair: FairQueue::new(rules, start, QUEUE_ROOM),
            clock: RqClock::at(now_ns),
            avg: Avg::default(),
            util_est: 0,
            curr: None,
            need_resched: false,
            told: false,
            stopper_ran: false,
            removed: Removed::default(),
            wake_list: Vec::with_capacity(QUEUE_ROOM),
            // The machine idled before the run; 0 would say that the CPU is not idle.
            idle_stamp_ns: now_ns.max(1),
            avg_idle_ns: 2 * MIGRATION_COST_NS,
            max_idle_balance_cost_ns: MIGRATION_COST_NS,
            avg_scan_cost_ns: 0,
            tasks: Vec::with_capacity(QUEUE_ROOM),
            balance: QueueState::default(),
            runnable: RunnableAvg::idle(now_ns),
            util_changed: false,
            io_ended: false,
            nr_iowait: 0,
            clamps: QueuedClamps::default(),
            chosen_last: None,
            push_task: None,
            frequency: 1024,
        }
    }

    /// A task is woken here: if the CPU idled, its idle time enters the average
    /// (`ttwu_do_activate()`).
    pub(super) fn end_idle(&mut self, classic: bool) {
        if self.idle_stamp_ns != 0 {
            let idle_ns = self.clock.clock.wrapping_sub(self.idle_stamp_ns);
            if classic && idle_ns > 2 * MIGRATION_COST_NS {
                // Up to v3.12, a long sleep made all that was before forgotten.
                self.avg_idle_ns = idle_ns;
            }
            update_avg(&mut self.avg_idle_ns, idle_ns);
            self.avg_idle_ns = self.avg_idle_ns.min(2 * self.max_idle_balance_cost_ns);
            self.idle_stamp_ns = 0;
        }
    }

    /// The running task.
    pub fn current(&self) -> Option<TaskId> {
        self.curr
    }

    /// Ages a task's averages and its own, and attaches the task's if it does not hold them yet
    /// (`update_load_avg()` with `DO_ATTACH`).
    fn update_load(&mut self, task: &mut Task, entity: &Entity, id: TaskId) {
        let now = self.clock.pelt();
        let weight = entity.load.weight;
        let attached = task.avg.last_update_time != 0;
        let current = attached && task.avg.is_current(now);
        if current && self.removed.count == 0 && self.avg.is_current(now) {
            return;
        }
        if attached && !current {
            let activity = EntityActivity {
                on_rq: entity.on_rq,
                runnable: u64::from(entity.on_rq && !entity.sched_delayed),
                running: self.fair.curr() == Some(id),
            };
            if task.avg.update_entity(now, weight, activity) {
                task.util_est &= !super::task::UTIL_AVG_UNCHANGED;
            }
        }
        self.age_load(now);
        if !attached {
            self.avg.attach(&mut task.avg, weight);
            self.util_changed = true;
        }
    }

    /// Ages the averages to `now` of the PELT clock and takes out those of tasks that left asleep.
    /// `false` if that made no difference to them.
    #[inline]
    fn age_load(&mut self, now: u64) -> bool {
        let mut changed = false;
        if self.removed.count > 0 {
            let gone = std::mem::take(&mut self.removed);
            self.avg.remove(gone.load_avg, gone.util_avg, gone.runnable_avg);
            changed = true;
        }
        if !self.avg.is_current(now) {
            let counts = self.fair.counts();
            let runnable = u64::from(counts.nr_running - counts.nr_delayed);
            changed |= self.avg.update_cfs_rq(now, counts.load_weight, runnable, counts.runs);
        }
        self.util_changed |= changed;
        changed
    }
}

/// What becomes of a task's averages at an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Averages {
    /// They age where they are.
    Keep,
    /// They leave with the task (`DO_DETACH`).
    Detach,
}

impl Scheduler {
    /// Brings a run queue's clocks to the present (`update_rq_clock()`). Another CPU's queue may
    /// have been stamped ahead of the executing CPU's clock; time never goes back.
    #[inline]
    pub(super) fn update_clock(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let delta_ns = hardware.now_ns().saturating_sub(self.rqs[cpu.index()].clock.clock);
        if delta_ns != 0 {
            self.advance_clock(cpu, delta_ns, hardware);
        }
    }

    fn advance_clock(&mut self, cpu: CpuId, delta_ns: u64, hardware: &mut impl Hardware) {
        let rq = &mut self.rqs[cpu.index()];
        let irq_ns = hardware.take_irq_ns(cpu);
        let frequency = hardware.frequency_capacity(cpu);
        let capacity = self.cpus[cpu.index()].capacity_orig;
        let idle = rq.curr.is_none() && !rq.stopper_ran;
        rq.frequency = frequency;
        rq.clock.advance(delta_ns, irq_ns, idle, frequency, capacity);
    }

    /// Copies to the shared view what other CPUs read of this queue.
    pub(super) fn publish(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu.index()];
        let state = &mut self.cpus[cpu.index()];
        let counts = rq.fair.counts();
        state.curr_is_idle = rq.curr.is_none() && !rq.stopper_ran;
        state.ttwu_pending = !rq.wake_list.is_empty();
        state.nr_running = counts.nr_running;
        if self.rt.active {
            let rt = &self.rt.queues[cpu.index()];
            state.nr_running += rt.nr_running();
            state.util_rt = rt.avg.util_avg;
        }
        if let Some(part) = self.dl.queues.get(cpu.index()) {
            state.nr_dl = part.queue.all().len() as u32;
            state.nr_running += state.nr_dl;
            state.util_dl = part.avg.util_avg;
            state.bw_dl = (part.running_bw << SCHED_CAPACITY_SHIFT) >> BW_SHIFT;
        }
        state.h_nr_queued = counts.nr_running;
        state.h_nr_delayed = counts.nr_delayed;
        state.idle_h_nr_running = counts.nr_idle_policy;
        state.load = rq.avg.load_avg;
        state.util = rq.avg.util_avg;
        state.runnable = rq.avg.runnable_avg;
        state.util_est = rq.util_est;
        state.idle_stamp_ns = rq.idle_stamp_ns;
        self.note_change(cpu);
        if self.config.classic.is_some() {
            self.publish_classic(cpu);
        }
        if let Some(schedutil) = &mut self.schedutil
            && std::mem::take(&mut self.rqs[cpu.index()].util_changed)
        {
            let now_ns = self.rqs[cpu.index()].clock.clock;
            let iowait = std::mem::take(&mut self.rqs[cpu.index()].io_ended);
            schedutil.update(cpu, now_ns, iowait, &self.cpus);
        }
    }

    /// Tells others that wake-ups wait on `cpu`.
    pub(super) fn set_ttwu_pending(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].ttwu_pending = true;
        self.note_change(cpu);
        if self.config.classic.is_some() {
            self.publish_classic(cpu);
        }
    }

    /// Keeps what is known of many CPUs up to date with one of them, or notes that it no longer is.
    #[inline(always)]
    fn note_change(&mut self, cpu: CpuId) {
        self.census.update(&self.domains, cpu, &self.cpus[cpu.index()]);
        self.stale.insert(cpu);
    }

    /// Ages a queue's averages and takes out those of tasks that left asleep
    /// (`update_cfs_rq_load_avg()`). `false` if that made no difference to them.
    pub(super) fn update_queue_load(&mut self, cpu: CpuId) -> bool {
        if let Some(rules) = self.config.classic {
            if rules.power.is_some() {
                self.track_queue(cpu);
            }
            return true;
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.age_load(rq.clock.pelt())
    }

    /// Ages a task's and its queue's averages, and attaches the task's if the queue does not hold
    /// them yet (`update_load_avg()` with `DO_ATTACH`).
    #[inline]
    pub(super) fn update_load(&mut self, cpu: CpuId, id: TaskId) {
        if let Some(rules) = self.config.classic {
            if rules.power.is_some() {
                self.track_task(cpu, id);
            }
            return;
        }
        let task = &mut self.tasks[id.index()];
        self.rqs[cpu.index()].update_load(task, &self.entities[id.index()], id);
    }

    /// Enqueues a task on `cpu`, which it must already belong to (`enqueue_task_fair()`).
    pub(super) fn enqueue(&mut self, cpu: CpuId, id: TaskId, why: Enqueue) {
        if self.clamps_come_first() {
            self.enter_clamps(cpu, id);
        }
        match self.class(id) {
            Class::RealTime => self.enqueue_rt(cpu, id),
            Class::Deadline => {
                let why = match why {
                    Enqueue::Initial => Why::Initial,
                    Enqueue::Wakeup => Why::Wakeup,
                    Enqueue::Move => Why::Move,
                };
                self.enqueue_dl(cpu, id, why);
            }
            Class::Fair => {
                self.enqueue_fair(cpu, id, why);
                // A new task starts with half of what its CPU has to spare, which says little.
                if why != Enqueue::Initial {
                    self.check_overutilized(cpu);
                }
            }
        }
        self.enter_clamps(cpu, id);
    }

    fn enqueue_fair(&mut self, cpu: CpuId, id: TaskId, why: Enqueue) {
        let task = &self.tasks[id.index()];
        let delayed = self.entities[id.index()].sched_delayed;
        // A delayed task that moves is asleep, so it brings no estimate along.
        if !(delayed && why == Enqueue::Move) {
            self.rqs[cpu.index()].util_est += task.util_est();
        }
        if task.in_iowait && !(delayed && why == Enqueue::Wakeup) {
            self.boost_after_io(cpu);
        }
        self.update_load(cpu, id);
        let rq = &mut self.rqs[cpu.index()];
        let revived = rq.fair.enqueue(&mut self.entities, id, why, rq.clock.clock_task);
        if !revived {
            rq.tasks.push(id);
            if self.rt.active && rq.fair.nr_running() == 1 {
                self.serve_fair(cpu, self.rt_nr_running(cpu) + self.dl_nr_running(cpu) == 0);
            }
            self.note_second(cpu);
        }
        self.publish(cpu);
    }

    /// With a second task, `cpu` has one to spare (`add_nr_running()`).
    #[inline]
    pub(super) fn note_second(&mut self, cpu: CpuId) {
        if self.nr_running(cpu) == 2 {
            self.overloaded = true;
            self.rt.map.note_spare(true);
        }
    }

    /// Takes a task off `cpu`'s queue (`dequeue_task_fair()`). `false` if it sleeps, but stays
    /// queued as delayed.
    pub(super) fn dequeue(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        why: Dequeue,
        averages: Averages,
    ) -> bool {
        let gone = self.take_off(cpu, id, why, averages);
        if self.class(id) == Class::Fair {
            self.publish(cpu);
        }
        gone
    }

    /// The same on the way to another task: what others read of the queue is up to date when that
    /// was picked ([`Scheduler::schedule`]), and nobody reads it before, unless classes compete or
    /// a governor hears of every change.
    pub(super) fn dequeue_to_schedule(&mut self, cpu: CpuId, id: TaskId, why: Dequeue) {
        if self.rt.active || self.schedutil.is_some() || self.config.classic.is_some() {
            self.dequeue(cpu, id, why, Averages::Keep);
        } else {
            self.take_off(cpu, id, why, Averages::Keep);
        }
    }

    fn take_off(&mut self, cpu: CpuId, id: TaskId, why: Dequeue, averages: Averages) -> bool {
        let sleeps = why != Dequeue::Move;
        let task = &self.tasks[id.index()];
        let waits_for_io = sleeps && task.in_iowait;
        if task.clamped && !self.entities[id.index()].sched_delayed {
            self.leave_clamps(cpu, id);
        }
        let gone = match self.class(id) {
            Class::RealTime => {
                self.dequeue_rt(cpu, id);
                true
            }
            Class::Deadline => {
                self.dequeue_dl(cpu, id, sleeps);
                true
            }
            Class::Fair => self.dequeue_fair(cpu, id, why, averages),
        };
        if gone && waits_for_io {
            self.count_io_wait(cpu, id);
        }
        gone
    }

    fn dequeue_fair(&mut self, cpu: CpuId, id: TaskId, why: Dequeue, averages: Averages) -> bool {
        let tracked = self.config.classic.is_none();
        if !tracked {
            self.update_load(cpu, id);
        }
        let capacity = self.cpus[cpu.index()].capacity_orig;
        let rq = &mut self.rqs[cpu.index()];
        let task = &mut self.tasks[id.index()];
        let entity = &self.entities[id.index()];
        let was_delayed = entity.sched_delayed;
        if !was_delayed {
            rq.util_est = rq.util_est.saturating_sub(task.util_est());
        }
        if tracked {
            rq.update_load(task, entity, id);
            if why != Dequeue::Move && !was_delayed {
                task.update_util_est(capacity);
            }
            if averages == Averages::Detach {
                rq.avg.detach(&task.avg, entity.load.weight);
                rq.util_changed = true;
                task.avg.last_update_time = 0;
            }
        }
        let gone = rq.fair.dequeue(&mut self.entities, id, why, rq.clock.clock_task);
        if gone && let Some(place) = rq.tasks.iter().rposition(|&task| task == id) {
            rq.tasks.remove(place);
        }
        gone
    }

    /// The current task of `cpu` stops being runnable. EEVDF keeps it queued if it had more than
    /// its share; a dying task never stays.
    pub(super) fn block_current(&mut self, cpu: CpuId, state: TaskState, special: bool) {
        let Some(id) = self.rqs[cpu.index()].curr else { return };
        self.tasks[id.index()].state = state;
        if state == TaskState::Dead {
            // Its parent is woken before the CPU picks another task.
            self.dequeue(cpu, id, Dequeue::SleepSpecial, Averages::Keep);
            return;
        }
        let why = if special { Dequeue::SleepSpecial } else { Dequeue::Sleep };
        self.dequeue_to_schedule(cpu, id, why);
    }

    /// Moves a queued task that does not run to another CPU's queue, where it is enqueued with
    /// its lag (`move_queued_task()`).
    pub fn move_queued(
        &mut self,
        id: TaskId,
        to_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        self.update_clock(self.tasks[id.index()].cpu, hardware);
        self.detach(id, to_cpu, executing_cpu, hardware);
        self.attach(id, to_cpu, executing_cpu, hardware);
    }

    /// Takes a task that does not run off its queue, on its way to another CPU
    /// (`detach_task()`). The queue's clock must be up to date.
    pub(super) fn detach(
        &mut self,
        id: TaskId,
        to_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        hardware.wait_for(executing_cpu, id);
        hardware.charge(executing_cpu, crate::hardware::Path::Migrate);
        let from_cpu = self.tasks[id.index()].cpu;
        self.dequeue(from_cpu, id, Dequeue::Move, Averages::Detach);
        self.tell(from_cpu, executing_cpu, hardware);
        self.set_cpu(id, to_cpu, executing_cpu, hardware);
    }

    /// Puts it on the queue where it was going (`attach_task()`).
    pub(super) fn attach(
        &mut self,
        id: TaskId,
        to_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        self.update_clock(to_cpu, hardware);
        self.enqueue(to_cpu, id, Enqueue::Move);
        self.check_preempt(to_cpu, id, executing_cpu, hardware);
    }

    /// Notes whether `id`, which runs on `cpu`, would need a bigger one
    /// (`update_misfit_status()`).
    #[inline]
    pub(super) fn update_misfit(&mut self, cpu: CpuId, id: Option<TaskId>) {
        if self.domains.asym_cpucapacity_active() {
            self.set_misfit(cpu, id);
        }
    }

    fn set_misfit(&mut self, cpu: CpuId, id: Option<TaskId>) {
        let load = id.map_or(0, |id| {
            let allowed = self.allowed(id);
            let capacity = |cpu: CpuId| self.cpus[cpu.index()].capacity_orig;
            let most = allowed.iter().map(capacity).max().unwrap_or_default();
            let fits = self.view(id, allowed).fit(&self.cpus[cpu.index()]) == Fit::Full;
            let stays = allowed.weight() == 1 || capacity(cpu) == most || fits;
            if stays { 0 } else { self.tasks[id.index()].avg.load_avg.max(1) }
        });
        self.cpus[cpu.index()].misfit_task_load = load;
    }
}

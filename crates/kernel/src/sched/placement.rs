//! Tasks come: created, woken, placed on a CPU and enqueued there (`try_to_wake_up()`,
//! `wake_up_new_task()`, `sched_exec()`).

use super::migrate_disable::Staying;
use super::run_queue::update_avg;
use super::task::UTIL_AVG_UNCHANGED;
use super::{Class, NewTask, Scheduler, Task, TaskState, TtwuQueue};
use crate::fair::TaskId;
use crate::fair::entity::{Enqueue, Entity, FairPolicy};
use crate::fair::power_aware::tracking::RunnableAvg;
use crate::fair::slow_path::SlowPath;
use crate::fair::topology::DomainFlags;
use crate::fair::view::TaskView;
use crate::fair::wake::{RecentUsed, WakePath, Waker, select_on_wake};
use crate::fair::weight::LoadWeight;
use crate::hardware::{Decision, Hardware, Occasion, Path, TracePoint, WakeCandidate};
use crate::pelt::Avg;
use schedlab_machine::{CpuId, CpuSet};

/// How a wake-up comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeFlags {
    /// The waker promises to sleep soon (`WF_SYNC`).
    pub sync: bool,
    /// An interrupt wakes, not the current task.
    pub from_interrupt: bool,
}

impl WakeFlags {
    /// The current task wakes another.
    pub const TASK: WakeFlags = WakeFlags { sync: false, from_interrupt: false };
    /// The current task wakes another and will sleep soon.
    pub const SYNC: WakeFlags = WakeFlags { sync: true, from_interrupt: false };
    /// A timer or device interrupt wakes.
    pub const INTERRUPT: WakeFlags = WakeFlags { sync: false, from_interrupt: true };
}

impl Scheduler {
    /// Creates a task that belongs to `cpu` until it is first woken (`sched_fork()`).
    pub fn create(&mut self, new: NewTask, cpu: CpuId) -> TaskId {
        let load = match new.policy {
            FairPolicy::Idle => LoadWeight::of_idle_policy(),
            _ => LoadWeight::of_nice(new.nice),
        };
        let clamps = self.clamps_of(&new);
        let id = TaskId(self.tasks.len() as u32);
        self.entities.push(Entity::new(load, new.policy, new.slice_ns));
        self.tasks.push(Task {
            state: TaskState::New,
            cpu,
            affinity: new.affinity,
            staying: Staying::default(),
            per_cpu_kthread: new.per_cpu_kthread,
            avg: Avg::new_task(load.weight),
            runnable: RunnableAvg::new_task(load.unscaled()),
            clamps,
            clamped: false,
            util_est: 0,
            in_iowait: false,
            counted_in_iowait: false,
            recent_used_cpu: cpu,
            wakee_flips: 0,
            wakee_flips_decayed_jiffies: 0,
            last_wakee: None,
            switches: 0,
            migrations: 0,
        });
        if new.deadline.is_some() && !self.rt.active {
            self.activate_rt();
        }
        self.create_rt(new.real_time);
        self.create_dl(new.deadline);
        if self.class(id) == Class::Fair {
            let rq = &mut self.rqs[cpu.index()];
            rq.fair.fork(&mut self.entities, id, rq.clock.clock_task);
        }
        id
    }

    /// Makes a new task one that has slept for so long that nothing is left of its load.
    pub fn lay_asleep(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        task.state = TaskState::Blocked;
        task.avg = Avg::default();
        task.runnable = RunnableAvg::idle(0);
    }

    pub(super) fn view<'a>(&self, id: TaskId, allowed: &'a CpuSet) -> TaskView<'a> {
        let task = &self.tasks[id.index()];
        TaskView {
            cpu: task.cpu,
            allowed,
            contributes: task.avg.last_update_time != 0,
            on_rq: self.entities[id.index()].on_rq,
            is_current: self.rqs[task.cpu.index()].curr == Some(id),
            util: task.avg.util_avg,
            load: task.avg.load_avg,
            runnable: task.avg.runnable_avg,
            util_est: task.util_est(),
            clamps: self.clamps(task),
            numa_preferred_node: None,
        }
    }

    /// Fork or exec placement, seen from `this_cpu`.
    fn select_slow(
        &mut self,
        id: TaskId,
        this_cpu: CpuId,
        occasion: Occasion,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        if let Some(rules) = self.config.classic {
            return self.select_slow_classic(rules, id, this_cpu, occasion, hardware);
        }
        let flag = match occasion {
            Occasion::Fork => DomainFlags::BALANCE_FORK,
            Occasion::Exec => DomainFlags::BALANCE_EXEC,
        };
        self.catch_up();
        let allowed = self.allowed(id);
        let path = SlowPath {
            domains: &self.domains,
            cpus: &self.cpus,
            sums: Some(&self.sums),
            rules: self.config.slow_path,
        };
        let view = self.view(id, allowed);
        let mut choices = hardware.explains().then(Vec::new);
        let cpu = path.select(&view, this_cpu, flag, choices.as_mut());
        if let Some(choices) = choices {
            let from_cpu = this_cpu;
            let cpu = Self::within(allowed, cpu);
            let decision = Decision::Slow { task: id, occasion, from_cpu, choices, cpu };
            hardware.explain(this_cpu, decision);
        }
        Self::within(allowed, cpu)
    }

    /// `select_fallback_rq()`: placement may answer a CPU that the task may not use.
    pub(super) fn within(allowed: &CpuSet, cpu: CpuId) -> CpuId {
        if allowed.contains(cpu) { cpu } else { allowed.next_wrapping(cpu).unwrap_or(cpu) }
    }

    /// A new task's first wake-up, by the current task of `parent_cpu` (`wake_up_new_task()`).
    pub fn wake_new(&mut self, id: TaskId, parent_cpu: CpuId, hardware: &mut impl Hardware) {
        self.wake_new_as(id, self.class(id), parent_cpu, hardware);
    }

    /// The same for a real-time task that is born as a fair one, and asks for its policy once it
    /// runs.
    pub fn wake_new_fair(&mut self, id: TaskId, parent_cpu: CpuId, hardware: &mut impl Hardware) {
        self.wake_new_as(id, Class::Fair, parent_cpu, hardware);
    }

    fn wake_new_as(
        &mut self,
        id: TaskId,
        class: Class,
        parent_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        hardware.charge(parent_cpu, Path::Wakeup);
        let cpu = match class {
            Class::RealTime => self.select_rt(id, parent_cpu, hardware),
            // A task is born as a fair one, and asks for the class once it runs.
            Class::Deadline | Class::Fair => {
                self.select_slow(id, parent_cpu, Occasion::Fork, hardware)
            }
        };
        let task = &mut self.tasks[id.index()];
        task.state = TaskState::Runnable;
        task.recent_used_cpu = task.cpu;
        task.cpu = cpu;
        self.update_clock(cpu, hardware);
        let capacity = self.cpus[cpu.index()].capacity_orig;
        let weight = self.entities[id.index()].load.weight;
        let rq_avg = self.rqs[cpu.index()].avg;
        if self.config.classic.is_none() {
            self.tasks[id.index()].avg.post_init_entity_util_avg(&rq_avg, weight, capacity);
        }
        self.enqueue(cpu, id, Enqueue::Initial);
        hardware.trace(parent_cpu, TracePoint::WakeupNew { task: id, target_cpu: cpu });
        self.check_preempt(cpu, id, parent_cpu, hardware);
        self.woken(cpu, id, parent_cpu, hardware);
    }

    /// A task that was woken, and waits for a more urgent one, is pushed to another CPU at once.
    fn woken(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        match self.class(id) {
            Class::RealTime => self.woken_rt(cpu, id, executing_cpu, hardware),
            Class::Deadline => self.woken_dl(cpu, id, executing_cpu, hardware),
            Class::Fair => {}
        }
    }

    /// Wakes a blocked task from `waker_cpu` (`try_to_wake_up()`). `false` if it was not blocked,
    /// so that the wake-up had no effect.
    pub fn wake(
        &mut self,
        id: TaskId,
        waker_cpu: CpuId,
        flags: WakeFlags,
        hardware: &mut impl Hardware,
    ) -> bool {
        if self.tasks[id.index()].state != TaskState::Blocked {
            return false;
        }
        let prev_cpu = self.tasks[id.index()].cpu;
        hardware.wait_for(waker_cpu, id);
        hardware.trace(waker_cpu, TracePoint::Waking { task: id, target_cpu: prev_cpu });
        hardware.charge(waker_cpu, Path::Wakeup);
        self.tasks[id.index()].state = TaskState::Runnable;
        if self.entities[id.index()].on_rq {
            // ttwu_runnable(): it never left its queue, so there is nothing to place.
            self.update_clock(prev_cpu, hardware);
            self.enqueue(prev_cpu, id, Enqueue::Wakeup);
            if self.rqs[prev_cpu.index()].curr != Some(id) {
                self.check_preempt(prev_cpu, id, waker_cpu, hardware);
            }
            self.tell(prev_cpu, waker_cpu, hardware);
            hardware.trace(waker_cpu, TracePoint::Wakeup { task: id, target_cpu: prev_cpu });
            return true;
        }
        let class = self.class(id);
        let cpu = match class {
            _ if self.stays(id) => prev_cpu,
            Class::RealTime => self.select_rt(id, waker_cpu, hardware),
            Class::Deadline => self.select_dl(id, waker_cpu, hardware),
            Class::Fair => self.select_wake(id, waker_cpu, flags, hardware),
        };
        if cpu != prev_cpu {
            self.end_io_wait(id);
            match class {
                Class::RealTime => {}
                Class::Deadline => self.leave_bandwidth(prev_cpu, id),
                Class::Fair => self.leave_asleep(id, prev_cpu),
            }
            self.set_cpu(id, cpu, waker_cpu, hardware);
        }
        if self.queues_remotely(cpu, waker_cpu) {
            let rq = &mut self.rqs[cpu.index()];
            let first = rq.wake_list.is_empty();
            rq.wake_list.push(id);
            self.set_ttwu_pending(cpu);
            if first {
                self.interrupt(cpu, waker_cpu, hardware);
            }
        } else {
            self.update_clock(cpu, hardware);
            self.activate(id, cpu, waker_cpu, hardware);
        }
        true
    }

    fn select_wake(
        &mut self,
        id: TaskId,
        waker_cpu: CpuId,
        flags: WakeFlags,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        if let Some(rules) = self.config.classic {
            return self.select_wake_classic(rules, id, waker_cpu, flags, hardware);
        }
        // There is nothing to select (`nr_cpus_allowed` is 1), so that the waker is not told either.
        if let Some(only) = self.only[self.tasks[id.index()].affinity.0 as usize] {
            return only;
        }
        let current = self.rqs[waker_cpu.index()].curr;
        let mut waker = Waker {
            cpu: waker_cpu,
            sync: flags.sync,
            in_task: !flags.from_interrupt && current.is_some(),
            avg_idle_ns: self.rqs[waker_cpu.index()].avg_idle_ns,
            avg_scan_cost_ns: self.rqs[waker_cpu.index()].avg_scan_cost_ns,
            ..Waker::default()
        };
        if let Some(current) = current {
            let task = &mut self.tasks[current.index()];
            task.record_wakee(id, hardware.jiffies(), self.config.hz);
            waker.wakee_flips = task.wakee_flips;
            waker.load = task.avg.load_avg;
            waker.per_cpu_kthread = task.per_cpu_kthread;
        }
        if let Some(cpu) = self.select_by_energy(id, waker_cpu, hardware) {
            return cpu;
        }
        let Task { cpu: prev_cpu, affinity, recent_used_cpu, wakee_flips, .. } =
            self.tasks[id.index()];
        let allowed = &self.affinities[affinity.0 as usize];
        let view = self.view(id, allowed);
        let mut recent = recent_used_cpu;
        let mut path = WakePath {
            domains: &self.domains,
            cpus: &self.cpus,
            census: &self.census,
            llcs: &mut self.llcs,
            rules: self.config.wake,
        };
        let choice = select_on_wake(&mut path, &view, &waker, wakee_flips, &mut recent);
        let wants_affine = || allowed.contains(waker_cpu) && !path.is_wide(&waker, wakee_flips);
        let recent_of_waker = (self.config.wake.recent_used == RecentUsed::Waker && wants_affine())
            .then_some(current)
            .flatten();
        self.tasks[id.index()].recent_used_cpu = recent;
        if let Some(current) = recent_of_waker {
            self.tasks[current.index()].recent_used_cpu = waker_cpu;
        }
        if let Some(looked_at) = choice.looked_at {
            let scan_ns = hardware.scan_ns(waker_cpu, looked_at);
            update_avg(&mut self.rqs[waker_cpu.index()].avg_scan_cost_ns, scan_ns);
        }
        if hardware.explains() {
            let cpu = Self::within(allowed, choice.cpu);
            let mut candidates: Vec<WakeCandidate> = Vec::new();
            for cpu in [waker_cpu, prev_cpu, recent_used_cpu, cpu] {
                if candidates.iter().all(|candidate| candidate.cpu != cpu) {
                    candidates.push(WakeCandidate { cpu, state: self.cpus[cpu.index()] });
                }
            }
            let decision = Decision::Wake {
                task: id,
                prev_cpu,
                waker_cpu,
                affine: choice.affine,
                candidates,
                rule: choice.rule,
                cpu,
            };
            hardware.explain(waker_cpu, decision);
        }
        Self::within(allowed, choice.cpu)
    }

    /// A sleeping task leaves its queue's sums for another queue (`remove_entity_load_avg()`).
    fn leave_asleep(&mut self, id: TaskId, prev_cpu: CpuId) {
        let weight = self.entities[id.index()].load.weight;
        let rq = &mut self.rqs[prev_cpu.index()];
        rq.fair.leave_asleep(&mut self.entities, id);
        if self.config.classic.is_some() {
            return;
        }
        let avg = &mut self.tasks[id.index()].avg;
        if avg.update_blocked_entity(rq.avg.last_update_time, weight) {
            self.tasks[id.index()].util_est &= !UTIL_AVG_UNCHANGED;
        }
        let avg = &mut self.tasks[id.index()].avg;
        rq.removed.count += 1;
        rq.removed.load_avg += avg.load_avg;
        rq.removed.util_avg += avg.util_avg;
        rq.removed.runnable_avg += avg.runnable_avg;
        avg.last_update_time = 0;
    }

    /// `set_task_cpu()`.
    pub(super) fn set_cpu(
        &mut self,
        id: TaskId,
        to_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        // Elsewhere, the cache is not warm for it; older kernels went by the time alone.
        if self.config.classic.is_none() {
            self.entities[id.index()].exec_start_ns = 0;
        }
        let task = &mut self.tasks[id.index()];
        let from_cpu = std::mem::replace(&mut task.cpu, to_cpu);
        task.migrations += 1;
        hardware.trace(executing_cpu, TracePoint::Migrate { task: id, from_cpu, to_cpu });
    }

    /// True if the wake-up is better done by the target itself (`ttwu_queue_cond()`).
    fn queues_remotely(&self, cpu: CpuId, waker_cpu: CpuId) -> bool {
        match self.config.ttwu_queue {
            TtwuQueue::Never => false,
            TtwuQueue::OtherCache => !self.domains.share_cache(waker_cpu, cpu),
            TtwuQueue::OtherCacheOrIdle => {
                !self.domains.share_cache(waker_cpu, cpu)
                    || (cpu != waker_cpu && self.nr_running(cpu) == 0)
            }
        }
    }

    /// Enqueues a woken task (`ttwu_do_activate()`).
    fn activate(
        &mut self,
        id: TaskId,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        self.end_io_wait(id);
        self.enqueue(cpu, id, Enqueue::Wakeup);
        self.check_preempt(cpu, id, executing_cpu, hardware);
        let rq = &mut self.rqs[cpu.index()];
        rq.end_idle(self.config.classic.is_some());
        self.cpus[cpu.index()].idle_stamp_ns = rq.idle_stamp_ns;
        hardware.trace(executing_cpu, TracePoint::Wakeup { task: id, target_cpu: cpu });
        self.woken(cpu, id, executing_cpu, hardware);
    }

    /// Does the wake-ups that other CPUs left for `cpu` (`sched_ttwu_pending()`).
    pub(super) fn finish_remote_wakeups(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if self.rqs[cpu.index()].wake_list.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.rqs[cpu.index()].wake_list);
        for &id in &list {
            hardware.wait_for(cpu, id);
            hardware.charge(cpu, Path::RemoteWakeup);
            self.update_clock(cpu, hardware);
            self.activate(id, cpu, cpu, hardware);
        }
        list.clear();
        // The vector goes back, so that the next wake-up need not allocate.
        self.rqs[cpu.index()].wake_list = list;
    }

    /// Decides whether a task that was just enqueued on `cpu` takes the CPU over
    /// (`wakeup_preempt()`).
    pub(super) fn check_preempt(
        &mut self,
        cpu: CpuId,
        id: TaskId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let rq = &mut self.rqs[cpu.index()];
        match rq.curr {
            _ if self.rt.active => {
                self.preempt_by_class(cpu, id);
                self.arm_timer(cpu, hardware);
            }
            None => rq.need_resched = true,
            Some(_) => rq.fair.check_preempt(&mut self.entities, id, rq.clock.clock_task),
        }
        self.tell(cpu, executing_cpu, hardware);
    }

    /// Interrupts a CPU that should schedule, unless that was done (`resched_curr()`). To account
    /// the run time of its task can be reason enough.
    pub(super) fn tell(&mut self, cpu: CpuId, executing_cpu: CpuId, hardware: &mut impl Hardware) {
        if !self.need_resched(cpu) {
            return;
        }
        let told = std::mem::replace(&mut self.rqs[cpu.index()].told, true);
        if !told && cpu != executing_cpu {
            self.interrupt(cpu, executing_cpu, hardware);
        }
    }

    /// Makes another CPU look at its queue: by interrupt, unless it idles in a loop that looks
    /// anyway (`resched_curr()`, `call_function_single_prep_ipi()`).
    fn interrupt(&mut self, cpu: CpuId, executing_cpu: CpuId, hardware: &mut impl Hardware) {
        if self.rqs[cpu.index()].curr.is_none() && hardware.polls_idle(cpu) {
            hardware.trace(executing_cpu, TracePoint::WakeIdleWithoutIpi { target_cpu: cpu });
        }
        self.settle(executing_cpu, hardware);
        hardware.send_reschedule(executing_cpu, cpu);
    }

    /// The current task of `cpu` calls exec and is moved if another CPU is idler
    /// (`sched_exec()`). Returns where it is now.
    pub fn exec(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> CpuId {
        let Some(id) = self.rqs[cpu.index()].curr else { return cpu };
        if self.class(id) != Class::Fair || self.stays(id) {
            return cpu;
        }
        let to_cpu = self.select_slow(id, cpu, Occasion::Exec, hardware);
        if to_cpu != cpu {
            // The stopper thread of this CPU preempts the task and moves it while it waits.
            self.preempt_for_stopper(cpu, id, hardware);
            self.move_queued(id, to_cpu, cpu, hardware);
        }
        to_cpu
    }
}

//! The simulated hardware around the scheduler, and the kernel's requests to it.

use crate::broadcast::Broadcast;
use crate::coherence::Coherence;
use crate::cpu::{Cpu, Doing, Ipi, POLLED};
use crate::decisions::Decisions;
use crate::energy::{Activity, EnergyMeter};
use crate::frequency::Frequencies;
use crate::interrupts::InterruptNames;
use crate::lines::Lines;
use crate::observe::{Digest, Observer, fingerprint};
use crate::queue::EventQueue;
use crate::random::Pcg;
use crate::streams::Streams;
use crate::timer_queue::{KERNEL_TIMER, Timer};
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::hardware::{Decision, Hardware, LeaveReason, Path, Touch, TracePoint};
use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{Event, EventKind, Pid, StrId, Task, TaskState};
use schedlab_workload::program::ObjectId;

/// The machine around the scheduler.
#[derive(Debug)]
pub struct Platform<'a, O> {
    /// What the hardware is.
    pub machine: &'a Machine,
    /// The executing CPU's clock, ns.
    pub clock_ns: u64,
    /// When the event is that is being handled, ns: no other is before it any more.
    pub horizon_ns: u64,
    /// CPUs.
    pub cpus: Vec<Cpu>,
    /// Their next events.
    pub queue: EventQueue,
    /// The timer of those whose own stops.
    pub broadcast: Broadcast,
    /// Power.
    pub energy: EnergyMeter,
    /// Operating points.
    pub frequencies: Frequencies,
    /// Cache lines of the workload.
    pub lines: Lines,
    /// Who goes through which memory.
    pub streams: Streams,
    /// Where events go.
    pub observer: O,
    /// Hash of all events.
    pub digest: Digest,
    /// How many events there were.
    pub events: u64,
    /// How many remarks there were besides, for an active observer.
    pub remarks: u64,
    /// Names of tasks.
    pub comms: Vec<StrId>,
    /// Their priorities as events give them.
    pub prios: Vec<i32>,
    /// When something was last done to each task, ns, and by which CPU.
    pub touched: Vec<(u64, CpuId)>,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// What kernel code draws from.
    pub random: Pcg,
    /// Timers of the kernel itself that are yet to fire.
    pub kernel_timers: u64,
    /// Names for events of timers and interrupts, if those are wanted.
    pub interrupt_names: Option<InterruptNames>,
    /// Explained decisions, if wanted.
    pub decisions: Option<Decisions>,
    /// Cache lines of the kernel, if modelled.
    pub coherence: Option<Box<Coherence>>,
}

/// Priority of idle tasks in events.
const IDLE_PRIO: i32 = 120;

/// Real-time priorities are below this (`MAX_RT_PRIO`).
pub const MAX_RT_PRIO: i32 = 100;

/// Tasks are numbered from this pid on.
pub const FIRST_PID: i32 = 1000;

/// The pid by which events name a task.
#[inline]
pub fn pid(task: TaskId) -> Pid {
    Pid(FIRST_PID + task.0 as i32)
}

impl<O: Observer> Platform<'_, O> {
    /// Takes an event down, at the executing CPU's time. Where the kind is known, little is left of
    /// this but two steps of the digest.
    #[inline(always)]
    pub fn emit(&mut self, cpu: CpuId, kind: EventKind) {
        self.events += 1;
        self.digest.add(self.clock_ns ^ (u64::from(cpu.0) << 48));
        self.digest.add(fingerprint(&kind));
        if O::ACTIVE {
            let pid = self.cpus[cpu.index()].running;
            self.observer.event(&Event { timestamp_ns: self.clock_ns, cpu, pid, kind });
        }
    }

    /// Takes an event down that follows from others: it is neither counted nor digested.
    pub fn remark(&mut self, cpu: CpuId, kind: EventKind) {
        if O::ACTIVE {
            self.remarks += 1;
            let pid = self.cpus[cpu.index()].running;
            self.observer.event(&Event { timestamp_ns: self.clock_ns, cpu, pid, kind });
        }
    }

    /// A task's priority, for an event. Nobody reads it if nobody observes.
    #[inline]
    fn prio(&self, task: Option<TaskId>) -> i32 {
        task.filter(|_| O::ACTIVE).map_or(IDLE_PRIO, |task| self.prios[task.index()])
    }

    /// True if the kernel's priority of a task is a real-time one.
    pub fn is_rt(&self, task: TaskId) -> bool {
        self.prios[task.index()] < MAX_RT_PRIO
    }

    /// A task, for an event: its name only if somebody observes.
    #[inline]
    fn name(&self, task: Option<TaskId>) -> Task {
        let comm = task.filter(|_| O::ACTIVE).map_or(StrId::EMPTY, |task| self.comms[task.index()]);
        Task { pid: task.map_or(Pid::IDLE, pid), comm }
    }

    /// Notes when something was done to a task.
    #[inline]
    fn touch_task(&mut self, cpu: CpuId, task: TaskId) {
        self.touched[task.index()] = (self.clock_ns, cpu);
    }

    /// Recomputes when `cpu`'s next event is.
    #[inline]
    pub fn requeue(&mut self, cpu: usize) {
        let next_ns = self.cpus[cpu].next_event_ns();
        self.queue.set(cpu, next_ns);
    }

    /// Makes another CPU look: by interrupt, or by a flag if it polls and that suffices.
    fn tell(&mut self, from: CpuId, to: CpuId, kind: Ipi, polling_suffices: bool) {
        if polling_suffices && self.polls_idle(to) {
            // The target sees the flag's cache line change.
            let arrival_ns = self.clock_ns + self.machine.line_transfer_ps(from, to) / 1000;
            self.arrive(to, arrival_ns, POLLED);
        } else {
            self.send_ipi(from, to, kind);
        }
    }

    /// Interrupts another CPU.
    pub fn send_ipi(&mut self, from: CpuId, to: CpuId, kind: Ipi) {
        let costs = self.machine.path_costs();
        self.clock_ns += costs.ipi_send_ns;
        let event = EventKind::IpiSend { target_cpu: Some(to), callback: StrId::EMPTY };
        self.emit(from, event);
        self.arrive(to, self.clock_ns + costs.ipi_deliver_ns, kind as u8);
    }

    fn arrive(&mut self, to: CpuId, arrival_ns: u64, kinds: u8) {
        self.replan(to.index());
        let target = &mut self.cpus[to.index()];
        target.ipi_ns = target.ipi_ns.min(arrival_ns);
        target.ipi_kinds |= kinds;
        if target.doing != Doing::Kernel {
            self.requeue(to.index());
        }
    }

    /// A computation of another CPU that is planned, but yet to begin when what the executing one
    /// does is done, is planned anew when its turn comes: until then that CPU is in the kernel, and sees
    /// on its way out what it is asked for.
    fn replan(&mut self, cpu: usize) {
        if self.cpus[cpu].ahead
            && let Doing::Computing { since_ns, .. } = self.cpus[cpu].doing
            && self.queue.is_after_turn(cpu, since_ns)
        {
            self.cpus[cpu].doing = Doing::Kernel;
            self.cpus[cpu].done_ns = since_ns;
            self.cpus[cpu].ahead = false;
            self.requeue(cpu);
        }
    }

    /// The computation of another CPU ends as soon as that CPU sees what the executing one wrote.
    pub fn shorten(&mut self, cpu: usize) {
        let now_ns = self.clock_ns;
        let state = &mut self.cpus[cpu];
        if let Doing::Computing { since_ns, work_left, .. } = &mut state.doing {
            state.computed_ns += now_ns.saturating_sub(*since_ns);
            *since_ns = now_ns.max(*since_ns);
            *work_left = 1;
            state.plan_end();
            self.requeue(cpu);
        }
    }

    /// `cpu` goes through this block of memory from now on, or through none, which may change how
    /// fast others do.
    #[inline]
    pub fn set_stream(&mut self, cpu: CpuId, block: Option<ObjectId>) {
        if block.is_some() || self.streams.any() {
            self.change_stream(cpu, block);
        }
    }

    fn change_stream(&mut self, cpu: CpuId, block: Option<ObjectId>) {
        if !self.streams.set(self.machine, cpu, block.map(|object| object.0)) {
            return;
        }
        self.cpus[cpu.index()].pace = u64::MAX;
        let paces = self.streams.paces(self.machine);
        for (at, pace) in paces.into_iter().enumerate() {
            let other = self.streams.active()[at];
            let index = other.index();
            if self.cpus[index].pace != pace {
                let state = &mut self.cpus[index];
                state.progress(self.horizon_ns);
                state.pace = pace;
                if other != cpu {
                    state.plan_end();
                    self.requeue(index);
                }
            }
        }
    }

    /// The CPU starts or stops being busy: its power changes, and the speed of its core's threads,
    /// with which it shares resources as soon as it begins to wake.
    #[inline]
    pub fn set_activity(&mut self, cpu: CpuId, activity: Activity) {
        let now_ns = self.clock_ns;
        self.energy.set(self.machine, cpu, activity, (now_ns, self.horizon_ns));
        let state = &mut self.cpus[cpu.index()];
        let was_busy = state.busy_since_ns.is_some();
        let busy = !matches!(activity, Activity::Idle(_));
        if busy == was_busy {
            return;
        }
        match state.busy_since_ns.take() {
            Some(since_ns) => state.busy_ns += now_ns.saturating_sub(since_ns),
            None => state.busy_since_ns = Some(now_ns),
        }
        for at in 0..state.siblings.len() {
            let sibling = self.cpus[cpu.index()].siblings[at];
            self.share_core(sibling.index(), busy);
        }
    }

    /// A sibling of `cpu` becomes busy now, or idle.
    #[inline(never)]
    fn share_core(&mut self, cpu: usize, busy: bool) {
        // No event of it is before the present one any more, so what it did until here is settled,
        // and what is ahead of here is noted for when it comes there.
        let state = &mut self.cpus[cpu];
        if matches!(state.doing, Doing::Computing { .. }) {
            state.progress(self.horizon_ns);
            state.share.note(self.clock_ns, busy);
            state.plan_end();
            self.requeue(cpu);
        } else {
            while state.share.next(self.horizon_ns).is_some() {}
            state.share.note(self.clock_ns, busy);
        }
    }
}

impl<O: Observer> Hardware for Platform<'_, O> {
    fn now_ns(&self) -> u64 {
        self.clock_ns
    }

    fn jiffies(&self) -> u64 {
        self.clock_ns / self.tick_ns
    }

    #[inline]
    fn frequency_capacity(&self, cpu: CpuId) -> u64 {
        self.frequencies.scale(cpu)
    }

    fn take_irq_ns(&mut self, _: CpuId) -> u64 {
        // The kernels modelled here are built without CONFIG_IRQ_TIME_ACCOUNTING.
        0
    }

    fn polls_idle(&self, cpu: CpuId) -> bool {
        let cpu = &self.cpus[cpu.index()];
        match cpu.doing {
            Doing::Idle { state, .. } => {
                cpu.states.get(state as usize).is_some_and(|state| state.polling)
            }
            _ => false,
        }
    }

    fn charge(&mut self, cpu: CpuId, path: Path) {
        let costs = self.machine.path_costs();
        self.clock_ns += match path {
            Path::Wakeup => costs.wakeup_ns,
            Path::RemoteWakeup => costs.wakeup_ns / 2,
            Path::ContextSwitch => costs.context_switch_ns,
            Path::Tick if self.cpus[cpu.index()].running == Pid::IDLE => {
                costs.tick_ns + costs.idle_tick_ns
            }
            Path::Tick => costs.tick_ns,
            Path::Migrate => costs.migrate_ns,
            Path::Softirq => costs.softirq_ns,
            Path::Balance { cpus } => {
                u64::from(cpus) * self.machine.cache_costs().llc_hit_ps / 1000
            }
        };
    }

    fn touch(&mut self, cpu: CpuId, touches: &[Touch]) {
        if let Some(coherence) = &mut self.coherence {
            self.clock_ns = coherence.touch(self.machine, cpu, touches, self.clock_ns);
        }
    }

    fn send_reschedule(&mut self, from: CpuId, to: CpuId) {
        self.tell(from, to, Ipi::Reschedule, true);
    }

    fn send_kick(&mut self, from: CpuId, to: CpuId, polling_suffices: bool) {
        self.tell(from, to, Ipi::Kick, polling_suffices);
    }

    fn arm_timer(&mut self, cpu: CpuId, at_ns: u64) {
        let timer = Timer { hard_ns: at_ns, soft_ns: at_ns, task: KERNEL_TIMER };
        self.kernel_timers += 1;
        self.tell_armed(cpu, timer);
        let state = &mut self.cpus[cpu.index()];
        state.timers.push(timer);
        if state.doing != Doing::Kernel {
            self.requeue(cpu.index());
        }
    }

    fn scan_ns(&self, _: CpuId, cpus: u32) -> u64 {
        u64::from(cpus) * self.machine.cache_costs().llc_hit_ps / 1000
    }

    fn random(&mut self, _: CpuId) -> u32 {
        self.random.next_u32()
    }

    fn wait_for(&mut self, cpu: CpuId, task: TaskId) {
        let (touched_ns, by) = self.touched[task.index()];
        if by != cpu {
            self.clock_ns = self.clock_ns.max(touched_ns + 1);
        }
    }

    // Who calls knows the point, of whose events little is left if nobody observes.
    #[inline(always)]
    fn trace(&mut self, cpu: CpuId, point: TracePoint) {
        match point {
            TracePoint::Switch { prev, reason, next } => {
                for task in [prev, next].into_iter().flatten() {
                    self.touch_task(cpu, task);
                }
                let prev_state = match reason {
                    LeaveReason::Preempted => TaskState::Running,
                    LeaveReason::Blocked => TaskState::Sleeping,
                    LeaveReason::BlockedSpecial => TaskState::DiskSleep,
                    LeaveReason::Dead => TaskState::Dead,
                };
                let (prev_prio, next_prio) = (self.prio(prev), self.prio(next));
                let (prev, next) = (self.name(prev), self.name(next));
                self.emit(cpu, EventKind::Switch { prev, prev_prio, prev_state, next, next_prio });
                self.cpus[cpu.index()].running = next.pid;
            }
            TracePoint::Waking { task, target_cpu } => {
                self.touch_task(cpu, task);
                let (prio, task) = (self.prio(Some(task)), self.name(Some(task)));
                self.emit(cpu, EventKind::Waking { task, prio, target_cpu });
            }
            TracePoint::Wakeup { task, target_cpu } => {
                self.touch_task(cpu, task);
                let (prio, task) = (self.prio(Some(task)), self.name(Some(task)));
                self.emit(cpu, EventKind::Wakeup { task, prio, target_cpu });
            }
            TracePoint::WakeupNew { task, target_cpu } => {
                self.touch_task(cpu, task);
                let (prio, task) = (self.prio(Some(task)), self.name(Some(task)));
                self.emit(cpu, EventKind::WakeupNew { task, prio, target_cpu });
            }
            TracePoint::Migrate { task, from_cpu, to_cpu } => {
                self.touch_task(cpu, task);
                let (prio, task) = (self.prio(Some(task)), self.name(Some(task)));
                self.emit(cpu, EventKind::Migrate { task, prio, from_cpu, to_cpu });
            }
            TracePoint::WakeIdleWithoutIpi { target_cpu } => {
                self.emit(cpu, EventKind::WakeIdleWithoutIpi { target_cpu });
            }
        }
    }

    fn explains(&self) -> bool {
        self.decisions.is_some()
    }

    fn explain(&mut self, cpu: CpuId, decision: Decision) {
        let now_ns = self.clock_ns;
        if let Some(decisions) = &mut self.decisions {
            decisions.push((now_ns, cpu, decision));
        }
    }
}

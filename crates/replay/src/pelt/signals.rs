//! The load-tracking signals of every CPU and task, driven by events.

use rustc_hash::FxHashMap;
use schedlab_kernel::fair::weight::LoadWeight;
use schedlab_kernel::pelt::{Avg, CpuUtilization, SCHED_CAPACITY_SCALE, sched_cpu_util};
use schedlab_machine::{CPUS_MAX, CpuId, Machine};
use schedlab_trace::{Event, EventKind, PeltClass, Pid, TaskState};

use super::cpu::{Arrival, Class, Cpu, aligned, known, seed};
use super::scale::{CpuScale, Invariance};
use super::task::{Rebuilt, Task};

/// The kernel priority of a fair task at nice 0 (`DEFAULT_PRIO`).
const DEFAULT_PRIO: i32 = 120;

/// A switch this much later than the run time that follows was held up, ns.
const LATE_NS: u64 = 50_000;

/// The signals of every CPU and task.
///
/// ```
/// use schedlab_replay::pelt::Signals;
/// use schedlab_machine::CpuId;
///
/// let mut signals = Signals::new(&[], Default::default());
/// assert_eq!(signals.cpu_util(CpuId(0)), 0);
/// ```
#[derive(Debug, Default)]
pub struct Signals {
    scales: Vec<CpuScale>,
    invariance: Invariance,
    cpus: Vec<Cpu>,
    tasks: FxHashMap<Pid, Task>,
    now_ns: u64,
}

impl Signals {
    /// Signals of CPUs as fast as `scales` says, in the order of their numbers; further CPUs are
    /// of capacity 1024.
    pub fn new(scales: &[CpuScale], invariance: Invariance) -> Self {
        Self { scales: scales.to_vec(), invariance, ..Self::default() }
    }

    /// Signals of a machine's CPUs.
    pub fn of_machine(machine: &Machine, invariance: Invariance) -> Self {
        let scale = |cpu| CpuScale {
            capacity: u64::from(machine.capacity(cpu)),
            max_khz: if machine.opps(cpu).len() > 1 { machine.max_khz(cpu) } else { 0 },
        };
        Self::new(&machine.cpu_ids().map(scale).collect::<Vec<_>>(), invariance)
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        if event.cpu.index() >= CPUS_MAX {
            return;
        }
        let now_ns = event.timestamp_ns;
        self.now_ns = now_ns;
        self.learn_current(event.cpu, event.pid);
        match event.kind {
            EventKind::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                let cpu = event.cpu;
                let on = self.cpu(cpu);
                let before = Arrival::of(on, now_ns);
                on.advance(on.accounted_ns.unwrap_or(now_ns).clamp(on.at_ns.min(now_ns), now_ns));
                if on.current == prev.pid && on.class != Class::of(prev.pid, prev_prio) {
                    // Its class changed while it ran, and nothing tells when.
                    on.known_since_ns = [Some(now_ns); 3];
                }
                self.leave(prev.pid, cpu, prev_prio, prev_state.is_runnable());
                if matches!(prev_state, TaskState::Dead | TaskState::Zombie) {
                    self.exit(prev.pid);
                }
                self.arrive(next.pid, cpu, next_prio);
                self.cpu(cpu).before = before.filter(|_| next_prio >= 100);
            }
            EventKind::StatRuntime { task, runtime_ns } => {
                self.account(event.cpu, task.pid, now_ns.saturating_sub(runtime_ns));
            }
            EventKind::Wakeup { task, target_cpu, prio } => {
                self.wake(task.pid, target_cpu, prio);
            }
            EventKind::WakeupNew { task, target_cpu, prio } => {
                self.new_task(task.pid, target_cpu, prio);
            }
            EventKind::Migrate { task, prio, from_cpu, to_cpu }
                if from_cpu.index() < CPUS_MAX && Class::of(task.pid, prio) == Class::Fair =>
            {
                self.task(task.pid, from_cpu, Some(prio));
                self.migrate(task.pid, to_cpu);
            }
            EventKind::Frequency { cpu, frequency_khz } if cpu.index() < CPUS_MAX => {
                let cpu = self.cpu(cpu);
                cpu.advance(now_ns);
                if let Some(share) = (u64::from(frequency_khz) * SCHED_CAPACITY_SCALE)
                    .checked_div(u64::from(cpu.scale.max_khz))
                {
                    cpu.frequency = share.min(SCHED_CAPACITY_SCALE);
                    cpu.frequency_known = true;
                }
            }
            _ => {}
        }
    }

    /// `update_curr()` accounted the current task's run time since `since_ns`. If that is well
    /// before the switch that brought it, the CPU itself did not run in between (a virtual CPU
    /// whose host was busy), and the switch is done again at its true time.
    fn account(&mut self, cpu: CpuId, pid: Pid, since_ns: u64) {
        let now_ns = self.now_ns;
        let on = self.cpu(cpu);
        if on.current != pid {
            return;
        }
        on.accounted_ns = Some(now_ns);
        let Some(before) = on.before.take() else { return };
        let since_ns = since_ns.max(before.at_ns);
        if since_ns.saturating_add(LATE_NS) >= before.switched_ns {
            return;
        }
        (on.clock, on.fair, on.real_time, on.deadline) =
            (before.clock, before.fair, before.real_time, before.deadline);
        (on.at_ns, on.class) = (before.at_ns, Class::Idle);
        on.advance(since_ns);
        on.class = Class::Fair;
        let on = *on;
        if let Some(task) = self.tasks.get_mut(&pid) {
            task.avg.last_update_time = task.avg.last_update_time.min(on.clock.pelt());
        }
    }

    /// Before a CPU's first switch, its events tell what it runs; a task counts as one of the fair
    /// class at nice 0.
    fn learn_current(&mut self, cpu: CpuId, pid: Pid) {
        if self.cpu(cpu).current == Pid::UNKNOWN && pid != Pid::UNKNOWN {
            self.arrive(pid, cpu, DEFAULT_PRIO);
        }
    }

    /// `sched_cpu_util()` of a CPU at the last event.
    pub fn cpu_util(&mut self, cpu: CpuId) -> u64 {
        if cpu.index() >= CPUS_MAX {
            return 0;
        }
        let now_ns = self.now_ns;
        let cpu = self.cpu(cpu);
        let mut seen = *cpu;
        seen.advance(now_ns);
        let utilization = CpuUtilization {
            cfs: seen.fair.util_avg,
            rt: seen.real_time.util_avg,
            dl: seen.deadline.util_avg,
            ..CpuUtilization::default()
        };
        sched_cpu_util(&utilization, seen.scale.capacity)
    }

    /// A CPU's fair, real-time and deadline `util_avg` at the last event.
    pub fn cpu_signals(&mut self, cpu: CpuId) -> [Rebuilt; 3] {
        let now_ns = self.now_ns;
        if cpu.index() >= CPUS_MAX {
            return [Rebuilt { util_avg: 0, known: false }; 3];
        }
        let mut seen = *self.cpu(cpu);
        seen.advance(now_ns);
        let [fair, real_time, deadline] = seen.known_since_ns.map(|since| known(since, now_ns));
        let value = |avg: &Avg, known| {
            let fresh = u64::from(avg.util_sum / avg.divider());
            Rebuilt { util_avg: if seen.period_known { avg.util_avg } else { fresh }, known }
        };
        [
            value(&seen.fair, fair && seen.incoming == 0),
            value(&seen.real_time, real_time),
            value(&seen.deadline, deadline),
        ]
    }

    /// A task's `util_avg` at the last event, if the task has been met; or, with
    /// `last_update_time_ns` of the kernel's PELT clock, when the kernel last updated it.
    pub fn task_util(&mut self, pid: Pid, last_update_time_ns: Option<u64>) -> Option<Rebuilt> {
        let now_ns = self.now_ns;
        let mut task = *self.tasks.get(&pid)?;
        let mut seen = *self.cpu(task.cpu);
        seen.advance(now_ns);
        let clock = seen.clock.pelt();
        let on = self.cpu(task.cpu);
        let as_of = last_update_time_ns.map_or(clock, |kernel| on.rebuilt_clock(clock, kernel));
        if task.in_transit && as_of < task.avg.last_update_time {
            task.avg = task.before_migration;
            task.in_transit = false;
        }
        task.update(as_of.max(task.avg.last_update_time), &seen);
        // Without its time, the value of a task that sleeps may be of any moment of its sleep.
        let dated = last_update_time_ns.is_some() || task.running;
        let known = dated && known(task.since_ns, now_ns);
        // The kernel tells a value when a period has just ended.
        let util_avg = match last_update_time_ns {
            Some(_) => task.avg.util_avg,
            None => u64::from(task.avg.util_sum / task.avg.divider()),
        };
        Some(Rebuilt { util_avg, known })
    }

    /// The kernel's own value of a task: from here on its history is known.
    pub fn seed_task(&mut self, pid: Pid, cpu: CpuId, util_avg: u64, updated_ns: Option<u64>) {
        if cpu.index() >= CPUS_MAX || pid == Pid::IDLE {
            return;
        }
        let now_ns = self.now_ns;
        self.cpu(cpu).advance(now_ns);
        let clock = self.cpu(cpu).clock.pelt();
        let as_of = updated_ns.map(|kernel| self.cpu(cpu).rebuilt_clock(clock, kernel));
        let on = *self.cpu(cpu);
        let task = self.task(pid, cpu, None);
        task.update(clock, &on);
        seed(&mut task.avg, util_avg, updated_ns);
        // A sleeping task's value may be of an earlier time.
        if let Some(as_of) = as_of.filter(|as_of| *as_of < clock && !task.running) {
            task.avg.last_update_time = as_of;
            task.avg.update_blocked_entity(clock, task.weight);
        }
        task.since_ns = None;
    }

    /// The kernel's own value of one of a CPU's classes.
    pub fn seed_cpu(
        &mut self,
        cpu: CpuId,
        class: PeltClass,
        util_avg: u64,
        updated_ns: Option<u64>,
    ) {
        if cpu.index() >= CPUS_MAX {
            return;
        }
        let now_ns = self.now_ns;
        let cpu = self.cpu(cpu);
        cpu.advance(now_ns);
        let lags = updated_ns.is_none() && cpu.may_lag(now_ns);
        let [fair, real_time, deadline] = &mut cpu.known_since_ns;
        let (avg, since_ns) = match class {
            PeltClass::Fair if lags || cpu.incoming > 0 => return,
            PeltClass::Fair => (&mut cpu.fair, fair),
            PeltClass::Rt => (&mut cpu.real_time, real_time),
            PeltClass::Deadline => (&mut cpu.deadline, deadline),
            PeltClass::Irq | PeltClass::Hardware => return,
        };
        seed(avg, util_avg, updated_ns);
        *since_ns = None;
        cpu.period_known |= updated_ns.is_some();
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let index = cpu.index().min(CPUS_MAX - 1);
        while self.cpus.len() <= index {
            let scale = self.scales.get(self.cpus.len()).copied().unwrap_or_default();
            self.cpus.push(Cpu::new(scale, self.invariance, self.now_ns));
        }
        &mut self.cpus[index]
    }

    /// A task, which on first sight is asleep on `cpu` with empty signals.
    fn task(&mut self, pid: Pid, cpu: CpuId, prio: Option<i32>) -> &mut Task {
        let now_ns = self.now_ns;
        let clock = self.cpu(cpu).clock.pelt();
        let weight = LoadWeight::of_nice(prio.unwrap_or(DEFAULT_PRIO) - DEFAULT_PRIO).weight;
        if !self.tasks.contains_key(&pid) {
            // The CPU's signal has a part that is not known.
            self.cpu(cpu).known_since_ns[0] = Some(now_ns);
        }
        self.tasks.entry(pid).or_insert_with(|| Task {
            avg: aligned(Avg::new_task(weight), clock),
            cpu,
            weight,
            queued: false,
            running: false,
            in_transit: false,
            before_migration: Avg::default(),
            fair: prio.is_none_or(|prio| prio >= 100),
            since_ns: Some(now_ns),
        })
    }

    fn leave(&mut self, pid: Pid, cpu: CpuId, prio: i32, runnable: bool) {
        if Class::of(pid, prio) != Class::Fair {
            // It may have been a fair task when it came.
            if let Some(task) = self.tasks.get_mut(&pid) {
                task.running = false;
            }
        } else {
            let on = *self.cpu(cpu);
            let task = self.task(pid, cpu, Some(prio));
            if task.cpu == cpu {
                task.update(on.clock.pelt(), &on);
            }
            task.running = false;
            let left = task.queued && !runnable;
            task.queued = runnable;
            let weight = task.weight;
            if left {
                self.cpu(cpu).change_queue(weight, false);
            }
        }
    }

    fn arrive(&mut self, pid: Pid, cpu: CpuId, prio: i32) {
        let class = Class::of(pid, prio);
        if class == Class::Fair {
            self.enqueue(pid, cpu, prio);
            let on = *self.cpu(cpu);
            let task = self.task(pid, cpu, Some(prio));
            task.update(on.clock.pelt(), &on);
            task.running = true;
        }
        let on = self.cpu(cpu);
        on.current = pid;
        on.class = class;
        on.accounted_ns = None;
        if class == Class::Idle {
            let (fair, real_time, deadline) = (on.fair, on.real_time, on.deadline);
            on.clock.enter_idle(&fair, &real_time, &deadline);
        }
    }

    fn wake(&mut self, pid: Pid, cpu: CpuId, prio: i32) {
        if cpu.index() < CPUS_MAX && Class::of(pid, prio) == Class::Fair {
            let now_ns = self.now_ns;
            self.cpu(cpu).advance(now_ns);
            self.enqueue(pid, cpu, prio);
        }
    }

    /// Puts a task on a CPU's queue, moving its signals there if it was elsewhere.
    fn enqueue(&mut self, pid: Pid, cpu: CpuId, prio: i32) {
        let now_ns = self.now_ns;
        let elsewhere = self.task(pid, cpu, Some(prio)).cpu != cpu;
        if elsewhere {
            self.migrate(pid, cpu);
        }
        let mut on = *self.cpu(cpu);
        let weight = LoadWeight::of_nice(prio - DEFAULT_PRIO).weight;
        let task = self.task(pid, cpu, Some(prio));
        if std::mem::take(&mut task.in_transit) {
            on.incoming = on.incoming.saturating_sub(1);
            on.join(task, now_ns);
        } else {
            task.update(on.clock.pelt(), &on);
        }
        task.weight = weight;
        let joins = !std::mem::replace(&mut task.queued, true);
        if joins {
            on.change_queue(weight, true);
        }
        *self.cpu(cpu) = on;
    }

    /// A task's first wake-up (`post_init_entity_util_avg()`).
    fn new_task(&mut self, pid: Pid, cpu: CpuId, prio: i32) {
        if cpu.index() >= CPUS_MAX || Class::of(pid, prio) != Class::Fair {
            return;
        }
        let now_ns = self.now_ns;
        // A number may have been another task's before.
        self.tasks.remove(&pid);
        let on = self.cpu(cpu);
        on.advance(now_ns);
        let (capacity, fair) = (on.scale.capacity, on.fair);
        let weight = LoadWeight::of_nice(prio - DEFAULT_PRIO).weight;
        let mut avg = Avg::new_task(weight);
        avg.post_init_entity_util_avg(&fair, weight, capacity);
        let mut task = Task {
            avg,
            cpu,
            weight,
            queued: true,
            running: false,
            in_transit: false,
            before_migration: Avg::default(),
            fair: true,
            since_ns: Some(now_ns),
        };
        let on = self.cpu(cpu);
        on.join(&mut task, now_ns);
        on.change_queue(weight, true);
        self.tasks.insert(pid, task);
    }

    /// A task has run for the last time (`task_dead_fair()`).
    fn exit(&mut self, pid: Pid) {
        let now_ns = self.now_ns;
        let Some(task) = self.tasks.remove(&pid) else { return };
        let on = self.cpu(task.cpu);
        if task.in_transit {
            on.incoming = on.incoming.saturating_sub(1);
        } else if task.fair {
            on.part(&task, now_ns);
        }
    }

    /// Moves a task's signals to another CPU.
    fn migrate(&mut self, pid: Pid, to: CpuId) {
        let now_ns = self.now_ns;
        let Some(mut task) = self.tasks.get(&pid).copied() else { return };
        if to.index() >= CPUS_MAX || task.cpu == to || !task.fair {
            return;
        }
        if task.in_transit {
            let from = self.cpu(task.cpu);
            from.incoming = from.incoming.saturating_sub(1);
        } else {
            let from = self.cpu(task.cpu);
            from.advance(now_ns);
            task.before_migration = task.avg;
            task.update(from.clock.pelt(), from);
            from.part(&task, now_ns);
            if task.queued {
                from.change_queue(task.weight, false);
            }
        }
        // One that is queued moves at once; one that wakes up is attached when it is queued.
        task.in_transit = !task.queued;
        let target = self.cpu(to);
        if task.queued {
            target.advance(now_ns);
            target.join(&mut task, now_ns);
            target.change_queue(task.weight, true);
        } else {
            target.incoming += 1;
        }
        task.cpu = to;
        self.tasks.insert(pid, task);
    }
}

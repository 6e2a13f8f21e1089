//! The event loop. Each CPU offers its next event; the earliest is handled, and the kernel paths
//! that it causes run to completion on that CPU's clock. State that they change is visible to
//! other CPUs from then on, so the order between CPUs is exact to the length of a kernel path.

use crate::energy::{Activity, Energy, EnergyMeter, deepest};
use crate::figures::{Figure, Figures};
use crate::interpret::{Progress, Step};
use crate::lines::Lines;
use crate::objects::Object;
use crate::observe::{Digest, Observer};
use crate::platform::{Cpu, Doing, FULL_SPEED, Platform, Timer};
use crate::queue::{EventQueue, NEVER};
use crate::random::Pcg;
use crate::streams::Streams;
use schedlab_kernel::cpuidle::{
    AnyGovernor, Governor, GovernorKind, IdleHardware, LATENCY_UNLIMITED_NS, SleepLength, State,
};
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::topology::Domains;
use schedlab_kernel::hardware::Decision;
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::{SchedConfig, Scheduler, TaskState, WakeFlags};
use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{EventKind, Pid, StrId, Strings, Task};
use schedlab_workload::TASKS_MAX;
use schedlab_workload::program::Workload;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a run is made of, beside machine and workload.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The kernel's variants.
    pub sched: SchedConfig,
    /// The idle governor.
    pub governor: GovernorKind,
    /// The run ends at this time at the latest, ns.
    pub duration_ns: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Handle events of one nanosecond in random order.
    pub shuffle_ties: bool,
    /// Keep explained decisions.
    pub explain: bool,
}

impl Settings {
    /// The variants and the idle governor of a kernel, sized for a machine.
    pub fn new(kernel: &Kernel, machine: &Machine, duration_ns: u64, seed: u64) -> Settings {
        Settings {
            sched: kernel.config(machine.cpu_count()),
            governor: kernel.governor,
            duration_ns,
            seed,
            shuffle_ties: false,
            explain: false,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every task ended, or one ended all of them.
    Finished,
    /// The time was up.
    TimeUp,
    /// Nothing can happen any more, though tasks live: each with what it waits for.
    Stuck(Vec<String>),
    /// More tasks were created than are simulated: this many are too many.
    TooManyTasks(u64),
}

/// Time of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Running tasks or the kernel, ns.
    pub busy_ns: u64,
    /// Of that, in interrupts and softirqs, ns.
    pub irq_ns: u64,
    /// In each idle state, ns.
    pub idle_ns: Vec<u64>,
    /// Ticks.
    pub ticks: u64,
    /// Interrupts from other CPUs.
    pub ipis: u64,
}

/// A task at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its name.
    pub comm: String,
    /// Run time, ns.
    pub runtime_ns: u64,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often it moved.
    pub migrations: u64,
    /// The CPU it was last on.
    pub cpu: CpuId,
}

/// What a run yields.
#[derive(Debug)]
pub struct Outcome<O> {
    /// How it ended.
    pub ending: Ending,
    /// When, ns.
    pub end_ns: u64,
    /// Events of the trace schema, kept or not.
    pub events: u64,
    /// Hash of them all.
    pub digest: u64,
    /// The workload's figures.
    pub figures: Vec<Figure>,
    /// Per CPU.
    pub cpus: Vec<CpuTimes>,
    /// Per task.
    pub tasks: Vec<TaskSummary>,
    /// Energy.
    pub energy: Energy,
    /// Explained decisions: time, CPU, decision.
    pub decisions: Vec<(u64, CpuId, Decision)>,
    /// The tasks as events name them.
    pub task_names: Vec<Task>,
    /// Names that events refer to.
    pub strings: Strings,
    /// What took the events.
    pub observer: O,
}

/// A run in progress.
pub struct Engine<'a, O> {
    pub(crate) sched: Scheduler,
    pub(crate) platform: Platform<'a, O>,
    pub(crate) workload: &'a Workload,
    pub(crate) objects: Vec<Object>,
    pub(crate) progress: Vec<Progress>,
    pub(crate) figures: Figures,
    pub(crate) instances: Vec<u32>,
    pub(crate) program_names: Vec<StrId>,
    pub(crate) seed: u64,
    pub(crate) live: u64,
    pub(crate) timers_armed: u64,
    pub(crate) stopped: bool,
    idle_cpus: usize,
    strings: Strings,
}

/// The stream of random numbers of kernel code; tasks have those of their own numbers.
const KERNEL_STREAM: u64 = u64::MAX >> 1;

/// Operations without any time between them that a task may do before it is taken for stuck.
const STEPS_WITHOUT_TIME_MAX: u32 = 1_000;

impl<'a, O: Observer> Engine<'a, O> {
    /// A run at time 0: every CPU idle, every first task created.
    pub fn new(
        machine: &'a Machine,
        domains: Domains,
        workload: &'a Workload,
        settings: &Settings,
        observer: O,
    ) -> Engine<'a, O> {
        let capacities: Vec<u64> =
            machine.cpu_ids().map(|cpu| u64::from(machine.capacity(cpu))).collect();
        let tick_ns = settings.sched.tick_ns();
        let cpu_count = machine.cpu_count();
        let cpu = |cpu: CpuId| {
            let states: Vec<State> = machine
                .idle_states(cpu)
                .iter()
                .map(|state| State {
                    exit_latency_ns: state.governor_exit_latency_ns,
                    target_residency_ns: state.target_residency_ns,
                    polling: state.polling,
                    disabled: false,
                })
                .collect();
            let capacity = u64::from(machine.capacity(cpu));
            Cpu {
                // The machine idled for long before the run.
                doing: Doing::Idle { since_ns: 0, state: deepest(machine, cpu) },
                busy_until_ns: 0,
                done_ns: NEVER,
                ahead: false,
                tick_ns: NEVER,
                ipi_ns: NEVER,
                timers: BinaryHeap::with_capacity(64),
                threads: machine.topology().cores().siblings(cpu).iter().collect(),
                governor: AnyGovernor::new(settings.governor, tick_ns, capacity),
                idle_ns: vec![0; states.len().max(1)],
                states,
                speed: capacity * FULL_SPEED / 1024,
                pace: u64::MAX,
                steps_without_time: 0,
                busy_ns: 0,
                irq_ns: 0,
                busy_since_ns: None,
                ticks: 0,
                ipis: 0,
                running: Pid::IDLE,
                got_tick: false,
            }
        };
        let mut strings = Strings::default();
        let program_names =
            workload.programs.iter().map(|program| strings.intern(program.comm.as_bytes()));
        let program_names = program_names.collect();
        let mut engine = Engine {
            sched: Scheduler::new(settings.sched, domains, &capacities, 0),
            platform: Platform {
                machine,
                clock_ns: 0,
                cpus: machine.cpu_ids().map(cpu).collect(),
                queue: EventQueue::new(cpu_count, settings.shuffle_ties.then_some(settings.seed)),
                energy: EnergyMeter::new(machine),
                lines: Lines::new(workload.objects.len()),
                streams: Streams::new(machine, &workload.objects),
                observer,
                digest: Digest::default(),
                events: 0,
                comms: Vec::new(),
                prios: Vec::new(),
                touched: Vec::new(),
                tick_ns,
                random: Pcg::new(settings.seed, KERNEL_STREAM),
                decisions: settings.explain.then(Vec::new),
            },
            workload,
            objects: workload.objects.iter().map(|&kind| Object::new(kind)).collect(),
            progress: Vec::new(),
            figures: Figures::new(&workload.metrics),
            instances: vec![0; workload.programs.len()],
            program_names,
            seed: settings.seed,
            live: 0,
            timers_armed: 0,
            stopped: false,
            idle_cpus: cpu_count,
            strings,
        };
        for cpu in machine.cpu_ids() {
            engine.sched.stop_tick(cpu);
            engine.note_idle_state(cpu, deepest(machine, cpu));
        }
        for spawn in &workload.spawns {
            let birth_cpu = CpuId(spawn.birth_cpu % cpu_count as u32);
            let task = engine.create(spawn.program, None, birth_cpu);
            let timer = Timer { hard_ns: spawn.start_ns, soft_ns: spawn.start_ns, task: task.0 };
            engine.platform.cpus[birth_cpu.index()].timers.push(Reverse(timer));
            engine.timers_armed += 1;
            engine.platform.requeue(birth_cpu.index());
        }
        engine
    }

    /// Runs until the time is up or nothing is left to do.
    pub fn run(mut self, duration_ns: u64) -> Outcome<O> {
        loop {
            if let Some(ending) = self.advance(duration_ns, u32::MAX) {
                return self.finish(ending, duration_ns);
            }
        }
    }

    /// Handles at most `events_max` events, and tells how the run ended if it did; between two
    /// calls a caller may look at the time or give up.
    pub fn advance(&mut self, duration_ns: u64, events_max: u32) -> Option<Ending> {
        for _ in 0..events_max {
            if self.live == 0 || self.stopped {
                return Some(Ending::Finished);
            }
            if self.progress.len() as u64 > TASKS_MAX {
                return Some(Ending::TooManyTasks(self.progress.len() as u64));
            }
            let (cpu, time_ns) = self.platform.queue.earliest();
            if time_ns == NEVER || self.is_stuck() {
                return Some(Ending::Stuck(self.who_waits()));
            }
            if time_ns >= duration_ns {
                return Some(Ending::TimeUp);
            }
            self.handle(CpuId(cpu as u32), time_ns);
        }
        None
    }

    /// The scheduler's state.
    pub fn scheduler(&self) -> &Scheduler {
        &self.sched
    }

    /// Checks what must hold between any two events: what [`Scheduler::verify`] checks, and that
    /// no CPU sleeps or computes on while work waits for it that nothing will tell it of.
    ///
    /// # Errors
    /// The first thing that does not hold, in one line.
    pub fn verify(&self) -> Result<(), String> {
        self.sched.verify()?;
        for cpu in self.platform.machine.cpu_ids() {
            self.verify_cpu(cpu)?;
        }
        Ok(())
    }

    fn verify_cpu(&self, id: CpuId) -> Result<(), String> {
        let cpu = &self.platform.cpus[id.index()];
        let wrong = |what: &str| Err(format!("CPU {}: {what}", id.0));
        let told = cpu.ipi_ns != NEVER;
        if self.platform.queue.time_ns(id.index()) == NEVER
            && (told || cpu.tick_ns != NEVER || cpu.done_ns != NEVER || !cpu.timers.is_empty())
        {
            return wrong("it has events, but is not queued");
        }
        match cpu.doing {
            Doing::Idle { .. } if told => Ok(()),
            Doing::Idle { .. } => {
                let state = &self.sched.cpus()[id.index()];
                if self.sched.current(id).is_some() {
                    return wrong("it sleeps, but a task runs on it");
                }
                if state.nr_running > 0 || state.ttwu_pending || self.sched.need_resched(id) {
                    return wrong("it sleeps although tasks wait on it");
                }
                Ok(())
            }
            Doing::Computing { .. } => {
                if self.sched.current(id).is_none() {
                    return wrong("it computes for no task");
                }
                if cpu.done_ns == NEVER {
                    return wrong("its computation never ends");
                }
                if self.sched.need_resched(id) && !told {
                    return wrong("it should schedule, but nothing tells it");
                }
                Ok(())
            }
            Doing::Kernel if cpu.done_ns == NEVER => wrong("it never leaves the kernel"),
            Doing::Kernel => Ok(()),
        }
    }

    /// Virtual time so far, ns.
    pub fn now_ns(&self) -> u64 {
        self.platform.clock_ns
    }

    /// Events so far, whether the observer kept them or not.
    pub fn events(&self) -> u64 {
        self.platform.events
    }

    /// Only ticks are left, and nobody to be woken by them.
    fn is_stuck(&self) -> bool {
        self.timers_armed == 0
            && self.idle_cpus == self.platform.cpus.len()
            && self.platform.cpus.iter().all(|cpu| cpu.ipi_ns == NEVER)
    }

    fn who_waits(&self) -> Vec<String> {
        let tasks = self.sched.tasks().iter().enumerate();
        tasks
            .filter(|(_, task)| task.state != TaskState::Dead)
            .map(|(index, _)| {
                let comm = self.strings.get(self.platform.comms[index]);
                match self.progress[index].waits_for {
                    Some(object) => {
                        let noun = self.objects[object.0 as usize].noun();
                        format!("{comm} (task {index}) waits for {noun} {}", object.0)
                    }
                    None => format!("{comm} (task {index}) waits for its children or a timer"),
                }
            })
            .collect()
    }

    fn handle(&mut self, cpu: CpuId, time_ns: u64) {
        let index = cpu.index();
        self.platform.clock_ns = time_ns;
        self.platform.energy.advance(self.platform.machine, time_ns);
        if O::ACTIVE {
            self.platform.observer.horizon(time_ns);
        }
        match self.platform.cpus[index].doing {
            Doing::Idle { since_ns, state } => self.leave_idle(cpu, since_ns, state),
            Doing::Computing { .. } => {
                self.platform.progress(index, time_ns);
                self.pause(cpu);
            }
            Doing::Kernel => {}
        }
        self.platform.cpus[index].doing = Doing::Kernel;
        self.platform.cpus[index].done_ns = NEVER;
        self.platform.cpus[index].ahead = false;
        let since_ns = self.platform.clock_ns;
        self.interrupts(cpu);
        self.platform.cpus[index].irq_ns += self.platform.clock_ns - since_ns;
        self.continue_running(cpu);
        let state = &mut self.platform.cpus[index];
        state.busy_until_ns = self.platform.clock_ns;
        self.platform.requeue(index);
    }

    /// Notes how far the running task's computation has come.
    pub(crate) fn pause(&mut self, cpu: CpuId) {
        if let Doing::Computing { work_left, .. } = self.platform.cpus[cpu.index()].doing
            && let Some(task) = self.sched.current(cpu)
        {
            self.progress[task.index()].work_left = work_left;
        }
    }

    fn leave_idle(&mut self, cpu: CpuId, since_ns: u64, state: u32) {
        let index = cpu.index();
        self.idle_cpus -= 1;
        let now_ns = self.platform.clock_ns;
        let machine = self.platform.machine;
        self.platform.cpus[index].idle_ns[state as usize] += now_ns.saturating_sub(since_ns);
        self.platform.set_activity(cpu, Activity::Busy);
        if let Some(hardware_state) = machine.idle_states(cpu).get(state as usize) {
            self.platform.clock_ns += hardware_state.exit_latency_ns;
        }
        self.sched.set_idle_state(cpu, None);
        self.platform.emit(cpu, EventKind::IdleExit { cpu });
        self.platform.clock_ns += machine.path_costs().idle_exit_ns;
        let tick_due = self.platform.cpus[index].tick_ns <= now_ns;
        self.platform.cpus[index].got_tick = tick_due;
        let residency_ns = (self.platform.clock_ns - since_ns) as i64;
        let mut view = IdleView::new(&self.sched, &self.platform.cpus[index], cpu, now_ns);
        let Cpu { governor, states, .. } = &mut self.platform.cpus[index];
        governor.reflect(states, state as usize, residency_ns, &mut view);
    }

    /// Handles every interrupt that is due.
    fn interrupts(&mut self, cpu: CpuId) {
        let index = cpu.index();
        let costs = self.platform.machine.path_costs();
        if self.platform.cpus[index].ipi_ns <= self.platform.clock_ns {
            self.platform.cpus[index].ipi_ns = NEVER;
            self.platform.cpus[index].ipis += 1;
            self.platform.clock_ns += costs.ipi_handle_ns;
            self.sched.interrupt_from_cpu(cpu, &mut self.platform);
        }
        let hard_due = |platform: &Platform<'_, O>| {
            let first = platform.cpus[index].timers.peek();
            first.is_some_and(|Reverse(timer)| timer.hard_ns <= platform.clock_ns)
        };
        if hard_due(&self.platform) {
            self.platform.clock_ns += costs.irq_ns;
            // One interrupt serves every timer whose soft expiry has passed.
            while let Some(&Reverse(timer)) = self.platform.cpus[index].timers.peek()
                && timer.soft_ns <= self.platform.clock_ns
            {
                self.platform.cpus[index].timers.pop();
                self.timers_armed -= 1;
                self.expire(cpu, TaskId(timer.task));
            }
        }
        if self.platform.cpus[index].tick_ns <= self.platform.clock_ns {
            self.platform.cpus[index].ticks += 1;
            self.arm_tick(cpu);
            self.sched.tick(cpu, &mut self.platform);
        }
        self.sched.softirq(cpu, &mut self.platform);
    }

    fn expire(&mut self, cpu: CpuId, task: TaskId) {
        if self.sched.task(task).state == TaskState::New {
            self.sched.wake_new(task, cpu, &mut self.platform);
        } else {
            self.wake(cpu, task, WakeFlags::INTERRUPT);
        }
    }

    /// The next tick: all CPUs tick at multiples of its length.
    fn arm_tick(&mut self, cpu: CpuId) {
        let tick_ns = self.platform.tick_ns;
        let next_ns = (self.platform.clock_ns / tick_ns + 1) * tick_ns;
        self.platform.cpus[cpu.index()].tick_ns = next_ns;
    }

    /// Runs tasks until one computes, nothing is left to run, or another CPU's turn has come.
    fn continue_running(&mut self, cpu: CpuId) {
        let index = cpu.index();
        loop {
            if self.sched.need_resched(cpu) {
                let prev = self.sched.current(cpu);
                let next = self.sched.schedule(cpu, &mut self.platform);
                if prev.is_none() && next.is_some() && self.platform.cpus[index].tick_ns == NEVER {
                    self.arm_tick(cpu);
                }
            }
            let Some(task) = self.sched.current(cpu) else { return self.enter_idle(cpu) };
            let progress = &mut self.progress[task.index()];
            if progress.computing {
                if let Some(until_ns) = progress.spins_until_ns {
                    let left_ns = until_ns.saturating_sub(self.platform.clock_ns);
                    progress.work_left = left_ns.saturating_mul(FULL_SPEED);
                }
                if progress.work_left > 0 {
                    self.platform.cpus[index].doing = Doing::Computing {
                        since_ns: self.platform.clock_ns,
                        work_left: progress.work_left,
                        wall: progress.wall,
                    };
                    let stream = progress.stream;
                    self.platform.set_stream(cpu, stream);
                    return self.platform.plan_end(index);
                }
                progress.computing = false;
                progress.spins_until_ns = None;
                if progress.stream.is_some() {
                    // Its operation counts what was done.
                    progress.stage = 1;
                } else {
                    progress.at += 1;
                    progress.stage = 0;
                }
            }
            let before_ns = self.platform.clock_ns;
            let step = self.step(cpu, task);
            if step == Step::Done && self.platform.clock_ns == before_ns {
                let steps = &mut self.platform.cpus[index].steps_without_time;
                *steps = steps.saturating_add(1);
                if *steps > STEPS_WITHOUT_TIME_MAX {
                    // A loop that takes no time would never let the others run: from here on it is
                    // charged a nanosecond per step.
                    self.platform.clock_ns += 1;
                }
            } else {
                self.platform.cpus[index].steps_without_time = 0;
            }
            // Another CPU's event, or an interrupt of this one, comes before the next operation.
            let state = &self.platform.cpus[index];
            let timer_ns = state.timers.peek().map_or(NEVER, |Reverse(timer)| timer.hard_ns);
            let interrupt_ns = state.ipi_ns.min(state.tick_ns).min(timer_ns);
            let now_ns = self.platform.clock_ns;
            if step == Step::Computes || self.sched.need_resched(cpu) {
                continue;
            }
            let others_first = self.platform.queue.earliest_of_others_ns(index) <= now_ns;
            let ahead = others_first && interrupt_ns > now_ns && self.computes_next(task);
            self.platform.cpus[index].ahead = ahead;
            if (others_first || interrupt_ns <= now_ns) && !ahead {
                let state = &mut self.platform.cpus[index];
                state.doing = Doing::Kernel;
                state.done_ns = now_ns;
                return;
            }
        }
    }

    /// The idle loop: the governor chooses a state, and the CPU enters it.
    fn enter_idle(&mut self, cpu: CpuId) {
        let index = cpu.index();
        self.platform.set_stream(cpu, None);
        self.sched.before_idle(cpu, &mut self.platform);
        self.platform.clock_ns += self.platform.machine.path_costs().idle_entry_ns;
        let now_ns = self.platform.clock_ns;
        let (mut choice, mut stop_tick) = (0, true);
        if !self.platform.cpus[index].states.is_empty() {
            let mut view = IdleView::new(&self.sched, &self.platform.cpus[index], cpu, now_ns);
            let Cpu { governor, states, .. } = &mut self.platform.cpus[index];
            let answer = governor.select(states, &mut view);
            choice = answer.index;
            stop_tick = answer.stop_tick;
        }
        let state = &mut self.platform.cpus[index];
        if stop_tick && std::mem::replace(&mut state.tick_ns, NEVER) != NEVER {
            self.sched.stop_tick(cpu);
        }
        let state = &mut self.platform.cpus[index];
        state.doing = Doing::Idle { since_ns: now_ns, state: choice as u32 };
        let polls = state.states.get(choice).is_some_and(|state| state.polling);
        // A poll gives up after the residency of the next state, and the governor is asked again
        // (cpuidle_poll_time()).
        state.done_ns = match state.states.get(choice + 1) {
            Some(next) if polls => now_ns + next.target_residency_ns.max(10_000),
            _ => NEVER,
        };
        self.idle_cpus += 1;
        self.note_idle_state(cpu, choice as u32);
        self.platform.set_activity(cpu, Activity::Idle(choice as u32));
    }

    fn note_idle_state(&mut self, cpu: CpuId, state: u32) {
        let hardware_state = self.platform.machine.idle_states(cpu).get(state as usize);
        let latency_us = hardware_state.map(|s| (s.governor_exit_latency_ns / 1000) as u32);
        self.sched.set_idle_state(cpu, latency_us);
        self.platform.emit(cpu, EventKind::IdleEnter { cpu, state });
    }

    /// What a run yields that ended as [`Engine::advance`] told, with the same `duration_ns`.
    pub fn finish(mut self, ending: Ending, duration_ns: u64) -> Outcome<O> {
        let end_ns = match ending {
            Ending::TimeUp => duration_ns,
            _ => self.platform.clock_ns,
        };
        self.count_streams(end_ns);
        let figures = self.figures.finish(&self.workload.metrics, end_ns);
        let cpus = self.platform.cpus.iter_mut().map(|cpu| {
            if let Some(since_ns) = cpu.busy_since_ns {
                cpu.busy_ns += end_ns.saturating_sub(since_ns);
            }
            if let Doing::Idle { since_ns, state } = cpu.doing {
                cpu.idle_ns[state as usize] += end_ns.saturating_sub(since_ns);
                // A kernel path that the end cut short counts up to the end.
                cpu.busy_ns -= since_ns.saturating_sub(end_ns);
            }
            CpuTimes {
                busy_ns: cpu.busy_ns,
                irq_ns: cpu.irq_ns,
                idle_ns: std::mem::take(&mut cpu.idle_ns),
                ticks: cpu.ticks,
                ipis: cpu.ipis,
            }
        });
        let cpus = cpus.collect();
        let tasks = self.sched.tasks().iter().enumerate().map(|(index, task)| TaskSummary {
            comm: self.strings.get(self.platform.comms[index]).to_owned(),
            runtime_ns: self.sched.entity(TaskId(index as u32)).sum_exec_runtime_ns,
            switches: task.switches,
            migrations: task.migrations,
            cpu: task.cpu,
        });
        Outcome {
            ending,
            end_ns,
            events: self.platform.events,
            digest: self.platform.digest.value(),
            figures,
            cpus,
            tasks: tasks.collect(),
            task_names: crate::record::task_names(&self.platform.comms),
            energy: self.platform.energy.read(self.platform.machine, end_ns),
            decisions: self.platform.decisions.take().unwrap_or_default(),
            strings: self.strings,
            observer: self.platform.observer,
        }
    }
}

/// A CPU, as its idle governor sees it.
struct IdleView {
    now_ns: u64,
    sleep: SleepLength,
    tick_stopped: bool,
    got_tick: bool,
    poll_limit: bool,
    cpu_util: u64,
}

impl IdleView {
    fn new(sched: &Scheduler, cpu: &Cpu, id: CpuId, now_ns: u64) -> IdleView {
        let until = |time_ns: u64| if time_ns == NEVER { i64::MAX } else { time_ns as i64 };
        let timer_ns = cpu.timers.peek().map_or(NEVER, |Reverse(timer)| timer.hard_ns);
        let sleep_ns = until(timer_ns).saturating_sub(now_ns as i64);
        let delta_next_ns = until(timer_ns.min(cpu.tick_ns)).saturating_sub(now_ns as i64);
        let state = &sched.cpus()[id.index()];
        IdleView {
            now_ns,
            sleep: SleepLength { sleep_ns, delta_next_ns },
            tick_stopped: cpu.tick_ns == NEVER,
            got_tick: cpu.got_tick,
            poll_limit: cpu.done_ns != NEVER && cpu.done_ns <= now_ns,
            cpu_util: state.util.max(state.util_est).min(state.capacity_orig),
        }
    }
}

impl IdleHardware for IdleView {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }
    fn sleep_length(&mut self) -> SleepLength {
        self.sleep
    }
    fn latency_req_ns(&self) -> i64 {
        LATENCY_UNLIMITED_NS
    }
    fn tick_stopped(&self) -> bool {
        self.tick_stopped
    }
    fn got_tick(&self) -> bool {
        self.got_tick
    }
    fn nr_iowait(&self) -> u32 {
        0
    }
    fn cpu_util(&self) -> u64 {
        self.cpu_util
    }
    fn poll_time_limit(&self) -> bool {
        self.poll_limit
    }
}

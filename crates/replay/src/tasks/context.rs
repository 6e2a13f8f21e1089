//! What each CPU of the trace is in the middle of: which interrupt, which idle state, and whether
//! it has something to do that it does not do.

use super::costs::{PATH_MAX_NS, is_sleep};
use super::stream::begins;
use rustc_hash::FxHashMap;
use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{Event, EventKind, Pid, Strings};

/// A vector of softirqs that the simulated kernel raises by itself (`SCHED_SOFTIRQ`).
const SCHED_SOFTIRQ: u32 = 7;

/// The vector that expires the timers of the timer wheel (`TIMER_SOFTIRQ`).
const TIMER_SOFTIRQ: u32 = 1;

/// The name of the interrupt by which CPUs make each other schedule, on x86 or on arm64: the
/// simulated kernel sends its own.
fn is_reschedule(name: &str) -> bool {
    matches!(name, "reschedule" | "Rescheduling interrupts")
}

/// In which context an event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Context {
    /// In the current task, or idle.
    #[default]
    Task,
    /// In the expiry of this timer, which ends a sleep.
    Sleeper(u64),
    /// In the expiry of another timer.
    Timer,
    /// In an interrupt or a softirq that began or was interrupted by a wake-up at this time.
    Interrupt(u64),
    /// The same in the softirq that expires the timers of the wheel.
    Wheel(u64),
}

/// What it means that a CPU records nothing for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// A task computes, the CPU sleeps, or an interrupt runs that the trace does not show.
    Nothing,
    /// The same outside of interrupts; in them, and while the idle task is to give way, something
    /// held the CPU up.
    InPaths,
    /// The virtual CPU did not have the instruction stream that it shares with others.
    HeldUp,
}

impl Silence {
    /// Virtual CPUs that share one instruction stream tell by silence who has it; elsewhere it tells
    /// something only where the trace shows when interrupts begin.
    pub fn of(machine: &Machine, shows_interrupts: bool) -> Silence {
        if machine.shared_instruction_stream() {
            Silence::HeldUp
        } else if shows_interrupts {
            Silence::InPaths
        } else {
            Silence::Nothing
        }
    }
}

/// An armed timer of a sleeping task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Armed {
    pub pid: Pid,
    pub soft_ns: u64,
    pub hard_ns: u64,
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    /// What it runs; `None` before its first event.
    pub running: Option<Pid>,
    pub context: Context,
    /// Its last event was the entry into this idle state.
    asleep: Option<u32>,
    /// Its last event was the end of a softirq.
    softirq_over: bool,
    /// It tells when it enters idle states.
    shows_idle: bool,
    last_ns: u64,
    /// The task that another CPU woke here, and since when.
    pending: Option<(u64, Pid)>,
    /// Times without an event on the way to a switch.
    gaps_ns: u64,
    /// The task whose wake-up is under way here, and the one that is to run next.
    waking: Option<Pid>,
    wakes: Option<Pid>,
}

impl Cpu {
    /// It runs no task.
    fn idles(&self) -> bool {
        self.running == Some(Pid::IDLE)
    }
}

/// A wake-up that a CPU did not get on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub task: Pid,
    pub time_ns: u64,
}

impl Late {
    fn of(task: Pid, time_ns: u64) -> Option<Late> {
        (time_ns > PATH_MAX_NS).then_some(Late { task, time_ns })
    }
}

/// Every CPU, and the timers of sleeping tasks.
#[derive(Debug)]
pub(super) struct Contexts<'a> {
    pub cpus: Vec<Cpu>,
    armed: FxHashMap<u64, Armed>,
    machine: &'a Machine,
    silence: Silence,
}

impl<'a> Contexts<'a> {
    pub fn new(machine: &'a Machine, silence: Silence) -> Contexts<'a> {
        Contexts { cpus: Vec::new(), armed: FxHashMap::default(), machine, silence }
    }

    /// How long an idle CPU may take to answer: it enters and leaves its idle state, ns.
    fn answer_ns(&self, cpu: CpuId, asleep: Option<u32>) -> u64 {
        let Some(state) = asleep.filter(|_| self.silence != Silence::HeldUp) else { return 0 };
        let states = self.machine.idle_states(cpu);
        let own_ns =
            states.get(state as usize).map_or(0, |s| s.entry_latency_ns + s.exit_latency_ns);
        let groups = self.machine.group_states().iter();
        own_ns + groups.map(|group| group.exit_latency_ns).max().unwrap_or(0)
    }

    /// How late the interrupt of a timer may be on an idle CPU that nothing held up, ns.
    pub fn timer_late_ns(&self, cpu: CpuId) -> u64 {
        let states = 0..self.machine.idle_states(cpu).len() as u32;
        states.map(|state| self.answer_ns(cpu, Some(state))).max().unwrap_or(0)
    }

    pub fn cpu(&mut self, cpu: CpuId) -> Option<&mut Cpu> {
        let index = cpu.index();
        if index >= schedlab_machine::CPUS_MAX {
            return None;
        }
        if index >= self.cpus.len() {
            self.cpus.resize(index + 1, Cpu::default());
        }
        self.cpus.get_mut(index)
    }

    /// The armed timer of a sleeping task, which is armed no more.
    pub fn take_armed(&mut self, timer: u64) -> Option<Armed> {
        self.armed.remove(&timer)
    }

    /// The CPU recorded an event: how long it had not got on with a wake-up.
    pub fn late(&mut self, event: &Event) -> Option<Late> {
        if self.silence == Silence::Nothing {
            return None;
        }
        let now_ns = event.timestamp_ns;
        let asleep = self.cpu(event.cpu)?.asleep;
        let answer_ns = self.answer_ns(event.cpu, asleep);
        let everywhere = self.silence == Silence::HeldUp;
        let cpu = self.cpu(event.cpu)?;
        let idles = cpu.idles();
        let last_ns = std::mem::replace(&mut cpu.last_ns, now_ns);
        // What begins an interrupt may come after any computation; other events go on with a path.
        let begins = begins(event);
        let gap_ns = now_ns.saturating_sub(last_ns);
        let in_path = everywhere || cpu.context != Context::Task;
        if last_ns > 0 && in_path && !begins && gap_ns > PATH_MAX_NS {
            cpu.gaps_ns += gap_ns;
        }
        let gaps_ns = cpu.gaps_ns;
        // Before an interrupt, the task went on, so nothing had asked for another one.
        if begins || matches!(event.kind, EventKind::Switch { .. }) {
            cpu.gaps_ns = 0;
        }
        let pending = cpu.pending;
        if let EventKind::Switch { .. } = event.kind {
            cpu.pending = None;
        }
        if idles {
            cpu.pending = None;
            let awake = cpu.shows_idle && cpu.asleep.is_none() && last_ns > 0;
            let (task, from_ns) = match pending {
                Some((since_ns, task)) => (task, since_ns.max(last_ns)),
                None if awake => (cpu.wakes.or(cpu.waking)?, last_ns),
                None => return None,
            };
            return Late::of(task, now_ns.saturating_sub(from_ns + answer_ns));
        }
        // What preempts a task is an interrupt, which leaves an event or was sent by another CPU:
        // the switch follows at once.
        let EventKind::Switch { prev_state, next, .. } = event.kind else { return None };
        if !prev_state.is_runnable() {
            return None;
        }
        let gaps_ns = match pending {
            Some((since_ns, task)) if task == next.pid => {
                gaps_ns.min(now_ns.saturating_sub(since_ns))
            }
            _ => gaps_ns,
        };
        Late::of(next.pid, gaps_ns)
    }

    /// Another CPU woke a task on `cpu`.
    pub fn told(&mut self, cpu: CpuId, now_ns: u64, task: Pid) {
        if let Some(cpu) = self.cpu(cpu)
            && cpu.pending.is_none()
        {
            cpu.pending = Some((now_ns, task));
        }
    }

    /// Since when something has kept `cpu` from getting on with the wake-up of `task`, which goes
    /// elsewhere now.
    pub fn gave_away(&mut self, cpu: CpuId, task: Pid) -> Option<u64> {
        if self.silence == Silence::Nothing {
            return None;
        }
        let everywhere = self.silence == Silence::HeldUp;
        let Cpu { running, asleep, pending, .. } = *self.cpu(cpu)?;
        // That a busy CPU does not switch is the scheduler's choice.
        if !everywhere && running != Some(Pid::IDLE) {
            return None;
        }
        let (since_ns, _) = pending.filter(|(_, pending)| *pending == task)?;
        Some(since_ns + self.answer_ns(cpu, asleep))
    }

    /// `cpu` runs no task, as far as it was seen.
    pub fn idles(&self, cpu: CpuId) -> bool {
        self.cpus.get(cpu.index()).is_some_and(Cpu::idles)
    }

    /// A softirq ended on `cpu`, and nothing has happened there since.
    pub fn softirq_over(&mut self, cpu: CpuId) -> bool {
        self.cpu(cpu).is_some_and(|cpu| cpu.softirq_over)
    }

    /// The task whose wake-up is under way on a CPU.
    pub fn waking_on(&mut self, cpu: CpuId) -> Option<Pid> {
        self.cpu(cpu)?.waking
    }

    /// Follows what the event says of its CPU. Tells how long the interrupt lasted that it ends
    /// or that a wake-up divides.
    pub fn follow(&mut self, event: &Event, strings: &Strings) -> Option<(u64, u64)> {
        let now_ns = event.timestamp_ns;
        if let EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns } = event.kind
            && is_sleep(strings.get(function))
            && event.pid.0 > 0
        {
            let hard_ns = u64::try_from(expires_ns).unwrap_or(0);
            let soft_ns = u64::try_from(soft_expires_ns).unwrap_or(0);
            self.armed.insert(timer, Armed { pid: event.pid, soft_ns, hard_ns });
        }
        let wakeup_ns = self.machine.path_costs().wakeup_ns;
        let cpu = self.cpu(event.cpu)?;
        let before = cpu.context;
        cpu.asleep = match event.kind {
            EventKind::IdleEnter { state, .. } => Some(state),
            _ => None,
        };
        cpu.shows_idle |= cpu.asleep.is_some();
        cpu.softirq_over = matches!(event.kind, EventKind::SoftirqExit { .. });
        match event.kind {
            EventKind::Waking { task, .. } => cpu.waking = Some(task.pid),
            EventKind::Wakeup { task, target_cpu, .. } => {
                cpu.waking = None;
                if target_cpu == event.cpu {
                    cpu.wakes = Some(task.pid);
                }
            }
            _ => {}
        }
        match event.kind {
            EventKind::Switch { next, .. } => {
                cpu.running = Some(next.pid);
                (cpu.waking, cpu.wakes) = (None, None);
                cpu.context = Context::Task;
            }
            EventKind::IdleEnter { .. }
            | EventKind::IdleExit { .. }
            | EventKind::HrtimerExpireExit { .. } => cpu.context = Context::Task,
            EventKind::HrtimerExpireEntry { timer, function, .. } => {
                cpu.context = if is_sleep(strings.get(function)) {
                    Context::Sleeper(timer)
                } else {
                    Context::Timer
                };
            }
            EventKind::SoftirqEntry { vec: SCHED_SOFTIRQ } => cpu.context = Context::Timer,
            EventKind::VectorEntry { name } if is_reschedule(strings.get(name)) => {
                cpu.context = Context::Timer;
            }
            EventKind::SoftirqEntry { vec: TIMER_SOFTIRQ } => cpu.context = Context::Wheel(now_ns),
            EventKind::IrqEntry { .. }
            | EventKind::VectorEntry { .. }
            | EventKind::SoftirqEntry { .. } => cpu.context = Context::Interrupt(now_ns),
            EventKind::IrqExit { .. }
            | EventKind::VectorExit { .. }
            | EventKind::SoftirqExit { .. } => {
                cpu.context = Context::Task;
                if let Context::Interrupt(from_ns) | Context::Wheel(from_ns) = before {
                    return Some((from_ns, now_ns));
                }
            }
            EventKind::HrtimerStart { .. } if cpu.context == Context::Timer => {
                cpu.context = Context::Task;
            }
            EventKind::Waking { .. } => match cpu.context {
                // The timer of a sleep wakes one task.
                Context::Sleeper(_) => cpu.context = Context::Task,
                Context::Interrupt(from_ns) => {
                    cpu.context = Context::Interrupt(now_ns + wakeup_ns);
                    return Some((from_ns, now_ns));
                }
                Context::Wheel(from_ns) => {
                    cpu.context = Context::Wheel(now_ns + wakeup_ns);
                    return Some((from_ns, now_ns));
                }
                _ => {}
            },
            EventKind::Lost { .. } => *cpu = Cpu::default(),
            _ => {}
        }
        None
    }
}

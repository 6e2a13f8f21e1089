//! What the traced machine's kernel paths cost, from the trace itself.

use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{Event, EventKind, Pid, Strings};

/// Two events further apart than this do not measure a path: something else ran between them.
pub(super) const PATH_MAX_NS: u64 = 25_000;

/// A calibrated cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name, as machine files have it; `exit_latency_ns N` is that of idle state N.
    pub name: &'static str,
    /// The idle state that it is of.
    pub state: Option<u32>,
    /// The cost, ns.
    pub value_ns: u64,
    /// How many samples it is the median of; 0: the machine's own.
    pub samples: u64,
    /// What it is the median of.
    pub rule: &'static str,
}

/// The costs of a trace, and the machine with them.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The costs.
    pub costs: Vec<Cost>,
    /// The machine that was given, with these costs.
    pub machine: Machine,
    /// The trace has events of high-resolution timers.
    pub has_hrtimers: bool,
    /// The trace has events of interrupts, softirqs or vectors.
    pub has_interrupts: bool,
}

/// Durations of one kind of path.
#[derive(Debug, Default)]
struct Samples(Vec<u64>);

impl Samples {
    fn push(&mut self, from_ns: u64, to_ns: u64) {
        let ns = to_ns.saturating_sub(from_ns);
        if ns <= PATH_MAX_NS {
            self.0.push(ns);
        }
    }

    fn median(&mut self) -> Option<u64> {
        let middle = self.0.len() / 2;
        (!self.0.is_empty()).then(|| *self.0.select_nth_unstable(middle).1)
    }
}

/// The last event of a CPU that begins a path, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    waking: Option<(Pid, u64)>,
    wakeup: Option<(Pid, u64)>,
    expiry: Option<(u64, u64)>,
    to_idle_ns: Option<u64>,
    accounted: Option<(Pid, u64)>,
    idle: Option<u32>,
    /// The idle state that it left since its last switch.
    left: Option<u32>,
}

/// The way of a wake-up to another, idle CPU.
#[derive(Clone, Copy, Debug)]
struct Remote {
    time_ns: u64,
    cpu: CpuId,
    /// The idle state that the CPU left.
    left: Option<u32>,
}

/// Collects samples, one event at a time.
#[derive(Debug, Default)]
pub(super) struct Calibrator {
    cpus: Vec<Last>,
    armed: rustc_hash::FxHashMap<u64, (CpuId, i64)>,
    /// Wake-ups that went to another, idle CPU, until they get there.
    remote: rustc_hash::FxHashMap<Pid, (CpuId, u64)>,
    wakeup: Samples,
    switch: Samples,
    resched: Samples,
    remote_latency: Vec<Remote>,
    tick: Samples,
    irq: Samples,
    entry: Samples,
    exits: Vec<Samples>,
    has_hrtimers: bool,
    has_interrupts: bool,
}

/// Idle states are numbered below this.
const STATES_MAX: u32 = 64;

impl Calibrator {
    fn cpu(&mut self, cpu: CpuId) -> Option<&mut Last> {
        let index = cpu.index();
        if index >= schedlab_machine::CPUS_MAX {
            return None;
        }
        if index >= self.cpus.len() {
            self.cpus.resize(index + 1, Last::default());
        }
        self.cpus.get_mut(index)
    }

    pub fn push(&mut self, event: &Event, strings: &Strings) {
        let now_ns = event.timestamp_ns;
        let cpu = event.cpu;
        match event.kind {
            EventKind::HrtimerStart { .. } | EventKind::HrtimerExpireEntry { .. } => {
                self.has_hrtimers = true;
            }
            EventKind::IrqEntry { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::VectorEntry { .. } => self.has_interrupts = true,
            _ => {}
        }
        let Some(last) = self.cpu(cpu) else { return };
        match event.kind {
            EventKind::Waking { task, target_cpu, .. } => {
                last.waking = Some((task.pid, now_ns));
                if let Some((_, at_ns)) = last.expiry.take() {
                    self.irq.push(at_ns, now_ns);
                }
                if target_cpu != cpu {
                    self.remote.insert(task.pid, (cpu, now_ns));
                }
            }
            EventKind::Wakeup { task, target_cpu, .. } => {
                let waking = last.waking.take();
                if target_cpu == cpu {
                    last.wakeup = Some((task.pid, now_ns));
                    let idle = event.pid == Pid::IDLE;
                    if let Some((pid, at_ns)) = waking
                        && pid == task.pid
                    {
                        self.wakeup.push(at_ns, now_ns);
                        self.remote.remove(&task.pid);
                    } else if !idle {
                        self.remote.remove(&task.pid);
                    }
                } else {
                    self.remote.remove(&task.pid);
                }
            }
            EventKind::Switch { prev, next, .. } => {
                if let Some((pid, at_ns)) = last.wakeup.take()
                    && prev.pid == Pid::IDLE
                    && pid == next.pid
                {
                    let left = last.left;
                    self.resched.push(at_ns, now_ns);
                    if let Some((from, at_ns)) = self.remote.remove(&pid)
                        && from != cpu
                    {
                        let time_ns = now_ns.saturating_sub(at_ns);
                        self.remote_latency.push(Remote { time_ns, cpu, left });
                    }
                }
                let Some(last) = self.cpu(cpu) else { return };
                if let Some((pid, at_ns)) = last.accounted.take()
                    && pid == prev.pid
                {
                    self.switch.push(at_ns, now_ns);
                }
                let Some(last) = self.cpu(cpu) else { return };
                last.to_idle_ns = (next.pid == Pid::IDLE).then_some(now_ns);
                (last.idle, last.left) = (None, None);
            }
            EventKind::IdleEnter { state, .. } => {
                (last.idle, last.left) = (Some(state), None);
                if let Some(at_ns) = last.to_idle_ns.take() {
                    self.entry.push(at_ns, now_ns);
                }
            }
            EventKind::IdleExit { .. } => last.left = last.idle.take(),
            EventKind::StatRuntime { task, .. } => last.accounted = Some((task.pid, now_ns)),
            EventKind::HrtimerStart { timer, expires_ns, .. } => {
                if let Some((tick, at_ns)) = last.expiry.take()
                    && tick == timer
                {
                    self.tick.push(at_ns, now_ns);
                }
                self.armed.insert(timer, (cpu, expires_ns));
            }
            EventKind::HrtimerExpireEntry { timer, function, now_ns: timer_ns } => {
                let began_ns = u64::try_from(timer_ns)
                    .ok()
                    .filter(|began_ns| now_ns.abs_diff(*began_ns) < PATH_MAX_NS)
                    .unwrap_or(now_ns);
                let wakes = is_tick(strings.get(function)) || is_sleep(strings.get(function));
                last.expiry = wakes.then_some((timer, began_ns));
                let idle = last.idle.filter(|state| *state < STATES_MAX);
                if let Some((armed_on, expires_ns)) = self.armed.remove(&timer)
                    && armed_on == cpu
                    && let (Some(state), Ok(expires_ns)) = (idle, u64::try_from(expires_ns))
                    && began_ns >= expires_ns
                {
                    let state = state as usize;
                    if state >= self.exits.len() {
                        self.exits.resize_with(state + 1, Samples::default);
                    }
                    self.exits[state].push(expires_ns, began_ns);
                }
            }
            EventKind::IrqEntry { .. }
            | EventKind::SoftirqEntry { .. }
            | EventKind::VectorEntry { .. } => last.expiry = None,
            _ => {}
        }
    }

    pub fn finish(mut self, machine: &Machine) -> Calibration {
        let mut costs = machine.path_costs().clone();
        let mut rows = Vec::new();
        let mut row = |name, samples: &mut Samples, rule, field: &mut u64| {
            let measured = samples.median();
            *field = measured.unwrap_or(*field);
            let count = samples.0.len() as u64;
            rows.push(Cost { name, state: None, value_ns: *field, samples: count, rule });
        };
        let rule = "from sched_waking to sched_wakeup on the same CPU";
        row("wakeup_ns", &mut self.wakeup, rule, &mut costs.wakeup_ns);
        let rule = "from the last sched_stat_runtime of a task to its switch";
        row("context_switch_ns", &mut self.switch, rule, &mut costs.context_switch_ns);
        let switch_ns = costs.context_switch_ns;
        let mut resched =
            Samples(self.resched.0.iter().map(|ns| ns.saturating_sub(switch_ns)).collect());
        let rule = "from sched_wakeup to the switch on an idle CPU, less context_switch_ns";
        row("idle_resched_ns", &mut resched, rule, &mut costs.idle_resched_ns);
        let rule = "from the start of the tick's interrupt to its next arming";
        row("tick_ns", &mut self.tick, rule, &mut costs.tick_ns);
        let rule = "from the start of a timer's interrupt to sched_waking";
        row("irq_ns", &mut self.irq, rule, &mut costs.irq_ns);
        let rule = "from the switch to the idle task to cpu_idle";
        row("idle_entry_ns", &mut self.entry, rule, &mut costs.idle_entry_ns);
        let exits: Vec<Option<u64>> = self.exits.iter_mut().map(Samples::median).collect();
        let exit_ns = |cpu: CpuId, state: u32| {
            // A trace of a bigger machine is refused later.
            let known = cpu.index() < machine.cpu_count();
            let states = if known { machine.idle_states(cpu) } else { &[] };
            let own_ns = states.get(state as usize).map(|s| s.exit_latency_ns);
            exits.get(state as usize).copied().flatten().or(own_ns).unwrap_or(0)
        };
        // What is left of a remote wake-up's whole latency is the way of its interrupt.
        let paths_ns =
            costs.wakeup_ns + costs.wakeup_ns / 2 + costs.idle_resched_ns + costs.context_switch_ns;
        let mut remote = Samples::default();
        for Remote { time_ns, cpu, left } in self.remote_latency {
            let exit_ns = left.map_or(0, |state| exit_ns(cpu, state));
            let awake_ns = time_ns.saturating_sub(exit_ns);
            if awake_ns <= PATH_MAX_NS {
                remote.push(paths_ns.min(awake_ns), awake_ns);
            }
        }
        let rule = "from sched_waking to the switch on another, idle CPU, less paths and idle exit";
        row("ipi_deliver_ns", &mut remote, rule, &mut costs.ipi_deliver_ns);
        // These are part of what was measured above, or of the tasks' own computation.
        costs.ipi_send_ns = 0;
        costs.ipi_handle_ns = 0;
        costs.idle_exit_ns = 0;
        costs.syscall_ns = 0;
        costs.timer_program_ns = 0;
        costs.fork_ns = 0;
        costs.thread_create_ns = 0;
        let mut machine = machine.clone().with_path_costs(costs);
        for (state, (samples, value_ns)) in self.exits.iter().zip(exits).enumerate() {
            let Some(value_ns) = value_ns else { continue };
            machine = machine.with_exit_latency(state, value_ns);
            rows.push(Cost {
                name: "exit_latency_ns",
                state: Some(state as u32),
                value_ns,
                samples: samples.0.len() as u64,
                rule: "from a timer's expiry to its interrupt on a CPU in that idle state",
            });
        }
        let (has_hrtimers, has_interrupts) = (self.has_hrtimers, self.has_interrupts);
        Calibration { costs: rows, machine, has_hrtimers, has_interrupts }
    }
}

/// The function of the tick's timer, in one of its names.
pub(super) fn is_tick(function: &str) -> bool {
    function.starts_with("tick_nohz_") || function.starts_with("tick_sched_timer")
}

/// The function of the timer of a task that sleeps.
pub(super) fn is_sleep(function: &str) -> bool {
    function.starts_with("hrtimer_wakeup")
}

/// Calibrates a machine by a trace, which is read to its end.
///
/// # Errors
/// What stops all reading.
pub fn calibrate(
    source: &mut dyn schedlab_trace::EventSource,
    machine: &Machine,
) -> Result<Calibration, schedlab_trace::TraceError> {
    let mut calibrator = Calibrator::default();
    each_event(source, |event, strings| calibrator.push(event, strings))?;
    Ok(calibrator.finish(machine))
}

/// Hands out every event of a source with its names.
pub(super) fn each_event(
    source: &mut dyn schedlab_trace::EventSource,
    mut take: impl FnMut(&Event, &Strings),
) -> Result<(), schedlab_trace::TraceError> {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        let more = source.read_batch(&mut batch)?;
        for event in &batch {
            take(event, source.strings());
        }
        if !more {
            return Ok(());
        }
    }
}

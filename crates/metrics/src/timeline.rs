//! Who ran when, which idle state was held when, and what counters said: the intervals that a
//! picture of a trace is drawn from.

use crate::Collector;
use crate::idle::{IdlePeriod, IdlePeriods, STATES_MAX};
use crate::idle_miss::{Verdict, verdict};
use crate::latency::{From, WakeupLatency};
use crate::per_cpu::PerCpu;
use schedlab_machine::{CPUS_MAX, CpuId, Machine};
use schedlab_trace::{Event, EventKind, PeltClass, Pid, StrId, Task, TaskState};

/// A task on a CPU without interruption by another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The CPU.
    pub cpu: CpuId,
    /// Switch-in, or the CPU's first event if the task ran before it, ns.
    pub start_ns: u64,
    /// Switch-out, or the trace's end, ns.
    pub end_ns: u64,
    /// The task, by the name it bore at the start.
    pub task: Task,
    /// The wakeup latency that the switch-in ended, ns.
    pub latency_ns: Option<u64>,
    /// Why the task left; `None` if the trace's end or lost events cut the run.
    pub left: Option<TaskState>,
}

/// A CPU in an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The CPU, the state and the two ends.
    pub period: IdlePeriod,
    /// False if the trace's end cut the period.
    pub whole: bool,
    /// The kernel's verdict; `None` without a machine, and for a period that is not whole.
    pub verdict: Option<Verdict>,
}

/// What a [`Sample`] measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Frequency, kHz.
    Frequency,
    /// `util_avg` of the CPU's fair class, 0 to 1024.
    Util,
    /// Runnable tasks.
    NrRunning,
}

impl Counter {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::Frequency => "frequency",
            Counter::Util => "util_avg",
            Counter::NrRunning => "nr_running",
        }
    }

    /// The unit, empty for a mere number.
    pub const fn unit(self) -> &'static str {
        match self {
            Counter::Frequency => "kHz",
            Counter::Util | Counter::NrRunning => "",
        }
    }
}

/// A counter's value from this moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Whose.
    pub cpu: CpuId,
    /// When, ns.
    pub time_ns: u64,
    /// What.
    pub counter: Counter,
    /// How much.
    pub value: u32,
}

/// The intervals of a trace, each kind in the order of its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// Tasks on CPUs; those of one CPU do not overlap.
    pub runs: Vec<Run>,
    /// Idle periods; those of one CPU do not overlap.
    pub sleeps: Vec<Sleep>,
    /// Counters.
    pub samples: Vec<Sample>,
    /// Where the collector had to stop because it was full, ns.
    pub cut_ns: Option<u64>,
}

/// Collects intervals, at most so many of all kinds together.
#[derive(Debug)]
pub struct Timeline<'a> {
    machine: Option<&'a Machine>,
    intervals_max: usize,
    latency: WakeupLatency,
    periods: IdlePeriods,
    running: PerCpu<Running>,
    found: Intervals,
}

/// What a CPU is known to run.
#[derive(Clone, Copy, Debug, Default)]
enum Running {
    #[default]
    Unknown,
    Idle,
    Task {
        task: Task,
        start_ns: u64,
        latency_ns: Option<u64>,
    },
}

impl Running {
    fn new(task: Task, start_ns: u64, latency_ns: Option<u64>) -> Running {
        match task.pid {
            Pid::IDLE => Running::Idle,
            Pid::UNKNOWN => Running::Unknown,
            _ => Running::Task { task, start_ns, latency_ns },
        }
    }
}

impl<'a> Timeline<'a> {
    /// A collector of latencies that begin as `from` says, which judges sleeps by the idle states
    /// of `machine`. After `intervals_max` intervals it takes no more, so that memory stays bounded.
    pub fn new(machine: Option<&'a Machine>, from: From, intervals_max: usize) -> Timeline<'a> {
        Timeline {
            machine,
            intervals_max,
            latency: WakeupLatency::new(from),
            periods: IdlePeriods::default(),
            running: PerCpu::default(),
            found: Intervals::default(),
        }
    }

    /// The intervals; what is open reaches to `end_ns`, the last timestamp of the trace.
    pub fn finish(mut self, end_ns: u64) -> Intervals {
        let end_ns = self.found.cut_ns.unwrap_or(end_ns);
        for (cpu, running) in std::mem::take(&mut self.running).into_iter() {
            self.ended(cpu, running, end_ns, None, StrId::EMPTY);
        }
        for (cpu, state, enter_ns) in self.periods.into_open() {
            let period = IdlePeriod { cpu, state, enter_ns, exit_ns: end_ns };
            if state <= STATES_MAX && cpu.index() < CPUS_MAX {
                self.found.sleeps.push(Sleep { period, whole: false, verdict: None });
            }
        }
        self.found
    }

    fn ended(
        &mut self,
        cpu: CpuId,
        running: Running,
        end_ns: u64,
        left: Option<TaskState>,
        comm: StrId,
    ) {
        let Running::Task { mut task, start_ns, latency_ns } = running else { return };
        // A run that was shown by its thread id alone gets the name that it leaves with.
        if task.comm == StrId::EMPTY {
            task.comm = comm;
        }
        self.found.runs.push(Run { cpu, start_ns, end_ns, task, latency_ns, left });
    }

    fn switched(&mut self, event: &Event, prev: Task, prev_state: TaskState, next: Task) {
        let now_ns = event.timestamp_ns;
        let came = Running::new(next, now_ns, self.latency.ended_ns());
        let Some(running) = self.running.get_mut(event.cpu) else { return };
        let was = std::mem::replace(running, came);
        // Where another task leaves than had come, when they changed places is unknown.
        if let Running::Task { task, .. } = was
            && task.pid == prev.pid
        {
            self.ended(event.cpu, was, now_ns, Some(prev_state), prev.comm);
        }
    }

    fn slept(&mut self, period: IdlePeriod) {
        if period.state > STATES_MAX || period.cpu.index() >= CPUS_MAX {
            return;
        }
        let machine = self.machine.filter(|machine| period.cpu.index() < machine.cpu_count());
        let verdict = machine.and_then(|machine| {
            let states = machine.idle_states(period.cpu);
            verdict(states, period.state as usize, period.duration_ns())
        });
        self.found.sleeps.push(Sleep { period, whole: true, verdict });
    }

    fn sampled(&mut self, time_ns: u64, cpu: CpuId, counter: Counter, value: u32) {
        if cpu.index() < CPUS_MAX {
            self.found.samples.push(Sample { cpu, time_ns, counter, value });
        }
    }

    fn is_full(&self) -> bool {
        let Intervals { runs, sleeps, samples, .. } = &self.found;
        runs.len() + sleeps.len() + samples.len() >= self.intervals_max
    }
}

impl Collector for Timeline<'_> {
    fn push(&mut self, event: &Event) {
        if self.found.cut_ns.is_some() {
            return;
        }
        if self.is_full() {
            self.found.cut_ns = Some(event.timestamp_ns);
            return;
        }
        self.latency.push(event);
        if let Some(period) = self.periods.push(event) {
            self.slept(period);
        }
        let now_ns = event.timestamp_ns;
        if let Some(running) = self.running.get_mut(event.cpu)
            && matches!(running, Running::Unknown)
            && event.pid != Pid::UNKNOWN
        {
            let shown = Task { pid: event.pid, comm: StrId::EMPTY };
            *running = Running::new(shown, now_ns, None);
        }
        match event.kind {
            EventKind::Switch { prev, prev_state, next, .. } => {
                self.switched(event, prev, prev_state, next);
            }
            EventKind::Lost { .. } => {
                let Some(running) = self.running.get_mut(event.cpu) else { return };
                let was = std::mem::take(running);
                self.ended(event.cpu, was, now_ns, None, StrId::EMPTY);
            }
            EventKind::Frequency { cpu, frequency_khz } => {
                self.sampled(now_ns, cpu, Counter::Frequency, frequency_khz);
            }
            EventKind::PeltCpu { class: PeltClass::Fair, cpu, util, .. } => {
                self.sampled(now_ns, cpu, Counter::Util, util);
            }
            EventKind::NrRunning { cpu, nr_running } => {
                self.sampled(now_ns, cpu, Counter::NrRunning, nr_running);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;

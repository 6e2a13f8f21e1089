//! The extraction as a whole.

use super::costs::{Calibration, calibrate, each_event};
use super::finish;
use super::follow::Follower;
use schedlab_machine::{CpuSet, Machine};
use schedlab_trace::{EventSource, Pid, TraceError};
use schedlab_workload::recorded::Recording;

/// What to extract from.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The traced machine.
    pub machine: &'a Machine,
    /// The traced kernel's tick, ns.
    pub tick_ns: u64,
    /// What the trace does not show of tasks.
    pub given: &'a [Given],
}

/// What the caller knows of the tasks of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Their name.
    pub comm: String,
    /// Their policy.
    pub policy: Option<GivenPolicy>,
    /// The CPUs that they may use.
    pub cpus: Option<CpuSet>,
}

/// A policy that a trace does not tell from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenPolicy {
    /// `SCHED_BATCH`; traces show it as `SCHED_OTHER`.
    Batch,
    /// `SCHED_IDLE`; traces show it as `SCHED_OTHER`.
    Idle,
    /// `SCHED_RR`; traces show it as `SCHED_FIFO`.
    RoundRobin,
}

/// How many sleeps ended by what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// The task's own timer.
    pub timer: u64,
    /// A device that the task waited for, so long after it began to.
    pub device: u64,
    /// Another task.
    pub task: u64,
    /// Something outside the tasks, replayed at the traced time.
    pub outside: u64,
}

/// What is known of one extracted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its thread id in the trace.
    pub pid: Pid,
    /// Time on CPUs in the trace, ns.
    pub run_ns: u64,
    /// Of that, what the simulated kernel charges by itself, ns.
    pub charged_ns: u64,
    /// What it charges more than the trace shows, ns; the task computes so much longer than traced.
    pub excess_ns: u64,
    /// Its steps, before loops are found.
    pub steps: u64,
    /// Wake-ups, its first included.
    pub wakeups: u64,
    /// Its kernel priority is real-time.
    pub real_time: bool,
    /// Its timers stand on a grid; `None` if it has too few to tell.
    pub absolute: Option<bool>,
}

/// The tasks of a trace.
#[derive(Clone, Debug)]
pub struct Extraction {
    /// What they did.
    pub recording: Recording,
    /// Each task of the recording.
    pub facts: Vec<TaskFacts>,
    /// Costs of kernel paths.
    pub calibration: Calibration,
    /// What the recording's times are later in the trace, ns: time 0 of a run is this.
    pub base_ns: i64,
    /// First and last event of the trace, ns of its clock.
    pub span_ns: (u64, u64),
    /// What ended sleeps.
    pub causes: Causes,
    /// How often the instruction stream changed hands, if the machine's CPUs share one.
    pub turns: u64,
    /// How many wake-ups CPUs did not get on with.
    pub late: u64,
    /// For how long in all, ns.
    pub late_ns: u64,
    /// How many interrupts and softirqs there were, beside timers and the scheduler's own.
    pub interrupts: u64,
    /// How long they were, ns.
    pub interrupted_ns: u64,
}

/// A trace that can be opened as often as wanted.
pub type Open<'a> = dyn FnMut() -> Result<Box<dyn EventSource>, TraceError> + 'a;

/// Why tasks cannot be extracted.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The reader's own word.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is of a bigger machine.
    #[error(
        "the trace has CPU {cpu}, but machine {machine} has {cpus} CPUs; choose the machine that \
         was traced with --machine"
    )]
    TooFewCpus {
        /// The CPU of the trace.
        cpu: u32,
        /// The machine's name.
        machine: String,
        /// How many it has.
        cpus: usize,
    },
    /// There is nothing to replay.
    #[error("the trace shows no task run: it has no sched_switch; record the sched events")]
    NoTask,
    /// Who watched gave up.
    #[error("the extraction was given up")]
    GivenUp,
}

/// Extracts the tasks of a trace, which is read twice. `beat` is told of bytes done and bytes in
/// all now and then; on `false` the extraction is given up.
///
/// # Errors
/// A trace that cannot be read, is of another machine, or shows no task.
pub fn extract(
    open: &mut Open<'_>,
    request: &Request<'_>,
    beat: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Extraction, ExtractError> {
    let machine = request.machine;
    let calibration = calibrate(open()?.as_mut(), machine)?;
    let mut source = open()?;
    let mut follower = Follower::new(&calibration, request.tick_ns);
    let mut highest = 0;
    let mut count = 0_u64;
    let mut going = true;
    each_event(source.as_mut(), |event, strings| {
        highest = highest.max(event.cpu.0);
        follower.push(event, strings);
        count += 1;
        if count.is_multiple_of(1 << 16) {
            going &= beat(count, 0);
        }
    })?;
    if !going {
        return Err(ExtractError::GivenUp);
    }
    if highest as usize >= machine.cpu_count() {
        let name = machine.name().to_owned();
        let cpus = machine.cpu_count();
        return Err(ExtractError::TooFewCpus { cpu: highest, machine: name, cpus });
    }
    follower.finish();
    finish::finish(follower, source.strings(), request, calibration.clone())
}

//! One task of the trace, and what it did so far.

use super::guess::Woken;
use schedlab_machine::CpuId;
use schedlab_trace::{Pid, StrId};

/// What a task did, with the times of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// Computed, ns of the biggest CPU.
    Run(u64),
    /// Slept until a timer that it had armed.
    Timer(Sleep),
    /// Waited so much longer for its CPU than paths take.
    Late(u64),
    /// Slept for so long in wait for a device, ns.
    Device(u64),
    /// The interrupt for which it waited on its CPU woke the task at this place, too.
    Brought(u32),
    /// Slept until another task or an interrupt woke it.
    Await,
    /// Woke the task at this place.
    Wake(u32),
    /// Created the task at this place.
    Fork(u32),
    /// Took another program, and had its CPU's stopper thread move it.
    Exec,
    /// Something that turned out to have no effect.
    Nothing,
}

/// A sleep until a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sleep {
    /// When the task left its CPU.
    pub left_ns: u64,
    /// When the timer might expire.
    pub soft_ns: u64,
    /// When it must.
    pub hard_ns: u64,
}

/// What woke a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The timer that it had armed: between these times.
    Timer(u64, u64),
    /// A task; the place of the task and of the step in which it did.
    Task(u32, u32),
    /// An interrupt on this CPU at this time.
    Outside(CpuId, u64),
    /// The interrupt whose end the task at this place waited for, at this time.
    With(u32, u64),
}

/// Where a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known of it yet.
    #[default]
    Unseen,
    /// On this CPU.
    Running(CpuId),
    /// Waits for a CPU.
    Runnable,
    /// Asleep.
    Asleep,
    /// Over.
    Dead,
}

/// What kind of task it is, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any.
    #[default]
    Task,
    /// `ksoftirqd`: softirqs that it runs are its own computation.
    Softirqd,
    /// A stopper thread (`migration/N`), whose work is the kernel's own.
    Stopper,
}

impl Kind {
    pub fn of(comm: &str) -> Kind {
        if comm.starts_with("ksoftirqd/") {
            Kind::Softirqd
        } else if comm.starts_with("migration/") {
            Kind::Stopper
        } else {
            Kind::Task
        }
    }
}

/// How it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Birth {
    /// Before the trace.
    #[default]
    Before,
    /// Created by a task that the trace shows.
    Forked,
    /// Created by nobody that the trace shows, at this time.
    At(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Track {
    pub pid: Pid,
    pub comm: StrId,
    pub prio: i32,
    pub kind: Kind,
    pub birth: Birth,
    /// When a CPU's first event showed that it ran there.
    pub ran_first_ns: Option<u64>,
    pub state: State,
    /// Where it was first seen, to sleep or to be born.
    pub first_cpu: Option<CpuId>,
    /// All CPUs on which it was seen are this one.
    pub only_cpu: Option<CpuId>,
    pub moved: bool,
    pub did: Vec<Did>,
    /// Since when its present computation is not yet counted.
    pub since_ns: u64,
    /// When it was woken, until it runs.
    pub waking_ns: Option<u64>,
    /// When it was woken, and to which CPU, until that switches to a task.
    pub woken: Option<(u64, CpuId)>,
    /// Whom the interrupt woke besides for which it has waited since, and when.
    pub brings: Option<(u32, u64)>,
    /// The kernel priority with which it was born.
    pub born_prio: Option<i32>,
    /// Work that is no step yet; below zero where the simulated kernel charges more than the
    /// trace shows, which the next computation makes up for.
    pub work_ns: i64,
    /// When it left its CPU to sleep.
    pub left_ns: u64,
    /// It sleeps uninterruptibly, for a device.
    pub device: bool,
    /// What began to wake it before it was off its CPU.
    pub early: Option<Cause>,
    /// Its wake-ups where it went to sleep, in a trace that shows no cause of them.
    pub woken_here: Vec<Woken>,
    /// Time on CPUs.
    pub run_ns: u64,
    /// Of that, time which the simulated kernel charges by itself.
    pub charged_ns: u64,
    /// Wake-ups.
    pub wakeups: u64,
}

impl Track {
    pub fn new(pid: Pid, comm: StrId) -> Track {
        Track {
            pid,
            comm,
            prio: 120,
            kind: Kind::default(),
            birth: Birth::default(),
            ran_first_ns: None,
            state: State::default(),
            first_cpu: None,
            only_cpu: None,
            moved: false,
            did: Vec::new(),
            since_ns: 0,
            waking_ns: None,
            woken: None,
            brings: None,
            born_prio: None,
            work_ns: 0,
            left_ns: 0,
            device: false,
            early: None,
            woken_here: Vec::new(),
            run_ns: 0,
            charged_ns: 0,
            wakeups: 0,
        }
    }

    pub fn seen_on(&mut self, cpu: CpuId) {
        self.first_cpu.get_or_insert(cpu);
        match self.only_cpu {
            None if !self.moved => self.only_cpu = Some(cpu),
            Some(only) if only != cpu => {
                self.only_cpu = None;
                self.moved = true;
            }
            _ => {}
        }
    }

    /// The simulated kernel charges so much of the present computation by itself.
    pub fn charge(&mut self, ns: u64) {
        self.work_ns -= ns as i64;
        self.charged_ns += ns;
    }

    /// What it computed so far becomes a step.
    pub fn flush(&mut self) {
        if self.work_ns > 0 {
            self.did.push(Did::Run(self.work_ns as u64));
            self.work_ns = 0;
        }
    }
}

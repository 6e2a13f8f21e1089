//! What a task is like beside its program: its policy, clamps and CPUs.

use schedlab_machine::CpuSet;
use std::path::PathBuf;

/// Scheduling policy of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`.
    #[default]
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` with a priority of 1, the lowest, to 99.
    Fifo(u8),
    /// `SCHED_RR` with a priority of 1, the lowest, to 99.
    RoundRobin(u8),
    /// `SCHED_DEADLINE`: so much run time in every period.
    Deadline {
        /// Run time, of the biggest CPU at full speed, ns.
        runtime_ns: u64,
        /// By when it is to be had, from the beginning of the period, ns.
        deadline_ns: u64,
        /// Period, ns.
        period_ns: u64,
    },
}

impl Policy {
    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Normal => "SCHED_OTHER",
            Policy::Batch => "SCHED_BATCH",
            Policy::Idle => "SCHED_IDLE",
            Policy::Fifo(_) => "SCHED_FIFO",
            Policy::RoundRobin(_) => "SCHED_RR",
            Policy::Deadline { .. } => "SCHED_DEADLINE",
        }
    }

    /// Of a real-time policy, the priority.
    pub const fn priority(self) -> Option<u8> {
        match self {
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => Some(priority),
            _ => None,
        }
    }
}

/// Microseconds of ns.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())?;
        if let Policy::Deadline { runtime_ns, deadline_ns, period_ns } = *self {
            let [runtime, deadline, period] = [runtime_ns, deadline_ns, period_ns].map(us);
            return write!(f, " {runtime}/{deadline}/{period} us");
        }
        self.priority().map_or(Ok(()), |priority| write!(f, " {priority}"))
    }
}

/// What a task is like, beside its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Nice level.
    pub nice: i32,
    /// Policy.
    pub policy: Policy,
    /// Its creator is a fair task, so that it is placed as one when it is born, and asks for its
    /// real-time policy itself (`sched_fork()` hands the creator's policy down).
    pub born_fair: bool,
    /// It goes on with what an interrupt began, on that CPU: whatever CPU's interrupt wakes it, it is
    /// bound to that one from there on (`ksoftirqd`, which every CPU has one of).
    pub follows_interrupts: bool,
    /// A slice of its own, ns.
    pub slice_ns: Option<u64>,
    /// Utilisation clamps, at least and at most, 0 to 1024 (`sched_util_min`, `sched_util_max`).
    pub clamps: Option<(u16, u16)>,
    /// CPUs that it may use; `None`: all.
    pub affinity: Option<CpuSet>,
    /// Where a file names them: its path and the line, from 1.
    pub affinity_from: Option<(PathBuf, usize)>,
    /// Sets to which it changes later ([`crate::program::Op::SetAffinity`]).
    pub other_affinities: Vec<CpuSet>,
}

impl Attributes {
    /// Every set of CPUs that its tasks are bound to at some time.
    pub fn affinities(&self) -> impl Iterator<Item = &CpuSet> {
        self.affinity.iter().chain(&self.other_affinities)
    }
}

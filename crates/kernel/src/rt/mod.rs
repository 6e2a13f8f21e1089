//! Real-time tasks: their policies and priorities, the queue of one CPU, and the map of what all
//! CPUs run. What the scheduler core does with them is in [`crate::sched`].
//!
//! Source: `kernel/sched/rt.c` and `kernel/sched/cpupri.c` of Linux 6.12.117.

pub mod cpupri;
pub mod queue;

use cpupri::Layout;
use serde::Deserialize;

/// The kernel's priority of anything that is not real-time (`MAX_RT_PRIO - 1` in `cpupri` and in
/// `highest_prio`): real-time tasks have 0, the most urgent, to 98.
pub const NOT_RT: u8 = 99;

/// How long a `SCHED_RR` task runs before the next of its priority has its turn, ms
/// (`RR_TIMESLICE`).
pub const RR_TIMESLICE_MS: u32 = 100;

/// How tasks of one priority share a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtPolicy {
    /// `SCHED_FIFO`: each runs until it sleeps or yields.
    Fifo,
    /// `SCHED_RR`: each runs for a time slice at most, then the next one.
    RoundRobin,
}

/// A real-time priority as users give it: 1 to 99, 99 the most urgent
/// (`sched_param::sched_priority`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RtPriority(u8);

impl RtPriority {
    /// A priority; none outside 1 to 99.
    ///
    /// ```
    /// use schedlab_kernel::rt::RtPriority;
    /// assert_eq!(RtPriority::new(1).map(RtPriority::prio), Some(98));
    /// assert_eq!(RtPriority::new(99).map(RtPriority::prio), Some(0));
    /// assert_eq!(RtPriority::new(100), None);
    /// ```
    pub const fn new(priority: u8) -> Option<RtPriority> {
        if priority >= 1 && priority <= 99 { Some(RtPriority(priority)) } else { None }
    }

    /// As users give it.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// As the kernel keeps it (`p->prio`): 0, the most urgent, to 98.
    pub const fn prio(self) -> u8 {
        NOT_RT - self.0
    }
}

/// What makes a task a real-time one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTime {
    /// Policy.
    pub policy: RtPolicy,
    /// Priority.
    pub priority: RtPriority,
}

/// The variants of the real-time class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtRules {
    /// How a CPU that lowers its priority gets at tasks that wait elsewhere.
    pub pull: Pull,
    /// Which CPU of a domain a task goes to if several run nothing more urgent.
    pub choice: Choice,
    /// Tasks can stay on a CPU without keeping it (`migrate_disable()`): from v5.11 on
    /// (af449901b84c). Before, only preemption as a whole could be disabled.
    #[serde(default)]
    pub migrate_disable: bool,
    /// What is left for fair tasks.
    pub limit: Limit,
    /// How what each CPU runs is kept.
    #[serde(default)]
    pub priority_map: Layout,
}

/// What is left for fair tasks while real-time ones would take everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Nothing, as with `sched_rt_runtime_us` = -1.
    None,
    /// Up to v6.11: real-time tasks of a CPU run for 950 ms of a second at most.
    Throttling,
    /// Up to v5.9 (2586af1ac187): the same, but a CPU borrows from others what their real-time
    /// tasks do not use (`RT_RUNTIME_SHARE`).
    ThrottlingShared,
    /// From v6.12 on (5f6bd380c7bd): a deadline server gives fair tasks that starve 50 ms of a
    /// second.
    FairServer,
}

/// The period of throttling, ns (`sysctl_sched_rt_period`).
pub const RT_PERIOD_NS: u64 = 1_000_000_000;

/// Of that, what real-time tasks of one CPU may run, ns (`sysctl_sched_rt_runtime`).
pub const RT_RUNTIME_NS: u64 = 950_000_000;

/// How a CPU that lowers its priority gets at tasks that wait on other CPUs (`RT_PUSH_IPI`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pull {
    /// It locks the overloaded run queues one after another and takes what is more urgent.
    Plain,
    /// From v4.1 on (b6366f048e0c, as v4.15's 4bdced5c9a29 has it), and by default: an interrupt
    /// goes from one overloaded CPU to the next, and each pushes what it can.
    PushIpi,
}

/// Which CPU of a domain a task goes to if several run nothing more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The lowest number.
    First,
    /// From v5.11 on (14e292f8d453): the next after the one that was chosen last.
    InTurn,
}

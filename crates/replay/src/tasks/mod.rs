//! The tasks of a trace as a workload: what each computed, when it slept, and what woke it.
//!
//! Two passes. The first calibrates the costs of kernel paths ([`Calibration`]): medians of what
//! the trace itself shows, each by a stated rule. The second follows every task through its
//! switches, wake-ups, births and exits, and writes what it did as steps
//! ([`schedlab_workload::recorded`]):
//!
//! - **Computation** is the time between switch-in and switch-out, less what the simulated kernel
//!   charges in that interval of itself (the switch, its wake-ups, ticks and interrupts), in work
//!   of the traced CPU's speed.
//! - **What wakes a task** is told by where `sched_waking` happened: in the expiry of the timer
//!   that the task had armed, it is that timer; in another task, it is that task at that point of
//!   its own computation; in an interrupt, in a softirq or in the idle task, it comes from outside,
//!   at the traced time on the traced CPU. In a trace without timers and interrupts, wake-ups at
//!   regular times are taken for a timer's, whoever its CPU ran.
//! - **Timers** that expire on a grid are absolute; others count from where the task armed them.
//! - **Late** are wake-ups whose CPU recorded nothing for longer than kernel paths take, as a virtual
//!   CPU does whose host runs another one. The same wake-up is held up as long wherever it goes. Where
//!   virtual CPUs share one instruction stream, the trace tells whose turn it was, and late is a
//!   wake-up whose CPU had the stream for no longer than interrupts take. Elsewhere silence tells
//!   something only in interrupts, if the trace shows these.
//!
//! What a trace does not show stays unknown: `SCHED_IDLE`, `SCHED_BATCH` and `SCHED_RR`, affinities
//! other than those of per-CPU kernel threads, and slices are given by the caller.

mod context;
mod costs;
mod extract;
mod finish;
mod follow;
mod guess;
mod held;
mod stream;
mod track;

pub use costs::{Calibration, Cost, calibrate};
pub use extract::{
    Causes, ExtractError, Extraction, Given, GivenPolicy, Open, Request, TaskFacts, extract,
};

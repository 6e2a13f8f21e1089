//! PELT rebuilt from a trace: the utilization of tasks and CPUs, from switches, wake-ups and
//! migrations, and how far that is from the kernel's own values where a trace has them.
//!
//! What the kernel knows and a trace does not, and the rule for each:
//!
//! * **Values before the trace.** A task or CPU starts at zero and is *unknown* until the kernel's
//!   own first value of it is met, which seeds it, or until it has been followed for
//!   [`KNOWN_AFTER_NS`], when what came before is below one unit.
//! * **The run queue's clock.** The kernel reads it when `schedule()` begins, some time before
//!   `sched_switch`. Where the trace has `sched_stat_runtime`, the last of the leaving task is
//!   taken; else the switch's own time, when both ends of a run are late by about the same.
//! * **A task that wakes up on another CPU** belongs to none until it is queued there, and does not
//!   age meanwhile.
//! * **Interrupt time** is part of the task that it interrupts, as in a kernel without
//!   `CONFIG_IRQ_TIME_ACCOUNTING`.
//! * **Invariance.** Linux 5.1 and later slow the clock down with the CPU, earlier ones scaled what a
//!   running task adds; [`Invariance`] says which. Where CPUs are alike and at full speed, both are
//!   one.
//! * **Frequency** is the highest until the first `cpu_frequency` event of a CPU.
//! * **A delayed dequeue** (EEVDF since 6.12 leaves a task that sleeps before its lag is zero on
//!   the queue) changes neither whether it runs nor, therefore, its utilization.
//! * **What leaves a CPU** is taken off at once; the kernel does so at its next update of that CPU or
//!   task group. A kernel value that does not say when it was computed is not trusted meanwhile.
//! * **When periods end** is known from `last_update_time`; without it, a task that moves becomes
//!   unknown, as its open period is dropped.
//! * **The stop class** (`migration/N`, priority 0) is in no class's signal, as in the kernel.
//!   A FIFO 99 task bears the same priority and is therefore left out too.

mod check;
mod cpu;
mod scale;
mod signals;
mod task;

pub use check::{ErrorDistribution, PeltCheck, PeltReport, SignalKind, check_pelt};
pub use scale::{CpuScale, Invariance};
pub use signals::Signals;
pub use task::Rebuilt;

/// After this much time 1024 has decayed to less than 1: eleven half-lives of 32 ms and a bit.
pub const KNOWN_AFTER_NS: u64 = 345 * 1_048_576;

//! The scheduler under study: one module per kernel mechanism, its variants side by side. Nothing
//! here performs I/O, reads a clock or draws a random number; callers hand in what the hardware
//! says, so the same code runs under a simulator, a replayed trace and a parity test.

pub mod cpufreq;
pub mod cpuidle;
pub mod deadline;
mod decision;
pub mod fair;
pub mod hardware;
pub mod pelt;
pub mod preset;
pub mod rt;
pub mod sched;

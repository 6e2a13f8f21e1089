//! Per-entity load tracking, bit for bit as in Linux 6.12 (`kernel/sched/pelt.c`, `pelt.h`).
//!
//! Every signal is a geometric series over periods of 1024 units of 1024 ns, in which a period
//! 32 periods ago counts half. [`Avg`] is one such set of signals (`struct sched_avg`), whoever
//! owns it: a task, a run queue, or the time a CPU lost to real-time tasks, deadline tasks,
//! interrupts or capped hardware. [`RqClock`] is the clock that drives them, which slows down with
//! the CPU so that a signal means the same on a small or slow CPU as on a big one.
//!
//! ```
//! use schedlab_kernel::pelt::{Avg, EntityActivity, NICE_0_LOAD};
//!
//! // A task of nice 0 that runs alone from zero for 32 ms reaches half of its CPU.
//! let mut task = Avg::default();
//! for millisecond in 1..=32 {
//!     task.update_entity(millisecond << 20, NICE_0_LOAD, EntityActivity::RUNNING);
//! }
//! assert!((500..=520).contains(&task.util_avg), "{}", task.util_avg);
//! // Asleep, it halves every 32 periods.
//! task.update_blocked_entity(64 << 20, NICE_0_LOAD);
//! assert!((245..=265).contains(&task.util_avg), "{}", task.util_avg);
//! ```

mod attach;
mod average;
mod clock;
mod utilization;

pub use average::{
    Avg, EntityActivity, LOAD_AVG_MAX, LOAD_AVG_PERIOD, PELT_MIN_DIVIDER, decay_load,
};
pub use clock::RqClock;
pub use utilization::{CpuUtilization, sched_cpu_util};

/// Bits of fixed-point capacity (`SCHED_CAPACITY_SHIFT`).
pub const SCHED_CAPACITY_SHIFT: u32 = 10;

/// The capacity of the biggest CPU at its highest frequency (`SCHED_CAPACITY_SCALE`).
pub const SCHED_CAPACITY_SCALE: u64 = 1 << SCHED_CAPACITY_SHIFT;

/// `se->load.weight` of a nice 0 task on a 64-bit kernel (`NICE_0_LOAD`).
pub const NICE_0_LOAD: u64 = 1 << 20;

/// Drops the ten extra bits of resolution that a 64-bit kernel gives a weight, but keeps a weight
/// that is not zero at 2 or more (`scale_load_down()`, `kernel/sched/sched.h`).
#[inline]
pub const fn scale_load_down(weight: u64) -> u64 {
    if weight == 0 {
        0
    } else if weight >> SCHED_CAPACITY_SHIFT < 2 {
        2
    } else {
        weight >> SCHED_CAPACITY_SHIFT
    }
}

/// `cap_scale()`: the part of `value` that a capacity of `capacity` out of 1024 leaves.
#[inline]
const fn cap_scale(value: u64, capacity: u64) -> u64 {
    value.wrapping_mul(capacity) >> SCHED_CAPACITY_SHIFT
}

//! How fast a CPU works, and how its speed enters the signals.

use schedlab_kernel::pelt::{Avg, SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};

/// How fast a CPU works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuScale {
    /// `arch_scale_cpu_capacity()`, 1024 for the biggest.
    pub capacity: u64,
    /// The frequency at which it has that capacity, kHz; 0 if it has no other.
    pub max_khz: u32,
}

impl Default for CpuScale {
    /// A CPU of the biggest kind that is always at full speed.
    fn default() -> Self {
        Self { capacity: SCHED_CAPACITY_SCALE, max_khz: 0 }
    }
}

/// How a signal is made to mean the same on a small or slow CPU as on a big one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Invariance {
    /// The clock slows down with the CPU: Linux 5.1 on (`kernel/sched/pelt.h`).
    #[default]
    Clock,
    /// The clock is real time, and what a running task adds is scaled: Linux 4.15 to 5.0
    /// (`accumulate_sum()`, `kernel/sched/pelt.c` of 4.19).
    Contribution,
}

impl Invariance {
    /// The lower-case word that tables print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Contribution => "contribution",
        }
    }
}

/// What scales a running task's contribution, each out of 1024.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contribution {
    pub frequency: u64,
    pub capacity: u64,
}

impl Contribution {
    /// Runs an update of `avg` and scales what running added to its utilization.
    pub fn scaled(self, avg: &mut Avg, running: bool, update: impl Fn(&mut Avg, bool) -> bool) {
        if !running {
            update(avg, false);
            return;
        }
        let mut without = *avg;
        update(&mut without, false);
        let crossed = update(avg, true);
        let added = u64::from(avg.util_sum.wrapping_sub(without.util_sum) >> SCHED_CAPACITY_SHIFT);
        let scaled = ((added * self.frequency) >> SCHED_CAPACITY_SHIFT) * self.capacity;
        avg.util_sum = without.util_sum.wrapping_add(scaled as u32);
        if crossed {
            avg.util_avg = u64::from(avg.util_sum / avg.divider());
        }
    }
}

//! A task, as the scheduler core knows it.

use crate::deadline::entity::Reservation;
use crate::fair::TaskId;
use crate::fair::entity::FairPolicy;
use crate::fair::power_aware::tracking::RunnableAvg;
use crate::fair::uclamp::TaskClamps;
use crate::pelt::Avg;
use crate::rt::RealTime;
use crate::sched::migrate_disable::Staying;
use schedlab_machine::CpuId;

/// A registered set of allowed CPUs; 0 is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AffinityId(pub u32);

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Created, but never woken.
    New,
    /// On a run queue, or on its way to one.
    Runnable,
    /// Waits for something; EEVDF may keep it queued for a while.
    Blocked,
    /// Ended.
    Dead,
}

/// What a new task is like.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewTask {
    /// Nice level, -20 to 19.
    pub nice: i32,
    /// Policy within the fair class.
    pub policy: FairPolicy,
    /// A slice of its own (`sched_attr::sched_runtime`), ns.
    pub slice_ns: Option<u64>,
    /// CPUs that it may use.
    pub affinity: AffinityId,
    /// A kernel thread bound to one CPU.
    pub per_cpu_kthread: bool,
    /// A real-time task; what it would be in the fair class has no effect then.
    pub real_time: Option<RealTime>,
    /// A deadline task, which is no real-time one then.
    pub deadline: Option<Reservation>,
    /// Utilisation clamps, if it asks for any (`sched_attr::sched_util_min`, `sched_util_max`).
    pub clamps: Option<TaskClamps>,
}

/// `struct task_struct`, as far as placement and accounting need it. What most events need comes
/// first, so that it is in few cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Task {
    /// Load tracking.
    pub avg: Avg,
    /// Utilisation at its last sleeps, smoothed; the top bit says that nothing was added since
    /// (`UTIL_AVG_UNCHANGED`).
    pub(super) util_est: u32,
    /// Its life.
    pub state: TaskState,
    /// A kernel thread bound to one CPU.
    pub per_cpu_kthread: bool,
    /// Its queue knows of its clamps.
    pub(super) clamped: bool,
    /// It sleeps for I/O, or was woken from that and has not run since (`in_iowait`).
    pub in_iowait: bool,
    /// The CPU it is on or was on last.
    pub cpu: CpuId,
    /// The CPUs it may use.
    pub affinity: AffinityId,
    /// Its CPU counts it among those that wait for I/O.
    pub(super) counted_in_iowait: bool,
    pub(super) recent_used_cpu: CpuId,
    pub(super) wakee_flips: u32,
    pub(super) wakee_flips_decayed_jiffies: u64,
    pub(super) last_wakee: Option<TaskId>,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often it moved to another CPU.
    pub migrations: u64,
    /// For how long it must stay where it is.
    pub(super) staying: Staying,
    /// The share of time in which it ran or waited, as power-aware scheduling tells it.
    pub(super) runnable: RunnableAvg,
    /// What it wants to be taken for.
    pub clamps: TaskClamps,
}

/// Set in `util_est` until the task's utilisation changes.
pub(super) const UTIL_AVG_UNCHANGED: u32 = 0x8000_0000;

/// Within this much of the last value, an estimate stays (`UTIL_EST_MARGIN`: 1 % of 1024).
const UTIL_EST_MARGIN: u32 = 10;

/// A new sample counts a quarter (`UTIL_EST_WEIGHT_SHIFT`).
const UTIL_EST_WEIGHT_SHIFT: u32 = 2;

impl Task {
    /// The estimate without its mark (`_task_util_est()`).
    #[inline]
    pub fn util_est(&self) -> u64 {
        u64::from(self.util_est & !UTIL_AVG_UNCHANGED)
    }

    /// The task falls asleep: its utilisation becomes a sample of the estimate, which follows up
    /// at once and down slowly (`util_est_update()`).
    pub(super) fn update_util_est(&mut self, cpu_capacity: u64) {
        if self.util_est & UTIL_AVG_UNCHANGED != 0 {
            return;
        }
        let sample = self.avg.util_avg as u32;
        let mut estimate = self.util_est;
        if estimate <= sample {
            estimate = sample;
        } else {
            let excess = estimate - sample;
            if excess >= UTIL_EST_MARGIN {
                if u64::from(sample) > cpu_capacity {
                    return;
                }
                // A task that had to wait would have used more.
                if u64::from(sample + UTIL_EST_MARGIN) >= self.avg.runnable_avg {
                    estimate =
                        ((estimate << UTIL_EST_WEIGHT_SHIFT) - excess) >> UTIL_EST_WEIGHT_SHIFT;
                }
            }
        }
        self.util_est = estimate | UTIL_AVG_UNCHANGED;
    }

    /// `record_wakee()`: counts how often this task wakes a different one than before.
    pub(super) fn record_wakee(&mut self, wakee: TaskId, jiffies: u64, hz: u32) {
        if jiffies > self.wakee_flips_decayed_jiffies + u64::from(hz) {
            self.wakee_flips >>= 1;
            self.wakee_flips_decayed_jiffies = jiffies;
        }
        if self.last_wakee != Some(wakee) {
            self.last_wakee = Some(wakee);
            self.wakee_flips += 1;
        }
    }
}

//! Utilisation clamps: how much, at least or at most, a task wants to be taken for
//! (`CONFIG_UCLAMP_TASK`), and what that makes of the run queue it is on.
//!
//! Source: `kernel/sched/core.c` and `kernel/sched/sched.h` of Linux 6.12.117.

use super::energy::clamp;

/// What stands for all of the biggest CPU (`SCHED_CAPACITY_SCALE`).
const SCALE: u64 = 1024;

/// Sorts of clamps by value (`UCLAMP_BUCKETS`, `CONFIG_UCLAMP_BUCKETS_COUNT`'s default).
const BUCKETS: usize = 5;

/// The widest value of a bucket (`UCLAMP_BUCKET_DELTA`).
const BUCKET_DELTA: u64 = (SCALE + BUCKETS as u64 / 2) / BUCKETS as u64;

/// What a task asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskClamps {
    /// At least (`UCLAMP_MIN`), 0 to 1024.
    pub min: u16,
    /// At most (`UCLAMP_MAX`), 0 to 1024.
    pub max: u16,
}

impl Default for TaskClamps {
    /// Nothing.
    fn default() -> Self {
        TaskClamps { min: 0, max: SCALE as u16 }
    }
}

/// The clamps of a run queue, as other CPUs see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueClamps {
    min: u16,
    max: u16,
    /// No task is queued, and the last one's maximum still stands (`UCLAMP_FLAG_IDLE`).
    pub idle: bool,
    /// Some task of the machine has asked for something (`uclamp_is_used()`).
    pub used: bool,
}

impl Default for QueueClamps {
    fn default() -> Self {
        QueueClamps { min: 0, max: SCALE as u16, idle: true, used: false }
    }
}

impl QueueClamps {
    /// `uclamp_rq_get(UCLAMP_MIN)`.
    #[inline]
    pub fn min(&self) -> u64 {
        u64::from(self.min)
    }

    /// `uclamp_rq_get(UCLAMP_MAX)`.
    #[inline]
    pub fn max(&self) -> u64 {
        u64::from(self.max)
    }

    /// A utilisation as the queue's tasks want to be taken for (`uclamp_rq_util_with()` without a
    /// task).
    #[inline]
    pub fn clamp(&self, util: u64) -> u64 {
        clamp(util, self.min(), self.max())
    }

    /// Clamps that are in use.
    pub fn of(min: u16, max: u16, idle: bool) -> QueueClamps {
        QueueClamps { min, max, idle, used: true }
    }
}

/// Tasks that ask for about the same (`struct uclamp_bucket`).
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    value: u16,
    tasks: u32,
}

/// One kind of clamp on a run queue (`struct uclamp_rq`).
#[derive(Clone, Copy, Debug)]
struct Clamp {
    value: u16,
    buckets: [Bucket; BUCKETS],
}

/// The clamps of the tasks that are queued (`rq->uclamp`).
#[derive(Clone, Copy, Debug)]
pub struct QueuedClamps {
    min: Clamp,
    max: Clamp,
    idle: bool,
}

impl Default for QueuedClamps {
    /// `init_uclamp_rq()`.
    fn default() -> Self {
        let none = |value| Clamp { value, buckets: [Bucket::default(); BUCKETS] };
        QueuedClamps { min: none(0), max: none(SCALE as u16), idle: true }
    }
}

impl Clamp {
    fn bucket(&mut self, value: u16) -> &mut Bucket {
        // uclamp_bucket_id()
        &mut self.buckets[(u64::from(value) / BUCKET_DELTA).min(BUCKETS as u64 - 1) as usize]
    }

    /// `uclamp_rq_inc_id()`.
    fn enter(&mut self, value: u16, first: bool) {
        let bucket = self.bucket(value);
        bucket.tasks += 1;
        // The largest value of a bucket stands for it as long as it has tasks.
        if bucket.tasks == 1 || value > bucket.value {
            bucket.value = value;
        }
        if first || value > self.value {
            self.value = value;
        }
    }

    /// `uclamp_rq_dec_id()`; the value of the highest bucket that has tasks, if the task's was the
    /// last of its own and the highest.
    fn leave(&mut self, value: u16) -> Option<Option<u16>> {
        let bucket = self.bucket(value);
        bucket.tasks = bucket.tasks.saturating_sub(1);
        if bucket.tasks > 0 || bucket.value < self.value {
            return None;
        }
        let highest = self.buckets.iter().rev().find(|bucket| bucket.tasks > 0);
        Some(highest.map(|bucket| bucket.value))
    }
}

impl QueuedClamps {
    /// A task is queued (`uclamp_rq_inc()`).
    pub fn enter(&mut self, task: TaskClamps) {
        self.min.enter(task.min, self.idle);
        self.max.enter(task.max, self.idle);
        self.idle = false;
    }

    /// A task leaves (`uclamp_rq_dec()`).
    pub fn leave(&mut self, task: TaskClamps) {
        if let Some(value) = self.min.leave(task.min) {
            self.min.value = value.unwrap_or(0);
        }
        if let Some(value) = self.max.leave(task.max) {
            // The last task's maximum stays, so that what it blocked for does not run faster.
            self.idle |= value.is_none();
            self.max.value = value.unwrap_or(task.max);
        }
    }

    /// As other CPUs see it.
    pub fn seen(&self) -> QueueClamps {
        QueueClamps::of(self.min.value, self.max.value, self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clamps(min: u16, max: u16) -> TaskClamps {
        TaskClamps { min, max }
    }

    #[test]
    fn the_highest_request_of_all_tasks_counts() {
        let mut queue = QueuedClamps::default();
        queue.enter(clamps(100, 400));
        assert_eq!(queue.seen(), QueueClamps::of(100, 400, false));
        queue.enter(clamps(600, 300));
        assert_eq!(queue.seen(), QueueClamps::of(600, 400, false));
        queue.leave(clamps(600, 300));
        assert_eq!(queue.seen(), QueueClamps::of(100, 400, false));
    }

    #[test]
    fn the_last_tasks_maximum_stays_until_the_next_comes() {
        let mut queue = QueuedClamps::default();
        queue.enter(clamps(100, 400));
        queue.leave(clamps(100, 400));
        assert_eq!(queue.seen(), QueueClamps::of(0, 400, true));
        queue.enter(clamps(0, 200));
        assert_eq!(queue.seen(), QueueClamps::of(0, 200, false));
    }

    /// Tasks of one bucket are taken for the one that asks for most, even after that has left: 205
    /// and 400 share the second of five buckets.
    #[test]
    fn a_bucket_keeps_its_largest_value_while_it_has_tasks() {
        let mut queue = QueuedClamps::default();
        queue.enter(clamps(210, 1024));
        queue.enter(clamps(400, 1024));
        queue.leave(clamps(400, 1024));
        assert_eq!(queue.seen().min(), 400);
        queue.leave(clamps(210, 1024));
        assert_eq!(queue.seen().min(), 0);
    }
}

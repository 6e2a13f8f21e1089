//! A task as the fair class queues it, and the occasions on which it comes and goes.

use super::weight::LoadWeight;

/// The scheduling policy within the fair class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FairPolicy {
    /// `SCHED_NORMAL`.
    #[default]
    Normal,
    /// `SCHED_BATCH`: never preempts on wake-up.
    Batch,
    /// `SCHED_IDLE`: weight 3, preempted by anything else on wake-up.
    Idle,
}

/// What the fair class knows of a task (`struct sched_entity`).
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    /// Load weight by nice level or policy.
    pub load: LoadWeight,
    /// Policy.
    pub policy: FairPolicy,
    /// Virtual run time, ns at nice 0; wraps. CFS keeps it relative to the queue that the task
    /// left while `rel_vruntime`.
    pub vruntime: u64,
    /// CFS: the task is on its way to another queue, or new.
    pub rel_vruntime: bool,
    /// EEVDF's virtual deadline; relative to `vruntime` while `rel_deadline`.
    pub deadline: u64,
    /// EEVDF's virtual lag while off the queue. While running it holds the deadline at the pick: the
    /// slice is protected as long as the two are equal (`set_protect_slice()`).
    pub vlag: i64,
    /// EEVDF's request, ns of run time.
    pub slice_ns: u64,
    /// The slice was set by the task (`sched_attr::sched_runtime`) and stays.
    pub custom_slice: bool,
    /// `deadline` was made relative when the task left the queue to migrate.
    pub rel_deadline: bool,
    /// On the queue, delayed ones included.
    pub on_rq: bool,
    /// Asleep, but queued until its lag is used up.
    pub sched_delayed: bool,
    /// When the current run was last accounted, ns of the task clock.
    pub exec_start_ns: u64,
    /// Run time in all, ns.
    pub sum_exec_runtime_ns: u64,
    /// `sum_exec_runtime_ns` when CFS last picked the task.
    pub prev_sum_exec_runtime_ns: u64,
}

impl Entity {
    /// A new task that was never queued.
    pub fn new(load: LoadWeight, policy: FairPolicy, custom_slice_ns: Option<u64>) -> Entity {
        Entity {
            load,
            policy,
            vruntime: 0,
            rel_vruntime: false,
            deadline: 0,
            vlag: 0,
            slice_ns: custom_slice_ns.unwrap_or(0),
            custom_slice: custom_slice_ns.is_some(),
            rel_deadline: false,
            on_rq: false,
            sched_delayed: false,
            exec_start_ns: 0,
            sum_exec_runtime_ns: 0,
            prev_sum_exec_runtime_ns: 0,
        }
    }

    pub(super) fn protects_slice(&self) -> bool {
        self.vlag == self.deadline as i64
    }

    pub(super) fn cancel_slice_protection(&mut self) {
        if self.protects_slice() {
            self.vlag = self.deadline.wrapping_add(1) as i64;
        }
    }
}

/// Why an entity is enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// A new task's first time (`ENQUEUE_INITIAL`).
    Initial,
    /// It was woken (`ENQUEUE_WAKEUP`).
    Wakeup,
    /// It comes from another CPU's queue.
    Move,
}

/// Why an entity is dequeued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dequeue {
    /// It blocks (`DEQUEUE_SLEEP`); EEVDF keeps an ineligible one queued as delayed.
    Sleep,
    /// It blocks in a state that must not be woken spuriously (`DEQUEUE_SPECIAL`): never delayed.
    SleepSpecial,
    /// It leaves for another CPU, or changes its attributes; its place in virtual time is kept
    /// relative.
    Move,
}

/// `(s64)(a - b) < 0`: virtual times wrap, so they compare by their distance.
#[inline]
pub(super) fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

//! What a CPU runs, as far as the trace has shown.

use crate::task_table::{TaskId, TaskTable};
use schedlab_trace::Pid;

/// What a CPU runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// Nothing has shown it: before the CPU's first event, or after lost events.
    #[default]
    Unknown,
    /// Its idle task.
    Idle,
    /// A task.
    Task(TaskId),
}

impl Occupant {
    /// From a thread id and the table's entry for it.
    #[inline]
    pub(crate) fn new(pid: Pid, task: Option<TaskId>) -> Occupant {
        match task {
            Some(id) => Occupant::Task(id),
            None if pid == Pid::IDLE => Occupant::Idle,
            None => Occupant::Unknown,
        }
    }

    /// From the thread id that a record bears (`common_pid`).
    pub(crate) fn shown_by(pid: Pid, table: &mut TaskTable) -> Occupant {
        Occupant::new(pid, table.seen_pid(pid))
    }

    /// The task, if it is one.
    #[inline]
    pub(crate) fn task(self) -> Option<TaskId> {
        match self {
            Occupant::Task(id) => Some(id),
            _ => None,
        }
    }
}

//! Which task an event means: thread ids are reused, and names change.

use rustc_hash::FxHashMap;
use schedlab_trace::{EventKind, Pid, StrId, Task, TaskState};

/// A task of a [`TaskTable`], numbered from 0 in the order of first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

impl TaskId {
    /// The number as an index into per-task arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a table knows of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Thread id.
    pub pid: Pid,
    /// The name it bore last; empty while no event has named it.
    pub comm: StrId,
    /// Names it bore before, oldest first; at most [`TaskTable::NAMES_MAX`].
    pub earlier_comms: Vec<StrId>,
    /// True if an earlier task of the trace had the same thread id.
    pub reused_pid: bool,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Forked, and not seen since.
    Newborn,
    Alive,
    /// `sched_process_exit` was seen; the task still runs to its last switch.
    Exiting,
    /// It left its CPU dead.
    Dead,
}

/// The tasks of a trace.
///
/// A thread id that returns means a new task when the old one has left its CPU dead, or when a fork
/// or a first wakeup names the id after the old one's exit, or when a fork names an id that was in
/// use (its exit was not recorded).
#[derive(Clone, Debug, Default)]
pub struct TaskTable {
    /// By thread id: index into `tasks`, plus one.
    small: Vec<u32>,
    /// Thread ids that no kernel gives out, from damaged or foreign files.
    large: FxHashMap<i32, u32>,
    tasks: Vec<TaskInfo>,
}

impl TaskTable {
    /// The kernel's own limit of thread ids (`PID_MAX_LIMIT`).
    const PIDS_MAX: usize = 1 << 22;
    /// At most this many tasks are told apart, which bounds memory on hostile input.
    pub const TASKS_MAX: usize = 1 << 22;
    /// At most this many earlier names of a task are kept.
    pub const NAMES_MAX: usize = 16;

    /// The task that an event names, added on first sight. `None` for an idle task, an unknown one,
    /// and beyond [`TaskTable::TASKS_MAX`].
    #[inline]
    pub fn seen(&mut self, task: Task) -> Option<TaskId> {
        if task.pid.0 <= 0 {
            return None;
        }
        let slot = match self.small.get(task.pid.0 as usize) {
            Some(&slot) => slot,
            None => self.slot(task.pid)?,
        };
        if slot != 0 {
            let info = &mut self.tasks[slot as usize - 1];
            if info.comm == task.comm && info.life == Life::Alive {
                return Some(TaskId(slot - 1));
            }
        }
        self.update(slot, task)
    }

    /// The task that a CPU is known to run by its thread id alone (`common_pid`).
    pub fn seen_pid(&mut self, pid: Pid) -> Option<TaskId> {
        self.seen(Task { pid, comm: StrId::EMPTY })
    }

    /// Takes note of what an event says about which task a thread id means. Returns what a switch
    /// brings: the task that left and the one that came.
    #[inline]
    pub fn follow(&mut self, kind: &EventKind) -> (Option<TaskId>, Option<TaskId>) {
        match *kind {
            EventKind::Switch { prev, prev_state, next, .. } => {
                let left = self.seen(prev);
                if let Some(id) = left
                    && matches!(prev_state, TaskState::Dead | TaskState::Zombie)
                {
                    self.died(id);
                }
                return (left, self.seen(next));
            }
            EventKind::WakeupNew { task, .. } => {
                self.first_woken(task);
            }
            EventKind::Fork { child, .. } => {
                self.forked(child);
            }
            EventKind::Exit { task } => {
                self.exiting(task);
            }
            _ => {}
        }
        (None, None)
    }

    /// The child of `sched_process_fork`: a new task, unless it was seen as new already.
    pub fn forked(&mut self, child: Task) -> Option<TaskId> {
        let slot = self.slot(child.pid)?;
        let id = self.add(child, slot != 0)?;
        self.tasks[id.index()].life = Life::Newborn;
        Some(id)
    }

    /// The task of `sched_wakeup_new`.
    pub fn first_woken(&mut self, task: Task) -> Option<TaskId> {
        let slot = self.slot(task.pid)?;
        match self.life(slot) {
            Some(Life::Exiting | Life::Dead) => self.add(task, true),
            _ => self.update(slot, task),
        }
    }

    /// `sched_process_exit`.
    pub fn exiting(&mut self, task: Task) -> Option<TaskId> {
        let id = self.seen(task)?;
        self.tasks[id.index()].life = Life::Exiting;
        Some(id)
    }

    /// The task left its CPU dead.
    pub fn died(&mut self, id: TaskId) {
        self.tasks[id.index()].life = Life::Dead;
    }

    /// The tasks in the order of their ids.
    pub fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    /// What is known of `id`.
    pub fn info(&self, id: TaskId) -> &TaskInfo {
        &self.tasks[id.index()]
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True while no task has been seen.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn life(&self, slot: u32) -> Option<Life> {
        self.tasks.get((slot as usize).wrapping_sub(1)).map(|info| info.life)
    }

    /// The entry for `pid` (0: not seen yet); `None` for idle and unknown tasks.
    #[cold]
    fn slot(&mut self, pid: Pid) -> Option<u32> {
        let index = usize::try_from(pid.0).ok().filter(|&index| index > 0)?;
        if index >= Self::PIDS_MAX {
            return Some(self.large.get(&pid.0).copied().unwrap_or(0));
        }
        if index >= self.small.len() {
            self.small.resize((index + 1).next_power_of_two(), 0);
        }
        Some(self.small[index])
    }

    #[cold]
    fn update(&mut self, slot: u32, task: Task) -> Option<TaskId> {
        let life = self.life(slot);
        // A dead task does not run again, so its id has been given to another.
        if matches!(life, None | Some(Life::Dead)) {
            return self.add(task, life.is_some());
        }
        let info = &mut self.tasks[slot as usize - 1];
        if info.life == Life::Newborn {
            info.life = Life::Alive;
        }
        if task.comm != StrId::EMPTY && task.comm != info.comm {
            if info.comm != StrId::EMPTY && info.earlier_comms.len() < Self::NAMES_MAX {
                info.earlier_comms.push(info.comm);
            }
            info.comm = task.comm;
        }
        Some(TaskId(slot - 1))
    }

    fn add(&mut self, task: Task, reused_pid: bool) -> Option<TaskId> {
        if self.tasks.len() >= Self::TASKS_MAX {
            return None;
        }
        let id = TaskId(self.tasks.len() as u32);
        self.tasks.push(TaskInfo {
            pid: task.pid,
            comm: task.comm,
            earlier_comms: Vec::new(),
            reused_pid,
            life: Life::Alive,
        });
        match self.small.get_mut(task.pid.0 as usize) {
            Some(slot) => *slot = id.0 + 1,
            None => {
                self.large.insert(task.pid.0, id.0 + 1);
            }
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: i32, comm: u32) -> Task {
        Task { pid: Pid(pid), comm: StrId(comm) }
    }

    #[test]
    fn a_changed_name_is_the_same_task() {
        let mut table = TaskTable::default();
        let id = table.seen(task(7, 1)).unwrap();
        assert_eq!(table.seen(task(7, 2)), Some(id));
        assert_eq!(table.seen_pid(Pid(7)), Some(id));
        assert_eq!(table.info(id).comm, StrId(2));
        assert_eq!(table.info(id).earlier_comms, [StrId(1)]);
    }

    #[test]
    fn idle_and_unknown_tasks_have_no_entry() {
        let mut table = TaskTable::default();
        assert_eq!(table.seen(task(0, 1)), None);
        assert_eq!(table.seen_pid(Pid::UNKNOWN), None);
        assert_eq!(table.seen(task(i32::MIN, 1)), None);
        assert!(table.is_empty());
    }

    #[test]
    fn a_fork_and_its_first_wakeup_are_one_task() {
        let mut table = TaskTable::default();
        let id = table.forked(task(9, 1)).unwrap();
        assert_eq!(table.first_woken(task(9, 1)), Some(id));
        assert_eq!(table.seen(task(9, 1)), Some(id));
        assert!(!table.info(id).reused_pid);
    }

    #[test]
    fn an_exited_task_runs_on_until_the_id_is_given_out_again() {
        let mut table = TaskTable::default();
        let id = table.seen(task(9, 1)).unwrap();
        assert_eq!(table.exiting(task(9, 1)), Some(id));
        assert_eq!(table.seen(task(9, 1)), Some(id));
        let next = table.first_woken(task(9, 3)).unwrap();
        assert_ne!(next, id);
        assert!(table.info(next).reused_pid);
    }

    #[test]
    fn a_dead_task_does_not_return() {
        let mut table = TaskTable::default();
        let id = table.seen(task(9, 1)).unwrap();
        table.died(id);
        assert_ne!(table.seen(task(9, 1)), Some(id));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn thread_ids_beyond_the_kernels_limit_are_told_apart() {
        let mut table = TaskTable::default();
        let id = table.seen(task(i32::MAX, 1)).unwrap();
        assert_eq!(table.seen(task(i32::MAX, 1)), Some(id));
        assert_ne!(table.seen(task(i32::MAX - 1, 1)), Some(id));
    }
}

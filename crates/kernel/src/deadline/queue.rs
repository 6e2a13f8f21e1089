//! The deadline tasks of one CPU, the earliest deadline first (`struct dl_rq`), with those that
//! another CPU may take.

use super::entity::before;
use crate::fair::TaskId;

/// Tasks for which a queue has room without allocating.
const QUEUE_ROOM: usize = 16;

/// A list of tasks by deadline; equals in the order in which they came. Queues are short, so that
/// a sorted list serves better than a tree.
#[derive(Clone, Debug)]
pub struct ByDeadline(Vec<(u64, TaskId)>);

impl Default for ByDeadline {
    fn default() -> ByDeadline {
        ByDeadline(Vec::with_capacity(QUEUE_ROOM))
    }
}

impl ByDeadline {
    /// Adds a task.
    pub fn insert(&mut self, deadline_ns: u64, id: TaskId) {
        let place = self.0.partition_point(|&(other_ns, _)| !before(deadline_ns, other_ns));
        self.0.insert(place, (deadline_ns, id));
    }

    /// Takes a task off, if it is there.
    pub fn remove(&mut self, id: TaskId) {
        if let Some(place) = self.0.iter().position(|&(_, other)| other == id) {
            self.0.remove(place);
        }
    }

    /// The task of the earliest deadline, and that deadline, ns.
    #[inline]
    pub fn first(&self) -> Option<(u64, TaskId)> {
        self.0.first().copied()
    }

    /// All of them, the earliest first.
    pub fn all(&self) -> &[(u64, TaskId)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_comes_first_even_when_time_wraps() {
        let mut queue = ByDeadline::default();
        for (deadline_ns, id) in [(5, 0), (u64::MAX - 3, 1), (5, 2), (9, 3)] {
            queue.insert(deadline_ns, TaskId(id));
        }
        let order =
            |queue: &ByDeadline| queue.all().iter().map(|&(_, id)| id.0).collect::<Vec<_>>();
        assert_eq!(order(&queue), [1, 0, 2, 3]);
        queue.remove(TaskId(1));
        queue.remove(TaskId(7));
        assert_eq!(queue.first(), Some((5, TaskId(0))));
        assert_eq!(order(&queue), [0, 2, 3]);
    }
}

//! The real-time tasks of one CPU: a list for each priority, and a bit for each list that is not
//! empty (`struct rt_prio_array`), with the list of those that another CPU may take.

use super::{NOT_RT, RtPolicy};
use crate::fair::TaskId;

/// No task.
const NONE: TaskId = TaskId(u32::MAX);

/// What the real-time class knows of a task (`struct sched_rt_entity`).
#[derive(Clone, Copy, Debug)]
pub struct RtEntity {
    /// Policy.
    pub policy: RtPolicy,
    /// The kernel's priority: 0, the most urgent, to 98.
    pub prio: u8,
    /// Ticks left of a `SCHED_RR` task's turn.
    pub time_slice: u32,
    /// On a queue, running or not.
    pub on_rq: bool,
    /// CPUs that the task may use (`nr_cpus_allowed`).
    pub cpus_allowed: u32,
    before: TaskId,
    after: TaskId,
}

impl RtEntity {
    /// A task that is on no queue.
    pub fn new(policy: RtPolicy, prio: u8, time_slice: u32, cpus_allowed: u32) -> RtEntity {
        let links = (NONE, NONE);
        let (before, after) = links;
        RtEntity { policy, prio, time_slice, on_rq: false, cpus_allowed, before, after }
    }

    /// True if another CPU may take it.
    #[inline]
    pub fn is_migratable(&self) -> bool {
        self.cpus_allowed > 1
    }
}

/// The queue of one CPU. The running task stays in its list. Tasks live in a table of the
/// caller's, which every call is handed.
#[derive(Clone, Debug)]
pub struct RtQueue {
    bits: u128,
    first: [TaskId; NOT_RT as usize],
    last: [TaskId; NOT_RT as usize],
    nr_running: u32,
    /// Waiting tasks that other CPUs may run, the most urgent first and, among equals, the one
    /// that waits longest (`pushable_tasks`).
    pushable: Vec<(u8, TaskId)>,
}

/// Waiting tasks for which a queue has room without allocating.
const QUEUE_ROOM: usize = 64;

impl Default for RtQueue {
    fn default() -> RtQueue {
        RtQueue {
            bits: 0,
            first: [NONE; NOT_RT as usize],
            last: [NONE; NOT_RT as usize],
            nr_running: 0,
            pushable: Vec::with_capacity(QUEUE_ROOM),
        }
    }
}

impl RtQueue {
    /// Tasks, the running one included.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.nr_running
    }

    /// The most urgent priority, or [`NOT_RT`] (`highest_prio.curr`).
    #[inline]
    pub fn highest(&self) -> u8 {
        (self.bits.trailing_zeros() as u8).min(NOT_RT)
    }

    /// The task to run: the first of the most urgent ones.
    #[inline]
    pub fn first(&self) -> Option<TaskId> {
        (self.bits != 0).then(|| self.first[usize::from(self.highest())])
    }

    /// Adds a task at the end of its list, or with `head` at its beginning.
    pub fn enqueue(&mut self, entities: &mut [RtEntity], id: TaskId, head: bool) {
        let list = usize::from(entities[id.index()].prio);
        let (before, after) = if head { (NONE, self.first[list]) } else { (self.last[list], NONE) };
        let entity = &mut entities[id.index()];
        (entity.before, entity.after, entity.on_rq) = (before, after, true);
        self.link(entities, list, before, id, id, after);
        self.bits |= 1 << list;
        self.nr_running += 1;
    }

    /// Takes a task off.
    pub fn dequeue(&mut self, entities: &mut [RtEntity], id: TaskId) {
        let entity = &mut entities[id.index()];
        let (list, before, after) = (usize::from(entity.prio), entity.before, entity.after);
        entity.on_rq = false;
        self.link(entities, list, before, after, before, after);
        if self.first[list] == NONE {
            self.bits &= !(1 << list);
        }
        self.nr_running -= 1;
    }

    /// Moves a task to the end of its list, or with `head` to its beginning
    /// (`requeue_task_rt()`).
    pub fn requeue(&mut self, entities: &mut [RtEntity], id: TaskId, head: bool) {
        self.dequeue(entities, id);
        self.enqueue(entities, id, head);
    }

    /// True if no other task has this one's priority.
    pub fn is_alone(&self, entities: &[RtEntity], id: TaskId) -> bool {
        let entity = &entities[id.index()];
        entity.before == NONE && entity.after == NONE
    }

    /// What follows `before` becomes `next`, and what precedes `after` becomes `prev`.
    fn link(
        &mut self,
        entities: &mut [RtEntity],
        list: usize,
        before: TaskId,
        next: TaskId,
        prev: TaskId,
        after: TaskId,
    ) {
        match before {
            NONE => self.first[list] = next,
            before => entities[before.index()].after = next,
        }
        match after {
            NONE => self.last[list] = prev,
            after => entities[after.index()].before = prev,
        }
    }

    /// The tasks in the order in which they would run.
    pub fn iter<'a>(&'a self, entities: &'a [RtEntity]) -> impl Iterator<Item = TaskId> + 'a {
        let mut bits = self.bits;
        let lists = std::iter::from_fn(move || {
            let list = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (list < usize::from(NOT_RT)).then_some(list)
        });
        lists.flat_map(move |list| {
            let after = |id: &TaskId| Some(entities[id.index()].after).filter(|&id| id != NONE);
            std::iter::successors(Some(self.first[list]), after)
        })
    }

    /// Waiting tasks that other CPUs may run, the most urgent first.
    pub fn pushable(&self) -> &[(u8, TaskId)] {
        &self.pushable
    }

    /// The most urgent of these, or [`NOT_RT`] (`highest_prio.next`).
    #[inline]
    pub fn next_pushable(&self) -> u8 {
        self.pushable.first().map_or(NOT_RT, |&(prio, _)| prio)
    }

    /// Others may take this task, which does not run (`enqueue_pushable_task()`).
    pub fn offer(&mut self, entities: &[RtEntity], id: TaskId) {
        self.withdraw(id);
        let prio = entities[id.index()].prio;
        let place = self.pushable.partition_point(|&(other, _)| other <= prio);
        self.pushable.insert(place, (prio, id));
    }

    /// They may not any more (`dequeue_pushable_task()`).
    pub fn withdraw(&mut self, id: TaskId) {
        if let Some(place) = self.pushable.iter().position(|&(_, other)| other == id) {
            self.pushable.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(prios: &[u8]) -> Vec<RtEntity> {
        prios.iter().map(|&prio| RtEntity::new(RtPolicy::Fifo, prio, 25, 8)).collect()
    }

    fn order(queue: &RtQueue, entities: &[RtEntity]) -> Vec<u32> {
        queue.iter(entities).map(|id| id.0).collect()
    }

    #[test]
    fn equals_run_in_the_order_in_which_they_came() {
        let mut entities = tasks(&[10, 5, 10, 98]);
        let mut queue = RtQueue::default();
        assert_eq!((queue.highest(), queue.first()), (NOT_RT, None));
        for id in 0..4 {
            queue.enqueue(&mut entities, TaskId(id), false);
        }
        assert_eq!(order(&queue, &entities), [1, 0, 2, 3]);
        assert_eq!((queue.highest(), queue.first()), (5, Some(TaskId(1))));
        queue.requeue(&mut entities, TaskId(0), false);
        assert_eq!(order(&queue, &entities), [1, 2, 0, 3]);
        queue.requeue(&mut entities, TaskId(0), true);
        assert_eq!(order(&queue, &entities), [1, 0, 2, 3]);
        assert!(queue.is_alone(&entities, TaskId(3)) && !queue.is_alone(&entities, TaskId(2)));
        queue.dequeue(&mut entities, TaskId(1));
        queue.dequeue(&mut entities, TaskId(2));
        assert_eq!(order(&queue, &entities), [0, 3]);
        assert_eq!((queue.nr_running(), queue.highest()), (2, 10));
    }

    #[test]
    fn the_most_urgent_task_is_offered_first() {
        let entities = tasks(&[10, 5, 10]);
        let mut queue = RtQueue::default();
        for id in 0..3 {
            queue.offer(&entities, TaskId(id));
        }
        let offered = |queue: &RtQueue| queue.pushable().iter().map(|o| o.1.0).collect::<Vec<_>>();
        assert_eq!(offered(&queue), [1, 0, 2]);
        // One that is offered again waits behind its equals.
        queue.offer(&entities, TaskId(0));
        assert_eq!(offered(&queue), [1, 2, 0]);
        queue.withdraw(TaskId(1));
        assert_eq!(queue.next_pushable(), 10);
    }
}

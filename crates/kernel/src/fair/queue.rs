//! A CPU's fair run queue, whichever way the kernel picks from it.

use super::TaskId;
use super::cfs::{self, CfsQueue};
use super::eevdf::{self, EevdfQueue};
use super::entity::{Dequeue, Enqueue, Entity};
use super::weight::LoadWeight;

/// How the fair class picks the next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FairRules {
    /// Up to v6.5: the least virtual run time.
    Cfs(cfs::Tunables),
    /// From v6.6 on: the earliest virtual deadline among those that are owed service.
    Eevdf(eevdf::Tunables),
}

/// The fair tasks of one CPU (`struct cfs_rq`). They live in a table of the caller's, which every
/// call is handed. Both kinds stand at the same place, so that what they have in common does, too.
#[derive(Clone, Debug)]
#[repr(u8)]
pub enum FairQueue {
    /// Ordered by virtual run time.
    Cfs(CfsQueue),
    /// Ordered by virtual deadline.
    Eevdf(EevdfQueue),
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// [`FairQueue::nr_running`].
    pub nr_running: u32,
    /// [`FairQueue::nr_delayed`].
    pub nr_delayed: u32,
    /// [`FairQueue::nr_idle_policy`].
    pub nr_idle_policy: u32,
    /// [`FairQueue::load_weight`].
    pub load_weight: u64,
    /// One of them runs.
    pub runs: bool,
}

macro_rules! either {
    ($queue:expr, $inner:ident => $body:expr) => {
        match $queue {
            FairQueue::Cfs($inner) => $body,
            FairQueue::Eevdf($inner) => $body,
        }
    };
}

impl FairQueue {
    /// An empty queue whose virtual time starts at `start`. Room for `capacity` waiting entities
    /// is set aside; more only cost a reallocation.
    pub fn new(rules: FairRules, start: u64, capacity: usize) -> FairQueue {
        match rules {
            FairRules::Cfs(tunables) => FairQueue::Cfs(CfsQueue::new(tunables, start, capacity)),
            FairRules::Eevdf(tunables) => {
                FairQueue::Eevdf(EevdfQueue::new(tunables, start, capacity))
            }
        }
    }

    /// All counts at once.
    #[inline]
    pub fn counts(&self) -> Counts {
        Counts {
            nr_running: self.nr_running(),
            nr_delayed: self.nr_delayed(),
            nr_idle_policy: self.nr_idle_policy(),
            load_weight: self.load_weight(),
            runs: self.curr().is_some(),
        }
    }

    /// Entities queued, the current and, in EEVDF, the delayed ones included.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        either!(self, queue => queue.nr_running)
    }

    /// Of these, delayed ones.
    #[inline]
    pub fn nr_delayed(&self) -> u32 {
        match self {
            FairQueue::Cfs(_) => 0,
            FairQueue::Eevdf(queue) => queue.nr_delayed,
        }
    }

    /// Of the queued ones, those of policy `SCHED_IDLE`.
    #[inline]
    pub fn nr_idle_policy(&self) -> u32 {
        either!(self, queue => queue.nr_idle_policy)
    }

    /// Sum of the scaled weights of all queued entities (`cfs_rq->load.weight`).
    #[inline]
    pub fn load_weight(&self) -> u64 {
        either!(self, queue => queue.load_weight)
    }

    /// The running entity.
    #[inline]
    pub fn curr(&self) -> Option<TaskId> {
        either!(self, queue => queue.curr)
    }

    /// The current entity should give way (`TIF_NEED_RESCHED`).
    #[inline]
    pub fn resched(&self) -> bool {
        either!(self, queue => queue.resched)
    }

    /// The reschedule was done, or is not needed any more.
    #[inline]
    pub fn clear_resched(&mut self) {
        either!(self, queue => queue.resched = false);
    }

    /// The entity whose wake-up preempted and that will be picked before others. It counts as
    /// cache-hot.
    pub fn next_buddy(&self) -> Option<TaskId> {
        match self {
            FairQueue::Cfs(queue) => queue.buddies()[1],
            FairQueue::Eevdf(_) => None,
        }
    }

    /// True if the pick prefers this entity, as it was woken or preempted lately: older kernels take
    /// it for cache-hot.
    pub fn is_buddy(&self, id: TaskId) -> bool {
        match self {
            FairQueue::Cfs(queue) => queue.buddies()[..2].contains(&Some(id)),
            FairQueue::Eevdf(_) => false,
        }
    }

    /// A task forks on this CPU; CFS places its child here.
    pub fn fork(&mut self, entities: &mut [Entity], child: TaskId, now_ns: u64) {
        if let FairQueue::Cfs(queue) = self {
            queue.fork(entities, child, now_ns);
        }
    }

    /// A task that sleeps will wake on another CPU.
    pub fn leave_asleep(&self, entities: &mut [Entity], id: TaskId) {
        if let FairQueue::Cfs(queue) = self {
            queue.leave_asleep(entities, id);
        }
    }

    /// Adds an entity, or revives it if it is queued as delayed, which is what `true` says.
    #[inline]
    pub fn enqueue(
        &mut self,
        entities: &mut [Entity],
        id: TaskId,
        why: Enqueue,
        now_ns: u64,
    ) -> bool {
        match self {
            FairQueue::Cfs(queue) => {
                queue.enqueue(entities, id, why, now_ns);
                false
            }
            FairQueue::Eevdf(queue) => queue.enqueue(entities, id, why, now_ns),
        }
    }

    /// Takes an entity off the queue. `false` if it sleeps, but stays queued as delayed.
    #[inline]
    pub fn dequeue(
        &mut self,
        entities: &mut [Entity],
        id: TaskId,
        why: Dequeue,
        now_ns: u64,
    ) -> bool {
        match self {
            FairQueue::Cfs(queue) => {
                queue.dequeue(entities, id, why, now_ns);
                true
            }
            FairQueue::Eevdf(queue) => queue.dequeue(entities, id, why, now_ns),
        }
    }

    /// Accounts the current entity's run time up to `now_ns` of the task clock.
    #[inline]
    pub fn update_curr(&mut self, entities: &mut [Entity], now_ns: u64) -> u64 {
        either!(self, queue => queue.update_curr(entities, now_ns))
    }

    /// The periodic tick (`entity_tick()`). EEVDF asks for a reschedule whenever it accounts time.
    #[inline]
    pub fn tick(&mut self, entities: &mut [Entity], now_ns: u64) {
        match self {
            FairQueue::Cfs(queue) => queue.tick(entities, now_ns),
            FairQueue::Eevdf(queue) => {
                queue.update_curr(entities, now_ns);
            }
        }
    }

    /// Decides whether a task that was just enqueued preempts the current one, and asks for a
    /// reschedule if so.
    #[inline]
    pub fn check_preempt(&mut self, entities: &mut [Entity], woken: TaskId, now_ns: u64) {
        either!(self, queue => queue.check_preempt(entities, woken, now_ns));
    }

    /// The entity to run next, which may be a delayed one that must be dequeued first.
    #[inline]
    pub fn candidate(&mut self, entities: &mut [Entity], now_ns: u64) -> Option<TaskId> {
        either!(self, queue => queue.candidate(entities, now_ns))
    }

    /// Makes `next` current in place of whoever is. Clears the reschedule request.
    #[inline]
    pub fn switch_to(&mut self, entities: &mut [Entity], next: Option<TaskId>, now_ns: u64) {
        either!(self, queue => queue.switch_to(entities, next, now_ns));
    }

    /// Puts the current entity, if it still wants the CPU, back among the waiting ones.
    #[inline]
    pub fn put_prev(&mut self, entities: &mut [Entity], now_ns: u64) {
        either!(self, queue => queue.put_prev(entities, now_ns));
    }

    /// `sched_yield()` of the current entity. The caller picks afterwards.
    pub fn yield_curr(&mut self, entities: &mut [Entity], now_ns: u64) {
        either!(self, queue => queue.yield_curr(entities, now_ns));
    }

    /// Changes an entity's weight.
    pub fn reweight(&mut self, entities: &mut [Entity], id: TaskId, load: LoadWeight, now_ns: u64) {
        either!(self, queue => queue.reweight(entities, id, load, now_ns));
    }

    /// Virtual run time by which the queue measures: CFS's least one, EEVDF's average one. It never
    /// jumps, so a test may watch it.
    pub fn virtual_time(&self) -> u64 {
        match self {
            FairQueue::Cfs(queue) => queue.min_vruntime,
            FairQueue::Eevdf(queue) => queue.zero_vruntime,
        }
    }
}

//! EEVDF, the fair pick since 6.6: of the tasks that are owed service (eligible), the one with
//! the earliest virtual deadline runs.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117 (Debian), which tracks the average virtual
//! time through `zero_vruntime` (6.12.0 had `min_vruntime`). Flat: one queue per CPU, no task
//! groups and no bandwidth control. The features stand at their defaults: PLACE_LAG,
//! PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT, DELAY_DEQUEUE,
//! DELAY_ZERO and WAKEUP_PREEMPTION on, NEXT_BUDDY off.
//!
//! The kernel keeps the queue in a red-black tree with the smallest vruntime of each subtree, and
//! its search ends at the leftmost eligible entity. A CPU queues few tasks, so here the same order
//! stands in a vector, and the same entity is found by a scan.

use super::TaskId;
use super::entity::before;
pub use super::entity::{Dequeue, Enqueue, Entity, FairPolicy};
use super::weight::LoadWeight;

/// Constants of the scheduler that do not change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// `sysctl_sched_base_slice`, ns.
    pub base_slice_ns: u64,
    /// `TICK_NSEC`.
    pub tick_ns: u64,
}

/// One queued entity, with copies of what the order and the search need.
#[derive(Clone, Copy, Debug)]
struct Queued {
    deadline: u64,
    vruntime: u64,
    id: TaskId,
}

/// The fair run queue of one CPU (`struct cfs_rq`). Its entities live in a table of the caller's,
/// which every call is handed.
///
/// What every queue has comes first and lies as in [`super::cfs::CfsQueue`], so that one load reads
/// it, whichever of the two a CPU has.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct EevdfQueue {
    /// Sum of the scaled weights of all queued entities (`cfs_rq->load.weight`).
    pub load_weight: u64,
    /// Entities queued, the current and the delayed ones included.
    pub nr_running: u32,
    /// Of the queued ones, those of policy `SCHED_IDLE`.
    pub nr_idle_policy: u32,
    /// The running entity, which is kept outside the order.
    pub curr: Option<TaskId>,
    /// The current entity should give way (`TIF_NEED_RESCHED`).
    pub resched: bool,
    /// Of the queued entities, delayed ones.
    pub nr_delayed: u32,
    /// The zero point of all keys; follows the average virtual time.
    pub zero_vruntime: u64,
    /// Weighted sum of the keys of the waiting entities (`cfs_rq->avg_vruntime`).
    pub avg_vruntime: i64,
    /// Sum of their unscaled weights (`cfs_rq->avg_load`).
    pub avg_load: i64,
    waiting: Vec<Queued>,
    tunables: Tunables,
}

impl EevdfQueue {
    /// An empty queue whose virtual time starts at `zero_vruntime`. Room for `capacity` waiting
    /// entities is set aside; more only cost a reallocation.
    pub fn new(tunables: Tunables, zero_vruntime: u64, capacity: usize) -> EevdfQueue {
        EevdfQueue {
            zero_vruntime,
            avg_vruntime: 0,
            avg_load: 0,
            nr_running: 0,
            nr_delayed: 0,
            nr_idle_policy: 0,
            load_weight: 0,
            curr: None,
            resched: false,
            waiting: Vec::with_capacity(capacity),
            tunables,
        }
    }

    /// The waiting entities (not the current one) by deadline.
    pub fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiting.iter().map(|queued| queued.id)
    }

    fn running<'a>(&self, entities: &'a [Entity]) -> Option<&'a Entity> {
        self.curr.map(|id| &entities[id.0 as usize]).filter(|entity| entity.on_rq)
    }

    fn key(&self, vruntime: u64) -> i64 {
        vruntime.wrapping_sub(self.zero_vruntime) as i64
    }

    /// The weighted average of all virtual run times, towards which the zero point moves. Rounded
    /// down, so that an entity placed there is eligible (`avg_vruntime()`).
    #[inline]
    pub fn average_vruntime(&mut self, entities: &[Entity]) -> u64 {
        let mut weight = self.avg_load;
        let mut delta = 0;
        match (self.running(entities), weight) {
            (None, 0) => {}
            (Some(running), 0) => delta = self.key(running.vruntime),
            (running, _) => {
                let mut runtime = self.avg_vruntime;
                if let Some(running) = running {
                    let running_weight = running.load.unscaled() as i64;
                    let share = self.key(running.vruntime).wrapping_mul(running_weight);
                    runtime = runtime.wrapping_add(share);
                    weight += running_weight;
                }
                if runtime < 0 {
                    runtime = runtime.wrapping_sub(weight - 1);
                }
                delta = runtime / weight;
            }
        }
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.avg_load.wrapping_mul(delta));
        self.zero_vruntime = self.zero_vruntime.wrapping_add(delta as u64);
        self.zero_vruntime
    }

    /// The sums by which eligibility is judged, the running entity included.
    fn eligibility_sums(&self, entities: &[Entity]) -> (i64, i64) {
        match self.running(entities) {
            None => (self.avg_vruntime, self.avg_load),
            Some(running) => {
                let weight = running.load.unscaled() as i64;
                let share = self.key(running.vruntime).wrapping_mul(weight);
                (self.avg_vruntime.wrapping_add(share), self.avg_load + weight)
            }
        }
    }

    fn vruntime_eligible(&self, (average, load): (i64, i64), vruntime: u64) -> bool {
        average >= self.key(vruntime).wrapping_mul(load)
    }

    /// True if the entity is owed service: its lag is not negative (`entity_eligible()`). The
    /// division of the average is avoided, because it would lose precision.
    pub fn eligible(&self, entities: &[Entity], id: TaskId) -> bool {
        let vruntime = entities[id.0 as usize].vruntime;
        self.vruntime_eligible(self.eligibility_sums(entities), vruntime)
    }

    /// Virtual lag, limited to two slices or one tick (`entity_lag()`).
    fn lag(&self, average: u64, entity: &Entity) -> i64 {
        let longest_ns = (2 * entity.slice_ns).max(self.tunables.tick_ns);
        let limit = entity.load.virtual_time(longest_ns) as i64;
        (average.wrapping_sub(entity.vruntime) as i64).clamp(-limit, limit)
    }

    #[inline]
    fn update_lag(&mut self, entities: &mut [Entity], id: TaskId) {
        let average = self.average_vruntime(entities);
        let lag = self.lag(average, &entities[id.0 as usize]);
        entities[id.0 as usize].vlag = lag;
    }

    #[inline]
    fn insert(&mut self, entities: &[Entity], id: TaskId) {
        let Entity { deadline, vruntime, load, .. } = entities[id.0 as usize];
        let weight = load.unscaled() as i64;
        let share = self.key(vruntime).wrapping_mul(weight);
        self.avg_vruntime = self.avg_vruntime.wrapping_add(share);
        self.avg_load += weight;
        // Entities of equal deadline stay in the order of their insertion.
        let place = self.waiting.partition_point(|other| !before(deadline, other.deadline));
        self.waiting.insert(place, Queued { deadline, vruntime, id });
    }

    fn remove(&mut self, entities: &[Entity], id: TaskId) {
        let Entity { vruntime, load, .. } = entities[id.0 as usize];
        let place = self.waiting.iter().position(|queued| queued.id == id);
        self.waiting.remove(place.expect("a queued entity that does not run is waiting"));
        let weight = load.unscaled() as i64;
        let share = self.key(vruntime).wrapping_mul(weight);
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(share);
        self.avg_load -= weight;
    }

    /// Gives an entity that joins the queue its virtual time and deadline (`place_entity()`). Its
    /// lag is inflated, because its own weight will pull the average towards it.
    #[inline]
    fn place(&mut self, entities: &mut [Entity], id: TaskId, why: Enqueue) {
        let average = self.average_vruntime(entities);
        let running_weight = self.running(entities).map_or(0, |running| running.load.unscaled());
        let entity = &mut entities[id.0 as usize];
        if !entity.custom_slice {
            entity.slice_ns = self.tunables.base_slice_ns;
        }
        let mut lag = 0;
        if self.nr_running > 0 {
            let load = self.avg_load + running_weight as i64;
            lag = entity.vlag.wrapping_mul(load + entity.load.unscaled() as i64) / load.max(1);
        }
        entity.vruntime = average.wrapping_sub(lag as u64);
        if entity.rel_deadline {
            entity.deadline = entity.deadline.wrapping_add(entity.vruntime);
            entity.rel_deadline = false;
            return;
        }
        let mut virtual_slice = entity.load.virtual_time(entity.slice_ns);
        if why == Enqueue::Initial {
            virtual_slice /= 2;
        }
        entity.deadline = entity.vruntime.wrapping_add(virtual_slice);
    }

    /// Accounts the current entity's run time up to `now_ns` of the task clock, renews its
    /// deadline when its request is served, and asks for a reschedule when someone else should
    /// run (`update_curr()`). Returns the time accounted, ns.
    #[inline]
    pub fn update_curr(&mut self, entities: &mut [Entity], now_ns: u64) -> u64 {
        let Some(id) = self.curr else { return 0 };
        let curr = &mut entities[id.0 as usize];
        let delta_ns = now_ns.wrapping_sub(curr.exec_start_ns) as i64;
        if delta_ns <= 0 {
            return 0;
        }
        let delta_ns = delta_ns as u64;
        curr.exec_start_ns = now_ns;
        curr.sum_exec_runtime_ns += delta_ns;
        curr.vruntime = curr.vruntime.wrapping_add(curr.load.virtual_time(delta_ns));
        let served = self.update_deadline(entities, id);
        if self.nr_running != 1 {
            let lost_protection =
                !entities[id.0 as usize].protects_slice() && !self.eligible(entities, id);
            if served || lost_protection {
                self.resched = true;
            }
        }
        delta_ns
    }

    /// Starts the next request of an entity that has used its slice (`update_deadline()`).
    fn update_deadline(&mut self, entities: &mut [Entity], id: TaskId) -> bool {
        let entity = &mut entities[id.0 as usize];
        if before(entity.vruntime, entity.deadline) {
            return false;
        }
        if !entity.custom_slice {
            entity.slice_ns = self.tunables.base_slice_ns;
        }
        let virtual_slice = entity.load.virtual_time(entity.slice_ns);
        entity.deadline = entity.vruntime.wrapping_add(virtual_slice);
        self.average_vruntime(entities);
        true
    }

    /// Adds an entity (`enqueue_entity()`), or revives it if it is queued as delayed, which is
    /// what `true` says.
    #[inline]
    pub fn enqueue(
        &mut self,
        entities: &mut [Entity],
        id: TaskId,
        why: Enqueue,
        now_ns: u64,
    ) -> bool {
        if entities[id.0 as usize].on_rq {
            self.requeue_delayed(entities, id);
            return true;
        }
        self.update_curr(entities, now_ns);
        self.place(entities, id, why);
        let entity = &entities[id.0 as usize];
        self.nr_running += 1;
        // A delayed entity that is moved to another CPU arrives there as delayed.
        self.nr_delayed += u32::from(entity.sched_delayed);
        self.nr_idle_policy += u32::from(entity.policy == FairPolicy::Idle);
        self.load_weight += entity.load.weight;
        self.insert(entities, id);
        entities[id.0 as usize].on_rq = true;
        false
    }

    /// A delayed entity is woken before its lag was used up. If it was in fact owed service by
    /// now, it is placed anew without lag (`requeue_delayed_entity()` with DELAY_ZERO).
    fn requeue_delayed(&mut self, entities: &mut [Entity], id: TaskId) {
        self.update_lag(entities, id);
        if entities[id.0 as usize].vlag > 0 {
            self.nr_running -= 1;
            let waits = self.curr != Some(id);
            if waits {
                self.remove(entities, id);
            }
            entities[id.0 as usize].vlag = 0;
            self.place(entities, id, Enqueue::Wakeup);
            if waits {
                self.insert(entities, id);
            }
            self.nr_running += 1;
        }
        self.clear_delayed(entities, id);
    }

    fn clear_delayed(&mut self, entities: &mut [Entity], id: TaskId) {
        entities[id.0 as usize].sched_delayed = false;
        self.nr_delayed -= 1;
    }

    /// Takes an entity off the queue (`dequeue_entity()`). `false` if it sleeps, but stays queued
    /// as delayed because it had more than its share.
    #[inline]
    pub fn dequeue(
        &mut self,
        entities: &mut [Entity],
        id: TaskId,
        why: Dequeue,
        now_ns: u64,
    ) -> bool {
        self.update_curr(entities, now_ns);
        let was_delayed = entities[id.0 as usize].sched_delayed;
        if why == Dequeue::Sleep && !was_delayed && !self.eligible(entities, id) {
            entities[id.0 as usize].sched_delayed = true;
            self.nr_delayed += 1;
            return false;
        }
        self.update_lag(entities, id);
        let entity = &mut entities[id.0 as usize];
        if why == Dequeue::Move {
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
        }
        if self.curr != Some(id) {
            self.remove(entities, id);
        }
        let entity = &mut entities[id.0 as usize];
        entity.on_rq = false;
        self.nr_running -= 1;
        self.nr_idle_policy -= u32::from(entity.policy == FairPolicy::Idle);
        self.load_weight -= entity.load.weight;
        if was_delayed && why != Dequeue::Move {
            entity.vlag = entity.vlag.min(0);
            self.clear_delayed(entities, id);
        } else if was_delayed {
            self.nr_delayed -= 1;
        }
        true
    }

    /// The entity that EEVDF would run next, or `None` on an empty queue (`pick_eevdf()`). Within
    /// its protected slice the current one keeps the CPU while it is eligible.
    #[inline]
    pub fn peek(&self, entities: &[Entity]) -> Option<TaskId> {
        let running = self.curr.filter(|&id| entities[id.0 as usize].on_rq);
        if self.nr_running == 1 {
            return running.or_else(|| self.waiting.first().map(|queued| queued.id));
        }
        let sums = self.eligibility_sums(entities);
        let curr =
            running.filter(|id| self.vruntime_eligible(sums, entities[id.0 as usize].vruntime));
        if let Some(id) = curr
            && entities[id.0 as usize].protects_slice()
        {
            return curr;
        }
        let best = self.waiting.iter().find(|queued| self.vruntime_eligible(sums, queued.vruntime));
        match (best, curr) {
            (Some(best), Some(id)) if before(entities[id.0 as usize].deadline, best.deadline) => {
                curr
            }
            (Some(best), _) => Some(best.id),
            (None, _) => curr,
        }
    }

    /// Picks the next entity and makes it current (`schedule()`). A delayed entity that is picked
    /// has used up its lag: it leaves the queue at last, is reported through `blocked`, and the
    /// pick is repeated.
    pub fn pick(
        &mut self,
        entities: &mut [Entity],
        now_ns: u64,
        mut blocked: impl FnMut(TaskId),
    ) -> Option<TaskId> {
        let next = loop {
            match self.candidate(entities, now_ns) {
                Some(id) if entities[id.0 as usize].sched_delayed => {
                    self.dequeue(entities, id, Dequeue::Sleep, now_ns);
                    blocked(id);
                }
                candidate => break candidate,
            }
        };
        self.switch_to(entities, next, now_ns);
        next
    }

    /// The entity to run next, which may be a delayed one that must be dequeued first
    /// (`pick_task_fair()`).
    pub fn candidate(&mut self, entities: &mut [Entity], now_ns: u64) -> Option<TaskId> {
        if self.nr_running == 0 {
            return None;
        }
        if self.running(entities).is_some() {
            self.update_curr(entities, now_ns);
        }
        self.peek(entities)
    }

    /// Makes `next` current in place of whoever is (`put_prev_set_next_task()`); a current entity
    /// that goes on keeps its protected slice. Clears the reschedule request.
    pub fn switch_to(&mut self, entities: &mut [Entity], next: Option<TaskId>, now_ns: u64) {
        if next != self.curr || next.is_none() {
            self.put_prev(entities, now_ns);
            if let Some(id) = next {
                self.set_next(entities, id, now_ns);
            }
        }
        self.resched = false;
    }

    /// Puts the current entity, if it still wants the CPU, back among the waiting ones
    /// (`put_prev_entity()`).
    pub fn put_prev(&mut self, entities: &mut [Entity], now_ns: u64) {
        let Some(id) = self.curr else { return };
        if entities[id.0 as usize].on_rq {
            self.update_curr(entities, now_ns);
            self.insert(entities, id);
        }
        self.curr = None;
    }

    /// Makes a waiting entity the current one and protects its slice (`set_next_entity()`).
    pub fn set_next(&mut self, entities: &mut [Entity], id: TaskId, now_ns: u64) {
        self.remove(entities, id);
        let entity = &mut entities[id.0 as usize];
        entity.vlag = entity.deadline as i64;
        entity.exec_start_ns = now_ns;
        self.curr = Some(id);
    }

    /// Decides whether a task that was just woken preempts the current one, and asks for a
    /// reschedule if so (`check_preempt_wakeup_fair()`). Without a current entity the CPU idles or
    /// runs another class, which is the caller's business.
    pub fn check_preempt(&mut self, entities: &mut [Entity], woken: TaskId, now_ns: u64) {
        let Some(curr) = self.curr.filter(|&id| id != woken) else { return };
        if self.resched {
            return;
        }
        let curr_is_idle = entities[curr.0 as usize].policy == FairPolicy::Idle;
        let woken_policy = entities[woken.0 as usize].policy;
        if curr_is_idle && woken_policy != FairPolicy::Idle {
            entities[curr.0 as usize].cancel_slice_protection();
            self.resched = true;
            return;
        }
        if woken_policy != FairPolicy::Normal {
            return;
        }
        self.update_curr(entities, now_ns);
        if self.overrides_protection(entities, woken, curr) {
            entities[curr.0 as usize].cancel_slice_protection();
        }
        if self.peek(entities) == Some(woken) {
            self.resched = true;
        }
    }

    /// An eligible entity with a shorter slice ends the current one's protection
    /// (`do_preempt_short()`).
    fn overrides_protection(&self, entities: &[Entity], woken: TaskId, curr: TaskId) -> bool {
        let (short, long) = (&entities[woken.0 as usize], &entities[curr.0 as usize]);
        short.slice_ns < long.slice_ns
            && self.eligible(entities, woken)
            && (before(short.deadline, long.deadline) || !self.eligible(entities, curr))
    }

    /// `sched_yield()`: an eligible current entity gives up the rest of its request
    /// (`yield_task_fair()`). The caller picks afterwards.
    pub fn yield_curr(&mut self, entities: &mut [Entity], now_ns: u64) {
        let Some(id) = self.curr.filter(|_| self.nr_running != 1) else { return };
        self.update_curr(entities, now_ns);
        if self.eligible(entities, id) {
            let entity = &mut entities[id.0 as usize];
            entity.vruntime = entity.deadline;
            self.update_deadline(entities, id);
        }
    }

    /// Changes an entity's weight so that its lag and the rest of its request keep their worth
    /// (`reweight_entity()`).
    pub fn reweight(&mut self, entities: &mut [Entity], id: TaskId, load: LoadWeight, now_ns: u64) {
        let is_curr = self.curr == Some(id);
        let new_weight = load.weight as i64;
        if entities[id.0 as usize].on_rq {
            self.update_curr(entities, now_ns);
            let average = self.average_vruntime(entities);
            if !is_curr {
                self.remove(entities, id);
            }
            let lag = self.lag(average, &entities[id.0 as usize]);
            let entity = &mut entities[id.0 as usize];
            let old_weight = entity.load.weight as i64;
            if average != entity.vruntime {
                let rescaled = lag.wrapping_mul(old_weight) / new_weight;
                entity.vruntime = average.wrapping_sub(rescaled as u64);
            }
            let left = entity.deadline.wrapping_sub(average) as i64;
            let rescaled = left.wrapping_mul(old_weight) / new_weight;
            entity.deadline = average.wrapping_add(rescaled as u64);
            self.load_weight = self.load_weight - entity.load.weight + load.weight;
            entity.load = load;
            if !is_curr {
                self.insert(entities, id);
            }
        } else {
            let entity = &mut entities[id.0 as usize];
            entity.vlag = entity.vlag.wrapping_mul(entity.load.weight as i64) / new_weight;
            entity.load = load;
        }
    }
}

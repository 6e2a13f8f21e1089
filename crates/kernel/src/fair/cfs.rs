//! CFS, the fair pick up to v6.5: the task with the least virtual run time runs, for its share of
//! a period in which everybody runs once.
//!
//! Source: `kernel/sched/fair.c` of Linux 6.1.192 (Debian), and its history for what v5.7 and v5.9
//! did differently. Flat: one queue per CPU, no task groups and no bandwidth control. The features
//! stand at their defaults: START_DEBIT, GENTLE_FAIR_SLEEPERS, LAST_BUDDY and WAKEUP_PREEMPTION
//! on, NEXT_BUDDY off.
//!
//! The kernel keeps the queue in a red-black tree; a CPU queues few tasks, so here the same order
//! stands in a vector.

use super::TaskId;
use super::entity::{Dequeue, Enqueue, Entity, FairPolicy, before};
use super::weight::share_of;
use serde::Deserialize;

/// Constants of the scheduler that do not change while it runs, after scaling by the number of
/// CPUs, and what differs between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// The period in which each task runs once, as long as slices do not get too short
    /// (`sysctl_sched_latency`), ns.
    pub latency_ns: u64,
    /// The shortest slice (`sysctl_sched_min_granularity`), ns.
    pub min_granularity_ns: u64,
    /// How much further a woken task must be behind to preempt (`sysctl_sched_wakeup_granularity`),
    /// ns.
    pub wakeup_granularity_ns: u64,
    /// The shortest slice of a `SCHED_IDLE` task beside others
    /// (`sysctl_sched_idle_min_granularity`; v5.15, 51ce83ed523b), ns. Before, it was that of all.
    pub idle_min_granularity_ns: u64,
    /// No slice is shorter than the minimum, whatever the weights (`BASE_SLICE`; v5.13,
    /// 0c2de3f054a5).
    pub base_slice: bool,
    /// A `SCHED_IDLE` sleeper is credited less than others (v5.16, 2cae3948edd4).
    pub idle_sleeper_credit: bool,
    /// A task that is picked stops being a buddy even if it was running already (up to v5.13).
    pub pick_clears_buddies: bool,
    /// A woken task that preempts is what the pick prefers (v2.6.39, 2f36825b176f). Before, the pick
    /// went by virtual time alone.
    #[serde(default = "yes")]
    pub preemptor_is_next: bool,
    /// `sched_yield()` makes the pick pass over the task (v2.6.39, ac53db596cc0). Before, it only
    /// gave way to those behind it in virtual time.
    #[serde(default = "yes")]
    pub yield_skips: bool,
}

/// What the releases have that leave a setting out.
fn yes() -> bool {
    true
}

impl Tunables {
    /// Tasks that run once each in a period (`sched_nr_latency`).
    fn nr_latency(&self) -> u64 {
        self.latency_ns.div_ceil(self.min_granularity_ns.max(1))
    }
}

/// One waiting entity, with a copy of what orders it.
#[derive(Clone, Copy, Debug)]
struct Queued {
    vruntime: u64,
    id: TaskId,
}

/// The fair run queue of one CPU (`struct cfs_rq`). Its entities live in a table of the caller's,
/// which every call is handed.
///
/// What every queue has comes first and lies as in [`super::eevdf::EevdfQueue`], so that one load
/// reads it, whichever of the two a CPU has.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct CfsQueue {
    /// Sum of the scaled weights of all queued entities (`cfs_rq->load.weight`).
    pub load_weight: u64,
    /// Entities queued, the current one included.
    pub nr_running: u32,
    /// Of these, those of policy `SCHED_IDLE`.
    pub nr_idle_policy: u32,
    /// The running entity, which is kept outside the order.
    pub curr: Option<TaskId>,
    /// The current entity should give way (`TIF_NEED_RESCHED`).
    pub resched: bool,
    /// The least virtual run time, which never goes back.
    pub min_vruntime: u64,
    /// The entity that a wake-up preempted: its cache is warm.
    last: Option<TaskId>,
    /// The entity whose wake-up preempted: it is wanted now.
    next: Option<TaskId>,
    /// The entity that yielded.
    skip: Option<TaskId>,
    waiting: Vec<Queued>,
    tunables: Tunables,
}

impl CfsQueue {
    /// An empty queue whose virtual time starts at `min_vruntime`. Room for `capacity` waiting
    /// entities is set aside; more only cost a reallocation.
    pub fn new(tunables: Tunables, min_vruntime: u64, capacity: usize) -> CfsQueue {
        CfsQueue {
            min_vruntime,
            nr_running: 0,
            nr_idle_policy: 0,
            load_weight: 0,
            curr: None,
            resched: false,
            last: None,
            next: None,
            skip: None,
            waiting: Vec::with_capacity(capacity),
            tunables,
        }
    }

    /// The waiting entities (not the current one) by virtual run time.
    pub fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiting.iter().map(|queued| queued.id)
    }

    /// Whom the pick prefers or passes over (`last`, `next`, `skip`).
    pub fn buddies(&self) -> [Option<TaskId>; 3] {
        [self.last, self.next, self.skip]
    }

    fn insert(&mut self, entities: &[Entity], id: TaskId) {
        let vruntime = entities[id.index()].vruntime;
        // Entities of equal virtual time stay in the order of their insertion.
        let place = self.waiting.partition_point(|other| !before(vruntime, other.vruntime));
        self.waiting.insert(place, Queued { vruntime, id });
    }

    fn remove(&mut self, id: TaskId) {
        let place = self.waiting.iter().position(|queued| queued.id == id);
        self.waiting.remove(place.expect("a queued entity that does not run is waiting"));
    }

    fn running(&self, entities: &[Entity]) -> Option<TaskId> {
        self.curr.filter(|id| entities[id.index()].on_rq)
    }

    fn update_min_vruntime(&mut self, entities: &[Entity]) {
        let running = self.running(entities).map(|id| entities[id.index()].vruntime);
        let first = self.waiting.first().map(|queued| queued.vruntime);
        let least = match (running, first) {
            (Some(running), Some(first)) => {
                Some(if before(first, running) { first } else { running })
            }
            (one, other) => one.or(other),
        };
        if let Some(least) = least
            && before(self.min_vruntime, least)
        {
            self.min_vruntime = least;
        }
    }

    /// Accounts the current entity's run time up to `now_ns` of the task clock (`update_curr()`).
    /// Returns the time accounted, ns.
    pub fn update_curr(&mut self, entities: &mut [Entity], now_ns: u64) -> u64 {
        let Some(id) = self.curr else { return 0 };
        let curr = &mut entities[id.index()];
        let delta_ns = now_ns.wrapping_sub(curr.exec_start_ns);
        if delta_ns as i64 <= 0 {
            return 0;
        }
        curr.exec_start_ns = now_ns;
        curr.sum_exec_runtime_ns += delta_ns;
        curr.vruntime = curr.vruntime.wrapping_add(curr.load.virtual_time(delta_ns));
        self.update_min_vruntime(entities);
        delta_ns
    }

    /// How long an entity may run in a period, ns: its weight's part of it (`sched_slice()`).
    pub fn slice_ns(&self, entity: &Entity) -> u64 {
        let joins = !entity.on_rq;
        let nr_running = u64::from(self.nr_running) + u64::from(joins);
        let period_ns = if nr_running > self.tunables.nr_latency() {
            nr_running * self.tunables.min_granularity_ns
        } else {
            self.tunables.latency_ns
        };
        let total = self.load_weight + if joins { entity.load.weight } else { 0 };
        let slice_ns = share_of(period_ns, entity.load.weight, total);
        if !self.tunables.base_slice {
            return slice_ns;
        }
        let beside_others = self.nr_running == 0 || self.nr_idle_policy != self.nr_running;
        slice_ns.max(if entity.policy == FairPolicy::Idle && beside_others {
            self.tunables.idle_min_granularity_ns
        } else {
            self.tunables.min_granularity_ns
        })
    }

    /// Gives an entity that joins the queue its virtual time (`place_entity()`): a new one waits
    /// for the slot at the end of the period, a sleeper is credited half a period at most.
    fn place(&self, entities: &mut [Entity], id: TaskId, initial: bool) {
        let entity = &entities[id.index()];
        let vruntime = if initial {
            let debit = entity.load.virtual_time(self.slice_ns(entity));
            self.min_vruntime.wrapping_add(debit)
        } else {
            let least = self.tunables.idle_sleeper_credit && entity.policy == FairPolicy::Idle;
            let credit_ns =
                if least { self.tunables.min_granularity_ns } else { self.tunables.latency_ns };
            self.min_vruntime.wrapping_sub(credit_ns >> 1)
        };
        let entity = &mut entities[id.index()];
        if before(entity.vruntime, vruntime) {
            entity.vruntime = vruntime;
        }
    }

    /// A task forks on this queue's CPU: its child is placed here, and taken along to whichever
    /// queue it will wake on (`task_fork_fair()`).
    pub fn fork(&mut self, entities: &mut [Entity], child: TaskId, now_ns: u64) {
        if let Some(parent) = self.curr {
            self.update_curr(entities, now_ns);
            entities[child.index()].vruntime = entities[parent.index()].vruntime;
        }
        self.place(entities, child, true);
        self.normalize(&mut entities[child.index()]);
    }

    /// A task that sleeps will wake on another CPU (`migrate_task_rq_fair()`).
    pub fn leave_asleep(&self, entities: &mut [Entity], id: TaskId) {
        self.normalize(&mut entities[id.index()]);
    }

    fn normalize(&self, entity: &mut Entity) {
        entity.vruntime = entity.vruntime.wrapping_sub(self.min_vruntime);
        entity.rel_vruntime = true;
    }

    /// Adds an entity (`enqueue_entity()`).
    pub fn enqueue(&mut self, entities: &mut [Entity], id: TaskId, why: Enqueue, now_ns: u64) {
        self.update_curr(entities, now_ns);
        let entity = &mut entities[id.index()];
        if entity.rel_vruntime {
            entity.vruntime = entity.vruntime.wrapping_add(self.min_vruntime);
            entity.rel_vruntime = false;
        }
        self.nr_running += 1;
        self.nr_idle_policy += u32::from(entity.policy == FairPolicy::Idle);
        self.load_weight += entity.load.weight;
        if why == Enqueue::Wakeup {
            self.place(entities, id, false);
        }
        self.insert(entities, id);
        entities[id.index()].on_rq = true;
    }

    fn clear_buddies(&mut self, id: TaskId) {
        for buddy in [&mut self.last, &mut self.next, &mut self.skip] {
            if *buddy == Some(id) {
                *buddy = None;
            }
        }
    }

    /// Takes an entity off the queue (`dequeue_entity()`).
    pub fn dequeue(&mut self, entities: &mut [Entity], id: TaskId, why: Dequeue, now_ns: u64) {
        self.update_curr(entities, now_ns);
        self.clear_buddies(id);
        if self.curr != Some(id) {
            self.remove(id);
        }
        let entity = &mut entities[id.index()];
        entity.on_rq = false;
        self.nr_running -= 1;
        self.nr_idle_policy -= u32::from(entity.policy == FairPolicy::Idle);
        self.load_weight -= entity.load.weight;
        if why == Dequeue::Move {
            self.normalize(entity);
        }
        self.update_min_vruntime(entities);
    }

    /// The periodic tick: the current entity's time is accounted, and a reschedule asked for if it
    /// has had its share (`entity_tick()`).
    pub fn tick(&mut self, entities: &mut [Entity], now_ns: u64) {
        self.update_curr(entities, now_ns);
        if self.nr_running > 1
            && let Some(curr) = self.curr
        {
            self.check_preempt_tick(entities, curr);
        }
    }

    fn check_preempt_tick(&mut self, entities: &[Entity], curr: TaskId) {
        let entity = &entities[curr.index()];
        let ideal_ns = self.slice_ns(entity);
        let ran_ns = entity.sum_exec_runtime_ns - entity.prev_sum_exec_runtime_ns;
        if ran_ns > ideal_ns {
            self.resched = true;
            // It should not be picked again as somebody's buddy.
            self.clear_buddies(curr);
            return;
        }
        // A task that missed preemption at its wake-up by a hair does not wait for a full slice.
        if ran_ns < self.tunables.min_granularity_ns {
            return;
        }
        let Some(first) = self.waiting.first() else { return };
        let lead = entity.vruntime.wrapping_sub(first.vruntime) as i64;
        if lead >= 0 && lead as u64 > ideal_ns {
            self.resched = true;
        }
    }

    /// How `entity` stands to `curr`, which runs: not behind it, behind, or so far behind that it
    /// may preempt (`wakeup_preempt_entity()`).
    fn behind(&self, curr: &Entity, entity: &Entity) -> Behind {
        let behind = curr.vruntime.wrapping_sub(entity.vruntime) as i64;
        let granularity = entity.load.virtual_time(self.tunables.wakeup_granularity_ns) as i64;
        if behind <= 0 {
            Behind::Not
        } else if behind > granularity {
            Behind::Far
        } else {
            Behind::Near
        }
    }

    /// Decides whether a task that was just woken preempts the current one, and asks for a
    /// reschedule if so (`check_preempt_wakeup()`).
    pub fn check_preempt(&mut self, entities: &mut [Entity], woken: TaskId, now_ns: u64) {
        let Some(curr) = self.curr.filter(|&id| id != woken) else { return };
        if self.resched {
            return;
        }
        let curr_is_idle = entities[curr.index()].policy == FairPolicy::Idle;
        let woken_policy = entities[woken.index()].policy;
        if !(curr_is_idle && woken_policy != FairPolicy::Idle) {
            if woken_policy != FairPolicy::Normal {
                return;
            }
            self.update_curr(entities, now_ns);
            if self.behind(&entities[curr.index()], &entities[woken.index()]) != Behind::Far {
                return;
            }
            if self.tunables.preemptor_is_next {
                self.next = Some(woken);
            }
        }
        let crowded = u64::from(self.nr_running) >= self.tunables.nr_latency();
        self.resched = true;
        if crowded && entities[curr.index()].on_rq && !curr_is_idle {
            self.last = Some(curr);
        }
    }

    /// The entity that CFS would run next, or `None` on an empty queue (`pick_next_entity()`): the
    /// one with the least virtual time, unless a buddy is nearly as far behind.
    pub fn peek(&self, entities: &[Entity]) -> Option<TaskId> {
        let curr = self.running(entities);
        let vruntime = |id: TaskId| entities[id.index()].vruntime;
        let earlier = |waiting: Option<&Queued>| match (waiting, curr) {
            (Some(waiting), Some(curr)) if before(vruntime(curr), waiting.vruntime) => Some(curr),
            (Some(waiting), _) => Some(waiting.id),
            (None, curr) => curr,
        };
        let left = earlier(self.waiting.first())?;
        let fair = |id: &TaskId| {
            self.behind(&entities[id.index()], &entities[left.index()]) != Behind::Far
        };
        let mut chosen = left;
        if self.skip == Some(left) {
            let second = if curr == Some(left) {
                self.waiting.first().map(|queued| queued.id)
            } else {
                earlier(self.waiting.get(1))
            };
            chosen = second.filter(|id| fair(id)).unwrap_or(left);
        }
        Some(self.next.filter(|id| fair(id)).or(self.last.filter(|id| fair(id))).unwrap_or(chosen))
    }

    /// The entity to run next (`pick_task_fair()`).
    pub fn candidate(&mut self, entities: &mut [Entity], now_ns: u64) -> Option<TaskId> {
        if self.running(entities).is_some() {
            self.update_curr(entities, now_ns);
        }
        let next = self.peek(entities)?;
        if self.tunables.pick_clears_buddies {
            self.clear_buddies(next);
        }
        Some(next)
    }

    /// Makes `next` current in place of whoever is. Clears the reschedule request.
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
        if entities[id.index()].on_rq {
            self.update_curr(entities, now_ns);
            self.insert(entities, id);
        }
        self.curr = None;
    }

    fn set_next(&mut self, entities: &mut [Entity], id: TaskId, now_ns: u64) {
        self.clear_buddies(id);
        self.remove(id);
        let entity = &mut entities[id.index()];
        entity.exec_start_ns = now_ns;
        entity.prev_sum_exec_runtime_ns = entity.sum_exec_runtime_ns;
        self.curr = Some(id);
    }

    /// `sched_yield()`: the next pick passes over the current entity if somebody else is nearly as
    /// far behind (`yield_task_fair()`). The caller picks afterwards.
    pub fn yield_curr(&mut self, entities: &mut [Entity], now_ns: u64) {
        let Some(id) = self.curr.filter(|_| self.nr_running != 1) else { return };
        self.clear_buddies(id);
        if entities[id.index()].policy != FairPolicy::Batch {
            self.update_curr(entities, now_ns);
        }
        if self.tunables.yield_skips {
            self.skip = Some(id);
        }
    }

    /// Changes an entity's weight (`reweight_entity()`).
    pub fn reweight(
        &mut self,
        entities: &mut [Entity],
        id: TaskId,
        load: super::weight::LoadWeight,
        now_ns: u64,
    ) {
        if entities[id.index()].on_rq {
            if self.curr == Some(id) {
                self.update_curr(entities, now_ns);
            }
            let old = entities[id.index()].load.weight;
            self.load_weight = self.load_weight - old + load.weight;
        }
        entities[id.index()].load = load;
    }
}

/// How far an entity is behind the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Not,
    Near,
    Far,
}

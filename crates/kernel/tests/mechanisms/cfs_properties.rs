//! What CFS promises, on any mix of tasks: shares by weight, no starvation, time that never goes
//! back.

use proptest::prelude::*;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::cfs::{CfsQueue, Tunables};
use schedlab_kernel::fair::entity::{Dequeue, Enqueue, Entity, FairPolicy};
use schedlab_kernel::fair::weight::LoadWeight;

/// v6.1 on a machine of eight CPUs or more.
const V6_1: Tunables = Tunables {
    latency_ns: 24_000_000,
    min_granularity_ns: 3_000_000,
    wakeup_granularity_ns: 4_000_000,
    idle_min_granularity_ns: 750_000,
    base_slice: true,
    idle_sleeper_credit: true,
    pick_clears_buddies: false,
    preemptor_is_next: true,
    yield_skips: true,
};

const TICK_NS: u64 = 4_000_000;

struct Cpu {
    queue: CfsQueue,
    entities: Vec<Entity>,
    now_ns: u64,
}

impl Cpu {
    fn new(tunables: Tunables, nices: &[i32]) -> Cpu {
        let entity = |&nice: &i32| Entity::new(LoadWeight::of_nice(nice), FairPolicy::Normal, None);
        let queue = CfsQueue::new(tunables, 0u64.wrapping_sub(1 << 20), 16);
        Cpu { queue, entities: nices.iter().map(entity).collect(), now_ns: 1_000_000_000 }
    }

    fn fork_all(&mut self) {
        for id in (0..self.entities.len() as u32).map(TaskId) {
            self.queue.fork(&mut self.entities, id, self.now_ns);
            self.queue.enqueue(&mut self.entities, id, Enqueue::Initial, self.now_ns);
        }
        self.schedule();
    }

    fn schedule(&mut self) -> Option<TaskId> {
        let next = self.queue.candidate(&mut self.entities, self.now_ns);
        self.queue.switch_to(&mut self.entities, next, self.now_ns);
        next
    }

    fn tick(&mut self) {
        self.now_ns += TICK_NS;
        self.queue.tick(&mut self.entities, self.now_ns);
        if self.queue.resched {
            self.schedule();
        }
    }
}

proptest! {
    /// Tasks that always want the CPU get it by weight: within a period's worth of rounding to
    /// whole ticks, none is ahead of another in virtual time for long.
    #[test]
    fn hogs_share_by_weight(
        nices in prop::collection::vec(-10_i32..10, 2..8),
        base_slice in any::<bool>(),
        pick_clears_buddies in any::<bool>(),
    ) {
        let tunables = Tunables { base_slice, pick_clears_buddies, ..V6_1 };
        let mut cpu = Cpu::new(tunables, &nices);
        cpu.fork_all();
        let ticks = 5_000;
        for _ in 0..ticks {
            cpu.tick();
        }
        let total: u64 = cpu.entities.iter().map(|entity| entity.load.weight).sum();
        for entity in &cpu.entities {
            let fair = (ticks * TICK_NS) as f64 * entity.load.weight as f64 / total as f64;
            let got = entity.sum_exec_runtime_ns as f64;
            // A slice that is longer than a share makes a light task run seldom, not more.
            let bound = 0.02 * fair + 15.0 * TICK_NS as f64;
            prop_assert!((got - fair).abs() < bound, "{got} for {fair} among {nices:?}");
        }
    }

    /// Whoever waits runs before long, whoever else wakes meanwhile.
    #[test]
    fn nobody_starves(
        sleeps in prop::collection::vec((1_u64..20_000_000, 0_u32..6), 200),
    ) {
        let mut cpu = Cpu::new(V6_1, &[0; 7]);
        cpu.fork_all();
        let mut last_ran_ns = cpu.now_ns;
        let hog = TaskId(6);
        for (run_ns, sleeper) in sleeps {
            cpu.now_ns += run_ns;
            let sleeper = TaskId(sleeper);
            cpu.queue.update_curr(&mut cpu.entities, cpu.now_ns);
            if cpu.queue.curr == Some(sleeper) {
                cpu.queue.dequeue(&mut cpu.entities, sleeper, Dequeue::Sleep, cpu.now_ns);
                cpu.schedule();
            } else if !cpu.entities[sleeper.index()].on_rq {
                cpu.queue.enqueue(&mut cpu.entities, sleeper, Enqueue::Wakeup, cpu.now_ns);
                cpu.queue.check_preempt(&mut cpu.entities, sleeper, cpu.now_ns);
            }
            cpu.tick();
            if cpu.queue.curr == Some(hog) {
                last_ran_ns = cpu.now_ns;
            }
            let waited_ns = cpu.now_ns - last_ran_ns;
            prop_assert!(waited_ns < 8 * (V6_1.latency_ns + 24_000_000), "{waited_ns}");
        }
    }

    /// The queue's virtual time never goes back, and no sleeper comes back further behind it than
    /// half a period.
    #[test]
    fn virtual_time_goes_forwards(
        steps in prop::collection::vec((0_u8..5, 0_u32..5, 0_u64..30_000_000), 1..300),
        nices in prop::array::uniform5(-20_i32..20),
    ) {
        let mut cpu = Cpu::new(V6_1, &nices);
        cpu.fork_all();
        let mut before = cpu.queue.min_vruntime;
        for (step, id, passed_ns) in steps {
            cpu.now_ns += passed_ns;
            let id = TaskId(id);
            let on_rq = cpu.entities[id.index()].on_rq;
            match step {
                0 if !on_rq && cpu.queue.curr != Some(id) => {
                    cpu.queue.enqueue(&mut cpu.entities, id, Enqueue::Wakeup, cpu.now_ns);
                    let lead = cpu.entities[id.index()].vruntime.wrapping_sub(cpu.queue.min_vruntime);
                    prop_assert!(lead as i64 >= -(V6_1.latency_ns as i64 / 2));
                    cpu.queue.check_preempt(&mut cpu.entities, id, cpu.now_ns);
                }
                1 if cpu.queue.curr.is_some() => {
                    let curr = cpu.queue.curr.expect("just seen");
                    cpu.queue.dequeue(&mut cpu.entities, curr, Dequeue::Sleep, cpu.now_ns);
                    cpu.schedule();
                }
                2 => {
                    cpu.queue.yield_curr(&mut cpu.entities, cpu.now_ns);
                    cpu.schedule();
                }
                3 => cpu.tick(),
                _ => {
                    cpu.schedule();
                }
            }
            let now = cpu.queue.min_vruntime;
            prop_assert!(now.wrapping_sub(before) as i64 >= 0);
            before = now;
            let queued = cpu.entities.iter().filter(|entity| entity.on_rq);
            let (count, weight) =
                queued.fold((0, 0), |(count, sum), entity| (count + 1, sum + entity.load.weight));
            prop_assert_eq!(cpu.queue.nr_running, count);
            prop_assert_eq!(cpu.queue.load_weight, weight);
        }
    }
}

/// A task that yields passes the CPU to one that is nearly as far behind.
#[test]
fn a_yield_passes_the_cpu_to_an_equal() {
    let mut cpu = Cpu::new(V6_1, &[0, 0]);
    cpu.entities[1].vruntime = 1_000_000;
    for id in [TaskId(0), TaskId(1)] {
        cpu.queue.enqueue(&mut cpu.entities, id, Enqueue::Wakeup, cpu.now_ns);
    }
    assert_eq!(cpu.schedule(), Some(TaskId(0)));
    assert_eq!(cpu.schedule(), Some(TaskId(0)), "it is furthest behind");
    cpu.queue.yield_curr(&mut cpu.entities, cpu.now_ns);
    assert_eq!(cpu.schedule(), Some(TaskId(1)));
}

/// `check_preempt_wakeup()`: a sleeper's credit is half a period, the granularity 4 ms, so it
/// preempts; a task that slept for no time does not.
#[test]
fn a_sleeper_preempts_and_a_busy_task_does_not() {
    let mut cpu = Cpu::new(V6_1, &[0, 0]);
    cpu.fork_all();
    cpu.now_ns += 30_000_000;
    cpu.queue.update_curr(&mut cpu.entities, cpu.now_ns);
    let sleeper = cpu.queue.curr.expect("someone runs");
    cpu.queue.dequeue(&mut cpu.entities, sleeper, Dequeue::Sleep, cpu.now_ns);
    cpu.schedule();
    cpu.queue.enqueue(&mut cpu.entities, sleeper, Enqueue::Wakeup, cpu.now_ns);
    cpu.queue.check_preempt(&mut cpu.entities, sleeper, cpu.now_ns);
    assert!(!cpu.queue.resched, "it has run for 30 ms and slept for none");
    let hog = cpu.queue.curr.expect("someone runs");
    cpu.queue.dequeue(&mut cpu.entities, sleeper, Dequeue::Sleep, cpu.now_ns);
    cpu.now_ns += 100_000_000;
    cpu.queue.enqueue(&mut cpu.entities, sleeper, Enqueue::Wakeup, cpu.now_ns);
    cpu.queue.check_preempt(&mut cpu.entities, sleeper, cpu.now_ns);
    assert!(cpu.queue.resched);
    assert_ne!(cpu.schedule(), Some(hog));
}

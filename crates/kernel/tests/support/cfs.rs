//! Drives [`CfsQueue`] by the commands of the `cfs` vectors.

use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::cfs::{CfsQueue, Tunables};
use schedlab_kernel::fair::entity::{Dequeue, Enqueue, Entity, FairPolicy};
use schedlab_kernel::fair::weight::LoadWeight;

const TASKS: usize = 64;

/// One CPU with its fair queue, as the recorder had it.
pub struct Driver {
    queue: CfsQueue,
    entities: Vec<Entity>,
    created: [bool; TASKS],
    /// Between its dequeue for migration and its arrival.
    away: [bool; TASKS],
    clock_ns: u64,
}

fn load(policy: FairPolicy, nice: i32) -> LoadWeight {
    match policy {
        FairPolicy::Idle => LoadWeight::of_idle_policy(),
        _ => LoadWeight::of_nice(nice),
    }
}

impl Driver {
    /// Before the first `N` command.
    pub fn new() -> Driver {
        let tunables = Tunables {
            latency_ns: 0,
            min_granularity_ns: 0,
            wakeup_granularity_ns: 0,
            idle_min_granularity_ns: 0,
            base_slice: true,
            idle_sleeper_credit: true,
            pick_clears_buddies: false,
            preemptor_is_next: true,
            yield_skips: true,
        };
        Driver::with(tunables, 0, 0)
    }

    fn with(tunables: Tunables, min_vruntime: u64, clock_ns: u64) -> Driver {
        let blank = Entity::new(LoadWeight::of_nice(0), FairPolicy::Normal, None);
        Driver {
            queue: CfsQueue::new(tunables, min_vruntime, TASKS),
            entities: vec![blank; TASKS],
            created: [false; TASKS],
            away: [false; TASKS],
            clock_ns,
        }
    }

    /// Carries out one command; the line that it prints, if it prints one.
    pub fn command(&mut self, line: &str) -> Option<String> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let numbers: Vec<i128> = words.map(|word| word.parse().expect("a number")).collect();
        let at = |place: usize| numbers[place] as u64;
        match name {
            "N" => {
                let tunables = Tunables {
                    latency_ns: at(0),
                    min_granularity_ns: at(1),
                    wakeup_granularity_ns: at(2),
                    idle_min_granularity_ns: at(3),
                    base_slice: true,
                    idle_sleeper_credit: true,
                    pick_clears_buddies: false,
                    preemptor_is_next: true,
                    yield_skips: true,
                };
                *self = Driver::with(tunables, at(5), at(4));
                return None;
            }
            "T" => {
                self.create(&numbers);
                return None;
            }
            "t" => {
                self.clock_ns += at(0);
                return None;
            }
            _ => {}
        }
        let id = TaskId(numbers.first().map_or(0, |&number| number as u32));
        let (result, subject) = match name {
            "n" => (self.fork(id), Some(id)),
            "w" => (self.wake(id, false), Some(id)),
            "W" => (self.wake(id, true), Some(id)),
            "k" => {
                self.queue.tick(&mut self.entities, self.clock_ns);
                (0, self.queue.curr)
            }
            "p" => {
                self.schedule();
                (0, self.queue.curr)
            }
            "b" => self.block(),
            "m" => (self.leave(id), Some(id)),
            "a" => (self.arrive(id), Some(id)),
            "y" => self.do_yield(),
            "r" => (self.renice(id, numbers[1] as i32), Some(id)),
            _ => panic!("unknown command {line}"),
        };
        Some(self.state(result, subject))
    }

    fn create(&mut self, numbers: &[i128]) {
        let id = numbers[0] as usize;
        let policy = match numbers[2] {
            3 => FairPolicy::Batch,
            5 => FairPolicy::Idle,
            _ => FairPolicy::Normal,
        };
        self.entities[id] = Entity::new(load(policy, numbers[1] as i32), policy, None);
        self.created[id] = true;
    }

    fn absent(&self, id: TaskId) -> bool {
        self.created[id.index()]
            && !self.entities[id.index()].on_rq
            && !self.away[id.index()]
            && self.queue.curr != Some(id)
    }

    fn preempt(&mut self, id: TaskId) {
        match self.queue.curr {
            Some(_) => self.queue.check_preempt(&mut self.entities, id, self.clock_ns),
            None => self.queue.resched = true,
        }
    }

    fn fork(&mut self, id: TaskId) -> i64 {
        if !self.absent(id) {
            return -1;
        }
        self.queue.fork(&mut self.entities, id, self.clock_ns);
        self.queue.enqueue(&mut self.entities, id, Enqueue::Initial, self.clock_ns);
        self.preempt(id);
        1
    }

    fn wake(&mut self, id: TaskId, migrated: bool) -> i64 {
        if !self.absent(id) {
            return -1;
        }
        if migrated {
            self.queue.leave_asleep(&mut self.entities, id);
        }
        self.queue.enqueue(&mut self.entities, id, Enqueue::Wakeup, self.clock_ns);
        self.preempt(id);
        1
    }

    fn schedule(&mut self) {
        let next = self.queue.candidate(&mut self.entities, self.clock_ns);
        self.queue.switch_to(&mut self.entities, next, self.clock_ns);
    }

    fn block(&mut self) -> (i64, Option<TaskId>) {
        let Some(id) = self.queue.curr else { return (0, None) };
        self.queue.dequeue(&mut self.entities, id, Dequeue::Sleep, self.clock_ns);
        self.schedule();
        (1, Some(id))
    }

    fn leave(&mut self, id: TaskId) -> i64 {
        if !self.entities[id.index()].on_rq || self.queue.curr == Some(id) {
            return -1;
        }
        self.queue.dequeue(&mut self.entities, id, Dequeue::Move, self.clock_ns);
        self.away[id.index()] = true;
        1
    }

    fn arrive(&mut self, id: TaskId) -> i64 {
        if !std::mem::take(&mut self.away[id.index()]) {
            return -1;
        }
        self.queue.enqueue(&mut self.entities, id, Enqueue::Move, self.clock_ns);
        self.preempt(id);
        1
    }

    fn do_yield(&mut self) -> (i64, Option<TaskId>) {
        let Some(id) = self.queue.curr else { return (-1, None) };
        self.queue.yield_curr(&mut self.entities, self.clock_ns);
        self.schedule();
        (0, Some(id))
    }

    fn renice(&mut self, id: TaskId, nice: i32) -> i64 {
        if !self.created[id.index()] {
            return -2;
        }
        let load = load(self.entities[id.index()].policy, nice);
        self.queue.reweight(&mut self.entities, id, load, self.clock_ns);
        0
    }

    /// `r cur nr_running resched min_vruntime load last next skip | id on_rq vruntime ...`
    fn state(&self, result: i64, subject: Option<TaskId>) -> String {
        let queue = &self.queue;
        let name = |id: Option<TaskId>| id.map_or(-1, |id| i64::from(id.0));
        let subject = subject.map_or("-".to_owned(), |id| {
            let entity = &self.entities[id.index()];
            format!(
                "{} {} {} {} {}",
                id.0,
                u8::from(entity.on_rq),
                entity.vruntime,
                entity.sum_exec_runtime_ns,
                entity.prev_sum_exec_runtime_ns
            )
        });
        let [last, next, skip] = queue.buddies().map(name);
        format!(
            "{result} {} {} {} {} {} {last} {next} {skip} | {subject}",
            name(queue.curr),
            queue.nr_running,
            u8::from(queue.resched),
            queue.min_vruntime,
            queue.load_weight
        )
    }
}

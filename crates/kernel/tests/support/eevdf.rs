//! Drives [`EevdfQueue`] by the commands of the `eevdf` vectors.

use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::eevdf::{Dequeue, EevdfQueue, Enqueue, Entity, FairPolicy, Tunables};
use schedlab_kernel::fair::weight::LoadWeight;

const TASKS: usize = 64;

/// One CPU with its fair queue, as the recorder had it.
pub struct Driver {
    queue: EevdfQueue,
    entities: Vec<Entity>,
    created: [bool; TASKS],
    clock_ns: u64,
    base_slice_ns: u64,
}

fn blank() -> Entity {
    Entity::new(LoadWeight::of_nice(0), FairPolicy::Normal, None)
}

impl Driver {
    /// Before the first `N` command.
    pub fn new() -> Driver {
        let tunables = Tunables { base_slice_ns: 0, tick_ns: 0 };
        Driver {
            queue: EevdfQueue::new(tunables, 0, TASKS),
            entities: vec![blank(); TASKS],
            created: [false; TASKS],
            clock_ns: 0,
            base_slice_ns: 0,
        }
    }

    /// Carries out one command; the line that it prints, if it prints one.
    pub fn command(&mut self, line: &str) -> Option<String> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let numbers: Vec<i128> = words.map(|word| word.parse().expect("a number")).collect();
        match name {
            "N" => {
                let tunables =
                    Tunables { base_slice_ns: numbers[0] as u64, tick_ns: numbers[1] as u64 };
                *self = Driver {
                    queue: EevdfQueue::new(tunables, numbers[3] as u64, TASKS),
                    clock_ns: numbers[2] as u64,
                    base_slice_ns: numbers[0] as u64,
                    ..Driver::new()
                };
                return None;
            }
            "T" => {
                self.create(&numbers);
                return None;
            }
            "t" => {
                self.clock_ns += numbers[0] as u64;
                return None;
            }
            _ => {}
        }
        let argument = TaskId(numbers.first().map_or(0, |&number| number as u32));
        let known = self.created.get(argument.0 as usize).copied().unwrap_or(false);
        let (result, subject) = match name {
            "n" => (self.fork(argument, known), Some(argument)),
            "w" => (self.wake(argument, known), Some(argument)),
            "k" => {
                self.queue.update_curr(&mut self.entities, self.clock_ns);
                (0, self.queue.curr)
            }
            "p" => {
                self.schedule();
                (0, self.queue.curr)
            }
            "b" => {
                let subject = self.queue.curr;
                (self.block(numbers[0] != 0), subject)
            }
            "m" => (self.migrate(argument, known), Some(argument)),
            "y" => {
                let subject = self.queue.curr;
                (self.do_yield(), subject)
            }
            "r" => (self.renice(argument, known, numbers[1] as i32), Some(argument)),
            "q" => {
                let peeked = self.queue.peek(&self.entities);
                (peeked.map_or(-1, |id| i64::from(id.0)), None)
            }
            _ => panic!("unknown command {line}"),
        };
        Some(self.state(result, subject))
    }

    fn create(&mut self, numbers: &[i128]) {
        let id = numbers[0] as usize;
        if self.entities[id].on_rq {
            return;
        }
        let policy = match numbers[2] {
            3 => FairPolicy::Batch,
            5 => FairPolicy::Idle,
            _ => FairPolicy::Normal,
        };
        let load = match policy {
            FairPolicy::Idle => LoadWeight::of_idle_policy(),
            _ => LoadWeight::of_nice(numbers[1] as i32),
        };
        let slice_ns = (numbers[3] != 0).then_some(numbers[3] as u64);
        self.entities[id] = Entity::new(load, policy, slice_ns);
        if slice_ns.is_none() {
            self.entities[id].slice_ns = self.base_slice_ns;
        }
        self.created[id] = true;
    }

    fn preempt(&mut self, id: TaskId) {
        match self.queue.curr {
            Some(_) => self.queue.check_preempt(&mut self.entities, id, self.clock_ns),
            None => self.queue.resched = true,
        }
    }

    fn fork(&mut self, id: TaskId, known: bool) -> i64 {
        if !known {
            return -2;
        }
        if self.entities[id.0 as usize].on_rq {
            return -1;
        }
        self.entities[id.0 as usize].vlag = 0;
        self.queue.enqueue(&mut self.entities, id, Enqueue::Initial, self.clock_ns);
        self.preempt(id);
        1
    }

    fn wake(&mut self, id: TaskId, known: bool) -> i64 {
        if !known {
            return -2;
        }
        let entity = &self.entities[id.0 as usize];
        if entity.on_rq && !entity.sched_delayed {
            return -1;
        }
        let revived = self.queue.enqueue(&mut self.entities, id, Enqueue::Wakeup, self.clock_ns);
        self.preempt(id);
        if revived { 2 } else { 1 }
    }

    fn schedule(&mut self) {
        self.queue.pick(&mut self.entities, self.clock_ns, |_| {});
    }

    fn block(&mut self, special: bool) -> i64 {
        let Some(id) = self.queue.curr else { return 0 };
        let why = if special { Dequeue::SleepSpecial } else { Dequeue::Sleep };
        let gone = self.queue.dequeue(&mut self.entities, id, why, self.clock_ns);
        self.schedule();
        if gone { 1 } else { -1 }
    }

    fn migrate(&mut self, id: TaskId, known: bool) -> i64 {
        let entity = &self.entities[id.0 as usize];
        if !known || !entity.on_rq || entity.sched_delayed || self.queue.curr == Some(id) {
            return -1;
        }
        self.queue.dequeue(&mut self.entities, id, Dequeue::Move, self.clock_ns);
        1
    }

    fn do_yield(&mut self) -> i64 {
        if self.queue.curr.is_none() {
            return -1;
        }
        self.queue.yield_curr(&mut self.entities, self.clock_ns);
        self.schedule();
        0
    }

    fn renice(&mut self, id: TaskId, known: bool, nice: i32) -> i64 {
        if !known {
            return -2;
        }
        let load = match self.entities[id.0 as usize].policy {
            FairPolicy::Idle => LoadWeight::of_idle_policy(),
            _ => LoadWeight::of_nice(nice),
        };
        self.queue.reweight(&mut self.entities, id, load, self.clock_ns);
        0
    }

    /// `r cur nr_running resched zero_vruntime avg_vruntime avg_load | id on_rq ...`
    fn state(&self, result: i64, subject: Option<TaskId>) -> String {
        let queue = &self.queue;
        let current = queue.curr.map_or(-1, |id| i64::from(id.0));
        let subject = subject.map_or("-".to_owned(), |id| {
            let entity = &self.entities[id.0 as usize];
            format!(
                "{} {} {} {} {} {} {}",
                id.0,
                u8::from(entity.on_rq),
                u8::from(entity.sched_delayed),
                entity.vruntime,
                entity.deadline,
                entity.vlag,
                entity.slice_ns
            )
        });
        format!(
            "{result} {current} {} {} {} {} {} | {subject}",
            queue.nr_running,
            u8::from(queue.resched),
            queue.zero_vruntime,
            queue.avg_vruntime,
            queue.avg_load
        )
    }
}

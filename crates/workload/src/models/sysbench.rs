//! sysbench 1.0.20: `cpu`, `threads` and `mutex`. Main creates the threads, which meet at a
//! barrier and then carry out events until the time is up.
//!
//! `memory` is refused: 32 threads store 390 million times a second into one shared block, which
//! is more than events can carry.

use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{Access, Better, MetricKind, ObjectKind, Op, Slot, Which, Workload};

/// Which test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// Prime numbers by trial division; nothing is shared.
    #[default]
    Cpu,
    /// Threads take one of a few mutexes and yield while they have it.
    Threads,
    /// Threads take mutexes for a moment after a busy loop.
    Mutex,
    /// Known, and refused.
    Memory,
}

/// Options, by the tool's names; those of other tests than the chosen one are unused, as in the
/// tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Which test.
    pub test: Test,
    /// `--threads`.
    pub threads: u32,
    /// `--time`, s; the mutex test ends with its work instead.
    pub time: u64,
    /// `--cpu-max-prime`.
    pub cpu_max_prime: u64,
    /// `--thread-yields`: rounds of lock, yield and unlock per event.
    pub thread_yields: u64,
    /// `--thread-locks`.
    pub thread_locks: u32,
    /// `--mutex-num`.
    pub mutex_num: u32,
    /// `--mutex-locks`: locks taken per thread.
    pub mutex_locks: u64,
    /// `--mutex-loops`: empty iterations before each.
    pub mutex_loops: u64,
    /// Time of a cpu event with the default `cpu_max_prime` on the biggest CPU, ns. The default
    /// is that of a Kunpeng 920 at 2.6 GHz: 107655 events/s by 32 threads, in the report that
    /// `idlest-group-util` studies.
    pub cpu_event_ns: u64,
    /// Time of an empty iteration of the mutex test, ps. The default is one cycle at 2.6 GHz.
    pub mutex_loop_ps: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            test: Test::Cpu,
            threads: 1,
            time: 10,
            cpu_max_prime: DEFAULT_MAX_PRIME,
            thread_yields: 1000,
            thread_locks: 8,
            mutex_num: 4096,
            mutex_locks: 50_000,
            mutex_loops: 10_000,
            cpu_event_ns: 297_000,
            mutex_loop_ps: 385,
        }
    }
}

const DEFAULT_MAX_PRIME: u64 = 10_000;

/// The divisions of one cpu event: each number from 3 to `max_prime` is divided by 2, 3, ... up to
/// its square root, or until one divides it.
fn divisions(max_prime: u64) -> u64 {
    (3..=max_prime)
        .map(|number| {
            let root = number.isqrt();
            let divisor = (2..=root).find(|divisor| number % divisor == 0);
            divisor.unwrap_or(root).saturating_sub(1)
        })
        .sum()
}

impl Options {
    fn check(&self, name: &str) -> Result<(), WorkloadError> {
        tasks_in_range(name, "threads", u64::from(self.threads))?;
        in_range(name, "cpu_max_prime", self.cpu_max_prime, (3, 10_000_000))?;
        in_range(name, "thread_yields", self.thread_yields, (1, 1_000_000_000))?;
        in_range(name, "thread_locks", u64::from(self.thread_locks), (1, 1_000_000))?;
        in_range(name, "mutex_num", u64::from(self.mutex_num), (1, 1_000_000))?;
        in_range(name, "mutex_locks", self.mutex_locks, (1, 1_000_000_000))?;
        in_range(name, "mutex_loops", self.mutex_loops, (0, 1_000_000_000))?;
        in_range(name, "cpu_event_ns", self.cpu_event_ns, (1, 1_000_000_000_000))?;
        in_range(name, "mutex_loop_ps", self.mutex_loop_ps, (1, 1_000_000))
    }
}

impl Model for Options {
    fn workload(&self, name: &str, _: u32) -> Result<Workload, WorkloadError> {
        self.check(name)?;
        let time_ns = seconds_ns(name, "time", self.time)?;
        let mut build = Builder::new(name);
        let gate = Which::One(build.object(ObjectKind::Barrier(self.threads + 1)));
        let event = match self.test {
            Test::Cpu => self.cpu(),
            Test::Threads => self.threads(&mut build),
            Test::Mutex => self.mutex(&mut build),
            Test::Memory => {
                let what = "test memory stores more often than events can carry and is not \
                            modelled; choose cpu, threads or mutex";
                return Err(WorkloadError::whole(name, what));
            }
        };
        let events = build.metric("events per second", "1/s", Better::Higher, MetricKind::Rate);
        let p95 = MetricKind::Percentile(95.0);
        let latency = build.metric("latency 95th percentile", "us", Better::Lower, p95);
        build.figure_of(latency, "latency avg", "ms", MetricKind::MeanMs);
        build.figure_of(events, "total number of events", "1", MetricKind::Total);
        let total = build.metric("total time", "s", Better::Lower, MetricKind::MeanS);
        let one_event = self.test == Test::Mutex;
        let thread = build.program("sysbench", |code| {
            let began = code.slot();
            let picked = code.slot();
            let body = |code: &mut Code| {
                code.op(Op::Mark(began));
                event(code, picked);
                code.op(Op::Measure { metric: latency, since: began });
                code.op(Op::Count { metric: events, amount: 1 });
            };
            code.op(Op::Barrier(gate));
            if one_event { body(code) } else { code.forever(body) }
        });
        let main = build.program("sysbench", |code| {
            let start = code.slot();
            code.op(Op::Fork { program: thread, count: self.threads, thread: true });
            code.op(Op::Barrier(gate)).op(Op::Mark(start));
            if one_event {
                code.op(Op::Join).op(Op::Measure { metric: total, since: start });
            } else {
                code.sleep(time_ns);
                code.op(Op::Measure { metric: total, since: start }).op(Op::ExitGroup);
            }
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

/// Writes one event, with a slot for a picked object.
type Event = Box<dyn Fn(&mut Code, Slot)>;

impl Options {
    fn cpu(&self) -> Event {
        let scale = u128::from(divisions(self.cpu_max_prime));
        let work_ns =
            u128::from(self.cpu_event_ns) * scale / u128::from(divisions(DEFAULT_MAX_PRIME));
        let work_ns = work_ns.clamp(1, 1_000_000_000_000_000) as u64;
        Box::new(move |code, _| {
            code.run(work_ns);
        })
    }

    fn threads(&self, build: &mut Builder) -> Event {
        let first = build.objects(ObjectKind::Mutex, self.thread_locks);
        let counter = build.object(ObjectKind::Counter);
        let (count, yields) = (self.thread_locks, self.thread_yields);
        Box::new(move |code, lock| {
            // An event takes its lock's number from a counter of all threads and keeps to it.
            let line = Which::One(counter);
            code.op(Op::Touch { line, access: Access::Atomic, count: 1 });
            code.op(Op::Pick { slot: lock, which: Which::Next { first, count, counter } });
            code.repeat(yields, |round| {
                round
                    .op(Op::Lock(Which::Picked(lock)))
                    .op(Op::Yield)
                    .op(Op::Unlock(Which::Picked(lock)));
            });
        })
    }

    fn mutex(&self, build: &mut Builder) -> Event {
        let first = build.objects(ObjectKind::Mutex, self.mutex_num);
        let line = Which::One(build.object(ObjectKind::Line));
        let (count, locks) = (self.mutex_num, self.mutex_locks);
        let work_ns = self.mutex_loops * self.mutex_loop_ps / 1000;
        Box::new(move |code, lock| {
            code.repeat(locks, |round| {
                round
                    .op(Op::Pick { slot: lock, which: Which::Random { first, count } })
                    .run(work_ns)
                    .op(Op::Lock(Which::Picked(lock)))
                    .op(Op::Touch { line, access: Access::Write, count: 1 })
                    .op(Op::Unlock(Which::Picked(lock)));
            });
        })
    }
}

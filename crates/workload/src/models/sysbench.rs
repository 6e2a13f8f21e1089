//! sysbench 1.0.20: `cpu`, `memory`, `threads` and `mutex`. Main creates the threads, which meet at
//! a barrier and then carry out events until the time is up.
//!
//! `memory` stores hundreds of millions of words a second, which is more than events can carry: its
//! threads go through their block at a rate that the machine's cache lines or memory allow
//! ([`Op::Stream`]). Its latencies, which would need events, are left out.

use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{
    Access, Better, Block, MetricKind, ObjectKind, Op, Pattern, Slot, WORD_BYTES, Which, Workload,
};

/// Which test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// Prime numbers by trial division; nothing is shared.
    #[default]
    Cpu,
    /// Threads take one of a few mutexes and yield while they have it.
    Threads,
    /// Threads take mutexes for a moment after a busy loop.
    Mutex,
    /// Threads go through a block of memory.
    Memory,
}

/// Whose the block of the memory test is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One for all threads.
    #[default]
    Global,
    /// One for each.
    Local,
}

/// What the memory test does with words. The tool's third choice, `none`, touches no memory and is
/// not modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Oper {
    /// Stores them.
    #[default]
    Write,
    /// Loads them.
    Read,
}

/// In which order the memory test goes through a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// From one end to the other.
    #[default]
    Seq,
    /// At random.
    Rnd,
}

/// How random numbers are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RandType {
    /// Three in four from the middle percent: the default of 1.0.20.
    #[default]
    Special,
    /// Evenly: the default of later development versions.
    Uniform,
}

/// Options, by the tool's names; those of other tests than the chosen one are unused, as in the
/// tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
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
    /// `--memory-block-size`, bytes.
    pub memory_block_size: u64,
    /// `--memory-total-size`, bytes; each thread does its part of it.
    pub memory_total_size: u64,
    /// `--memory-scope`.
    pub memory_scope: Scope,
    /// `--memory-oper`.
    pub memory_oper: Oper,
    /// `--memory-access-mode`.
    pub memory_access_mode: AccessMode,
    /// `--rand-type`, of the memory test with random access.
    pub rand_type: RandType,
    /// Time of one access of the memory test on the biggest CPU to a word that it has in its cache,
    /// ps. The default is one cycle at 2.6 GHz (385); with random access 6000, an estimate of one
    /// draw in three of four cases and of thirteen in the others.
    pub memory_access_ps: Option<u64>,
    /// Time of an event of the memory test beside its accesses, ns: two readings of the clock and
    /// the accounting. An estimate.
    pub memory_event_ns: u64,
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
            memory_block_size: 1 << 10,
            memory_total_size: 100 << 30,
            memory_scope: Scope::Global,
            memory_oper: Oper::Write,
            memory_access_mode: AccessMode::Seq,
            rand_type: RandType::Special,
            memory_access_ps: None,
            memory_event_ns: 100,
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
        in_range(name, "memory_block_size", self.memory_block_size, (WORD_BYTES, 1 << 40))?;
        in_range(name, "memory_total_size", self.memory_total_size, (1, 1 << 60))?;
        in_range(name, "memory_access_ps", self.memory_access_ps(), (1, 1_000_000))?;
        in_range(name, "memory_event_ns", self.memory_event_ns, (0, 1_000_000))?;
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
            Test::Memory => return self.memory(build, gate, time_ns),
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

    fn memory_access_ps(&self) -> u64 {
        self.memory_access_ps.unwrap_or(match self.memory_access_mode {
            AccessMode::Seq => 385,
            AccessMode::Rnd => 6_000,
        })
    }

    fn block(&self) -> Block {
        let words = self.memory_block_size / WORD_BYTES;
        Block {
            bytes: self.memory_block_size,
            private: self.memory_scope == Scope::Local,
            writes: self.memory_oper == Oper::Write,
            pattern: match (self.memory_access_mode, self.rand_type) {
                (AccessMode::Seq, _) => Pattern::Sequential,
                (AccessMode::Rnd, RandType::Special) => Pattern::Special,
                (AccessMode::Rnd, RandType::Uniform) => Pattern::Uniform,
            },
            pass_ps: words
                .saturating_mul(self.memory_access_ps())
                .saturating_add(self.memory_event_ns * 1000),
        }
    }

    fn memory(
        &self,
        mut build: Builder,
        gate: Which,
        time_ns: u64,
    ) -> Result<Workload, WorkloadError> {
        let block = Which::One(build.object(ObjectKind::Block(self.block())));
        let start = Which::One(build.object(ObjectKind::Counter));
        let done = Which::One(build.object(ObjectKind::Barrier(self.threads)));
        let bytes = build.metric("MiB/sec", "MiB/s", Better::Higher, MetricKind::MibPerS);
        build.figure_of(bytes, "MiB transferred", "MiB", MetricKind::Mib);
        let total = build.metric("total time", "s", Better::Lower, MetricKind::MeanS);
        // The tool, too, hands each thread its part of the total in advance.
        let passes = self.memory_total_size / self.memory_block_size / u64::from(self.threads);
        let thread = build.program("sysbench", |code| {
            code.op(Op::Barrier(gate));
            if passes > 0 {
                let amount = self.memory_block_size;
                code.op(Op::Stream { block, passes, metric: bytes, amount });
            }
            // Whoever of them comes last ends the run before its time is up.
            code.op(Op::Barrier(done));
            code.op(Op::MeasureShared { metric: total, since: start }).op(Op::ExitGroup);
        });
        let main = build.program("sysbench", |code| {
            // Main clears the memory, which is at home on main's node from then on.
            code.op(Op::Touch { line: block, access: Access::Write, count: 1 });
            code.op(Op::Fork { program: thread, count: self.threads, thread: true });
            code.op(Op::MarkShared(start)).op(Op::Barrier(gate)).sleep(time_ns);
            code.op(Op::MeasureShared { metric: total, since: start }).op(Op::ExitGroup);
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

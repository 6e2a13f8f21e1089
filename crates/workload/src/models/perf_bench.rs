//! `perf bench` (6.12): `futex wake`, `sched pipe` and `sched messaging`.

use super::{Model, hackbench, in_range, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, ObjectKind, Op, Which, Workload};

/// `perf bench futex wake`: threads block on one futex, and main wakes them a few at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FutexWake {
    /// `-t`: threads; the number of CPUs if absent.
    pub threads: Option<u32>,
    /// `-w`: how many are woken at a time.
    pub nwakes: u32,
}

impl Default for FutexWake {
    fn default() -> FutexWake {
        FutexWake { threads: None, nwakes: 1 }
    }
}

/// The tool repeats everything this often (`bench_repeat`, tools/perf/builtin-bench.c).
const FUTEX_REPEATS: u64 = 10;

/// Main lets the threads go to sleep for so long before it wakes them
/// (tools/perf/bench/futex-wake.c).
const FUTEX_SETTLE_NS: u64 = 100_000_000;

impl Model for FutexWake {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        let threads = self.threads.unwrap_or(cpus);
        in_range(name, "threads", u64::from(threads), (1, 10_000))?;
        in_range(name, "nwakes", u64::from(self.nwakes), (1, u64::from(threads)))?;
        let mut build = Builder::new(name);
        let woken = build.metric("Wokeup threads", "ms", Better::Lower, MetricKind::MeanMs);
        let futex = Which::One(build.object(ObjectKind::Futex));
        let started = Which::One(build.object(ObjectKind::Barrier(threads + 1)));
        let worker = build.program("perf", |code| {
            code.op(Op::Barrier(started)).op(Op::FutexWait(futex));
        });
        let main = build.program("perf", |code| {
            let start = code.slot();
            code.repeat(FUTEX_REPEATS, |round| {
                round
                    .op(Op::Fork { program: worker, count: threads, thread: true })
                    .op(Op::Barrier(started))
                    .sleep(FUTEX_SETTLE_NS)
                    .op(Op::Mark(start))
                    .repeat(u64::from(threads.div_ceil(self.nwakes)), |wake| {
                        wake.op(Op::FutexWake { futex, count: self.nwakes });
                    })
                    .op(Op::Measure { metric: woken, since: start })
                    .op(Op::Join);
            });
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

/// `perf bench sched pipe`: two tasks hand a word to and fro through two pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedPipe {
    /// `-l`: rounds.
    pub loops: u64,
    /// `-T`: threads instead of processes.
    pub threaded: bool,
}

impl Default for SchedPipe {
    fn default() -> SchedPipe {
        SchedPipe { loops: 1_000_000, threaded: false }
    }
}

impl Model for SchedPipe {
    fn workload(&self, name: &str, _: u32) -> Result<Workload, WorkloadError> {
        in_range(name, "loops", self.loops, (1, 1_000_000_000))?;
        let mut build = Builder::new(name);
        let total = build.metric("Total time", "s", Better::Lower, MetricKind::MeanS);
        let rounds = build.metric("ops/sec", "1/s", Better::Higher, MetricKind::Rate);
        let pipe = ObjectKind::Channel { capacity_bytes: 65_536, sync_wakeup: true };
        let there = Which::One(build.object(pipe));
        let back = Which::One(build.object(pipe));
        let child = build.program("sched-pipe", |code| {
            code.repeat(self.loops, |round| {
                round
                    .op(Op::Read { channel: there, bytes: 4 })
                    .op(Op::Write { channel: back, bytes: 4 });
            });
        });
        let main = build.program("sched-pipe", |code| {
            let start = code.slot();
            code.op(Op::Fork { program: child, count: 1, thread: self.threaded });
            code.op(Op::Mark(start));
            code.repeat(self.loops, |round| {
                round
                    .op(Op::Write { channel: there, bytes: 4 })
                    .op(Op::Read { channel: back, bytes: 4 })
                    .op(Op::Count { metric: rounds, amount: 1 });
            });
            code.op(Op::Join).op(Op::Measure { metric: total, since: start });
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

/// `perf bench sched messaging`: hackbench with 20 senders and receivers per group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedMessaging {
    /// `-g`: groups.
    pub group: u32,
    /// `-l`: rounds of each sender.
    pub nr_loops: u64,
    /// `-t`: threads instead of processes.
    pub thread: bool,
    /// `-p`: pipes instead of sockets.
    pub pipe: bool,
}

impl Default for SchedMessaging {
    fn default() -> SchedMessaging {
        SchedMessaging { group: 10, nr_loops: 100, thread: false, pipe: false }
    }
}

impl Model for SchedMessaging {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        tasks_in_range(name, "40 * group", u64::from(self.group) * 40)?;
        in_range(name, "nr_loops", self.nr_loops, (1, 1_000_000_000))?;
        let options = hackbench::Options {
            groups: self.group,
            loops: self.nr_loops,
            threads: self.thread,
            pipe: self.pipe,
            ..hackbench::Options::default()
        };
        options.workload(name, cpus)
    }
}

//! Geekbench 5 for Android: 21 computations in a row, first by a single thread, then by one per CPU,
//! with a pause before each. `AsyncTask #1` is the Java side, which waits for the workers.

use super::android::{Background, counter, signal};
use super::{Model, in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, Op, Which, Workload};

/// Which half of the benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// One worker.
    Single,
    /// A worker per CPU.
    Multi,
    /// One after the other, as the tool does.
    Both,
}

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Which half.
    pub section: Section,
    /// Computations of each half.
    pub workloads: u64,
    /// Pause before each, ms.
    pub gap_ms: u64,
    /// Computation of one by a single thread, ms.
    pub single_ms: u64,
    /// Computation of one by all threads together, ms.
    pub multi_ms: u64,
    /// Parts after which all threads meet, of each computation of many threads.
    pub phases: u64,
    /// What one thread takes of a part at a time, on average, us; it takes the next when done.
    pub chunk_us: u64,
    /// What the Java side computes between two parts, us.
    pub serial_us: u64,
    /// The score of the many-threaded half if each of its computations took 1 ms.
    pub points_ms: u64,
    /// Clients and servers of the system that go on meanwhile.
    pub background_pairs: u32,
    /// Mean pause of a client between two rows of requests, us.
    pub background_period_us: u64,
    /// Requests in a row, each made when the last one is answered.
    pub background_requests: u64,
    /// What a server computes for each, us.
    pub background_work_us: u64,
    /// Interrupts of devices a second.
    pub interrupts_per_s: u64,
    /// A kernel thread of each CPU wakes this often, ms; 0: there is none.
    pub housekeeping_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            section: Section::Both,
            workloads: 21,
            gap_ms: 2_000,
            single_ms: 1_000,
            multi_ms: 3_000,
            phases: 4,
            chunk_us: 3_000,
            serial_us: 500,
            points_ms: 3_000_000,
            background_pairs: 4,
            background_period_us: 20_000,
            background_requests: 4,
            background_work_us: 100,
            interrupts_per_s: 100,
            housekeeping_ms: 40,
        }
    }
}

impl Options {
    fn background(&self) -> Background {
        Background {
            pairs: self.background_pairs,
            period_us: self.background_period_us,
            requests: self.background_requests,
            work_us: self.background_work_us,
            interrupts_per_s: self.interrupts_per_s,
            housekeeping_ms: self.housekeeping_ms,
        }
    }

    /// Chunks of one part.
    fn chunks(&self) -> u64 {
        (self.multi_ms * 1000 / self.phases / self.chunk_us).max(1)
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        in_range(name, "workloads", self.workloads, (1, 1_000))?;
        in_range(name, "gap_ms", self.gap_ms, (0, 100_000))?;
        in_range(name, "single_ms", self.single_ms, (1, 100_000))?;
        in_range(name, "multi_ms", self.multi_ms, (1, 1_000_000))?;
        in_range(name, "phases", self.phases, (1, 10_000))?;
        in_range(name, "chunk_us", self.chunk_us, (10, 1_000_000))?;
        in_range(name, "serial_us", self.serial_us, (0, 1_000_000))?;
        in_range(name, "points_ms", self.points_ms, (1, 1_000_000_000_000))?;
        self.background().check(name)?;
        let mut build = Builder::new(name);
        let points = self.points_ms as f64;
        let multi = build.metric("score", "points", Better::Higher, MetricKind::Score(points));
        let mean = MetricKind::MeanMs;
        build.figure_of(multi, "many threads", "ms", mean);
        let single = build.metric("one thread", "ms", Better::Lower, mean);
        let (alone, alone_done) = (signal(&mut build), signal(&mut build));
        let (queue, part_done) = (signal(&mut build), signal(&mut build));
        let progress = Which::One(counter(&mut build));
        let chunks = self.chunks();
        let soloist = build.program("labs.geekbench5", |code| {
            code.forever(|turn| {
                turn.op(Op::Down(alone)).run(self.single_ms * 1_000_000).op(Op::Up(alone_done));
            });
        });
        let chunk_ns = self.chunk_us * 1000;
        let worker = build.program("labs.geekbench5", |code| {
            code.forever(|chunk| {
                chunk.op(Op::Down(queue));
                // One to two thirds more or less than the mean.
                chunk.op(Op::Run(Amount::Uniform { low: chunk_ns / 3, high: chunk_ns * 5 / 3 }));
                let (semaphore, counter) = (part_done, progress);
                chunk.op(Op::UpEvery { semaphore, counter, every: chunks });
            });
        });
        let java = build.program("AsyncTask #1", |code| {
            let start = code.slot();
            if self.section != Section::Multi {
                code.repeat(self.workloads, |turn| {
                    turn.sleep(self.gap_ms * 1_000_000).op(Op::Mark(start));
                    turn.op(Op::Up(alone)).op(Op::Down(alone_done));
                    turn.op(Op::Measure { metric: single, since: start });
                });
            }
            if self.section != Section::Single {
                code.repeat(self.workloads, |turn| {
                    turn.sleep(self.gap_ms * 1_000_000).op(Op::Mark(start));
                    turn.repeat(self.phases, |part| {
                        part.run(self.serial_us * 1000);
                        part.repeat(chunks, |chunk| {
                            chunk.op(Op::Up(queue));
                        });
                        part.op(Op::Down(part_done));
                    });
                    turn.op(Op::Measure { metric: multi, since: start });
                });
            }
            code.op(Op::ExitGroup);
        });
        build.spawn(soloist, 0, 0);
        for number in 0..cpus {
            build.spawn(worker, number, 0);
        }
        build.spawn(java, 0, 0);
        let halves = 2 * self.workloads * (self.gap_ms + 10 * self.single_ms.max(self.multi_ms));
        self.background().add(&mut build, cpus, halves.min(600_000) * 1_000_000);
        build.finish()
    }
}

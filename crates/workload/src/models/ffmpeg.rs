//! Many ffmpeg processes at once, each bound to a few cores, all threads real-time: the load of
//! study `cpupri-per-node`.
//!
//! What ffmpeg does here is frame threading (libavcodec/pthread_frame.c): a main thread hands each
//! next frame to the next of its workers and takes the oldest one back, and a worker goes through
//! the rows of its frame, of which each needs the same row of the frame before. A worker that is as
//! far as the one before it sleeps on a condition variable until that one has done another row.

use super::{Model, in_range, tasks_in_range};
use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{
    Amount, Better, MetricId, MetricKind, ObjectId, ObjectKind, Op, Policy, ProgramId, Which,
    Workload,
};
use schedlab_machine::{CpuId, CpuSet};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Processes; none: as many as the machine has room for.
    pub instances: Option<u32>,
    /// Cores of each process, which no other one shares.
    pub cores: u32,
    /// Threads of a core; the second threads' CPUs are numbered after all first ones.
    pub threads_per_core: u32,
    /// Worker threads of each process.
    pub workers: u32,
    /// Rows of a frame.
    pub rows: u32,
    /// Computation per row, us.
    pub row_us: u64,
    /// Its standard deviation, us.
    pub row_deviation_us: u64,
    /// Computation of the main thread per frame, us.
    pub main_us: u64,
    /// `chrt -f`: priority of all threads; 0: they are fair ones.
    pub priority: u8,
    /// Processes start this much apart, us.
    pub stagger_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            instances: None,
            cores: 4,
            threads_per_core: 2,
            workers: 12,
            rows: 17,
            row_us: 500,
            row_deviation_us: 167,
            main_us: 100,
            priority: 99,
            stagger_us: 100,
        }
    }
}

impl Options {
    /// The CPUs of a process; where there are too few, the next process starts anew.
    fn cpus(&self, instance: u32, cpus: u32) -> CpuSet {
        let cores = (cpus / self.threads_per_core).max(1);
        let own = (0..self.cores).map(|core| (instance * self.cores + core) % cores);
        let threads = |core| (0..self.threads_per_core).map(move |thread| thread * cores + core);
        own.flat_map(threads).filter(|&cpu| cpu < cpus).map(CpuId).collect()
    }

    fn policy(&self) -> Policy {
        if self.priority == 0 { Policy::Normal } else { Policy::Fifo(self.priority) }
    }

    fn check(&self, name: &str) -> Result<(), WorkloadError> {
        in_range(name, "cores", self.cores.into(), (1, 1_024))?;
        in_range(name, "threads_per_core", self.threads_per_core.into(), (1, 8))?;
        in_range(name, "workers", self.workers.into(), (1, 1_000))?;
        in_range(name, "rows", self.rows.into(), (1, 10_000))?;
        in_range(name, "row_us", self.row_us, (1, 1_000_000))?;
        in_range(name, "row_deviation_us", self.row_deviation_us, (0, 1_000_000))?;
        in_range(name, "main_us", self.main_us, (0, 1_000_000))?;
        in_range(name, "priority", self.priority.into(), (0, 99))?;
        in_range(name, "stagger_us", self.stagger_us, (0, 1_000_000))
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        self.check(name)?;
        let room = (cpus / self.cores / self.threads_per_core).max(1);
        let instances = self.instances.unwrap_or(room);
        in_range(name, "instances", instances.into(), (1, 100_000))?;
        let threads = u64::from(instances) * u64::from(self.workers + 1);
        tasks_in_range(name, "threads (instances * (workers + 1))", threads)?;
        let mut build = Builder::new(name);
        let fps = build.metric("fps", "1/s", Better::Higher, MetricKind::Rate);
        build.figure_of(fps, "frames", "1", MetricKind::Total);
        for instance in 0..instances {
            let allowed = self.cpus(instance, cpus.max(1));
            let main = self.process(&mut build, fps, allowed);
            let birth_cpu = allowed.first().map_or(0, |cpu| cpu.0);
            build.spawn(main, birth_cpu, u64::from(instance) * self.stagger_us * 1000);
        }
        build.finish()
    }
}

impl Options {
    /// One process; returns its main thread.
    fn process(&self, build: &mut Builder, fps: MetricId, allowed: CpuSet) -> ProgramId {
        let workers = self.workers;
        // Frames to be worked on and worked on, by worker, and rows that are done of the frame
        // before. The first frame needs no other one.
        let given = build.objects(ObjectKind::Semaphore(0), workers);
        let taken = build.objects(ObjectKind::Semaphore(0), workers);
        let rows = build.object(ObjectKind::Semaphore(self.rows));
        build.objects(ObjectKind::Semaphore(0), workers - 1);
        let of = |first: ObjectId, worker: u32| Which::One(ObjectId(first.0 + worker));
        let row =
            Amount::Normal { mean: self.row_us * 1000, deviation: self.row_deviation_us * 1000 };
        let thread = |build: &mut Builder, write: &dyn Fn(&mut Code)| {
            let program = build.program("ffmpeg", |code| write(code));
            let attributes = build.attributes(program);
            attributes.policy = self.policy();
            attributes.affinity = Some(allowed);
            program
        };
        let programs: Vec<ProgramId> = (0..workers)
            .map(|worker| {
                thread(build, &|code| {
                    code.forever(|frame| {
                        frame.op(Op::Down(of(given, worker)));
                        frame.repeat(u64::from(self.rows), |code| {
                            code.op(Op::Down(of(rows, worker)))
                                .op(Op::Run(row))
                                .op(Op::Up(of(rows, (worker + 1) % workers)));
                        });
                        frame.op(Op::Up(of(taken, worker)));
                    });
                })
            })
            .collect();
        thread(build, &|code| {
            for &program in &programs {
                code.op(Op::Fork { program, count: 1, thread: true });
            }
            for worker in 0..workers {
                code.op(Op::Up(of(given, worker)));
            }
            code.forever(|round| {
                for worker in 0..workers {
                    round
                        .op(Op::Down(of(taken, worker)))
                        .run(self.main_us * 1000)
                        .op(Op::Count { metric: fps, amount: 1 })
                        .op(Op::Up(of(given, worker)));
                }
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_share_the_cores_out() {
        let options = Options::default();
        let numbers = |set: CpuSet| set.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
        assert_eq!(numbers(options.cpus(0, 480)), [0, 1, 2, 3, 240, 241, 242, 243]);
        assert_eq!(numbers(options.cpus(59, 480)), [236, 237, 238, 239, 476, 477, 478, 479]);
        let workload = options.workload("w", 480).expect("a workload");
        assert_eq!(workload.spawns.len(), 60);
        assert_eq!(workload.programs.len(), 60 * 13);
        let sets = workload.programs.iter().filter_map(|program| program.attributes.affinity);
        let mut seen = CpuSet::EMPTY;
        for set in sets {
            seen |= set;
        }
        assert_eq!(seen, CpuSet::first_n(480));
    }
}

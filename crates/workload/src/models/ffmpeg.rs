//! Many ffmpeg processes at once, each bound to a few cores, all threads real-time: the load of
//! study `cpupri-per-node`.
//!
//! What ffmpeg does here is slice threading (libavutil/slicethread.c): for each frame, a main thread
//! signals the condition variable of each of its workers, which computes its slice; the last one
//! signals the main thread, which goes on alone until the next frame. So each wake-up brings one
//! stretch of work, and with more threads than CPUs some of them wait for another one's end.

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
    /// Worker threads of each process, and slices of a frame.
    pub workers: u32,
    /// Computation per slice, us.
    pub slice_us: u64,
    /// Its standard deviation, us.
    pub slice_deviation_us: u64,
    /// What each slice takes in the kernel beside waking and sleeping, us: system calls, page
    /// faults.
    pub system_us: u64,
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
            slice_us: 500,
            slice_deviation_us: 167,
            system_us: 0,
            main_us: 50,
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
        in_range(name, "slice_us", self.slice_us, (1, 1_000_000))?;
        in_range(name, "slice_deviation_us", self.slice_deviation_us, (0, 1_000_000))?;
        in_range(name, "system_us", self.system_us, (0, 1_000_000))?;
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
        let starts = build.objects(ObjectKind::Semaphore(0), workers);
        let done = Which::One(build.object(ObjectKind::Semaphore(0)));
        let ended = Which::One(build.object(ObjectKind::Counter));
        let slice = Amount::Normal {
            mean: self.slice_us * 1000,
            deviation: self.slice_deviation_us * 1000,
        };
        let thread = |build: &mut Builder, write: &dyn Fn(&mut Code)| {
            let program = build.program("ffmpeg", |code| write(code));
            let attributes = build.attributes(program);
            attributes.policy = self.policy();
            attributes.affinity = Some(allowed);
            program
        };
        let worker = thread(build, &|code| {
            code.forever(|frame| {
                frame
                    .op(Op::Down(Which::Own { first: starts }))
                    .op(Op::Run(slice))
                    .system(self.system_us * 1000)
                    .op(Op::UpEvery { semaphore: done, counter: ended, every: workers.into() });
            });
        });
        thread(build, &|code| {
            code.op(Op::Fork { program: worker, count: workers, thread: true });
            code.forever(|frame| {
                for worker in 0..workers {
                    frame.op(Op::Up(Which::One(ObjectId(starts.0 + worker))));
                }
                frame
                    .op(Op::Down(done))
                    .run(self.main_us * 1000)
                    .op(Op::Count { metric: fps, amount: 1 });
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
        assert_eq!(workload.programs.len(), 60 * 2);
        let sets = workload.programs.iter().filter_map(|program| program.attributes.affinity);
        let mut seen = CpuSet::EMPTY;
        for set in sets {
            seen |= set;
        }
        assert_eq!(seen, CpuSet::first_n(480));
    }
}

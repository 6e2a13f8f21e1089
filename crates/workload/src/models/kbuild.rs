//! `make -jN vmlinux`: make starts a compiler for each file as long as it has a slot, and links at the
//! end.

use super::daemons::Daemons;
use super::{Model, in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Amount, Better, MetricKind, ObjectKind, Op, Which, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `-j`: compilers at once.
    pub jobs: u32,
    /// Files; a defconfig of 2013 has some 2,000.
    pub files: u64,
    /// What a compiler computes on average, exponentially distributed, ms: an estimate.
    pub compile_ms: u64,
    /// Waiting for the disk in each, us: an estimate for warm caches.
    pub wait_us: u64,
    /// What make does between two files, us: an estimate.
    pub make_us: u64,
    /// The last, serial step, ms: an estimate.
    pub link_ms: u64,
    /// Daemons beside it.
    pub daemons: u32,
    /// Pause between two wake-ups of a daemon, ms.
    pub daemon_period_ms: u64,
    /// Computation of a daemon each time, us.
    pub daemon_work_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            jobs: 4,
            files: 2_000,
            compile_ms: 400,
            wait_us: 500,
            make_us: 1_000,
            link_ms: 2_000,
            daemons: 0,
            daemon_period_ms: 100,
            daemon_work_us: 300,
        }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        in_range(name, "jobs", u64::from(self.jobs), (1, 10_000))?;
        in_range(name, "files", self.files, (1, 100_000))?;
        in_range(name, "compile_ms", self.compile_ms, (1, 1_000_000))?;
        in_range(name, "wait_us", self.wait_us, (0, 1_000_000))?;
        in_range(name, "make_us", self.make_us, (0, 1_000_000))?;
        in_range(name, "link_ms", self.link_ms, (0, 1_000_000))?;
        let mut build = Builder::new(name);
        let elapsed = build.metric("elapsed", "s", Better::Lower, MetricKind::MeanS);
        let slots = Which::One(build.object(ObjectKind::Semaphore(self.jobs)));
        let compiler = build.program("cc1", |code| {
            // The shell, then the compiler, each a program of its own.
            code.op(Op::Exec);
            if self.wait_us > 0 {
                code.sleep(self.wait_us * 1_000);
            }
            code.op(Op::Run(Amount::Exponential { mean: self.compile_ms * 1_000_000 }));
            code.op(Op::Up(slots));
        });
        let make = build.program("make", |code| {
            let start = code.slot();
            code.op(Op::Mark(start));
            code.repeat(self.files, |file| {
                file.op(Op::Down(slots)).run(self.make_us * 1_000);
                file.op(Op::Fork { program: compiler, count: 1, thread: false });
            });
            code.op(Op::Join).run(self.link_ms * 1_000_000);
            code.op(Op::Measure { metric: elapsed, since: start }).op(Op::ExitGroup);
        });
        build.spawn(make, 0, 0);
        let Options { daemons: count, daemon_period_ms, daemon_work_us, .. } = *self;
        Daemons { count, period_ms: daemon_period_ms, work_us: daemon_work_us }
            .spawn(name, &mut build, cpus)?;
        build.finish()
    }
}

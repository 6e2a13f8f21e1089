//! ebizzy 0.3: threads that copy and search chunks of memory, without a lock or a sleep.

use super::daemons::Daemons;
use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, ObjectKind, Op, Which, Workload};

/// Options. The chunks' number and size (`-n`, `-s`) are not among them: what they cost stands in
/// `record_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `-t`: threads; twice the number of CPUs if absent.
    pub threads: Option<u32>,
    /// `-S`: how long, s.
    pub seconds: u64,
    /// Computation per record, ns: 512 KiB copied and 16 probes of a binary search. The default
    /// is the middle of the 25 to 50 us that were seen.
    pub record_ns: u64,
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
            threads: None,
            seconds: 10,
            record_ns: 37_500,
            daemons: 0,
            daemon_period_ms: 100,
            daemon_work_us: 300,
        }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        let threads = self.threads.unwrap_or(cpus.saturating_mul(2));
        tasks_in_range(name, "threads", u64::from(threads))?;
        in_range(name, "record_ns", self.record_ns, (1, 1_000_000_000))?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let records = build.metric("records/s", "1/s", Better::Higher, MetricKind::Rate);
        let go = Which::One(build.object(ObjectKind::Flag));
        let thread = build.program("ebizzy", |code| {
            // Threads busy-wait until main has created all of them.
            code.op(Op::SpinUntil(go));
            code.forever(|record| {
                record.run(self.record_ns).op(Op::Count { metric: records, amount: 1 });
            });
        });
        let main = build.program("ebizzy", |code| {
            code.op(Op::Fork { program: thread, count: threads, thread: true });
            code.op(Op::SetFlag(go)).sleep(time_ns).op(Op::ExitGroup);
        });
        build.spawn(main, 0, 0);
        let Options { daemons: count, daemon_period_ms, daemon_work_us, .. } = *self;
        Daemons { count, period_ms: daemon_period_ms, work_us: daemon_work_us }
            .spawn(name, &mut build, cpus)?;
        build.finish()
    }
}

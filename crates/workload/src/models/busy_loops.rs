//! `while true; do :; done &`, several times in a row in a shell: what power was measured under in the
//! discussion of power-aware scheduling.

use super::daemons::Daemons;
use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, Op, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Loops; one per CPU if absent.
    pub loops: Option<u32>,
    /// How long, s.
    pub seconds: u64,
    /// What the shell does for each before it goes on to the next, us: an estimate.
    pub shell_us: u64,
    /// Daemons beside them.
    pub daemons: u32,
    /// Pause between two wake-ups of a daemon, ms.
    pub daemon_period_ms: u64,
    /// Computation of a daemon each time, us.
    pub daemon_work_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            loops: None,
            seconds: 10,
            shell_us: 300,
            daemons: 0,
            daemon_period_ms: 100,
            daemon_work_us: 300,
        }
    }
}

/// Computation after which a loop counts a turn, ns.
const TURN_NS: u64 = 100_000;

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        let loops = self.loops.unwrap_or(cpus);
        tasks_in_range(name, "loops", u64::from(loops))?;
        in_range(name, "shell_us", self.shell_us, (0, 1_000_000))?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let turns = build.metric("turns/s", "1/s", Better::Higher, MetricKind::Rate);
        let body = build.program("sh", |code| {
            code.forever(|turn| {
                turn.run(TURN_NS).op(Op::Count { metric: turns, amount: 1 });
            });
        });
        let shell = build.program("sh", |code| {
            code.repeat(u64::from(loops), |each| {
                each.op(Op::Fork { program: body, count: 1, thread: false });
                each.run(self.shell_us * 1_000);
            });
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        build.spawn(shell, 0, 0);
        let Options { daemons: count, daemon_period_ms, daemon_work_us, .. } = *self;
        Daemons { count, period_ms: daemon_period_ms, work_us: daemon_work_us }
            .spawn(name, &mut build, cpus)?;
        build.finish()
    }
}

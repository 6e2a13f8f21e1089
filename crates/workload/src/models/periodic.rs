//! Tasks that each compute for a while in every period, as media and control tasks do.

use super::{Model, in_range, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, Op, Policy, Workload};

/// Options; the defaults are those of the comparison by which scheduler simulators are measured:
/// 32 tasks of 2 ms every 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How many tasks.
    pub tasks: u32,
    /// Computation per period on the biggest CPU, us.
    pub run_us: u64,
    /// Period, us.
    pub period_us: u64,
    /// Policy of all tasks: `other`, `batch`, `idle`, `fifo`, `rr` or `deadline`.
    pub policy: PolicyName,
    /// Their priority under `fifo` and `rr`, 1 to 99.
    pub priority: u8,
    /// Run time that each reserves under `deadline`, us; none: `run_us`.
    pub dl_runtime_us: Option<u64>,
    /// By when it is to be had, us; none: `period_us`.
    pub dl_deadline_us: Option<u64>,
    /// The period of the reservation, us; none: `period_us`.
    pub dl_period_us: Option<u64>,
    /// Their nice level under `other` and `batch`.
    pub nice: i32,
    /// Least utilisation for which each wants to be taken (`uclamp_min`), 0 to 1024.
    pub uclamp_min: u16,
    /// Greatest utilisation for which each wants to be taken (`uclamp_max`), 0 to 1024.
    pub uclamp_max: u16,
    /// What they compute in a period they compute on one CPU, though they may be preempted there
    /// (`migrate_disable()`).
    pub migrate_disable: bool,
    /// The first periods of neighbouring tasks begin this much apart, ns.
    pub stagger_ns: u64,
}

/// A scheduling policy, as options name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tasks: 32,
            run_us: 2_000,
            period_us: 10_000,
            policy: PolicyName::Other,
            priority: 50,
            dl_runtime_us: None,
            dl_deadline_us: None,
            dl_period_us: None,
            nice: 0,
            uclamp_min: 0,
            uclamp_max: 1024,
            migrate_disable: false,
            stagger_ns: 1_000,
        }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        tasks_in_range(name, "tasks", u64::from(self.tasks))?;
        in_range(name, "run_us", self.run_us, (1, 1_000_000_000))?;
        in_range(name, "period_us", self.period_us, (1, 1_000_000_000))?;
        in_range(name, "priority", u64::from(self.priority), (1, 99))?;
        in_range(name, "uclamp_max", self.uclamp_max.into(), (0, 1024))?;
        in_range(name, "uclamp_min", self.uclamp_min.into(), (0, self.uclamp_max.into()))?;
        for (option, us) in [
            ("dl_runtime_us", self.dl_runtime_us),
            ("dl_deadline_us", self.dl_deadline_us),
            ("dl_period_us", self.dl_period_us),
        ] {
            in_range(name, option, us.unwrap_or(1), (1, 1_000_000_000))?;
        }
        in_range(name, "stagger_ns", self.stagger_ns, (0, 1_000_000_000))?;
        let mut build = Builder::new(name);
        let periods = build.metric("periods", "1/s", Better::Higher, MetricKind::Rate);
        let p99 = MetricKind::Percentile(99.0);
        let wakeup = build.metric("wakeup latency p99", "us", Better::Lower, p99);
        let response = build.metric("response time p99", "us", Better::Lower, p99);
        build.figure_of(response, "response time mean", "us", MetricKind::Mean);
        let task = build.program("periodic", |code| {
            let expiry = code.slot();
            code.run(self.run_us * 1000);
            code.forever(|period| {
                // After the timer its slot holds the expiry, from which both times count.
                period
                    .op(Op::Timer { slot: expiry, period_ns: self.period_us * 1000 })
                    .op(Op::Measure { metric: wakeup, since: expiry });
                if self.migrate_disable {
                    period.op(Op::MigrateDisable);
                }
                period.run(self.run_us * 1000);
                if self.migrate_disable {
                    period.op(Op::MigrateEnable);
                }
                period
                    .op(Op::Measure { metric: response, since: expiry })
                    .op(Op::Count { metric: periods, amount: 1 });
            });
        });
        build.attributes(task).nice = self.nice;
        let clamps = (self.uclamp_min, self.uclamp_max);
        build.attributes(task).clamps = (clamps != (0, 1024)).then_some(clamps);
        build.attributes(task).policy = match self.policy {
            PolicyName::Other => Policy::Normal,
            PolicyName::Batch => Policy::Batch,
            PolicyName::Idle => Policy::Idle,
            PolicyName::Fifo => Policy::Fifo(self.priority),
            PolicyName::Rr => Policy::RoundRobin(self.priority),
            PolicyName::Deadline => Policy::Deadline {
                runtime_ns: self.dl_runtime_us.unwrap_or(self.run_us) * 1000,
                deadline_ns: self.dl_deadline_us.unwrap_or(self.period_us) * 1000,
                period_ns: self.dl_period_us.unwrap_or(self.period_us) * 1000,
            },
        };
        for index in 0..self.tasks {
            build.spawn(task, index % cpus.max(1), u64::from(index) * self.stagger_ns);
        }
        build.finish()
    }
}

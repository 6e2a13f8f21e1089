//! schbench: message threads that hand work to worker threads. Three versions: the present one
//! (48aed1d, April 2023), the one before it (91ea787), and one whose threads spin instead of
//! multiplying matrices (2eef447, December 2021). Both older ones are called "old" in tables.
//!
//! Differences from the tool: a worker that finds its CPU's lock taken sleeps, where the tool
//! spins; the warm-up and the interval reports, which do not touch the scheduler, are left out.

use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{
    Amount, Better, MetricId, MetricKind, ObjectKind, Op, ProgramId, Which, Workload,
};

/// Which of the programs of this name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum Version {
    /// 48aed1d (April 2023) and later: wake-up and request latencies, requests per second.
    #[default]
    #[serde(rename = "48aed1d")]
    V48aed1d,
    /// 91ea787 (April 2023): one latency, which contains the work.
    #[serde(rename = "91ea787")]
    V91ea787,
    /// 2eef447 (December 2021): one latency, from which the time of the spin is taken off.
    #[serde(rename = "2eef447")]
    V2eef447,
}

/// Options, with the defaults of the version where they are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Which version.
    pub version: Version,
    /// `-m`: message threads (1; 2 in the old versions).
    pub message_threads: Option<u32>,
    /// `-t`: workers of each message thread (CPUs / message threads; 16 in the old versions).
    pub threads: Option<u32>,
    /// `-r`: how long, s (30).
    pub runtime: u64,
    /// `-F`: cache footprint of the matrices, KiB (256; 1536 in 91ea787; unused by 2eef447).
    pub cache_footprint: Option<u64>,
    /// `-n`: matrix products per request (5; 10 in 91ea787; unused by 2eef447).
    pub operations: Option<u64>,
    /// Time of one multiplication and addition on the biggest CPU, ps. The default is 6 ms for the
    /// 5.6 million of a default request, as measured at `-O2` on an x86-64 server.
    pub multiply_add_ps: u64,
    /// `-c`: how long a worker of 2eef447 spins, us. Its message threads spin for the default time
    /// whatever is asked for, since the tool assigns its option `-C` to itself.
    pub cputime_us: u64,
    /// `-s`: how long a message thread of the old versions sleeps at least, us; up to a quarter
    /// more is drawn.
    pub sleeptime_us: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            version: Version::V48aed1d,
            message_threads: None,
            threads: None,
            runtime: 30,
            cache_footprint: None,
            operations: None,
            multiply_add_ps: 1_067,
            cputime_us: 30_000,
            sleeptime_us: 30_000,
        }
    }
}

/// How long a message thread of 2eef447 spins.
const MESSAGE_SPIN_NS: u64 = 30_000_000;

/// Writes one request of a worker whose message thread has this mailbox.
type Request = Box<dyn Fn(&mut Code, Which)>;

/// Options with all defaults filled in.
struct Plan {
    message_threads: u32,
    threads: u32,
    work_ns: u64,
    time_ns: u64,
}

impl Options {
    fn plan(&self, name: &str, cpus: u32) -> Result<Plan, WorkloadError> {
        let old = self.version != Version::V48aed1d;
        let message_threads = self.message_threads.unwrap_or(if old { 2 } else { 1 });
        tasks_in_range(name, "message_threads", u64::from(message_threads))?;
        let default_threads = if old { 16 } else { (cpus / message_threads).max(1) };
        let threads = self.threads.unwrap_or(default_threads);
        let tasks = u64::from(message_threads) * (u64::from(threads) + 1);
        in_range(name, "threads", u64::from(threads), (1, 100_000))?;
        tasks_in_range(name, "message_threads * (threads + 1)", tasks)?;
        let footprint_kib = self.cache_footprint.unwrap_or(if old { 1536 } else { 256 });
        in_range(name, "cache_footprint", footprint_kib, (1, 1 << 20))?;
        let operations = self.operations.unwrap_or(if old { 10 } else { 5 });
        in_range(name, "operations", operations, (1, 1_000_000))?;
        in_range(name, "cputime_us", self.cputime_us, (1, 1_000_000_000))?;
        in_range(name, "sleeptime_us", self.sleeptime_us, (4, 1_000_000_000))?;
        in_range(name, "multiply_add_ps", self.multiply_add_ps, (1, 1_000_000))?;
        // Three square matrices of 8-byte elements fill the footprint.
        let side = (footprint_kib * 1024 / 3 / 8).isqrt();
        let work_ps = u128::from(operations * side.pow(3)) * u128::from(self.multiply_add_ps);
        Ok(Plan {
            message_threads,
            threads,
            work_ns: (work_ps / 1000).min(u128::from(u64::MAX / 1024)) as u64,
            time_ns: seconds_ns(name, "runtime", self.runtime)?,
        })
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        let plan = self.plan(name, cpus)?;
        let mut build = Builder::new(name);
        let worker: Request = match self.version {
            Version::V48aed1d => new_worker(&mut build, cpus.max(1), plan.work_ns),
            Version::V91ea787 => old_worker(&mut build, plan.work_ns),
            Version::V2eef447 => spinning_worker(&mut build, self.cputime_us * 1000),
        };
        let pause = match self.version {
            Version::V48aed1d => None,
            Version::V91ea787 | Version::V2eef447 => Some(Amount::Uniform {
                low: self.sleeptime_us * 1000,
                high: self.sleeptime_us * 1000 + self.sleeptime_us * 1000 / 4,
            }),
        };
        let spins = self.version == Version::V2eef447;
        let messengers: Vec<ProgramId> = (0..plan.message_threads)
            .map(|_| {
                let mailbox = Which::One(build.object(ObjectKind::Mailbox));
                let worker = build.program("schbench", |code| {
                    code.forever(|request| worker(request, mailbox));
                });
                build.program("schbench", |code| {
                    code.op(Op::Fork { program: worker, count: plan.threads, thread: true });
                    code.forever(|round| {
                        round.op(Op::Serve(mailbox)).op(Op::AwaitPosted(mailbox));
                        if spins {
                            round.op(Op::Spin(Amount::Fixed(MESSAGE_SPIN_NS)));
                        }
                        if let Some(pause) = pause {
                            round.op(Op::Sleep(pause));
                        }
                    });
                })
            })
            .collect();
        let main = build.program("schbench", |code| {
            for program in messengers {
                code.op(Op::Fork { program, count: 1, thread: true });
            }
            code.sleep(plan.time_ns).op(Op::ExitGroup);
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

/// Posts itself, sleeps until served, thinks for 100 us, and multiplies matrices under the lock
/// of its CPU.
fn new_worker(build: &mut Builder, cpus: u32, work_ns: u64) -> Request {
    let p99 = MetricKind::Percentile(99.0);
    let wakeup = build.metric("Wakeup Latencies 99.0th", "us", Better::Lower, p99);
    let request = build.metric("Request Latencies 99.0th", "us", Better::Lower, p99);
    for (percent, text) in [(50.0, "50.0th"), (90.0, "90.0th"), (99.9, "99.9th")] {
        let kind = MetricKind::Percentile(percent);
        build.figure_of(wakeup, &format!("Wakeup Latencies {text}"), "us", kind);
        build.figure_of(request, &format!("Request Latencies {text}"), "us", kind);
    }
    let rps = build.metric("average rps", "1/s", Better::Higher, MetricKind::Rate);
    let locks = build.objects(ObjectKind::Mutex, cpus);
    Box::new(move |code, mailbox| {
        let (served, began, lock) = (code.slot(), code.slot(), code.slot());
        code.op(Op::Post(mailbox))
            .op(Op::AwaitServed { mailbox, slot: served })
            .op(Op::Measure { metric: wakeup, since: served })
            .op(Op::Mark(began))
            .sleep(100_000)
            .op(Op::Pick { slot: lock, which: Which::OfCpu { first: locks, count: cpus } })
            .op(Op::Lock(Which::Picked(lock)))
            .run(work_ns)
            .op(Op::Unlock(Which::Picked(lock)))
            .op(Op::Measure { metric: request, since: began })
            .op(Op::Count { metric: rps, amount: 1 });
    })
}

/// The percentiles that the old versions print.
fn old_figures(build: &mut Builder) -> MetricId {
    let p99 = MetricKind::Percentile(99.0);
    let latency = build.metric("Latency 99.0th", "us", Better::Lower, p99);
    for (percent, text) in [(50.0, "50.0th"), (75.0, "75.0th"), (90.0, "90.0th"), (95.0, "95.0th")]
    {
        let kind = MetricKind::Percentile(percent);
        build.figure_of(latency, &format!("Latency {text}"), "us", kind);
    }
    latency
}

/// Posts itself, sleeps until served, spins by the clock, and takes down how much later than the
/// spin's length it is.
fn spinning_worker(build: &mut Builder, spin_ns: u64) -> Request {
    let metric = old_figures(build);
    Box::new(move |code, mailbox| {
        let since = code.slot();
        code.op(Op::Post(mailbox))
            .op(Op::AwaitServed { mailbox, slot: since })
            .op(Op::Spin(Amount::Fixed(spin_ns)))
            .op(Op::MeasureBeyond { metric, since, allowance_ns: spin_ns, least_ns: 1_000 });
    })
}

/// Posts itself, sleeps until served, multiplies matrices, and takes down the time since it was
/// served, the work included.
fn old_worker(build: &mut Builder, work_ns: u64) -> Request {
    let latency = old_figures(build);
    Box::new(move |code, mailbox| {
        let served = code.slot();
        code.op(Op::Post(mailbox))
            .op(Op::AwaitServed { mailbox, slot: served })
            .run(work_ns)
            .op(Op::Measure { metric: latency, since: served });
    })
}

//! SPECjbb2005: one Java virtual machine whose warehouses each have a thread that carries out
//! transactions without a pause, stopped now and then by the garbage collector.

use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, ObjectKind, Op, Which, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Warehouses, a thread each; one per CPU if absent.
    pub warehouses: Option<u32>,
    /// The measurement of one point, s: 240 in the benchmark from the expected peak on, 30 before.
    pub seconds: u64,
    /// Computation of one transaction, us: *estimate*, a few ten thousand operations a second and
    /// thread of the machines of 2009.
    pub transaction_us: u64,
    /// Time between two collections, ms: *estimate*, the middle of 1 to 5 s.
    pub collection_period_ms: u64,
    /// Computation of each of the collector's threads in one collection, ms: *estimate*, within 5
    /// to 50 ms.
    pub collection_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            warehouses: None,
            seconds: 30,
            transaction_us: 40,
            collection_period_ms: 2_500,
            collection_ms: 20,
        }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        let warehouses = self.warehouses.unwrap_or(cpus);
        tasks_in_range(name, "warehouses", u64::from(warehouses))?;
        in_range(name, "transaction_us", self.transaction_us, (1, 1_000_000))?;
        in_range(name, "collection_period_ms", self.collection_period_ms, (1, 1_000_000))?;
        in_range(name, "collection_ms", self.collection_ms, (0, 1_000_000))?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let collectors = cpus.max(1);
        let mut build = Builder::new(name);
        let operations = build.metric("BOPS", "1/s", Better::Higher, MetricKind::Rate);
        let p99 = MetricKind::Percentile(99.0);
        let pauses = build.metric("collection p99", "us", Better::Lower, p99);
        build.figure_of(pauses, "collection mean", "us", MetricKind::Mean);
        // Each thread passes its own turnstile before every transaction, as it polls for a
        // safepoint. A transaction that has begun ends while the collector is at work already.
        let first = build.objects(ObjectKind::Semaphore(1), warehouses);
        let turn = build.object(ObjectKind::Counter);
        let all = Which::Next { first, count: warehouses, counter: turn };
        let begin = Which::One(build.object(ObjectKind::Barrier(collectors + 1)));
        let end = Which::One(build.object(ObjectKind::Barrier(collectors + 1)));
        let warehouse = build.program("Thread-", |code| {
            code.forever(|transaction| {
                transaction
                    .op(Op::Down(Which::Own { first }))
                    .op(Op::Up(Which::Own { first }))
                    .run(self.transaction_us * 1000)
                    .op(Op::Count { metric: operations, amount: 1 });
            });
        });
        let collector = build.program("GC Thread", |code| {
            code.forever(|collection| {
                collection.op(Op::Barrier(begin)).run(self.collection_ms * 1_000_000);
                collection.op(Op::Barrier(end));
            });
        });
        let machine = build.program("VM Thread", |code| {
            let asked = code.slot();
            code.forever(|collection| {
                collection.sleep(self.collection_period_ms * 1_000_000).op(Op::Mark(asked));
                collection.repeat(u64::from(warehouses), |each| {
                    each.op(Op::Down(all));
                });
                collection.op(Op::Barrier(begin)).op(Op::Barrier(end));
                collection.repeat(u64::from(warehouses), |each| {
                    each.op(Op::Up(all));
                });
                collection.op(Op::Measure { metric: pauses, since: asked });
            });
        });
        let main = build.program("java", |code| {
            code.op(Op::Fork { program: machine, count: 1, thread: true });
            code.op(Op::Fork { program: collector, count: collectors, thread: true });
            code.op(Op::Fork { program: warehouse, count: warehouses, thread: true });
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

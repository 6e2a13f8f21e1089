//! `pgbench -S`: clients that each talk to a server process of their own over a local socket. All
//! servers share buffers and the locks that guard them, whose cache lines go from one to the next.

use super::{Model, in_range, seconds_ns, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Access, Better, MetricKind, ObjectKind, Op, Which, Workload};

/// Options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `-c` and `-j`: clients, each with a thread and a server process.
    pub clients: u32,
    /// `-T`: how long, s.
    pub seconds: u64,
    /// What a server computes for a query beside its shared data, us: an estimate.
    pub query_us: u64,
    /// What a client computes between two queries, us: an estimate.
    pub client_us: u64,
    /// Shared cache lines, of which a query takes some: locks and buffer headers of the hot pages.
    pub shared_lines: u32,
    /// Atomic accesses to them per query: pins and locks of the pages of an index scan, an estimate.
    pub shared_accesses: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clients: 8,
            seconds: 10,
            query_us: 40,
            client_us: 15,
            shared_lines: 64,
            shared_accesses: 60,
        }
    }
}

/// Bytes of a query and of its answer, which both fit into a socket at once.
const MESSAGE_BYTES: u64 = 100;

impl Model for Options {
    fn workload(&self, name: &str, _: u32) -> Result<Workload, WorkloadError> {
        tasks_in_range(name, "clients", u64::from(self.clients))?;
        in_range(name, "query_us", self.query_us, (1, 1_000_000))?;
        in_range(name, "client_us", self.client_us, (1, 1_000_000))?;
        in_range(name, "shared_lines", u64::from(self.shared_lines), (1, 100_000))?;
        in_range(name, "shared_accesses", self.shared_accesses, (0, 100_000))?;
        let time_ns = seconds_ns(name, "seconds", self.seconds)?;
        let mut build = Builder::new(name);
        let transactions = build.metric("tps", "1/s", Better::Higher, MetricKind::Rate);
        let latency = build.metric("latency average", "us", Better::Lower, MetricKind::Mean);
        let p99 = MetricKind::Percentile(99.0);
        build.figure_of(latency, "latency p99", "us", p99);
        let first = build.objects(ObjectKind::Line, self.shared_lines);
        let line = Which::Random { first, count: self.shared_lines };
        let socket = ObjectKind::Channel { capacity_bytes: 4_096, sync_wakeup: true };
        let bytes = MESSAGE_BYTES;
        let mut programs = Vec::new();
        for _ in 0..self.clients {
            let query = Which::One(build.object(socket));
            let answer = Which::One(build.object(socket));
            let server = build.program("postgres", |code| {
                code.forever(|turn| {
                    turn.op(Op::Read { channel: query, bytes });
                    turn.run(self.query_us * 1_000);
                    turn.repeat(self.shared_accesses, |access| {
                        access.op(Op::Touch { line, access: Access::Atomic, count: 1 });
                    });
                    turn.op(Op::Write { channel: answer, bytes });
                });
            });
            let client = build.program("pgbench", |code| {
                let asked = code.slot();
                code.forever(|turn| {
                    turn.op(Op::Mark(asked)).op(Op::Write { channel: query, bytes });
                    turn.op(Op::Read { channel: answer, bytes });
                    turn.op(Op::Measure { metric: latency, since: asked });
                    turn.op(Op::Count { metric: transactions, amount: 1 });
                    turn.run(self.client_us * 1_000);
                });
            });
            programs.push((server, client));
        }
        let main = build.program("pgbench", |code| {
            for (server, client) in programs {
                code.op(Op::Fork { program: server, count: 1, thread: false });
                code.op(Op::Fork { program: client, count: 1, thread: true });
            }
            code.sleep(time_ns).op(Op::ExitGroup);
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

//! hackbench (rt-tests 2.4): groups of senders and receivers that pass messages through pipes or
//! sockets, each sender to each receiver of its group.

use super::{Model, in_range, tasks_in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{
    Better, MetricId, MetricKind, ObjectId, ObjectKind, Op, ProgramId, Which, Workload,
};

/// Options, by the tool's long names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// `-g`: groups.
    pub groups: u32,
    /// `-f`: senders, and receivers, of each group. (The tool prints twice this number.)
    pub fds: u32,
    /// `-l`: rounds of each sender, in which it writes to every receiver.
    pub loops: u64,
    /// `-s`: message size, bytes.
    pub datasize: u64,
    /// `-T`: threads instead of processes.
    pub threads: bool,
    /// `-p`: pipes instead of `socketpair(AF_UNIX, SOCK_STREAM)`.
    pub pipe: bool,
    /// Computation per `write()` beside the system call's own cost, ns: copying the message and
    /// queueing it. An estimate: a call takes 1 to 3 us in all.
    pub write_ns: u64,
    /// Computation per `read()`, likewise, ns.
    pub read_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            groups: 10,
            fds: 20,
            loops: 100,
            datasize: 100,
            threads: false,
            pipe: false,
            write_ns: 1_000,
            read_ns: 1_000,
        }
    }
}

/// Bytes that a pipe holds: 16 pages (`PIPE_DEF_BUFFERS`, include/linux/pipe_fs_i.h), into which
/// small writes merge.
const PIPE_BYTES: u64 = 65_536;

/// Memory that a socket's unread messages may use (`net.core.wmem_default` as the kernel computes
/// it, `SK_WMEM_MAX` in include/net/sock.h).
const SOCKET_MEMORY_BYTES: u64 = 212_992;

impl Options {
    /// Messages of all groups.
    pub fn messages(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.fds) * u64::from(self.fds) * self.loops
    }

    /// The channel between senders and one receiver.
    fn channel(&self) -> ObjectKind {
        let capacity_bytes = if self.pipe {
            PIPE_BYTES
        } else {
            // A message costs its buffer, a power of two that holds the data and the 320 bytes of
            // `skb_shared_info`, and 256 bytes of `sk_buff`: 768 for 100 bytes.
            let message_bytes = (self.datasize + 320).next_power_of_two() + 256;
            (SOCKET_MEMORY_BYTES / message_bytes).max(1) * self.datasize
        };
        // Both wake their reader synchronously: pipe_write() in fs/pipe.c, and
        // sock_def_readable() in net/core/sock.c.
        ObjectKind::Channel { capacity_bytes, sync_wakeup: true }
    }

    fn check(&self, name: &str) -> Result<(), WorkloadError> {
        in_range(name, "loops", self.loops, (1, 1_000_000_000))?;
        in_range(name, "datasize", self.datasize, (1, PIPE_BYTES))?;
        in_range(name, "fds", u64::from(self.fds), (1, 1_000))?;
        in_range(name, "groups", u64::from(self.groups), (1, 100_000))?;
        for (option, ns) in [("write_ns", self.write_ns), ("read_ns", self.read_ns)] {
            in_range(name, option, ns, (0, 1_000_000_000))?;
        }
        let tasks = u64::from(self.groups) * u64::from(self.fds) * 2;
        tasks_in_range(name, "tasks (2 * groups * fds)", tasks)
    }
}

/// What all tasks share.
struct Frame {
    ready: Which,
    gate: Which,
    messages: MetricId,
}

impl Model for Options {
    fn workload(&self, name: &str, _: u32) -> Result<Workload, WorkloadError> {
        self.check(name)?;
        let mut build = Builder::new(name);
        let time = build.metric("Time", "s", Better::Lower, MetricKind::MeanS);
        let messages = build.metric("messages", "1", Better::Higher, MetricKind::Total);
        build.figure_of(messages, "messages per second", "1/s", MetricKind::Rate);
        let tasks = self.groups * self.fds * 2;
        // The tool's tasks report through a ready pipe and poll another one, which is a barrier
        // that main opens last.
        let pipe = ObjectKind::Channel { capacity_bytes: PIPE_BYTES, sync_wakeup: true };
        let frame = Frame {
            ready: Which::One(build.object(pipe)),
            gate: Which::One(build.object(ObjectKind::Barrier(tasks + 1))),
            messages,
        };
        let main = build.declare("hackbench");
        let groups: Vec<_> = (0..self.groups).map(|_| self.group(&mut build, &frame)).collect();
        build.define(main, |code| {
            for (receiver, sender) in groups {
                for program in [receiver, sender] {
                    code.op(Op::Fork { program, count: self.fds, thread: self.threads });
                }
            }
            code.repeat(u64::from(tasks), |code| {
                code.op(Op::Read { channel: frame.ready, bytes: 1 });
            });
            let start = code.slot();
            code.op(Op::Mark(start)).op(Op::Barrier(frame.gate)).op(Op::Join);
            code.op(Op::Measure { metric: time, since: start });
        });
        build.spawn(main, 0, 0);
        build.finish()
    }
}

impl Options {
    /// Receivers and senders of one group.
    fn group(&self, build: &mut Builder, frame: &Frame) -> (ProgramId, ProgramId) {
        let first = build.objects(self.channel(), self.fds);
        let bytes = self.datasize;
        let ready = |code: &mut crate::build::Code| {
            code.op(Op::Write { channel: frame.ready, bytes: 1 }).op(Op::Barrier(frame.gate));
        };
        let receiver = build.program("hackbench", |code| {
            ready(code);
            code.repeat(u64::from(self.fds) * self.loops, |message| {
                message
                    .op(Op::Read { channel: Which::Own { first }, bytes })
                    .run(self.read_ns)
                    .op(Op::Count { metric: frame.messages, amount: 1 });
            });
        });
        let sender = build.program("hackbench", |code| {
            ready(code);
            code.repeat(self.loops, |round| {
                for fd in 0..self.fds {
                    let channel = Which::One(ObjectId(first.0 + fd));
                    round.run(self.write_ns).op(Op::Write { channel, bytes });
                }
            });
        });
        (receiver, sender)
    }
}

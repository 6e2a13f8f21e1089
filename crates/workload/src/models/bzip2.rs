//! bzip2 and bunzip2 of one file, as `time` sees them: a single thread that computes block by
//! block, reads and writes, and waits for the disk now and then.

use super::{Model, in_range};
use crate::build::Builder;
use crate::error::WorkloadError;
use crate::program::{Better, MetricKind, Op, Policy, Workload};
use schedlab_machine::{CpuId, CpuSet};

/// What a watchdog thread computes each time: it takes the time, *estimate*.
const WATCHDOG_NS: u64 = 2_000;

/// Time between two CPUs' coming up at boot, *estimate*.
const BRING_UP_NS: u64 = 1_000_000;

/// Options. The times are those of the machine's biggest CPU with its core to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Blocks of the file, each 900 kB before compression.
    pub blocks: u64,
    /// Computation of all blocks, ms.
    pub user_ms: u64,
    /// System calls for all blocks, ms.
    pub system_ms: u64,
    /// Waiting for the disk, all blocks together, ms.
    pub wait_ms: u64,
    /// Each CPU's watchdog thread (`watchdog/0`, ...) wakes this often, ms; 0: there is none. They
    /// are what happens on CPUs that are otherwise idle.
    pub watchdog_ms: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { blocks: 400, user_ms: 57_440, system_ms: 12_360, wait_ms: 2_370, watchdog_ms: 0 }
    }
}

impl Model for Options {
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError> {
        in_range(name, "blocks", self.blocks, (1, 1_000_000))?;
        in_range(name, "user_ms", self.user_ms, (1, 1_000_000_000))?;
        in_range(name, "system_ms", self.system_ms, (0, 1_000_000_000))?;
        in_range(name, "wait_ms", self.wait_ms, (0, 1_000_000_000))?;
        in_range(name, "watchdog_ms", self.watchdog_ms, (0, 1_000_000))?;
        let per_block_ns = |ms: u64| ms * 1_000_000 / self.blocks;
        let mut build = Builder::new(name);
        let elapsed = build.metric("elapsed", "s", Better::Lower, MetricKind::MeanS);
        let blocks = build.metric("blocks/s", "1/s", Better::Higher, MetricKind::Rate);
        let program = build.program("bunzip2", |code| {
            let start = code.slot();
            code.op(Op::Mark(start));
            code.repeat(self.blocks, |block| {
                if self.wait_ms > 0 {
                    block.sleep(per_block_ns(self.wait_ms));
                }
                block
                    .run(per_block_ns(self.user_ms))
                    .system(per_block_ns(self.system_ms))
                    .op(Op::Count { metric: blocks, amount: 1 });
            });
            code.op(Op::Measure { metric: elapsed, since: start }).op(Op::ExitGroup);
        });
        build.spawn(program, 0, 0);
        for cpu in 0..if self.watchdog_ms > 0 { cpus } else { 0 } {
            let watchdog = build.program(format!("watchdog/{cpu}"), |code| {
                let expiry = code.slot();
                let period_ns = self.watchdog_ms * 1_000_000;
                code.forever(|turn| {
                    turn.system(WATCHDOG_NS).op(Op::Timer { slot: expiry, period_ns });
                });
            });
            let attributes = build.attributes(watchdog);
            attributes.policy = Policy::Fifo(99);
            attributes.affinity = Some(CpuSet::from_iter([CpuId(cpu)]));
            // CPUs are brought up one after the other.
            build.spawn(watchdog, cpu, u64::from(cpu) * BRING_UP_NS);
        }
        build.finish()
    }
}

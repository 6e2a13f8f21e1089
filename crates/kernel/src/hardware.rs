//! What the scheduler asks of the machine it runs on.

use crate::fair::TaskId;
use schedlab_machine::CpuId;

pub use crate::decision::{Decision, Occasion, WakeCandidate};
pub use crate::rt::cpupri::memory::{Access, Symbol, Touch};

/// A kernel path whose time the CPU that runs it pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `try_to_wake_up()` up to the enqueue.
    Wakeup,
    /// A remote wake-up's enqueue on the target (`sched_ttwu_pending()`).
    RemoteWakeup,
    /// The switch from one task to another.
    ContextSwitch,
    /// The scheduler's part of the periodic tick.
    Tick,
    /// Moving a task to another run queue.
    Migrate,
    /// Entry and exit of the balancing softirq.
    Softirq,
    /// One balancing attempt, which reads the run queues of this many CPUs.
    Balance {
        /// How many.
        cpus: u32,
    },
}

/// Why a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// It still wants to run.
    Preempted,
    /// It waits for something.
    Blocked,
    /// It waits and must not be disturbed (`TASK_UNINTERRUPTIBLE` and other special states).
    BlockedSpecial,
    /// It is gone.
    Dead,
}

/// What the kernel's own tracepoints would tell, as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePoint {
    /// `sched_switch`; `None` is the idle task.
    Switch {
        /// Who leaves.
        prev: Option<TaskId>,
        /// Why.
        reason: LeaveReason,
        /// Who comes.
        next: Option<TaskId>,
    },
    /// `sched_waking`.
    Waking {
        /// The task.
        task: TaskId,
        /// Where it slept.
        target_cpu: CpuId,
    },
    /// `sched_wakeup`.
    Wakeup {
        /// The task.
        task: TaskId,
        /// Where it was enqueued.
        target_cpu: CpuId,
    },
    /// `sched_wakeup_new`.
    WakeupNew {
        /// The task.
        task: TaskId,
        /// Where it was born.
        target_cpu: CpuId,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The task.
        task: TaskId,
        /// From.
        from_cpu: CpuId,
        /// To.
        to_cpu: CpuId,
    },
    /// `sched_wake_idle_without_ipi`: a polling CPU was told by a flag.
    WakeIdleWithoutIpi {
        /// That CPU.
        target_cpu: CpuId,
    },
}

/// The machine, as scheduler code sees it.
pub trait Hardware {
    /// `sched_clock_cpu()` of the CPU that executes, ns.
    fn now_ns(&self) -> u64;
    /// The tick counter.
    fn jiffies(&self) -> u64;
    /// `arch_scale_freq_capacity()` of a CPU, out of 1024.
    fn frequency_capacity(&self, cpu: CpuId) -> u64;
    /// Time that interrupts took on `cpu` since this was last asked, ns.
    fn take_irq_ns(&mut self, cpu: CpuId) -> u64;
    /// True if the CPU idles in a loop that watches for work (`TIF_POLLING_NRFLAG`).
    fn polls_idle(&self, cpu: CpuId) -> bool;
    /// Makes the executing CPU spend the time of a path.
    fn charge(&mut self, cpu: CpuId, path: Path);
    /// `cpu`, which executes, has touched these lines of the root domain, in order: whoever models
    /// cache lines makes it spend what that takes.
    fn touch(&mut self, cpu: CpuId, touches: &[Touch]) {
        let _ = (cpu, touches);
    }
    /// `cpu`, which executes, needs `task`, which another CPU may be about to hand over: it spins until
    /// that is done (`p->on_cpu`, or the lock of the run queue).
    fn wait_for(&mut self, cpu: CpuId, task: TaskId) {
        let _ = (cpu, task);
    }
    /// Interrupts `to`, so that it looks at its run queue.
    fn send_reschedule(&mut self, from: CpuId, to: CpuId);
    /// Interrupts `to`, which idles, so that it balances; `polling_suffices` if a CPU that watches
    /// for work is told by a flag.
    fn send_kick(&mut self, from: CpuId, to: CpuId, polling_suffices: bool) {
        let _ = polling_suffices;
        self.send_reschedule(from, to);
    }
    /// Has [`Scheduler::timer`](crate::sched::Scheduler::timer) called on `cpu` at `at_ns`. Without
    /// timers, real-time tasks are not limited.
    fn arm_timer(&mut self, cpu: CpuId, at_ns: u64) {
        let _ = (cpu, at_ns);
    }
    /// How long a search that looks at the run queues of `cpus` other CPUs takes on `cpu`, ns. The
    /// path that searches is charged with its whole cost already; this is for kernels that
    /// measure their searches.
    fn scan_ns(&self, cpu: CpuId, cpus: u32) -> u64;
    /// A random number for `cpu`'s kernel code (`sched_rng()`).
    fn random(&mut self, cpu: CpuId) -> u32;
    /// Takes down a tracepoint hit on `cpu`.
    fn trace(&mut self, cpu: CpuId, point: TracePoint);
    /// True if decisions are to be explained; explanations cost time and memory.
    fn explains(&self) -> bool {
        false
    }
    /// Takes down an explained decision.
    fn explain(&mut self, cpu: CpuId, decision: Decision) {
        let _ = (cpu, decision);
    }
}

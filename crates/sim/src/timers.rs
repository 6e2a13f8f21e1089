//! Tasks that sleep until a time.

use crate::engine::Engine;
use crate::interpret::Step;
use crate::observe::Observer;
use crate::timer_queue::Timer;
use schedlab_kernel::fair::TaskId;
use schedlab_machine::CpuId;
use schedlab_workload::program::{SLOTS, Slot};

/// `timer_slack_ns` of a normal task: a sleep may end this much late, so that interrupts can be
/// shared.
const TIMER_SLACK_NS: u64 = 50_000;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn sleep_until(&mut self, cpu: CpuId, task: TaskId, soft_ns: u64) -> Step {
        // Real-time tasks are woken as exactly as can be.
        let slack_ns = if self.platform.is_rt(task) { 0 } else { TIMER_SLACK_NS };
        self.arm(cpu, task, (soft_ns, soft_ns.saturating_add(slack_ns)))
    }

    /// The task sleeps until its timer's interrupt, which comes between these times.
    pub(crate) fn arm(&mut self, cpu: CpuId, task: TaskId, (soft_ns, hard_ns): (u64, u64)) -> Step {
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        progress.waits_for = None;
        let timer = Timer { hard_ns, soft_ns, task: task.0 };
        self.platform.tell_armed(cpu, timer);
        self.platform.cpus[cpu.index()].timers.push(timer);
        self.timers_armed += 1;
        self.platform.clock_ns += self.platform.machine.path_costs().timer_program_ns;
        self.sleep(cpu)
    }

    /// Sleeps until a time of the run, unless it is past.
    pub(crate) fn until(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        slot: Option<Slot>,
        (soft_ns, hard_ns): (u64, u64),
    ) -> Step {
        let progress = &mut self.progress[task.index()];
        if progress.stage > 0 {
            return Step::Done;
        }
        if let Some(slot) = slot {
            progress.slots[usize::from(slot.0) % SLOTS] = soft_ns;
        }
        self.system_call();
        if soft_ns <= self.platform.clock_ns {
            return Step::Done;
        }
        self.arm(cpu, task, (soft_ns, hard_ns))
    }

    pub(crate) fn periodic(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        slot: Slot,
        period_ns: u64,
        restarts: bool,
    ) -> Step {
        let progress = &self.progress[task.index()];
        if progress.stage > 0 {
            return Step::Instant;
        }
        let slot = usize::from(slot.0) % SLOTS;
        let last_ns = progress.slots[slot];
        let (next_ns, sleeps) = self.next_expiry(last_ns, period_ns, restarts);
        self.progress[task.index()].slots[slot] = next_ns;
        if sleeps { self.sleep_until(cpu, task, next_ns) } else { Step::Done }
    }

    /// The expiry of a periodic timer after that at `last_ns` (0: never used), and whether it is
    /// yet to come.
    pub(crate) fn next_expiry(
        &mut self,
        last_ns: u64,
        period_ns: u64,
        restarts: bool,
    ) -> (u64, bool) {
        let now_ns = self.platform.clock_ns;
        self.system_call();
        let from_ns = if last_ns == 0 { now_ns } else { last_ns };
        let next_ns = from_ns.saturating_add(period_ns);
        let late = next_ns <= now_ns;
        (if late && restarts { now_ns } else { next_ns }, !late)
    }
}

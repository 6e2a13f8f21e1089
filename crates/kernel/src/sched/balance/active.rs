//! Active balancing: the stopper thread of a CPU takes the CPU from its task, so that the task can
//! be moved (`active_load_balance_cpu_stop()`).

use super::super::Scheduler;
use super::pull::Attempt;
use crate::fair::balance::CpuIdle;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// Sends the source CPU's stopper thread to work. `None` if its task may not run where it
    /// would go; `false` if the stopper is at work already.
    pub(super) fn ask_to_push(
        &mut self,
        attempt: &mut Attempt,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> Option<bool> {
        // The idle task may run on its own CPU alone.
        let curr = self.rqs[attempt.src_cpu.index()].curr;
        curr.filter(|&curr| self.allowed(curr).contains(attempt.this_cpu))?;
        attempt.all_pinned = false;
        let push_cpu = &mut self.rqs[attempt.src_cpu.index()].balance.push_cpu;
        if push_cpu.is_some() {
            return Some(false);
        }
        *push_cpu = Some(attempt.this_cpu);
        hardware.send_reschedule(executing_cpu, attempt.src_cpu);
        Some(true)
    }

    /// The stopper thread of `cpu` pushes a task to the CPU that asked for one.
    pub(super) fn push_running(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let Some(to_cpu) = self.rqs[cpu.index()].balance.push_cpu.take() else { return };
        if self.nr_running(cpu) == 0 {
            return;
        }
        // While the stopper runs, the task that it displaced waits like any other.
        if let Some(curr) = self.rqs[cpu.index()].curr
            && self.is_queued(curr)
        {
            self.preempt_for_stopper(cpu, curr, hardware);
        }
        let shared = self.domains.stack(to_cpu).iter();
        let level = shared.clone().position(|&m| self.domains.get(m).span.contains(cpu));
        let Some(level) = level else { return };
        if let Some(rules) = self.config.classic {
            return self.push_one_classic(rules, cpu, to_cpu, level, hardware);
        }
        let mut attempt =
            Attempt { active: true, ..Attempt::new(to_cpu, level, CpuIdle::Idle, cpu) };
        self.update_clock(cpu, hardware);
        let tasks = self.rqs[cpu.index()].tasks.len();
        for place in 0..tasks {
            let id = self.rqs[cpu.index()].tasks[place];
            if self.can_migrate(id, &mut attempt) {
                self.detach(id, to_cpu, cpu, hardware);
                self.rqs[to_cpu.index()].balance.levels[level].nr_balance_failed = 0;
                self.attach(id, to_cpu, cpu, hardware);
                return;
            }
        }
    }
}

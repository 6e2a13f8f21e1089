//! Which tasks classic balancing moves (`move_tasks()`, `balance_tasks()`, `can_migrate_task()`,
//! `move_one_task()`).

use super::super::super::Scheduler;
use super::super::super::run_queue::MIGRATION_COST_NS;
use super::super::pull::NR_MIGRATE_MAX;
use super::Attempt;
use crate::fair::TaskId;
use crate::fair::balance::CpuIdle;
use crate::fair::classic::ClassicRules;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// Pulls tasks until `amount` of load has moved (`move_tasks()`). From 2.6.34 on, the queue is
    /// gone through again as long as that moves any.
    pub(super) fn move_load(
        &mut self,
        attempt: &mut Attempt,
        src_cpu: CpuId,
        amount: u64,
        hardware: &mut impl Hardware,
    ) -> bool {
        let mut total = 0;
        loop {
            let moved = self.move_some(attempt, src_cpu, amount - total, hardware);
            total += moved;
            let content =
                attempt.idle == CpuIdle::NewlyIdle && self.nr_running(attempt.this_cpu) > 0;
            if moved == 0 || total >= amount || content || !attempt.rules.newidle_counts {
                return total > 0;
            }
        }
    }

    /// One pass over the queue, the task that came last first (`balance_tasks()`). Returns the load
    /// that moved. A queue whose tasks are all too heavy counts as one whose tasks may not move.
    fn move_some(
        &mut self,
        attempt: &mut Attempt,
        src_cpu: CpuId,
        amount: u64,
        hardware: &mut impl Hardware,
    ) -> u64 {
        attempt.all_pinned = false;
        if amount == 0 {
            return 0;
        }
        self.update_clock(src_cpu, hardware);
        self.update_clock(attempt.this_cpu, hardware);
        let mut all_pinned = true;
        let mut left = amount as i64;
        let mut loops = 0;
        let mut place = self.rqs[src_cpu.index()].tasks.len();
        while place > 0 && loops <= NR_MIGRATE_MAX {
            place -= 1;
            loops += 1;
            let id = self.rqs[src_cpu.index()].tasks[place];
            let weight = self.entities[id.index()].load.unscaled();
            if (weight >> 1 > left as u64 && !attempt.empties)
                || !self.can_migrate_classic(id, attempt, src_cpu, &mut all_pinned)
            {
                continue;
            }
            self.detach(id, attempt.this_cpu, attempt.executing_cpu, hardware);
            self.attach(id, attempt.this_cpu, attempt.executing_cpu, hardware);
            left -= weight as i64;
            // A preemptible kernel that wants to idle is content with one.
            if attempt.idle == CpuIdle::NewlyIdle || left <= 0 {
                break;
            }
        }
        attempt.all_pinned = all_pinned;
        (amount as i64 - left) as u64
    }

    /// `can_migrate_task()`.
    fn can_migrate_classic(
        &self,
        id: TaskId,
        attempt: &Attempt,
        src_cpu: CpuId,
        all_pinned: &mut bool,
    ) -> bool {
        if !self.allowed(id).contains(attempt.this_cpu) {
            return false;
        }
        *all_pinned = false;
        let src = &self.rqs[src_cpu.index()];
        if src.curr == Some(id) {
            return false;
        }
        let (cpu, level) = (attempt.this_cpu, attempt.level);
        let failed = self.rqs[cpu.index()].balance.levels[level].nr_balance_failed;
        if failed > self.domain_of(cpu, level).cache_nice_tries {
            return true;
        }
        // Whether the cache still holds what the task needs (task_hot()).
        if self.nr_running(attempt.executing_cpu) > 0 && src.fair.is_buddy(id) {
            return false;
        }
        let ran_ns = self.entities[id.index()].exec_start_ns;
        src.clock.clock_task.wrapping_sub(ran_ns) as i64 >= MIGRATION_COST_NS as i64
    }

    /// The migration thread of `cpu` pushes one of its tasks to `to_cpu` (`move_one_task()`).
    pub(in super::super) fn push_one_classic(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        to_cpu: CpuId,
        level: usize,
        hardware: &mut impl Hardware,
    ) {
        let attempt =
            Attempt { executing_cpu: cpu, ..self.attempt(rules, to_cpu, level, CpuIdle::Idle) };
        self.update_clock(cpu, hardware);
        for place in (0..self.rqs[cpu.index()].tasks.len()).rev() {
            let id = self.rqs[cpu.index()].tasks[place];
            if self.can_migrate_classic(id, &attempt, cpu, &mut true) {
                self.detach(id, to_cpu, cpu, hardware);
                self.attach(id, to_cpu, cpu, hardware);
                return;
            }
        }
    }
}

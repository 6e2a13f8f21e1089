//! Classic balancing by a CPU that runs out of tasks (`idle_balance()`, `load_balance_newidle()`).

use super::super::super::Scheduler;
use super::super::super::run_queue::MIGRATION_COST_NS;
use super::Moved;
use crate::fair::balance::{BalanceMode, CpuIdle};
use crate::fair::classic::ClassicRules;
use crate::fair::nohz::after;
use crate::fair::topology::DomainFlags;
use crate::hardware::Hardware;
use schedlab_machine::{CpuId, CpuSet};

impl Scheduler {
    /// Looks for a task before `cpu` idles, if it usually idles for long enough
    /// (`idle_balance()`).
    pub(in super::super) fn idle_balance_classic(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let rq = &mut self.rqs[cpu.index()];
        rq.idle_stamp_ns = rq.clock.clock;
        if rq.avg_idle_ns < MIGRATION_COST_NS {
            return;
        }
        let mut next_balance = hardware.jiffies() + u64::from(self.config.hz);
        let mut pulled = false;
        for level in 0..self.domains.stack(cpu).len() {
            let domain = self.domains.get(self.domains.stack(cpu)[level]);
            if domain.flags.has(DomainFlags::BALANCE_NEWIDLE) {
                let mut goes_on = true;
                let idle = CpuIdle::NewlyIdle;
                let moved = if rules.newidle_counts {
                    self.load_balance(rules, cpu, level, idle, cpu, &mut goes_on, hardware)
                } else {
                    self.load_balance_newidle(rules, cpu, level, hardware)
                };
                pulled = moved != Moved::Nothing;
            }
            let state = &self.rqs[cpu.index()].balance.levels[level];
            let due = state.last_balance + self.jiffies_of_ms(state.interval_ms);
            next_balance = next_balance.min(due);
            if pulled {
                self.rqs[cpu.index()].idle_stamp_ns = 0;
                break;
            }
        }
        let balance = &mut self.rqs[cpu.index()].balance;
        if pulled || after(hardware.jiffies(), balance.next_balance) {
            balance.next_balance = next_balance;
        }
    }

    /// Before 2.6.34, a CPU that was about to idle kept no intervals (`load_balance_newidle()`).
    fn load_balance_newidle(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        level: usize,
        hardware: &mut impl Hardware,
    ) -> Moved {
        if rules.mode == BalanceMode::None {
            return Moved::Nothing;
        }
        let mut attempt = self.attempt(rules, cpu, level, CpuIdle::NewlyIdle);
        let mut candidates = CpuSet::first_n(self.rqs.len());
        let (src_cpu, moved) = loop {
            let mut goes_on = true;
            let found = self.find_busiest(&mut attempt, &candidates, &mut goes_on, hardware);
            let Some((src_cpu, amount)) = found else {
                if attempt.nothing() == Moved::Nothing {
                    self.rqs[cpu.index()].balance.levels[level].nr_balance_failed = 0;
                }
                return attempt.nothing();
            };
            if self.nr_running(src_cpu) <= 1 {
                break (src_cpu, false);
            }
            let moved = self.move_load(&mut attempt, src_cpu, amount, hardware);
            candidates.remove(src_cpu);
            if !attempt.all_pinned || candidates.is_empty() {
                break (src_cpu, moved);
            }
        };
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if moved {
            state.nr_balance_failed = 0;
            return Moved::Tasks;
        }
        if attempt.nothing() == Moved::SiblingBusy || rules.mc_power_savings < 2 {
            return Moved::SiblingBusy;
        }
        state.nr_balance_failed += 1;
        if state.nr_balance_failed > 2 && self.may_push(src_cpu, cpu) {
            self.ask_stopper(src_cpu, cpu, cpu, hardware);
            return Moved::Nothing;
        }
        Moved::SiblingBusy
    }
}

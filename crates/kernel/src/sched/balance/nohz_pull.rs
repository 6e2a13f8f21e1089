//! Idle balancing by the owner, an idle CPU that keeps its tick (2.6.21 to 2.6.35). The decisions
//! are in [`crate::fair::nohz::pull`].

use super::super::Scheduler;
use super::tickless::OlderNohz;
use crate::fair::balance::CpuIdle;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// The tick's part (`trigger_load_balance()`).
    pub(super) fn trigger_pull(&mut self, cpu: CpuId, due: bool, hardware: &mut impl Hardware) {
        let idle = self.rqs[cpu.index()].balance.idle_balance;
        let OlderNohz::Pull(pull) = &mut self.older_nohz else { return };
        let outcome = pull.tick(cpu, idle, due, &self.domains);
        self.rqs[cpu.index()].balance.softirq |= outcome.softirq;
        if let Some(resched) = outcome.resched {
            self.resched_cpu(resched, cpu, hardware);
        }
    }

    /// The softirq's part: the owner balances for all that sleep without a tick, until work comes
    /// (`run_rebalance_domains()`).
    pub(super) fn pull_for_others(
        &mut self,
        cpu: CpuId,
        was_idle: bool,
        hardware: &mut impl Hardware,
    ) {
        let OlderNohz::Pull(pull) = &self.older_nohz else { return };
        for other in pull.others(cpu, was_idle).iter() {
            if self.need_resched(cpu) {
                return;
            }
            self.rebalance(other, CpuIdle::Idle, cpu, hardware);
            self.advance_to(cpu, other);
        }
    }

    /// `cpu` balances again no later than `other` is due.
    pub(super) fn advance_to(&mut self, cpu: CpuId, other: CpuId) {
        let due = self.rqs[other.index()].balance.next_balance;
        let own = &mut self.rqs[cpu.index()].balance.next_balance;
        if crate::fair::nohz::after(*own, due) {
            *own = due;
        }
    }
}

//! Idle balancing by a kicked CPU (2.6.36 to 3.12). The decisions are in [`crate::fair::nohz::push`].

use super::super::Scheduler;
use super::tickless::OlderNohz;
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::NohzRules;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// The tick's part, when this CPU need not balance itself: a kick, if it helps.
    pub(super) fn consider_push(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let idle = self.rqs[cpu.index()].balance.idle_balance;
        let nr_running = self.cpus[cpu.index()].nr_running;
        let OlderNohz::Push(push) = &mut self.older_nohz else { return };
        let by_domain = matches!(self.config.nohz, NohzRules::PushByDomain { .. });
        let needed = if by_domain {
            push.kick_needed_by_domain(cpu, &self.domains, idle, nr_running, hardware.jiffies())
        } else {
            push.kick_needed(cpu, idle, nr_running, hardware.jiffies())
        };
        if !needed {
            return;
        }
        if let Some(target) = push.kick() {
            self.rqs[target.index()].balance.kick_pending = true;
            self.rqs[cpu.index()].balance.counts.kicks_sent += 1;
            // A function call, for which even a CPU that polls is interrupted.
            hardware.send_kick(cpu, target, false);
        }
    }

    /// The interrupt's part: it raises the softirq (`trigger_sched_softirq()`). In 2.6.36 that is
    /// all; later, a CPU that idles notes that it does, and one that does not drops the kick
    /// (6eb57e0d65eb of v3.2 and 873b4c65b519 of v3.10).
    pub(super) fn accept_push(&mut self, cpu: CpuId, stale_kick: bool) {
        let idles = self.cpus[cpu.index()].is_idle();
        let balance = &mut self.rqs[cpu.index()].balance;
        if !balance.kick_pending {
            return;
        }
        if stale_kick || idles {
            balance.softirq = true;
            balance.idle_balance |= !stale_kick;
            return;
        }
        balance.kick_pending = false;
        balance.counts.kicks_refused += 1;
        if let OlderNohz::Push(push) = &mut self.older_nohz {
            push.kicked.remove(cpu);
        }
    }

    /// The softirq's part: a CPU that was kicked, and takes itself to be idle, balances for all that
    /// sleep without a tick, until work comes (`nohz_idle_balance()`). In 2.6.36 its last tick says
    /// whether it idles: if that is outdated, the kick stays, and no other comes.
    pub(super) fn push_for_others(
        &mut self,
        cpu: CpuId,
        was_idle: bool,
        hardware: &mut impl Hardware,
    ) {
        let OlderNohz::Push(push) = &mut self.older_nohz else { return };
        let Some(others) = push.others(cpu) else { return };
        let pending = std::mem::take(&mut self.rqs[cpu.index()].balance.kick_pending);
        if !was_idle {
            self.rqs[cpu.index()].balance.counts.kicks_refused += u64::from(pending);
            if self.config.nohz != (NohzRules::Push { stale_kick: true }) {
                push.kicked.remove(cpu);
            }
            return;
        }
        self.rqs[cpu.index()].balance.counts.kicks_answered += u64::from(pending);
        for other in others.iter() {
            if self.need_resched(cpu) {
                break;
            }
            self.update_classic_load(cpu, hardware.jiffies());
            self.rebalance(other, CpuIdle::Idle, cpu, hardware);
            self.advance_to(cpu, other);
        }
        let next_balance = self.rqs[cpu.index()].balance.next_balance;
        if let OlderNohz::Push(push) = &mut self.older_nohz {
            push.answered(cpu, next_balance);
        }
    }
}

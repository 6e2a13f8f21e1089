//! Balancing by a CPU that runs out of tasks (`sched_balance_newidle()`).

use super::super::Scheduler;
use super::super::run_queue::MIGRATION_COST_NS;
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::{KickFlags, after};
use crate::fair::topology::DomainFlags;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

impl Scheduler {
    /// Looks for a task that waits elsewhere. `true` if there is one to run now.
    pub(in super::super) fn balance_newidle(
        &mut self,
        cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> bool {
        if self.cpus[cpu.index()].ttwu_pending {
            return false;
        }
        if let Some(rules) = self.config.classic {
            self.idle_balance_classic(rules, cpu, hardware);
            return self.nr_running(cpu) > 0;
        }
        let rq = &mut self.rqs[cpu.index()];
        // The time that the search takes counts as idle.
        rq.idle_stamp_ns = rq.clock.clock;
        let mut next_balance = hardware.jiffies() + u64::from(self.config.hz);
        let pulled = self.pull_newly_idle(cpu, &mut next_balance, hardware);
        let rq = &mut self.rqs[cpu.index()];
        if after(rq.balance.next_balance, next_balance) {
            rq.balance.next_balance = next_balance;
        }
        if pulled {
            rq.idle_stamp_ns = 0;
        } else {
            self.consider_blocked_load(cpu, hardware.jiffies());
        }
        pulled
    }

    fn pull_newly_idle(
        &mut self,
        cpu: CpuId,
        next_balance: &mut u64,
        hardware: &mut impl Hardware,
    ) -> bool {
        let Some(lowest) = self.rqs[cpu.index()].balance.levels.first() else { return false };
        let lowest_cost_ns = lowest.max_newidle_lb_cost_ns;
        let avg_idle_ns = self.rqs[cpu.index()].avg_idle_ns;
        let too_short = avg_idle_ns < lowest_cost_ns
            || (self.config.balance.newidle_needs_idle_time && avg_idle_ns < MIGRATION_COST_NS);
        self.rt.map.read_spare();
        if !self.overloaded || too_short {
            self.advance_next_balance(cpu, 0, next_balance);
            return false;
        }
        self.age_blocked_averages(cpu, hardware);
        // Others are to see that its last task left, too.
        self.publish(cpu);
        let (mut spent_ns, mut since_ns) = (0, hardware.now_ns());
        let mut pulled = false;
        for level in 0..self.domains.stack(cpu).len() {
            self.advance_next_balance(cpu, level, next_balance);
            let state = &self.rqs[cpu.index()].balance.levels[level];
            if avg_idle_ns < spent_ns + state.max_newidle_lb_cost_ns {
                break;
            }
            let flags = self.domains.get(self.domains.stack(cpu)[level]).flags;
            let mut goes_on = true;
            if flags.has(DomainFlags::BALANCE_NEWIDLE) {
                let Some(weight) = self.newidle_weight(cpu, level, hardware) else { continue };
                let outcome = self.balance_level(cpu, level, CpuIdle::NewlyIdle, cpu, hardware);
                pulled = outcome.moved > 0;
                goes_on = outcome.goes_on;
                let now_ns = hardware.now_ns();
                let cost_ns = now_ns.saturating_sub(since_ns);
                spent_ns += cost_ns;
                since_ns = now_ns;
                let success = if pulled { weight } else { 0 };
                self.update_newidle_cost(cpu, level, cost_ns, success, hardware.jiffies());
            }
            if pulled || !goes_on {
                break;
            }
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.max_idle_balance_cost_ns = rq.max_idle_balance_cost_ns.max(spent_ns);
        pulled || self.nr_running(cpu) > 0
    }

    /// What a success counts, so that attempts that are left out do not lower the rate; `None` if
    /// this one is left out (`NI_RANDOM`).
    fn newidle_weight(
        &mut self,
        cpu: CpuId,
        level: usize,
        hardware: &mut impl Hardware,
    ) -> Option<u32> {
        if !self.config.balance.newidle_random {
            return Some(1);
        }
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        let weight = 1 + state.newidle_ratio;
        if hardware.random(cpu) % 1024 > weight {
            state.count_newidle(0);
            return None;
        }
        Some((1024 + weight / 2) / weight)
    }

    /// `update_next_balance()`.
    fn advance_next_balance(&self, cpu: CpuId, level: usize, next_balance: &mut u64) {
        let last = self.rqs[cpu.index()].balance.levels[level].last_balance;
        *next_balance = (*next_balance).min(last + self.interval(cpu, level, false));
    }

    /// The CPU will itself refresh the averages of idle CPUs before it sleeps, if that is due and
    /// it usually sleeps for long (`nohz_newidle_balance()`).
    fn consider_blocked_load(&mut self, cpu: CpuId, jiffies: u64) {
        let due = self.nohz.has_blocked && !after(self.nohz.next_blocked, jiffies);
        let rq = &mut self.rqs[cpu.index()];
        if due && rq.avg_idle_ns >= MIGRATION_COST_NS {
            rq.balance.asked = rq.balance.asked.with(KickFlags::NEW_ILB);
        }
    }
}

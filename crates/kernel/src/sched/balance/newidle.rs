//! Balancing by a CPU that runs out of tasks (`sched_balance_newidle()`).

use super::super::Scheduler;
use super::super::run_queue::MIGRATION_COST_NS;
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::{KickFlags, after};
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
        let rq = &self.rqs[cpu.index()];
        let Some(lowest) = rq.balance.levels.first() else { return false };
        let avg_idle_ns = rq.avg_idle_ns;
        let too_short = avg_idle_ns < lowest.max_newidle_lb_cost_ns
            || (self.config.balance.newidle_needs_idle_time && avg_idle_ns < MIGRATION_COST_NS);
        self.rt.map.read_spare();
        if !self.overloaded || too_short {
            *next_balance = (*next_balance).min(lowest.next_balance(false));
            return false;
        }
        self.age_blocked_averages(cpu, hardware);
        // Others are to see that its last task left, too.
        self.publish(cpu);
        let (mut spent_ns, mut since_ns) = (0, hardware.now_ns());
        let mut pulled = false;
        for level in 0..self.rqs[cpu.index()].balance.levels.len() {
            // update_next_balance()
            let state = &self.rqs[cpu.index()].balance.levels[level];
            *next_balance = (*next_balance).min(state.next_balance(false));
            if avg_idle_ns < spent_ns + state.max_newidle_lb_cost_ns {
                break;
            }
            let mut goes_on = true;
            if state.newidle {
                let Some(weight) = self.newidle_weight(cpu, level, hardware) else { continue };
                let outcome = self.balance_level(cpu, level, CpuIdle::NewlyIdle, cpu, hardware);
                pulled = outcome.moved > 0;
                goes_on = outcome.goes_on;
                let now_ns = hardware.now_ns();
                let cost_ns = now_ns.saturating_sub(since_ns);
                spent_ns += cost_ns;
                since_ns = now_ns;
                let success = if pulled { weight } else { 0 };
                let (jiffies, hz) = (hardware.jiffies(), u64::from(self.config.hz));
                let state = &mut self.rqs[cpu.index()].balance.levels[level];
                state.note_newidle(cost_ns, success, jiffies, hz);
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

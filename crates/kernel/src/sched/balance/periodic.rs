//! Balancing by the tick: which domains are due, and the softirq that visits them
//! (`sched_balance_trigger()`, `sched_balance_softirq()`, `sched_balance_domains()`).

use super::super::Scheduler;
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::{NohzRules, after};
use crate::hardware::{Hardware, Path};
use schedlab_machine::CpuId;

/// When nothing is due, balancing is looked at again after this time, s.
pub(super) const NOTHING_DUE_S: u64 = 60;

impl Scheduler {
    /// The tick's part: raises the softirq if some domain is due, and considers waking an idle CPU
    /// (`sched_balance_trigger()`).
    pub(in super::super) fn trigger_balance(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let state = &self.cpus[cpu.index()];
        // Up to v3.2, only what runs was asked for, not what waits (idle_at_tick).
        let idles = match self.config.classic {
            Some(rules) if rules.v3_9.is_none() => state.curr_is_idle,
            _ => state.is_idle(),
        };
        self.rqs[cpu.index()].balance.idle_balance = idles;
        if self.domains.stack(cpu).is_empty() {
            return;
        }
        let due = !after(self.rqs[cpu.index()].balance.next_balance, hardware.jiffies());
        match self.config.nohz {
            NohzRules::Modern {} => {
                self.rqs[cpu.index()].balance.softirq |= due;
                self.kick_idle_balancer(cpu, hardware);
            }
            NohzRules::Pull {} => self.trigger_pull(cpu, due, hardware),
            // Another CPU is only thought of when there is nothing to do for this one.
            NohzRules::Push { .. } if due => self.rqs[cpu.index()].balance.softirq = true,
            NohzRules::Push { .. } => self.consider_push(cpu, hardware),
            NohzRules::PushByDomain { .. } => {
                self.rqs[cpu.index()].balance.softirq |= due;
                self.consider_push(cpu, hardware);
            }
        }
    }

    /// The next look for softirqs will find one that balances.
    #[inline]
    pub fn softirq_pending(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].balance.softirq
    }

    /// Runs the balancing softirq of `cpu` if it is raised (`sched_balance_softirq()`); interrupts
    /// end with it.
    #[inline]
    pub fn softirq(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if std::mem::take(&mut self.rqs[cpu.index()].balance.softirq) {
            self.run_softirq(cpu, hardware);
        }
    }

    fn run_softirq(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        hardware.charge(cpu, Path::Softirq);
        self.rqs[cpu.index()].balance.counts.softirqs += 1;
        let was_idle = self.rqs[cpu.index()].balance.idle_balance;
        if self.balance_for_idle(cpu, was_idle, hardware) {
            return;
        }
        let idle = if was_idle { CpuIdle::Idle } else { CpuIdle::Busy };
        self.rebalance(cpu, idle, cpu, hardware);
        match self.config.nohz {
            NohzRules::Modern {} => {}
            NohzRules::Pull {} => self.pull_for_others(cpu, was_idle, hardware),
            NohzRules::Push { .. } | NohzRules::PushByDomain { .. } => {
                self.push_for_others(cpu, was_idle, hardware);
            }
        }
    }

    /// Balances `cpu`, whose averages, if there are any, are brought to the present before.
    pub(super) fn rebalance(
        &mut self,
        cpu: CpuId,
        idle: CpuIdle,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        if let Some(rules) = self.config.classic {
            return self.rebalance_classic(rules, cpu, idle, executing_cpu, hardware);
        }
        self.update_blocked_averages(cpu, hardware);
        self.balance_domains(cpu, idle, executing_cpu, hardware);
    }

    /// Balances `cpu` in each of its domains that is due (`sched_balance_domains()`).
    pub(super) fn balance_domains(
        &mut self,
        cpu: CpuId,
        idle: CpuIdle,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let hz = u64::from(self.config.hz);
        let mut idle = idle;
        let mut busy = idle != CpuIdle::Idle && !self.cpus[cpu.index()].runs_only_idle_policy();
        let mut jiffies = hardware.jiffies();
        let far = jiffies + NOTHING_DUE_S * hz;
        let mut next_balance = far;
        let (mut goes_on, mut needs_decay) = (true, false);
        let mut cost_ns = 0;
        for level in 0..self.rqs[cpu.index()].balance.levels.len() {
            let mut state = &mut self.rqs[cpu.index()].balance.levels[level];
            needs_decay = state.note_newidle(0, 0, jiffies, hz);
            cost_ns += state.max_newidle_lb_cost_ns;
            if !goes_on {
                if needs_decay {
                    continue;
                }
                break;
            }
            // Of the widest domains, one at a time is balanced in the whole machine.
            let serial = state.serial;
            if !serial || hardware.now_ns() >= self.serial_until_ns {
                if !after(state.next_balance(busy), jiffies) {
                    let outcome = self.balance_level(cpu, level, idle, executing_cpu, hardware);
                    goes_on = outcome.goes_on;
                    if outcome.moved > 0 {
                        let idles = self.cpus[cpu.index()].is_idle();
                        idle = if idles { CpuIdle::Idle } else { CpuIdle::Busy };
                        busy = !idles && !self.cpus[cpu.index()].runs_only_idle_policy();
                    }
                    jiffies = hardware.jiffies();
                    state = &mut self.rqs[cpu.index()].balance.levels[level];
                    state.last_balance = jiffies;
                }
                if serial {
                    self.serial_until_ns = hardware.now_ns();
                }
            }
            next_balance = next_balance.min(state.next_balance(busy));
        }
        let queue = &mut self.rqs[cpu.index()];
        if needs_decay {
            queue.max_idle_balance_cost_ns =
                super::super::run_queue::MIGRATION_COST_NS.max(cost_ns);
        }
        if next_balance < far {
            queue.balance.next_balance = next_balance;
        }
    }
}

impl super::LevelState {
    /// Remembers what balancing before idling cost, forgets it slowly, and counts whether it paid
    /// (`update_newidle_cost()`). `true` if something was forgotten.
    #[inline]
    pub(super) fn note_newidle(
        &mut self,
        cost_ns: u64,
        success: u32,
        jiffies: u64,
        hz: u64,
    ) -> bool {
        if cost_ns != 0 {
            self.count_newidle(success);
        }
        if cost_ns > self.max_newidle_lb_cost_ns {
            self.max_newidle_lb_cost_ns = cost_ns;
            self.last_decay_max_lb_cost = jiffies;
        } else if after(jiffies, self.last_decay_max_lb_cost + hz) {
            self.max_newidle_lb_cost_ns = self.max_newidle_lb_cost_ns * 253 / 256;
            self.last_decay_max_lb_cost = jiffies;
            return true;
        }
        false
    }

    /// `update_newidle_stats()`.
    pub(super) fn count_newidle(&mut self, success: u32) {
        self.newidle_call += 1;
        self.newidle_success = self.newidle_success.wrapping_add(success);
        if self.newidle_call >= 1024 {
            self.newidle_ratio = self.newidle_success;
            self.newidle_call /= 2;
            self.newidle_success /= 2;
        }
    }
}

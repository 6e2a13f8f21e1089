//! Balancing for CPUs that sleep without a tick: one of them is kicked and does it for all
//! (`nohz_balancer_kick()`, `_nohz_idle_balance()`).

use super::super::Scheduler;
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::{Kick, KickFlags, after};
use crate::hardware::{Hardware, Path};
use crate::pelt::LOAD_AVG_PERIOD;
use schedlab_machine::CpuId;

impl Scheduler {
    /// `cpu` stops its tick to idle (`nohz_balance_enter_idle()`).
    pub(super) fn enter_idle_mask(&mut self, cpu: CpuId) {
        let balance = &mut self.rqs[cpu.index()].balance;
        balance.has_blocked_load = true;
        self.nohz.has_blocked = true;
        if balance.tick_stopped || balance.levels.is_empty() {
            return;
        }
        balance.tick_stopped = true;
        self.nohz.idle_cpus.insert(cpu);
        if self.domains.llc(cpu).is_some() && !std::mem::replace(&mut balance.llc_idle, true) {
            self.llcs[self.domains.llc_id(cpu).index()].nr_busy_cpus -= 1;
        }
        self.nohz.needs_update = true;
    }

    /// The first busy tick after that (`nohz_balance_exit_idle()`).
    fn leave_idle_mask(&mut self, cpu: CpuId) {
        let balance = &mut self.rqs[cpu.index()].balance;
        if !std::mem::take(&mut balance.tick_stopped) {
            return;
        }
        self.nohz.idle_cpus.remove(cpu);
        if std::mem::take(&mut balance.llc_idle) {
            self.llcs[self.domains.llc_id(cpu).index()].nr_busy_cpus += 1;
        }
    }

    /// A busy CPU's tick wakes an idle CPU if that could help (`nohz_balancer_kick()`).
    pub(super) fn kick_idle_balancer(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if self.rqs[cpu.index()].balance.idle_balance {
            return;
        }
        self.leave_idle_mask(cpu);
        let kick = Kick {
            domains: &self.domains,
            cpus: &self.cpus,
            llcs: &self.llcs,
            // The first set of allowed CPUs is that of all.
            housekeeping: &self.affinities[0],
        };
        let flags = kick.flags(cpu, &self.nohz, hardware.jiffies());
        if flags == KickFlags::default() {
            return;
        }
        let target = kick.target(cpu, &self.nohz);
        if flags.has(KickFlags::BALANCE) {
            self.nohz.next_balance = hardware.jiffies() + 1;
        }
        let Some(target) = target else { return };
        let asked = &mut self.rqs[target.index()].balance.asked;
        let before = std::mem::replace(asked, asked.with(flags));
        // Whoever set the first flag has sent the interrupt.
        if !before.has(KickFlags::KICKS) {
            self.rqs[target.index()].balance.kick_pending = true;
            self.rqs[cpu.index()].balance.counts.kicks_sent += 1;
            hardware.send_kick(cpu, target, true);
        }
    }

    /// The kicked CPU takes the work on if it still idles (`nohz_csd_func()`).
    pub(super) fn accept_kick(&mut self, cpu: CpuId) {
        let idles = self.cpus[cpu.index()].is_idle();
        let balance = &mut self.rqs[cpu.index()].balance;
        if !balance.asked.has(KickFlags::KICKS) {
            return;
        }
        let flags = std::mem::take(&mut balance.asked);
        balance.idle_balance = idles;
        balance.kick_pending = false;
        if idles {
            balance.accepted = flags;
            balance.softirq = true;
            balance.counts.kicks_answered += 1;
        } else {
            balance.counts.kicks_refused += 1;
        }
    }

    /// The softirq's part. `true` if the CPU was kicked and has done it (`nohz_idle_balance()`).
    pub(super) fn balance_for_idle(
        &mut self,
        cpu: CpuId,
        was_idle: bool,
        hardware: &mut impl Hardware,
    ) -> bool {
        let flags = std::mem::take(&mut self.rqs[cpu.index()].balance.accepted);
        if flags == KickFlags::default() || !was_idle {
            return false;
        }
        self.visit_idle(cpu, flags, hardware);
        true
    }

    /// Before `cpu` sleeps, it refreshes averages if it was found to have the time
    /// (`nohz_run_idle_balance()`).
    pub fn before_idle(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        let asked = &mut self.rqs[cpu.index()].balance.asked;
        let flags = *asked;
        asked.0 &= !KickFlags::NEW_ILB.0;
        if flags == KickFlags::NEW_ILB && !self.need_resched(cpu) {
            self.visit_idle(cpu, KickFlags::STATS, hardware);
        }
    }

    /// Visits every CPU without a tick, the own one last (`_nohz_idle_balance()`).
    fn visit_idle(&mut self, cpu: CpuId, flags: KickFlags, hardware: &mut impl Hardware) {
        let start = hardware.jiffies();
        let far = start + 60 * u64::from(self.config.hz);
        let mut next_balance = far;
        let mut blocked_load = false;
        let stats = flags.has(KickFlags::STATS);
        if stats {
            self.nohz.has_blocked = false;
        }
        if flags.has(KickFlags::NEXT) {
            self.nohz.needs_update = false;
        }
        let idle = self.nohz.idle_cpus;
        for other in idle.iter_wrapping(CpuId(cpu.0 + 1)) {
            if !self.cpus[other.index()].is_idle() {
                continue;
            }
            if !self.cpus[cpu.index()].is_idle() && self.need_resched(cpu) {
                // Work has come: whoever is kicked next goes on.
                self.nohz.has_blocked |= stats;
                self.nohz.needs_update |= flags.has(KickFlags::NEXT);
                return;
            }
            hardware.charge(cpu, Path::Balance { cpus: 1 });
            if stats {
                blocked_load |= self.refresh_idle(other, hardware);
            }
            let due = self.rqs[other.index()].balance.next_balance;
            if !after(due, hardware.jiffies()) {
                self.update_clock(other, hardware);
                if flags.has(KickFlags::BALANCE) {
                    match self.config.classic {
                        Some(rules) => {
                            self.rebalance_classic(rules, other, CpuIdle::Idle, cpu, hardware);
                        }
                        None => self.balance_domains(other, CpuIdle::Idle, cpu, hardware),
                    }
                }
            }
            next_balance = next_balance.min(self.rqs[other.index()].balance.next_balance);
        }
        if next_balance < far {
            self.nohz.next_balance = next_balance;
        }
        if stats {
            self.nohz.next_blocked = start + self.jiffies_of_ms(LOAD_AVG_PERIOD);
        }
        self.nohz.has_blocked |= blocked_load;
    }

    /// `update_nohz_stats()`: `true` if the CPU's averages still decay.
    fn refresh_idle(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> bool {
        let balance = &self.rqs[cpu.index()].balance;
        if !balance.has_blocked_load || !self.nohz.idle_cpus.contains(cpu) {
            return false;
        }
        if !after(hardware.jiffies(), balance.last_blocked_update) {
            return true;
        }
        self.update_blocked_averages(cpu, hardware);
        self.rqs[cpu.index()].balance.has_blocked_load
    }
}

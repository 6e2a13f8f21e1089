//! The idle load balancer of 2.6.36: all idle CPUs stop their ticks, and a busy CPU that sees that
//! balancing could help kicks one of them, which balances for all
//! (`nohz_kick_needed()`, `nohz_balancer_kick()`, `nohz_idle_balance()`).
//!
//! Source: `kernel/sched_fair.c` of 2.6.36. CPUs neither come nor go.

use super::in_semi_idle_group;
use crate::fair::topology::{DomainFlags, Domains};
use schedlab_machine::{CpuId, CpuSet};

/// What the whole machine shares (`nohz`).
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// The idle CPU that is kicked first.
    pub load_balancer: Option<CpuId>,
    /// The busy CPU that kicks once it has two tasks.
    pub first_pick: Option<CpuId>,
    /// The second busy CPU, which kicks with any task.
    pub second_pick: Option<CpuId>,
    /// CPUs without a tick.
    pub idle_cpus: CpuSet,
    /// When balancing for them is due, jiffies.
    pub next_balance: u64,
    /// CPUs that were kicked and have not answered (`nohz_balance_kick`).
    pub kicked: CpuSet,
    /// `sched_mc_power_savings` or `sched_smt_power_savings` is set.
    power_savings: bool,
    /// There is an owner, as up to v3.2.
    owned: bool,
}

impl Push {
    /// A machine whose CPUs are all busy.
    pub fn new(power_savings: bool) -> Push {
        Push {
            load_balancer: None,
            first_pick: None,
            second_pick: None,
            idle_cpus: CpuSet::EMPTY,
            next_balance: 0,
            kicked: CpuSet::EMPTY,
            power_savings,
            owned: true,
        }
    }

    /// The same without an owner: of the idle CPUs, the first is kicked (from v3.3 on).
    pub fn without_owner() -> Push {
        Push { owned: false, ..Push::new(false) }
    }

    /// `cpu`, which idles, stops its tick (`select_nohz_load_balancer(1)`). Returns a CPU that suits
    /// better as owner and is to go round its idle loop.
    pub fn enter(&mut self, cpu: CpuId, domains: &Domains) -> Option<CpuId> {
        self.idle_cpus.insert(cpu);
        for pick in [&mut self.first_pick, &mut self.second_pick] {
            if *pick == Some(cpu) {
                *pick = None;
            }
        }
        if self.load_balancer.is_some() || !self.owned {
            return None;
        }
        let saving = self.power_savings.then(|| in_semi_idle_group(domains, cpu, &self.idle_cpus));
        let better = saving.flatten().filter(|&better| better != cpu);
        if better.is_none() {
            self.load_balancer = Some(cpu);
        }
        better
    }

    /// `cpu` leaves idleness with its tick stopped (`select_nohz_load_balancer(0)`).
    pub fn leave(&mut self, cpu: CpuId) {
        self.idle_cpus.remove(cpu);
        if self.load_balancer == Some(cpu) {
            self.load_balancer = None;
        }
    }

    /// True if the tick of `cpu`, which idled or not and has `nr_running` tasks, should kick
    /// (`nohz_kick_needed()`). Makes `cpu` one of the picks if there is room.
    pub fn kick_needed(&mut self, cpu: CpuId, idle: bool, nr_running: u32, jiffies: u64) -> bool {
        if super::after(self.next_balance, jiffies) || idle {
            return false;
        }
        let others = |pick: Option<CpuId>| pick.is_some_and(|pick| pick != cpu);
        if others(self.first_pick) && others(self.second_pick) {
            return false;
        }
        if *self.first_pick.get_or_insert(cpu) == cpu {
            if self.second_pick == Some(cpu) {
                self.second_pick = None;
            }
            return nr_running > 1;
        }
        *self.second_pick.get_or_insert(cpu) == cpu && nr_running > 0
    }

    /// The same from v3.3 on: it has two tasks, or another CPU of its group is busy in a domain that
    /// shares a cache, or a lower thread of its core idles where threads are packed.
    pub fn kick_needed_by_domain(
        &self,
        cpu: CpuId,
        domains: &Domains,
        idle: bool,
        nr_running: u32,
        jiffies: u64,
    ) -> bool {
        if idle || self.idle_cpus.is_empty() || super::after(self.next_balance, jiffies) {
            return false;
        }
        if nr_running >= 2 {
            return true;
        }
        let stack = domains.stack(cpu).iter();
        let cached = stack.take_while(|&&membership| {
            let flags = domains.get(membership).flags;
            flags.has(DomainFlags::SHARE_LLC) || flags.has(DomainFlags::ASYM_PACKING)
        });
        let mut groups = cached.filter_map(|&m| Some((domains.get(m), domains.ring(m).next()?)));
        groups.any(|(domain, own)| {
            let busy = own.span.weight() - (own.span & self.idle_cpus).weight();
            let lowest_idle = (domain.span & self.idle_cpus).first();
            (domain.flags.has(DomainFlags::SHARE_LLC) && busy > 1)
                || (domain.flags.has(DomainFlags::ASYM_PACKING)
                    && busy != own.span.weight()
                    && lowest_idle.is_some_and(|idle| idle < cpu))
        })
    }

    /// Whom to interrupt now that a kick is needed: nobody if no CPU idles, or if the one to kick
    /// was kicked already (`nohz_balancer_kick()`).
    pub fn kick(&mut self) -> Option<CpuId> {
        self.next_balance += 1;
        let target = self.load_balancer.or(self.idle_cpus.first())?;
        let first = !self.kicked.contains(target);
        self.kicked.insert(target);
        first.then_some(target)
    }

    /// The CPUs for which `cpu` balances after itself, in this order, if it was kicked and takes it
    /// on (`nohz_idle_balance()`).
    pub fn others(&self, cpu: CpuId) -> Option<CpuSet> {
        let mut others = self.idle_cpus;
        others.remove(cpu);
        self.kicked.contains(cpu).then_some(others)
    }

    /// `cpu` has balanced for all, or broke off since work came. `next_balance` is when it next
    /// balances itself, or would for the first of those that it reached.
    pub fn answered(&mut self, cpu: CpuId, next_balance: u64) {
        self.kicked.remove(cpu);
        self.next_balance = next_balance;
    }

    /// Checks what always holds.
    ///
    /// # Errors
    /// What does not.
    pub fn verify(&self) -> Result<(), String> {
        if let Some(owner) = self.load_balancer
            && !self.idle_cpus.contains(owner)
        {
            return Err(format!("CPU {} owns idle balancing, but is not in the mask", owner.0));
        }
        if self.first_pick.is_some() && self.first_pick == self.second_pick {
            return Err(format!("both picks are {:?}", self.first_pick));
        }
        Ok(())
    }
}

//! The idle load balancer of 2.6.21 to 2.6.35: one idle CPU, the owner, keeps its tick and balances
//! for all that sleep without one (`select_nohz_load_balancer()`, `trigger_load_balance()`).
//!
//! Source: `kernel/sched.c` of the long-term release 2.6.32. CPUs neither come nor go.

use super::in_semi_idle_group;
use crate::fair::topology::Domains;
use schedlab_machine::{CpuId, CpuSet};

/// What the whole machine shares (`nohz`), with `in_nohz_recently` of each run queue.
#[derive(Clone, Copy, Debug)]
pub struct Pull {
    /// The idle CPU that keeps its tick.
    pub load_balancer: Option<CpuId>,
    /// CPUs without a tick, and the owner.
    pub cpu_mask: CpuSet,
    /// CPUs that tried to stop their tick since they were last seen busy by one.
    pub in_nohz_recently: CpuSet,
    /// All CPUs.
    active: CpuSet,
    /// `sched_mc_power_savings` or `sched_smt_power_savings` is set.
    power_savings: bool,
}

/// What comes of a CPU's attempt to stop its tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nomination {
    /// The CPU is the owner: its tick goes on.
    pub keeps_tick: bool,
    /// A CPU that suits better is to go round its idle loop, to become the owner.
    pub resched: Option<CpuId>,
}

/// What a tick leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickOutcome {
    /// This CPU is to go round its idle loop; it may be the one that ticks.
    pub resched: Option<CpuId>,
    /// The balancing softirq is raised.
    pub softirq: bool,
}

impl Pull {
    /// A machine whose `active` CPUs all sleep without a tick.
    pub fn new(active: CpuSet, power_savings: bool) -> Pull {
        Pull {
            load_balancer: None,
            cpu_mask: active,
            in_nohz_recently: active,
            active,
            power_savings,
        }
    }

    /// `cpu`, which idles, would stop its tick (`select_nohz_load_balancer(1)`).
    pub fn nominate(&mut self, cpu: CpuId, domains: &Domains) -> Nomination {
        let stops = Nomination::default();
        let keeps = Nomination { keeps_tick: true, resched: None };
        self.in_nohz_recently.insert(cpu);
        self.cpu_mask.insert(cpu);
        if self.cpu_mask == self.active {
            // Everybody idles: there is nothing to balance.
            if self.load_balancer == Some(cpu) {
                self.load_balancer = None;
            }
            return stops;
        }
        match self.load_balancer {
            None => {
                self.load_balancer = Some(cpu);
                keeps
            }
            Some(owner) if owner != cpu => stops,
            Some(_) if !self.power_savings => keeps,
            Some(_) => match self.find(cpu, domains) {
                Some(better) if better != cpu => {
                    self.load_balancer = None;
                    Nomination { keeps_tick: false, resched: Some(better) }
                }
                _ => keeps,
            },
        }
    }

    /// `cpu` leaves idleness with its tick stopped (`select_nohz_load_balancer(0)`).
    pub fn leave(&mut self, cpu: CpuId) {
        self.cpu_mask.remove(cpu);
        if self.load_balancer == Some(cpu) {
            self.load_balancer = None;
        }
    }

    /// The tick of `cpu`, which idled or not; `due` if it should balance itself
    /// (`trigger_load_balance()`).
    pub fn tick(&mut self, cpu: CpuId, idle: bool, due: bool, domains: &Domains) -> TickOutcome {
        let mut outcome = TickOutcome::default();
        if !idle && self.in_nohz_recently.contains(cpu) {
            self.in_nohz_recently.remove(cpu);
            if self.load_balancer == Some(cpu) {
                self.cpu_mask.remove(cpu);
                self.load_balancer = None;
            }
            if self.load_balancer.is_none() {
                outcome.resched = self.find(cpu, domains);
            }
        }
        if idle {
            if self.load_balancer == Some(cpu) {
                if self.cpu_mask == self.active {
                    // To stop its tick, it has to go round its idle loop.
                    outcome.resched = Some(cpu);
                    return outcome;
                }
            } else if self.cpu_mask.contains(cpu) {
                return outcome;
            }
        }
        outcome.softirq = due;
        outcome
    }

    /// The CPUs for which the softirq of `cpu` balances after itself, in this order; it idled at its
    /// last tick or did not (`run_rebalance_domains()`).
    pub fn others(&self, cpu: CpuId, idle: bool) -> CpuSet {
        if !idle || self.load_balancer != Some(cpu) {
            return CpuSet::EMPTY;
        }
        let mut others = self.cpu_mask;
        others.remove(cpu);
        others
    }

    /// Who should own balancing, seen from `cpu` (`find_new_ilb()`).
    fn find(&self, cpu: CpuId, domains: &Domains) -> Option<CpuId> {
        let saving = self.power_savings.then(|| in_semi_idle_group(domains, cpu, &self.cpu_mask));
        saving.flatten().or(self.cpu_mask.first())
    }

    /// Checks what always holds.
    ///
    /// # Errors
    /// What does not.
    pub fn verify(&self) -> Result<(), String> {
        match self.load_balancer {
            Some(owner) if !self.cpu_mask.contains(owner) => {
                Err(format!("CPU {} owns idle balancing, but is not in the mask", owner.0))
            }
            _ => Ok(()),
        }
    }
}

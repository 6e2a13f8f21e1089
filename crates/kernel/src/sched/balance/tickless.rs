//! What an idle CPU that would stop its tick, or starts it again, tells the balancer, and what was
//! counted (`tick_nohz_stop_sched_tick()`, `tick_nohz_restart_sched_tick()`).

use super::super::Scheduler;
use crate::fair::nohz::NohzRules;
use crate::fair::nohz::pull::Pull;
use crate::fair::nohz::push::Push;
use crate::hardware::Hardware;
use schedlab_machine::{CpuId, CpuSet};

/// What one CPU did to balance, and was asked to do by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceCounts {
    /// Balancing softirqs (`SCHED_SOFTIRQ`) that it ran.
    pub softirqs: u64,
    /// Idle CPUs that it interrupted so that they balance.
    pub kicks_sent: u64,
    /// Such interrupts of others that made it balance.
    pub kicks_answered: u64,
    /// Those that did not: it was busy again, or took itself to be.
    pub kicks_refused: u64,
}

/// The machine-wide state of the older generations of idle balancing.
#[derive(Clone, Debug)]
pub(in super::super) enum OlderNohz {
    /// There is none, as the kernel has today's.
    None,
    /// Of 2.6.21 to 2.6.35.
    Pull(Box<Pull>),
    /// Of 2.6.36 to 3.12.
    Push(Box<Push>),
}

impl OlderNohz {
    /// A machine with `cpus` busy CPUs.
    pub fn new(rules: NohzRules, cpus: usize, power_savings: bool) -> OlderNohz {
        match rules {
            NohzRules::Modern {} => OlderNohz::None,
            NohzRules::Pull {} => {
                OlderNohz::Pull(Box::new(Pull::new(CpuSet::first_n(cpus), power_savings)))
            }
            NohzRules::Push { .. } => OlderNohz::Push(Box::new(Push::new(power_savings))),
            NohzRules::PushByDomain { .. } => OlderNohz::Push(Box::new(Push::without_owner())),
        }
    }
}

impl Scheduler {
    /// True if the idle loop stops the tick before the idle governor is asked, as all kernels did
    /// before v4.17 (2aaf709a518d). Those here with the older generations of idle balancing do.
    pub fn stops_tick_first(&self) -> bool {
        !matches!(self.config.nohz, NohzRules::Modern {})
    }

    /// `cpu` has idled without a tick since long before the run.
    pub fn start_tickless(&mut self, cpu: CpuId) {
        match &mut self.older_nohz {
            OlderNohz::None => self.enter_idle_mask(cpu),
            // It begins with everybody in the mask and no owner.
            OlderNohz::Pull(_) => {}
            OlderNohz::Push(push) => _ = push.enter(cpu, &self.domains),
        }
        // Its last tick found it idle.
        self.rqs[cpu.index()].balance.idle_balance = true;
    }

    /// `cpu` idles and would stop its tick. `false` if it is to keep it.
    pub fn stop_tick(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> bool {
        let (stops, resched) = match &mut self.older_nohz {
            OlderNohz::None => {
                self.enter_idle_mask(cpu);
                return true;
            }
            OlderNohz::Pull(pull) => {
                let nomination = pull.nominate(cpu, &self.domains);
                (!nomination.keeps_tick, nomination.resched)
            }
            OlderNohz::Push(_)
                if hardware.jiffies() < self.rqs[cpu.index()].balance.ticks_until =>
            {
                (false, None)
            }
            OlderNohz::Push(push) => (true, push.enter(cpu, &self.domains)),
        };
        if let Some(resched) = resched {
            self.resched_cpu(resched, cpu, hardware);
        }
        stops
    }

    /// `cpu` ran something and idles now, for which RCU may keep its tick.
    pub(in super::super) fn keep_tick(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if let NohzRules::PushByDomain { rcu_ticks } = self.config.nohz {
            self.rqs[cpu.index()].balance.ticks_until = hardware.jiffies() + u64::from(rcu_ticks);
        }
    }

    /// `cpu`, whose tick was stopped, leaves the idle loop, be it to enter it again. Today's
    /// kernels wait with that for its next busy tick.
    pub fn restart_tick(&mut self, cpu: CpuId) {
        match &mut self.older_nohz {
            OlderNohz::None => {}
            OlderNohz::Pull(pull) => pull.leave(cpu),
            OlderNohz::Push(push) => push.leave(cpu),
        }
    }

    /// What `cpu` did to balance.
    pub fn balance_counts(&self, cpu: CpuId) -> BalanceCounts {
        self.rqs[cpu.index()].balance.counts
    }

    /// A kick was sent to `cpu`, which has yet to answer or refuse it.
    pub fn kick_pending(&self, cpu: CpuId) -> bool {
        self.rqs[cpu.index()].balance.kick_pending
    }

    /// Makes `cpu` go through its scheduler (`resched_cpu()`).
    pub(super) fn resched_cpu(
        &mut self,
        cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        self.rqs[cpu.index()].need_resched = true;
        self.tell(cpu, executing_cpu, hardware);
    }

    /// Checks the balancer's own bookkeeping.
    pub(in super::super) fn verify_idle_balancing(&self) -> Result<(), String> {
        match &self.older_nohz {
            OlderNohz::None => {}
            OlderNohz::Pull(pull) => pull.verify()?,
            OlderNohz::Push(push) => push.verify()?,
        }
        let mut counts = BalanceCounts::default();
        let mut pending = 0;
        for rq in &self.rqs {
            counts.kicks_sent += rq.balance.counts.kicks_sent;
            counts.kicks_answered += rq.balance.counts.kicks_answered;
            counts.kicks_refused += rq.balance.counts.kicks_refused;
            pending += u64::from(rq.balance.kick_pending);
        }
        if counts.kicks_sent != counts.kicks_answered + counts.kicks_refused + pending {
            return Err(format!("{counts:?} and {pending} pending do not add up"));
        }
        Ok(())
    }
}

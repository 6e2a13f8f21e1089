//! When a busy CPU wakes an idle one to balance for all that sleep without a tick
//! (`nohz_balancer_kick()`, `kick_ilb()`).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117.

use super::after;
use crate::fair::balance::follows_priority;
use crate::fair::capacity::is_reduced;
use crate::fair::topology::Domains;
use crate::fair::view::CpuState;
use crate::fair::wake::LlcShared;
use schedlab_machine::{CpuId, CpuSet};

/// What a kicked CPU is to do (`NOHZ_*`, with their bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KickFlags(pub u32);

impl KickFlags {
    /// Balance (`NOHZ_BALANCE_KICK`).
    pub const BALANCE: KickFlags = KickFlags(1);
    /// Refresh the averages of idle CPUs (`NOHZ_STATS_KICK`).
    pub const STATS: KickFlags = KickFlags(2);
    /// The CPU itself will refresh averages before it idles (`NOHZ_NEWILB_KICK`).
    pub const NEW_ILB: KickFlags = KickFlags(4);
    /// Find out anew when balancing is due (`NOHZ_NEXT_KICK`).
    pub const NEXT: KickFlags = KickFlags(8);
    /// Those that come with an interrupt (`NOHZ_KICK_MASK`).
    pub const KICKS: KickFlags = KickFlags(1 | 2 | 8);

    /// True if any flag of `other` is set here.
    #[inline]
    pub const fn has(self, other: KickFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub const fn with(self, other: KickFlags) -> KickFlags {
        KickFlags(self.0 | other.0)
    }
}

/// What the whole machine shares (`nohz`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Nohz {
    /// CPUs that sleep without a tick, as far as anyone noticed.
    pub idle_cpus: CpuSet,
    /// Some of them may have averages that still decay.
    pub has_blocked: bool,
    /// When balancing may have changed by CPUs that joined.
    pub needs_update: bool,
    /// When balancing for them is due, jiffies.
    pub next_balance: u64,
    /// When their averages are due, jiffies.
    pub next_blocked: u64,
}

/// What a busy CPU's tick asks for. `domains` to `housekeeping` describe the machine.
#[derive(Debug)]
pub struct Kick<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuState],
    /// Cache-wide state, by the cache's lowest CPU.
    pub llcs: &'a [LlcShared],
    /// CPUs that do such work (`HK_TYPE_MISC`).
    pub housekeeping: &'a CpuSet,
}

impl Kick<'_> {
    /// What there is to do for idle CPUs, seen at a tick of `cpu`, which was busy and has left the
    /// idle mask; 0 is nothing.
    pub fn flags(&self, cpu: CpuId, nohz: &Nohz, jiffies: u64) -> KickFlags {
        if nohz.idle_cpus.is_empty() {
            return KickFlags::default();
        }
        let mut flags = KickFlags::default();
        if nohz.has_blocked && after(jiffies, nohz.next_blocked) {
            flags = KickFlags::STATS;
        }
        if !after(nohz.next_balance, jiffies) && self.balance_helps(cpu, nohz) {
            flags = KickFlags::STATS.with(KickFlags::BALANCE);
        }
        if nohz.needs_update { flags.with(KickFlags::NEXT) } else { flags }
    }

    /// True if an idle CPU could take something over from `cpu` or its neighbours.
    fn balance_helps(&self, cpu: CpuId, nohz: &Nohz) -> bool {
        let state = &self.cpus[cpu.index()];
        if state.nr_running >= 2 {
            return true;
        }
        let lowest = self.domains.stack(cpu).first().map(|&lowest| self.domains.get(lowest));
        if let Some(domain) = lowest
            && state.h_nr_queued >= 1
            && is_reduced(state, domain.imbalance_pct)
        {
            return true;
        }
        if let Some(membership) = self.domains.asym_packing(cpu) {
            let domain = self.domains.get(membership);
            let preferred = (domain.span & nohz.idle_cpus).iter().any(|idle| {
                follows_priority(self.domains, self.cpus, domain, idle)
                    && self.cpus[idle.index()].asym_priority > state.asym_priority
            });
            if preferred {
                return true;
            }
        }
        // Where capacities differ, only tasks that do not fit matter, not caches.
        if self.domains.asym_cpucapacity(cpu).is_some() {
            return state.misfit_task_load != 0;
        }
        self.domains.llc(cpu).is_some()
            && self.llcs[self.domains.llc_id(cpu).index()].nr_busy_cpus > 1
    }

    /// The idle CPU that `cpu` would kick (`find_new_ilb()`).
    pub fn target(&self, cpu: CpuId, nohz: &Nohz) -> Option<CpuId> {
        let mut able = nohz.idle_cpus.iter_and(self.housekeeping);
        able.find(|&idle| idle != cpu && self.cpus[idle.index()].is_idle())
    }
}

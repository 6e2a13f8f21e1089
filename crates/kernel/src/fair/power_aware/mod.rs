//! The 'power aware scheduling' series (version 7, 4 April 2013, on 3.9-rc): tasks are packed on few
//! cores and packages as long as these have room, at fork, exec and wake-up ([`place`]) and when
//! idle CPUs balance ([`balance`]). It never became part of a release.
//!
//! Sources: the series' description and its discussion on linux-kernel; the author's tree
//! `alexshi/power-scheduling`, `kernel/sched/fair.c`, which holds three commits that answer it.
//! Where both leave a choice, it is an option of [`PowerRules`].

pub mod balance;
pub mod place;
pub mod tracking;

use super::classic::{CpuView, LOAD_SCALE};
use super::topology::{DomainFlags, Group};
use serde::Deserialize;

/// Utilisation of a CPU that is never idle (`FULL_UTIL`).
pub const FULL_UTIL: u64 = 1024;

/// What the series leaves to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerRules {
    /// `sched_balance_policy`.
    pub policy: PowerPolicy,
    /// How much utilisation a group of CPUs takes before it counts as full.
    pub threshold: Threshold,
    /// How the utilisation of a CPU is told.
    pub utilisation: Utilisation,
    /// A CPU that idles for less than this on average takes part in a burst of wake-ups, and its
    /// tasks then count as full ones, ns (`sched_burst_threshold_ns`); 0 is never.
    pub burst_threshold_ns: u64,
    /// Under [`Threshold::GroupCapacity`], a thread of a core has room for one task, as balancing
    /// sees it within a core (`fix_small_capacity()`). Otherwise its capacity is rounded, to none.
    pub thread_is_room: bool,
    /// Tasks that use less than a quarter of a CPU are packed on one that has room when they wake
    /// (`find_leader_cpu()`, patch 13).
    pub small_tasks: bool,
    /// Groups are emptied only while balancing for performance is rare (patch 19); otherwise at
    /// each attempt that finds one.
    pub lazy: bool,
}

/// `/sys/devices/system/cpu/sched_balance_policy/current_sched_balance_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum PowerPolicy {
    /// Tasks are spread, as without the series.
    Performance,
    /// Tasks are packed.
    Powersaving,
}

impl TryFrom<String> for PowerPolicy {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "performance" => Ok(PowerPolicy::Performance),
            "powersaving" => Ok(PowerPolicy::Powersaving),
            "balance" => {
                Err("the policy balance, which the series dropped with version 6, is not \
                              modelled; powersaving with threshold = \"group-capacity\" is near it")
            }
            _ => Err("policy is \"performance\" or \"powersaving\""),
        }
    }
}

/// How much utilisation a group takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// That of all its threads, as posted.
    GroupWeight,
    /// That of as many CPUs as it has capacity for tasks, as proposed in reply.
    GroupCapacity,
    /// Its `cpu_power`, as in the tree that followed.
    GroupPower,
}

/// The utilisation of a CPU with several tasks, any of which might take all that is left. The posted
/// code could not be read, the tree that followed could; they may differ in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Utilisation {
    /// Fair utilisation times the number of fair tasks; the tree that followed.
    FairAlone,
    /// That of real-time tasks besides, and an idle CPU counts what it did until lately; by the
    /// description of patch 9.
    WithRealTime,
}

impl PowerRules {
    /// Tasks are to be packed.
    pub fn saves(&self) -> bool {
        self.policy == PowerPolicy::Powersaving
    }

    /// What `cpu` might use (`max_rq_util()`); `waking` if a wake-up asks.
    pub fn max_util(&self, cpu: &CpuView, waking: bool) -> u64 {
        if waking && cpu.avg_idle_ns < self.burst_threshold_ns {
            return u64::from(cpu.nr_running) * FULL_UTIL;
        }
        let rt_util = cpu.rt_util.min(FULL_UTIL);
        let fair = cpu.util.min(FULL_UTIL - rt_util);
        match self.utilisation {
            Utilisation::FairAlone => fair * u64::from(cpu.cfs_nr_running),
            Utilisation::WithRealTime => rt_util + fair * u64::from(cpu.nr_running.max(1)),
        }
    }

    /// How much `group`, of a domain with these flags, takes.
    pub fn room(&self, group: &Group, domain: DomainFlags) -> u64 {
        let full = |cpus: u64| cpus * FULL_UTIL;
        match self.threshold {
            Threshold::GroupWeight => full(u64::from(group.weight)),
            Threshold::GroupPower => group.capacity,
            Threshold::GroupCapacity => {
                let rounded = (group.capacity + LOAD_SCALE / 2) / LOAD_SCALE;
                let threads = self.thread_is_room && domain.has(DomainFlags::SHARE_CPUCAPACITY);
                full(if rounded == 0 && threads { 1 } else { rounded })
            }
        }
    }
}

//! What a level of the topology is like as a domain, and which levels stay (`SD_SIBLING_INIT`,
//! `SD_MC_INIT`, `SD_CPU_INIT` of `include/linux/topology.h` and x86's `SD_NODE_INIT`, 2.6.32;
//! `sd_parent_degenerate()`).
//!
//! Until v3.5 the kernel joins up to 16 nodes in one domain, whatever their distances, and beyond that
//! adds another for all; here one holds all nodes. 3.9 has a domain for each distance.

use super::V39Rules;
use crate::fair::topology::DomainFlags;

/// What a user may set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassicDomains {
    /// `sched_mc_power_savings` is set.
    pub mc_power_savings: bool,
    /// `sched_smt_power_savings` is set.
    pub smt_power_savings: bool,
    /// The values are those of 3.9.
    pub v3_9: Option<V39Rules>,
}

/// A level of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicLevel {
    /// Threads of a core.
    Sibling,
    /// CPUs that share the last-level cache.
    Mc,
    /// CPUs of a node.
    Cpu,
    /// All nodes.
    Node,
    /// In 3.9: so many CPUs of nodes up to this distance.
    Numa {
        /// How far apart they are.
        distance: u32,
        /// CPUs.
        weight: u32,
    },
}

/// What domains of a level are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelValues {
    /// The level's name.
    pub name: &'static str,
    /// Behaviour.
    pub flags: DomainFlags,
    /// Imbalance that is tolerated, percent.
    pub imbalance_pct: u32,
    /// Shortest interval, ms.
    pub min_interval_ms: u32,
    /// Longest interval, ms.
    pub max_interval_ms: u32,
    /// Times longer that a busy CPU waits.
    pub busy_factor: u32,
    /// Failed attempts after which cache-hot tasks are moved, too.
    pub cache_nice_tries: u32,
}

/// `smt_gain` of all releases: together, the threads of a core achieve 15 % more than one alone.
const SMT_GAIN: u32 = 1178;

impl ClassicDomains {
    /// The power of one of `threads` threads of a core.
    pub fn thread_power(self, threads: u64) -> u64 {
        let gain = self.v3_9.map_or(SMT_GAIN, |rules| rules.smt_gain);
        if threads > 1 { u64::from(gain) / threads } else { 1024 }
    }

    /// The values of a level.
    pub fn values(self, level: ClassicLevel) -> LevelValues {
        let either = |flags: &[DomainFlags]| DomainFlags(flags.iter().fold(0, |all, f| all | f.0));
        let common = either(&[
            DomainFlags::BALANCE_NEWIDLE,
            DomainFlags::BALANCE_EXEC,
            DomainFlags::BALANCE_FORK,
            DomainFlags::WAKE_AFFINE,
        ]);
        let any = self.mc_power_savings || self.smt_power_savings;
        let values = |name, flags: DomainFlags, max_interval_ms| LevelValues {
            name,
            flags: either(&[common, flags]),
            imbalance_pct: 125,
            min_interval_ms: 1,
            max_interval_ms,
            busy_factor: 64,
            cache_nice_tries: 1,
        };
        match level {
            ClassicLevel::Sibling => {
                let packs = self.v3_9.is_some_and(|rules| rules.smt_asym_packing);
                let threads = either(&[
                    DomainFlags::SHARE_CPUCAPACITY,
                    DomainFlags::SHARE_LLC,
                    if packs { DomainFlags::ASYM_PACKING } else { DomainFlags(0) },
                ]);
                LevelValues {
                    imbalance_pct: 110,
                    cache_nice_tries: 0,
                    ..values("SIBLING", threads, 2)
                }
            }
            ClassicLevel::Mc => {
                let power = if self.smt_power_savings {
                    DomainFlags::POWERSAVINGS_BALANCE
                } else if self.mc_power_savings || self.v3_9.is_some() {
                    // What set PREFER_SIBLING here went with v3.5, 8e7fbcbc22c1.
                    DomainFlags(0)
                } else {
                    DomainFlags::PREFER_SIBLING
                };
                values("MC", either(&[DomainFlags::SHARE_LLC, power]), 4)
            }
            ClassicLevel::Cpu if any => values("CPU", DomainFlags::POWERSAVINGS_BALANCE, 4),
            ClassicLevel::Cpu => values("CPU", DomainFlags::PREFER_SIBLING, 4),
            ClassicLevel::Node => LevelValues {
                min_interval_ms: 8,
                busy_factor: 32,
                cache_nice_tries: 2,
                ..values("NODE", either(&[DomainFlags::SERIALIZE, DomainFlags::NUMA]), 32)
            },
            ClassicLevel::Numa { distance, weight } => self.numa(distance, weight),
        }
    }

    /// `sd_numa_init()` (v3.6, cb83b629bae0).
    fn numa(self, distance: u32, weight: u32) -> LevelValues {
        let mut flags = DomainFlags::BALANCE_NEWIDLE.0
            | DomainFlags::SERIALIZE.0
            | DomainFlags::NUMA.0
            | DomainFlags::OVERLAP.0;
        if self.v3_9.is_some_and(|rules| distance <= rules.reclaim_distance) {
            flags |= DomainFlags::BALANCE_EXEC.0
                | DomainFlags::BALANCE_FORK.0
                | DomainFlags::WAKE_AFFINE.0;
        }
        LevelValues {
            name: "NUMA",
            flags: DomainFlags(flags),
            imbalance_pct: 125,
            min_interval_ms: weight,
            max_interval_ms: 2 * weight,
            busy_factor: 32,
            cache_nice_tries: 2,
        }
    }
}

/// True if a domain with one group adds nothing to the one below it, which has the same CPUs.
pub fn adds_nothing(below: DomainFlags, above: DomainFlags) -> bool {
    let need_groups = DomainFlags::BALANCE_NEWIDLE.0
        | DomainFlags::BALANCE_EXEC.0
        | DomainFlags::BALANCE_FORK.0
        | DomainFlags::SHARE_CPUCAPACITY.0
        | DomainFlags::SHARE_LLC.0;
    above.0 & !need_groups & !below.0 == 0
}

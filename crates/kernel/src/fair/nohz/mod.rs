//! Who balances for CPUs that sleep without a tick, in three generations: one idle CPU keeps its
//! tick and pulls ([`pull`], 2.6.21 to 2.6.35); a busy CPU kicks an idle one ([`push`], 2.6.36, and by
//! its domains from v3.3 on); the kick rules of today ([`modern`], 6.12).

pub mod modern;
pub mod pull;
pub mod push;

pub use modern::{Kick, KickFlags, Nohz};

use super::topology::{DomainFlags, Domains};
use schedlab_machine::{CpuId, CpuSet};
use serde::Deserialize;

/// Which generation a kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "variant", rename_all = "kebab-case", deny_unknown_fields)]
pub enum NohzRules {
    /// 2.6.21 to 2.6.35.
    Pull {},
    /// From 2.6.36 on (83cd4fe27ad8).
    Push {
        /// A kicked CPU goes by its last tick, so that one that became idle after it refuses and is
        /// not kicked again (until v3.2, 6eb57e0d65eb).
        stale_kick: bool,
    },
    /// From v3.3 (0b005cf54eac) to v3.12: a CPU kicks if it has two tasks, or if another thread or core
    /// of its own group is busy, too. CPUs leave the set of idle ones as their tick restarts, which
    /// for a real one is at its first busy tick.
    PushByDomain {
        /// A CPU that ran something keeps its tick for so many while it idles, until RCU is done with
        /// what it left behind (`rcu_needs_cpu()`), and balances at them. 0 is none.
        rcu_ticks: u32,
    },
    /// 6.12.
    Modern {},
}

impl Default for NohzRules {
    fn default() -> Self {
        NohzRules::Modern {}
    }
}

impl NohzRules {
    /// The variant's name in files.
    pub const fn name(self) -> &'static str {
        match self {
            NohzRules::Pull {} => "pull",
            NohzRules::Push { .. } => "push",
            NohzRules::PushByDomain { .. } => "push-by-domain",
            NohzRules::Modern {} => "modern",
        }
    }
}

/// `time_after(a, b)`.
pub(crate) fn after(a: u64, b: u64) -> bool {
    (b.wrapping_sub(a) as i64) < 0
}

/// An idle CPU of a group that is partly busy, so that balancing wakes no idle package or core: the
/// first one of the first such group, in the domains of `cpu` that save power
/// (`find_new_ilb()`, `is_semi_idle_group()`).
fn in_semi_idle_group(domains: &Domains, cpu: CpuId, idle: &CpuSet) -> Option<CpuId> {
    if idle.weight() < 2 {
        return None;
    }
    let saves = |&&membership: &&crate::fair::topology::Membership| {
        domains.get(membership).flags.has(DomainFlags::POWERSAVINGS_BALANCE)
    };
    let stack = domains.stack(cpu).iter();
    let mut levels = stack.skip_while(|membership| !saves(membership)).take_while(saves);
    levels.find_map(|&membership| {
        domains.ring(membership).find_map(|group| {
            let idle = group.span & *idle;
            if idle == group.span { None } else { idle.first() }
        })
    })
}

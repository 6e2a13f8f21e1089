//! Packing by idle CPUs that balance: whether a domain is balanced for performance, is emptied in
//! favour of its fullest group that has room, or is left alone (`update_sd_lb_power_stats()`,
//! `need_perf_balance()`).

use super::{FULL_UTIL, PowerPolicy, PowerRules};
use crate::fair::balance::CpuIdle;
use crate::fair::nohz::after;
use crate::fair::topology::{Domain, DomainFlags, Group};

/// What an attempt to balance is for (`LBF_POWER_BAL`, `LBF_PERF_BAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// To spread: all rules are those of the kernel.
    Performance,
    /// To empty the least used group.
    Power,
    /// Nothing: the own group neither takes nor gives.
    Nothing,
}

/// The history of a CPU's balancing in one domain (`sd->perf_lb_record` and what goes with it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LazyHistory {
    /// A bit for each of the last 64 attempts, the latest lowest: it was for performance.
    pub record: u64,
}

/// When an attempt is made, jiffies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Now.
    pub jiffies: u64,
    /// The last one in this domain.
    pub last_balance: u64,
    /// After so long without one, all that was before is forgotten: 8 times the domain's longest
    /// interval.
    pub quiet_interval: u64,
}

/// In so many of the 32 attempts before the last 32, balancing for performance is still rare.
const RARE: u32 = 4;

impl LazyHistory {
    /// In none of the last 32 attempts, and rarely before, was balancing for performance.
    fn is_quiet(self) -> bool {
        (self.record >> 32).count_ones() <= RARE && self.record & u64::from(u32::MAX) == 0
    }
}

/// What is known of a domain's groups so far.
#[derive(Clone, Copy, Debug)]
pub struct PowerStats<'a> {
    rules: PowerRules,
    domain: DomainFlags,
    aim: Aim,
    /// The group that is not idle and uses least, how much, and the load of one of its tasks.
    least: Option<(&'a Group, u64, u64)>,
    /// The group that uses most and has room for a whole task.
    leader: Option<(&'a Group, u64)>,
}

impl<'a> PowerStats<'a> {
    /// Without the policy, within a core, and if the CPU is busy, balancing is for performance.
    pub fn new(rules: PowerRules, domain: &Domain, idle: CpuIdle) -> PowerStats<'a> {
        let performance = rules.policy == PowerPolicy::Performance
            || domain.flags.has(DomainFlags::SHARE_CPUCAPACITY)
            || idle == CpuIdle::Busy;
        let aim = if performance { Aim::Performance } else { Aim::Power };
        PowerStats { rules, domain: domain.flags, aim, least: None, leader: None }
    }

    /// What balancing is for, as far as the groups so far say.
    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// Weighs one group, with the tasks and the load that run in it.
    pub fn add(&mut self, group: &'a Group, local: bool, util: u64, tasks: u64, load: u64) {
        if self.aim == Aim::Performance {
            return;
        }
        let room = self.rules.room(group, self.domain);
        let takes_none = util + FULL_UTIL > room;
        if local && (tasks == 0 || takes_none) {
            self.aim = Aim::Nothing;
        }
        if util > room {
            self.aim = Aim::Performance;
        }
        if self.aim != Aim::Power || tasks == 0 {
            return;
        }
        let first = group.span.first();
        let less = |(least, used, _): (&Group, u64, u64)| {
            util < used || (util == used && first > least.span.first())
        };
        if self.least.is_none_or(less) {
            self.least = Some((group, util, load / tasks));
        }
        if takes_none {
            return;
        }
        let more = |(leader, used): (&Group, u64)| {
            util > used || (util == used && first < leader.span.first())
        };
        if self.leader.map_or(util > 0, more) {
            self.leader = Some((group, util));
        }
    }

    /// The group to empty into the own one, and the load to move; `None` if nothing is to be moved
    /// but for performance.
    pub fn empties(
        &self,
        own: &Group,
        history: &mut LazyHistory,
        moment: &Moment,
    ) -> Option<(&'a Group, u64)> {
        history.record = history.record << 1 | u64::from(self.aim == Aim::Performance);
        let leads = self.leader.is_some_and(|(leader, _)| leader.span == own.span);
        let other = self.least.filter(|(least, _, _)| least.span != own.span);
        let (least, _, load) = other.filter(|_| self.aim == Aim::Power && leads)?;
        if after(moment.jiffies, moment.last_balance + moment.quiet_interval) {
            history.record = 0;
        }
        (!self.rules.lazy || history.is_quiet()).then_some((least, load))
    }
}

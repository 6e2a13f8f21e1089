//! Packing tasks to save power: the group that is easiest to empty, and the fullest that has room
//! (`update_sd_power_savings_stats()`).

use super::stats::GroupLoad;
use crate::fair::balance::CpuIdle;
use crate::fair::topology::{Domain, DomainFlags, Group};

/// What is known of the groups so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Savings<'a> {
    wanted: bool,
    /// The group with the fewest tasks, how many, and the load of one.
    emptiest: Option<(&'a Group, u64, u64)>,
    /// The group with the most tasks that has room for another, and how many.
    leader: Option<(&'a Group, u64)>,
}

impl<'a> Savings<'a> {
    /// Busy CPUs do not take part.
    pub fn new(idle: CpuIdle, domain: &Domain) -> Savings<'a> {
        let wanted = idle.is_idle() && domain.flags.has(DomainFlags::POWERSAVINGS_BALANCE);
        Savings { wanted, emptiest: None, leader: None }
    }

    /// Weighs one group; `own_running` tasks are in the own one, which comes first.
    pub fn add(&mut self, group: &'a Group, load: &GroupLoad, local: bool, own_running: u64) {
        // An own group that is full or idle has nothing to do with it.
        if local && (own_running >= load.capacity || own_running == 0) {
            self.wanted = false;
        }
        let running = load.sum_nr_running;
        if !self.wanted || running >= load.capacity || running == 0 {
            return;
        }
        let emptier = self.emptiest.is_none_or(|(emptiest, fewest, _)| {
            running < fewest || (running == fewest && group.span.first() > emptiest.span.first())
        });
        if emptier {
            self.emptiest = Some((group, running, load.sum_weighted_load / running));
        }
        let fuller = self.leader.is_none_or(|(leader, most)| {
            running > most || (running == most && group.span.first() < leader.span.first())
        });
        if fuller {
            self.leader = Some((group, running));
        }
    }

    /// The group to empty into `this` one, and how much of it to move
    /// (`check_power_save_busiest_group()`).
    pub fn empties(&self, this: &Group) -> Option<(&'a Group, u64)> {
        let (emptiest, _, load) = self.emptiest.filter(|_| self.wanted)?;
        let (leader, _) = self.leader?;
        (leader.span == this.span && leader.span != emptiest.span).then_some((emptiest, load))
    }
}

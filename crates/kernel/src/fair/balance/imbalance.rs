//! Whether a domain is out of balance, and how much to move to restore it
//! (`sched_balance_find_src_group()`, `calculate_imbalance()`).

use super::{
    Balance, BalanceRules, CpuIdle, DomainStats, Imbalance, Migration, NumaImbalance, Weighed,
};
use crate::fair::group::GroupType;
use crate::fair::slow_path::adjust_numa_imbalance;
use crate::fair::topology::{Domain, DomainFlags};

impl<'a> Balance<'a> {
    /// What to move from the busiest group, or `None` if the domain is balanced well enough
    /// (`sched_balance_find_src_group()`). The migration type of a balance that comes to nothing is
    /// in the error.
    pub fn imbalance(&self, stats: &mut DomainStats<'a>) -> Result<Imbalance, Migration> {
        let (Some((_, busiest)), Some(_)) = (&stats.busiest, &stats.local) else {
            return Err(Migration::default());
        };
        if stats.left_to_energy && busiest.group_type != GroupType::MisfitTask {
            return Err(Migration::default());
        }
        let forced = matches!(
            busiest.group_type,
            GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced
        );
        if !forced && self.is_balanced(stats) {
            return Err(Migration::default());
        }
        let found = calculate_imbalance(self.idle, self.domain(), self.rules, stats);
        if found.amount != 0 { Ok(found) } else { Err(found.migration) }
    }

    fn is_balanced(&self, stats: &mut DomainStats<'a>) -> bool {
        let (Some(busiest_group), Some(local_group)) = (&stats.busiest, &stats.local) else {
            return true;
        };
        let ((_, busiest), (_, local)) = (busiest_group, local_group);
        if local.group_type > busiest.group_type {
            return true;
        }
        if local.group_type == GroupType::Overloaded {
            if local.avg_load >= busiest.avg_load {
                return true;
            }
            stats.avg_load = stats.total_load * 1024 / stats.total_capacity.max(1);
            let pct = u64::from(self.domain().imbalance_pct);
            if local.avg_load >= stats.avg_load || 100 * busiest.avg_load <= pct * local.avg_load {
                return true;
            }
        }
        if stats.prefer_sibling
            && local.group_type == GroupType::HasSpare
            && sibling_imbalance(self.idle, self.rules, busiest_group, local_group) > 1
        {
            return false;
        }
        if busiest.group_type == GroupType::Overloaded {
            return false;
        }
        // A busy CPU leaves it to an idle one.
        if !self.idle.is_idle() {
            return true;
        }
        let threads = |(group, _): &Weighed<'_>| group.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        if busiest.group_type == GroupType::SmtBalance
            && threads(local_group) != threads(busiest_group)
        {
            return false;
        }
        // One idle CPU more or less would only move the imbalance elsewhere.
        (busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1))
            || busiest.sum_h_nr_running == 1
    }
}

/// By how many tasks a sibling group is ahead, per core where the numbers of cores differ
/// (`sibling_imbalance()`).
fn sibling_imbalance(
    idle: CpuIdle,
    rules: BalanceRules,
    (busiest_group, busiest): &Weighed<'_>,
    (local_group, local): &Weighed<'_>,
) -> i64 {
    let ahead = i64::from(busiest.sum_nr_running.saturating_sub(local.sum_nr_running));
    if !rules.smt_groups {
        return ahead;
    }
    if !idle.is_idle() || busiest.sum_nr_running == 0 {
        return 0;
    }
    let (busiest_cores, local_cores) = (busiest_group.cores, local_group.cores);
    if busiest_cores == local_cores {
        return ahead;
    }
    let wanted = i64::from(local_cores.wrapping_mul(busiest.sum_nr_running));
    let had = i64::from(busiest_cores.wrapping_mul(local.sum_nr_running));
    let cores = i64::from(local_cores) + i64::from(busiest_cores);
    let imbalance = (2 * (wanted - wanted.min(had)) + cores) / cores;
    // An empty group is worth using even if the ratio says that one task is no imbalance.
    if imbalance <= 1 && local.sum_nr_running == 0 && busiest.sum_nr_running > 1 {
        2
    } else {
        imbalance
    }
}

/// What to move from the busiest group; nothing if the amount is 0.
fn calculate_imbalance(
    idle: CpuIdle,
    domain: &Domain,
    rules: BalanceRules,
    stats: &mut DomainStats<'_>,
) -> Imbalance {
    let nothing = Imbalance { amount: 0, migration: Migration::default() };
    let (Some(busiest_group), Some(local_group)) = (&stats.busiest, &mut stats.local) else {
        return nothing;
    };
    let (_, busiest) = busiest_group;
    let tasks = |amount| Imbalance { amount, migration: Migration::Task };
    match busiest.group_type {
        GroupType::MisfitTask if domain.flags.has(DomainFlags::ASYM_CPUCAPACITY) => {
            return Imbalance { amount: 1, migration: Migration::Misfit };
        }
        GroupType::MisfitTask => {
            let amount = busiest.misfit_task_load as i64;
            return Imbalance { amount, migration: Migration::Load };
        }
        GroupType::AsymPacking => return tasks(i64::from(busiest.sum_h_nr_running)),
        GroupType::SmtBalance | GroupType::Imbalanced => return tasks(1),
        _ => {}
    }
    let (_, local) = &local_group;
    if local.group_type == GroupType::HasSpare {
        if busiest.group_type > GroupType::FullyBusy && !domain.flags.has(DomainFlags::SHARE_LLC) {
            // Fill the spare capacity; what that leaves in the busiest group nobody can tell.
            let spare = local.capacity.max(local.util) - local.util;
            return if idle.is_idle() && spare == 0 {
                tasks(1)
            } else {
                Imbalance { amount: spare as i64, migration: Migration::Util }
            };
        }
        let mut amount = if busiest.weight == 1 || stats.prefer_sibling {
            sibling_imbalance(idle, rules, busiest_group, local_group)
        } else {
            // The kernel subtracts as unsigned int, and so does not notice a negative difference.
            i64::from(local.idle_cpus.wrapping_sub(busiest.idle_cpus))
        };
        if rules.numa_imbalance == NumaImbalance::SourcePair {
            let talk = domain.flags.has(DomainFlags::NUMA) && busiest.sum_nr_running <= 2;
            return tasks(if talk { 0 } else { amount >> 1 });
        }
        if domain.flags.has(DomainFlags::NUMA) {
            let running = local.sum_nr_running.wrapping_add(1);
            let imbalance = i64::from(amount as i32);
            amount = adjust_numa_imbalance(imbalance, running, domain.imb_numa_nr);
        }
        return tasks(amount >> 1);
    }
    let (_, local) = local_group;
    if local.group_type < GroupType::Overloaded {
        // The local group will be overloaded, so now its average load matters.
        local.avg_load = local.load * 1024 / local.capacity.max(1);
        if local.avg_load >= busiest.avg_load {
            return nothing;
        }
        stats.avg_load = stats.total_load * 1024 / stats.total_capacity.max(1);
        if local.avg_load >= stats.avg_load {
            return nothing;
        }
    }
    // Neither above the average here, nor below it there.
    let there = busiest.avg_load.wrapping_sub(stats.avg_load).wrapping_mul(busiest.capacity);
    let here = stats.avg_load.wrapping_sub(local.avg_load).wrapping_mul(local.capacity);
    Imbalance { amount: (there.min(here) / 1024) as i64, migration: Migration::Load }
}

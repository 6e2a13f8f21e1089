//! How much to move to restore balance (`calculate_imbalance()`, `kernel/sched/fair.c` of Linux
//! 6.12.117).

use super::balance::{BalanceRules, CpuIdle, DomainStats, Imbalance, Migration, NumaImbalance};
use super::group::GroupType;
use super::slow_path::adjust_numa_imbalance;
use super::topology::{Domain, DomainFlags};

/// By how many tasks a sibling group is ahead, per core where the numbers of cores differ
/// (`sibling_imbalance()`).
pub(super) fn sibling_imbalance(
    idle: CpuIdle,
    rules: BalanceRules,
    stats: &DomainStats<'_>,
) -> i64 {
    let (Some((busiest_group, busiest)), Some((local_group, local))) = (stats.busiest, stats.local)
    else {
        return 0;
    };
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
pub(super) fn calculate_imbalance(
    idle: CpuIdle,
    domain: &Domain,
    rules: BalanceRules,
    stats: &mut DomainStats<'_>,
) -> Imbalance {
    let nothing = Imbalance { amount: 0, migration: Migration::default() };
    let (Some((_, busiest)), Some((_, mut local))) = (stats.busiest, stats.local) else {
        return nothing;
    };
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
            sibling_imbalance(idle, rules, stats)
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
    if local.group_type < GroupType::Overloaded {
        // The local group will be overloaded, so now its average load matters.
        local.avg_load = local.load * 1024 / local.capacity.max(1);
        stats.local = stats.local.map(|(group, _)| (group, local));
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

//! What of a CPU's capacity is left for fair tasks, and the sums of groups
//! (`update_group_capacity()`).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117.

use super::topology::{DomainFlags, Domains};
use super::view::CpuState;
use schedlab_machine::CpuId;

/// The capacity that interrupts, other classes and hardware limits leave, at least 1
/// (`scale_rt_capacity()`).
pub fn scale_rt_capacity(state: &CpuState) -> u64 {
    let max = state.actual_capacity();
    let used = state.util_rt.wrapping_add(state.util_dl);
    if state.util_irq >= max || used >= max {
        return 1;
    }
    ((max - used) * (max - state.util_irq) / max).max(1)
}

/// True if side activity takes a noticeable part of the CPU: more than the domain's imbalance
/// (`check_cpu_capacity()`).
#[inline]
pub fn is_reduced(state: &CpuState, imbalance_pct: u32) -> bool {
    state.capacity * u64::from(imbalance_pct) < state.capacity_orig * 100
}

/// More than 5 % greater (`capacity_greater()`).
#[inline]
pub fn capacity_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

/// Refreshes the capacity of the group that `cpu`'s domain at `level` starts with: of the CPU
/// itself at the lowest level, else from its parts.
pub fn update_group_capacity(
    domains: &mut Domains,
    cpus: &mut [CpuState],
    cpu: CpuId,
    level: usize,
) {
    let membership = domains.stack(cpu)[level];
    let below = level.checked_sub(1).map(|below| domains.stack(cpu)[below]);
    let (mut capacity, mut least, mut most) = (0, u64::MAX, 0);
    let mut add = |total, min, max| {
        capacity += total;
        least = least.min(min);
        most = most.max(max);
    };
    match below {
        None => {
            let own = scale_rt_capacity(&cpus[cpu.index()]);
            cpus[cpu.index()].capacity = own;
            add(own, own, own);
        }
        // Groups that overlap do not add up to the group above.
        Some(below) if domains.get(below).flags.has(DomainFlags::OVERLAP) => {
            let group = domains.ring(membership).next();
            for member in group.iter().flat_map(|group| group.span.iter()) {
                let own = cpus[member.index()].capacity;
                add(own, own, own);
            }
        }
        Some(below) => {
            for group in &domains.get(below).groups {
                add(group.capacity, group.min_capacity, group.max_capacity);
            }
        }
    }
    domains.set_capacity(membership, capacity, least, most);
}

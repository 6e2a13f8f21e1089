//! Nice levels, load weights and the fixed-point division of a time by a weight.

/// The load weight of nice 0, scaled as in the 64-bit kernel (`NICE_0_LOAD`).
pub const NICE_0_LOAD: u64 = 1 << 20;

/// Each nice level is worth 1.25 of CPU share (`sched_prio_to_weight`, `kernel/sched/core.c`).
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// 2^32 / weight for each nice level (`sched_prio_to_wmult`). The kernel's table is not rounded by
/// one rule, so it cannot be computed.
const NICE_TO_INVERSE: [u32; 40] = [
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437, 449829, 563644,
    704093, 875809, 1099582, 1376151, 1717300, 2157191, 2708050, 3363326, 4194304, 5237765,
    6557202, 8165337, 10153587, 12820798, 15790321, 19976592, 24970740, 31350126, 39045157,
    49367440, 61356676, 76695844, 95443717, 119304647, 148102320, 186737708, 238609294, 286331153,
];

/// `struct load_weight`: a weight with its inverse, 2^32 / weight, so that dividing by it is a
/// multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadWeight {
    /// Scaled by 1024 as in the 64-bit kernel; nice 0 is [`NICE_0_LOAD`].
    pub weight: u64,
    /// 2^32 divided by the unscaled weight, rounded as in the kernel's table.
    pub inverse: u32,
}

impl LoadWeight {
    /// The weight of a nice level, -20 to 19; levels beyond are clamped.
    ///
    /// ```
    /// use schedlab_kernel::fair::weight::{LoadWeight, NICE_0_LOAD};
    /// assert_eq!(LoadWeight::of_nice(0).weight, NICE_0_LOAD);
    /// assert_eq!(LoadWeight::of_nice(0).inverse, 1 << 22);
    /// ```
    pub fn of_nice(nice: i32) -> LoadWeight {
        let row = (nice.clamp(-20, 19) + 20) as usize;
        LoadWeight { weight: u64::from(NICE_TO_WEIGHT[row]) << 10, inverse: NICE_TO_INVERSE[row] }
    }

    /// The weight of any `SCHED_IDLE` task (`WEIGHT_IDLEPRIO`, `WMULT_IDLEPRIO`).
    pub const fn of_idle_policy() -> LoadWeight {
        LoadWeight { weight: 3 << 10, inverse: 1431655765 }
    }

    /// `scale_load_down()`: the weight as PELT and EEVDF sums use it.
    #[inline]
    pub const fn unscaled(self) -> u64 {
        if self.weight == 0 {
            0
        } else if self.weight >> 10 > 2 {
            self.weight >> 10
        } else {
            2
        }
    }

    /// `calc_delta_fair()`: how far `delta_ns` of run time moves the virtual time of an entity
    /// with this weight, in units of nanoseconds at nice 0.
    #[inline]
    pub fn virtual_time(self, delta_ns: u64) -> u64 {
        if self.weight == NICE_0_LOAD { delta_ns } else { self.divide(delta_ns) }
    }

    fn divide(self, delta_ns: u64) -> u64 {
        share(delta_ns, NICE_0_LOAD, self.inverse)
    }
}

/// The part of `delta_ns` that belongs to `weight` among `total`, both scaled
/// (`__calc_delta()` with the inverse of a run queue's weight).
pub(super) fn share_of(delta_ns: u64, weight: u64, total: u64) -> u64 {
    let inverse = match total >> 10 {
        0 if total == 0 => u32::MAX,
        unscaled => (u64::from(u32::MAX) / unscaled.max(2)) as u32,
    };
    share(delta_ns, weight, inverse)
}

/// `__calc_delta()`: delta * weight / total, given 2^32 / total. The factor is narrowed to 32 bits
/// and the shift with it, so the result depends on the order of operations and is kept as the
/// kernel has it.
fn share(delta_ns: u64, weight: u64, inverse: u32) -> u64 {
    let mut shift = 32;
    let mut factor = LoadWeight { weight, inverse }.unscaled();
    let mut narrow = |factor: u64| {
        let excess_bits = 32 - ((factor >> 32) as u32).leading_zeros();
        shift -= excess_bits;
        factor >> excess_bits
    };
    factor = narrow(factor);
    factor = narrow(factor.wrapping_mul(u64::from(inverse)));
    ((u128::from(delta_ns) * u128::from(factor)) >> shift) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_is_the_quotient_within_one() {
        for nice in -20..20 {
            let load = LoadWeight::of_nice(nice);
            let quotient = (1u64 << 32) / load.unscaled();
            assert!(u64::from(load.inverse).abs_diff(quotient) <= 1, "nice {nice}");
        }
    }

    #[test]
    fn virtual_time_runs_inversely_to_weight() {
        assert_eq!(LoadWeight::of_nice(0).virtual_time(1_000_000), 1_000_000);
        for nice in -20..19 {
            let heavier = LoadWeight::of_nice(nice).virtual_time(1_000_000);
            assert!(heavier < LoadWeight::of_nice(nice + 1).virtual_time(1_000_000));
        }
    }
}

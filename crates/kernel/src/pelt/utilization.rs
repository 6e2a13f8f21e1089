//! A CPU's utilization as cpufreq, cpuidle and thermal code see it.

/// The signals that make up a CPU's utilization, each 0 to 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUtilization {
    /// `cfs_rq->avg.util_avg`.
    pub cfs: u64,
    /// `cfs_rq->avg.util_est`, 0 on an idle CPU and where `UTIL_EST` is off.
    pub cfs_estimated: u64,
    /// `rq->avg_rt.util_avg`.
    pub rt: u64,
    /// `rq->avg_dl.util_avg`.
    pub dl: u64,
    /// `rq->avg_irq.util_avg`.
    pub irq: u64,
}

/// `sched_cpu_util()`, 0 to `capacity` (`effective_cpu_util()` without limits,
/// `kernel/sched/fair.c` of Debian's 6.12): interrupts, and the classes in the time that
/// interrupts leave.
///
/// ```
/// use schedlab_kernel::pelt::{CpuUtilization, sched_cpu_util};
/// let cpu = CpuUtilization { cfs: 200, rt: 56, irq: 256, ..Default::default() };
/// assert_eq!(sched_cpu_util(&cpu, 1024), 256 + 256 * 3 / 4);
/// ```
pub fn sched_cpu_util(cpu: &CpuUtilization, capacity: u64) -> u64 {
    if cpu.irq >= capacity {
        return capacity;
    }
    let cfs = cpu.cfs.max(cpu.cfs_estimated).min(capacity);
    let util = cfs.wrapping_add(cpu.rt).wrapping_add(cpu.dl);
    if util >= capacity {
        return capacity;
    }
    let scaled = util.wrapping_mul(capacity - cpu.irq) / capacity;
    (scaled + cpu.irq).min(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_exceeds_the_capacity() {
        for cfs in [0, 100, 1024, u64::MAX] {
            for irq in [0, 100, 1024] {
                let cpu = CpuUtilization { cfs, irq, ..Default::default() };
                assert!(sched_cpu_util(&cpu, 124) <= 124);
            }
        }
        assert_eq!(sched_cpu_util(&CpuUtilization::default(), 0), 0);
    }
}

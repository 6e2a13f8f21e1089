//! A frequency domain with its table and its limits (`struct cpufreq_policy`).

use super::CpufreqGovernor;
use schedlab_machine::{CpuSet, Machine};

/// CPUs that change frequency together, and which frequencies they may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The CPUs.
    pub cpus: CpuSet,
    /// How long a change of frequency takes, ns.
    pub transition_ns: u64,
    /// The table, slow first, kHz.
    table: Box<[u32]>,
    /// Operating points from here on exceed the limit (`policy->max`).
    limit: usize,
}

impl Policy {
    /// Frequency domain number `domain` of a machine, within its thermal limit.
    pub fn new(machine: &Machine, domain: usize) -> Policy {
        let domain = &machine.frequency_domains()[domain];
        let kind = &machine.cpu_types()[domain.cpu_type];
        let table: Box<[u32]> = kind.opps.iter().map(|opp| opp.khz).collect();
        let limit = match kind.thermal_limit_khz {
            Some(khz) => table.partition_point(|&own| own <= khz).max(1),
            None => table.len(),
        };
        Policy { cpus: domain.cpus, transition_ns: kind.transition_latency_ns, table, limit }
    }

    /// The hardware's fastest frequency, limits aside, kHz (`cpuinfo.max_freq`).
    pub fn hardware_max_khz(&self) -> u32 {
        self.table[self.table.len() - 1]
    }

    /// The lowest frequency, kHz.
    pub fn min_khz(&self) -> u32 {
        self.table[0]
    }

    /// The highest that limits allow, kHz.
    pub fn max_khz(&self) -> u32 {
        self.table[self.limit - 1]
    }

    /// The lowest operating point of at least `khz` within the limits, or the highest of all
    /// (`cpufreq_driver_resolve_freq()`, relation L, all points efficient), kHz.
    #[inline]
    pub fn resolve(&self, khz: u64) -> u32 {
        let allowed = &self.table[..self.limit];
        let index = allowed.partition_point(|&own| u64::from(own) < khz);
        allowed[index.min(allowed.len() - 1)]
    }

    /// What a governor begins with, kHz. Under schedutil that is the lowest: the machine idled
    /// before.
    pub fn first_khz(&self, governor: CpufreqGovernor) -> u32 {
        match governor {
            CpufreqGovernor::Performance => self.max_khz(),
            CpufreqGovernor::Powersave | CpufreqGovernor::Schedutil => self.min_khz(),
            CpufreqGovernor::Userspace { khz } => self.resolve(khz.into()),
        }
    }

    /// The capacity that the limit takes from a CPU of `capacity` (`arch_update_hw_pressure()`).
    pub fn pressure(&self, capacity: u64) -> u64 {
        let left = capacity * u64::from(self.max_khz()) / u64::from(self.hardware_max_khz());
        capacity - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_resolved_upwards_within_the_limit() {
        let machine = Machine::preset("pixel6-gs101").expect("a preset");
        let big = machine.frequency_domains().len() - 1;
        let policy = Policy::new(&machine, big);
        assert_eq!((policy.min_khz(), policy.max_khz()), (500_000, 2_802_000));
        assert_eq!(policy.resolve(0), 500_000);
        assert_eq!(policy.resolve(500_001), 851_000);
        assert_eq!(policy.resolve(u64::MAX), 2_802_000);
        let machine = machine.with_thermal_limit("big", 1_300_000).expect("a kind of core");
        let policy = Policy::new(&machine, big);
        assert_eq!(policy.max_khz(), 1_277_000);
        assert_eq!(policy.resolve(2_000_000), 1_277_000);
        assert_eq!(policy.first_khz(CpufreqGovernor::Performance), 1_277_000);
        assert_eq!(policy.pressure(1024), 1024 - 466);
    }

    /// The kernel passes operating points over that cost as much per cycle as a faster one
    /// (`EM_PERF_STATE_INEFFICIENT`); no machine with schedutil has any.
    #[test]
    fn every_operating_point_under_schedutil_is_efficient() {
        for name in Machine::preset_names() {
            let machine = Machine::preset(name).expect("a preset");
            if machine.usual_cpufreq() != schedlab_machine::UsualCpufreq::Schedutil {
                continue;
            }
            for kind in machine.cpu_types() {
                for pair in kind.opps.windows(2) {
                    let cost = |at: usize| pair[at].power_uw as f64 / f64::from(pair[at].khz);
                    assert!(cost(0) < cost(1), "{name}, {}: {} kHz", kind.name, pair[0].khz);
                }
            }
        }
    }
}

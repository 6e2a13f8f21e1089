//! CPU frequency governors: at which operating point the CPUs of a frequency domain run.
//!
//! `performance`, `powersave` and `userspace` stay where they are put. [`Schedutil`] follows the
//! utilisation of the domain's CPUs, asked whenever that changes. Who drives the hardware gets
//! [`Request`]s, and carries them out as fast as the hardware can.

mod policy;
mod schedutil;

pub use policy::Policy;
pub use schedutil::{Request, Schedutil};

use schedlab_machine::UsualCpufreq;
use serde::Deserialize;
use std::{fmt, str::FromStr};

/// A governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpufreqGovernor {
    /// The highest frequency that limits allow (`drivers/cpufreq/cpufreq_performance.c`).
    Performance,
    /// The lowest (`drivers/cpufreq/cpufreq_powersave.c`).
    Powersave,
    /// That which the user sets (`drivers/cpufreq/cpufreq_userspace.c`): the lowest operating point
    /// of at least this frequency.
    Userspace {
        /// It, kHz.
        khz: u32,
    },
    /// What the scheduler's utilisation asks for (`kernel/sched/cpufreq_schedutil.c`).
    Schedutil,
}

impl fmt::Display for CpufreqGovernor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Performance => formatter.write_str("performance"),
            Self::Powersave => formatter.write_str("powersave"),
            Self::Userspace { khz } => write!(formatter, "userspace:{}", f64::from(*khz) / 1e3),
            Self::Schedutil => formatter.write_str("schedutil"),
        }
    }
}

/// No governor has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: no cpufreq governor; there are performance, powersave, schedutil and userspace:MHZ, as in \
     userspace:1800"
)]
pub struct UnknownCpufreq(String);

impl FromStr for CpufreqGovernor {
    type Err = UnknownCpufreq;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownCpufreq(name.to_owned());
        match name {
            "performance" => Ok(Self::Performance),
            "powersave" => Ok(Self::Powersave),
            "schedutil" => Ok(Self::Schedutil),
            _ => {
                let mhz = name.strip_prefix("userspace:").and_then(|mhz| mhz.parse::<f64>().ok());
                let khz = mhz.map(|mhz| (mhz * 1e3).round()).ok_or_else(unknown)?;
                let believable = (1.0..=f64::from(u32::MAX)).contains(&khz);
                if believable { Ok(Self::Userspace { khz: khz as u32 }) } else { Err(unknown()) }
            }
        }
    }
}

impl From<UsualCpufreq> for CpufreqGovernor {
    fn from(usual: UsualCpufreq) -> Self {
        match usual {
            UsualCpufreq::Performance => Self::Performance,
            UsualCpufreq::Powersave => Self::Powersave,
            UsualCpufreq::Schedutil => Self::Schedutil,
        }
    }
}

/// Whose `schedutil`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Release {
    /// Of 6.1, and in these points of 5.7 on: the margin of a quarter goes on top of everything,
    /// waiting tasks do not count, and the rate limit is a thousand transitions, 10 ms at most.
    #[serde(rename = "v6.1")]
    V6_1,
    /// Of 6.12: the margin is part of the utilisation (9c0b4bb7f630, v6.7), tasks that wait count
    /// (7d0583cf9ec7, v6.5), and the rate limit is one and a half transitions (a755d0e2d41b, v6.11).
    #[serde(rename = "v6.12")]
    V6_12,
}

impl Release {
    /// The name that files give it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "v6.1",
            Self::V6_12 => "v6.12",
        }
    }

    /// The rate limit of a domain whose frequency takes `transition_ns` to change, ns
    /// (`cpufreq_policy_transition_delay_us()`, `drivers/cpufreq/cpufreq.c`).
    pub const fn rate_limit_ns(self, transition_ns: u64) -> u64 {
        let us = transition_ns / 1_000;
        let limit_us = match (self, us) {
            (_, 0) => 1_000,
            (Self::V6_1, us) if us >= 10 => 10_000,
            (Self::V6_1, us) => us * 1_000,
            (Self::V6_12, us) => us + us / 2,
        };
        limit_us * 1_000
    }
}

/// What a kernel says of CPU frequencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpufreqRules {
    /// The governor; `None` is the one that is usual on the machine.
    pub governor: Option<CpufreqGovernor>,
    /// The kernel's `schedutil`, if it has one: from 4.7 on, with load tracking.
    pub schedutil: Option<Release>,
    /// Schedutil's `rate_limit_us`, ns; `None` is the kernel's own of the machine.
    pub rate_limit_ns: Option<u64>,
}

impl CpufreqRules {
    /// The governor on a machine whose usual one is given; one that the kernel does not have gives
    /// way to `performance`.
    pub fn governor_on(&self, usual: UsualCpufreq) -> CpufreqGovernor {
        match self.governor.unwrap_or(usual.into()) {
            CpufreqGovernor::Schedutil if self.schedutil.is_none() => CpufreqGovernor::Performance,
            governor => governor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn governors_are_known_by_name() {
        for name in ["performance", "powersave", "schedutil", "userspace:1800", "userspace:0.5"] {
            let governor: CpufreqGovernor = name.parse().unwrap();
            assert_eq!(governor.to_string(), name);
        }
        for name in ["ondemand", "userspace", "userspace:", "userspace:0", "userspace:nan"] {
            assert!(name.parse::<CpufreqGovernor>().is_err(), "{name}");
        }
    }

    #[test]
    fn rate_limits_follow_the_transition_latency() {
        assert_eq!(Release::V6_1.rate_limit_ns(5_000_000), 10_000_000);
        assert_eq!(Release::V6_1.rate_limit_ns(4_000), 4_000_000);
        assert_eq!(Release::V6_12.rate_limit_ns(5_000_000), 7_500_000);
        assert_eq!(Release::V6_12.rate_limit_ns(0), 1_000_000);
    }

    #[test]
    fn a_kernel_without_schedutil_runs_at_full_speed() {
        let rules = CpufreqRules::default();
        assert_eq!(rules.governor_on(UsualCpufreq::Schedutil), CpufreqGovernor::Performance);
        let rules = CpufreqRules { schedutil: Some(Release::V6_1), ..rules };
        assert_eq!(rules.governor_on(UsualCpufreq::Schedutil), CpufreqGovernor::Schedutil);
        assert_eq!(rules.governor_on(UsualCpufreq::Powersave), CpufreqGovernor::Powersave);
    }
}

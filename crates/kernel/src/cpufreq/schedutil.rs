//! The `schedutil` governor (`kernel/sched/cpufreq_schedutil.c` of 6.1.192 and 6.12.117): the
//! frequency at which a domain's busiest CPU would be busy for four fifths of the time.

use super::{Policy, Release};
use crate::fair::energy::{busy_util, frequency_util_6_1, map_util_perf, performance_6_12};
use crate::fair::view::CpuState;
use schedlab_machine::CpuId;

/// A CPU's utilisation is 0 to this times its share of the biggest (`SCHED_CAPACITY_SCALE`).
const CAPACITY_SCALE: u64 = 1024;

/// The least boost of a CPU whose tasks wait for I/O (`IOWAIT_BOOST_MIN`).
const IOWAIT_BOOST_MIN: u64 = CAPACITY_SCALE / 8;

/// A change of frequency that a governor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The frequency domain.
    pub domain: usize,
    /// The frequency, kHz.
    pub khz: u32,
    /// When it was asked for, ns.
    pub time_ns: u64,
}

/// The governor of all frequency domains of a machine.
#[derive(Clone, Debug)]
pub struct Schedutil {
    release: Release,
    tick_ns: u64,
    policies: Vec<SugovPolicy>,
    policy_of: Vec<u32>,
    cpus: Vec<SugovCpu>,
    /// Those that the hardware has not got yet, oldest first.
    requests: Vec<Request>,
}

/// `struct sugov_policy`.
#[derive(Clone, Debug)]
struct SugovPolicy {
    policy: Policy,
    update_delay_ns: u64,
    last_update_ns: u64,
    next_khz: u32,
    cached_raw_khz: u64,
    /// Its limits are new, so that neither rate limit nor cache count.
    need_update: bool,
    /// More than one CPU (`policy_is_shared()`).
    shared: bool,
}

/// `struct sugov_cpu`.
#[derive(Clone, Copy, Debug, Default)]
struct SugovCpu {
    iowait_boost: u64,
    iowait_boost_pending: bool,
    last_update_ns: u64,
    /// How often it stopped its tick (`tick_nohz_get_idle_calls_cpu()`), and at the last look.
    idle_calls: u64,
    saved_idle_calls: u64,
}

impl SugovCpu {
    /// A boost ends a tick after the last request (`sugov_iowait_reset()`).
    fn iowait_reset(&mut self, now_ns: u64, tick_ns: u64, iowait: bool) -> bool {
        if (now_ns.wrapping_sub(self.last_update_ns) as i64) <= tick_ns as i64 {
            return false;
        }
        self.iowait_boost = if iowait { IOWAIT_BOOST_MIN } else { 0 };
        self.iowait_boost_pending = iowait;
        true
    }

    /// A task that waited for I/O wakes: the boost doubles, once per look (`sugov_iowait_boost()`).
    fn iowait_boost(&mut self, now_ns: u64, tick_ns: u64, iowait: bool) {
        if self.iowait_boost != 0 && self.iowait_reset(now_ns, tick_ns, iowait) {
            return;
        }
        if !iowait || self.iowait_boost_pending {
            return;
        }
        self.iowait_boost_pending = true;
        self.iowait_boost = match self.iowait_boost {
            0 => IOWAIT_BOOST_MIN,
            boost => (2 * boost).min(CAPACITY_SCALE),
        };
    }

    /// The boost as utilisation of a CPU of `capacity`; it halves if nobody asked for it since the
    /// last look (`sugov_iowait_apply()`).
    fn iowait_apply(&mut self, now_ns: u64, tick_ns: u64, capacity: u64) -> u64 {
        if self.iowait_boost == 0 || self.iowait_reset(now_ns, tick_ns, false) {
            return 0;
        }
        if !self.iowait_boost_pending {
            self.iowait_boost >>= 1;
            if self.iowait_boost < IOWAIT_BOOST_MIN {
                self.iowait_boost = 0;
                return 0;
            }
        }
        self.iowait_boost_pending = false;
        self.iowait_boost * capacity / CAPACITY_SCALE
    }

    /// It has not been idle since the last look, so that a lower frequency would be premature
    /// (`sugov_hold_freq()`).
    fn holds(&mut self) -> bool {
        self.idle_calls == std::mem::replace(&mut self.saved_idle_calls, self.idle_calls)
    }
}

/// The utilisation for which a CPU asks, boosted, a quarter of headroom included
/// (`sugov_get_util()`, `sugov_iowait_apply()`).
fn asked(release: Release, cpu: &CpuState, boost: u64) -> u64 {
    let clamped = cpu.clamps.used;
    match release {
        Release::V6_1 => {
            let boost = if clamped { cpu.clamps.clamp(boost) } else { boost };
            map_util_perf(frequency_util_6_1(cpu, cpu.cfs_util(), None, clamped).max(boost))
        }
        Release::V6_12 => {
            let util = busy_util(cpu, cpu.cfs_util_boost()).max(boost);
            performance_6_12(cpu, util, None, clamped)
        }
    }
}

impl Schedutil {
    /// The governor at the start of a machine with `cpus` CPUs: every domain at its lowest
    /// frequency. `rate_limit_ns` stands in for the kernel's own where given.
    pub fn new(
        release: Release,
        policies: Vec<Policy>,
        cpus: usize,
        tick_ns: u64,
        rate_limit_ns: Option<u64>,
    ) -> Schedutil {
        let mut policy_of = vec![0; cpus];
        for (index, policy) in policies.iter().enumerate() {
            for cpu in &policy.cpus {
                policy_of[cpu.index()] = index as u32;
            }
        }
        let policy = |policy: Policy| SugovPolicy {
            update_delay_ns: rate_limit_ns
                .unwrap_or_else(|| release.rate_limit_ns(policy.transition_ns)),
            last_update_ns: 0,
            need_update: true,
            next_khz: 0,
            cached_raw_khz: 0,
            shared: policy.cpus.weight() > 1,
            policy,
        };
        let policies: Vec<SugovPolicy> = policies.into_iter().map(policy).collect();
        Schedutil {
            release,
            tick_ns,
            requests: Vec::with_capacity(2 * policies.len()),
            policies,
            policy_of,
            cpus: vec![SugovCpu::default(); cpus],
        }
    }

    /// `cpu` idles and stops its tick.
    #[inline]
    pub fn count_idle_call(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].idle_calls += 1;
    }

    /// The oldest request that was not taken yet.
    #[inline]
    pub fn take_request(&mut self) -> Option<Request> {
        if self.requests.is_empty() { None } else { Some(self.requests.remove(0)) }
    }

    /// The utilisation of `cpu` may have changed (`cpufreq_update_util()`); `iowait` if a task wakes
    /// that waited for I/O (`SCHED_CPUFREQ_IOWAIT`). `now_ns` is the run queue's clock.
    pub fn update(&mut self, cpu: CpuId, now_ns: u64, iowait: bool, states: &[CpuState]) {
        let own = &mut self.cpus[cpu.index()];
        own.iowait_boost(now_ns, self.tick_ns, iowait);
        own.last_update_ns = now_ns;
        let domain = self.policy_of[cpu.index()] as usize;
        let policy = &self.policies[domain];
        let passed_ns = now_ns.wrapping_sub(policy.last_update_ns) as i64;
        if passed_ns < policy.update_delay_ns as i64 && !policy.need_update {
            return;
        }
        let before_khz = policy.next_khz;
        let raw_before_khz = policy.cached_raw_khz;
        let max = states[cpu.index()].capacity_orig;
        let mut util = 0;
        for other in &policy.policy.cpus {
            let boost = self.cpus[other.index()].iowait_apply(now_ns, self.tick_ns, max);
            let state = &states[other.index()];
            util = util.max(asked(self.release, state, boost));
        }
        let policy = &mut self.policies[domain];
        let mut next_khz = policy.next_frequency(util, max);
        let holds = !policy.shared && self.cpus[cpu.index()].holds();
        if holds && next_khz < before_khz && !policy.need_update {
            next_khz = before_khz;
            policy.cached_raw_khz = raw_before_khz;
        }
        policy.need_update = false;
        if next_khz != before_khz {
            policy.next_khz = next_khz;
            policy.last_update_ns = now_ns;
            self.requests.push(Request { domain, khz: next_khz, time_ns: now_ns });
        }
    }
}

impl SugovPolicy {
    /// The frequency for `util` out of `max` (`get_next_freq()`), kHz.
    fn next_frequency(&mut self, util: u64, max: u64) -> u32 {
        let raw_khz = u64::from(self.policy.hardware_max_khz()) * util / max.max(1);
        if raw_khz == self.cached_raw_khz && !self.need_update {
            return self.next_khz;
        }
        self.cached_raw_khz = raw_khz;
        self.policy.resolve(raw_khz)
    }
}

#[cfg(test)]
#[path = "schedutil_tests.rs"]
mod tests;

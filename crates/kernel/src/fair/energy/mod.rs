//! The energy model: what it costs a performance domain to run at an operating point
//! (`struct em_perf_domain`), and what a domain would use with a task on one of its CPUs
//! (`compute_energy()`).
//!
//! Source: `include/linux/energy_model.h`, `kernel/power/energy_model.c` and `kernel/sched/fair.c`
//! of Linux 6.1.192 and 6.12.117.

mod place;
mod place_5_7;

pub use place::{EnergyCandidate, EnergyChoice, EnergyPath};

use super::view::{Clamps, CpuState, TaskView};
use schedlab_machine::{CpuId, CpuSet, Machine};

/// Whose energy-aware placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyRelease {
    /// From v5.0 to v5.13: a task stays where it was unless another CPU saves more than a sixteenth
    /// of all energy (732cd75b8c92). Power counts in mW (until ae6ccaa65038, v6.0), no operating
    /// point is passed over (not before 8354eb9eb3dd, v5.16), and thermal limits are not known (not
    /// before 8f1b971b4750, v5.14).
    V5_7,
    /// From v6.0 on (3e8c6c9aac42 and its neighbours), as in 6.1: a domain runs at a quarter more
    /// than its busiest CPU uses, and tasks that wait do not count.
    V6_1,
    /// As in 6.12: the quarter is part of each CPU's utilisation (9c0b4bb7f630, v6.7), tasks that
    /// wait count (7d0583cf9ec7, v6.5), and costs are tenths per unit of performance
    /// (1b600da51073, v6.9).
    V6_12,
}

impl EnergyRelease {
    /// The name that files give it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V5_7 => "v5.7",
            Self::V6_1 => "v6.1",
            Self::V6_12 => "v6.12",
        }
    }
}

/// An operating point (`struct em_perf_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfState {
    /// Its frequency, kHz.
    pub khz: u64,
    /// Its capacity (`performance`), out of 1024 for the machine's biggest CPU at its fastest.
    pub performance: u64,
    /// Power of one busy CPU, microwatts.
    pub power_uw: u64,
    /// What a unit of utilisation costs at it.
    cost: u64,
    /// A faster point costs no more (`EM_PERF_STATE_INEFFICIENT`), so this one is passed over.
    pub inefficient: bool,
}

/// CPUs that share a frequency (`struct perf_domain`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfDomain {
    /// They.
    pub cpus: CpuSet,
    /// The capacity of one of them (`arch_scale_cpu_capacity()`).
    pub capacity: u64,
    /// Operating points, slow first.
    states: Vec<PerfState>,
    release: EnergyRelease,
}

impl PerfDomain {
    /// A domain of CPUs of `capacity` with operating points of these frequencies and powers, kHz
    /// and microwatts, slow first (`em_create_perf_table()`, `em_compute_costs()`).
    pub fn new(
        release: EnergyRelease,
        cpus: CpuSet,
        capacity: u64,
        points: impl IntoIterator<Item = (u64, u64)>,
    ) -> PerfDomain {
        let point = |(khz, power_uw)| PerfState {
            khz,
            performance: 0,
            power_uw,
            cost: 0,
            inefficient: false,
        };
        let mut states: Vec<PerfState> = points.into_iter().map(point).collect();
        let fastest_khz = states.last().map_or(1, |state| state.khz.max(1));
        let mut least = u64::MAX;
        for state in states.iter_mut().rev() {
            state.performance = capacity * state.khz / fastest_khz;
            state.cost = match release {
                EnergyRelease::V5_7 => fastest_khz * (state.power_uw / 1000) / state.khz.max(1),
                EnergyRelease::V6_1 => fastest_khz * state.power_uw / state.khz.max(1),
                EnergyRelease::V6_12 => state.power_uw * 10 / state.performance.max(1),
            };
            state.inefficient = state.cost >= least && release != EnergyRelease::V5_7;
            least = least.min(state.cost);
        }
        PerfDomain { cpus, capacity, states, release }
    }

    /// Its operating points, slow first.
    pub fn states(&self) -> &[PerfState] {
        &self.states
    }

    /// The slowest efficient point that `enough` accepts, or the fastest
    /// (`em_pd_get_efficient_state()`).
    fn efficient(&self, enough: impl Fn(&PerfState) -> bool) -> &PerfState {
        let found = self.states.iter().find(|state| enough(state) && !state.inefficient);
        found.unwrap_or(&self.states[self.states.len() - 1])
    }

    /// What the domain uses if its busiest CPU asks for `max_util` and all of them are busy for
    /// `sum_util`, of which `allowed` is the most that a CPU can give now (`em_cpu_energy()`). Of
    /// meaning only beside other energies of the same release.
    pub fn energy(&self, max_util: u64, sum_util: u64, allowed: u64) -> u64 {
        if sum_util == 0 || self.states.is_empty() {
            return 0;
        }
        match self.release {
            EnergyRelease::V5_7 => {
                let fastest_khz = self.states[self.states.len() - 1].khz;
                let khz = map_util_perf(fastest_khz) * max_util / self.capacity.max(1);
                self.efficient(|state| state.khz >= khz).cost * sum_util / self.capacity.max(1)
            }
            EnergyRelease::V6_1 => {
                let max_util = map_util_perf(max_util).min(allowed);
                let fastest_khz = self.states[self.states.len() - 1].khz;
                let khz = fastest_khz * max_util / self.capacity.max(1);
                self.efficient(|state| state.khz >= khz).cost * sum_util / self.capacity.max(1)
            }
            EnergyRelease::V6_12 => {
                let max_util = max_util.min(allowed);
                self.efficient(|state| state.performance >= max_util).cost * sum_util
            }
        }
    }
}

/// All performance domains of a machine (`rd->pd`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnergyModel {
    /// In the order in which the kernel looks at them: that of the highest CPU first, as each new
    /// one goes to the head of the list (`build_perf_domains()`).
    domains: Vec<PerfDomain>,
    release: EnergyRelease,
}

impl EnergyModel {
    /// The model of a machine, from the operating points of its frequency domains.
    pub fn new(machine: &Machine, release: EnergyRelease) -> EnergyModel {
        let domains = machine.frequency_domains().iter().map(|domain| {
            let kind = &machine.cpu_types()[domain.cpu_type];
            let points = kind.opps.iter().map(|opp| (u64::from(opp.khz), opp.power_uw));
            PerfDomain::new(release, domain.cpus, u64::from(kind.capacity), points)
        });
        EnergyModel::of(release, domains.collect())
    }

    /// A model of given domains.
    pub fn of(release: EnergyRelease, mut domains: Vec<PerfDomain>) -> EnergyModel {
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.cpus.first()));
        EnergyModel { domains, release }
    }

    /// Its domains, in the order in which the kernel looks at them.
    pub fn domains(&self) -> &[PerfDomain] {
        &self.domains
    }

    /// Whose it is.
    pub fn release(&self) -> EnergyRelease {
        self.release
    }
}

/// A quarter more (`map_util_perf()`).
pub(crate) fn map_util_perf(util: u64) -> u64 {
    util + (util >> 2)
}

/// Real-time tasks run or wait (`rt_rq_is_runnable()`).
fn runs_real_time(state: &CpuState) -> bool {
    state.nr_running > state.h_nr_queued + state.nr_dl
}

/// Interrupts take time from all classes alike (`scale_irq_capacity()`).
fn scale_irq_capacity(util: u64, irq: u64, max: u64) -> u64 {
    util * (max - irq) / max
}

/// How long the CPU would be busy, by all classes and interrupts (`effective_cpu_util()` with
/// `ENERGY_UTIL`, or without limits from v6.8 on).
pub(crate) fn busy_util(state: &CpuState, util_cfs: u64) -> u64 {
    let max = state.capacity_orig;
    if state.util_irq >= max {
        return max;
    }
    let util = util_cfs + state.util_rt + state.util_dl;
    if util >= max {
        return max;
    }
    (scale_irq_capacity(util, state.util_irq, max) + state.util_irq).min(max)
}

/// For which utilisation the frequency is chosen in 6.1, if `task` comes to the CPU
/// (`effective_cpu_util()` with `FREQUENCY_UTIL`). `clamped`: clamps are in use.
pub(crate) fn frequency_util_6_1(
    state: &CpuState,
    util_cfs: u64,
    task: Option<&Clamps>,
    clamped: bool,
) -> u64 {
    let queue = state.clamps;
    let limits = match task {
        _ if !clamped => None,
        // The last task's maximum goes with it.
        Some(task) if queue.idle => Some((task.min, task.max)),
        Some(task) => Some((task.min.max(queue.min()), task.max.max(queue.max()))),
        None => Some((queue.min(), queue.max())),
    };
    frequency_util(state, util_cfs, limits)
}

/// The same, within limits, if clamps are in use (`schedutil_cpu_util()`).
fn frequency_util(state: &CpuState, util_cfs: u64, limits: Option<(u64, u64)>) -> u64 {
    let max = state.capacity_orig;
    if (limits.is_none() && runs_real_time(state)) || state.util_irq >= max {
        return max;
    }
    let mut util = util_cfs + state.util_rt;
    if let Some((low, high)) = limits {
        util = clamp(util, low, high);
    }
    if util + state.util_dl >= max {
        return max;
    }
    // Bandwidth is what deadline tasks may need, so a frequency is chosen for it, not for use.
    (scale_irq_capacity(util, state.util_irq, max) + state.util_irq + state.bw_dl).min(max)
}

/// A minimum counts before a maximum (`uclamp_rq_util_with()`).
pub(crate) fn clamp(util: u64, low: u64, high: u64) -> u64 {
    if low >= high { low } else { util.clamp(low, high) }
}

/// The performance for which the frequency is chosen in 6.12 if the CPU is busy for `util`, and
/// `task` comes to it (`effective_cpu_util()` with limits, `sugov_effective_cpu_perf()`).
pub(crate) fn performance_6_12(
    state: &CpuState,
    util: u64,
    task: Option<&Clamps>,
    clamped: bool,
) -> u64 {
    let scale = state.capacity_orig;
    let (mut low, mut high);
    if state.util_irq >= scale {
        (low, high) = (scale, scale);
    } else {
        low = (state.util_irq + state.bw_dl).max(state.clamps.min());
        if !clamped && runs_real_time(state) {
            low = low.max(scale);
        }
        high = state.clamps.max().min(scale);
    }
    if let Some(task) = task.filter(|_| clamped) {
        low = low.max(task.min);
        high = if state.clamps.idle { task.max } else { high.max(task.max) };
    }
    low.max(high.min(map_util_perf(util)))
}

impl TaskView<'_> {
    /// The utilisation of `cpu` if the task were on `dst_cpu`, or on none (`cpu_util()`; up to
    /// v6.4 `cpu_util_next()`, which has no boost by waiting tasks).
    pub fn util_on(
        &self,
        cpu: CpuId,
        state: &CpuState,
        dst_cpu: Option<CpuId>,
        boost: bool,
    ) -> u64 {
        let here = self.cpu == cpu;
        let comes = dst_cpu == Some(cpu);
        let (mut util, mut runnable) = (state.util, state.runnable);
        if comes && !here {
            util += self.util;
            runnable += self.runnable;
        } else if here && !comes {
            util = util.saturating_sub(self.util);
            runnable = runnable.saturating_sub(self.runnable);
        }
        if boost {
            util = util.max(runnable);
        }
        let util_est = if comes { state.util_est + self.util_est } else { state.util_est };
        util.max(util_est).min(state.capacity_orig)
    }
}

#[cfg(test)]
mod tests;

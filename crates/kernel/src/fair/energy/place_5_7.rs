//! Where a waking task costs the least energy, up to v5.13: the previous CPU stays unless another
//! saves more than a sixteenth of all energy (`find_energy_efficient_cpu()` of 732cd75b8c92, v5.0).
//!
//! Later kernels compute no energy where no CPU fits (619e090c8e40, v5.14), which also changes the
//! sum that the margin is of, and dropped the margin (b812fc9768e0, v6.0).

use super::frequency_util;
use super::{EnergyCandidate, EnergyChoice, EnergyPath, PerfDomain, busy_util, clamp};
use crate::fair::view::{CpuState, TaskView, fits_capacity};
use schedlab_machine::{CpuId, CpuSet};

/// Less of the energy than this part of it (`>> 4`) is not worth a move.
const MARGIN_SHIFT: u32 = 4;

impl EnergyPath<'_> {
    /// As [`EnergyPath::find`], within `span`.
    pub(super) fn find_with_margin(
        &self,
        task: &TaskView<'_>,
        span: &CpuSet,
        mut log: Option<&mut Vec<EnergyCandidate>>,
    ) -> EnergyChoice {
        let prev = task.cpu;
        if task.util_estimate() == 0 {
            return EnergyChoice { cpu: prev, early: true };
        }
        let (mut prev_delta, mut best_delta) = (u64::MAX, u64::MAX);
        let (mut best, mut all_energy) = (prev, 0_u64);
        for domain in self.model.domains() {
            let base_energy = self.energy_with_margin(domain, task, None);
            all_energy += base_energy;
            let mut weigh = |cpu: CpuId, spare: u64| {
                let energy = self.energy_with_margin(domain, task, Some(cpu));
                let delta = energy.wrapping_sub(base_energy);
                if let Some(log) = log.as_deref_mut() {
                    let spare_capacity = spare as i64;
                    log.push(EnergyCandidate {
                        cpu,
                        base_energy,
                        delta,
                        spare_capacity,
                        fits_minimum: true,
                    });
                }
                delta
            };
            let (mut most_spare, mut roomiest) = (0, None);
            for cpu in &domain.cpus {
                if !span.contains(cpu) || !task.allowed.contains(cpu) {
                    continue;
                }
                let state = &self.cpus[cpu.index()];
                let util = task.util_on(cpu, state, Some(cpu), false);
                let spare = state.capacity.saturating_sub(util);
                let asked =
                    limits(state, task, true).map_or(util, |(low, high)| clamp(util, low, high));
                if !fits_capacity(asked, state.capacity) {
                    continue;
                }
                if cpu == prev {
                    prev_delta = weigh(prev, spare);
                    best_delta = best_delta.min(prev_delta);
                }
                if spare > most_spare {
                    (most_spare, roomiest) = (spare, Some(cpu));
                }
            }
            if let Some(cpu) = roomiest.filter(|cpu| *cpu != prev) {
                let delta = weigh(cpu, most_spare);
                if delta < best_delta {
                    (best, best_delta) = (cpu, delta);
                }
            }
        }
        let moves = prev_delta == u64::MAX
            || prev_delta - best_delta > prev_delta.wrapping_add(all_energy) >> MARGIN_SHIFT;
        EnergyChoice { cpu: if moves { best } else { prev }, early: false }
    }

    /// What the domain uses with the task on `dst`, or on none of its CPUs (`compute_energy()`): a
    /// clamp counts for the CPU to which the task comes, whether that is idle or not.
    fn energy_with_margin(
        &self,
        domain: &PerfDomain,
        task: &TaskView<'_>,
        dst: Option<CpuId>,
    ) -> u64 {
        let (mut max_util, mut sum_util) = (0, 0);
        for cpu in &domain.cpus {
            let state = &self.cpus[cpu.index()];
            let util = task.util_on(cpu, state, dst, false);
            sum_util += busy_util(state, util);
            let limits = limits(state, task, dst == Some(cpu));
            max_util = frequency_util(state, util, limits).max(max_util);
        }
        domain.energy(max_util, sum_util, u64::MAX)
    }
}

/// The queue's clamps, and the task's if it comes; `None` if none are in use
/// (`uclamp_rq_util_with()`).
fn limits(state: &CpuState, task: &TaskView<'_>, comes: bool) -> Option<(u64, u64)> {
    let (queue, clamps) = (state.clamps, &task.clamps);
    match comes {
        _ if !clamps.used => None,
        true => Some((clamps.min.max(queue.min()), clamps.max.max(queue.max()))),
        false => Some((queue.min(), queue.max())),
    }
}

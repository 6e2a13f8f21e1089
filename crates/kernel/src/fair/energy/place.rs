//! Where a waking task costs the least energy (`find_energy_efficient_cpu()`).

use super::{
    EnergyModel, EnergyRelease, PerfDomain, busy_util, frequency_util_6_1, performance_6_12,
    scale_irq_capacity,
};
use crate::fair::topology::Domains;
use crate::fair::view::{Clamps, CpuState, Fit, TaskView, util_fits_cpu};
use schedlab_machine::CpuId;

/// A CPU whose energy was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyCandidate {
    /// Which.
    pub cpu: CpuId,
    /// What its domain uses without the task.
    pub base_energy: u64,
    /// What the task would add there.
    pub delta: u64,
    /// Capacity that would be left.
    pub spare_capacity: i64,
    /// The task's requested minimum fits, too.
    pub fits_minimum: bool,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnergyChoice {
    /// Where the task goes.
    pub cpu: CpuId,
    /// Nothing was weighed: the task has no utilisation, or its domain's changed meanwhile.
    pub early: bool,
}

/// The machine's state for the search.
#[derive(Debug)]
pub struct EnergyPath<'a> {
    /// The energy model.
    pub model: &'a EnergyModel,
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuState],
}

/// What a domain does without the task (`struct energy_env`).
struct Environment<'a> {
    domain: &'a PerfDomain,
    /// The capacity that limits leave to one CPU, and to all.
    cpu_capacity: u64,
    pd_capacity: u64,
    busy_time: u64,
    task_busy_time: u64,
}

/// How well a task fits, as the kernel orders it: 1 entirely, -1 but for its minimum, 0 not.
fn rank(fit: Fit) -> i32 {
    match fit {
        Fit::Full => 1,
        Fit::ExceptMinimum => -1,
        Fit::No => 0,
    }
}

impl EnergyPath<'_> {
    /// The CPU for a task that `this_cpu` wakes; `None` if CPUs of different capacity do not share
    /// a domain with both, so that energy has no say. Candidates go to `log`. The task's averages
    /// must be up to date (`sync_entity_load_avg()`).
    pub fn find(
        &self,
        task: &TaskView<'_>,
        this_cpu: CpuId,
        mut log: Option<&mut Vec<EnergyCandidate>>,
    ) -> Option<EnergyChoice> {
        let prev = task.cpu;
        let asym = self.domains.asym_cpucapacity(this_cpu)?;
        let stack = self.domains.stack(this_cpu);
        let level = stack.iter().position(|&membership| membership == asym)?;
        let mut spans = stack[level..].iter().map(|&membership| &self.domains.get(membership).span);
        let span = spans.find(|span| span.contains(prev))?;
        if self.model.release() == EnergyRelease::V5_7 {
            return Some(self.find_with_margin(task, span, log));
        }

        let stay = EnergyChoice { cpu: prev, early: true };
        let Clamps { used, .. } = task.clamps;
        let (task_min, task_max) =
            if used { (task.clamps.min, task.clamps.max) } else { (0, 1024) };
        if task.util_estimate() == 0 && task_min == 0 {
            return Some(stay);
        }
        let task_busy_time = self.task_busy_time(task);
        let (mut prev_fits, mut best_fits) = (-1, -1);
        let (mut prev_delta, mut best_delta) = (u64::MAX, u64::MAX);
        let (mut prev_capacity, mut best_capacity) = (0, 0);
        let mut best = prev;
        for domain in self.model.domains() {
            let Some(first) = domain.cpus.first() else { continue };
            let cpu_capacity = self.cpus[first.index()].actual_capacity();
            let (mut prev_spare, mut most_spare) = (-1_i64, -1_i64);
            let (mut roomiest, mut most_fits) = (None, -1);
            // An idle CPU is held against the clamps of the busy one before it: the kernel does
            // not set them back.
            let mut clamps = Clamps { used, min: task_min, max: task_max };
            for cpu in &domain.cpus {
                if !span.contains(cpu) || !task.allowed.contains(cpu) {
                    continue;
                }
                let state = &self.cpus[cpu.index()];
                let util = task.util_on(cpu, state, Some(cpu), false);
                if used && !state.clamps.idle {
                    clamps.min = state.clamps.min().max(task_min);
                    clamps.max = state.clamps.max().max(task_max);
                }
                let fits = rank(util_fits_cpu(util, &clamps, state));
                if fits == 0 {
                    continue;
                }
                let spare = state.capacity.saturating_sub(util) as i64;
                if cpu == prev {
                    (prev_spare, prev_fits) = (spare, fits);
                } else if fits > most_fits || (fits == most_fits && spare > most_spare) {
                    (most_spare, roomiest, most_fits) = (spare, Some(cpu), fits);
                }
            }
            if roomiest.is_none() && prev_spare < 0 {
                continue;
            }
            let pd_capacity = cpu_capacity * domain.cpus.weight() as u64;
            let busy_time = self.busy_time(domain, task, pd_capacity);
            let environment =
                Environment { domain, cpu_capacity, pd_capacity, busy_time, task_busy_time };
            let base_energy = self.energy(&environment, task, None);
            let mut weigh = |cpu, spare_capacity, fits: i32| {
                let delta = self.energy(&environment, task, Some(cpu)).checked_sub(base_energy)?;
                if let Some(log) = log.as_deref_mut() {
                    let fits_minimum = fits > 0;
                    log.push(EnergyCandidate {
                        cpu,
                        base_energy,
                        delta,
                        spare_capacity,
                        fits_minimum,
                    });
                }
                Some(delta)
            };
            if prev_spare > -1 {
                let Some(delta) = weigh(prev, prev_spare, prev_fits) else { return Some(stay) };
                prev_delta = delta;
                prev_capacity = cpu_capacity;
                best_delta = best_delta.min(prev_delta);
            }
            if let Some(cpu) = roomiest.filter(|_| most_spare > prev_spare) {
                let worse = most_fits < best_fits;
                let no_bigger = most_fits < 0 && cpu_capacity <= best_capacity;
                if worse || no_bigger {
                    continue;
                }
                let Some(delta) = weigh(cpu, most_spare, most_fits) else { return Some(stay) };
                if most_fits > 0 && best_fits > 0 && delta >= best_delta {
                    continue;
                }
                (best, best_delta) = (cpu, delta);
                (best_fits, best_capacity) = (most_fits, cpu_capacity);
            }
        }
        let moves = best_fits > prev_fits
            || (best_fits > 0 && best_delta < prev_delta)
            || (best_fits < 0 && best_capacity > prev_capacity);
        Some(EnergyChoice { cpu: if moves { best } else { prev }, early: false })
    }

    /// `eenv_task_busy_time()`.
    fn task_busy_time(&self, task: &TaskView<'_>) -> u64 {
        let state = &self.cpus[task.cpu.index()];
        let max = state.capacity_orig;
        if state.util_irq >= max {
            return max;
        }
        scale_irq_capacity(task.util_estimate(), state.util_irq, max)
    }

    /// How long the domain's CPUs are busy without the task (`eenv_pd_busy_time()`).
    fn busy_time(&self, domain: &PerfDomain, task: &TaskView<'_>, pd_capacity: u64) -> u64 {
        let busy = |cpu: CpuId| {
            let state = &self.cpus[cpu.index()];
            busy_util(state, task.util_on(cpu, state, None, false))
        };
        domain.cpus.iter().map(busy).sum::<u64>().min(pd_capacity)
    }

    /// What the busiest CPU asks for (`eenv_pd_max_util()`).
    fn max_util(
        &self,
        environment: &Environment<'_>,
        task: &TaskView<'_>,
        dst: Option<CpuId>,
    ) -> u64 {
        let clamped = task.clamps.used;
        let asks = |cpu: CpuId| {
            let state = &self.cpus[cpu.index()];
            let comes = (dst == Some(cpu)).then_some(&task.clamps);
            match self.model.release() {
                EnergyRelease::V5_7 | EnergyRelease::V6_1 => {
                    let util = task.util_on(cpu, state, dst, false);
                    frequency_util_6_1(state, util, comes, clamped)
                }
                EnergyRelease::V6_12 => {
                    let util = task.util_on(cpu, state, dst, true);
                    performance_6_12(state, busy_util(state, util), comes, clamped)
                }
            }
        };
        let most = environment.domain.cpus.iter().map(asks).max().unwrap_or(0);
        most.min(environment.cpu_capacity)
    }

    /// What the domain uses with the task on `dst`, or on none of its CPUs (`compute_energy()`).
    fn energy(
        &self,
        environment: &Environment<'_>,
        task: &TaskView<'_>,
        dst: Option<CpuId>,
    ) -> u64 {
        let max_util = self.max_util(environment, task, dst);
        let mut busy_time = environment.busy_time;
        if dst.is_some() {
            busy_time = (busy_time + environment.task_busy_time).min(environment.pd_capacity);
        }
        environment.domain.energy(max_util, busy_time, environment.cpu_capacity)
    }
}

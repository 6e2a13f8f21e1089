//! Energy-aware placement and utilisation clamps in the life of tasks: what the wake path asks, and
//! when the machine counts as over-utilised.

use super::task::UTIL_AVG_UNCHANGED;
use super::{NewTask, Scheduler, Task};
use crate::fair::TaskId;
use crate::fair::energy::{EnergyModel, EnergyPath, EnergyRelease};
use crate::fair::uclamp::TaskClamps;
use crate::fair::view::Clamps;
use crate::hardware::{Decision, Hardware};
use schedlab_machine::{CpuId, Machine};

impl Scheduler {
    /// Has placement weigh energy on this machine from now on, if the kernel would: CPUs differ in
    /// capacity, no core has threads, and schedutil chooses frequencies (`sched_is_eas_possible()`,
    /// `build_perf_domains()`).
    pub fn weigh_energy(&mut self, machine: &Machine) {
        let possible = self.domains.asym_cpucapacity_active()
            && !self.domains.smt_active()
            && self.has_schedutil();
        let release = self.config.wake.energy.filter(|_| possible && self.config.classic.is_none());
        self.energy = release.map(|release| EnergyModel::new(machine, release));
    }

    /// Placement weighs energy (`sched_energy_enabled()`).
    pub fn weighs_energy(&self) -> bool {
        self.energy.is_some()
    }

    /// Tasks are spread rather than placed by energy (`rd->overutilized`).
    pub fn is_overutilized(&self) -> bool {
        self.overutilized
    }

    /// `check_update_overutilized_status()`.
    #[inline]
    pub(super) fn check_overutilized(&mut self, cpu: CpuId) {
        if self.energy.is_some() && !self.overutilized {
            self.overutilized = self.cpus[cpu.index()].is_overutilized();
        }
    }

    /// Where a waking task costs the least energy, if that is what counts now.
    pub(super) fn select_by_energy(
        &mut self,
        id: TaskId,
        waker_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> Option<CpuId> {
        if self.energy.is_none() || self.overutilized {
            return None;
        }
        self.sync_asleep(id);
        let model = self.energy.as_ref()?;
        let allowed = self.allowed(id);
        let view = self.view(id, allowed);
        let path = EnergyPath { model, domains: &self.domains, cpus: &self.cpus };
        let mut candidates = hardware.explains().then(Vec::new);
        let choice = path.find(&view, waker_cpu, candidates.as_mut())?;
        let (prev_cpu, early) = (view.cpu, choice.early);
        let cpu = Self::within(allowed, choice.cpu);
        if let Some(candidates) = candidates {
            let decision =
                Decision::Energy { task: id, prev_cpu, waker_cpu, candidates, early, cpu };
            hardware.explain(waker_cpu, decision);
        }
        Some(cpu)
    }

    /// Ages a sleeping task's averages to where its queue's stand (`sync_entity_load_avg()`).
    fn sync_asleep(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        let weight = self.entities[id.index()].load.weight;
        let last_update_time = self.rqs[task.cpu.index()].avg.last_update_time;
        if task.avg.last_update_time != 0
            && task.avg.update_blocked_entity(last_update_time, weight)
        {
            task.util_est &= !UTIL_AVG_UNCHANGED;
        }
    }

    /// What a new task asks for; a real-time task all of the CPU, unless it says otherwise
    /// (`sysctl_sched_uclamp_util_min_rt_default`).
    pub(super) fn clamps_of(&mut self, new: &NewTask) -> TaskClamps {
        if new.clamps.is_some() && !self.uclamp_used {
            self.uclamp_used = true;
            for state in &mut self.cpus {
                state.clamps.used = true;
            }
        }
        let usual = TaskClamps::default();
        let least = if new.real_time.is_some() { usual.max } else { usual.min };
        new.clamps.unwrap_or(TaskClamps { min: least, ..usual })
    }

    /// A task's clamps as placement sees them (`uclamp_eff_value()`).
    pub(super) fn clamps(&self, task: &Task) -> Clamps {
        let TaskClamps { min, max } = task.clamps;
        Clamps { used: self.uclamp_used, min: min.into(), max: max.into() }
    }

    /// Up to 6.1 a queue learns of a task's clamps before the task is queued, in 6.12 after, since only
    /// then it is known whether the task stays asleep.
    pub(super) fn clamps_come_first(&self) -> bool {
        let older = [Some(EnergyRelease::V5_7), Some(EnergyRelease::V6_1)];
        self.uclamp_used && older.contains(&self.config.wake.energy)
    }

    /// `uclamp_rq_inc()`.
    #[inline]
    pub(super) fn enter_clamps(&mut self, cpu: CpuId, id: TaskId) {
        if !self.uclamp_used || self.entities[id.index()].sched_delayed || self.is_deadline(id) {
            return;
        }
        let task = &mut self.tasks[id.index()];
        if !std::mem::replace(&mut task.clamped, true) {
            self.rqs[cpu.index()].clamps.enter(task.clamps);
            self.cpus[cpu.index()].clamps = self.rqs[cpu.index()].clamps.seen();
        }
    }

    /// `uclamp_rq_dec()`.
    #[inline]
    pub(super) fn leave_clamps(&mut self, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        if std::mem::take(&mut task.clamped) {
            self.rqs[cpu.index()].clamps.leave(task.clamps);
            self.cpus[cpu.index()].clamps = self.rqs[cpu.index()].clamps.seen();
        }
    }
}

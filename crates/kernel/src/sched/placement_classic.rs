//! Placement by load weights. The decisions are in [`crate::fair::classic::place`].

use super::placement::WakeFlags;
use super::{Class, Scheduler, TaskState};
use crate::fair::TaskId;
use crate::fair::classic::ClassicRules;
use crate::fair::classic::place::{Place, Placed, Woken};
use crate::fair::topology::DomainFlags;
use crate::hardware::{Decision, Hardware, Occasion, WakeCandidate};
use schedlab_machine::CpuId;

impl Scheduler {
    /// Fork or exec placement, seen from `this_cpu`.
    pub(super) fn select_slow_classic(
        &self,
        rules: ClassicRules,
        id: TaskId,
        this_cpu: CpuId,
        occasion: Occasion,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        let flag = match occasion {
            Occasion::Fork => DomainFlags::BALANCE_FORK,
            Occasion::Exec => DomainFlags::BALANCE_EXEC,
        };
        let allowed = self.allowed(id);
        let place = Place { domains: &self.domains, cpus: &self.classic_cpus, rules };
        let mut choices = hardware.explains().then(Vec::new);
        let cpu = place.slow(&self.placed(id), this_cpu, flag, choices.as_mut());
        let cpu = Self::within(allowed, cpu);
        if let Some(choices) = choices {
            let from_cpu = this_cpu;
            hardware
                .explain(this_cpu, Decision::Slow { task: id, occasion, from_cpu, choices, cpu });
        }
        cpu
    }

    /// Wake-up placement.
    pub(super) fn select_wake_classic(
        &self,
        rules: ClassicRules,
        id: TaskId,
        waker_cpu: CpuId,
        flags: WakeFlags,
        hardware: &mut impl Hardware,
    ) -> CpuId {
        let current = self.rqs[waker_cpu.index()].curr;
        let weighs = |current: TaskId| {
            let fair = self.class(current) == Class::Fair
                && self.tasks[current.index()].state != TaskState::Dead;
            if fair { self.entities[current.index()].load.unscaled() } else { 0 }
        };
        let woken =
            Woken { cpu: waker_cpu, sync: flags.sync, current_weight: current.map_or(0, weighs) };
        let place = Place { domains: &self.domains, cpus: &self.classic_cpus, rules };
        let placed = self.placed(id);
        let chosen = place.on_wake(&placed, &woken);
        let cpu = Self::within(self.allowed(id), chosen.cpu);
        if hardware.explains() {
            let mut candidates: Vec<WakeCandidate> = Vec::new();
            for cpu in [waker_cpu, placed.prev_cpu, cpu] {
                if candidates.iter().all(|candidate| candidate.cpu != cpu) {
                    candidates.push(WakeCandidate { cpu, state: self.cpus[cpu.index()] });
                }
            }
            let decision = Decision::Wake {
                task: id,
                prev_cpu: placed.prev_cpu,
                waker_cpu,
                affine: chosen.affine,
                candidates,
                rule: chosen.rule,
                cpu,
            };
            hardware.explain(waker_cpu, decision);
        }
        cpu
    }

    fn placed(&self, id: TaskId) -> Placed<'_> {
        Placed {
            prev_cpu: self.tasks[id.index()].cpu,
            weight: self.entities[id.index()].load.unscaled(),
            allowed: self.allowed(id),
            util: self.tasks[id.index()]
                .runnable
                .task_util(self.entities[id.index()].load.unscaled()),
        }
    }
}

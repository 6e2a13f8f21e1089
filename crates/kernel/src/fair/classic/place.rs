//! Placement by load: near the waker or where the task last ran, then any idle CPU of that cache;
//! at fork and exec the least loaded group and its least loaded CPU (`wake_affine()`,
//! `select_idle_sibling()`, `find_idlest_group()`, `select_task_rq_fair()`).

use super::{ClassicRules, CpuView, LOAD_SCALE, power_of};
use crate::fair::group::GroupStats;
use crate::fair::slow_path::{Candidate, CpuRule, GroupChoice, GroupRule};
use crate::fair::topology::{Domain, DomainFlags, Domains, Group, Membership};
use crate::fair::wake::WakeRule;
use schedlab_machine::{CpuId, CpuSet};

/// Placement over a machine's state.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuView],
    /// The release's rules.
    pub rules: ClassicRules,
}

/// The task that is placed.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Where it is, or last was.
    pub prev_cpu: CpuId,
    /// Its weight.
    pub weight: u64,
    /// CPUs that it may use.
    pub allowed: &'a CpuSet,
    /// The share of time in which it runs or waits, 0 to 1024; 1024 if it is new. Of meaning only for
    /// power-aware scheduling.
    pub util: u64,
}

/// Where and how a task is woken.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    /// The waker's CPU.
    pub cpu: CpuId,
    /// The waker promises to sleep soon.
    pub sync: bool,
    /// Weight of what runs there; the idle task weighs nothing here.
    pub current_weight: u64,
}

/// Where a task wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The CPU; it may lie outside the allowed ones, which the core then repairs.
    pub cpu: CpuId,
    /// What `wake_affine()` answered, if it was asked.
    pub affine: Option<CpuId>,
    /// The step that decided.
    pub rule: WakeRule,
}

impl Place<'_> {
    pub(in crate::fair) fn cpu(&self, cpu: CpuId) -> &CpuView {
        &self.cpus[cpu.index()]
    }

    /// A CPU for a task that wakes (`select_task_rq_fair()` with `SD_BALANCE_WAKE`, which no domain
    /// has).
    pub fn on_wake(&self, task: &Placed<'_>, waker: &Woken) -> Chosen {
        let shares = |membership: &&Membership| {
            let domain = self.domains.get(**membership);
            domain.flags.has(DomainFlags::WAKE_AFFINE) && domain.span.contains(task.prev_cpu)
        };
        let shared = self.domains.stack(waker.cpu).iter().find(shares);
        let Some(&shared) = shared.filter(|_| task.allowed.contains(waker.cpu)) else {
            return Chosen { cpu: task.prev_cpu, affine: None, rule: WakeRule::NothingFree };
        };
        if let Some((cpu, _)) = self.pack(shared, task, waker.cpu, true, None) {
            return Chosen { cpu, affine: None, rule: WakeRule::Packed };
        }
        let domain = self.domains.get(shared);
        let mut affine = None;
        let mut target = waker.cpu;
        if waker.cpu != task.prev_cpu {
            if !self.is_affine(domain, task, waker) {
                target = task.prev_cpu;
            }
            affine = Some(target);
        }
        let (cpu, rule) = self.idle_sibling(task, waker.cpu, target);
        Chosen { cpu, affine, rule }
    }

    /// True if the waker's CPU is no worse than the task's (`wake_affine()`).
    fn is_affine(&self, domain: &Domain, task: &Placed<'_>, waker: &Woken) -> bool {
        let (this, prev) = (self.cpu(waker.cpu), self.cpu(task.prev_cpu));
        // wake_idx is 0 in every domain.
        let load = prev.source_load(0);
        let mut this_load = this.target_load(0);
        if waker.sync {
            this_load = this_load.wrapping_sub(waker.current_weight);
        }
        let bias = 100 + (u64::from(domain.imbalance_pct) - 100) / 2;
        let here = 100_u64.wrapping_mul(this_load.wrapping_add(task.weight));
        let there = bias * load;
        let balanced = this_load == 0
            || if self.rules.affine_by_power {
                let here = here.wrapping_mul(power_of(self.domains, task.prev_cpu));
                here <= there.wrapping_mul(power_of(self.domains, waker.cpu))
            } else {
                here <= there
            };
        balanced
            || (this_load <= load
                && this_load.wrapping_add(prev.target_load(0)) <= this.load_per_task())
    }

    /// An idle CPU of the cache that `target` is in, or `target` (`select_idle_sibling()`).
    fn idle_sibling(
        &self,
        task: &Placed<'_>,
        waker_cpu: CpuId,
        target: CpuId,
    ) -> (CpuId, WakeRule) {
        if (target == waker_cpu || target == task.prev_cpu) && self.cpu(target).idle {
            return (target, WakeRule::TargetFree);
        }
        if self.rules.v3_9.is_some() {
            return self.idle_group(task, target);
        }
        let mut found = (target, WakeRule::NothingFree);
        for &membership in self.domains.stack(target) {
            let domain = self.domains.get(membership);
            if !domain.flags.has(DomainFlags::SHARE_LLC) {
                break;
            }
            let idle = (domain.span & *task.allowed).iter().find(|&cpu| self.cpu(cpu).idle);
            if let Some(cpu) = idle {
                found = (cpu, WakeRule::FreeCpu);
            }
            if domain.span.contains(waker_cpu) && domain.span.contains(task.prev_cpu) {
                break;
            }
        }
        found
    }

    /// In 3.9: the idle CPU on which the task slept, or the first allowed one of a group that idles
    /// as a whole, from the widest domain of the cache downwards (`select_idle_sibling()`; v3.9,
    /// e0a79f529d5b).
    fn idle_group(&self, task: &Placed<'_>, target: CpuId) -> (CpuId, WakeRule) {
        let prev = task.prev_cpu;
        if prev != target && self.domains.share_cache(prev, target) && self.cpu(prev).idle {
            return (prev, WakeRule::PreviousFree);
        }
        let stack = self.domains.stack(target).iter();
        let cached =
            stack.rev().filter(|&&m| self.domains.get(m).flags.has(DomainFlags::SHARE_LLC));
        for &membership in cached {
            let idle = self.domains.ring(membership).find(|group| {
                group.span.intersects(task.allowed)
                    && group.span.iter().all(|cpu| self.cpu(cpu).idle)
            });
            if let Some(cpu) = idle.and_then(|group| (group.span & *task.allowed).first()) {
                return (cpu, WakeRule::FreeCpu);
            }
        }
        (target, WakeRule::NothingFree)
    }

    /// A CPU for a task that forks or calls exec on `this_cpu` (`select_task_rq_fair()` with
    /// `SD_BALANCE_FORK` or `SD_BALANCE_EXEC`). Every choice between groups goes to `log`.
    pub fn slow(
        &self,
        task: &Placed<'_>,
        this_cpu: CpuId,
        flag: DomainFlags,
        mut log: Option<&mut Vec<GroupChoice>>,
    ) -> CpuId {
        for &membership in self.domains.stack(this_cpu) {
            if self.domains.get(membership).flags.has(flag)
                && let Some((cpu, _)) =
                    self.pack(membership, task, this_cpu, false, log.as_deref_mut())
            {
                return cpu;
            }
        }
        let mut cpu = this_cpu;
        let mut chosen = this_cpu;
        let mut level = self.widest(this_cpu, flag);
        while let Some(at) = level {
            let membership = self.domains.stack(cpu)[at];
            let domain = self.domains.get(membership);
            level = at.checked_sub(1);
            if !domain.flags.has(flag) {
                continue;
            }
            let Some(group) = self.idlest_group(at, membership, task, cpu, log.as_deref_mut())
            else {
                continue;
            };
            let idlest = self.idlest_cpu(group, task, cpu);
            if let Some(choice) = log.as_deref_mut().and_then(|log| log.last_mut()) {
                choice.picked = idlest.map(|idlest| (idlest, CpuRule::Load));
            }
            if let Some(idlest) = idlest {
                chosen = idlest;
                if idlest != cpu {
                    cpu = idlest;
                    level = self.highest_below(cpu, domain.weight, flag);
                }
            }
        }
        chosen
    }

    /// The widest domain that balances at the occasion, unless a narrower one that packs tasks has
    /// room.
    fn widest(&self, cpu: CpuId, flag: DomainFlags) -> Option<usize> {
        let mut widest = None;
        for (level, &membership) in self.domains.stack(cpu).iter().enumerate() {
            let domain = self.domains.get(membership);
            if domain.flags.has(DomainFlags::POWERSAVINGS_BALANCE) && self.has_room(domain) {
                break;
            }
            if domain.flags.has(flag) {
                widest = Some(level);
            }
        }
        widest
    }

    /// Less than twice as many fair tasks as power.
    fn has_room(&self, domain: &Domain) -> bool {
        let power: u64 = domain.span.iter().map(|cpu| power_of(self.domains, cpu)).sum();
        let running: u64 =
            domain.span.iter().map(|cpu| u64::from(self.cpu(cpu).cfs_nr_running)).sum();
        running / 2 < (power + LOAD_SCALE / 2) / LOAD_SCALE
    }

    fn highest_below(&self, cpu: CpuId, weight: u32, flag: DomainFlags) -> Option<usize> {
        let domains = self.domains.stack(cpu).iter().map(|&m| self.domains.get(m));
        let narrower = domains.take_while(|domain| domain.weight < weight).enumerate();
        narrower.filter(|(_, domain)| domain.flags.has(flag)).last().map(|(level, _)| level)
    }

    /// The group with the least load in relation to its power, if that is clearly less than in the
    /// own one (`find_idlest_group()`; forkexec_idx is 0 in every domain).
    fn idlest_group(
        &self,
        level: usize,
        membership: Membership,
        task: &Placed<'_>,
        this_cpu: CpuId,
        log: Option<&mut Vec<GroupChoice>>,
    ) -> Option<&Group> {
        let mut candidates = log.is_some().then(Vec::new);
        let mut this_load = 0;
        let mut idlest: Option<(&Group, u64)> = None;
        for group in self.domains.ring(membership) {
            if !group.span.intersects(task.allowed) {
                continue;
            }
            let local = group.span.contains(this_cpu);
            let load: u64 = group.span.iter().map(|cpu| self.cpu(cpu).weight).sum();
            let avg_load = load * LOAD_SCALE / group.capacity.max(1);
            if local {
                this_load = avg_load;
            } else if idlest.is_none_or(|(_, least)| avg_load < least) {
                idlest = Some((group, avg_load));
            }
            if let Some(candidates) = &mut candidates {
                let running = group.span.iter().map(|cpu| self.cpu(cpu).nr_running).sum();
                let stats = GroupStats {
                    avg_load,
                    load,
                    capacity: group.capacity,
                    sum_nr_running: running,
                    weight: group.weight,
                    ..GroupStats::EMPTY
                };
                let first_cpu = group.span.first().unwrap_or_default();
                candidates.push(Candidate { first_cpu, local, by_load: true, stats });
            }
        }
        let imbalance = 100 + (u64::from(self.domains.get(membership).imbalance_pct) - 100) / 2;
        let leaves = |&(_, least): &(&Group, u64)| 100 * this_load >= imbalance * least;
        let chosen = idlest.filter(leaves).map(|(group, _)| group);
        if let (Some(log), Some(candidates)) = (log, candidates) {
            log.push(GroupChoice {
                level: level as u32,
                from: this_cpu,
                chosen: chosen.and_then(|group| group.span.first()),
                rule: if idlest.is_none() { GroupRule::NoOther } else { GroupRule::Load },
                tie: None,
                picked: None,
                candidates,
            });
        }
        chosen
    }

    /// The CPU with the least load, `this_cpu` before its equals (`find_idlest_cpu()`).
    pub(in crate::fair) fn idlest_cpu(
        &self,
        group: &Group,
        task: &Placed<'_>,
        this_cpu: CpuId,
    ) -> Option<CpuId> {
        let mut idlest = None;
        let mut least = u64::MAX;
        for cpu in (group.span & *task.allowed).iter() {
            let load = self.cpu(cpu).weight;
            if load < least || (load == least && cpu == this_cpu) {
                (least, idlest) = (load, Some(cpu));
            }
        }
        idlest
    }
}

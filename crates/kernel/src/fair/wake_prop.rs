//! The search for an idle CPU up to v5.11: core, then CPU, then thread, and no longer than the
//! waker's CPU has time for (SIS_PROP).
//!
//! Source: `kernel/sched/fair.c` of Linux 5.7, as its history tells it; no recorded decisions of
//! that release exist to check it against.

use super::topology::Membership;
use super::view::TaskView;
use super::wake::{Round, WakeChoice, WakePath, WakeRule, Waker};
use schedlab_machine::CpuId;

/// A search looks at this many CPUs at least.
const LOOKS_MIN: u64 = 4;

impl WakePath<'_> {
    /// `select_idle_sibling()`; the choice goes to `choice`.
    pub(super) fn select_idle_sibling_prop(
        &mut self,
        task: &TaskView<'_>,
        waker: &Waker,
        target: CpuId,
        recent_used_cpu: &mut CpuId,
        choice: &mut WakeChoice,
    ) {
        (choice.cpu, choice.rule) = self.search_prop(task, waker, target, recent_used_cpu, choice);
    }

    fn search_prop(
        &mut self,
        task: &TaskView<'_>,
        waker: &Waker,
        target: CpuId,
        recent_used_cpu: &mut CpuId,
        choice: &mut WakeChoice,
    ) -> (CpuId, WakeRule) {
        let prev = task.cpu;
        if self.domains.asym_cpucapacity_active()
            && let Some(domain) = self.domains.asym_cpucapacity(target)
        {
            let found = self.select_idle_capacity(task, domain, target);
            return found.map_or((target, WakeRule::NothingFree), |cpu| (cpu, WakeRule::Capacity));
        }
        if self.available(target) {
            return (target, WakeRule::TargetFree);
        }
        if prev != target && self.domains.share_cache(prev, target) && self.available(prev) {
            return (prev, WakeRule::PreviousFree);
        }
        if waker.per_cpu_kthread && prev == waker.cpu && self.state(waker.cpu).nr_running <= 1 {
            return (prev, WakeRule::KernelThreadHandsOver);
        }
        let recent = *recent_used_cpu;
        if recent != prev
            && recent != target
            && self.domains.share_cache(recent, target)
            && self.available(recent)
            && task.allowed.contains(recent)
        {
            *recent_used_cpu = prev;
            return (recent, WakeRule::RecentlyUsed);
        }
        let Some(llc) = self.domains.llc(target) else { return (target, WakeRule::NothingFree) };
        if let Some(core) = self.idle_core_prop(task, llc, target, choice) {
            return (core, WakeRule::IdleCore);
        }
        if let Some(cpu) = self.idle_cpu_prop(task, llc, waker, target, choice) {
            return (cpu, WakeRule::FreeCpu);
        }
        let thread = self.idle_thread_prop(task, target);
        thread.map_or((target, WakeRule::NothingFree), |cpu| (cpu, WakeRule::SameCore))
    }

    /// A core all of whose threads idle (`select_idle_core()`).
    fn idle_core_prop(
        &mut self,
        task: &TaskView<'_>,
        llc: Membership,
        target: CpuId,
        choice: &mut WakeChoice,
    ) -> Option<CpuId> {
        if !self.domains.smt_active() || !self.shared(target).has_idle_cores {
            return None;
        }
        let mut cpus = self.domains.get(llc).span & *task.allowed;
        let mut round = Round::from(target.0);
        while let Some(core) = round.step(&cpus) {
            let threads = *self.domains.siblings(core);
            if threads.iter().all(|thread| self.state(thread).is_idle()) {
                return Some(core);
            }
            cpus -= threads;
        }
        let llc_id = self.domains.llc_id(target);
        self.llcs[llc_id.index()].has_idle_cores = false;
        choice.cleared_idle_cores = Some(llc_id);
        None
    }

    /// The first free CPU among as many as the average idle time of the waker's CPU pays for
    /// (`select_idle_cpu()`). It is divided by 512, because it varies widely.
    fn idle_cpu_prop(
        &self,
        task: &TaskView<'_>,
        llc: Membership,
        waker: &Waker,
        target: CpuId,
        choice: &mut WakeChoice,
    ) -> Option<CpuId> {
        let domain = self.domains.get(llc);
        let cost_ns = waker.avg_scan_cost_ns + 1;
        let span_ns = u64::from(domain.weight) * (waker.avg_idle_ns / 512);
        let looks = if span_ns > LOOKS_MIN * cost_ns { span_ns / cost_ns } else { LOOKS_MIN };
        let cpus = domain.span & *task.allowed;
        let mut round = Round::from(target.0);
        let mut looked_at = 0;
        while let Some(cpu) = round.step(&cpus) {
            // A search that runs out of its time leaves the average as it is.
            if u64::from(looked_at) + 1 >= looks {
                return None;
            }
            looked_at += 1;
            if self.available(cpu) {
                choice.looked_at = Some(looked_at);
                return Some(cpu);
            }
        }
        choice.looked_at = Some(looked_at);
        None
    }

    /// A free thread of the target's core (`select_idle_smt()`).
    fn idle_thread_prop(&self, task: &TaskView<'_>, target: CpuId) -> Option<CpuId> {
        let threads = *self.domains.siblings(target) & *task.allowed;
        let free = || threads.iter().find(|&thread| self.available(thread));
        if self.domains.smt_active() { free() } else { None }
    }
}

//! Wake-up placement: near the waker or where the task last ran, then an idle CPU of that cache
//! (`wake_affine()`, `select_idle_sibling()` and below).
//!
//! Source: `kernel/sched/fair.c` of Linux 6.12.117 with its features at their defaults (WA_IDLE,
//! WA_WEIGHT, WA_BIAS, SIS_UTIL).

use super::census::Census;
use super::energy::EnergyRelease;
use super::topology::{DomainFlags, Domains, Membership};
use super::view::{CpuState, Fit, TaskView};
use schedlab_machine::{CpuId, CpuSet};
use serde::Deserialize;
use std::ops::ControlFlow;

/// What of the wake path differs between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeRules {
    /// How a cache is searched for an idle CPU.
    pub search: IdleSearch,
    /// Clusters are searched before the rest of the cache (v6.7, 8881e1639f1f).
    pub clusters: bool,
    /// An idle previous CPU is a good target wherever the waker runs (v5.11, d8fcb81f1acf).
    pub idle_prev_is_target: bool,
    /// Whose history the recently used CPU is.
    pub recent_used: RecentUsed,
    /// How energy is weighed, on machines where that is possible.
    pub energy: Option<EnergyRelease>,
}

impl WakeRules {
    /// 6.12.
    pub const V6_12: WakeRules = WakeRules {
        search: IdleSearch::Util,
        clusters: true,
        idle_prev_is_target: true,
        recent_used: RecentUsed::Wakee,
        energy: Some(EnergyRelease::V6_12),
    };
}

/// How a cache is searched for an idle CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSearch {
    /// Up to v5.11: an idle core, then an idle CPU among as many as the waker's CPU has time to
    /// look at (SIS_PROP), then an idle thread of the target's core.
    Prop,
    /// From v6.0 on: one pass, as long as the cache's utilisation allows (SIS_UTIL, 70fb5ccf2ebb).
    Util,
}

/// Whose history the recently used CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecentUsed {
    /// Up to v5.14: a task remembers where it woke others.
    Waker,
    /// From v5.15 on (89aafd67f28c): a task remembers where it ran before.
    Wakee,
}

/// What the CPUs of a last-level cache share (`struct sched_domain_shared`). Kept by the cache's
/// lowest CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LlcShared {
    /// Some core is entirely idle, as far as anyone noticed.
    pub has_idle_cores: bool,
    /// How many CPUs a search may look at (SIS_UTIL).
    pub nr_idle_scan: u32,
    /// CPUs that are not in tickless idle.
    pub nr_busy_cpus: u32,
}

/// The task that wakes another one, or the task that an interrupt found running.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waker {
    /// Where the wake-up runs.
    pub cpu: CpuId,
    /// The waker promises to sleep soon (`WF_SYNC`).
    pub sync: bool,
    /// The wakee must run here if it may (`WF_CURRENT_CPU`).
    pub current_cpu: bool,
    /// How often the waker changed whom it wakes.
    pub wakee_flips: u32,
    /// `load_avg` of the waker.
    pub load: u64,
    /// The waker is a kernel thread bound to its CPU.
    pub per_cpu_kthread: bool,
    /// The wake-up does not come from an interrupt.
    pub in_task: bool,
    /// How long the waker's CPU idles at a time, on average, ns (`rq->avg_idle`).
    pub avg_idle_ns: u64,
    /// How long a search of the cache takes, on average, ns (`sd_llc->avg_scan_cost`).
    pub avg_scan_cost_ns: u64,
}

/// Which step of the search decided where a task wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeRule {
    /// The waker insists on its own CPU (`WF_CURRENT_CPU`).
    WakersCpu,
    /// The target that [`WakePath::affine`] chose, or the previous CPU, is free.
    TargetFree,
    /// The previous CPU is free and shares the target's cache.
    PreviousFree,
    /// A bound kernel thread hands its CPU over.
    KernelThreadHandsOver,
    /// The recently used CPU is free and shares the target's cache.
    RecentlyUsed,
    /// CPUs differ in capacity: the first free one on which the task fits, else the best one.
    Capacity,
    /// A free thread of the core where it last ran, or of the target's core.
    SameCore,
    /// A core of the cache is entirely idle.
    IdleCore,
    /// A CPU of the cache is free.
    FreeCpu,
    /// The search found nothing, so a free CPU outside the target's cluster is good enough.
    OtherCluster,
    /// Nothing is free: the task queues at the target.
    NothingFree,
    /// Tasks are packed to save power, and a group has room.
    Packed,
}

/// What a wake-up changes or used, beyond the CPU it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeChoice {
    /// The chosen CPU; it may lie outside the allowed ones, which the core then repairs.
    pub cpu: CpuId,
    /// What `wake_affine()` answered, if it was asked.
    pub affine: Option<CpuId>,
    /// The cache (its lowest CPU) whose `has_idle_cores` the search cleared.
    pub cleared_idle_cores: Option<CpuId>,
    /// CPUs at which a search within its time ([`IdleSearch::Prop`]) looked.
    pub looked_at: Option<u32>,
    /// The step that decided.
    pub rule: WakeRule,
}

/// The wake path over a machine's state.
#[derive(Debug)]
pub struct WakePath<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuState],
    /// Which of them idle.
    pub census: &'a Census,
    /// Cache-wide hints, indexed by the cache's lowest CPU.
    pub llcs: &'a mut [LlcShared],
    /// The release's rules.
    pub rules: WakeRules,
}

/// The CPUs of a mask from a start round to it again. The mask is handed in at each step, because
/// the search removes CPUs from it as it goes.
pub(super) struct Round {
    start: u32,
    next: u32,
    wrapped: bool,
}

impl Round {
    pub(super) fn from(start: u32) -> Round {
        Round { start, next: start, wrapped: false }
    }

    pub(super) fn step(&mut self, mask: &CpuSet) -> Option<CpuId> {
        if !self.wrapped {
            if let Some(cpu) = mask.next(CpuId(self.next)) {
                self.next = cpu.0 + 1;
                return Some(cpu);
            }
            self.wrapped = true;
            self.next = 0;
        }
        let cpu = mask.next(CpuId(self.next)).filter(|cpu| cpu.0 < self.start)?;
        self.next = cpu.0 + 1;
        Some(cpu)
    }
}

impl WakePath<'_> {
    pub(super) fn state(&self, cpu: CpuId) -> &CpuState {
        &self.cpus[cpu.index()]
    }

    pub(super) fn available(&self, cpu: CpuId) -> bool {
        self.state(cpu).is_available()
    }

    /// True if the waker has so many wakees, and these so many of their own, that they would not
    /// all fit near it (`wake_wide()`).
    pub fn is_wide(&self, waker: &Waker, wakee_flips: u32) -> bool {
        let factor = self.domains.llc_size(waker.cpu);
        let (many, few) = (waker.wakee_flips.max(wakee_flips), waker.wakee_flips.min(wakee_flips));
        few >= factor && many >= few.wrapping_mul(factor)
    }

    /// Chooses between the waker's CPU and the task's previous one (`wake_affine()`).
    /// `imbalance_pct` is that of the lowest domain that holds both.
    pub fn affine(&self, waker: &Waker, task: &TaskView<'_>, imbalance_pct: u32) -> CpuId {
        let (this, prev) = (waker.cpu, task.cpu);
        let (this_state, prev_state) = (self.state(this), self.state(prev));
        // An idle waker's CPU means an interrupt, whose place says nothing about cache heat.
        if this_state.is_idle() && self.domains.share_cache(this, prev) {
            return if prev_state.is_idle() { prev } else { this };
        }
        if waker.sync && this_state.nr_running.wrapping_sub(this_state.h_nr_delayed) == 1 {
            return this;
        }
        if self.rules.idle_prev_is_target && prev_state.is_idle() {
            return prev;
        }
        if self.waker_is_less_loaded(waker, task, imbalance_pct) { this } else { prev }
    }

    /// `wake_affine_weight()`: loads as they would be with the task here or there, each against
    /// the other's capacity, with a bias towards the waker.
    fn waker_is_less_loaded(&self, waker: &Waker, task: &TaskView<'_>, imbalance_pct: u32) -> bool {
        let (this, prev) = (self.state(waker.cpu), self.state(task.cpu));
        let mut this_load = this.load as i64;
        if waker.sync {
            if waker.load > this.load {
                return true;
            }
            this_load -= waker.load as i64;
        }
        let this_load =
            (this_load + task.load as i64).wrapping_mul(100).wrapping_mul(prev.capacity as i64);
        let bias = 100 + i64::from((imbalance_pct - 100) / 2);
        let prev_load = (prev.load as i64)
            .wrapping_sub(task.load as i64)
            .wrapping_mul(bias)
            .wrapping_mul(this.capacity as i64);
        this_load < prev_load + i64::from(waker.sync)
    }

    /// An idle CPU that shares `target`'s cache, or `target` (`select_idle_sibling()`), and the
    /// step that found it. `recent_used_cpu` is the task's and becomes its previous CPU unless the
    /// search ends early.
    pub fn select_idle_sibling(
        &mut self,
        task: &TaskView<'_>,
        waker: &Waker,
        target: CpuId,
        recent_used_cpu: &mut CpuId,
        cleared: &mut Option<CpuId>,
    ) -> (CpuId, WakeRule) {
        let prev = task.cpu;
        if self.available(target) && self.fits(task, target) {
            return (target, WakeRule::TargetFree);
        }
        let mut fallback = None;
        if prev != target
            && self.domains.share_cache(prev, target)
            && self.available(prev)
            && self.fits(task, prev)
        {
            if self.near(prev, target) {
                return (prev, WakeRule::PreviousFree);
            }
            fallback = Some(prev);
        }
        // A bound kernel thread that woke the task has finished the task's work: it sleeps soon.
        if waker.per_cpu_kthread
            && waker.in_task
            && prev == waker.cpu
            && self.state(waker.cpu).nr_running <= 1
            && self.fits(task, prev)
        {
            return (prev, WakeRule::KernelThreadHandsOver);
        }
        let recent = std::mem::replace(recent_used_cpu, prev);
        if recent != prev
            && recent != target
            && self.domains.share_cache(recent, target)
            && self.available(recent)
            && task.allowed.contains(recent)
            && self.fits(task, recent)
        {
            if self.near(recent, target) {
                return (recent, WakeRule::RecentlyUsed);
            }
            fallback = fallback.or(Some(recent));
        }
        if self.domains.asym_cpucapacity_active()
            && let Some(domain) = self.domains.asym_cpucapacity(target)
        {
            let found = self.select_idle_capacity(task, domain, target);
            return found.map_or((target, WakeRule::NothingFree), |cpu| (cpu, WakeRule::Capacity));
        }
        let Some(llc) = self.domains.llc(target) else { return (target, WakeRule::NothingFree) };
        let mut has_idle_core = false;
        if self.domains.smt_active() {
            has_idle_core = self.shared(target).has_idle_cores;
            if !has_idle_core
                && self.domains.share_cache(prev, target)
                && let Some(sibling) = self.select_idle_thread(task, llc, prev)
            {
                return (sibling, WakeRule::SameCore);
            }
        }
        self.select_idle_cpu(task, llc, has_idle_core, target, cleared)
            .or(fallback.map(|cpu| (cpu, WakeRule::OtherCluster)))
            .unwrap_or((target, WakeRule::NothingFree))
    }

    pub(super) fn shared(&self, cpu: CpuId) -> &LlcShared {
        &self.llcs[self.domains.llc_id(cpu).index()]
    }

    /// Capacity matters only where CPUs differ (`asym_fits_cpu()`).
    fn fits(&self, task: &TaskView<'_>, cpu: CpuId) -> bool {
        !self.domains.asym_cpucapacity_active() || task.fit(self.state(cpu)) == Fit::Full
    }

    /// On machines with clusters, only a CPU of the same cluster ends the search at once.
    fn near(&self, cpu: CpuId, target: CpuId) -> bool {
        !self.clusters_matter() || self.domains.share_resources(cpu, target)
    }

    fn clusters_matter(&self) -> bool {
        self.rules.clusters && self.domains.cluster_active()
    }

    /// A free thread of `core_of`'s core (`select_idle_smt()`).
    fn select_idle_thread(
        &self,
        task: &TaskView<'_>,
        llc: Membership,
        core_of: CpuId,
    ) -> Option<CpuId> {
        let span = &self.domains.get(llc).span;
        self.domains.threads(core_of).iter().copied().find(|&cpu| {
            let may = cpu != core_of && span.contains(cpu) && task.allowed.contains(cpu);
            may && self.available(cpu)
        })
    }

    /// Searches the cache domain for an idle core or CPU (`select_idle_cpu()`).
    fn select_idle_cpu(
        &mut self,
        task: &TaskView<'_>,
        llc: Membership,
        has_idle_core: bool,
        target: CpuId,
        cleared: &mut Option<CpuId>,
    ) -> Option<(CpuId, WakeRule)> {
        // A cache that is busy enough to allow no look is unlikely to have anything idle.
        let mut looks = self.shared(target).nr_idle_scan;
        if looks == 0 {
            return None;
        }
        let domains = self.domains;
        // Most tasks may use all CPUs, and a set of these is large to copy.
        let (mut cpus, may_use, beyond);
        cpus = &domains.get(llc).span;
        if !cpus.is_subset(task.allowed) {
            may_use = *cpus & *task.allowed;
            cpus = &may_use;
        }
        let from = CpuId(target.0 + 1);
        let mut idle_cpu = None;
        if self.clusters_matter()
            && let Some(cluster) = domains.ring(llc).next()
            && cluster.flags.has(DomainFlags::CLUSTER)
        {
            let near = *cpus & cluster.span;
            if !has_idle_core {
                match self.first_free(&near, from, &mut looks) {
                    ControlFlow::Break(found) => return found,
                    ControlFlow::Continue(()) => {}
                }
            } else if let Some(cpu) = near.next_wrapping_and(&self.census.idle_cores, from) {
                return Some((cpu, WakeRule::IdleCore));
            } else {
                idle_cpu = self.free_thread(&near, from);
            }
            beyond = *cpus - cluster.span;
            cpus = &beyond;
        }
        if !has_idle_core {
            return self.first_free(cpus, from, &mut looks).break_value().flatten();
        }
        if let Some(cpu) = cpus.next_wrapping_and(&self.census.idle_cores, from) {
            return Some((cpu, WakeRule::IdleCore));
        }
        let llc_id = self.domains.llc_id(target);
        self.llcs[llc_id.index()].has_idle_cores = false;
        *cleared = Some(llc_id);
        idle_cpu.or_else(|| self.free_thread(cpus, from)).map(|cpu| (cpu, WakeRule::FreeCpu))
    }

    /// The first free CPU of `cpus` from `from` round, if it is among as many as may be looked at;
    /// the search ends where these are used up.
    fn first_free(
        &self,
        cpus: &CpuSet,
        from: CpuId,
        looks: &mut u32,
    ) -> ControlFlow<Option<(CpuId, WakeRule)>> {
        let free = cpus.next_wrapping_and(&self.census.free, from);
        let needed = match free {
            Some(cpu) => cpus.weight_wrapping(from, cpu),
            None => cpus.weight(),
        };
        if needed > *looks as usize {
            return ControlFlow::Break(None);
        }
        *looks -= needed as u32;
        match free {
            Some(cpu) => ControlFlow::Break(Some((cpu, WakeRule::FreeCpu))),
            None => ControlFlow::Continue(()),
        }
    }

    /// Where no core is idle, the first free thread of the first core that has one, in the order of
    /// the search (`select_idle_core()`).
    fn free_thread(&self, cpus: &CpuSet, from: CpuId) -> Option<CpuId> {
        let free = *cpus & self.census.free;
        if free.is_empty() {
            return None;
        }
        let mut rest = *cpus;
        let mut round = Round::from(from.0);
        while let Some(core) = round.step(&rest) {
            let mut threads = self.domains.threads(core).iter().copied();
            let thread = threads.find(|&thread| free.contains(thread));
            if thread.is_some() {
                return thread;
            }
            rest -= *self.domains.siblings(core);
        }
        None
    }

    /// The first free CPU that fits the task, else the free one that fits best
    /// (`select_idle_capacity()`).
    pub(super) fn select_idle_capacity(
        &self,
        task: &TaskView<'_>,
        domain: Membership,
        target: CpuId,
    ) -> Option<CpuId> {
        let cpus = self.domains.get(domain).span & *task.allowed;
        let mut best: Option<CpuId> = None;
        let (mut best_misses_minimum, mut best_capacity) = (false, 0);
        let mut round = Round::from(target.0);
        while let Some(cpu) = round.step(&cpus) {
            if !self.available(cpu) {
                continue;
            }
            let state = self.state(cpu);
            let (misses_minimum, capacity) = match task.fit(state) {
                Fit::Full => return Some(cpu),
                Fit::ExceptMinimum => (true, state.actual_capacity()),
                Fit::No => (false, state.capacity),
            };
            let better_kind = misses_minimum && !best_misses_minimum;
            if better_kind || (misses_minimum == best_misses_minimum && capacity > best_capacity) {
                best = Some(cpu);
                best_misses_minimum = misses_minimum;
                best_capacity = capacity;
            }
        }
        best
    }
}

/// Chooses a CPU for a task that wakes (`select_task_rq_fair()` with `WF_TTWU`). `wakee_flips` and
/// `recent_used_cpu` are the task's. Domains that balance on wake-up, which no release sets by
/// default, are left to the slow path by the caller.
pub fn select_on_wake(
    path: &mut WakePath<'_>,
    task: &TaskView<'_>,
    waker: &Waker,
    wakee_flips: u32,
    recent_used_cpu: &mut CpuId,
) -> WakeChoice {
    let here_allowed = task.allowed.contains(waker.cpu);
    let mut choice = WakeChoice {
        cpu: task.cpu,
        affine: None,
        cleared_idle_cores: None,
        looked_at: None,
        rule: WakeRule::WakersCpu,
    };
    if waker.current_cpu && here_allowed {
        choice.cpu = waker.cpu;
        return choice;
    }
    let mut target = task.cpu;
    if waker.cpu != task.cpu && here_allowed && !path.is_wide(waker, wakee_flips) {
        let mut stack = path.domains.stack(waker.cpu).iter().map(|&m| path.domains.get(m));
        let shared =
            stack.find(|d| d.flags.has(DomainFlags::WAKE_AFFINE) && d.span.contains(task.cpu));
        if let Some(domain) = shared {
            target = path.affine(waker, task, domain.imbalance_pct);
            choice.affine = Some(target);
        }
    }
    match path.rules.search {
        IdleSearch::Prop => {
            path.select_idle_sibling_prop(task, waker, target, recent_used_cpu, &mut choice);
        }
        IdleSearch::Util => {
            let cleared = &mut choice.cleared_idle_cores;
            (choice.cpu, choice.rule) =
                path.select_idle_sibling(task, waker, target, recent_used_cpu, cleared);
        }
    }
    choice
}

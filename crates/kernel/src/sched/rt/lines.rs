//! The priority map of a run: its answers alone, or, where cache lines are modelled, a root domain
//! that tells of each line it touches. The hardware hears of them before it interrupts another CPU,
//! and when the kernel path is over.

use super::super::Scheduler;
use crate::hardware::Hardware;
use crate::rt::cpupri::memory::Traced;
use crate::rt::cpupri::{Groups, Layout, Level, PlainMap, Plan, PriorityMap, RootDomain};
use schedlab_machine::{CpuId, CpuSet};

/// The map of a run.
#[derive(Debug)]
pub(in super::super) enum RtMap {
    /// The answers.
    Plain(PlainMap),
    /// The kernel's memory, in some layout.
    Lines(Box<RootDomain<Traced>>),
}

impl RtMap {
    /// A map that knows nothing of any CPU; with `groups`, cache lines are modelled.
    pub(super) fn new(cpus: usize, layout: Layout, groups: Option<&Groups>) -> RtMap {
        let Some(groups) = groups else { return RtMap::Plain(PlainMap::new(cpus)) };
        let plan = Plan::new(layout, groups);
        let memory = Traced::new(&plan);
        let domain = RootDomain::new(plan, memory);
        RtMap::Lines(Box::new(domain))
    }

    /// What was touched was touched before the run.
    pub(super) fn forget_touches(&self) {
        if let RtMap::Lines(domain) = self {
            domain.memory().drain(|_| {});
        }
    }

    /// A CPU's queue begins or ceases to hold tasks for others.
    pub(super) fn note_overload(&self, cpu: CpuId, overloaded: bool) {
        match self {
            RtMap::Lines(domain) if overloaded => domain.set_overload(cpu),
            RtMap::Lines(domain) => domain.clear_overload(cpu),
            RtMap::Plain(_) => {}
        }
    }

    /// `cpu` looks whether tasks wait elsewhere (the beginning of `pull_rt_task()`).
    pub(super) fn note_pull(&self, cpu: CpuId) {
        if let RtMap::Lines(domain) = self
            && domain.overload_count(cpu) == 1
        {
            domain.is_overloaded(cpu);
        }
    }

    /// The root domain, where it is modelled: it knows itself where the interrupt goes that makes
    /// overloaded CPUs push.
    pub(super) fn domain(&self) -> Option<&RootDomain<Traced>> {
        match self {
            RtMap::Lines(domain) => Some(domain),
            RtMap::Plain(_) => None,
        }
    }

    /// Some CPU has tasks to spare, or none has.
    pub(in super::super) fn note_spare(&self, spare: bool) {
        if let RtMap::Lines(domain) = self {
            domain.set_spare(spare);
        }
    }

    /// A CPU that goes idle looks whether one has.
    pub(in super::super) fn read_spare(&self) {
        if let RtMap::Lines(domain) = self {
            domain.spare();
        }
    }
}

impl PriorityMap for RtMap {
    fn set(&mut self, cpu: CpuId, level: Option<Level>) {
        match self {
            RtMap::Plain(map) => map.set(cpu, level),
            RtMap::Lines(domain) => RootDomain::set(domain, cpu, level),
        }
    }

    fn find_fitting(
        &self,
        this_cpu: CpuId,
        level: Level,
        allowed: &CpuSet,
        active: &CpuSet,
        fits: impl Fn(CpuId) -> bool,
    ) -> CpuSet {
        match self {
            RtMap::Plain(map) => map.find_fitting(this_cpu, level, allowed, active, fits),
            RtMap::Lines(domain) => domain.find_fitting(this_cpu, level, allowed, active, fits),
        }
    }

    fn find(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet, active: &CpuSet) -> CpuSet {
        match self {
            RtMap::Plain(map) => map.find(this_cpu, level, allowed, active),
            RtMap::Lines(domain) => RootDomain::find(domain, this_cpu, level, allowed, active),
        }
    }

    fn any_lower(&self, this_cpu: CpuId, level: Level, allowed: &CpuSet) -> bool {
        match self {
            RtMap::Plain(map) => map.any_lower(this_cpu, level, allowed),
            RtMap::Lines(domain) => RootDomain::any_lower(domain, this_cpu, level, allowed),
        }
    }

    fn level(&self, cpu: CpuId) -> Option<Level> {
        match self {
            RtMap::Plain(map) => map.level(cpu),
            RtMap::Lines(domain) => domain.peek_level(cpu),
        }
    }
}

impl Scheduler {
    /// Cache lines of the root domain are modelled from the first real-time task on, in the layout
    /// of this kernel. Before that nothing is, as nobody looks at the priority map then.
    pub fn model_lines(&mut self, groups: Groups) {
        self.rt.groups = Some(groups);
    }

    /// The addresses of what [`Hardware::touch`] is told of, for kernels of this layout.
    pub fn lines_plan(&self, groups: &Groups) -> Plan {
        Plan::new(self.config.rt.priority_map, groups)
    }

    /// Tells the hardware which lines `executing_cpu` has touched since it was last told.
    #[inline]
    pub fn settle(&self, executing_cpu: CpuId, hardware: &mut impl Hardware) {
        if let RtMap::Lines(domain) = &self.rt.map {
            domain.memory().drain(|touches| hardware.touch(executing_cpu, touches));
        }
    }
}

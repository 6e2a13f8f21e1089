//! Sets of CPUs by what they do, kept as run queues change, so that a search for an idle or a busy
//! CPU need not look at each.

use super::topology::Domains;
use super::view::CpuState;
use schedlab_machine::{CpuId, CpuSet};

/// Which CPUs idle, and which have tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Idle ([`CpuState::is_idle`]).
    pub idle: CpuSet,
    /// All threads of their cores idle.
    pub idle_cores: CpuSet,
    /// Free for a waking task ([`CpuState::is_available`]).
    pub free: CpuSet,
    /// With fair tasks.
    pub queued: CpuSet,
    /// With more than one fair task.
    pub crowded: CpuSet,
    /// What each CPU does, to see what changes.
    kinds: Vec<Kind>,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    idle: bool,
    free: bool,
    queued: bool,
    crowded: bool,
}

impl Kind {
    const NONE: Kind = Kind { idle: false, free: false, queued: false, crowded: false };

    #[inline]
    fn of(state: &CpuState) -> Kind {
        Kind {
            idle: state.is_idle(),
            free: state.is_available(),
            queued: state.h_nr_queued > 0,
            crowded: state.h_nr_queued > 1,
        }
    }
}

impl Census {
    /// Of run queues that are in this state.
    pub fn of(domains: &Domains, cpus: &[CpuState]) -> Census {
        let mut census = Census { kinds: vec![Kind::NONE; cpus.len()], ..Census::default() };
        for (index, state) in cpus.iter().enumerate() {
            census.update(domains, CpuId(index as u32), state);
        }
        census
    }

    /// `cpu` is in this state now.
    #[inline]
    pub fn update(&mut self, domains: &Domains, cpu: CpuId, state: &CpuState) {
        let kind = Kind::of(state);
        let before = std::mem::replace(&mut self.kinds[cpu.index()], kind);
        if kind != before {
            self.change(domains, cpu, kind, before);
        }
    }

    fn change(&mut self, domains: &Domains, cpu: CpuId, kind: Kind, before: Kind) {
        set(&mut self.free, cpu, kind.free);
        set(&mut self.queued, cpu, kind.queued);
        set(&mut self.crowded, cpu, kind.crowded);
        if kind.idle == before.idle {
            return;
        }
        set(&mut self.idle, cpu, kind.idle);
        let threads = domains.threads(cpu);
        let core_idles = threads.iter().all(|&thread| self.idle.contains(thread));
        for &thread in threads {
            set(&mut self.idle_cores, thread, core_idles);
        }
    }
}

fn set(cpus: &mut CpuSet, cpu: CpuId, member: bool) {
    if member {
        cpus.insert(cpu);
    } else {
        cpus.remove(cpu);
    }
}

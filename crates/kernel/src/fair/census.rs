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
    /// With more than one task of any class.
    pub loaded: CpuSet,
    /// What each CPU does, to see what changes.
    kinds: Vec<Kind>,
}

/// In which sets a CPU is, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kind(u8);

impl Kind {
    const IDLE: u8 = 1;
    const FREE: u8 = 2;
    const QUEUED: u8 = 4;
    const CROWDED: u8 = 8;
    const LOADED: u8 = 16;

    #[inline]
    fn of(state: &CpuState) -> Kind {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        Kind(
            bit(state.is_idle(), Kind::IDLE)
                | bit(state.is_available(), Kind::FREE)
                | bit(state.h_nr_queued > 0, Kind::QUEUED)
                | bit(state.h_nr_queued > 1, Kind::CROWDED)
                | bit(state.nr_running > 1, Kind::LOADED),
        )
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

impl Census {
    /// Of run queues that are in this state.
    pub fn of(domains: &Domains, cpus: &[CpuState]) -> Census {
        let mut census = Census { kinds: vec![Kind::default(); cpus.len()], ..Census::default() };
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
        set(&mut self.free, cpu, kind.has(Kind::FREE));
        set(&mut self.queued, cpu, kind.has(Kind::QUEUED));
        set(&mut self.crowded, cpu, kind.has(Kind::CROWDED));
        set(&mut self.loaded, cpu, kind.has(Kind::LOADED));
        if kind.has(Kind::IDLE) == before.has(Kind::IDLE) {
            return;
        }
        set(&mut self.idle, cpu, kind.has(Kind::IDLE));
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

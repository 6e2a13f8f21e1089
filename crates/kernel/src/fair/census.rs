//! Sets of CPUs by what they do, kept as run queues change, so that a search for an idle or a busy
//! CPU need not look at each.

use super::topology::Domains;
use super::view::CpuState;
use schedlab_machine::{CpuId, CpuSet};

/// Which CPUs idle, which each wake-up asks, and which have tasks, which only balancing does.
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
    /// In which of the first three each CPU is, to see what changes.
    rooms: Vec<Room>,
    /// In which of the others.
    crowds: Vec<Crowd>,
}

/// Whether a CPU idles and is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    idle: bool,
    free: bool,
}

/// Whether a CPU is queued, crowded and loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Crowd {
    queued: bool,
    crowded: bool,
    loaded: bool,
}

impl Census {
    /// Of run queues that are in this state.
    pub fn of(domains: &Domains, cpus: &[CpuState]) -> Census {
        let mut census = Census {
            rooms: vec![Room::default(); cpus.len()],
            crowds: vec![Crowd::default(); cpus.len()],
            ..Census::default()
        };
        for (index, state) in cpus.iter().enumerate() {
            census.update(domains, CpuId(index as u32), state);
            census.recount(CpuId(index as u32), state);
        }
        census
    }

    /// `cpu` is in this state now: whether it idles and is free.
    #[inline]
    pub fn update(&mut self, domains: &Domains, cpu: CpuId, state: &CpuState) {
        let room = Room { idle: state.is_idle(), free: state.is_available() };
        if room != self.rooms[cpu.index()] {
            self.change(domains, cpu, room);
        }
    }

    /// Few changes of a run queue change any of that.
    #[inline(never)]
    fn change(&mut self, domains: &Domains, cpu: CpuId, room: Room) {
        let before = std::mem::replace(&mut self.rooms[cpu.index()], room);
        if room.free != before.free {
            self.free.set(cpu, room.free);
        }
        if room.idle != before.idle {
            self.idle.set(cpu, room.idle);
            self.update_core(domains, cpu);
        }
    }

    /// `cpu` is in this state now: what tasks it has.
    #[inline]
    pub fn recount(&mut self, cpu: CpuId, state: &CpuState) {
        let crowd = Crowd {
            queued: state.h_nr_queued > 0,
            crowded: state.h_nr_queued > 1,
            loaded: state.nr_running > 1,
        };
        let before = std::mem::replace(&mut self.crowds[cpu.index()], crowd);
        if crowd.queued != before.queued {
            self.queued.set(cpu, crowd.queued);
        }
        if crowd.crowded != before.crowded {
            self.crowded.set(cpu, crowd.crowded);
        }
        if crowd.loaded != before.loaded {
            self.loaded.set(cpu, crowd.loaded);
        }
    }

    /// A thread began or ceased to idle.
    #[inline]
    fn update_core(&mut self, domains: &Domains, cpu: CpuId) {
        let threads = domains.threads(cpu);
        let idles = threads.iter().all(|&thread| self.idle.contains(thread));
        if idles != self.idle_cores.contains(cpu) {
            for &thread in threads {
                self.idle_cores.set(thread, idles);
            }
        }
    }
}

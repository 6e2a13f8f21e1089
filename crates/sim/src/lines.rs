//! Cache lines that several CPUs touch: each has an owner, sharers and a queue. A store or atomic
//! waits its turn and pays the transfer by distance; a load leaves a shared copy behind.
//!
//! What tasks touch comes nearly in the order of time, and waits for all that came before: a
//! [`Tail`]. A kernel path runs to its end before another CPU's earlier event is handled, so that
//! its requests do not come in the order of their times. Lines of the kernel therefore keep a
//! [`Calendar`] of when they are taken, and a request is served in the first gap that is long
//! enough. Who holds a copy is known in the order of handling alone, which is off by the length of a
//! path at most.

use schedlab_machine::{CpuId, CpuSet, Machine, Proximity};
use schedlab_workload::program::Access;

/// The requests that wait for a line.
pub trait Queue: Copy + Default {
    /// Serves a request of this length that comes at `now_ps`; returns when it begins.
    fn reserve(&mut self, now_ps: u64, length_ps: u64) -> u64;
}

/// When the last request is served, ps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail(u64);

impl Queue for Tail {
    #[inline]
    fn reserve(&mut self, now_ps: u64, length_ps: u64) -> u64 {
        let start_ps = self.0.max(now_ps);
        self.0 = start_ps + length_ps;
        start_ps
    }
}

/// When a line is taken: the last few stretches of time, ascending, ps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calendar {
    taken: [(u64, u64); STRETCHES],
    count: u8,
}

/// Stretches that a line keeps; what touches becomes one.
const STRETCHES: usize = 6;

impl Queue for Calendar {
    #[inline]
    fn reserve(&mut self, now_ps: u64, length_ps: u64) -> u64 {
        let start_ps = self.first_free_ps(now_ps, length_ps);
        self.take(start_ps, start_ps + length_ps);
        start_ps
    }
}

impl Calendar {
    /// When something of this length can begin at `from_ps` at the earliest.
    #[inline]
    pub fn first_free_ps(&self, from_ps: u64, length_ps: u64) -> u64 {
        let mut start_ps = from_ps;
        for &(taken_ps, free_ps) in &self.taken[..usize::from(self.count)] {
            if taken_ps >= start_ps + length_ps {
                break;
            }
            start_ps = start_ps.max(free_ps);
        }
        start_ps
    }

    /// Takes a stretch that was free. The oldest one is forgotten if there are too many.
    #[inline]
    pub fn take(&mut self, start_ps: u64, end_ps: u64) {
        let count = usize::from(self.count);
        let at = self.taken[..count].partition_point(|&(taken_ps, _)| taken_ps < start_ps);
        let joins_before = at > 0 && self.taken[at - 1].1 == start_ps;
        let joins_after = at < count && self.taken[at].0 == end_ps;
        match (joins_before, joins_after) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.copy_within(at + 1..count, at);
                self.count -= 1;
            }
            (true, false) => self.taken[at - 1].1 = end_ps,
            (false, true) => self.taken[at].0 = start_ps,
            (false, false) if count < STRETCHES => {
                self.taken.copy_within(at..count, at + 1);
                self.taken[at] = (start_ps, end_ps);
                self.count += 1;
            }
            // It would itself be the oldest.
            (false, false) if at == 0 => {}
            (false, false) => {
                self.taken.copy_within(1..at, 0);
                self.taken[at - 1] = (start_ps, end_ps);
            }
        }
    }
}

/// The state of one line.
#[derive(Clone, Copy, Debug)]
struct Line<Q> {
    /// Who wrote last, or read first.
    owner: Option<CpuId>,
    /// Others hold copies, too.
    shared: bool,
    /// It was written since memory or others saw it.
    modified: bool,
    queue: Q,
    /// Who holds a copy, if it is shared; most lines hardly ever are.
    sharers: CpuSet,
}

/// Where an access was served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The CPU's own cache.
    Own,
    /// Memory: nobody held the line.
    Memory,
    /// Another CPU's cache, where the line was as memory has it.
    Clean(CpuId),
    /// Another CPU's cache, where it was modified.
    Modified(CpuId),
}

/// How an access went.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// When it is done, ps.
    pub done_ps: u64,
    /// By whom.
    pub source: Source,
}

/// All lines of a run.
#[derive(Clone, Debug)]
pub struct Lines<Q = Tail> {
    lines: Vec<Line<Q>>,
}

impl<Q: Queue> Lines<Q> {
    /// `count` lines that nobody holds.
    pub fn new(count: usize) -> Lines<Q> {
        let line = Line {
            owner: None,
            shared: false,
            modified: false,
            queue: Q::default(),
            sharers: CpuSet::EMPTY,
        };
        Lines { lines: vec![line; count] }
    }

    /// `cpu` touches a line at `now_ps`. Returns when the access is done, ps.
    #[inline]
    pub fn access(
        &mut self,
        machine: &Machine,
        line: usize,
        cpu: CpuId,
        access: Access,
        now_ps: u64,
    ) -> u64 {
        self.serve(machine, line, cpu, access, now_ps).done_ps
    }

    /// The same, with where it was served from.
    #[inline]
    pub fn serve(
        &mut self,
        machine: &Machine,
        line: usize,
        cpu: CpuId,
        access: Access,
        now_ps: u64,
    ) -> Served {
        let costs = machine.cache_costs();
        let line = &mut self.lines[line];
        let own_ps = match access {
            Access::Atomic => costs.owned_rmw_ps,
            Access::Read | Access::Write => costs.l1_hit_ps,
        };
        let owns = line.owner == Some(cpu);
        let hit = match access {
            Access::Read => owns || (line.shared && line.sharers.contains(cpu)),
            Access::Write | Access::Atomic => owns && !line.shared,
        };
        if hit {
            line.modified |= access != Access::Read;
            return Served { done_ps: now_ps + own_ps, source: Source::Own };
        }
        line.fetch(machine, cpu, access, now_ps, own_ps)
    }
}

impl<Q: Queue> Line<Q> {
    fn fetch(
        &mut self,
        machine: &Machine,
        cpu: CpuId,
        access: Access,
        now_ps: u64,
        own_ps: u64,
    ) -> Served {
        let costs = machine.cache_costs();
        let transfer_ps = match (access, self.owner) {
            (_, None) => costs.memory_local_ps,
            (Access::Read, Some(owner)) => machine.line_transfer_ps(owner, cpu),
            (_, Some(owner)) if !self.shared => machine.line_transfer_ps(owner, cpu),
            // Every copy must be given up before the line can be written.
            (_, Some(_)) => farthest_ps(machine, &self.sharers, cpu),
        };
        let source = match self.owner {
            None => Source::Memory,
            Some(owner) if self.modified => Source::Modified(owner),
            Some(owner) => Source::Clean(owner),
        };
        let length_ps = transfer_ps + own_ps;
        let done_ps = self.queue.reserve(now_ps, length_ps) + length_ps;
        match (access, self.owner) {
            (Access::Read, Some(owner)) => {
                if !std::mem::replace(&mut self.shared, true) {
                    self.sharers.clear();
                    self.sharers.insert(owner);
                }
                self.sharers.insert(cpu);
                // Memory has it again.
                self.modified = false;
            }
            _ => {
                self.owner = Some(cpu);
                self.shared = false;
                self.modified = access != Access::Read;
            }
        }
        Served { done_ps, source }
    }
}

/// The longest transfer from one of these CPUs to `cpu`, ps; from memory if there is none.
fn farthest_ps(machine: &Machine, sharers: &CpuSet, cpu: CpuId) -> u64 {
    let (topology, costs) = (machine.topology(), machine.cache_costs());
    let [package, llc, core] =
        [topology.packages(), topology.llcs(), topology.cores()].map(|level| level.siblings(cpu));
    let cluster = topology.clusters().map(|level| level.siblings(cpu));
    let within_llc = if cluster.is_some() { Proximity::Cluster } else { Proximity::Llc };
    // Whether anyone shares from a ring is asked only if that would be farther than what is known.
    let mut most_ps = None;
    let mut ask = |proximity, anyone: &dyn Fn() -> bool| {
        let ps = Some(costs.transfer_ps(proximity));
        if ps > most_ps && anyone() {
            most_ps = ps;
        }
    };
    ask(Proximity::Machine, &|| !sharers.is_subset(package));
    ask(Proximity::Package, &|| sharers.intersects_beyond(package, llc));
    if let Some(cluster) = cluster {
        ask(Proximity::Llc, &|| sharers.intersects_beyond(llc, cluster));
    }
    ask(within_llc, &|| sharers.intersects_beyond(cluster.unwrap_or(llc), core));
    ask(Proximity::Core, &|| core.iter_and(sharers).any(|thread| thread != cpu));
    ask(Proximity::Cpu, &|| sharers.contains(cpu));
    most_ps.unwrap_or(costs.memory_local_ps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_come_late_find_the_gap_they_fit_in() {
        let mut calendar = Calendar::default();
        calendar.take(1_000, 1_100);
        calendar.take(5_000, 5_100);
        // Before, between and behind.
        assert_eq!(calendar.first_free_ps(0, 100), 0);
        assert_eq!(calendar.first_free_ps(950, 100), 1_100);
        assert_eq!(calendar.first_free_ps(4_950, 100), 5_100);
        assert_eq!(calendar.first_free_ps(4_950, 50), 4_950);
        calendar.take(1_100, 5_000);
        assert_eq!(calendar.first_free_ps(900, 101), 5_100);
    }

    #[test]
    fn in_order_requests_form_a_queue() {
        let mut calendar = Calendar::default();
        let mut tail = Tail::default();
        for request in 0..1_000_u64 {
            let now_ps = request * 70 + request % 7 * 10;
            assert_eq!(calendar.reserve(now_ps, 100), tail.reserve(now_ps, 100));
        }
    }

    #[test]
    fn the_farthest_copy_is_the_farthest_cpu() {
        for name in Machine::preset_names() {
            let machine = Machine::preset(name).expect("a preset");
            let cpus: Vec<CpuId> = machine.cpu_ids().collect();
            for start in 0..cpus.len().min(64) {
                let some = cpus.iter().skip(start).step_by(start % 9 * 13 + 1);
                let sharers: CpuSet = some.copied().collect();
                let cpu = cpus[start * 7 % cpus.len()];
                let each = sharers.iter().map(|other| machine.line_transfer_ps(other, cpu));
                assert_eq!(Some(farthest_ps(&machine, &sharers, cpu)), each.max(), "{name}");
            }
        }
    }
}

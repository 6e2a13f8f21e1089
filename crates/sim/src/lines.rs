//! Cache lines that several CPUs touch: each has an owner, sharers and a queue. A store or atomic
//! waits its turn and pays the transfer by distance; a load leaves a shared copy behind.

use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_workload::program::Access;

/// The state of one line.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Who wrote last, or read first.
    owner: Option<CpuId>,
    /// Others hold copies, too.
    shared: bool,
    /// Who holds a copy, if it is shared; most lines hardly ever are.
    sharers: CpuSet,
    /// When the last request of the queue is served, ps.
    free_at_ps: u64,
}

/// All lines of a run.
#[derive(Clone, Debug)]
pub struct Lines {
    lines: Vec<Line>,
}

impl Lines {
    /// `count` lines that nobody holds.
    pub fn new(count: usize) -> Lines {
        let line = Line { owner: None, shared: false, sharers: CpuSet::EMPTY, free_at_ps: 0 };
        Lines { lines: vec![line; count] }
    }

    /// `cpu` touches a line at `now_ps`. Returns when the access is done, ps.
    pub fn access(
        &mut self,
        machine: &Machine,
        line: usize,
        cpu: CpuId,
        access: Access,
        now_ps: u64,
    ) -> u64 {
        let costs = machine.cache_costs();
        let line = &mut self.lines[line];
        let own = match access {
            Access::Atomic => costs.owned_rmw_ps,
            Access::Read | Access::Write => costs.l1_hit_ps,
        };
        let owns = line.owner == Some(cpu);
        let hit = match access {
            Access::Read => owns || (line.shared && line.sharers.contains(cpu)),
            Access::Write | Access::Atomic => owns && !line.shared,
        };
        if hit {
            return now_ps + own;
        }
        let start_ps = line.free_at_ps.max(now_ps);
        let transfer_ps = match (access, line.owner) {
            (_, None) => costs.memory_local_ps,
            (Access::Read, Some(owner)) => machine.line_transfer_ps(owner, cpu),
            (_, Some(owner)) if !line.shared => machine.line_transfer_ps(owner, cpu),
            // Every copy must be given up before the line can be written.
            (_, Some(_)) => line
                .sharers
                .iter()
                .map(|sharer| machine.line_transfer_ps(sharer, cpu))
                .max()
                .unwrap_or(costs.memory_local_ps),
        };
        let done_ps = start_ps + transfer_ps + own;
        line.free_at_ps = done_ps;
        match (access, line.owner) {
            (Access::Read, Some(owner)) => {
                if !std::mem::replace(&mut line.shared, true) {
                    line.sharers = CpuSet::of(owner);
                }
                line.sharers.insert(cpu);
            }
            _ => {
                line.owner = Some(cpu);
                line.shared = false;
            }
        }
        done_ps
    }
}

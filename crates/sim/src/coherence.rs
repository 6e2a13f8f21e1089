//! The kernel's own shared lines in a run: what the scheduler touches of its root domain takes the
//! CPU as long as the lines take to come, and, if wanted, is taken down as `perf c2c` would.

use crate::c2c::{C2cReport, Recorder};
use crate::lines::{Calendar, Lines, Served, Source};
use schedlab_kernel::hardware::{Access, Touch};
use schedlab_kernel::rt::cpupri::Plan;
use schedlab_machine::{CpuId, Machine};
use schedlab_workload::program::Access as LineAccess;

/// What of the kernel's shared lines a run models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelLines {
    /// Nothing: path costs hold all there is.
    #[default]
    Off,
    /// Accesses take the time of their transfers.
    Charged,
    /// They are taken down, too.
    Recorded,
}

/// The root domain's lines.
#[derive(Debug)]
pub struct Coherence {
    lines: Lines<Calendar>,
    plan: Plan,
    /// Spinlocks that were taken: where, and when they were held.
    locks: Vec<(u32, Calendar)>,
    /// When the lock that is held now was taken, ps.
    taken_ps: u64,
    recorder: Option<Recorder>,
    /// Of the time that accesses took, what is less than a nanosecond, ps.
    rest_ps: u64,
}

impl Coherence {
    /// Lines that nobody holds.
    pub fn new(plan: Plan, recorded: bool) -> Coherence {
        Coherence {
            lines: Lines::new(plan.lines()),
            locks: Vec::new(),
            taken_ps: 0,
            recorder: recorded.then(|| Recorder::new(plan.lines())),
            rest_ps: 0,
            plan,
        }
    }

    /// `cpu` touches lines one after another from `now_ns` on. Returns when it is done, ns.
    pub fn touch(&mut self, machine: &Machine, cpu: CpuId, touches: &[Touch], now_ns: u64) -> u64 {
        let mut now_ps = now_ns * 1000 + self.rest_ps;
        for touch in touches {
            now_ps = self.one(machine, cpu, touch, now_ps);
        }
        self.rest_ps = now_ps % 1000;
        now_ps / 1000
    }

    /// One touch; returns when the CPU goes on, ps.
    pub fn one(&mut self, machine: &Machine, cpu: CpuId, touch: &Touch, now_ps: u64) -> u64 {
        match touch.access {
            Access::Load => self.access(machine, cpu, touch, LineAccess::Read, now_ps),
            Access::Rmw => self.access(machine, cpu, touch, LineAccess::Atomic, now_ps),
            Access::Store | Access::Unlock => {
                // It waits in the store buffer; the CPU goes on.
                self.access(machine, cpu, touch, LineAccess::Write, now_ps);
                if touch.access == Access::Unlock {
                    let taken_ps = self.taken_ps;
                    self.lock(touch.at).take(taken_ps, now_ps.max(taken_ps + 1));
                }
                now_ps + machine.cache_costs().l1_hit_ps
            }
            Access::Lock => {
                let mut at_ps = self.access(machine, cpu, touch, LineAccess::Atomic, now_ps);
                let free_ps = self.lock(touch.at).first_free_ps(at_ps, 1);
                if free_ps > at_ps {
                    // It spins on a copy of the line until the owner's store takes that away, reads it
                    // once more, and tries again.
                    at_ps = self.access(machine, cpu, touch, LineAccess::Read, free_ps);
                    at_ps = self.access(machine, cpu, touch, LineAccess::Atomic, at_ps);
                    at_ps = self.lock(touch.at).first_free_ps(at_ps, 1);
                }
                self.taken_ps = at_ps;
                at_ps
            }
        }
    }

    #[inline]
    fn access(
        &mut self,
        machine: &Machine,
        cpu: CpuId,
        touch: &Touch,
        access: LineAccess,
        now_ps: u64,
    ) -> u64 {
        let line = touch.line() as usize;
        let served = self.lines.serve(machine, line, cpu, access, now_ps);
        if let Some(recorder) = &mut self.recorder {
            recorder.note(machine, cpu, touch, access, now_ps, served);
        }
        served.done_ps
    }

    fn lock(&mut self, at: u32) -> &mut Calendar {
        let known = self.locks.iter().position(|(lock, _)| *lock == at);
        let index = known.unwrap_or_else(|| {
            self.locks.push((at, Calendar::default()));
            self.locks.len() - 1
        });
        &mut self.locks[index].1
    }

    /// What was taken down.
    pub fn report(&self) -> Option<C2cReport> {
        self.recorder.as_ref().map(|recorder| recorder.report(&self.plan))
    }
}

/// Whether an access found the line modified in another core's cache, and whether on the same NUMA
/// node, as `perf c2c` tells them apart. Threads of one core share its cache.
pub(crate) fn hitm(machine: &Machine, cpu: CpuId, served: Served) -> Option<bool> {
    let Source::Modified(owner) = served.source else { return None };
    let topology = machine.topology();
    if topology.cores().of(owner) == topology.cores().of(cpu) {
        return None;
    }
    Some(topology.nodes().of(owner) == topology.nodes().of(cpu))
}

//! The signals of one task.

use schedlab_kernel::pelt::{Avg, EntityActivity};
use schedlab_machine::CpuId;

use super::cpu::Cpu;

/// One task's signals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub avg: Avg,
    pub cpu: CpuId,
    pub weight: u64,
    pub queued: bool,
    pub running: bool,
    /// Woken for another CPU and not queued there yet: it belongs to none and does not age, as
    /// attaching starts a new clock (`migrate_task_rq_fair()`, `attach_entity_load_avg()`).
    pub in_transit: bool,
    /// Its signals before its last migration aged them.
    pub before_migration: Avg,
    pub fair: bool,
    /// Followed since then, ns; `None` once the kernel's own value has been met.
    pub since_ns: Option<u64>,
}

/// A signal's value and whether its history is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// `util_avg`.
    pub util_avg: u64,
    /// The kernel's own value or a long enough history stands behind it.
    pub known: bool,
}

impl Task {
    /// Brings the signals to `clock`, a time of the PELT clock of `cpu`, the task's.
    pub fn update(&mut self, clock: u64, cpu: &Cpu) {
        if self.in_transit {
            return;
        }
        if self.running && !cpu.frequency_known {
            self.since_ns = Some(cpu.at_ns);
        }
        let (on_rq, weight) = (self.queued, self.weight);
        cpu.contribution().scaled(&mut self.avg, self.running, |avg, running| {
            let activity = EntityActivity { on_rq, runnable: u64::from(on_rq), running };
            avg.update_entity(clock, weight, activity)
        });
    }
}

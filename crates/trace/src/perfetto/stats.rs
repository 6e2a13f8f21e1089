//! How many events each CPU's ring buffer lost: `FtraceStats` at the start and the end of tracing.

use super::wire::{Fields, Slots, Value};
use schedlab_machine::{CPUS_MAX, CpuId};
use std::collections::BTreeMap;

/// `FtraceStats.Phase.START_OF_TRACE`; what was lost until then is not the trace's loss.
const START_OF_TRACE: u64 = 1;

/// The kernel's counters per CPU.
#[derive(Debug, Default)]
pub(super) struct LossCounters {
    /// Overwritten plus dropped events when tracing began, and when it ended.
    cpus: BTreeMap<CpuId, (u64, Option<u64>)>,
}

impl LossCounters {
    /// Takes an `FtraceStats` message.
    pub(super) fn read(&mut self, message: &[u8]) {
        let fields = Fields::new(message);
        let phase = fields.clone().find(|(number, _)| *number == 1);
        let at_start = phase.is_some_and(|(_, value)| value == Value::Varint(START_OF_TRACE));
        for (_, value) in fields.filter(|(number, _)| *number == 2) {
            let Some(slots) = Slots::read(value.bytes()) else { continue };
            let cpu = CpuId(slots.u32(1));
            if cpu.index() >= CPUS_MAX {
                continue;
            }
            // `overrun` and `dropped events`: overwritten by newer ones, or not stored at all.
            let lost = slots.u64(3).saturating_add(slots.u64(8));
            let counters = self.cpus.entry(cpu).or_default();
            if at_start {
                counters.0 = lost;
            } else {
                counters.1 = Some(lost);
            }
        }
    }

    /// The CPUs that the counters name, with what each lost while tracing.
    pub(super) fn lost(&self) -> impl Iterator<Item = (CpuId, u64)> {
        self.cpus
            .iter()
            .map(|(&cpu, &(start, end))| (cpu, end.map_or(0, |end| end.saturating_sub(start))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_before_tracing_does_not_count() {
        let mut counters = LossCounters::default();
        // phase 1, CPU 2: overrun 100; phase 2, CPU 2: overrun 103, dropped 4.
        counters.read(&[0x08, 1, 0x12, 4, 0x08, 2, 0x18, 100]);
        assert_eq!(counters.lost().collect::<Vec<_>>(), [(CpuId(2), 0)]);
        counters.read(&[0x08, 2, 0x12, 6, 0x08, 2, 0x18, 103, 0x40, 4]);
        assert_eq!(counters.lost().collect::<Vec<_>>(), [(CpuId(2), 7)]);
    }
}

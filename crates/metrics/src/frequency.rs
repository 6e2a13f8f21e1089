//! How long each CPU had each frequency.

use crate::Collector;
use crate::per_cpu::PerCpu;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind};
use std::collections::BTreeMap;

/// How long a CPU had a frequency. The time before the first `cpu_frequency` event of a CPU, and
/// from lost events to the next, is in no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyRow {
    /// The CPU.
    pub cpu: CpuId,
    /// Its frequency, kHz.
    pub frequency_khz: u32,
    /// For how long, ns.
    pub residency_ns: u64,
    /// How often it was set.
    pub changes: u64,
}

/// Collects frequency residency.
#[derive(Debug, Default)]
pub struct Frequencies {
    cpus: PerCpu<Track>,
}

#[derive(Debug, Default)]
struct Track {
    now: Option<(u32, u64)>,
    sums: BTreeMap<u32, (u64, u64)>,
}

impl Track {
    fn set(&mut self, frequency_khz: Option<u32>, now_ns: u64) {
        if let Some((khz, since_ns)) = self.now.take() {
            self.sums.entry(khz).or_default().0 += now_ns.saturating_sub(since_ns);
        }
        if let Some(khz) = frequency_khz {
            self.sums.entry(khz).or_default().1 += 1;
            self.now = Some((khz, now_ns));
        }
    }
}

impl Frequencies {
    /// Rows by CPU and frequency, up to `end_ns`, the last timestamp of the trace.
    pub fn finish(self, end_ns: u64) -> Vec<FrequencyRow> {
        let mut rows = Vec::new();
        for (cpu, mut track) in self.cpus.into_iter() {
            track.set(None, end_ns);
            rows.extend(track.sums.into_iter().map(|(frequency_khz, (residency_ns, changes))| {
                FrequencyRow { cpu, frequency_khz, residency_ns, changes }
            }));
        }
        rows
    }
}

impl Collector for Frequencies {
    fn push(&mut self, event: &Event) {
        match event.kind {
            EventKind::Frequency { cpu, frequency_khz } => {
                if let Some(track) = self.cpus.get_mut(cpu) {
                    track.set(Some(frequency_khz), event.timestamp_ns);
                }
            }
            // The event is recorded by the CPU that sets the frequency, which in a frequency domain
            // may be any: a loss anywhere can hide a change.
            EventKind::Lost { .. } => {
                for track in self.cpus.iter_mut() {
                    track.set(None, event.timestamp_ns);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, khz};

    #[test]
    fn time_counts_from_the_first_setting_to_the_end() {
        let mut frequencies = Frequencies::default();
        for event in [at(10, 0, khz(1, 500)), at(30, 0, khz(1, 900)), at(70, 0, khz(1, 500))] {
            frequencies.push(&event);
        }
        let row = |frequency_khz, residency_ns, changes| FrequencyRow {
            cpu: CpuId(1),
            frequency_khz,
            residency_ns,
            changes,
        };
        assert_eq!(frequencies.finish(100), [row(500, 50, 2), row(900, 40, 1)]);
    }

    #[test]
    fn a_loss_ends_what_is_known() {
        let mut frequencies = Frequencies::default();
        frequencies.push(&at(10, 0, khz(1, 500)));
        frequencies.push(&at(30, 0, EventKind::Lost { count: 3 }));
        assert_eq!(frequencies.finish(100)[0].residency_ns, 20);
    }
}

//! Which high-resolution timers are armed on which CPU.

use rustc_hash::FxHashMap;
use schedlab_machine::CpuId;

use super::survey::of_cpu;

/// An armed timer.
#[derive(Clone, Copy, Debug)]
struct Armed {
    timer: u64,
    expires_ns: u64,
}

/// The armed timers of every CPU. A CPU has a handful, so each list is searched, in arming order.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_cpu: Vec<Vec<Armed>>,
    cpu_of: FxHashMap<u64, CpuId>,
    /// The timer that is each CPU's tick.
    ticks: Vec<Option<u64>>,
}

/// The timers of one CPU at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Expiry of the tick's timer, if armed.
    pub tick_ns: Option<u64>,
    /// Earliest expiry of any other timer.
    pub hrtimer_ns: Option<u64>,
}

impl Timers {
    /// At most this many timers of a CPU are kept, so that a file of arming events alone cannot
    /// fill the memory; real CPUs have tens.
    const LIMIT: usize = 4096;

    pub fn arm(&mut self, cpu: CpuId, timer: u64, expires_ns: u64, is_tick: bool) {
        self.disarm(timer);
        let Some(armed) = of_cpu(&mut self.by_cpu, cpu) else { return };
        if armed.len() >= Self::LIMIT {
            let oldest = armed.remove(0);
            self.cpu_of.remove(&oldest.timer);
        }
        armed.push(Armed { timer, expires_ns });
        self.cpu_of.insert(timer, cpu);
        if is_tick && let Some(tick) = of_cpu(&mut self.ticks, cpu) {
            *tick = Some(timer);
        }
    }

    pub fn disarm(&mut self, timer: u64) {
        let Some(cpu) = self.cpu_of.remove(&timer) else { return };
        if let Some(armed) = self.by_cpu.get_mut(cpu.index()) {
            armed.retain(|entry| entry.timer != timer);
        }
    }

    /// Forgets a CPU's timers, after events were lost there.
    pub fn forget(&mut self, cpu: CpuId) {
        if let Some(armed) = self.by_cpu.get_mut(cpu.index()) {
            for entry in armed.drain(..) {
                self.cpu_of.remove(&entry.timer);
            }
        }
    }

    pub fn is_tick(&self, cpu: CpuId, timer: u64) -> bool {
        self.ticks.get(cpu.index()).is_some_and(|tick| *tick == Some(timer))
    }

    pub fn pending(&self, cpu: CpuId) -> Pending {
        let tick = self.ticks.get(cpu.index()).copied().flatten();
        let mut pending = Pending::default();
        for entry in self.by_cpu.get(cpu.index()).map_or(&[][..], Vec::as_slice) {
            if Some(entry.timer) == tick {
                pending.tick_ns = Some(entry.expires_ns);
            } else {
                let earliest = pending.hrtimer_ns.unwrap_or(u64::MAX).min(entry.expires_ns);
                pending.hrtimer_ns = Some(earliest);
            }
        }
        pending
    }
}

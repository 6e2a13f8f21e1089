//! How fast a thread of a core computes while its siblings come and go.
//!
//! A kernel path runs to completion on its own CPU's clock, so a sibling may be known to fall asleep
//! at a time that this thread has yet to reach. Until then it counts as busy.

use crate::cpu::FULL_SPEED;
use schedlab_machine::{CpuId, Machine};

/// A thread's share of its core.
#[derive(Clone, Debug)]
pub struct CoreShare {
    /// Work per ns at the time that was reached: of `speeds`, which are elsewhere in memory, the one
    /// that every event asks for.
    speed: u64,
    busy_siblings: usize,
    /// Work per ns, by the number of busy siblings.
    speeds: Box<[u64]>,
    /// What is known beyond the time that the thread has reached, in order: when, and whether a
    /// sibling becomes busy then, or idle.
    ahead: Vec<(u64, bool)>,
}

impl CoreShare {
    /// `cpu`, with its core to itself.
    pub fn new(machine: &Machine, cpu: CpuId) -> CoreShare {
        let threads = machine.topology().cores().siblings(cpu).iter().count();
        let speeds = vec![0; threads.max(1)].into_boxed_slice();
        let ahead = Vec::with_capacity(64);
        let mut share = CoreShare { speed: 0, busy_siblings: 0, speeds, ahead };
        share.set_frequency(machine, cpu, machine.max_khz(cpu));
        share
    }

    /// `cpu`, whose share this is, runs at `khz` from now on.
    pub fn set_frequency(&mut self, machine: &Machine, cpu: CpuId, khz: u32) {
        let (khz, max_khz) = (u64::from(khz), u64::from(machine.max_khz(cpu)));
        let capacity = u64::from(machine.capacity(cpu));
        let alone = self.speeds.len() == 1;
        for (speed, busy) in self.speeds.iter_mut().zip(1_usize..) {
            *speed = match alone {
                true => capacity * FULL_SPEED / 1024,
                false => {
                    let throughput = u64::from(machine.smt().throughput_permille(busy));
                    capacity * throughput / busy as u64
                }
            };
            if khz != max_khz {
                *speed = *speed * khz / max_khz;
            }
        }
        self.speed = self.speeds[self.busy_siblings];
    }

    /// Work per ns at the time that was reached.
    #[inline]
    pub fn speed(&self) -> u64 {
        self.speed
    }

    /// A sibling becomes busy, or idle, at `time_ns`.
    pub fn note(&mut self, time_ns: u64, busy: bool) {
        if self.ahead.is_empty() {
            return self.ahead.push((time_ns, busy));
        }
        let at = self.ahead.partition_point(|&(known_ns, _)| known_ns <= time_ns);
        self.ahead.insert(at, (time_ns, busy));
    }

    /// Something changes until `until_ns`.
    #[inline]
    pub fn changes(&self, until_ns: u64) -> bool {
        self.ahead.first().is_some_and(|&(time_ns, _)| time_ns <= until_ns)
    }

    /// The next change if it is at `until_ns` at the latest, which is then reached: the work per ns
    /// up to it, and when it is.
    #[inline]
    pub fn next(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        let &(time_ns, busy) = self.ahead.first().filter(|(time_ns, _)| *time_ns <= until_ns)?;
        let speed = self.speed();
        // Hardly ever is more than one known.
        match self.ahead.len() {
            1 => self.ahead.clear(),
            _ => _ = self.ahead.remove(0),
        }
        self.busy_siblings = after(self.busy_siblings, busy);
        self.speed = self.speeds[self.busy_siblings];
        Some((speed, time_ns))
    }

    /// When `work` that begins at `since_ns` is done, at `pace` per ns at most.
    #[inline]
    pub fn end_ns(&self, since_ns: u64, work: u64, pace: u64) -> u64 {
        let limited = |speed: u64| speed.min(pace).max(1);
        let mut rate = limited(self.speed);
        let (mut now_ns, mut left, mut busy_siblings) = (since_ns, work, self.busy_siblings);
        for &(time_ns, busy) in &self.ahead {
            let most = time_ns.saturating_sub(now_ns).saturating_mul(rate);
            if left <= most {
                break;
            }
            left -= most;
            now_ns = now_ns.max(time_ns);
            busy_siblings = after(busy_siblings, busy);
            rate = limited(self.speeds[busy_siblings]);
        }
        now_ns.saturating_add(left.div_ceil(rate))
    }
}

fn after(busy_siblings: usize, busy: bool) -> usize {
    if busy { busy_siblings + 1 } else { busy_siblings - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share() -> CoreShare {
        let speeds = Box::from([1000, 600]);
        CoreShare { speed: 1000, busy_siblings: 0, speeds, ahead: Vec::new() }
    }

    #[test]
    fn a_sibling_slows_the_thread_down_from_when_it_wakes_until_it_sleeps() {
        let mut share = share();
        share.note(100, true);
        share.note(300, false);
        // 100 ns alone, 200 ns shared, 50 ns alone.
        assert_eq!(share.end_ns(0, 100_000 + 120_000 + 50_000, u64::MAX), 350);
        assert_eq!(share.next(99), None);
        assert_eq!(share.next(250), Some((1000, 100)));
        assert_eq!(share.speed(), 600);
        assert_eq!(share.next(250), None);
        assert_eq!(share.end_ns(250, 30_000 + 1, u64::MAX), 301);
        assert_eq!(share.next(300), Some((600, 300)));
        assert_eq!(share.speed(), 1000);
    }

    #[test]
    fn what_changes_before_the_work_begins_takes_none_of_it() {
        let mut share = share();
        share.note(100, true);
        assert_eq!(share.end_ns(500, 6_000, u64::MAX), 510);
        assert_eq!(share.end_ns(500, 6_000, 10), 1_100);
    }
}

//! Changes of what CPUs do that are known, but may lie ahead of the earliest event, because a kernel
//! path is executed at once.
//!
//! Nobody asks for power while a run goes on, so the changes gather, in order, and are taken in many
//! at once.

use crate::energy::Activity;
use schedlab_machine::CpuId;

/// Changes that gather before they are taken in.
const GATHER: usize = 256;

/// The place of a new change is sought among so many last ones first.
const NEAR: usize = 8;

/// The changes that are yet to be taken in.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// By time, those of equal times as they were added.
    list: Vec<Change>,
    /// How many there may be before they are taken in.
    limit: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Change {
    time_ns: u64,
    cpu: u32,
    /// The activity: a state, and above it what is done with it.
    activity: u32,
}

/// Bits of a state's number.
const STATE_BITS: u32 = 16;

impl Changes {
    /// None yet, of a machine of so many CPUs.
    pub fn new(cpus: usize) -> Changes {
        Changes { list: Vec::with_capacity(4 * cpus + 2 * GATHER), limit: GATHER }
    }

    /// `cpu` does something else from `time_ns` on. True if it is time to take changes in.
    #[inline]
    pub fn add(&mut self, cpu: CpuId, activity: Activity, time_ns: u64) -> bool {
        let activity = match activity {
            Activity::Busy => 0,
            Activity::Waking(state) => (1 << STATE_BITS) | state,
            Activity::Idle(state) => (2 << STATE_BITS) | state,
        };
        let change = Change { time_ns, cpu: cpu.0, activity };
        if self.list.last().is_none_or(|last| last.time_ns <= time_ns) {
            self.list.push(change);
        } else {
            self.insert(change);
        }
        self.list.len() >= self.limit
    }

    fn insert(&mut self, change: Change) {
        let after = |other: &Change| other.time_ns > change.time_ns;
        let near = self.list.len().saturating_sub(NEAR);
        let at = match self.list[near..].iter().rposition(|other| !after(other)) {
            Some(at) => near + at + 1,
            None => self.list[..near].partition_point(|other| !after(other)),
        };
        self.list.insert(at, change);
    }

    /// Hands the changes until `until_ns` to `take`, those of equal times as they were added.
    pub fn take(&mut self, until_ns: u64, mut take: impl FnMut(CpuId, Activity, u64)) {
        let ready = self.list.partition_point(|change| change.time_ns <= until_ns);
        for change in self.list.drain(..ready) {
            let state = change.activity & ((1 << STATE_BITS) - 1);
            let activity = match change.activity >> STATE_BITS {
                0 => Activity::Busy,
                1 => Activity::Waking(state),
                _ => Activity::Idle(state),
            };
            take(CpuId(change.cpu), activity, change.time_ns);
        }
        self.limit = self.list.len() + GATHER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_by_time_and_then_as_they_were_added() {
        let all = [
            (300, 0, Activity::Waking(3)),
            (100, 2047, Activity::Busy),
            (100, 1, Activity::Idle(9)),
            (200, 5, Activity::Busy),
            (300, 7, Activity::Busy),
        ];
        let mut changes = Changes::new(1);
        for (time_ns, cpu, activity) in all {
            assert!(!changes.add(CpuId(cpu), activity, time_ns));
        }
        let mut taken = Vec::new();
        let mut take = |changes: &mut Changes, until_ns| {
            changes.take(until_ns, |cpu, activity, time_ns| taken.push((time_ns, cpu.0, activity)));
        };
        take(&mut changes, 200);
        changes.add(CpuId(3), Activity::Idle(0), 300);
        take(&mut changes, u64::MAX);
        let last = (300, 3, Activity::Idle(0));
        assert_eq!(taken, [all[1], all[2], all[3], all[0], all[4], last]);
    }

    #[test]
    fn it_is_time_again_after_as_many_more() {
        let mut changes = Changes::new(1);
        let mut add = |time_ns| changes.add(CpuId(0), Activity::Busy, time_ns);
        assert!((1..GATHER).all(|_| !add(10)));
        assert!(add(10));
        changes.take(5, |_, _, _| unreachable!("all lie ahead"));
        let mut add = |time_ns| changes.add(CpuId(0), Activity::Busy, time_ns);
        assert!((1..GATHER).all(|_| !add(10)));
        assert!(add(10));
    }
}

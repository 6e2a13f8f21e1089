//! Changes of what CPUs do that are known, but may lie ahead of the earliest event, because a kernel
//! path is executed at once.
//!
//! Nobody asks for power while a run goes on, so the changes gather, in order, and are taken in many
//! at once.

use crate::energy::Activity;
use schedlab_machine::CpuId;

/// Changes that gather before they are taken in.
const GATHER: u64 = 256;

/// The place of a new change is sought among so many last ones first.
const NEAR: usize = 8;

/// The changes that are yet to be taken in.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Those to be busy, to wake and to idle, by time, and those of equal times as they were added.
    /// How far ahead a change lies depends on its kind, so that those of one kind come nearly in
    /// order.
    kinds: [Vec<Change>; 3],
    /// How many were ever added.
    count: u64,
    /// How many there may have been when it is time to take them in.
    limit: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Change {
    time_ns: u64,
    number: u64,
    cpu: u32,
    state: u32,
}

impl Changes {
    /// None yet, of a machine of so many CPUs.
    pub fn new(cpus: usize) -> Changes {
        let kinds = [(); 3].map(|()| Vec::with_capacity(4 * cpus + 2 * GATHER as usize));
        Changes { kinds, count: 0, limit: GATHER }
    }

    /// `cpu` does something else from `time_ns` on. True if it is time to take changes in.
    #[inline]
    pub fn add(&mut self, cpu: CpuId, activity: Activity, time_ns: u64) -> bool {
        let (kind, state) = match activity {
            Activity::Busy => (0, 0),
            Activity::Waking(state) => (1, state),
            Activity::Idle(state) => (2, state),
        };
        let change = Change { time_ns, number: self.count, cpu: cpu.0, state };
        self.count += 1;
        let kind = &mut self.kinds[kind];
        if kind.last().is_none_or(|last| last.time_ns <= time_ns) {
            kind.push(change);
        } else {
            insert(kind, change);
        }
        self.count >= self.limit
    }

    /// Hands the changes until `until_ns` to `take`, those of equal times as they were added.
    pub fn take(&mut self, until_ns: u64, mut take: impl FnMut(CpuId, Activity, u64)) {
        let key = |kind: &[Change], at: usize| {
            let key = |next: &Change| (u128::from(next.time_ns) << 64) | u128::from(next.number);
            kind.get(at).map_or(u128::MAX, key)
        };
        let mut taken = [0; 3];
        let mut first = [0, 1, 2].map(|kind| key(&self.kinds[kind], 0));
        loop {
            let sooner = if first[1] < first[0] { 1 } else { 0 };
            let kind = if first[2] < first[sooner] { 2 } else { sooner };
            let list = &self.kinds[kind];
            let Some(change) = list.get(taken[kind]).filter(|change| change.time_ns <= until_ns)
            else {
                break;
            };
            taken[kind] += 1;
            first[kind] = key(list, taken[kind]);
            let activity = match kind {
                0 => Activity::Busy,
                1 => Activity::Waking(change.state),
                _ => Activity::Idle(change.state),
            };
            take(CpuId(change.cpu), activity, change.time_ns);
        }
        for (kind, taken) in self.kinds.iter_mut().zip(taken) {
            kind.drain(..taken);
        }
        self.limit = self.count + GATHER;
    }
}

/// Puts a change that is before the last one where it belongs, most often near the end.
#[inline(never)]
fn insert(list: &mut Vec<Change>, change: Change) {
    let before = |other: &Change| other.time_ns <= change.time_ns;
    let near = list.len().saturating_sub(NEAR);
    let at = match list[near..].iter().rposition(before) {
        Some(at) => near + at + 1,
        None => list[..near].partition_point(before),
    };
    list.insert(at, change);
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

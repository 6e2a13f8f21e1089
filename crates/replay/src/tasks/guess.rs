//! What woke tasks, in a trace that shows neither timers nor interrupts.
//!
//! There every wake-up seems to be the doing of the task that its CPU ran, though often a timer's
//! interrupt came in between. Who sleeps until a timer wakes at regular times, or after sleeps of
//! one length, on the CPU where it went to sleep, and whoever happens to run there seems to wake it.

use super::track::{Did, Sleep, Track};

/// Times this close together are the same, ns: a timer's slack, and the paths to the wake-up.
const SAME_NS: u64 = 100_000;

/// Fewer alike times are chance.
const ALIKE_MIN: usize = 5;

/// One wake-up on the CPU where the task went to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    /// The place of the wait among what the task did.
    pub at: u32,
    /// When the task went to sleep.
    pub left_ns: u64,
    /// When it was woken.
    pub woken_ns: u64,
    /// The task that seems to have done it, and what it did: neither while the CPU idled.
    pub by: Option<(u32, u32)>,
}

/// Takes wake-ups for a timer's that come at regular times, whoever runs.
pub(super) fn guess_timers(tracks: &mut [Track]) {
    for place in 0..tracks.len() {
        let woken = std::mem::take(&mut tracks[place].woken_here);
        for at in regular(&woken) {
            let Woken { at, left_ns, woken_ns, by } = woken[at];
            let Some((waker, did)) = by else { continue };
            let sleep = Sleep { left_ns, soft_ns: woken_ns, hard_ns: woken_ns };
            tracks[place].did[at as usize] = Did::Timer(sleep);
            tracks[waker as usize].did[did as usize] = Did::Nothing;
        }
    }
}

/// The wake-ups that a timer explains better than those who ran.
fn regular(woken: &[Woken]) -> Vec<usize> {
    let waker = |woken: &Woken| woken.by.map(|(task, _)| task);
    let by_one = woken.windows(2).all(|pair| waker(&pair[0]) == waker(&pair[1]));
    if by_one {
        return Vec::new();
    }
    let periods: Vec<u64> =
        woken.windows(2).map(|pair| pair[1].woken_ns.saturating_sub(pair[0].woken_ns)).collect();
    let sleeps: Vec<u64> =
        woken.iter().map(|one| one.woken_ns.saturating_sub(one.left_ns)).collect();
    let mut found = vec![false; woken.len()];
    if let Some(period_ns) = usual(&periods, woken.len()) {
        for (at, gap_ns) in periods.iter().enumerate() {
            if gap_ns.abs_diff(period_ns) <= SAME_NS {
                (found[at], found[at + 1]) = (true, true);
            }
        }
    }
    if let Some(usual_ns) = usual(&sleeps, woken.len()) {
        for (at, sleep_ns) in sleeps.iter().enumerate() {
            found[at] |= sleep_ns.abs_diff(usual_ns) <= SAME_NS;
        }
    }
    (0..woken.len()).filter(|at| found[*at]).collect()
}

/// The time that half of so many times, and not only a few, are alike: the middle of the closest.
fn usual(times_ns: &[u64], of: usize) -> Option<u64> {
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    let (mut first, mut best) = (0, 0..0);
    for (last, time_ns) in sorted.iter().enumerate() {
        // Short times are alike only in proportion.
        while time_ns - sorted[first] > SAME_NS.min(time_ns / 10) {
            first += 1;
        }
        if last + 1 - first > best.len() {
            best = first..last + 1;
        }
    }
    let enough = best.len() >= ALIKE_MIN && 2 * best.len() >= of;
    enough.then(|| sorted[(best.start + best.end) / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(times_us: impl Iterator<Item = u64>, wakers: u32) -> Vec<Woken> {
        let one = |(at, time_us): (usize, u64)| {
            let (at, woken_ns) = (at as u32, time_us * 1_000);
            Woken { at, left_ns: woken_ns - 300_000, woken_ns, by: Some((at % wakers, at)) }
        };
        times_us.enumerate().map(one).collect()
    }

    #[test]
    fn a_period_is_a_timers_whoever_runs() {
        let every_ms = |wakers| woken((1..20).map(|ms| ms * 1_000), wakers);
        assert_eq!(regular(&every_ms(3)).len(), 19);
        // One that always wakes it may well be the cause.
        assert_eq!(regular(&every_ms(1)), Vec::<usize>::new());
    }

    #[test]
    fn irregular_wakeups_are_their_wakers() {
        let mut now_us = 1_000;
        let drifting = woken(
            (1..20).map(|step| {
                now_us += step * 700;
                now_us
            }),
            3,
        );
        let asleep = drifting.iter().enumerate();
        let asleep =
            asleep.map(|(at, one)| Woken { left_ns: one.woken_ns - at as u64 * 200_000, ..*one });
        assert_eq!(regular(&asleep.collect::<Vec<_>>()), Vec::<usize>::new());
    }

    #[test]
    fn sleeps_of_one_length_are_a_timers() {
        let mut now_us = 1_000;
        let after_work = woken(
            (1..20).map(|step| {
                now_us += 300 + step * 700;
                now_us
            }),
            3,
        );
        assert_eq!(regular(&after_work).len(), 19);
    }
}

//! From a timer's clock to the trace's.

use rustc_hash::FxHashMap;

/// Clocks further apart than this are of another kind (`CLOCK_REALTIME`), ns.
const OTHER_KIND_NS: i64 = 86_400_000_000_000;
/// Closer than this, the trace's clock is the timers' own, and the difference is the way from the
/// interrupt to its event, ns.
const SAME_CLOCK_NS: i64 = 1_000_000;

/// How far the trace's clock is ahead of the clocks that timers run on.
///
/// Most timers run on `CLOCK_MONOTONIC`. `hrtimer_expire_entry` carries the timer's own time, so
/// each firing shows the distance.
#[derive(Debug, Default)]
pub(super) struct TimerClock {
    ahead_ns: i64,
    others: FxHashMap<u64, i64>,
    other_ns: i64,
}

impl TimerClock {
    /// A timer fired at `trace_ns`, which was `timer_ns` on its own clock.
    pub fn observe(&mut self, timer: u64, timer_ns: i64, trace_ns: u64) {
        let ahead_ns = (trace_ns as i64).saturating_sub(timer_ns);
        if ahead_ns.saturating_abs() >= OTHER_KIND_NS {
            self.other_ns = ahead_ns;
            self.others.insert(timer, ahead_ns);
        } else {
            self.ahead_ns = if ahead_ns.abs() < SAME_CLOCK_NS { 0 } else { ahead_ns };
            self.others.remove(&timer);
        }
    }

    /// A timer's expiry on the trace's clock; `now_ns` is the trace's time.
    pub fn to_trace(&self, timer: u64, expires_ns: i64, now_ns: u64) -> u64 {
        let distance_ns = expires_ns.saturating_add(self.ahead_ns).saturating_sub(now_ns as i64);
        let ahead_ns = if distance_ns.saturating_abs() < YEARS_NS {
            self.ahead_ns
        } else {
            self.others.get(&timer).copied().unwrap_or(self.other_ns)
        };
        u64::try_from(expires_ns.saturating_add(ahead_ns)).unwrap_or(0)
    }
}

/// No real timer is armed for longer than this, so a longer one is of another clock, ns.
const YEARS_NS: i64 = 5 * 365 * 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_clock_needs_no_shift() {
        let mut clock = TimerClock::default();
        clock.observe(1, 5_000_000, 5_000_862);
        assert_eq!(clock.to_trace(1, 9_000_000, 6_000_000), 9_000_000);
    }

    #[test]
    fn wall_clock_timers_are_brought_over() {
        let mut clock = TimerClock::default();
        let wall_ns = 1_700_000_000_000_000_000;
        clock.observe(7, wall_ns, 1_000_000_000);
        clock.observe(8, 1_000_000_000, 1_000_000_900);
        assert_eq!(clock.to_trace(7, wall_ns + 5_000, 1_000_000_000), 1_000_005_000);
        assert_eq!(clock.to_trace(8, 1_000_005_000, 1_000_000_000), 1_000_005_000);
    }
}

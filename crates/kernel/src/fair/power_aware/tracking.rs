//! Per-entity load tracking as v3.8 introduced it (`__update_entity_runnable_avg()`,
//! `kernel/sched/fair.c` of v3.8 to v4.2): the share of time in which a task was runnable or a run
//! queue not empty. It knows neither frequency nor capacity, and waiting counts as running does.

use crate::pelt::{LOAD_AVG_MAX, LOAD_AVG_PERIOD, decay_load};

/// Periods after which a contribution is the largest that there is (`LOAD_AVG_MAX_N`).
const LOAD_AVG_MAX_N: u64 = 345;

/// `1024 * sum(y^i)` for i from 1 to n, nearly each term truncated (`runnable_avg_yN_sum`).
const SUMS: [u32; 33] = [
    0, 1002, 1982, 2941, 3880, 4798, 5697, 6576, 7437, 8279, 9103, 9909, 10698, 11470, 12226,
    12966, 13690, 14398, 15091, 15769, 16433, 17082, 17718, 18340, 18949, 19545, 20128, 20698,
    21256, 21802, 22336, 22859, 23371,
];

/// `struct sched_avg` of its day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunnableAvg {
    /// Time runnable, decayed, in units of 1024 ns.
    pub sum: u32,
    /// Time in all, likewise.
    pub period: u32,
    /// When that was, ns.
    pub last_update_ns: u64,
    /// The weight, lessened by the share; the weight itself while the task is new
    /// (`load_avg_contrib`). Of tasks alone.
    pub load_contribution: u64,
}

impl RunnableAvg {
    /// What has idled, or slept, since long ago.
    pub const fn idle(now_ns: u64) -> RunnableAvg {
        RunnableAvg { sum: 0, period: LOAD_AVG_MAX, last_update_ns: now_ns, load_contribution: 0 }
    }

    /// A forked task: it counts in full until it was seen (patch 2 of the series).
    pub const fn new_task(weight: u64) -> RunnableAvg {
        RunnableAvg { sum: 0, period: 0, last_update_ns: 0, load_contribution: weight }
    }

    /// Time went on to `now_ns` of the queue's task clock, in which it was `runnable` or not. `true`
    /// if a period ended.
    pub fn update(&mut self, now_ns: u64, runnable: bool) -> bool {
        let delta_ns = now_ns.wrapping_sub(self.last_update_ns);
        if (delta_ns as i64) < 0 {
            self.last_update_ns = now_ns;
            return false;
        }
        let mut delta = delta_ns >> 10;
        if delta == 0 {
            return false;
        }
        self.last_update_ns = now_ns;
        let open = 1024 - u64::from(self.period % 1024);
        let ends = delta >= open;
        if ends {
            self.add(open as u32, runnable);
            delta -= open;
            let periods = delta / 1024;
            delta %= 1024;
            self.sum = decay_load(u64::from(self.sum), periods + 1) as u32;
            self.period = decay_load(u64::from(self.period), periods + 1) as u32;
            self.add(contribution(periods), runnable);
        }
        self.add(delta as u32, runnable);
        ends
    }

    fn add(&mut self, units: u32, runnable: bool) {
        self.period += units;
        self.sum += if runnable { units } else { 0 };
    }

    /// The same for a task of this weight, whose contribution follows at the end of a period.
    /// The first update only notes the time.
    pub fn update_task(&mut self, now_ns: u64, runnable: bool, weight: u64) {
        if self.last_update_ns == 0 {
            self.last_update_ns = now_ns;
            return;
        }
        if self.update(now_ns, runnable) {
            self.load_contribution = u64::from(self.sum) * weight / (u64::from(self.period) + 1);
        }
    }

    /// A run queue's utilisation, 0 to 1024 (`rq->util`).
    pub fn queue_util(&self) -> u64 {
        (u64::from(self.sum) << 10) / u64::from(self.period.max(1))
    }

    /// A task's, where one whose contribution is its whole weight counts as new (`is_sd_full()`).
    pub fn task_util(&self, weight: u64) -> u64 {
        if self.load_contribution == weight {
            return 1024;
        }
        (u64::from(self.sum) << 10) / (u64::from(self.period) + 1)
    }
}

/// What `periods` whole periods add, beyond those decayed (`__compute_runnable_contrib()`).
fn contribution(periods: u64) -> u32 {
    if periods <= LOAD_AVG_PERIOD {
        return SUMS[periods as usize];
    }
    if periods >= LOAD_AVG_MAX_N {
        return LOAD_AVG_MAX;
    }
    let mut left = periods;
    let mut sum = 0;
    while left > LOAD_AVG_PERIOD {
        sum = sum / 2 + SUMS[LOAD_AVG_PERIOD as usize];
        left -= LOAD_AVG_PERIOD;
    }
    decay_load(u64::from(sum), left) as u32 + SUMS[left as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_adds_up_decayed_periods() {
        for (n, &sum) in SUMS.iter().enumerate() {
            let exact: u64 = (1..=n as u64).map(|i| decay_load(1024, i)).sum();
            assert!(u64::from(sum).abs_diff(exact) <= 6, "{n}: {sum} for {exact}");
        }
    }

    #[test]
    fn a_queue_that_gets_busy_reaches_half_in_32_ms() {
        let mut queue = RunnableAvg::idle(0);
        queue.update(32 << 20, true);
        assert!((505..=525).contains(&queue.queue_util()), "{}", queue.queue_util());
        queue.update(1 << 30, true);
        assert!(queue.queue_util() >= 1022, "{}", queue.queue_util());
        queue.update((1 << 30) + (32 << 20), false);
        assert!((500..=525).contains(&queue.queue_util()), "{}", queue.queue_util());
    }

    #[test]
    fn a_new_task_counts_in_full_until_a_period_ends() {
        let mut task = RunnableAvg::new_task(1024);
        task.update_task(1, false, 1024);
        assert_eq!(task.task_util(1024), 1024);
        task.update_task(500_000, true, 1024);
        assert_eq!(task.task_util(1024), 1024);
        // It ran for 2 ms and slept for 6.
        task.update_task(2 << 20, true, 1024);
        task.update_task(8 << 20, false, 1024);
        assert!((230..260).contains(&task.task_util(1024)), "{}", task.task_util(1024));
    }

    #[test]
    fn many_small_updates_are_one_large_one() {
        let (mut often, mut once) = (RunnableAvg::idle(0), RunnableAvg::idle(0));
        for step in 1..=400_u64 {
            often.update(step << 18, true);
        }
        once.update(100 << 20, true);
        let difference = often.queue_util().abs_diff(once.queue_util());
        assert!(difference <= 6, "{} and {}", often.queue_util(), once.queue_util());
    }
}

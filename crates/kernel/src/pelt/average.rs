//! One set of load-tracking signals and its update (`kernel/sched/pelt.c`).

use super::{SCHED_CAPACITY_SHIFT, cap_scale, scale_load_down};

/// Periods after which a contribution counts half.
pub const LOAD_AVG_PERIOD: u64 = 32;

/// The limit of `1024 * sum(y^n)`, as the kernel's generator truncates it.
pub const LOAD_AVG_MAX: u32 = 47742;

/// What [`Avg::divider`] is at the start of a period: the limit without the current period.
pub const PELT_MIN_DIVIDER: u32 = LOAD_AVG_MAX - PERIOD;

/// Units of 1024 ns in a period, so about 1 ms.
const PERIOD: u32 = 1024;

/// `y^n * 2^32` for n below 32, where `y^32 = 1/2` (`runnable_avg_yN_inv`,
/// `kernel/sched/sched-pelt.h`). Truncated, except that `y^0` is as close to 1 as 32 bits allow.
const DECAY: [u32; LOAD_AVG_PERIOD as usize] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// `value * y^periods` (`decay_load()`).
#[inline]
pub fn decay_load(value: u64, periods: u64) -> u64 {
    if periods > LOAD_AVG_PERIOD * 63 {
        return 0;
    }
    let halved = value >> (periods / LOAD_AVG_PERIOD);
    let factor = DECAY[(periods % LOAD_AVG_PERIOD) as usize];
    ((u128::from(halved) * u128::from(factor)) >> 32) as u64
}

/// What `periods` boundaries crossed add: `head`, the rest of the period that was open, decayed;
/// the full periods between; and `tail`, the part of the new period (`__accumulate_pelt_segments()`).
#[inline]
fn accumulate_segments(periods: u64, head: u32, tail: u32) -> u32 {
    let head = decay_load(u64::from(head), periods) as u32;
    let beyond = decay_load(u64::from(LOAD_AVG_MAX), periods) as u32;
    let full = LOAD_AVG_MAX.wrapping_sub(beyond).wrapping_sub(PERIOD);
    head.wrapping_add(full).wrapping_add(tail)
}

/// What a scheduling entity did since its last update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntityActivity {
    /// Queued (`se->on_rq != 0`). Without it nothing accrues, whatever the rest says.
    pub on_rq: bool,
    /// `se_runnable()`: 1 for a queued task, the number of runnable tasks for a group; 0 for an
    /// entity whose dequeue is delayed.
    pub runnable: u64,
    /// It is the run queue's current entity.
    pub running: bool,
}

impl EntityActivity {
    /// A task off the run queue.
    pub const ASLEEP: Self = Self { on_rq: false, runnable: 0, running: false };
    /// A task that waits for the CPU.
    pub const QUEUED: Self = Self { on_rq: true, runnable: 1, running: false };
    /// A task that has the CPU.
    pub const RUNNING: Self = Self { on_rq: true, runnable: 1, running: true };
}

/// Load-tracking signals (`struct sched_avg`).
///
/// The sums are the decaying series themselves; the averages are sums over [`Avg::divider`],
/// refreshed when a period boundary is crossed. All times are of the clock that the owner is
/// driven by, see [`super::RqClock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Avg {
    /// The time up to which the sums stand, ns; moves in steps of 1024 ns.
    pub last_update_time: u64,
    /// Series of the load: runnable time for an entity, weighted for a run queue.
    pub load_sum: u64,
    /// Series of the number of runnable tasks, times 1024.
    pub runnable_sum: u64,
    /// Series of running time, times 1024.
    pub util_sum: u32,
    /// Units of 1024 ns already counted in the open period, 0 to 1023.
    pub period_contrib: u32,
    /// `load_sum` as an average, times the weight for an entity.
    pub load_avg: u64,
    /// Runnable tasks on average, times 1024.
    pub runnable_avg: u64,
    /// Utilization: the share of time running, 0 to 1024.
    pub util_avg: u64,
}

impl Avg {
    /// A forked task's signals before its CPU is chosen (`init_entity_runnable_average()`,
    /// `kernel/sched/fair.c`): full load, and no utilization until
    /// [`Avg::post_init_entity_util_avg`].
    pub fn new_task(weight: u64) -> Self {
        Self { load_avg: scale_load_down(weight), ..Self::default() }
    }

    /// The largest value a sum can have now, given how much of the open period has passed
    /// (`get_pelt_divider()`). Averages divide by it, so that a busy signal does not ripple.
    #[inline]
    pub fn divider(&self) -> u32 {
        PELT_MIN_DIVIDER.wrapping_add(self.period_contrib)
    }

    /// Nothing accrues until `now`: it lies within the unit of 1024 ns that was last counted.
    #[inline]
    pub fn is_current(&self, now: u64) -> bool {
        now.wrapping_sub(self.last_update_time) >> 10 == 0
    }

    /// Brings an entity's signals to `now`; `weight` is `se->load.weight`
    /// (`__update_load_avg_se()`). Tells whether the averages changed.
    #[inline]
    pub fn update_entity(&mut self, now: u64, weight: u64, activity: EntityActivity) -> bool {
        let load = u64::from(activity.on_rq);
        self.update(now, load, activity.runnable, activity.running, scale_load_down(weight))
    }

    /// Brings a sleeping entity's signals to `now` (`__update_load_avg_blocked_se()`).
    #[inline]
    pub fn update_blocked_entity(&mut self, now: u64, weight: u64) -> bool {
        self.update(now, 0, 0, false, scale_load_down(weight))
    }

    /// Brings a fair run queue's signals to `now` (`__update_load_avg_cfs_rq()`): `weight` is
    /// `cfs_rq->load.weight`, `runnable` its tasks without those whose dequeue is delayed, and
    /// `running` says whether one of its entities is current.
    #[inline]
    pub fn update_cfs_rq(&mut self, now: u64, weight: u64, runnable: u64, running: bool) -> bool {
        self.update(now, scale_load_down(weight), runnable, running, 1)
    }

    /// Brings a real-time or deadline run queue's signals to `now`; `running` says whether a task
    /// of that class has the CPU (`update_rt_rq_load_avg()`, `update_dl_rq_load_avg()`).
    #[inline]
    pub fn update_class_rq(&mut self, now: u64, running: bool) -> bool {
        self.update(now, u64::from(running), u64::from(running), running, 1)
    }

    /// Brings the average of the capacity that hardware took away to `now`, a time of
    /// `clock_task`; only `load_avg` has a meaning (`update_hw_load_avg()`).
    #[inline]
    pub fn update_hw(&mut self, now: u64, capacity: u64) -> bool {
        // The kernel hands the capacity on as an int, so only its low half says "running".
        self.update(now, capacity, capacity, capacity as u32 != 0, 1)
    }

    /// Adds `running_ns` of interrupt time just before `clock` (`update_irq_load_avg()`), at
    /// `frequency` and `capacity` out of 1024. `clock` is the run queue's clock that runs through
    /// interrupts. Returns how many of the two steps, decay and accrual, crossed a period.
    pub fn update_irq(
        &mut self,
        clock: u64,
        running_ns: u64,
        frequency: u64,
        capacity: u64,
    ) -> u32 {
        let running_ns = cap_scale(cap_scale(running_ns, frequency), capacity);
        let crossed = u32::from(self.update_sums(clock.wrapping_sub(running_ns), 0, 0, false))
            + u32::from(self.update_sums(clock, 1, 1, true));
        if crossed != 0 {
            self.update_averages(1);
        }
        crossed
    }

    #[inline(always)]
    fn update(&mut self, now: u64, load: u64, runnable: u64, running: bool, weight: u64) -> bool {
        let crossed = self.update_sums(now, load, runnable, running);
        if crossed {
            self.update_averages(weight);
        }
        crossed
    }

    /// Accrues to `now`; true if a period ended (`___update_load_sum()`).
    #[inline]
    fn update_sums(&mut self, now: u64, load: u64, runnable: u64, running: bool) -> bool {
        let delta_ns = now.wrapping_sub(self.last_update_time);
        if (delta_ns as i64) < 0 {
            self.last_update_time = now;
            return false;
        }
        let delta = delta_ns >> 10;
        if delta == 0 {
            return false;
        }
        self.last_update_time = self.last_update_time.wrapping_add(delta << 10);
        // The current entity may already be dequeued; then it neither waits nor runs.
        let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };
        self.accumulate(delta, load, runnable, running)
    }

    /// Decays the sums over the periods that `delta` ends and adds its own part
    /// (`accumulate_sum()`).
    #[inline]
    fn accumulate(&mut self, delta: u64, load: u64, runnable: u64, running: bool) -> bool {
        let within = delta + u64::from(self.period_contrib);
        let periods = within / u64::from(PERIOD);
        let tail = (within % u64::from(PERIOD)) as u32;
        let mut contribution = delta as u32;
        if periods != 0 {
            self.load_sum = decay_load(self.load_sum, periods);
            self.runnable_sum = decay_load(self.runnable_sum, periods);
            self.util_sum = decay_load(u64::from(self.util_sum), periods) as u32;
            if load != 0 {
                let head = PERIOD.wrapping_sub(self.period_contrib);
                contribution = accumulate_segments(periods, head, tail);
            }
        }
        self.period_contrib = tail;

        let wide = u64::from(contribution);
        if load != 0 {
            self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(wide));
        }
        if runnable != 0 {
            let scaled = runnable.wrapping_mul(wide) << SCHED_CAPACITY_SHIFT;
            self.runnable_sum = self.runnable_sum.wrapping_add(scaled);
        }
        if running {
            self.util_sum = self.util_sum.wrapping_add(contribution << SCHED_CAPACITY_SHIFT);
        }
        periods != 0
    }

    /// Refreshes the averages from the sums (`___update_load_avg()`).
    #[inline]
    fn update_averages(&mut self, weight: u64) {
        let divider = self.divider();
        self.load_avg = weight.wrapping_mul(self.load_sum) / u64::from(divider);
        self.runnable_avg = self.runnable_sum / u64::from(divider);
        self.util_avg = u64::from(self.util_sum / divider);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_runs_alone_follows_the_closed_form() {
        let mut task = Avg::default();
        for period in 1..=345u32 {
            task.update_entity(u64::from(period) << 20, 1 << 20, EntityActivity::RUNNING);
            let expected = 1024.0 * (1.0 - 0.5f64.powf(f64::from(period) / 32.0));
            let error = task.util_avg as f64 - expected;
            assert!(error.abs() < 3.0, "after {period} periods: {} for {expected}", task.util_avg);
        }
        assert!(task.util_avg >= 1022, "{}", task.util_avg);
    }

    #[test]
    fn time_that_goes_backwards_resets_the_clock_and_nothing_else() {
        let mut task = Avg::default();
        task.update_entity(64 << 20, 1 << 20, EntityActivity::RUNNING);
        let before = task;
        assert!(!task.update_entity(63 << 20, 1 << 20, EntityActivity::RUNNING));
        assert_eq!(task, Avg { last_update_time: 63 << 20, ..before });
    }

    #[test]
    fn a_signal_older_than_its_horizon_is_gone() {
        assert_eq!(decay_load(u64::MAX, 32 * 62), 2);
        assert_eq!(decay_load(u64::MAX, 32 * 63 + 1), 0);
        assert_eq!(decay_load(1 << 40, 32), (1 << 39) - 128);
    }
}

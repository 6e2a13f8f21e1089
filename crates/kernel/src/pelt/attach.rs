//! Signals that come and go with tasks (`kernel/sched/fair.c`, Linux 6.12).

use super::{Avg, PELT_MIN_DIVIDER, scale_load_down};

/// `max_t(u32, ...)`: a run queue's sum may not fall below what its average stands for.
fn at_least_average(sum: u64, average: u64) -> u64 {
    let floor = average.wrapping_mul(u64::from(PELT_MIN_DIVIDER));
    u64::from((sum as u32).max(floor as u32))
}

impl Avg {
    /// A new task's first utilization, on the CPU that was chosen for it and before it is
    /// enqueued (`post_init_entity_util_avg()`): its weight's share of the run queue's
    /// utilization, at most half of what is left; all of that half on an idle queue. `weight` is
    /// `se->load.weight`.
    ///
    /// ```
    /// use schedlab_kernel::pelt::{Avg, NICE_0_LOAD};
    /// let mut task = Avg::new_task(NICE_0_LOAD);
    /// task.post_init_entity_util_avg(&Avg::default(), NICE_0_LOAD, 1024);
    /// assert_eq!(task.util_avg, 512);
    /// ```
    pub fn post_init_entity_util_avg(&mut self, cfs_rq: &Avg, weight: u64, capacity: u64) {
        let room = (capacity.wrapping_sub(cfs_rq.util_avg) as i64) / 2;
        if room > 0 {
            let room = room as u64;
            self.util_avg = if cfs_rq.util_avg == 0 {
                room
            } else {
                let weighted = cfs_rq.util_avg.wrapping_mul(scale_load_down(weight));
                (weighted / cfs_rq.load_avg.wrapping_add(1).max(1)).min(room)
            };
        }
        self.runnable_avg = self.util_avg;
    }

    /// Takes a task's signals into this run queue's, which must be up to date
    /// (`attach_entity_load_avg()`). The task's sums are rebuilt for the queue's period.
    pub fn attach(&mut self, entity: &mut Avg, weight: u64) {
        let divider = u64::from(self.divider());
        let weight = scale_load_down(weight);
        entity.last_update_time = self.last_update_time;
        entity.period_contrib = self.period_contrib;
        entity.util_sum = entity.util_avg.wrapping_mul(divider) as u32;
        entity.runnable_sum = entity.runnable_avg.wrapping_mul(divider);
        let load_sum = entity.load_avg.wrapping_mul(divider);
        entity.load_sum =
            if weight < load_sum { load_sum.checked_div(weight).unwrap_or(1) } else { 1 };

        self.load_avg = self.load_avg.wrapping_add(entity.load_avg);
        self.load_sum = self.load_sum.wrapping_add(weight.wrapping_mul(entity.load_sum));
        self.util_avg = self.util_avg.wrapping_add(entity.util_avg);
        self.util_sum = self.util_sum.wrapping_add(entity.util_sum);
        self.runnable_avg = self.runnable_avg.wrapping_add(entity.runnable_avg);
        self.runnable_sum = self.runnable_sum.wrapping_add(entity.runnable_sum);
    }

    /// Takes a task's signals out of this run queue's; both must be up to date
    /// (`detach_entity_load_avg()`).
    pub fn detach(&mut self, entity: &Avg, weight: u64) {
        let load_sum = scale_load_down(weight).wrapping_mul(entity.load_sum);
        self.load_avg = self.load_avg.saturating_sub(entity.load_avg);
        self.load_sum = at_least_average(self.load_sum.saturating_sub(load_sum), self.load_avg);
        self.util_avg = self.util_avg.saturating_sub(entity.util_avg);
        let util_sum = u64::from(self.util_sum.saturating_sub(entity.util_sum));
        self.util_sum = at_least_average(util_sum, self.util_avg) as u32;
        self.runnable_avg = self.runnable_avg.saturating_sub(entity.runnable_avg);
        let runnable_sum = self.runnable_sum.saturating_sub(entity.runnable_sum);
        self.runnable_sum = at_least_average(runnable_sum, self.runnable_avg);
    }

    /// Takes away what tasks that left while asleep contributed on average: the first half of
    /// `update_cfs_rq_load_avg()`, for a wake-up on another CPU (`remove_entity_load_avg()`).
    pub fn remove(&mut self, load_avg: u64, util_avg: u64, runnable_avg: u64) {
        let divider = u64::from(self.divider());
        let part = |average: u64| average.wrapping_mul(divider);
        self.load_avg = self.load_avg.saturating_sub(load_avg);
        let load_sum = self.load_sum.saturating_sub(part(load_avg));
        self.load_sum = at_least_average(load_sum, self.load_avg);
        self.util_avg = self.util_avg.saturating_sub(util_avg);
        let util_sum = self.util_sum.saturating_sub(part(util_avg) as u32);
        self.util_sum = at_least_average(u64::from(util_sum), self.util_avg) as u32;
        self.runnable_avg = self.runnable_avg.saturating_sub(runnable_avg);
        let runnable_sum = self.runnable_sum.saturating_sub(part(runnable_avg));
        self.runnable_sum = at_least_average(runnable_sum, self.runnable_avg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pelt::{EntityActivity, NICE_0_LOAD};

    #[test]
    fn a_task_takes_its_utilization_along() {
        let mut task = Avg::default();
        task.update_entity(40 << 20, NICE_0_LOAD, EntityActivity::RUNNING);
        let mut queue = Avg { last_update_time: 90 << 20, period_contrib: 77, ..Avg::default() };
        queue.attach(&mut task, NICE_0_LOAD);
        assert_eq!(queue.util_avg, task.util_avg);
        assert_eq!((task.last_update_time, task.period_contrib), (90 << 20, 77));
        queue.detach(&task, NICE_0_LOAD);
        assert_eq!((queue.util_avg, queue.util_sum, queue.load_avg), (0, 0, 0));
    }

    #[test]
    fn removing_more_than_there_is_leaves_nothing() {
        let mut queue = Avg::default();
        queue.update_cfs_rq(40 << 20, NICE_0_LOAD, 1, true);
        queue.remove(u64::MAX >> 20, 2000, 2000);
        assert_eq!((queue.util_avg, queue.util_sum, queue.runnable_avg), (0, 0, 0));
    }
}

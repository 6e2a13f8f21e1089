//! What holds of load tracking, whatever happens when.

use proptest::prelude::*;
use schedlab_kernel::pelt::{
    Avg, CpuUtilization, EntityActivity, NICE_0_LOAD, RqClock, decay_load, sched_cpu_util,
};

/// `1024 / (1 - y)` with `y^32 = 1/2`, rounded up: where a sum ends that loses nothing to rounding.
/// `LOAD_AVG_MAX` is a little less because the kernel rounds down at every step, but the sums that
/// carry ten more bits lose less.
const SUM_MAX: u32 = 47_789;

/// A step of time, ns: from less than the unit of 1024 ns to longer than a signal lasts.
fn step_ns() -> impl Strategy<Value = u64> {
    (0..44u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

fn activity() -> impl Strategy<Value = EntityActivity> {
    proptest::sample::select(vec![
        EntityActivity::ASLEEP,
        EntityActivity::QUEUED,
        EntityActivity::RUNNING,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn decay_is_monotone(value in any::<u64>(), less in any::<u64>(), periods in 0..3_000u64) {
        let left = decay_load(value, periods);
        prop_assert!(left <= value);
        prop_assert!(decay_load(value, periods + 1) <= left);
        prop_assert!(decay_load(value.min(less), periods) <= left);
    }

    #[test]
    fn a_task_stays_within_its_bounds(
        weight in 3 << 10..=88_761u64 << 10,
        steps in prop::collection::vec((step_ns(), activity()), 1..200),
    ) {
        let mut now = 0u64;
        let mut task = Avg::default();
        for (step_ns, activity) in steps {
            now += step_ns;
            task.update_entity(now, weight, activity);
            prop_assert!(task.period_contrib < 1024);
            prop_assert!(now - task.last_update_time < 1024);
            prop_assert!(task.util_sum <= SUM_MAX << 10);
            prop_assert!(task.load_sum <= u64::from(SUM_MAX));
            prop_assert!(u64::from(task.util_sum) <= task.runnable_sum);
            prop_assert!(task.runnable_sum <= u64::from(SUM_MAX) << 10);
            prop_assert!(task.util_avg <= 1025 && task.load_avg <= weight >> 10);
        }
    }

    #[test]
    fn sleep_only_decays(busy in 1..400u64, steps in prop::collection::vec(step_ns(), 1..100)) {
        let mut now = busy << 20;
        let mut task = Avg::default();
        task.update_entity(now, NICE_0_LOAD, EntityActivity::RUNNING);
        for step_ns in steps {
            let before = task;
            now += step_ns;
            task.update_blocked_entity(now, NICE_0_LOAD);
            prop_assert!(task.util_sum <= before.util_sum);
            prop_assert!(task.load_sum <= before.load_sum);
            prop_assert!(task.runnable_sum <= before.runnable_sum);
        }
    }

    #[test]
    fn it_hardly_matters_how_often_one_looks(
        steps in prop::collection::vec((1..20_000_000u64, activity(), 1..20u64), 1..40),
    ) {
        let (mut now, mut often, mut seldom) = (0u64, Avg::default(), Avg::default());
        for (step_ns, activity, looks) in steps {
            for look in 1..=looks {
                often.update_entity(now + step_ns * look / looks, NICE_0_LOAD, activity);
            }
            now += step_ns;
            seldom.update_entity(now, NICE_0_LOAD, activity);
        }
        // The averages are as old as the last boundary that a look crossed, so compare sums.
        let difference = often.util_sum.abs_diff(seldom.util_sum);
        prop_assert!(difference <= SUM_MAX << 10 >> 8, "{often:?} {seldom:?}");
    }

    #[test]
    fn the_clock_never_runs_backwards_nor_ahead(
        steps in prop::collection::vec(
            (step_ns(), 0..1_000u64, any::<bool>(), 0..=1024u64, 1..=1024u64), 1..100,
        ),
    ) {
        let mut clock = RqClock::at(0);
        let (mut cfs, none) = (Avg::default(), Avg::default());
        for (step_ns, irq_ns, idle, frequency, capacity) in steps {
            let before = clock;
            clock.advance(step_ns, irq_ns, idle, frequency, capacity);
            cfs.update_cfs_rq(clock.pelt(), NICE_0_LOAD, 1, !idle);
            if idle {
                clock.enter_idle(&cfs, &none, &none);
            }
            prop_assert!(clock.clock_task <= clock.clock);
            prop_assert!(clock.clock_pelt <= clock.clock_task);
            prop_assert!(clock.pelt() >= before.pelt());
        }
    }

    #[test]
    fn utilization_fits_the_cpu(
        cfs in 0..=4096u64, cfs_estimated in 0..=4096u64, rt in 0..=1024u64, dl in 0..=1024u64,
        irq in 0..=1024u64, capacity in 0..=1024u64,
    ) {
        let cpu = CpuUtilization { cfs, cfs_estimated, rt, dl, irq };
        let util = sched_cpu_util(&cpu, capacity);
        prop_assert!(util <= capacity);
        prop_assert!(util >= irq.min(capacity));
    }

    #[test]
    fn what_is_attached_can_be_detached(
        run in 1..200u64, weight in 3 << 10..=88_761u64 << 10, now in 1..1_000_000_000u64,
    ) {
        let mut queue = Avg::default();
        queue.update_cfs_rq(now, NICE_0_LOAD, 1, true);
        let empty = queue;
        let mut task = Avg::new_task(weight);
        task.update_entity(run << 20, weight, EntityActivity::RUNNING);
        queue.attach(&mut task, weight);
        prop_assert_eq!(queue.util_avg, empty.util_avg + task.util_avg);
        queue.detach(&task, weight);
        prop_assert_eq!(queue.util_avg, empty.util_avg);
        prop_assert_eq!(queue.load_avg, empty.load_avg);
        prop_assert_eq!(queue.util_sum, empty.util_sum);
    }
}

//! The run queue's clocks (`kernel/sched/pelt.h`, Linux 6.12).

use super::{Avg, LOAD_AVG_MAX, SCHED_CAPACITY_SHIFT, cap_scale};

/// A run queue's clocks.
///
/// While a task runs, the PELT clock advances by the work done: time scaled by the CPU's capacity
/// and frequency. When the CPU goes idle it catches up with real time, so that a slower CPU has
/// less idle time rather than less utilization. A CPU so busy that it would not have been idle even
/// at full speed has lost that idle time for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RqClock {
    /// Time, interrupts included, ns (`rq->clock`).
    pub clock: u64,
    /// Time without interrupts and stolen time, ns (`rq->clock_task`).
    pub clock_task: u64,
    /// Work done, lost idle time included, ns (`rq->clock_pelt`).
    pub clock_pelt: u64,
    /// Idle time that slowness ate and that does not come back, ns (`rq->lost_idle_time`).
    pub lost_idle_time: u64,
}

impl RqClock {
    /// A clock at `now_ns`, with nothing lost.
    pub fn at(now_ns: u64) -> Self {
        Self { clock: now_ns, clock_task: now_ns, clock_pelt: now_ns, lost_idle_time: 0 }
    }

    /// Lets `delta_ns` pass, of which interrupts took `irq_ns` (`update_rq_clock_task()`), with
    /// the idle task current or another. `frequency` and `capacity` are
    /// `arch_scale_freq_capacity()` and `arch_scale_cpu_capacity()`, out of 1024.
    #[inline]
    pub fn advance(
        &mut self,
        delta_ns: u64,
        irq_ns: u64,
        idle: bool,
        frequency: u64,
        capacity: u64,
    ) {
        self.clock = self.clock.wrapping_add(delta_ns);
        let task_ns = delta_ns.saturating_sub(irq_ns);
        self.clock_task = self.clock_task.wrapping_add(task_ns);
        self.update_pelt(task_ns, idle, frequency, capacity);
    }

    /// Advances the PELT clock by `delta_ns` of `clock_task`, which already stands at its new
    /// value (`update_rq_clock_pelt()`).
    #[inline]
    pub fn update_pelt(&mut self, delta_ns: u64, idle: bool, frequency: u64, capacity: u64) {
        if idle {
            self.clock_pelt = self.clock_task;
            return;
        }
        let work_ns = cap_scale(cap_scale(delta_ns, capacity), frequency);
        self.clock_pelt = self.clock_pelt.wrapping_add(work_ns);
    }

    /// The CPU goes idle (`update_idle_rq_clock_pelt()`): the PELT clock catches up, and the
    /// difference is lost if the classes together left no idle time.
    #[inline]
    pub fn enter_idle(&mut self, cfs: &Avg, rt: &Avg, dl: &Avg) {
        const SATURATED: u32 = ((LOAD_AVG_MAX - 1024) << SCHED_CAPACITY_SHIFT) - LOAD_AVG_MAX;
        let util_sum = cfs.util_sum.wrapping_add(rt.util_sum).wrapping_add(dl.util_sum);
        if util_sum >= SATURATED {
            let lost_ns = self.clock_task.wrapping_sub(self.clock_pelt);
            self.lost_idle_time = self.lost_idle_time.wrapping_add(lost_ns);
        }
        self.clock_pelt = self.clock_task;
    }

    /// The time that drives the CPU's signals (`rq_clock_pelt()`), ns.
    #[inline]
    pub fn pelt(&self) -> u64 {
        self.clock_pelt.wrapping_sub(self.lost_idle_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_speed_halves_the_clock_until_the_cpu_idles() {
        let mut clock = RqClock::at(0);
        clock.advance(1_000_000, 0, false, 512, 1024);
        assert_eq!(clock.pelt(), 500_000);
        clock.enter_idle(&Avg::default(), &Avg::default(), &Avg::default());
        assert_eq!(clock.pelt(), 1_000_000);
    }

    #[test]
    fn a_saturated_cpu_loses_its_idle_time() {
        let mut clock = RqClock::at(0);
        clock.advance(1_000_000, 0, false, 1024, 512);
        let busy = Avg { util_sum: u32::MAX / 64, ..Avg::default() };
        clock.enter_idle(&busy, &Avg::default(), &Avg::default());
        assert_eq!((clock.lost_idle_time, clock.pelt()), (500_000, 500_000));
    }

    #[test]
    fn interrupts_are_hidden_from_tasks() {
        let mut clock = RqClock::at(0);
        clock.advance(1_000, 400, false, 1024, 1024);
        assert_eq!((clock.clock, clock.clock_task, clock.pelt()), (1_000, 600, 600));
    }
}

//! A governor that lives its own life through the traced CPU's idle time: its own choices, its own
//! tick, its own memory. What reaches the CPU from outside stays as traced.
//!
//! Between two tasks the CPU is idle; what the governor decides changes how that stretch is cut
//! into periods:
//!
//! * **What keeps its time.** Timers, device interrupts, other CPUs' wake-ups and the next task
//!   come when they came. A sleep lasts until the next of them; no choice moves it.
//! * **The tick, kept.** Where the governor keeps the tick, the CPU wakes at every tick boundary
//!   inside the stretch, and the governor is asked again; the trace need not have had that tick.
//! * **The tick, stopped.** Where the governor stops it, wake-ups that were the tick's alone are
//!   left out, and the sleep goes on. A tick that ran a timer-wheel timer stays, as the stopped
//!   tick's timer is programmed for it; so does one that brought a task.
//! * **A tick that is needed** (RCU callbacks, a timer-wheel timer within a tick) goes on, whatever
//!   the governor says, and the sleep length ends at it.
//! * **Polling.** A polling state polls up to its time limit (haltpoll's own, or the one that
//!   follows from the states), after which the governor is asked again. A traced wake-up by that limit is left out where this governor does not poll.

use schedlab_kernel::cpuidle::{
    AnyGovernor, Governor, IdleHardware, LATENCY_UNLIMITED_NS, SleepLength, State,
};
use schedlab_machine::IdleState;

use super::period::{Period, Wake};
use super::tally::Tally;

/// What the kernel does between an interrupt that brings no task and the next state, ns: a few
/// hundred instructions on any machine.
const REENTRY_NS: u64 = 1_000;

/// A traced period is cut into so many at most, so that a period of years, which a damaged file can
/// have, ends in good time; the last one then lasts to its end.
const PIECES_MAX: u32 = 1 << 16;

/// The idle time of one CPU under one governor.
#[derive(Debug)]
pub(super) struct WhatIf {
    governor: AnyGovernor,
    pub tally: Tally,
    tick_ns: u64,
    poll_limit_ns: u64,
    tick_stopped: bool,
    asleep: Option<Sleep>,
}

/// A sleep that has begun.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    state: usize,
    since_ns: u64,
    /// The tick that will end it, if the tick runs.
    tick_ns: Option<u64>,
    poll_until_ns: Option<u64>,
}

/// The simulated kernel, as the governor asks it.
struct Asked<'a> {
    period: &'a Period,
    now_ns: u64,
    entry_ns: u64,
    next_tick_ns: u64,
    tick_stopped: bool,
    got_tick: bool,
    poll_time_limit: bool,
}

impl IdleHardware for Asked<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn sleep_length(&mut self) -> SleepLength {
        let period = self.period;
        let next_tick_ns = Some(self.next_tick_ns);
        period.sleep_length(self.entry_ns, self.tick_stopped, next_tick_ns, period.tick_needed)
    }

    fn latency_req_ns(&self) -> i64 {
        LATENCY_UNLIMITED_NS
    }

    fn tick_stopped(&self) -> bool {
        self.tick_stopped
    }

    fn got_tick(&self) -> bool {
        self.got_tick
    }

    fn nr_iowait(&self) -> u32 {
        self.period.nr_iowait
    }

    fn cpu_util(&self) -> u64 {
        self.period.cpu_util
    }

    fn poll_time_limit(&self) -> bool {
        self.poll_time_limit
    }
}

/// A period from a moment within it on: a timer that is past by then has fired.
fn after(period: &Period, now_ns: u64) -> Period {
    let to_come = |time: Option<u64>| time.filter(|time_ns| *time_ns > now_ns);
    Period {
        next_hrtimer_ns: to_come(period.next_hrtimer_ns),
        next_wheel_ns: to_come(period.next_wheel_ns),
        ..*period
    }
}

/// What ends a simulated sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Tick,
    PollLimit,
    /// What ended the traced period.
    Traced {
        got_tick: bool,
        task: bool,
    },
}

impl WhatIf {
    pub fn new(governor: AnyGovernor, tick_ns: u64, poll_limit_ns: u64) -> Self {
        Self {
            governor,
            tally: Tally::default(),
            tick_ns,
            poll_limit_ns,
            tick_stopped: false,
            asleep: None,
        }
    }

    /// Lives through the next traced period.
    pub fn live(&mut self, states: &[State], costs: &[IdleState], period: &Period) {
        if period.first {
            self.tick_stopped = false;
            self.asleep = None;
        }
        if self.asleep.is_none() {
            self.fall_asleep(states, period, period.entry_ns, period.enter_ns);
        }
        if period.aborted {
            self.asleep = None;
            self.governor.reject();
            return;
        }
        let mut pieces = 0;
        while let Some(sleep) = self.asleep {
            pieces += 1;
            let (end, at_ns) = if pieces < PIECES_MAX {
                self.next_end(&sleep, period)
            } else {
                self.traced_end(period)
            };
            match end {
                Some(end) => self.wake(states, costs, period, end, at_ns),
                // Nothing that this governor has left running woke the CPU.
                None => break,
            }
            if at_ns >= period.exit_ns {
                break;
            }
            let rest = after(period, at_ns);
            self.fall_asleep(states, &rest, at_ns, at_ns.saturating_add(REENTRY_NS));
        }
        if period.last {
            self.tick_stopped = false;
            self.asleep = None;
        }
    }

    /// The first thing that ends a sleep within a traced period, and when.
    fn next_end(&self, sleep: &Sleep, period: &Period) -> (Option<End>, u64) {
        // The tick interrupts polling, but does not end it.
        if let Some(until_ns) = sleep.poll_until_ns {
            if until_ns < period.exit_ns {
                return (Some(End::PollLimit), until_ns);
            }
            return self.traced_end(period);
        }
        // A tick that the trace has ends the period anyway.
        if let Some(at_ns) = sleep.tick_ns.filter(|at_ns| *at_ns < period.exit_ns)
            && !(period.got_tick && at_ns.saturating_add(self.tick_ns / 2) > period.exit_ns)
        {
            return (Some(End::Tick), at_ns);
        }
        self.traced_end(period)
    }

    /// What ended the traced period, if it would have ended this governor's sleep.
    fn traced_end(&self, period: &Period) -> (Option<End>, u64) {
        let mine = match period.wake {
            Wake::Tick => !self.tick_stopped,
            Wake::PollLimit => false,
            _ => true,
        };
        let got_tick = period.got_tick && !self.tick_stopped;
        let end = End::Traced { got_tick, task: period.last };
        ((mine || period.last).then_some(end), period.exit_ns)
    }

    fn fall_asleep(&mut self, states: &[State], period: &Period, entry_ns: u64, enter_ns: u64) {
        let next_tick_ns = self.next_tick_ns(period, entry_ns);
        let mut asked = Asked {
            period,
            now_ns: enter_ns,
            entry_ns,
            next_tick_ns,
            tick_stopped: self.tick_stopped,
            got_tick: false,
            poll_time_limit: false,
        };
        let choice = self.governor.select(states, &mut asked);
        self.tick_stopped |= choice.stop_tick && !period.tick_needed;
        let polls = states.get(choice.index).is_some_and(|state| state.polling);
        self.asleep = Some(Sleep {
            state: choice.index,
            since_ns: enter_ns,
            tick_ns: (!self.tick_stopped).then_some(next_tick_ns),
            poll_until_ns: polls.then(|| enter_ns.saturating_add(self.poll_limit_ns())),
        });
    }

    /// How long a poll lasts at most (`cpuidle_poll_time()`); haltpoll sets its own limit.
    fn poll_limit_ns(&self) -> u64 {
        match self.governor.poll_limit_ns() {
            0 => self.poll_limit_ns,
            own_ns => own_ns,
        }
    }

    /// The next tick after `from_ns`: the traced one if it runs and is still to come, else the
    /// next multiple of the tick, where the kernel's tick always falls.
    fn next_tick_ns(&self, period: &Period, from_ns: u64) -> u64 {
        let traced = period.next_tick_ns.filter(|_| !period.tick_was_stopped);
        traced
            .filter(|tick_ns| *tick_ns > from_ns)
            .unwrap_or_else(|| (from_ns - from_ns % self.tick_ns).saturating_add(self.tick_ns))
    }

    fn wake(
        &mut self,
        states: &[State],
        costs: &[IdleState],
        period: &Period,
        end: End,
        at_ns: u64,
    ) {
        let Some(sleep) = self.asleep.take() else { return };
        // A period that is the traced one has its measured residency.
        let same = sleep.since_ns == period.enter_ns && at_ns == period.exit_ns;
        let slept_ns = at_ns.saturating_sub(sleep.since_ns);
        let residency_ns =
            if same { period.residency_ns } else { i64::try_from(slept_ns).unwrap_or(i64::MAX) };
        let (got_tick, task) = match end {
            End::Tick => (true, false),
            End::PollLimit => (false, false),
            End::Traced { got_tick, task } => (got_tick, task),
        };
        self.tally.add(costs, sleep.state, residency_ns, task);
        let mut asked = Asked {
            period,
            now_ns: at_ns,
            entry_ns: at_ns,
            next_tick_ns: at_ns,
            tick_stopped: self.tick_stopped,
            got_tick,
            poll_time_limit: end == End::PollLimit,
        };
        self.governor.reflect(states, sleep.state, residency_ns, &mut asked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::period::Estimated;
    use crate::idle::states::governor_states;
    use schedlab_kernel::cpuidle::GovernorKind;
    use schedlab_machine::{CpuId, Machine};

    const TICK_NS: u64 = 4_000_000;
    const START_NS: u64 = 1_001_000_000;

    /// An idle period of `slept_ns`, with a timer at `timer_ns` after its start.
    fn period(slept_ns: u64, timer_ns: u64) -> Period {
        Period {
            cpu: CpuId(0),
            ordinal: 0,
            entry_ns: START_NS,
            select_ns: START_NS,
            enter_ns: START_NS,
            exit_ns: START_NS + slept_ns,
            reflect_ns: START_NS + slept_ns,
            residency_ns: slept_ns as i64,
            state: Some(5),
            aborted: false,
            first: true,
            last: true,
            tick_was_stopped: false,
            tick_stopped_now: true,
            got_tick: false,
            next_tick_ns: Some(START_NS + 3_000_000),
            next_hrtimer_ns: Some(START_NS + timer_ns),
            next_wheel_ns: None,
            tick_needed: false,
            wake: Wake::Timer,
            cpu_util: 0,
            nr_iowait: 0,
            estimated: Estimated::default(),
            traced_miss_below: None,
        }
    }

    fn live(kind: GovernorKind, periods: &[Period]) -> Tally {
        let machine = Machine::preset("simidle").expect("a built-in machine");
        let costs = machine.idle_states(CpuId(0));
        let states = governor_states(costs);
        let mut life = WhatIf::new(AnyGovernor::new(kind, TICK_NS, 1024), TICK_NS, 20_000);
        for period in periods {
            life.live(&states, costs, period);
        }
        life.tally
    }

    #[test]
    fn a_stopped_tick_lets_the_cpu_sleep_through() {
        let tally = live(GovernorKind::Menu6_12, &[period(50_000_000, 50_000_000)]);
        assert_eq!((tally.periods, tally.task_wakes), (1, 1));
        assert_eq!(tally.by_state, [0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_tick_that_is_needed_cuts_the_sleep_at_its_boundaries() {
        let needed = Period { tick_needed: true, ..period(10_000_000, 50_000_000) };
        let tally = live(GovernorKind::Menu6_12, &[needed]);
        // Ticks at 1004, 1008 and 1012 ms, starting at 1001 ms, and the end at 1011 ms.
        assert_eq!((tally.periods, tally.task_wakes), (3, 1));
    }

    #[test]
    fn a_wake_by_the_tick_alone_is_not_one_for_who_stopped_it() {
        let tick = Period {
            tick_stopped_now: false,
            got_tick: true,
            wake: Wake::Tick,
            last: false,
            ..period(3_000_000, 50_000_000)
        };
        let rest = Period {
            first: false,
            entry_ns: tick.exit_ns,
            enter_ns: tick.exit_ns + 2_000,
            exit_ns: START_NS + 50_000_000,
            ..period(0, 50_000_000)
        };
        let tally = live(GovernorKind::Menu6_12, &[tick, rest]);
        assert_eq!((tally.periods, tally.by_state[5]), (1, 1));
        assert_eq!(tally.idle_ns(), 50_000_000);
    }

    #[test]
    fn polling_ends_at_its_limit() {
        // The timer comes before any state pays, so menu polls until it.
        let tally = live(GovernorKind::Menu6_12, &[period(1_500, 1_500)]);
        assert_eq!(tally.by_state, [1, 0, 0, 0, 0, 0]);
        // It fires without a task to run, and menu, which saw one short sleep, polls on.
        let late = Period { wake: Wake::Remote, ..period(90_000, 1_500) };
        let tally = live(GovernorKind::Menu6_12, &[late]);
        assert_eq!((tally.periods, tally.by_state[0], tally.task_wakes), (5, 5, 1));
    }
}

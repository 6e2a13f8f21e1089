//! Real traces of the real menu and ladder under the governors that chose in them, and others.

mod support;

use schedlab_kernel::cpuidle::{Candidate, GovernorKind};
use schedlab_machine::Machine;
use schedlab_replay::idle::{IdleReport, IdleRequest, PeriodRow, ReplayError, replay_idle};
use schedlab_trace::{Event, EventKind, EventSource, Strings, Summary, TraceError};
use support::open;

const MENU: &str = "qemu_idle_menu.dat";
const LADDER: &str = "qemu_idle_ladder.dat";

/// A trace in which only some kinds of events are seen.
struct Without {
    inner: Box<dyn EventSource>,
    keep: fn(&EventKind) -> bool,
}

impl EventSource for Without {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        let more = self.inner.read_batch(batch)?;
        batch.retain(|event| (self.keep)(&event.kind));
        Ok(more)
    }

    fn summary(&self) -> &Summary {
        self.inner.summary()
    }

    fn strings(&self) -> &Strings {
        self.inner.strings()
    }

    fn progress_bytes(&self) -> (u64, u64) {
        self.inner.progress_bytes()
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        self.inner.finish()
    }
}

fn replay_from(
    open: &mut dyn FnMut() -> Result<Box<dyn EventSource>, TraceError>,
    machine: &str,
    governors: &[GovernorKind],
) -> Result<IdleReport, ReplayError> {
    let machine = Machine::preset(machine).expect("a built-in machine");
    let governors: Vec<_> = governors.iter().copied().map(Candidate::Known).collect();
    let request = IdleRequest { machine: &machine, governors: &governors, tick_ns: None };
    replay_idle(open, &request, None, &mut |_, _| true)
}

fn replay(name: &str, governors: &[GovernorKind]) -> IdleReport {
    replay_from(&mut || open(name), "simidle", governors).expect("a replay")
}

#[test]
fn the_traced_governor_chooses_as_traced() {
    for (trace, kind, compared) in
        [(MENU, GovernorKind::Menu6_12, 4062), (LADDER, GovernorKind::Ladder6_12, 3151)]
    {
        let report = replay(trace, &[kind]);
        let governor = &report.governors[0];
        assert_eq!(governor.compared, compared, "{trace}");
        assert!(
            governor.agreement_pct() >= 99.8,
            "{trace}: {} of {}",
            governor.agreed,
            governor.compared
        );
    }
}

#[test]
fn other_governors_do_not_agree_by_chance() {
    let report = replay(LADDER, &[GovernorKind::Menu6_12, GovernorKind::Teo6_12]);
    assert!(report.governors.iter().all(|governor| governor.agreement_pct() < 50.0));
    let report = replay(MENU, &[GovernorKind::Ladder6_12]);
    assert!(report.governors[0].agreement_pct() < 60.0);
}

#[test]
fn the_traced_misses_are_those_that_the_kernel_counted() {
    for trace in [MENU, LADDER] {
        let report = replay(trace, &[]);
        let counted = [report.traced.too_deep, report.traced.too_shallow];
        assert_eq!(counted, report.traced_miss_events, "{trace}");
    }
}

#[test]
fn every_governor_is_idle_for_the_same_time() {
    let report = replay(MENU, &GovernorKind::ALL);
    assert_eq!(report.governors.len(), GovernorKind::ALL.len());
    for governor in &report.governors {
        let mine = governor.tally.idle_ns() as f64 / 1e6;
        let traced = report.traced.idle_ns() as f64 / 1e6;
        assert!((mine - traced).abs() < traced / 1000.0, "{}: {mine} ms", governor.name);
        assert_eq!(governor.tally.task_wakes, report.traced.task_wakes, "{}", governor.name);
    }
}

#[test]
fn the_governors_differ_as_published() {
    let report =
        replay(MENU, &[GovernorKind::Menu6_12, GovernorKind::TeoUtilV2, GovernorKind::Ladder6_12]);
    let [menu, teo_util, ladder] = &report.governors[..] else { panic!("three governors") };
    let deep = |report: &schedlab_replay::idle::GovernorReport| report.tally.too_deep;
    assert!(deep(ladder) > deep(menu) && deep(menu) > deep(teo_util));
    assert!(teo_util.tally.exit_latency_ns < menu.tally.exit_latency_ns);
    assert!(menu.tally.exit_latency_ns < ladder.tally.exit_latency_ns);
    assert!(teo_util.tally.energy_fj > menu.tally.energy_fj);
}

#[test]
fn a_replay_repeats_itself() {
    let governors = [GovernorKind::Menu6_12, GovernorKind::Teo6_12, GovernorKind::TeoUtilV2];
    let (first, second) = (replay(MENU, &governors), replay(MENU, &governors));
    assert_eq!(first.governors, second.governors);
    assert_eq!(first.traced, second.traced);
}

#[test]
fn each_decision_can_be_looked_at() {
    let machine = Machine::preset("simidle").expect("a built-in machine");
    let governors = [Candidate::Known(GovernorKind::Menu6_12)];
    let request = IdleRequest { machine: &machine, governors: &governors, tick_ns: None };
    let (mut rows, mut agreed, mut timers) = (0, 0, 0);
    let mut observe = |row: &PeriodRow<'_>| {
        rows += 1;
        agreed += u64::from(row.period.state == Some(row.choice.index));
        timers += u64::from(row.sleep.sleep_ns < 2_000_000);
        assert!(row.period.entry_ns <= row.period.enter_ns);
        assert!(row.details.iter().any(|detail| detail.name == "correction_factor"));
    };
    let report = replay_idle(&mut || open(MENU), &request, Some(&mut observe), &mut |_, _| true)
        .expect("a replay");
    assert_eq!(rows, report.governors[0].asked);
    assert_eq!(agreed, report.governors[0].agreed);
    assert!(timers > 1000, "the 2 ms task's timer ends most sleeps: {timers}");
}

#[test]
fn switches_alone_still_make_idle_periods() {
    let keep =
        |kind: &EventKind| matches!(kind, EventKind::Switch { .. } | EventKind::Waking { .. });
    let mut opened = || -> Result<Box<dyn EventSource>, TraceError> {
        Ok(Box::new(Without { inner: open(MENU)?, keep }))
    };
    let report = replay_from(&mut opened, "simidle", &[GovernorKind::Menu6_12]).expect("a replay");
    let governor = &report.governors[0];
    assert_eq!((governor.compared, report.traced.periods), (0, 0));
    assert!(governor.asked > 3000);
    assert!((governor.estimated_pct() - 100.0).abs() < 1e-9);
    // The timers are guessed from the wake-ups, and most of the sleeps still fit.
    let share = governor.tally.too_deep as f64 / governor.tally.periods as f64;
    assert!(share < 0.1, "{share}");
}

#[test]
fn a_trace_without_timer_events_says_that_it_is_estimated() {
    let keep = |kind: &EventKind| {
        !matches!(
            kind,
            EventKind::HrtimerStart { .. }
                | EventKind::HrtimerExpireEntry { .. }
                | EventKind::HrtimerCancel { .. }
                | EventKind::TickStop { .. }
        )
    };
    let mut opened = || -> Result<Box<dyn EventSource>, TraceError> {
        Ok(Box::new(Without { inner: open(MENU)?, keep }))
    };
    let report = replay_from(&mut opened, "simidle", &[GovernorKind::Menu6_12]).expect("a replay");
    let governor = &report.governors[0];
    assert!((governor.estimated_pct() - 100.0).abs() < 1e-9);
    assert!(governor.agreement_pct() > 70.0, "{}", governor.agreement_pct());
}

#[test]
fn a_machine_that_does_not_fit_is_refused() {
    let error = replay_from(&mut || open(MENU), "qemu4", &[]).map(|_| ()).unwrap_err();
    assert!(matches!(error, ReplayError::TooFewStates { .. }), "{error}");
    let error =
        replay_from(&mut || open("qemu_pelt_ptask.dat"), "simidle", &[]).map(|_| ()).unwrap_err();
    assert!(matches!(error, ReplayError::TooFewCpus { .. }), "{error}");
}

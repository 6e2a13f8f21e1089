//! The first pass over a trace: what later events tell about earlier moments.
//!
//! A timer that was armed before the trace began shows itself when it fires; a timer that the
//! kernel moved to a busier CPU shows where it went by where it fires; a timer-wheel timer shows
//! itself by the `TIMER` softirq of the tick that runs it.

use rustc_hash::FxHashMap;
use schedlab_machine::{CPUS_MAX, CpuId};
use schedlab_trace::{Event, EventKind, Pid, StrId, Strings};

/// `TIMER_SOFTIRQ`.
pub(super) const TIMER_SOFTIRQ: u32 = 1;
/// `RCU_SOFTIRQ`.
pub(super) const RCU_SOFTIRQ: u32 = 9;

/// The callback of the tick's timer: `tick_nohz_handler` since 6.9, `tick_sched_timer` before.
pub(super) fn is_tick(function: &str) -> bool {
    function.starts_with("tick_nohz_handler") || function.starts_with("tick_sched_timer")
}

/// Tick lengths of the kernel's HZ choices, ns.
const TICKS_NS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];

/// A timer that was armed before the trace began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArmedBefore {
    pub timer: u64,
    pub cpu: CpuId,
    pub is_tick: bool,
    /// The latest expiry it can have had, ns of the timer's clock.
    pub expires_ns: i64,
}

/// Which kinds of events the trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// `cpu_idle`.
    pub cpu_idle: bool,
    /// `hrtimer_start` and `hrtimer_expire_entry`.
    pub hrtimer: bool,
    /// `tick_stop`.
    pub tick_stop: bool,
    /// `softirq_raise`.
    pub softirq: bool,
}

/// What the first pass found.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub coverage: Coverage,
    /// Time that recording one event takes, ns: the smallest gap between two neighbours on a CPU.
    pub event_cost_ns: u64,
    /// The tick's length as its timer shows it, ns.
    pub tick_ns: Option<u64>,
    /// Timers that fired on another CPU than the one that armed them, by the number of the arming
    /// event.
    pub fires_on: FxHashMap<u64, CpuId>,
    pub armed_before: Vec<ArmedBefore>,
    /// Per CPU, when the `TIMER` softirq was raised.
    pub timer_softirqs_ns: Vec<Vec<u64>>,
    /// Per CPU, when the `RCU` softirq was raised.
    pub rcu_softirqs_ns: Vec<Vec<u64>>,
    /// Per CPU, when an interrupt of its own woke a task from idle; kept only while no timer
    /// events are seen.
    pub local_wakes_ns: Vec<Vec<u64>>,
    /// First and last event, ns.
    pub span_ns: (u64, u64),
}

/// The list of `cpu` in a table by CPU, which grows as needed; `None` for an impossible CPU.
pub(super) fn of_cpu<T: Default>(table: &mut Vec<T>, cpu: CpuId) -> Option<&mut T> {
    if cpu.index() >= CPUS_MAX {
        return None;
    }
    if cpu.index() >= table.len() {
        table.resize_with(cpu.index() + 1, T::default);
    }
    table.get_mut(cpu.index())
}

/// Collects a [`Survey`].
#[derive(Debug)]
pub(super) struct Surveyor {
    survey: Survey,
    /// Arming events seen, which numbers them.
    starts: u64,
    /// The pending start of each timer: its number and CPU.
    pending: FxHashMap<u64, (u64, CpuId)>,
    /// Timers whose first event has been seen.
    known: FxHashMap<u64, ()>,
    /// Expiry of each CPU's tick.
    tick_expires_ns: Vec<i64>,
    tick_lengths: [u64; TICKS_NS.len()],
    last_event_ns: Vec<u64>,
    gap_ns: u64,
    /// Every timestamp so far is a whole number of microseconds.
    coarse: bool,
}

impl Surveyor {
    pub fn new() -> Self {
        Self {
            survey: Survey { span_ns: (u64::MAX, 0), ..Survey::default() },
            starts: 0,
            pending: FxHashMap::default(),
            known: FxHashMap::default(),
            tick_expires_ns: Vec::new(),
            tick_lengths: [0; TICKS_NS.len()],
            last_event_ns: Vec::new(),
            gap_ns: u64::MAX,
            coarse: true,
        }
    }

    pub fn event(&mut self, event: &Event, strings: &Strings) {
        let (now_ns, cpu) = (event.timestamp_ns, event.cpu);
        self.survey.span_ns.0 = self.survey.span_ns.0.min(now_ns);
        self.survey.span_ns.1 = self.survey.span_ns.1.max(now_ns);
        self.coarse &= now_ns.is_multiple_of(1000);
        if let Some(last_ns) = of_cpu(&mut self.last_event_ns, cpu) {
            let gap_ns = now_ns.saturating_sub(*last_ns);
            if *last_ns != 0 && gap_ns != 0 {
                self.gap_ns = self.gap_ns.min(gap_ns);
            }
            *last_ns = now_ns;
        }
        match event.kind {
            EventKind::IdleEnter { .. } => self.survey.coverage.cpu_idle = true,
            EventKind::TickStop { .. } => self.survey.coverage.tick_stop = true,
            EventKind::HrtimerStart { timer, function, expires_ns, .. } => {
                self.start(cpu, timer, expires_ns, is_tick(strings.get(function)));
            }
            EventKind::HrtimerExpireEntry { timer, function, now_ns } => {
                self.expire(cpu, timer, now_ns, function, strings);
            }
            EventKind::HrtimerCancel { timer } => {
                self.pending.remove(&timer);
                self.known.insert(timer, ());
            }
            EventKind::SoftirqRaise { vec } => {
                self.survey.coverage.softirq = true;
                let table = match vec {
                    TIMER_SOFTIRQ => &mut self.survey.timer_softirqs_ns,
                    RCU_SOFTIRQ => &mut self.survey.rcu_softirqs_ns,
                    _ => return,
                };
                if let Some(times) = of_cpu(table, cpu) {
                    times.push(now_ns);
                }
            }
            EventKind::Waking { .. } if event.pid == Pid::IDLE && !self.survey.coverage.hrtimer => {
                if let Some(times) = of_cpu(&mut self.survey.local_wakes_ns, cpu) {
                    times.push(now_ns);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, cpu: CpuId, timer: u64, expires_ns: i64, is_tick: bool) {
        if !self.survey.coverage.hrtimer {
            self.survey.coverage.hrtimer = true;
            self.survey.local_wakes_ns = Vec::new();
        }
        self.pending.insert(timer, (self.starts, cpu));
        self.known.insert(timer, ());
        self.starts += 1;
        if is_tick && let Some(last_ns) = of_cpu(&mut self.tick_expires_ns, cpu) {
            let step_ns = expires_ns.saturating_sub(*last_ns);
            *last_ns = expires_ns;
            if let Some(at) = TICKS_NS.iter().position(|tick| *tick as i64 == step_ns) {
                self.tick_lengths[at] += 1;
            }
        }
    }

    fn expire(&mut self, cpu: CpuId, timer: u64, now_ns: i64, function: StrId, strings: &Strings) {
        match self.pending.remove(&timer) {
            Some((number, armed_on)) if armed_on != cpu => {
                self.survey.fires_on.insert(number, cpu);
            }
            Some(_) => {}
            None if !self.known.contains_key(&timer) => {
                let is_tick = is_tick(strings.get(function));
                let before = ArmedBefore { timer, cpu, is_tick, expires_ns: now_ns };
                self.survey.armed_before.push(before);
            }
            None => {}
        }
        self.known.insert(timer, ());
    }

    pub fn finish(mut self) -> Survey {
        let most = self.tick_lengths.iter().enumerate().max_by_key(|(at, count)| (**count, *at));
        self.survey.tick_ns =
            most.filter(|(_, count)| **count > 0).and_then(|(at, _)| TICKS_NS.get(at).copied());
        // A clock of whole microseconds says nothing about so short a time.
        if !self.coarse && self.gap_ns != u64::MAX {
            self.survey.event_cost_ns = self.gap_ns.min(EVENT_COST_MAX_NS);
        }
        if self.survey.span_ns.0 > self.survey.span_ns.1 {
            self.survey.span_ns = (0, 0);
        }
        self.survey
    }
}

/// Recording an event never takes longer than this; a larger gap only says that the trace is
/// sparse.
const EVENT_COST_MAX_NS: u64 = 2_000;

impl Survey {
    /// The first entry of a CPU's sorted list at or after `from_ns`.
    pub fn next_after(table: &[Vec<u64>], cpu: CpuId, from_ns: u64) -> Option<u64> {
        let times = table.get(cpu.index())?;
        times.get(times.partition_point(|time| *time < from_ns)).copied()
    }
}

//! The second pass: events in, idle periods out.

use rustc_hash::FxHashMap;
use schedlab_machine::{CPUS_MAX, CpuId, Machine};
use schedlab_trace::{Event, EventKind, Pid, Strings, TaskState};

use super::clock::TimerClock;
use super::cpu::{IdleCpu, Surroundings};
use super::period::{Estimated, Period};
use super::survey::{Survey, TIMER_SOFTIRQ, is_tick};
use super::timers::{Pending, Timers};
use crate::pelt::{Invariance, Signals};

/// Follows every CPU through its idle loop.
#[derive(Debug)]
pub(super) struct Walker<'a> {
    survey: &'a Survey,
    tick_ns: u64,
    /// Per CPU, how long its polling state polls at most.
    poll_limits_ns: Vec<u64>,
    polling: Vec<Vec<bool>>,
    cpus: Vec<IdleCpu>,
    timers: Timers,
    clock: TimerClock,
    /// Arming events seen, which numbers them as the survey did.
    starts: u64,
    signals: Signals,
    /// Tasks in uninterruptible sleep and the CPU that they left.
    blocked: FxHashMap<Pid, CpuId>,
    nr_iowait: Vec<u32>,
}

impl<'a> Walker<'a> {
    pub fn new(survey: &'a Survey, machine: &Machine, tick_ns: u64) -> Self {
        let mut timers = Timers::default();
        for before in &survey.armed_before {
            let expires_ns = u64::try_from(before.expires_ns).unwrap_or(0);
            // A tick's timer fires late, never early, and expires on a multiple of the tick.
            let expires_ns =
                if before.is_tick { expires_ns - expires_ns % tick_ns } else { expires_ns };
            timers.arm(before.cpu, before.timer, expires_ns, before.is_tick);
        }
        let by_cpu = |cpu| machine.idle_states(cpu);
        Self {
            survey,
            tick_ns,
            poll_limits_ns: machine
                .cpu_ids()
                .map(|cpu| super::states::poll_limit_ns(by_cpu(cpu), tick_ns))
                .collect(),
            polling: machine
                .cpu_ids()
                .map(|cpu| by_cpu(cpu).iter().map(|state| state.polling).collect())
                .collect(),
            cpus: Vec::new(),
            timers,
            clock: TimerClock::default(),
            starts: 0,
            signals: Signals::of_machine(machine, Invariance::Clock),
            blocked: FxHashMap::default(),
            nr_iowait: Vec::new(),
        }
    }

    /// Takes the next event; hands each period that it ends to `sink`.
    pub fn event(&mut self, event: &Event, strings: &Strings, sink: &mut dyn FnMut(&Period)) {
        if event.cpu.index() >= CPUS_MAX {
            return;
        }
        self.signals.event(event);
        let (now_ns, cpu) = (event.timestamp_ns, event.cpu);
        match event.kind {
            EventKind::Switch { prev, prev_state, next, .. } => {
                if prev_state == TaskState::DiskSleep
                    && self.blocked.insert(prev.pid, cpu).is_none()
                {
                    self.change_iowait(cpu, 1);
                }
                self.switch(cpu, now_ns, prev.pid, next.pid, sink);
            }
            EventKind::Waking { task, target_cpu, .. } => {
                if let Some(left) = self.blocked.remove(&task.pid) {
                    self.change_iowait(left, -1);
                }
                self.interrupt_event(event);
                if target_cpu != cpu {
                    self.cpu(target_cpu).saw_remote();
                }
            }
            EventKind::IdleEnter { cpu, state } => self.idle_enter(cpu, now_ns, state, sink),
            EventKind::IdleExit { cpu } => self.idle_exit(cpu, now_ns),
            EventKind::IdleMiss { cpu, below, .. } => {
                let cost_ns = self.survey.event_cost_ns;
                self.cpu(cpu).missed(now_ns, below, cost_ns);
            }
            EventKind::TickStop { success: true, .. } => {
                let pending = self.timers.pending(cpu);
                self.cpu(cpu).before_stop(now_ns, pending);
                self.cpu(cpu).tick_stopped();
            }
            EventKind::HrtimerStart { timer, function, expires_ns, .. } => {
                let is_tick = is_tick(strings.get(function));
                self.hrtimer_start(cpu, now_ns, timer, expires_ns, is_tick);
            }
            EventKind::HrtimerCancel { timer } => {
                if self.timers.is_tick(cpu, timer) {
                    self.tick_reprogrammed(cpu, now_ns);
                }
                self.timers.disarm(timer);
            }
            EventKind::HrtimerExpireEntry { timer, function, now_ns: timer_ns } => {
                self.clock.observe(timer, timer_ns, now_ns);
                self.timers.disarm(timer);
                let is_tick = is_tick(strings.get(function));
                self.interrupt_event(event);
                let idle = self.cpu(cpu);
                if is_tick { idle.saw_tick() } else { idle.saw_timer() }
            }
            EventKind::SoftirqRaise { vec } => {
                self.interrupt_event(event);
                if vec == TIMER_SOFTIRQ {
                    self.cpu(cpu).saw_wheel();
                }
            }
            EventKind::IrqEntry { .. } => {
                self.interrupt_event(event);
                self.cpu(cpu).saw_interrupt();
            }
            EventKind::VectorEntry { name } => {
                self.interrupt_event(event);
                let name = strings.get(name);
                let idle = self.cpu(cpu);
                if name.contains("timer") {
                    idle.saw_timer();
                } else {
                    idle.saw_remote();
                }
            }
            EventKind::IpiSend { target_cpu: Some(target), .. }
            | EventKind::WakeIdleWithoutIpi { target_cpu: target } => {
                self.cpu(target).saw_remote();
            }
            EventKind::Lost { .. } => {
                self.cpu(cpu).forget();
                self.timers.forget(cpu);
            }
            _ => self.interrupt_event(event),
        }
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut IdleCpu {
        // The callers' CPU numbers come from the file and are bounded by the table's size limit.
        let index = cpu.index().min(CPUS_MAX - 1);
        while self.cpus.len() <= index {
            self.cpus.push(IdleCpu::new(CpuId(self.cpus.len() as u32)));
        }
        &mut self.cpus[index]
    }

    /// An event that an interrupt of an idle CPU recorded.
    fn interrupt_event(&mut self, event: &Event) {
        let cost_ns = self.survey.event_cost_ns;
        if event.pid == Pid::IDLE {
            self.cpu(event.cpu).interrupted(event.timestamp_ns, cost_ns);
        }
    }

    fn change_iowait(&mut self, cpu: CpuId, by: i32) {
        if let Some(waiting) = super::survey::of_cpu(&mut self.nr_iowait, cpu) {
            *waiting = waiting.saturating_add_signed(by);
        }
    }

    fn switch(
        &mut self,
        cpu: CpuId,
        now_ns: u64,
        prev: Pid,
        next: Pid,
        sink: &mut dyn FnMut(&Period),
    ) {
        let cost_ns = self.survey.event_cost_ns;
        if prev == Pid::IDLE {
            if !self.survey.coverage.cpu_idle {
                self.idle_exit(cpu, now_ns);
            }
            if self.cpu(cpu).aborted() {
                let around = self.surroundings(cpu);
                if let Some(period) = self.cpu(cpu).abort(now_ns, &around, cost_ns) {
                    sink(&period);
                }
            }
            if let Some(period) = self.cpu(cpu).switched_out() {
                sink(&period);
            }
        }
        if next == Pid::IDLE {
            self.cpu(cpu).switched_in(now_ns, cost_ns);
            if !self.survey.coverage.cpu_idle {
                let around = self.surroundings(cpu);
                self.cpu(cpu).enter(now_ns, None, &around, cost_ns);
            }
        }
    }

    fn idle_enter(&mut self, cpu: CpuId, now_ns: u64, state: u32, sink: &mut dyn FnMut(&Period)) {
        let around = self.surroundings(cpu);
        let cost_ns = self.survey.event_cost_ns;
        if let Some(ended) = self.cpu(cpu).enter(now_ns, Some(state as usize), &around, cost_ns) {
            sink(&ended);
        }
    }

    fn idle_exit(&mut self, cpu: CpuId, now_ns: u64) {
        let cost_ns = self.survey.event_cost_ns;
        let polls = |state: usize| {
            self.polling.get(cpu.index()).and_then(|states| states.get(state)) == Some(&true)
        };
        let polling = self.cpus.get(cpu.index()).and_then(IdleCpu::state_asleep).is_some_and(polls);
        let limit_ns = self.poll_limits_ns.get(cpu.index()).copied().filter(|_| polling);
        self.cpu(cpu).exit(now_ns, cost_ns, limit_ns);
    }

    fn hrtimer_start(&mut self, cpu: CpuId, now_ns: u64, timer: u64, expires_ns: i64, tick: bool) {
        let fires_on = self.survey.fires_on.get(&self.starts).copied().unwrap_or(cpu);
        self.starts += 1;
        if tick {
            self.tick_reprogrammed(cpu, now_ns);
        }
        let expires_ns = self.clock.to_trace(timer, expires_ns, now_ns);
        self.timers.arm(fires_on, timer, expires_ns, tick);
    }

    /// While the tick is stopped, only the idle loop touches its timer: the governor has decided.
    fn tick_reprogrammed(&mut self, cpu: CpuId, now_ns: u64) {
        let pending = self.timers.pending(cpu);
        let idle = self.cpu(cpu);
        if idle.tick_stopped && !idle.is_asleep() {
            idle.before_stop(now_ns, pending);
        }
    }

    /// What the governor of `cpu` finds now.
    fn surroundings(&mut self, cpu: CpuId) -> Surroundings {
        let survey = self.survey;
        let now = self.timers.pending(cpu);
        let cpu_util = self.signals.cpu_util(cpu);
        let nr_iowait = self.nr_iowait.get(cpu.index()).copied().unwrap_or(0);
        let tick_ns = self.tick_ns;
        let idle = self.cpu(cpu);
        let mut around = Surroundings {
            pending: idle.pending_at_select(now),
            cpu_util,
            nr_iowait,
            ..Surroundings::default()
        };
        around.estimated.bounds = !survey.coverage.cpu_idle;
        if idle.tick_stopped {
            // The tick's timer stands for the wheel's next timer.
            around.next_wheel_ns = now.tick_ns;
        } else {
            let boundary_ns = next_multiple(idle.entry_ns(), tick_ns);
            let soon = |table: &[Vec<u64>]| {
                Survey::next_after(table, cpu, idle.entry_ns())
                    .is_some_and(|at_ns| at_ns < boundary_ns.saturating_add(tick_ns / 2))
            };
            around.tick_needed = soon(&survey.timer_softirqs_ns) || soon(&survey.rcu_softirqs_ns);
            around.next_wheel_ns =
                Survey::next_after(&survey.timer_softirqs_ns, cpu, idle.entry_ns())
                    .map(|at_ns| at_ns - at_ns % tick_ns);
        }
        if survey.coverage.hrtimer {
            let tick_first =
                around.pending.tick_ns.unwrap_or(0) < around.pending.hrtimer_ns.unwrap_or(u64::MAX);
            around.estimated.wheel = !idle.tick_stopped && tick_first;
            around.estimated.tick = !survey.coverage.tick_stop;
        } else {
            around.estimated = Estimated { timer: true, tick: true, ..around.estimated };
            around.pending = Pending {
                tick_ns: Some(next_multiple(idle.entry_ns(), tick_ns)),
                hrtimer_ns: Survey::next_after(&survey.local_wakes_ns, cpu, idle.entry_ns()),
            };
        }
        around
    }
}

/// The next multiple of the tick after a time.
fn next_multiple(time_ns: u64, tick_ns: u64) -> u64 {
    (time_ns - time_ns % tick_ns).saturating_add(tick_ns)
}

//! What each task did: run, wait for a CPU, sleep, block; where it ran, and why it left.

use crate::Collector;
use crate::occupant::Occupant;
use crate::per_cpu::PerCpu;
use crate::task_table::{TaskId, TaskInfo, TaskTable};
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Pid, Task, TaskState};

/// What one task did during the trace. The five times of a task add up to the time from its first
/// sight to its end or the end of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// On a CPU, ns.
    pub run_ns: u64,
    /// Runnable and waiting for a CPU, ns: from its wake (the first of `sched_waking`,
    /// `sched_wakeup` and `sched_wakeup_new`) or its preemption to its switch-in.
    pub runnable_ns: u64,
    /// Asleep, stopped, traced, parked or an idle kernel thread, ns.
    pub sleep_ns: u64,
    /// In uninterruptible sleep (`D`), ns.
    pub blocked_ns: u64,
    /// In a state that the trace does not show, ns.
    pub unknown_ns: u64,
    /// Wakes of the task while it was on no CPU (`sched_wakeup` and `sched_wakeup_new`, or
    /// `sched_waking` where a trace has only that).
    pub wakeups: u64,
    /// Switch-ins.
    pub switches: u64,
    /// Switch-outs while it could have gone on (`nonvoluntary_ctxt_switches`).
    pub preemptions: u64,
    /// Switch-outs to sleep (`voluntary_ctxt_switches`).
    pub voluntary: u64,
    /// `sched_migrate_task` events.
    pub migrations: u64,
    /// Switch-ins on another CPU than the switch-in before.
    pub cpu_changes: u64,
    /// The CPUs it ran on, in order.
    pub cpus: Vec<CpuId>,
    /// Timestamp of the first event that names it, ns.
    pub first_seen_ns: u64,
    /// Timestamp of the last event that names it, ns.
    pub last_seen_ns: u64,
}

/// A task and its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Who.
    pub info: TaskInfo,
    /// What it did.
    pub figures: TaskFigures,
}

/// Collects what each task did.
#[derive(Debug, Default)]
pub struct Tasks {
    table: TaskTable,
    tracks: Vec<Track>,
    running: PerCpu<Occupant>,
    last_loss_ns: u64,
}

/// A task's present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Running(CpuId),
    Runnable,
    Sleeping,
    Blocked,
    /// Over: its time counts no more.
    Dead,
}

#[derive(Debug, Default)]
struct Track {
    state: State,
    since_ns: u64,
    last_cpu: Option<CpuId>,
    /// Wake-ups by `sched_waking` alone, and births.
    wakings: u64,
    births: u64,
    figures: TaskFigures,
}

impl Track {
    /// Accounts the time up to `now_ns` and enters `state`. Time off the CPU that reaches across a
    /// loss of events is unknown, since the task may have run unseen.
    fn enter(&mut self, state: State, now_ns: u64, last_loss_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        let figures = &mut self.figures;
        let sum = match self.state {
            State::Dead => None,
            State::Running(_) => Some(&mut figures.run_ns),
            _ if self.since_ns < last_loss_ns => Some(&mut figures.unknown_ns),
            State::Unknown => Some(&mut figures.unknown_ns),
            State::Runnable => Some(&mut figures.runnable_ns),
            State::Sleeping => Some(&mut figures.sleep_ns),
            State::Blocked => Some(&mut figures.blocked_ns),
        };
        if let Some(sum) = sum {
            *sum += elapsed_ns;
        }
        self.state = state;
        self.since_ns = now_ns;
    }
}

impl Tasks {
    /// The tasks in the order of first sight, their times counted up to `end_ns`, the last timestamp
    /// of the trace.
    pub fn finish(mut self, end_ns: u64) -> Vec<TaskRow> {
        let last_loss_ns = self.last_loss_ns;
        for track in &mut self.tracks {
            let state = track.state;
            track.enter(state, end_ns.max(track.since_ns), last_loss_ns);
            if track.figures.wakeups == 0 {
                track.figures.wakeups = track.wakings;
            }
            track.figures.wakeups += track.births;
            track.figures.cpus.sort_unstable();
        }
        let named = self.table.tasks().iter().cloned().zip(self.tracks);
        named.map(|(info, track)| TaskRow { info, figures: track.figures }).collect()
    }

    fn track(&mut self, id: TaskId, now_ns: u64) -> &mut Track {
        while self.tracks.len() <= id.index() {
            let mut track = Track { since_ns: now_ns, ..Track::default() };
            track.figures.first_seen_ns = now_ns;
            self.tracks.push(track);
        }
        let track = &mut self.tracks[id.index()];
        track.figures.last_seen_ns = now_ns;
        track
    }

    /// `count` is where the wake-up counts.
    fn woken(&mut self, id: Option<TaskId>, now_ns: u64, count: fn(&mut Track) -> &mut u64) {
        let Some(id) = id else { return };
        let last_loss_ns = self.last_loss_ns;
        let track = self.track(id, now_ns);
        if matches!(track.state, State::Running(_)) {
            return;
        }
        *count(track) += 1;
        if track.state != State::Runnable || track.since_ns < last_loss_ns {
            track.enter(State::Runnable, now_ns, last_loss_ns);
        }
    }

    fn switched(&mut self, event: &Event, prev: Task, prev_state: TaskState, next: Task) {
        let (cpu, now_ns, last_loss_ns) = (event.cpu, event.timestamp_ns, self.last_loss_ns);
        let left = self.table.seen(prev);
        let Some(running) = self.running.get_mut(cpu) else { return };
        let believed = *running;
        if let Some(id) = believed.task()
            && believed.task() != left
        {
            self.vanished(id, cpu, now_ns);
        }
        if let Some(id) = left {
            let track = self.track(id, now_ns);
            // Running(cpu) is what is accounted: the task has been there since it was last seen to
            // come, or else nothing is known of the time before.
            let state = match prev_state {
                TaskState::Dead | TaskState::Zombie => State::Dead,
                TaskState::DiskSleep => State::Blocked,
                state if state.is_runnable() => State::Runnable,
                _ => State::Sleeping,
            };
            match state {
                State::Runnable => track.figures.preemptions += 1,
                _ => track.figures.voluntary += 1,
            }
            if track.state != State::Running(cpu) {
                track.enter(State::Unknown, now_ns, last_loss_ns);
            }
            track.enter(state, now_ns, last_loss_ns);
            if state == State::Dead {
                self.table.died(id);
            }
        }
        let came = self.table.seen(next);
        if let Some(id) = came {
            let track = self.track(id, now_ns);
            track.enter(State::Running(cpu), now_ns, last_loss_ns);
            track.figures.switches += 1;
            track.figures.cpu_changes += u64::from(track.last_cpu.is_some_and(|last| last != cpu));
            ran_on(track, cpu);
        }
        if let Some(running) = self.running.get_mut(cpu) {
            *running = Occupant::new(next.pid, came);
        }
    }

    /// The task was believed to run on `cpu`, but something else does: it left unseen.
    fn vanished(&mut self, id: TaskId, cpu: CpuId, now_ns: u64) {
        let last_loss_ns = self.last_loss_ns;
        let track = &mut self.tracks[id.index()];
        if track.state == State::Running(cpu) {
            track.state = State::Unknown;
            track.enter(State::Unknown, now_ns, last_loss_ns);
        }
    }

    #[cold]
    fn show_running(&mut self, cpu: CpuId, pid: Pid, now_ns: u64) {
        let last_loss_ns = self.last_loss_ns;
        let shown = Occupant::shown_by(pid, &mut self.table);
        if let Some(running) = self.running.get_mut(cpu) {
            *running = shown;
        }
        if let Some(id) = shown.task() {
            let track = self.track(id, now_ns);
            track.enter(State::Unknown, now_ns, last_loss_ns);
            track.enter(State::Running(cpu), now_ns, last_loss_ns);
            ran_on(track, cpu);
        }
    }
}

fn ran_on(track: &mut Track, cpu: CpuId) {
    if track.last_cpu != Some(cpu) {
        track.last_cpu = Some(cpu);
        if !track.figures.cpus.contains(&cpu) {
            track.figures.cpus.push(cpu);
        }
    }
}

impl Collector for Tasks {
    fn push(&mut self, event: &Event) {
        let now_ns = event.timestamp_ns;
        if let EventKind::Lost { .. } = event.kind {
            let running = self.running.get_mut(event.cpu).map(std::mem::take);
            if let Some(id) = running.and_then(Occupant::task) {
                self.vanished(id, event.cpu, now_ns);
            }
            self.last_loss_ns = now_ns;
            return;
        }
        let unknown = self.running.get_mut(event.cpu).is_some_and(|r| *r == Occupant::Unknown);
        if unknown && event.pid != Pid::UNKNOWN {
            self.show_running(event.cpu, event.pid, now_ns);
        }
        match event.kind {
            EventKind::Switch { prev, prev_state, next, .. } => {
                self.switched(event, prev, prev_state, next);
            }
            EventKind::Waking { task, .. } => {
                let id = self.table.seen(task);
                self.woken(id, now_ns, |track| &mut track.wakings);
            }
            EventKind::Wakeup { task, .. } => {
                let id = self.table.seen(task);
                self.woken(id, now_ns, |track| &mut track.figures.wakeups);
            }
            EventKind::WakeupNew { task, .. } => {
                let id = self.table.first_woken(task);
                self.woken(id, now_ns, |track| &mut track.births);
            }
            EventKind::Migrate { task, .. } => {
                if let Some(id) = self.table.seen(task) {
                    self.track(id, now_ns).figures.migrations += 1;
                }
            }
            EventKind::Fork { child, .. } => {
                if let Some(id) = self.table.forked(child) {
                    self.track(id, now_ns);
                }
            }
            EventKind::Exit { task } => {
                if let Some(id) = self.table.exiting(task) {
                    self.track(id, now_ns);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;

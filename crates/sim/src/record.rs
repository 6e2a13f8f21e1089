//! A recorded run as a trace: what reads real traces reads it, too.

use crate::outcome::Outcome;
use crate::platform::FIRST_PID;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, EventSource, Pid, Strings, Summary, Task, TraceError};
use std::collections::BTreeMap;

/// Events that one batch holds at most.
const BATCH: usize = 4096;

/// A run's events in the order of a trace: by time, then by CPU, then as they happened.
#[derive(Debug)]
pub struct RecordedTrace {
    events: Vec<Event>,
    next: usize,
    summary: Summary,
    strings: Strings,
}

impl Outcome<Vec<Event>> {
    /// Takes the recorded events out as a trace. `kernel` is what the trace names as its kernel
    /// release.
    pub fn take_trace(&mut self, kernel: &str) -> RecordedTrace {
        let mut events = std::mem::take(&mut self.observer);
        events.sort_by_key(|event| (event.timestamp_ns, event.cpu));
        let summary = Summary {
            format: "schedlab simulation".to_owned(),
            clock: "virtual".to_owned(),
            kernel_release: kernel.to_owned(),
            cpus: (0..self.cpus.len()).map(|cpu| CpuId(cpu as u32)).collect(),
            event_counts: counts(&events),
            task_names: self.task_names.iter().map(|task| (task.pid, task.comm)).collect(),
            time_span_ns: Some((0, self.end_ns)),
            ..Summary::default()
        };
        RecordedTrace { events, next: 0, summary, strings: self.strings.clone() }
    }
}

/// How a run's clock and its programs stand to the trace that they were taken from.
#[derive(Clone, Debug)]
pub struct TracedNames<'a> {
    /// The thread id of each program's task.
    pub pids: &'a [Pid],
    /// What time 0 of the run is by the trace's clock, ns.
    pub base_ns: i64,
    /// First and last event of the trace, ns; events of the run beyond them are left out.
    pub span_ns: (u64, u64),
}

impl Outcome<Vec<Event>> {
    /// As [`Outcome::take_trace`], with the times and the thread ids of the trace that the workload
    /// was taken from, whose programs have a task each.
    pub fn take_replayed(&mut self, kernel: &str, names: &TracedNames<'_>) -> RecordedTrace {
        let pid = |pid: Pid| {
            let task = usize::try_from(pid.0 - FIRST_PID).ok();
            let task = task.and_then(|task| self.tasks.get(task));
            task.and_then(|task| names.pids.get(task.program.0 as usize)).copied().unwrap_or(pid)
        };
        let task = |task: Task| Task { pid: pid(task.pid), ..task };
        for event in &mut self.observer {
            let time_ns = event.timestamp_ns as i64 + names.base_ns;
            event.timestamp_ns = u64::try_from(time_ns).unwrap_or(0);
            event.pid = pid(event.pid);
            match &mut event.kind {
                EventKind::Switch { prev, next, .. } => {
                    (*prev, *next) = (task(*prev), task(*next));
                }
                EventKind::Waking { task: own, .. }
                | EventKind::Wakeup { task: own, .. }
                | EventKind::WakeupNew { task: own, .. }
                | EventKind::Migrate { task: own, .. }
                | EventKind::Exit { task: own } => *own = task(*own),
                EventKind::Fork { parent, child } => {
                    (*parent, *child) = (task(*parent), task(*child));
                }
                _ => {}
            }
        }
        for own in &mut self.task_names {
            *own = task(*own);
        }
        let (begin_ns, end_ns) = names.span_ns;
        self.observer.retain(|event| (begin_ns..=end_ns).contains(&event.timestamp_ns));
        let mut trace = self.take_trace(kernel);
        trace.summary.time_span_ns = Some(names.span_ns);
        trace
    }
}

/// How many events there are of each tracepoint.
fn counts(events: &[Event]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::<&str, u64>::new();
    for event in events {
        *counts.entry(tracepoint(&event.kind)).or_default() += 1;
    }
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// The kernel's name of what a run emits.
fn tracepoint(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Switch { .. } => "sched_switch",
        EventKind::Waking { .. } => "sched_waking",
        EventKind::Wakeup { .. } => "sched_wakeup",
        EventKind::WakeupNew { .. } => "sched_wakeup_new",
        EventKind::Migrate { .. } => "sched_migrate_task",
        EventKind::Fork { .. } => "sched_process_fork",
        EventKind::Exec { .. } => "sched_process_exec",
        EventKind::Exit { .. } => "sched_process_exit",
        EventKind::IdleEnter { .. } | EventKind::IdleExit { .. } => "cpu_idle",
        EventKind::IdleMiss { .. } => "cpu_idle_miss",
        EventKind::Frequency { .. } => "cpu_frequency",
        EventKind::IpiSend { .. } => "ipi_send_cpu",
        EventKind::WakeIdleWithoutIpi { .. } => "sched_wake_idle_without_ipi",
        EventKind::HrtimerStart { .. } => "hrtimer_start",
        EventKind::HrtimerExpireEntry { .. } => "hrtimer_expire_entry",
        EventKind::HrtimerExpireExit { .. } => "hrtimer_expire_exit",
        EventKind::HrtimerCancel { .. } => "hrtimer_cancel",
        EventKind::TickStop { .. } => "tick_stop",
        EventKind::IrqEntry { .. } => "irq_handler_entry",
        EventKind::IrqExit { .. } => "irq_handler_exit",
        EventKind::SoftirqEntry { .. } => "softirq_entry",
        EventKind::SoftirqExit { .. } => "softirq_exit",
        EventKind::VectorEntry { .. } => "reschedule_entry",
        EventKind::VectorExit { .. } => "reschedule_exit",
        _ => "other",
    }
}

impl EventSource for RecordedTrace {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        let end = (self.next + BATCH).min(self.events.len());
        batch.extend_from_slice(&self.events[self.next..end]);
        self.next = end;
        Ok(end < self.events.len())
    }

    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn strings(&self) -> &Strings {
        &self.strings
    }

    fn progress_bytes(&self) -> (u64, u64) {
        let bytes = |events: usize| (events * size_of::<Event>()) as u64;
        (bytes(self.next), bytes(self.events.len()))
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.summary, self.strings)
    }
}

/// The names of a run's tasks, as events give them.
pub(crate) fn task_names(comms: &[schedlab_trace::StrId]) -> Vec<Task> {
    let pid = |index: usize| Pid(crate::platform::FIRST_PID + index as i32);
    comms.iter().enumerate().map(|(index, &comm)| Task { pid: pid(index), comm }).collect()
}

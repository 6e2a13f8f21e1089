//! Wakeup latency: how long a woken task waits for a CPU.
//!
//! A latency runs from the first wake event of a task that is on no CPU to its next switch-in.
//! Later wake events of the same wait change nothing, those of a running task are ignored, and
//! `sched_wakeup_new` begins a wait in either mode. A task that was preempted waits as well, but was
//! not woken, so it has no wakeup latency then.

use crate::Collector;
use crate::distribution::Distribution;
use crate::occupant::Occupant;
use crate::per_cpu::PerCpu;
use crate::task_table::{TaskId, TaskTable};
use rustc_hash::FxHashMap;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Pid, StrId};

/// Which event begins a wakeup latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// `sched_waking`: the waker begins. Includes the time to place the task and to tell its CPU.
    #[default]
    Waking,
    /// `sched_wakeup`: the task is on its run queue.
    Wakeup,
}

/// Collects wakeup latencies. Every latency is kept (8 bytes each), so that percentiles are exact.
#[derive(Debug)]
pub struct WakeupLatency {
    from: From,
    table: TaskTable,
    waits: Vec<Wait>,
    running: PerCpu<Occupant>,
    last_loss_ns: u64,
    ended_ns: Option<u64>,
}

/// Where a task stands between its wake and its switch-in.
#[derive(Debug)]
struct Wait {
    woken_ns: Option<u64>,
    on_cpu: Option<CpuId>,
    latencies_ns: Vec<u64>,
}

/// The wakeup latencies of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLatencies {
    /// Thread id.
    pub pid: Pid,
    /// The task's last name.
    pub comm: StrId,
    /// Every latency, ns, in the order of the switch-ins until [`Distribution::of`] sorts them.
    pub latencies_ns: Vec<u64>,
}

/// One row of the latency table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyRow {
    /// Thread id; `None` in a row for all tasks of a name.
    pub pid: Option<Pid>,
    /// Task name.
    pub comm: StrId,
    /// How many tasks the row sums up.
    pub tasks: u64,
    /// The figures.
    pub latency: Distribution,
}

impl WakeupLatency {
    /// A collector of latencies that begin as `from` says.
    pub fn new(from: From) -> WakeupLatency {
        WakeupLatency {
            from,
            table: TaskTable::default(),
            waits: Vec::new(),
            running: PerCpu::default(),
            last_loss_ns: 0,
            ended_ns: None,
        }
    }

    /// The latency that the last event ended, if it was a switch-in that ended one.
    #[inline]
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    /// The latencies of each task that has any, in the order of first sight.
    pub fn finish(self) -> Vec<TaskLatencies> {
        let named = self.table.tasks().iter().zip(self.waits);
        named
            .filter(|(_, wait)| !wait.latencies_ns.is_empty())
            .map(|(info, wait)| TaskLatencies {
                pid: info.pid,
                comm: info.comm,
                latencies_ns: wait.latencies_ns,
            })
            .collect()
    }

    #[inline]
    fn wait(&mut self, id: TaskId) -> &mut Wait {
        if id.index() >= self.waits.len() {
            self.waits.resize_with(id.index() + 1, || Wait {
                woken_ns: None,
                on_cpu: None,
                latencies_ns: Vec::new(),
            });
        }
        &mut self.waits[id.index()]
    }

    #[inline]
    fn woken(&mut self, id: Option<TaskId>, now_ns: u64) {
        let Some(id) = id else { return };
        let last_loss_ns = self.last_loss_ns;
        let wait = self.wait(id);
        if wait.on_cpu.is_none() && wait.woken_ns.is_none_or(|woken_ns| woken_ns < last_loss_ns) {
            wait.woken_ns = Some(now_ns);
        }
    }

    fn left(&mut self, id: TaskId, cpu: CpuId) {
        let wait = self.wait(id);
        // A task that is seen to leave has been running, so what woke it before was ignorable.
        wait.woken_ns = None;
        if wait.on_cpu == Some(cpu) {
            wait.on_cpu = None;
        }
    }

    fn came(&mut self, id: TaskId, cpu: CpuId, now_ns: u64) {
        let last_loss_ns = self.last_loss_ns;
        let wait = self.wait(id);
        wait.on_cpu = Some(cpu);
        if let Some(woken_ns) = wait.woken_ns.take()
            && woken_ns >= last_loss_ns
        {
            let latency_ns = now_ns.saturating_sub(woken_ns);
            wait.latencies_ns.push(latency_ns);
            self.ended_ns = Some(latency_ns);
        }
    }

    #[cold]
    fn show_running(&mut self, cpu: CpuId, pid: Pid) {
        let shown = Occupant::shown_by(pid, &mut self.table);
        if let Some(running) = self.running.get_mut(cpu) {
            *running = shown;
        }
        if let Some(id) = shown.task() {
            let wait = self.wait(id);
            wait.on_cpu = Some(cpu);
            wait.woken_ns = None;
        }
    }

    fn switched(&mut self, event: &Event, left: Option<TaskId>, came: Option<TaskId>, next: Pid) {
        let Some(running) = self.running.get_mut(event.cpu) else { return };
        let believed = std::mem::replace(running, Occupant::new(next, came)).task();
        if let Some(id) = believed
            && believed != left
            && self.wait(id).on_cpu == Some(event.cpu)
        {
            self.left(id, event.cpu);
        }
        if let Some(id) = left {
            self.left(id, event.cpu);
        }
        if let Some(id) = came {
            self.came(id, event.cpu, event.timestamp_ns);
        }
    }

    /// A task may have been switched in and out again unseen, so no wait reaches across a loss.
    fn lost(&mut self, event: &Event) {
        self.last_loss_ns = event.timestamp_ns;
        let Some(running) = self.running.get_mut(event.cpu) else { return };
        if let Some(id) = std::mem::take(running).task() {
            self.left(id, event.cpu);
        }
    }
}

impl Collector for WakeupLatency {
    #[inline]
    fn push(&mut self, event: &Event) {
        self.ended_ns = None;
        if matches!(event.kind, EventKind::Lost { .. }) {
            return self.lost(event);
        }
        let unknown = self.running.get_mut(event.cpu).is_some_and(|r| *r == Occupant::Unknown);
        if unknown && event.pid != Pid::UNKNOWN {
            self.show_running(event.cpu, event.pid);
        }
        match event.kind {
            EventKind::Switch { next, .. } => {
                let (left, came) = self.table.follow(&event.kind);
                self.switched(event, left, came, next.pid);
            }
            EventKind::Waking { task, .. } => {
                let id = self.table.seen(task);
                if self.from == From::Waking {
                    self.woken(id, event.timestamp_ns);
                }
            }
            EventKind::Wakeup { task, .. } => {
                let id = self.table.seen(task);
                if self.from == From::Wakeup {
                    self.woken(id, event.timestamp_ns);
                }
            }
            EventKind::WakeupNew { task, .. } => {
                let id = self.table.first_woken(task);
                self.woken(id, event.timestamp_ns);
            }
            _ => {
                self.table.follow(&event.kind);
            }
        }
    }
}

/// One row per task, in the order given.
pub fn by_task(tasks: &mut [TaskLatencies]) -> Vec<LatencyRow> {
    let rows = tasks.iter_mut().filter_map(|task| {
        let latency = Distribution::of(&mut task.latencies_ns)?;
        Some(LatencyRow { pid: Some(task.pid), comm: task.comm, tasks: 1, latency })
    });
    rows.collect()
}

/// One row per task name, in the order in which the names first stand.
pub fn by_comm(tasks: &[TaskLatencies]) -> Vec<LatencyRow> {
    let mut places = FxHashMap::default();
    let mut names: Vec<(StrId, u64, Vec<u64>)> = Vec::new();
    for task in tasks {
        let place = *places.entry(task.comm).or_insert_with(|| {
            names.push((task.comm, 0, Vec::new()));
            names.len() - 1
        });
        names[place].1 += 1;
        names[place].2.extend_from_slice(&task.latencies_ns);
    }
    let rows = names.into_iter().filter_map(|(comm, tasks, mut latencies_ns)| {
        let latency = Distribution::of(&mut latencies_ns)?;
        Some(LatencyRow { pid: None, comm, tasks, latency })
    });
    rows.collect()
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;

//! Wakeup latency by task name, streamed: from `sched_waking` to the task's next switch-in, as
//! `schedlab trace latency` counts it.

use crate::observe::Observer;
use crate::platform::FIRST_PID;
use schedlab_trace::{Event, EventKind, StrId};
use std::collections::BTreeMap;

/// Wakeup latencies of all tasks of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WakeLatency {
    /// How many wake-ups there were.
    pub wakeups: u64,
    /// All together, ns.
    pub sum_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Sum of the natural logarithms of the latencies in ns, each of at least 1 ns.
    ln_sum: f64,
}

impl WakeLatency {
    fn add(&mut self, latency_ns: u64) {
        self.wakeups += 1;
        self.sum_ns += latency_ns;
        self.max_ns = self.max_ns.max(latency_ns);
        self.ln_sum += (latency_ns.max(1) as f64).ln();
    }

    /// The mean, ns; `None` without any wake-up.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.wakeups > 0).then(|| self.sum_ns as f64 / self.wakeups as f64)
    }

    /// The geometric mean, ns; `None` without any wake-up.
    pub fn geometric_mean_ns(&self) -> Option<f64> {
        (self.wakeups > 0).then(|| (self.ln_sum / self.wakeups as f64).exp())
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    woken_ns: Option<u64>,
    runs: bool,
}

/// Watches a run for wakeup latencies.
#[derive(Clone, Debug, Default)]
pub struct WakeLatencies {
    tasks: Vec<Wait>,
    names: BTreeMap<StrId, WakeLatency>,
}

impl WakeLatencies {
    /// The latencies by name, in the order of the names' numbers.
    pub fn by_name(&self) -> impl Iterator<Item = (StrId, WakeLatency)> {
        self.names.iter().map(|(&name, &latency)| (name, latency))
    }

    fn wait(&mut self, pid: i32) -> Option<&mut Wait> {
        let number = usize::try_from(pid - FIRST_PID).ok()?;
        if number >= self.tasks.len() {
            self.tasks.resize(number + 1, Wait::default());
        }
        self.tasks.get_mut(number)
    }
}

impl Observer for WakeLatencies {
    const ACTIVE: bool = true;

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Waking { task, .. } | EventKind::WakeupNew { task, .. } => {
                if let Some(wait) = self.wait(task.pid.0)
                    && !wait.runs
                {
                    wait.woken_ns.get_or_insert(event.timestamp_ns);
                }
            }
            EventKind::Switch { prev, next, .. } => {
                if let Some(wait) = self.wait(prev.pid.0) {
                    wait.runs = false;
                }
                let Some(wait) = self.wait(next.pid.0) else { return };
                wait.runs = true;
                if let Some(woken_ns) = wait.woken_ns.take() {
                    let latency_ns = event.timestamp_ns.saturating_sub(woken_ns);
                    self.names.entry(next.comm).or_default().add(latency_ns);
                }
            }
            _ => {}
        }
    }
}

//! Puts the events of several CPUs, which a file holds in alternating runs, into one order.

use crate::event::Event;
use schedlab_machine::CpuId;
use std::collections::BTreeMap;

/// How many events a [`MergeWindow`] holds back at most, 64 to 128 MiB of them. Tracers write a
/// run per CPU every few hundred milliseconds; even a million events a second fit.
const WINDOW_EVENTS: usize = 1 << 21;

/// Events that wait until no earlier one can come, or until there are too many of them.
pub(crate) struct MergeWindow {
    limit: usize,
    pending: Vec<Event>,
    ready: Vec<Event>,
    /// How many of `ready` have been handed out.
    taken: usize,
    /// Nothing before this time can be put into its place any more.
    released_ns: u64,
    newest_ns: u64,
    late: BTreeMap<CpuId, u64>,
}

impl Default for MergeWindow {
    fn default() -> Self {
        Self::with_limit(WINDOW_EVENTS)
    }
}

impl MergeWindow {
    pub(crate) fn with_limit(limit: usize) -> MergeWindow {
        MergeWindow {
            limit: limit.max(2),
            pending: Vec::new(),
            ready: Vec::new(),
            taken: 0,
            released_ns: 0,
            newest_ns: 0,
            late: BTreeMap::new(),
        }
    }

    /// Takes an event as the file has it. One that comes too late is counted and dropped.
    #[inline]
    pub(crate) fn push(&mut self, event: Event) {
        if event.timestamp_ns < self.released_ns {
            *self.late.entry(event.cpu).or_default() += 1;
            return;
        }
        self.newest_ns = self.newest_ns.max(event.timestamp_ns);
        self.pending.push(event);
    }

    /// The highest time pushed so far, ns.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    /// True when the older half must go so that memory stays bounded.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= self.limit
    }

    /// Makes the older half ready.
    pub(crate) fn release_half(&mut self) {
        self.sort();
        self.release(self.pending.len() / 2);
    }

    /// Makes ready what is not later than `timestamp_ns`.
    pub(crate) fn release_until(&mut self, timestamp_ns: u64) {
        self.sort();
        self.release(self.pending.partition_point(|event| event.timestamp_ns <= timestamp_ns));
    }

    /// Makes everything ready: nothing more will come.
    pub(crate) fn release_all(&mut self) {
        self.sort();
        self.release(self.pending.len());
    }

    /// By time, then CPU; events of one CPU and time stay as recorded. The standard sort merges
    /// runs that are already in order, which is what a window consists of.
    fn sort(&mut self) {
        self.pending.sort_by_key(|event| (event.timestamp_ns, event.cpu));
    }

    fn release(&mut self, count: usize) {
        let Some(last) = self.pending[..count].last() else { return };
        self.released_ns = last.timestamp_ns;
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
        }
        self.ready.extend(self.pending.drain(..count));
    }

    /// Appends up to `count` ready events to `batch`; false when there were none.
    pub(crate) fn take(&mut self, batch: &mut Vec<Event>, count: usize) -> bool {
        let rest = &self.ready[self.taken..];
        let count = count.min(rest.len());
        batch.extend_from_slice(&rest[..count]);
        self.taken += count;
        count > 0
    }

    /// Events that came too late, per CPU, since the last call.
    pub(crate) fn take_late(&mut self) -> BTreeMap<CpuId, u64> {
        std::mem::take(&mut self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Pid};

    fn event(timestamp_ns: u64, cpu: u32, state: u32) -> Event {
        let cpu = CpuId(cpu);
        Event { timestamp_ns, cpu, pid: Pid::IDLE, kind: EventKind::IdleEnter { cpu, state } }
    }

    fn drained(window: &mut MergeWindow) -> Vec<(u64, u32)> {
        let mut events = Vec::new();
        while window.take(&mut events, 3) {}
        events.iter().map(|event| (event.timestamp_ns, event.cpu.0)).collect()
    }

    #[test]
    fn runs_of_cpus_become_one_order_with_ties_by_cpu() {
        let mut window = MergeWindow::default();
        for (time, cpu) in [(1, 1), (5, 1), (9, 1), (0, 0), (5, 0), (7, 0)] {
            window.push(event(time, cpu, 0));
        }
        window.release_until(5);
        assert_eq!(drained(&mut window), [(0, 0), (1, 1), (5, 0), (5, 1)]);
        window.release_all();
        assert_eq!(drained(&mut window), [(7, 0), (9, 1)]);
    }

    #[test]
    fn one_cpu_keeps_its_own_order_within_a_nanosecond() {
        let mut window = MergeWindow::default();
        for state in [3, 1, 2] {
            window.push(event(4, 0, state));
        }
        window.release_all();
        let mut events = Vec::new();
        window.take(&mut events, 10);
        assert_eq!(events, [event(4, 0, 3), event(4, 0, 1), event(4, 0, 2)]);
    }

    #[test]
    fn a_full_window_lets_the_older_half_go_and_counts_what_comes_too_late() {
        let mut window = MergeWindow::with_limit(4);
        for time in [10, 20, 30, 40] {
            window.push(event(time, 0, 0));
        }
        assert!(window.is_full());
        window.release_half();
        window.push(event(15, 2, 0));
        window.push(event(25, 2, 0));
        assert_eq!(window.take_late(), BTreeMap::from([(CpuId(2), 1)]));
        window.release_all();
        assert_eq!(drained(&mut window), [(10, 0), (20, 0), (25, 2), (30, 0), (40, 0)]);
        assert!(!window.take(&mut Vec::new(), 1));
    }
}

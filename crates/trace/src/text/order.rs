//! Puts nearly sorted events into time order.

use crate::event::Event;

/// How many events an event may come too late and still be put into its place: tools that merge
/// CPUs, and hands that edit files, leave far less disorder than this.
pub(super) const WINDOW_EVENTS: usize = 4096;

/// Holds back the newest [`WINDOW_EVENTS`] events at least, so that late ones find their place.
///
/// Events of one printed time stay in the file's order: the printer sorted them by its finer
/// clock, which the text no longer shows.
#[derive(Default)]
pub(super) struct Reorder {
    pending: Vec<Event>,
    /// The highest time seen; it tells whether an event is late.
    newest_ns: u64,
    /// The highest time handed out; nothing earlier can follow.
    released_ns: u64,
    disordered: bool,
    reordered: u64,
    dropped: u64,
}

impl Reorder {
    /// Takes the next event of the file.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        if event.timestamp_ns < self.newest_ns {
            if event.timestamp_ns < self.released_ns {
                self.dropped += 1;
                return;
            }
            self.disordered = true;
            self.reordered += 1;
        } else {
            self.newest_ns = event.timestamp_ns;
        }
        self.pending.push(event);
    }

    /// True when a batch can be handed out.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= 2 * WINDOW_EVENTS
    }

    /// Appends the oldest [`WINDOW_EVENTS`] events to `batch`; false when there were none.
    pub(super) fn release(&mut self, batch: &mut Vec<Event>) -> bool {
        if self.disordered {
            self.pending.sort_by_key(|event| event.timestamp_ns);
            self.disordered = false;
        }
        let count = self.pending.len().min(WINDOW_EVENTS);
        let Some(last) = self.pending[..count].last() else { return false };
        self.released_ns = last.timestamp_ns;
        batch.extend(self.pending.drain(..count));
        true
    }

    /// Events put into their place, and events too late for any, since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.reordered), std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Pid};
    use schedlab_machine::CpuId;

    fn event(timestamp_ns: u64, cpu: u32) -> Event {
        let kind = EventKind::IdleExit { cpu: CpuId(cpu) };
        Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid::IDLE, kind }
    }

    fn drained(reorder: &mut Reorder) -> Vec<Event> {
        let mut events = Vec::new();
        while reorder.release(&mut events) {}
        events
    }

    #[test]
    fn slight_disorder_is_mended_and_ties_keep_their_order() {
        let mut reorder = Reorder::default();
        for (timestamp_ns, cpu) in [(5, 3), (5, 1), (9, 0), (7, 2), (9, 1)] {
            reorder.push(event(timestamp_ns, cpu));
        }
        let seen = drained(&mut reorder);
        let seen: Vec<_> = seen.iter().map(|e| (e.timestamp_ns, e.cpu.0)).collect();
        assert_eq!(seen, [(5, 3), (5, 1), (7, 2), (9, 0), (9, 1)]);
        assert_eq!(reorder.take_counts(), (1, 0));
    }

    #[test]
    fn what_comes_later_than_the_window_is_dropped_and_counted() {
        let mut reorder = Reorder::default();
        let mut events = Vec::new();
        for timestamp_ns in 0..2 * WINDOW_EVENTS as u64 {
            reorder.push(event(timestamp_ns, 0));
        }
        assert!(reorder.is_full());
        assert!(reorder.release(&mut events));
        reorder.push(event(WINDOW_EVENTS as u64 - 2, 0));
        reorder.push(event(WINDOW_EVENTS as u64 - 1, 0));
        events.extend(drained(&mut reorder));
        assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
        assert_eq!(events.len(), 2 * WINDOW_EVENTS + 1);
        assert_eq!(reorder.take_counts(), (1, 1));
    }
}

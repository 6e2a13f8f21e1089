//! The timers of one CPU, by when they fire.

use crate::queue::NEVER;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A sleeping task's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer {
    /// When the interrupt fires at the latest, ns.
    pub hard_ns: u64,
    /// From when on another interrupt may serve it, ns.
    pub soft_ns: u64,
    /// Whom it wakes.
    pub task: u32,
}

/// In place of a task: the timer is the kernel's own.
pub const KERNEL_TIMER: u32 = u32::MAX;

/// So many timers at most are kept in order.
const NEAR: usize = 16;

/// Timers, the first of which is at hand. Most CPUs have few, which a short list keeps in order at
/// less cost than a heap; the others wait in a heap for their time to come near.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    /// When the first fires at the latest, ns; [`NEVER`] if there is none.
    next_ns: u64,
    /// The first ones, backwards.
    near: Vec<Timer>,
    /// Those after them.
    far: BinaryHeap<Reverse<Timer>>,
}

impl TimerQueue {
    /// No timers.
    pub fn new() -> TimerQueue {
        let (near, far) = (Vec::with_capacity(NEAR), BinaryHeap::with_capacity(64));
        TimerQueue { next_ns: NEVER, near, far }
    }

    /// When the first timer fires at the latest, ns; [`NEVER`] if there is none.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Adds a timer.
    pub fn push(&mut self, timer: Timer) {
        if self.far.peek().is_some_and(|&Reverse(far)| far < timer) {
            return self.far.push(Reverse(timer));
        }
        if self.near.len() == NEAR {
            let last = self.near[0].max(timer);
            self.far.push(Reverse(last));
            if last == timer {
                return;
            }
            self.near.remove(0);
        }
        let later = self.near.iter().take_while(|near| **near > timer).count();
        self.near.insert(later, timer);
        self.note_first();
    }

    /// Takes the first timer if another interrupt may serve it at `now_ns`.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<Timer> {
        let first = self.near.pop_if(|first| first.soft_ns <= now_ns)?;
        if self.near.is_empty()
            && let Some(Reverse(far)) = self.far.pop()
        {
            self.near.push(far);
        }
        self.note_first();
        Some(first)
    }

    #[inline]
    fn note_first(&mut self) {
        self.next_ns = self.near.last().map_or(NEVER, |first| first.hard_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order() {
        let (mut queue, mut heap) = (TimerQueue::new(), BinaryHeap::new());
        let (mut now_ns, mut drawn) = (0, 1_u64);
        for step in 0..20_000_u32 {
            drawn = drawn.wrapping_mul(6364136223846793005).wrapping_add(1);
            // First many come, then many go, over and over.
            let (more, far_ns) = (step / 100 % 2 == 0, (drawn >> 40) % 1_000);
            for task in 0..if more { 2 } else { 1 } {
                let soft_ns = now_ns + far_ns;
                let timer = Timer { hard_ns: soft_ns + drawn % 50, soft_ns, task: step + task };
                queue.push(timer);
                heap.push(Reverse(timer));
            }
            let next_ns = |heap: &BinaryHeap<Reverse<Timer>>| {
                heap.peek().map_or(NEVER, |Reverse(first)| first.hard_ns)
            };
            assert_eq!(queue.next_ns(), next_ns(&heap));
            if !more && queue.next_ns() != NEVER {
                now_ns = now_ns.max(queue.next_ns());
                while let Some(&Reverse(first)) = heap.peek()
                    && first.soft_ns <= now_ns
                {
                    heap.pop();
                    assert_eq!(queue.pop_due(now_ns), Some(first));
                }
                assert_eq!(queue.pop_due(now_ns), None);
            }
        }
    }
}

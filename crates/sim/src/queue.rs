//! The event queue: a tournament over CPUs. Each CPU has few pending events and offers the
//! earliest, so the queue is an array of one time per CPU, and a change costs one walk to the
//! root.

/// No event.
pub const NEVER: u64 = u64::MAX;

/// The earliest of one time per CPU. Equal times come in the order of CPU numbers, or in an order
/// drawn from a seed.
#[derive(Clone, Debug)]
pub struct EventQueue {
    leaves: usize,
    times_ns: Vec<u64>,
    /// Winner of each inner node; the root is at 1.
    winners: Vec<u32>,
    shuffle: Option<u64>,
}

impl EventQueue {
    /// A queue for `cpus` CPUs without events. With `shuffle`, events of one nanosecond come in an
    /// order that this seed decides.
    pub fn new(cpus: usize, shuffle: Option<u64>) -> EventQueue {
        let leaves = cpus.next_power_of_two().max(1);
        let mut queue =
            EventQueue { leaves, times_ns: vec![NEVER; leaves], winners: vec![0; leaves], shuffle };
        // Nobody wins anything yet; who plays first would stop where the other's seat is empty.
        queue.winners.fill(u32::MAX);
        for node in (1..leaves).rev() {
            let (left, right) = (queue.player(2 * node), queue.player(2 * node + 1));
            queue.winners[node] = if queue.beats(right, left) { right } else { left };
        }
        queue
    }

    /// Sets the time of `cpu`'s next event.
    #[inline]
    pub fn set(&mut self, cpu: usize, time_ns: u64) {
        if self.times_ns[cpu] != time_ns {
            self.times_ns[cpu] = time_ns;
            self.play(cpu);
        }
    }

    /// The time of `cpu`'s next event.
    pub fn time_ns(&self, cpu: usize) -> u64 {
        self.times_ns[cpu]
    }

    /// The CPU with the earliest event and its time, [`NEVER`] if there is none.
    #[inline]
    pub fn earliest(&self) -> (usize, u64) {
        let cpu = if self.leaves == 1 { 0 } else { self.winners[1] as usize };
        (cpu, self.times_ns[cpu])
    }

    fn beats(&self, a: u32, b: u32) -> bool {
        let (time_a, time_b) = (self.times_ns[a as usize], self.times_ns[b as usize]);
        if time_a != time_b {
            return time_a < time_b;
        }
        match self.shuffle {
            None => a < b,
            Some(seed) => mix(seed ^ time_a, a) < mix(seed ^ time_b, b),
        }
    }

    fn play(&mut self, cpu: usize) {
        let mut node = (self.leaves + cpu) / 2;
        while node >= 1 && self.leaves > 1 {
            let (left, right) = (self.player(2 * node), self.player(2 * node + 1));
            let winner = if self.beats(right, left) { right } else { left };
            let before = std::mem::replace(&mut self.winners[node], winner);
            // Above, nothing changes if somebody else won here before and wins again.
            if before == winner && winner != cpu as u32 {
                return;
            }
            node /= 2;
        }
    }

    fn player(&self, node: usize) -> u32 {
        if node >= self.leaves { (node - self.leaves) as u32 } else { self.winners[node] }
    }
}

/// Steele and others' SplitMix64 finaliser.
fn mix(value: u64, salt: u32) -> u64 {
    let mut x = value.wrapping_add(u64::from(salt).wrapping_mul(0x9E3779B97F4A7C15));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D049BB133111EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_and_ties_go_by_number() {
        for cpus in [1, 2, 3, 8, 480] {
            let mut queue = EventQueue::new(cpus, None);
            assert_eq!(queue.earliest().1, NEVER);
            for step in 0..1000_u64 {
                let cpu = (step * 7919 % cpus as u64) as usize;
                queue.set(cpu, step * 104729 % 211);
                let expected = (0..cpus).min_by_key(|&c| (queue.times_ns[c], c)).unwrap();
                assert_eq!(queue.earliest(), (expected, queue.times_ns[expected]));
            }
        }
    }
}

//! The event queue: a tournament over CPUs. Each CPU has few pending events and offers the
//! earliest, so the queue is an array of one time per CPU, and a change costs one walk to the
//! root. The CPU whose turn it is leaves the queue meanwhile: the root then tells who comes next,
//! and most CPUs come back after others, which a few steps tell.

/// No event.
pub const NEVER: u64 = u64::MAX;

/// Bits of a key that tell the CPU; [`schedlab_machine::CpuSet`] holds fewer.
const CPU_BITS: u32 = 16;

/// The earliest of one time per CPU. Equal times come in the order of CPU numbers, or in an order
/// drawn from a seed.
#[derive(Clone, Debug)]
pub struct EventQueue {
    leaves: usize,
    /// A tree: the CPUs' keys from `leaves` on, and above them the lesser key of each pair; the
    /// root is at 1. A key is the time, then what decides between equal times, then the CPU, so
    /// that one comparison without a branch tells who is first.
    keys: Vec<u128>,
    shuffle: Option<u64>,
    /// The key of the CPU whose turn it is.
    turn: u128,
}

impl EventQueue {
    /// A queue for `cpus` CPUs without events. With `shuffle`, events of one nanosecond come in an
    /// order that this seed decides.
    pub fn new(cpus: usize, shuffle: Option<u64>) -> EventQueue {
        let leaves = cpus.next_power_of_two().max(1);
        let keys = vec![u128::MAX; 2 * leaves];
        let mut queue = EventQueue { leaves, keys, shuffle, turn: 0 };
        for cpu in 0..leaves {
            queue.keys[leaves + cpu] = queue.key(cpu, NEVER);
        }
        for node in (1..leaves).rev() {
            queue.keys[node] = queue.keys[2 * node].min(queue.keys[2 * node + 1]);
        }
        queue
    }

    /// Sets the time of `cpu`'s next event.
    #[inline]
    pub fn set(&mut self, cpu: usize, time_ns: u64) {
        if self.time_ns(cpu) == time_ns {
            return;
        }
        let mut node = self.leaves + cpu;
        self.keys[node] = self.key(cpu, time_ns);
        while node > 1 {
            let least = self.keys[node].min(self.keys[node ^ 1]);
            node /= 2;
            if self.keys[node] == least {
                return;
            }
            self.keys[node] = least;
        }
    }

    /// The time of `cpu`'s next event.
    #[inline]
    pub fn time_ns(&self, cpu: usize) -> u64 {
        time_of(self.keys[self.leaves + cpu])
    }

    /// The CPU with the earliest event and its time, [`NEVER`] if there is none.
    #[inline]
    pub fn earliest(&self) -> (usize, u64) {
        let key = self.keys[1];
        (key as usize & ((1 << CPU_BITS) - 1), time_of(key))
    }

    /// The turn of `cpu` has come: it has no event until it gets one by [`EventQueue::set`], so
    /// that [`EventQueue::earliest`] tells about the others.
    #[inline]
    pub fn take(&mut self, cpu: usize) {
        let mut node = self.leaves + cpu;
        self.turn = self.keys[node];
        let mut least = self.key(cpu, NEVER);
        self.keys[node] = least;
        while node > 1 {
            least = least.min(self.keys[node ^ 1]);
            node /= 2;
            self.keys[node] = least;
        }
    }

    /// True if an event of `cpu` at `time_ns` would come after the one whose turn it is.
    #[inline]
    pub fn is_after_turn(&self, cpu: usize, time_ns: u64) -> bool {
        self.key(cpu, time_ns) > self.turn
    }

    fn key(&self, cpu: usize, time_ns: u64) -> u128 {
        let drawn = self.shuffle.map_or(0, |seed| mix(seed ^ time_ns, cpu as u32));
        let tie = (drawn >> CPU_BITS << CPU_BITS) | cpu as u64;
        (u128::from(time_ns) << 64) | u128::from(tie)
    }
}

fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
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
                let expected = (0..cpus).min_by_key(|&c| (queue.time_ns(c), c)).unwrap();
                assert_eq!(queue.earliest(), (expected, queue.time_ns(expected)));
                let others = (0..cpus).filter(|&other| other != cpu);
                let first = others.map(|other| queue.time_ns(other)).min().unwrap_or(NEVER);
                let time_ns = queue.time_ns(cpu);
                queue.take(cpu);
                assert_eq!((queue.time_ns(cpu), queue.earliest().1), (NEVER, first));
                assert!(
                    queue.is_after_turn(cpu, time_ns + 1) && !queue.is_after_turn(cpu, time_ns)
                );
                queue.set(cpu, time_ns);
            }
        }
    }
}

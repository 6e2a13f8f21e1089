//! The event queue: a tournament over CPUs. Each CPU has few pending events and offers the
//! earliest, so the queue is an array of one time per CPU, and a change costs one walk to the
//! root. The CPU whose turn it is leaves the queue meanwhile: the root then tells who comes next,
//! and most CPUs come back after others, which a few steps tell.

use crate::simulate::DURATION_MAX_NS;

/// No event.
pub const NEVER: u64 = u64::MAX;

/// Bits of a narrow key that tell the CPU; the others hold every time that a run comes to.
const NARROW_BITS: u32 = 10;

/// Bits of a wide key that tell the CPU.
const WIDE_BITS: u32 = 16;

/// Times from here on are all the same to a narrow key: no run is that long.
const LATER_NS: u64 = (NEVER >> NARROW_BITS) - 1;
const _: () = assert!(DURATION_MAX_NS < LATER_NS);

/// The earliest of one time per CPU. Equal times come in the order of CPU numbers, or in an order
/// drawn from a seed.
#[derive(Clone, Debug)]
pub enum EventQueue {
    /// Of few CPUs, in the order of their numbers: a key is a time and a CPU.
    Narrow {
        /// The keys.
        keys: Tournament<u64, 2048>,
        /// The key of the CPU whose turn it is.
        turn: u64,
    },
    /// A key is the time, then what decides between equal times, then the CPU.
    Wide {
        /// The keys.
        keys: Tournament<u128, 8192>,
        /// The key of the CPU whose turn it is.
        turn: u128,
        /// What equal times are shuffled by.
        shuffle: Option<u64>,
    },
}

/// Keys, and the least of them: a tree with the keys at its leaves, and above them the lesser one of
/// each pair. The size is fixed, so that a place that fits needs no check.
#[derive(Clone, Debug)]
pub struct Tournament<K, const NODES: usize> {
    /// The root is at 1; nodes 2n and 2n + 1 are below node n.
    nodes: Box<[K; NODES]>,
    /// Where the leaves begin, a power of two.
    leaves: usize,
}

impl<K: Copy + Ord, const NODES: usize> Tournament<K, NODES> {
    /// With so many keys, all of them `key`.
    fn new(count: usize, key: K) -> Self {
        let leaves = count.next_power_of_two();
        assert!(2 * leaves <= NODES, "{count} keys are too many");
        Tournament { nodes: Box::new([key; NODES]), leaves }
    }

    #[inline]
    fn get(&self, place: usize) -> K {
        self.nodes[(self.leaves + place) % NODES]
    }

    #[inline]
    fn least(&self) -> K {
        self.nodes[1]
    }

    /// Changes one key.
    #[inline]
    fn set(&mut self, place: usize, mut key: K) {
        let mut node = self.leaves + place;
        // Where it is there already, so it is above.
        while self.nodes[node % NODES] != key {
            self.nodes[node % NODES] = key;
            if node <= 1 {
                return;
            }
            key = key.min(self.nodes[(node ^ 1) % NODES]);
            node /= 2;
        }
    }

    /// Changes the key that was the least to the greatest that can be.
    #[inline]
    fn retire(&mut self, place: usize, mut key: K) {
        let mut node = self.leaves + place;
        while node > 1 {
            self.nodes[node % NODES] = key;
            key = key.min(self.nodes[(node ^ 1) % NODES]);
            node /= 2;
        }
        self.nodes[1] = key;
    }
}

impl EventQueue {
    /// A queue for `cpus` CPUs without events. With `shuffle`, events of one nanosecond come in an
    /// order that this seed decides.
    pub fn new(cpus: usize, shuffle: Option<u64>) -> EventQueue {
        if shuffle.is_none() && cpus <= 1 << NARROW_BITS {
            let mut keys = Tournament::new(cpus, u64::MAX);
            (0..cpus).for_each(|cpu| keys.set(cpu, narrow(cpu, NEVER)));
            return EventQueue::Narrow { keys, turn: 0 };
        }
        let mut keys = Tournament::new(cpus, u128::MAX);
        (0..cpus).for_each(|cpu| keys.set(cpu, wide(cpu, NEVER, shuffle)));
        EventQueue::Wide { keys, turn: 0, shuffle }
    }

    /// Sets the time of `cpu`'s next event.
    #[inline]
    pub fn set(&mut self, cpu: usize, time_ns: u64) {
        match self {
            EventQueue::Narrow { keys, .. } => keys.set(cpu, narrow(cpu, time_ns)),
            EventQueue::Wide { keys, shuffle, .. } => keys.set(cpu, wide(cpu, time_ns, *shuffle)),
        }
    }

    /// True if `cpu` has no event.
    pub fn is_empty(&self, cpu: usize) -> bool {
        match self {
            EventQueue::Narrow { keys, .. } => narrow_time_ns(keys.get(cpu)) == NEVER,
            EventQueue::Wide { keys, .. } => wide_time_ns(keys.get(cpu)) == NEVER,
        }
    }

    /// The CPU with the earliest event and its time, [`NEVER`] if there is none. A time beyond every
    /// run may be told as another such one.
    #[inline]
    pub fn earliest(&self) -> (usize, u64) {
        match self {
            EventQueue::Narrow { keys, .. } => {
                let key = keys.least();
                (key as usize % (1 << NARROW_BITS), narrow_time_ns(key))
            }
            EventQueue::Wide { keys, .. } => {
                let key = keys.least();
                (key as usize % (1 << WIDE_BITS), wide_time_ns(key))
            }
        }
    }

    /// True if some CPU has an event at `now_ns`, which is a time of a run, or before.
    #[inline]
    pub fn is_due(&self, now_ns: u64) -> bool {
        match self {
            EventQueue::Narrow { keys, .. } => keys.least() >> NARROW_BITS <= now_ns,
            EventQueue::Wide { keys, .. } => wide_time_ns(keys.least()) <= now_ns,
        }
    }

    /// The turn of `cpu`, which is the earliest, has come: it has no event until it gets one by
    /// [`EventQueue::set`], so that [`EventQueue::earliest`] tells about the others.
    #[inline]
    pub fn take(&mut self, cpu: usize) {
        match self {
            EventQueue::Narrow { keys, turn } => {
                *turn = keys.least();
                keys.retire(cpu, narrow(cpu, NEVER));
            }
            EventQueue::Wide { keys, turn, shuffle } => {
                *turn = keys.least();
                keys.retire(cpu, wide(cpu, NEVER, *shuffle));
            }
        }
    }

    /// True if an event of `cpu` at `time_ns` would come after the one whose turn it is.
    #[inline]
    pub fn is_after_turn(&self, cpu: usize, time_ns: u64) -> bool {
        match *self {
            EventQueue::Narrow { turn, .. } => narrow(cpu, time_ns) > turn,
            EventQueue::Wide { turn, shuffle, .. } => wide(cpu, time_ns, shuffle) > turn,
        }
    }
}

#[inline]
fn narrow(cpu: usize, time_ns: u64) -> u64 {
    let time_ns = if time_ns == NEVER { NEVER >> NARROW_BITS } else { time_ns.min(LATER_NS) };
    (time_ns << NARROW_BITS) | cpu as u64
}

#[inline]
fn narrow_time_ns(key: u64) -> u64 {
    match key >> NARROW_BITS {
        time_ns if time_ns > LATER_NS => NEVER,
        time_ns => time_ns,
    }
}

fn wide(cpu: usize, time_ns: u64, shuffle: Option<u64>) -> u128 {
    let drawn = shuffle.map_or(0, |seed| mix(seed ^ time_ns, cpu as u32));
    let tie = (drawn >> WIDE_BITS << WIDE_BITS) | cpu as u64;
    (u128::from(time_ns) << 64) | u128::from(tie)
}

#[inline]
fn wide_time_ns(key: u128) -> u64 {
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

    /// Sets times at random, and compares with a search through all of them.
    fn check(mut queue: EventQueue, cpus: usize, before: impl Fn(usize, u64) -> u64) {
        let mut times_ns = vec![NEVER; cpus];
        assert_eq!(queue.earliest().1, NEVER);
        for step in 0..1000_u64 {
            let cpu = (step * 7919 % cpus as u64) as usize;
            times_ns[cpu] = if step % 17 == 3 { NEVER } else { step * 104729 % 211 };
            queue.set(cpu, times_ns[cpu]);
            assert_eq!(queue.is_empty(cpu), times_ns[cpu] == NEVER);
            let order = |cpu: usize| (times_ns[cpu], before(cpu, times_ns[cpu]), cpu);
            let first = (0..cpus).min_by_key(|&cpu| order(cpu)).unwrap();
            let first_ns = times_ns[first];
            assert_eq!(queue.earliest(), (first, first_ns));
            if first_ns != NEVER {
                assert!(queue.is_due(first_ns) && (first_ns == 0 || !queue.is_due(first_ns - 1)));
            }
            let others = (0..cpus).filter(|&other| other != first);
            let next_ns = others.map(|other| times_ns[other]).min().unwrap_or(NEVER);
            queue.take(first);
            assert!(queue.is_empty(first) && queue.earliest().1 == next_ns);
            assert!(!queue.is_after_turn(first, first_ns));
            if first_ns != NEVER {
                assert!(queue.is_after_turn(first, first_ns + 1));
                let other = (first + 1) % cpus;
                let later = order(first) < (first_ns, before(other, first_ns), other);
                assert_eq!(queue.is_after_turn(other, first_ns), later);
            }
            queue.set(first, first_ns);
        }
    }

    #[test]
    fn the_earliest_wins_and_ties_go_by_number() {
        for cpus in [1, 2, 3, 8, 480, 1025, 2049] {
            check(EventQueue::new(cpus, None), cpus, |_, _| 0);
        }
    }

    #[test]
    fn ties_go_by_a_seed() {
        for cpus in [1, 2, 8, 480] {
            let drawn = |cpu, time_ns: u64| mix(7 ^ time_ns, cpu as u32) >> WIDE_BITS;
            check(EventQueue::new(cpus, Some(7)), cpus, drawn);
        }
    }

    #[test]
    fn what_comes_after_every_run_is_not_never() {
        let mut queue = EventQueue::new(3, None);
        queue.set(1, NEVER - 1);
        assert_eq!((queue.earliest().0, queue.is_empty(1), queue.is_empty(0)), (1, false, true));
        assert!((DURATION_MAX_NS..NEVER).contains(&queue.earliest().1));
        queue.set(2, DURATION_MAX_NS);
        assert_eq!(queue.earliest(), (2, DURATION_MAX_NS));
    }
}

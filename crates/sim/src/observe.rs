//! What leaves the simulator while it runs: events of the trace schema, and a digest of all of
//! them.

use schedlab_trace::{Event, EventKind};

/// Takes events as they happen. Events of different CPUs may be handed over slightly out of
/// order, because a CPU finishes a kernel path before another one's turn comes.
pub trait Observer {
    /// Events are wanted at all; without, they are only digested.
    const ACTIVE: bool;
    /// One event.
    fn event(&mut self, event: &Event);
    /// No event before this time follows.
    fn horizon(&mut self, time_ns: u64) {
        let _ = time_ns;
    }
}

/// Hands events on in the order of a trace while the run goes on: by time, then by CPU, then as
/// they happened. What it keeps is as long as the kernel paths that overlap.
#[derive(Debug)]
pub struct InOrder<F> {
    take: F,
    waiting: Vec<Event>,
    horizon_ns: u64,
}

/// Events that gather before they are put in order.
const GATHER: usize = 1024;

impl<F: FnMut(&Event)> InOrder<F> {
    /// Hands events to `take`.
    pub fn new(take: F) -> InOrder<F> {
        InOrder { take, waiting: Vec::with_capacity(2 * GATHER), horizon_ns: 0 }
    }

    /// Hands the last events on and gives back what took them.
    pub fn finish(mut self) -> F {
        self.hand_on(u64::MAX);
        self.take
    }

    fn hand_on(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|event| (event.timestamp_ns, event.cpu));
        let ready = self.waiting.partition_point(|event| event.timestamp_ns < until_ns);
        for event in self.waiting.drain(..ready) {
            (self.take)(&event);
        }
    }
}

impl<F: FnMut(&Event)> Observer for InOrder<F> {
    const ACTIVE: bool = true;

    #[inline]
    fn event(&mut self, event: &Event) {
        self.waiting.push(*event);
        if self.waiting.len() >= GATHER && self.waiting.len().is_multiple_of(GATHER) {
            self.hand_on(self.horizon_ns);
        }
    }

    #[inline]
    fn horizon(&mut self, time_ns: u64) {
        self.horizon_ns = time_ns;
    }
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Observer for Nothing {
    const ACTIVE: bool = false;
    fn event(&mut self, _: &Event) {}
}

/// Keeps every event.
impl Observer for Vec<Event> {
    const ACTIVE: bool = true;
    fn event(&mut self, event: &Event) {
        self.push(*event);
    }
}

/// A running hash of events, equal for equal runs wherever and however they were compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf29ce484222325)
    }
}

impl Digest {
    /// Takes a number in.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E3779B97F4A7C15);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }
}

/// The number that stands for an event's kind and contents in the digest.
#[inline]
pub(crate) fn fingerprint(kind: &EventKind) -> u64 {
    let pack = |tag: u64, a: u64, b: u64| (tag << 56) ^ (a << 24) ^ b;
    match *kind {
        EventKind::Switch { prev, prev_state, next, .. } => pack(
            1,
            prev.pid.0 as u64 & 0xFFFF_FFFF,
            (next.pid.0 as u64 & 0xFFFF_FFFF) ^ ((prev_state as u64) << 20),
        ),
        EventKind::Waking { task, target_cpu, .. } => {
            pack(2, task.pid.0 as u64, u64::from(target_cpu.0))
        }
        EventKind::Wakeup { task, target_cpu, .. } => {
            pack(3, task.pid.0 as u64, u64::from(target_cpu.0))
        }
        EventKind::WakeupNew { task, target_cpu, .. } => {
            pack(4, task.pid.0 as u64, u64::from(target_cpu.0))
        }
        EventKind::Migrate { task, to_cpu, .. } => pack(5, task.pid.0 as u64, u64::from(to_cpu.0)),
        EventKind::Fork { child, .. } => pack(6, child.pid.0 as u64, 0),
        EventKind::Exit { task } => pack(7, task.pid.0 as u64, 0),
        EventKind::IdleEnter { cpu, state } => pack(8, u64::from(state), u64::from(cpu.0)),
        EventKind::IdleExit { cpu } => pack(9, 0, u64::from(cpu.0)),
        EventKind::WakeIdleWithoutIpi { target_cpu } => pack(10, 0, u64::from(target_cpu.0)),
        EventKind::IpiSend { target_cpu, .. } => {
            pack(11, 0, target_cpu.map_or(u64::MAX, |cpu| u64::from(cpu.0)))
        }
        EventKind::Frequency { cpu, frequency_khz } => {
            pack(13, u64::from(frequency_khz), u64::from(cpu.0))
        }
        _ => pack(12, 0, 0),
    }
}

//! Whose turn it was in a trace of virtual CPUs that share one instruction stream
//! ([`shared_instruction_stream`](schedlab_machine::Machine::shared_instruction_stream)).
//!
//! Only the CPU that has the stream records events, so two events in a row from one CPU show that it
//! had the stream between them, unless it slept. Where events of two CPUs follow each other, the
//! stream changed hands between them: as the first CPU halted, as a timer fired, or right after the
//! first CPU's event (it had armed the timer that was the next of all to fire, or it spun). Timers
//! fire whether their CPU has the stream or not, and what each is armed for stands in the trace.
//!
//! That is the order of QEMU 7: `rr_cpu_thread_fn()` (accel/tcg/tcg-accel-ops-rr.c) runs CPU after
//! CPU, each until the next timer (`icount_prepare_for_run()`, tcg-accel-ops-icount.c), and a new
//! first timer ends the turn at once (`qemu_timer_notify_cb()`, softmmu/icount.c).

use rustc_hash::FxHashMap;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Pid};

/// From when an interrupt begins to its first event, ns, at most.
const ENTRY_MAX_NS: u64 = 3_000;

/// A time in which a CPU had the stream, by the clock of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    cpu: CpuId,
    from_ns: u64,
    until_ns: u64,
}

/// What is known of one CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    halted: bool,
    shows_idle: bool,
    /// Its armed timers, and when they expire.
    armed: Vec<(u64, u64)>,
}

impl Cpu {
    fn fires_ns(&self) -> Option<u64> {
        self.armed.iter().map(|(_, ns)| *ns).min()
    }
}

/// Who has the stream, event by event.
#[derive(Debug, Default)]
pub(super) struct Stream {
    cpus: Vec<Cpu>,
    /// Where each armed timer is.
    places: FxHashMap<u64, CpuId>,
    /// Who has it, and since when.
    holder: Option<(CpuId, u64)>,
    last_ns: u64,
    /// Turns that are over.
    turns: Vec<Turn>,
}

impl Stream {
    /// The stream of so many CPUs.
    pub fn new(cpus: usize) -> Stream {
        Stream { cpus: vec![Cpu::default(); cpus], ..Stream::default() }
    }

    /// How many turns there were so far.
    pub fn turns(&self) -> u64 {
        self.turns.len() as u64 + u64::from(self.holder.is_some())
    }

    /// How long `cpu` has had the stream since then, in all and at most in one go, ns.
    pub fn had_ns(&self, cpu: CpuId, since_ns: u64) -> (u64, u64) {
        let open = self.holder.filter(|(holder, _)| *holder == cpu);
        let open = open.map(|(_, from_ns)| (from_ns, self.last_ns));
        let over = self.turns.iter().rev().take_while(|turn| turn.until_ns > since_ns);
        let over = over.filter(|turn| turn.cpu == cpu).map(|turn| (turn.from_ns, turn.until_ns));
        let lengths = open.into_iter().chain(over);
        lengths.fold((0, 0), |(all_ns, most_ns), (from_ns, until_ns)| {
            let length_ns = until_ns.saturating_sub(from_ns.max(since_ns));
            (all_ns + length_ns, most_ns.max(length_ns))
        })
    }

    /// Since when `cpu`, which records an event, has had the stream, ns.
    pub fn since_ns(&self, cpu: CpuId) -> u64 {
        self.holder.filter(|(holder, _)| *holder == cpu).map_or(self.last_ns, |(_, ns)| ns)
    }

    /// The next event: its CPU has the stream.
    pub fn push(&mut self, event: &Event) {
        let (cpu, now_ns) = (event.cpu, event.timestamp_ns);
        match self.holder {
            None => self.holder = Some((cpu, now_ns)),
            Some((holder, _)) if holder == cpu && !self.cpus[cpu.index()].halted => {}
            Some((holder, _)) => self.hand_over(holder, event),
        }
        self.last_ns = now_ns;
        self.cpus[cpu.index()].halted = false;
        self.follow(event);
    }

    /// The stream went from `holder`, which recorded the event before, to the CPU of this event, in
    /// between perhaps to others, which recorded nothing.
    fn hand_over(&mut self, holder: CpuId, event: &Event) {
        let (cpu, now_ns, last_ns) = (event.cpu, event.timestamp_ns, self.last_ns);
        // Whose interrupt waits takes it as soon as it has the stream.
        let soon_ns = now_ns.saturating_sub(ENTRY_MAX_NS).max(last_ns);
        let own_ns = self.cpus[cpu.index()].fires_ns();
        let interrupted = begins(event) && own_ns.is_some_and(|ns| ns <= now_ns);
        let mut fired = self.fired(now_ns);
        if interrupted && fired.last().is_some_and(|ns| *ns < soon_ns) {
            fired.push(soon_ns);
        }
        let mut at = holder;
        if self.cpus[holder.index()].halted {
            match self.after(holder, cpu, now_ns) {
                // Everybody slept.
                None => return self.give(cpu, last_ns, own_ns.unwrap_or(now_ns).max(last_ns)),
                Some(next) => {
                    self.give(next, last_ns, last_ns);
                    at = next;
                }
            }
        } else if fired.is_empty() {
            return self.give(cpu, last_ns, if begins(event) { soon_ns } else { last_ns });
        }
        for (place, fired_ns) in fired.iter().enumerate() {
            let last = place + 1 == fired.len();
            let next = if last { Some(cpu) } else { self.after(at, cpu, now_ns) };
            if let Some(next) = next.filter(|next| *next != at && (last || at != cpu)) {
                self.give(next, *fired_ns, *fired_ns);
                at = next;
            }
        }
        if at != cpu {
            self.give(cpu, soon_ns, soon_ns);
        }
    }

    /// The turn of whoever has the stream is over, and that of `cpu` begins.
    fn give(&mut self, cpu: CpuId, until_ns: u64, from_ns: u64) {
        if let Some((cpu, from_ns)) = self.holder.replace((cpu, from_ns)) {
            self.turns.push(Turn { cpu, from_ns, until_ns });
        }
    }

    /// When timers fired since the last event, those that fired together once.
    fn fired(&self, now_ns: u64) -> Vec<u64> {
        let fired = self.cpus.iter().filter_map(Cpu::fires_ns);
        let mut fired: Vec<u64> = fired.filter(|ns| (self.last_ns..=now_ns).contains(ns)).collect();
        fired.sort_unstable();
        fired.dedup_by(|later, earlier| *later - *earlier < ENTRY_MAX_NS);
        fired
    }

    /// The next CPU after `from` that had something to do, but nothing to record until now, or is
    /// `to`.
    fn after(&self, from: CpuId, to: CpuId, now_ns: u64) -> Option<CpuId> {
        let count = self.cpus.len();
        let mut others = (1..=count).map(|step| CpuId(((from.index() + step) % count) as u32));
        others.find(|other| {
            let own = &self.cpus[other.index()];
            let quiet = now_ns.saturating_sub(self.last_ns) < ENTRY_MAX_NS
                || own.fires_ns().is_none_or(|ns| ns > self.last_ns);
            !own.halted && (*other == to || quiet)
        })
    }

    fn follow(&mut self, event: &Event) {
        let cpu = event.cpu;
        match event.kind {
            EventKind::HrtimerStart { timer, expires_ns, .. } => {
                self.disarm(timer);
                let expires_ns = u64::try_from(expires_ns).unwrap_or(0);
                self.cpus[cpu.index()].armed.push((timer, expires_ns));
                self.places.insert(timer, cpu);
            }
            EventKind::HrtimerCancel { timer } | EventKind::HrtimerExpireEntry { timer, .. } => {
                self.disarm(timer);
            }
            EventKind::IdleEnter { .. } => {
                self.cpus[cpu.index()].halted = true;
                self.cpus[cpu.index()].shows_idle = true;
            }
            // A trace that does not tell of idle states.
            EventKind::Switch { next, .. } if next.pid == Pid::IDLE => {
                let own = &mut self.cpus[cpu.index()];
                own.halted = !own.shows_idle;
            }
            _ => {}
        }
    }

    fn disarm(&mut self, timer: u64) {
        if let Some(cpu) = self.places.remove(&timer) {
            self.cpus[cpu.index()].armed.retain(|(armed, _)| *armed != timer);
        }
    }
}

/// The event is the first of an interrupt.
pub(super) fn begins(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::HrtimerExpireEntry { .. }
            | EventKind::IrqEntry { .. }
            | EventKind::VectorEntry { .. }
            | EventKind::SoftirqRaise { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::StrId;

    const TICK: u64 = 7;

    fn event(timestamp_ns: u64, cpu: u32, kind: EventKind) -> Event {
        Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid(100 + cpu as i32), kind }
    }

    fn start(at_ns: u64, cpu: u32, timer: u64, expires_ns: i64) -> Event {
        let soft_expires_ns = expires_ns;
        let function = StrId::EMPTY;
        event(at_ns, cpu, EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns })
    }

    fn expire(at_ns: u64, cpu: u32, timer: u64) -> Event {
        let (function, now_ns) = (StrId::EMPTY, at_ns as i64);
        event(at_ns, cpu, EventKind::HrtimerExpireEntry { timer, function, now_ns })
    }

    #[test]
    fn a_timer_ends_the_turn_of_whoever_has_the_stream() {
        let mut stream = Stream::new(2);
        stream.push(&start(0, 0, TICK, 1_000_000));
        // CPU 0 arms the first timer of all, so that CPU 1 follows, and keeps the stream until that
        // fires. The interrupt of CPU 0 begins then.
        stream.push(&start(2_000, 1, TICK + 1, 4_000_000));
        stream.push(&expire(1_001_000, 0, TICK));
        assert_eq!(stream.turns(), 3);
        assert_eq!(stream.had_ns(CpuId(1), 0), (1_000_000, 1_000_000));
        assert_eq!(stream.since_ns(CpuId(0)), 1_000_000);
        // Of the second since the timer, CPU 0 had none before its interrupt.
        assert_eq!(stream.had_ns(CpuId(0), 500_000), (1_000, 1_000));
    }

    #[test]
    fn who_halts_gives_the_stream_to_the_next_that_has_something_to_do() {
        let mut stream = Stream::new(3);
        stream.push(&start(0, 2, TICK, 9_000_000));
        stream.push(&start(2_000, 1, TICK + 1, 5_000_000));
        let state = EventKind::IdleEnter { cpu: CpuId(1), state: 1 };
        stream.push(&event(10_000, 1, state));
        // CPU 2 goes on with its task at once, and records something much later.
        stream.push(&event(3_000_000, 2, EventKind::SoftirqEntry { vec: 9 }));
        let (had_ns, most_ns) = stream.had_ns(CpuId(2), 10_000);
        assert_eq!((had_ns, most_ns), (2_990_000, 2_990_000));
        assert_eq!(stream.had_ns(CpuId(1), 10_000), (0, 0));
    }
}

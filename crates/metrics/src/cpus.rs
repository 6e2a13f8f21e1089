//! What each CPU did: ran tasks, idled, served interrupts.

use crate::Collector;
use crate::per_cpu::PerCpu;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Pid, StrId};

/// What one CPU did. `busy_ns`, `idle_ns` and `unknown_ns` add up to the trace's duration;
/// interrupts are served within them, on the time of whatever they interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFigures {
    /// The CPU.
    pub cpu: CpuId,
    /// A task was on the CPU, ns; interrupts included.
    pub busy_ns: u64,
    /// The idle task was on the CPU, ns; interrupts included.
    pub idle_ns: u64,
    /// The trace does not show what was on the CPU, ns.
    pub unknown_ns: u64,
    /// Inside interrupt handlers and vectors, ns.
    pub irq_ns: u64,
    /// Inside softirq handlers, ns, without the interrupts that interrupted them.
    pub softirq_ns: u64,
    /// Context switches.
    pub switches: u64,
    /// Entries into an idle state.
    pub idle_entries: u64,
    /// Interrupts: handlers and vectors entered.
    pub interrupts: u64,
    /// Softirq handlers entered.
    pub softirqs: u64,
}

/// Collects what each CPU did.
#[derive(Debug, Default)]
pub struct Cpus {
    cpus: PerCpu<Track>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Idle,
    Busy,
}

/// An interrupt or softirq that is being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Irq(i32),
    Vector(StrId),
    Softirq(u32),
}

#[derive(Debug, Default)]
struct Track {
    state: State,
    state_since_ns: u64,
    first_ns: Option<u64>,
    services: Vec<Service>,
    service_since_ns: u64,
    figures: CpuFigures,
}

impl State {
    fn of(pid: Pid) -> State {
        match pid {
            Pid::UNKNOWN => State::Unknown,
            Pid::IDLE => State::Idle,
            _ => State::Busy,
        }
    }
}

impl Track {
    fn enter(&mut self, state: State, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.state_since_ns);
        *match self.state {
            State::Unknown => &mut self.figures.unknown_ns,
            State::Idle => &mut self.figures.idle_ns,
            State::Busy => &mut self.figures.busy_ns,
        } += elapsed_ns;
        self.state = state;
        self.state_since_ns = now_ns;
    }

    /// Time counts from the CPU's first event on.
    fn begin_trace(&mut self, now_ns: u64) {
        if self.first_ns.is_none() {
            self.first_ns = Some(now_ns);
            self.state_since_ns = now_ns;
        }
    }

    /// Accounts the time of the innermost service.
    fn serve(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.service_since_ns);
        match self.services.last() {
            Some(Service::Irq(_) | Service::Vector(_)) => self.figures.irq_ns += elapsed_ns,
            Some(Service::Softirq(_)) => self.figures.softirq_ns += elapsed_ns,
            None => {}
        }
        self.service_since_ns = now_ns;
    }

    fn begin(&mut self, service: Service, now_ns: u64) {
        // A handler does not interrupt itself: its exit was not recorded, so neither is its time.
        if let Some(open) = self.services.iter().position(|&other| other == service) {
            self.services.truncate(open);
            self.service_since_ns = now_ns;
        }
        self.serve(now_ns);
        self.services.push(service);
    }

    fn end(&mut self, service: Service, now_ns: u64) {
        // An exit without an entry belongs to a handler that began before the trace or in a gap.
        if self.services.last() == Some(&service) {
            self.serve(now_ns);
            self.services.pop();
        } else {
            self.drop_services(now_ns);
        }
    }

    /// Forgets open handlers whose exits cannot come any more.
    fn drop_services(&mut self, now_ns: u64) {
        self.services.clear();
        self.service_since_ns = now_ns;
    }
}

impl Cpus {
    /// The CPUs in order: those that recorded events, and those of `declared`, of which then nothing
    /// is known. `span_ns` is the trace's first and last timestamp.
    pub fn finish(mut self, span_ns: (u64, u64), declared: &[CpuId]) -> Vec<CpuFigures> {
        let (begin_ns, end_ns) = span_ns;
        for &cpu in declared {
            if let Some(track) = self.cpus.get_mut(cpu) {
                track.begin_trace(begin_ns);
            }
        }
        let mut rows = Vec::new();
        for (cpu, mut track) in self.cpus.into_iter() {
            let Some(first_ns) = track.first_ns else { continue };
            track.figures.cpu = cpu;
            track.figures.unknown_ns += first_ns.saturating_sub(begin_ns);
            let state = track.state;
            track.enter(state, end_ns.max(track.state_since_ns));
            rows.push(track.figures);
        }
        rows
    }
}

impl Collector for Cpus {
    fn push(&mut self, event: &Event) {
        let now_ns = event.timestamp_ns;
        let Some(track) = self.cpus.get_mut(event.cpu) else { return };
        track.begin_trace(now_ns);
        if let EventKind::Lost { .. } = event.kind {
            track.enter(State::Unknown, now_ns);
            track.drop_services(now_ns);
            return;
        }
        if track.state == State::Unknown && event.pid != Pid::UNKNOWN {
            track.enter(State::of(event.pid), now_ns);
        }
        match event.kind {
            EventKind::Switch { next, .. } => {
                track.enter(State::of(next.pid), now_ns);
                track.figures.switches += 1;
                // No handler is open across a context switch.
                track.drop_services(now_ns);
            }
            EventKind::IdleEnter { cpu, .. } => {
                if let Some(track) = self.cpus.get_mut(cpu) {
                    track.figures.idle_entries += 1;
                }
            }
            EventKind::IrqEntry { irq, .. } => {
                track.begin(Service::Irq(irq), now_ns);
                track.figures.interrupts += 1;
            }
            EventKind::IrqExit { irq } => track.end(Service::Irq(irq), now_ns),
            EventKind::VectorEntry { name } => {
                track.begin(Service::Vector(name), now_ns);
                track.figures.interrupts += 1;
            }
            EventKind::VectorExit { name } => track.end(Service::Vector(name), now_ns),
            EventKind::SoftirqEntry { vec } => {
                track.begin(Service::Softirq(vec), now_ns);
                track.figures.softirqs += 1;
            }
            EventKind::SoftirqExit { vec } => track.end(Service::Softirq(vec), now_ns),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "cpus_tests.rs"]
mod tests;

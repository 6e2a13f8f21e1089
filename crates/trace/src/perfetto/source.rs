//! The stream of events of a Perfetto trace.

use super::compact::{CompactSched, Running};
use super::decode::Names;
use super::events::{EventTypes, Frame};
use super::names::field;
use super::packets::PacketStream;
use super::states::PrevStates;
use super::stats::LossCounters;
use super::wire::{Fields, Slots};
use crate::error::TraceError;
use crate::event::{Event, EventKind, Pid};
use crate::merge::MergeWindow;
use crate::quality::{Quality, Severity};
use crate::source::{EventSource, Summary};
use crate::stream::ByteStream;
use crate::strings::Strings;
use schedlab_machine::{CPUS_MAX, CpuId};
use std::collections::{BTreeMap, BTreeSet};

/// Events per batch.
const BATCH_EVENTS: usize = 4096;
/// Packets read per batch while no event is ready.
const BATCH_PACKETS: usize = 256;
/// Names from process lists that are kept at most; the kernel has no more tasks.
const TASK_NAMES_MAX: usize = 1 << 20;

/// `TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`.
const STATE_CLEARED: u64 = 1;

/// A Perfetto trace being read.
pub(super) struct PerfettoSource {
    packets: PacketStream,
    decoder: Decoder,
    ended: bool,
}

/// Everything but the bytes, so that a packet can be borrowed while it is decoded.
struct Decoder {
    names: Names,
    types: EventTypes,
    window: MergeWindow,
    cpus: BTreeMap<CpuId, CpuState>,
    losses: LossCounters,
    /// Writers that have sent bundles.
    ftrace_sequences: BTreeSet<u32>,
    clock: Option<u64>,
    summary: Summary,
}

#[derive(Default)]
struct CpuState {
    running: Option<Running>,
    /// Events were lost since the last one, and no event came after that yet.
    lost: bool,
    /// Places where events were lost.
    gaps: u64,
}

/// The fields of an `FtraceEventBundle` other than its events.
#[derive(Default)]
struct BundleHead<'a> {
    cpu: u32,
    lost_events: bool,
    compact: &'a [u8],
    clock: u64,
    errors: u64,
}

impl PerfettoSource {
    pub(super) fn new(stream: ByteStream) -> PerfettoSource {
        let summary = Summary { format: "perfetto".to_owned(), ..Summary::default() };
        PerfettoSource {
            packets: PacketStream::new(stream),
            decoder: Decoder {
                names: Names::default(),
                types: EventTypes::default(),
                window: MergeWindow::default(),
                cpus: BTreeMap::new(),
                losses: LossCounters::default(),
                ftrace_sequences: BTreeSet::new(),
                clock: None,
                summary,
            },
            ended: false,
        }
    }
}

impl EventSource for PerfettoSource {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        let decoder = &mut self.decoder;
        for _ in 0..BATCH_PACKETS {
            if decoder.window.take(batch, BATCH_EVENTS) {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            match self.packets.next(&mut decoder.summary.quality)? {
                Some(packet) => decoder.packet(packet),
                None => {
                    self.ended = true;
                    decoder.conclude();
                }
            }
        }
        decoder.update_summary();
        Ok(true)
    }

    fn summary(&self) -> &Summary {
        &self.decoder.summary
    }

    fn strings(&self) -> &Strings {
        &self.decoder.names.strings
    }

    fn progress_bytes(&self) -> (u64, u64) {
        self.packets.progress_bytes()
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.decoder.summary, self.decoder.names.strings)
    }
}

impl Decoder {
    fn packet(&mut self, packet: &[u8]) {
        let mut sequence = 0;
        let mut bundle = None;
        let mut interned = None;
        let mut state_cleared = false;
        let mut dropped = false;
        let mut fields = Fields::new(packet);
        for (number, value) in fields.by_ref() {
            match number {
                1 => bundle = Some(value.bytes()),
                2 => self.process_tree(value.bytes()),
                10 => sequence = value.number() as u32,
                12 => interned = Some(value.bytes()),
                13 => state_cleared = value.number() & STATE_CLEARED != 0,
                34 => self.losses.read(value.bytes()),
                42 => dropped = value.number() != 0,
                45 => self.system_info(value.bytes()),
                _ => {}
            }
        }
        if fields.damaged() {
            self.note_damage();
        }
        // The first packet of a sequence bears the mark too, where nothing is missing.
        if dropped && self.ftrace_sequences.contains(&sequence) {
            self.packets_dropped();
        }
        if state_cleared {
            self.names.clear_symbols(sequence);
        }
        // Names of a packet are valid for its own events, wherever they stand in it.
        if let Some(interned) = interned {
            self.interned_data(sequence, interned);
        }
        if let Some(bundle) = bundle {
            if self.ftrace_sequences.len() < CPUS_MAX {
                self.ftrace_sequences.insert(sequence);
            }
            self.bundle(sequence, bundle);
        }
        if self.window.is_full() {
            self.window.release_half();
            self.update_summary();
        }
    }

    /// `FtraceEventBundle`: events of one CPU.
    fn bundle(&mut self, sequence: u32, message: &[u8]) {
        let mut head = BundleHead::default();
        let mut first_event = None;
        for (number, value) in Fields::new(message) {
            match number {
                1 => head.cpu = value.number() as u32,
                2 => first_event = first_event.or(Some(value.bytes())),
                3 => head.lost_events = value.number() != 0,
                4 => head.compact = value.bytes(),
                5 => head.clock = value.number(),
                8 | 512 => head.errors += 1,
                11 => self.types.describe(value.bytes()),
                _ => {}
            }
        }
        let cpu = CpuId(head.cpu);
        if cpu.index() >= CPUS_MAX {
            self.note_bad_cpu(cpu);
            return;
        }
        self.note_head(cpu, &head);
        let compact = CompactSched::read(head.compact, &mut self.names);
        let first_time_ns = compact
            .first_time_ns()
            .into_iter()
            .chain(first_event.and_then(Slots::read).map(|event| event.u64(1)));
        let first_time_ns = first_time_ns.min();
        let state = self.cpus.entry(cpu).or_default();
        if head.lost_events {
            state.lost = true;
            state.gaps += 1;
        }
        if let (true, Some(timestamp_ns)) = (state.lost, first_time_ns) {
            state.lost = false;
            state.running = None;
            let kind = EventKind::Lost { count: 0 };
            self.window.push(Event { timestamp_ns, cpu, pid: Pid::UNKNOWN, kind });
        }
        self.compact(cpu, compact);
        self.events(cpu, sequence, message);
    }

    fn compact(&mut self, cpu: CpuId, compact: CompactSched<'_>) {
        let Some(state) = self.cpus.get_mut(&cpu) else { return };
        let (window, span) = (&mut self.window, &mut self.summary.time_span_ns);
        let (mut switches, mut wakings) = (0, 0);
        let complete = compact.events(cpu, &self.names, &mut state.running, |event| {
            match event.kind {
                EventKind::Switch { .. } => switches += 1,
                _ => wakings += 1,
            }
            widen(span, event.timestamp_ns);
            window.push(event);
        });
        self.types.count(field::SCHED_SWITCH, switches);
        self.types.count(field::SCHED_WAKING, wakings);
        if !complete {
            self.note_damage();
        }
    }

    fn events(&mut self, cpu: CpuId, sequence: u32, message: &[u8]) {
        let frame = Frame { cpu, sequence };
        let mut last_switch = None;
        let mut damaged = 0u64;
        let mut fields = Fields::new(message);
        for (_, value) in fields.by_ref().filter(|(number, _)| *number == 2) {
            let Some(seen) = self.types.read(value.bytes(), frame, &mut self.names) else {
                damaged += 1;
                continue;
            };
            widen(&mut self.summary.time_span_ns, seen.timestamp_ns);
            if let Some(event) = seen.event {
                if let EventKind::Switch { next, next_prio, .. } = event.kind {
                    last_switch = Some(Running { task: next, prio: next_prio });
                }
                self.window.push(event);
            }
        }
        if damaged > 0 || fields.damaged() {
            self.note_damage();
        }
        if let (Some(running), Some(state)) = (last_switch, self.cpus.get_mut(&cpu)) {
            state.running = Some(running);
        }
    }

    /// The service dropped packets of this sequence, whose bundles may have been of any CPU.
    fn packets_dropped(&mut self) {
        for state in self.cpus.values_mut() {
            state.lost = true;
            state.gaps += 1;
        }
        self.summary.quality.add(
            Severity::Warning,
            "dropped_packets",
            None,
            1,
            "the tracing service dropped packets; intervals that span such a place are not \
             measured",
        );
    }

    fn interned_data(&mut self, sequence: u32, message: &[u8]) {
        for (_, value) in Fields::new(message).filter(|(number, _)| *number == 26) {
            if let Some(symbol) = Slots::read(value.bytes()) {
                self.names.add_symbol(sequence, symbol.u64(1), symbol.text(2));
            }
        }
    }

    /// `ProcessTree`: names of tasks that were there all along.
    fn process_tree(&mut self, message: &[u8]) {
        for (number, value) in Fields::new(message) {
            let Some(slots) = Slots::read(value.bytes()) else { continue };
            let name = match number {
                1 if slots.u64(9) != 0 => slots.text(3),
                2 => slots.text(2),
                _ => continue,
            };
            let names = &mut self.summary.task_names;
            if !name.is_empty() && names.len() < TASK_NAMES_MAX {
                names.insert(Pid(slots.i32(1)), self.names.strings.intern(name));
            }
        }
    }

    /// `SystemInfo`: the kernel release, which says how task states are numbered, and the CPUs.
    fn system_info(&mut self, message: &[u8]) {
        for (number, value) in Fields::new(message) {
            match number {
                1 => {
                    let Some(utsname) = Slots::read(value.bytes()) else { continue };
                    let release = String::from_utf8_lossy(utsname.text(3)).into_owned();
                    self.names.states = PrevStates::of_release(&release);
                    self.summary.kernel_release = release;
                }
                8 => {
                    for cpu in 0..(value.number() as u32).min(CPUS_MAX as u32) {
                        self.cpus.entry(CpuId(cpu)).or_default();
                    }
                }
                _ => {}
            }
        }
    }

    fn note_head(&mut self, cpu: CpuId, head: &BundleHead<'_>) {
        match self.clock {
            None => {
                self.clock = Some(head.clock);
                clock_name(head.clock).clone_into(&mut self.summary.clock);
            }
            Some(clock) if clock != head.clock => self.summary.quality.add(
                Severity::Error,
                "mixed_clocks",
                Some(cpu),
                1,
                "bundles of different clocks: their events cannot be put in order",
            ),
            Some(_) => {}
        }
        if head.errors > 0 {
            self.summary.quality.add(
                Severity::Warning,
                "ftrace_errors",
                Some(cpu),
                head.errors,
                "the tracer could not read parts of the kernel's buffer; events are missing",
            );
        }
    }

    fn note_damage(&mut self) {
        self.summary.quality.add(
            Severity::Error,
            "damaged_packets",
            None,
            1,
            "packets or bundles are damaged inside; what follows the damage in them is missing",
        );
    }

    fn note_bad_cpu(&mut self, cpu: CpuId) {
        let message = format!("events of a CPU {cpu}, beyond any machine, were left out");
        self.summary.quality.add(Severity::Error, "bad_cpu", None, 1, message);
    }

    fn update_summary(&mut self) {
        let summary = &mut self.summary;
        self.types.update_counts(&mut summary.event_counts);
        summary.cpus.clear();
        summary.cpus.extend(self.cpus.keys());
        summary.lost_events = self.cpus.values().map(|state| state.gaps).sum();
    }

    /// The last findings, once all packets are read.
    fn conclude(&mut self) {
        self.window.release_all();
        let counted: BTreeMap<_, _> = self.losses.lost().collect();
        for &cpu in counted.keys() {
            self.cpus.entry(cpu).or_default();
        }
        self.update_summary();
        self.summary.lost_events = 0;
        for (&cpu, state) in &self.cpus {
            // A gap without a count lost one event at least.
            let lost = counted.get(&cpu).copied().unwrap_or(0).max(state.gaps);
            if lost > 0 {
                self.summary.lost_events += lost;
                note_lost(&mut self.summary.quality, cpu, lost);
            }
        }
        for (cpu, count) in self.window.take_late() {
            self.summary.quality.add(
                Severity::Warning,
                "late_events",
                Some(cpu),
                count,
                "events came too late in the file to be put into time order and were left out",
            );
        }
    }
}

fn note_lost(quality: &mut Quality, cpu: CpuId, lost: u64) {
    quality.add(
        Severity::Warning,
        "lost_events",
        Some(cpu),
        lost,
        "the kernel's buffer lost events of this CPU (a gap without a count is one); intervals \
         that span a gap are not measured",
    );
}

fn widen(span: &mut Option<(u64, u64)>, timestamp_ns: u64) {
    let span = span.get_or_insert((timestamp_ns, timestamp_ns));
    span.0 = span.0.min(timestamp_ns);
    span.1 = span.1.max(timestamp_ns);
}

/// The tracefs name of an `FtraceClock`. Tracers choose `boot` unless the kernel lacks it.
fn clock_name(clock: u64) -> &'static str {
    match clock {
        0 => "boot",
        2 => "global",
        3 => "local",
        4 => "mono_raw",
        _ => "",
    }
}

//! Perfetto protobuf, for ui.perfetto.dev and `trace_processor`.
//!
//! Events go into an `FtraceEventBundle` per CPU: typed where Perfetto has a message for the
//! tracepoint, so that the viewer draws CPU tracks with tasks, frequencies and idle states, and
//! as `GenericFtraceEvent` otherwise, so that nothing of the schema is dropped. What reads back
//! differently: the clock's name, which Perfetto cannot express (times are taken for `boot`); a
//! [`EventKind::Lost`] mark, which moves to the CPU's next event and whose count is kept as a sum
//! per CPU; and `ipi_raise` and utilisation probes, which bear the names of today's tracepoints.

mod encode;
mod message;
mod tracks;

use super::EventWriter;
use crate::event::{Event, EventKind, PeltClass, Pid, Task};
use crate::perfetto::states::PrevStates;
use crate::source::Summary;
use crate::strings::{StrId, Strings};
use encode::Encoder;
use message::Message;
use schedlab_machine::CpuId;
use std::collections::BTreeMap;
use std::io::{self, Write};
use tracks::{Group, Tracks};

/// Bundles are written once this many events wait in all CPUs' bundles together.
const WAITING_EVENTS: usize = 8192;
/// A bundle's bytes at most.
const BUNDLE_BYTES: usize = 256 << 10;
/// Tasks whose names are kept for the process list at most.
const TASKS_MAX: usize = 1 << 20;
/// Tasks in one packet of the process list.
const PACKET_TASKS: usize = 4096;

/// Packet sequences: readers keep interned names and tracks apart by them.
const FTRACE_SEQUENCE: u64 = 1;
const TRACK_SEQUENCE: u64 = 2;
/// `SEQ_INCREMENTAL_STATE_CLEARED`, which a sequence begins with.
const STATE_CLEARED: u64 = 1;

/// Writes a Perfetto trace.
pub struct PerfettoWriter<W> {
    out: W,
    encoder: Encoder,
    tracks: Tracks,
    bundles: BTreeMap<CpuId, Message>,
    waiting: usize,
    packet: Message,
    lost: BTreeMap<CpuId, u64>,
    tasks: BTreeMap<Pid, StrId>,
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a trace of the system that `summary` names.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(out: W, summary: &Summary) -> io::Result<PerfettoWriter<W>> {
        let states = PrevStates::of_release(&summary.kernel_release);
        let mut writer = PerfettoWriter {
            out,
            encoder: Encoder::new(states),
            tracks: Tracks::default(),
            bundles: BTreeMap::new(),
            waiting: 0,
            packet: Message::default(),
            lost: BTreeMap::new(),
            tasks: BTreeMap::new(),
        };
        for sequence in [FTRACE_SEQUENCE, TRACK_SEQUENCE] {
            let mut begin = Message::default();
            begin.number(13, STATE_CLEARED);
            if sequence == FTRACE_SEQUENCE && !summary.kernel_release.is_empty() {
                begin.nested(45, |system| {
                    system.nested(1, |utsname| {
                        utsname.text(1, b"Linux");
                        utsname.text(3, summary.kernel_release.as_bytes());
                    });
                });
            }
            writer.packet(sequence, &begin)?;
        }
        Ok(writer)
    }

    /// Writes one `TracePacket`.
    fn packet(&mut self, sequence: u64, content: &Message) -> io::Result<()> {
        write_packet(&mut self.out, &mut self.packet, sequence, content)
    }

    fn event(&mut self, event: &Event, strings: &Strings) -> io::Result<()> {
        if let EventKind::Lost { count } = event.kind {
            self.lost(event, count)?;
        }
        let bundle = self.bundles.entry(event.cpu).or_insert_with(|| new_bundle(event.cpu, false));
        self.encoder.event(bundle, event, strings);
        self.waiting += 1;
        let full = bundle.bytes().len() >= BUNDLE_BYTES;
        self.draw(event)?;
        self.remember_names(&event.kind);
        if full || self.waiting >= WAITING_EVENTS {
            self.flush()?;
        }
        Ok(())
    }

    /// A gap begins a new bundle, which is where the format has the mark.
    fn lost(&mut self, event: &Event, count: u64) -> io::Result<()> {
        self.flush()?;
        self.bundles.insert(event.cpu, new_bundle(event.cpu, true));
        let lost = self.lost.entry(event.cpu).or_default();
        *lost = lost.saturating_add(count);
        Ok(())
    }

    /// Writes what the viewer does not draw from the bundles.
    fn draw(&mut self, event: &Event) -> io::Result<()> {
        let (out, scratch) = (&mut self.out, &mut self.packet);
        let mut outcome = Ok(());
        let mut emit = |content: Message| {
            if outcome.is_ok() {
                outcome = write_packet(out, scratch, TRACK_SEQUENCE, &content);
            }
        };
        let (tracks, time) = (&mut self.tracks, event.timestamp_ns);
        match event.kind {
            EventKind::IdleEnter { cpu, state } => tracks.enter_idle(&mut emit, time, cpu, state),
            EventKind::IdleExit { cpu } => tracks.leave_idle(&mut emit, time, cpu),
            EventKind::Lost { .. } => tracks.leave_idle(&mut emit, time, event.cpu),
            EventKind::PeltCpu { class: PeltClass::Fair, cpu, util, .. } => {
                tracks.count(&mut emit, time, Group::Util, cpu, util);
            }
            EventKind::NrRunning { cpu, nr_running } => {
                tracks.count(&mut emit, time, Group::NrRunning, cpu, nr_running);
            }
            _ => {}
        }
        outcome
    }

    fn remember_names(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::Switch { prev, next, .. } => {
                self.remember(prev);
                self.remember(next);
            }
            EventKind::Waking { task, .. }
            | EventKind::Wakeup { task, .. }
            | EventKind::WakeupNew { task, .. }
            | EventKind::Exit { task } => self.remember(task),
            EventKind::Fork { parent, child } => {
                self.remember(parent);
                self.remember(child);
            }
            _ => {}
        }
    }

    fn remember(&mut self, task: Task) {
        if task.pid > Pid::IDLE && (self.tasks.len() < TASKS_MAX) {
            self.tasks.insert(task.pid, task.comm);
        }
    }

    /// Writes all bundles.
    fn flush(&mut self) -> io::Result<()> {
        self.waiting = 0;
        for (_, bundle) in std::mem::take(&mut self.bundles) {
            let mut content = Message::default();
            if !self.encoder.new_symbols.is_empty() {
                content.text(12, self.encoder.new_symbols.bytes());
                self.encoder.new_symbols.clear();
            }
            content.text(1, bundle.bytes());
            self.packet(FTRACE_SEQUENCE, &content)?;
        }
        Ok(())
    }

    /// `ProcessTree`. A trace of scheduler events does not say which threads belong together, so
    /// each is shown as a process of its own.
    fn process_tree(&mut self, summary: &Summary, strings: &Strings) -> io::Result<()> {
        for (&pid, &name) in &summary.task_names {
            if pid > Pid::IDLE {
                self.tasks.entry(pid).or_insert(name);
            }
        }
        let tasks: Vec<_> = std::mem::take(&mut self.tasks).into_iter().collect();
        for tasks in tasks.chunks(PACKET_TASKS) {
            let mut content = Message::default();
            content.nested(2, |tree| {
                for &(pid, name) in tasks {
                    tree.nested(2, |thread| {
                        thread.number(1, pid.0 as u64);
                        thread.text(2, strings.get(name).as_bytes());
                        thread.number(3, pid.0 as u64);
                    });
                }
            });
            self.packet(FTRACE_SEQUENCE, &content)?;
        }
        Ok(())
    }

    /// `SystemInfo.num_cpus`, and the lost events as the kernel would count them.
    fn totals(&mut self, summary: &Summary) -> io::Result<()> {
        let numbered = |(index, cpu): (usize, &CpuId)| cpu.index() == index;
        if !summary.cpus.is_empty() && summary.cpus.iter().enumerate().all(numbered) {
            let mut content = Message::default();
            content.nested(45, |system| system.number(8, summary.cpus.len() as u64));
            self.packet(FTRACE_SEQUENCE, &content)?;
        }
        let mut content = Message::default();
        content.nested(34, |stats| {
            // Phase END_OF_TRACE; FtraceCpuStats with `overrun`.
            stats.number(1, 2);
            for (&cpu, &lost) in &self.lost {
                stats.nested(2, |cpu_stats| {
                    cpu_stats.number(1, u64::from(cpu.0));
                    cpu_stats.number(3, lost);
                });
            }
        });
        self.packet(FTRACE_SEQUENCE, &content)
    }
}

impl<W: Write> EventWriter for PerfettoWriter<W> {
    fn write(&mut self, events: &[Event], strings: &Strings) -> io::Result<()> {
        events.iter().try_for_each(|event| self.event(event, strings))
    }

    fn finish(mut self: Box<Self>, summary: &Summary, strings: &Strings) -> io::Result<()> {
        self.flush()?;
        self.process_tree(summary, strings)?;
        self.totals(summary)?;
        self.out.flush()
    }
}

fn new_bundle(cpu: CpuId, lost_events: bool) -> Message {
    let mut bundle = Message::default();
    bundle.number(1, u64::from(cpu.0));
    if lost_events {
        bundle.number(3, 1);
    }
    bundle
}

fn write_packet(
    out: &mut impl Write,
    scratch: &mut Message,
    sequence: u64,
    content: &Message,
) -> io::Result<()> {
    scratch.clear();
    // Trace.packet.
    scratch.nested(1, |packet| {
        packet.number(10, sequence);
        packet.append(content);
    });
    out.write_all(scratch.bytes())
}

//! The reader itself: lines in, events and findings out.

use super::body::Context;
use super::fields::Broken;
use super::header::{self, Header, Style, Unit};
use super::lines::{Line, Lines};
use super::markup::Markup;
use super::order::Reorder;
use super::special::{self, Printer, Special};
use super::state::States;
use super::tally::Tally;
use crate::error::TraceError;
use crate::event::{Event, EventKind, Pid};
use crate::quality::Severity;
use crate::source::{EventSource, Summary};
use crate::strings::Strings;
use schedlab_machine::CpuId;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Lines per batch at most, so that a file of foreign events still shows its progress.
const LINES_PER_BATCH: usize = 1 << 16;

/// A textual trace being read, from a file ([`crate::open`]) or any other stream.
pub struct TextSource<R> {
    lines: Lines<R>,
    path: PathBuf,
    total_bytes: u64,
    markup: Option<Markup>,
    reorder: Reorder,
    at_end: bool,
    parser: Parser,
}

/// All but the input, so that a line can be borrowed from the one while the other changes.
struct Parser {
    summary: Summary,
    strings: Strings,
    tally: Tally,
    states: States,
    scratch: Vec<u8>,
    printer: Option<Printer>,
    /// Losses that wait for the CPU's next event, which gives them their time.
    lost: Vec<(CpuId, u64)>,
    declared_cpus: u32,
    is_coarse: bool,
    is_counter: bool,
    preemption_unmarked: bool,
    events: u64,
}

impl<R: Read> TextSource<R> {
    /// A source over any input. `path` is for messages and `total_bytes` for progress; `is_html`
    /// tells that the trace stands inside an HTML page.
    pub fn new(input: R, path: &Path, total_bytes: u64, is_html: bool) -> Self {
        let format = if is_html { "systrace html" } else { "ftrace text" }.to_owned();
        let summary = Summary { format, ..Summary::default() };
        Self {
            lines: Lines::new(input),
            path: path.to_owned(),
            total_bytes,
            markup: is_html.then(Markup::new),
            reorder: Reorder::default(),
            at_end: false,
            parser: Parser {
                summary,
                strings: Strings::default(),
                tally: Tally::default(),
                states: States::default(),
                scratch: Vec::new(),
                printer: None,
                lost: Vec::new(),
                declared_cpus: 0,
                is_coarse: false,
                is_counter: false,
                preemption_unmarked: false,
                events: 0,
            },
        }
    }

    /// Reads until a batch is complete, `LINES_PER_BATCH` lines are done or the input ends.
    fn read_lines(&mut self) -> Result<(), TraceError> {
        for _ in 0..LINES_PER_BATCH {
            if self.reorder.is_full() {
                break;
            }
            let number = self.lines.number() + 1;
            let line = self
                .lines
                .next()
                .map_err(|source| TraceError::Io { path: self.path.clone(), source })?;
            let Some(line) = line else {
                self.at_end = true;
                break;
            };
            let line = match &mut self.markup {
                None => line,
                Some(markup) if line.oversized && markup.is_outside() => continue,
                Some(markup) => match markup.content(line.bytes) {
                    Some(bytes) => Line { bytes, terminated: true, ..line },
                    None => continue,
                },
            };
            self.parser.line(line, number, &mut self.reorder);
        }
        Ok(())
    }

    fn conclude(&mut self) -> Result<(), TraceError> {
        if self.markup.as_ref().is_some_and(|markup| !markup.found()) {
            return Err(TraceError::Malformed {
                path: self.path.clone(),
                offset: self.lines.consumed_bytes(),
                what: "the HTML page ends without a trace in it; save it with its trace data \
                       (systrace, chrome://tracing)"
                    .to_owned(),
            });
        }
        self.parser.conclude(&mut self.reorder);
        Ok(())
    }
}

impl Parser {
    #[inline]
    fn line(&mut self, line: Line<'_>, number: u64, reorder: &mut Reorder) {
        if line.oversized {
            return self.add(Severity::Warning, "long_lines", || {
                let limit = super::lines::LINE_BYTES_MAX;
                format!("lines of more than {limit} bytes were skipped; the first is line {number}")
            });
        }
        match header::parse(line.bytes) {
            Some(header) => self.event(&header, line.terminated, number, reorder),
            None => self.special(line, number),
        }
    }

    #[inline]
    fn event(&mut self, header: &Header<'_>, terminated: bool, number: u64, reorder: &mut Reorder) {
        if header.style == Style::Perf && header.rest.starts_with(b"PERF_RECORD_") {
            return self.perf_record(header.cpu, header.rest);
        }
        self.note_header(header);
        if !self.lost.is_empty() {
            self.place_losses(header.cpu, header.timestamp_ns, reorder);
        }
        let (name, body) = header::name_and_body(header, &mut self.scratch);
        let Some(decode) = self.tally.count(name) else {
            if !terminated {
                self.unterminated(number, false);
            }
            return;
        };
        let body = match body.strip_prefix(b"[FAILED TO PARSE]") {
            Some(fields) => header::trim_start(fields),
            None => body,
        };
        let mut context = Context {
            strings: &mut self.strings,
            states: &mut self.states,
            cpu: header.cpu,
            preemption_unmarked: &mut self.preemption_unmarked,
        };
        let decoded = decode(&mut context, header::trim_end(body));
        match decoded {
            Ok(Some(kind)) => reorder.push(Event {
                timestamp_ns: header.timestamp_ns,
                cpu: header.cpu,
                pid: header.pid,
                kind,
            }),
            Ok(None) => {}
            Err(Broken) if terminated => self.add(Severity::Warning, "unparsed_events", || {
                let shown = shown(header.rest);
                format!(
                    "events whose fields cannot be read are counted but enter no figure; the \
                     first is in line {number}: {shown}"
                )
            }),
            Err(Broken) => {}
        }
        if !terminated {
            self.unterminated(number, decoded.is_err());
        }
    }

    /// Remembers what every event tells: the CPUs, the time span, the clock's resolution.
    #[inline]
    fn note_header(&mut self, header: &Header<'_>) {
        self.events += 1;
        let time = header.timestamp_ns;
        if time > 0 || !is_clock_marker(header.rest) {
            let span = self.summary.time_span_ns.get_or_insert((time, time));
            span.0 = span.0.min(time);
            span.1 = span.1.max(time);
        }
        match header.unit {
            Unit::Nanosecond => {}
            Unit::Coarse => self.is_coarse = true,
            Unit::Tick => self.is_counter = true,
        }
        if header.style == Style::Perf && self.printer.is_none() {
            self.printer = Some(Printer::Perf);
        }
        // CPUs below the declared number are in the list already.
        if header.cpu.0 >= self.declared_cpus {
            self.see_cpu(header.cpu);
        }
    }

    fn see_cpu(&mut self, cpu: CpuId) {
        if let Err(place) = self.summary.cpus.binary_search(&cpu) {
            self.summary.cpus.insert(place, cpu);
        }
    }

    fn special(&mut self, line: Line<'_>, number: u64) {
        match special::parse(line.bytes) {
            Special::Ignored => {}
            Special::Printer(printer) => self.printer = self.printer.or(Some(printer)),
            Special::Cpus(cpus) => {
                // The kernel's own header and trace-cmd's both tell; the larger machine wins.
                (self.declared_cpus..cpus).for_each(|cpu| self.see_cpu(CpuId(cpu)));
                self.declared_cpus = self.declared_cpus.max(cpus);
                if line.bytes.starts_with(b"cpus=") {
                    self.printer = Some(Printer::TraceCmd);
                }
            }
            Special::Release(release) => {
                self.summary.kernel_release = String::from_utf8_lossy(release).into_owned();
            }
            Special::Clock(clock) => {
                self.summary.clock = String::from_utf8_lossy(clock).into_owned();
            }
            Special::Overwritten(events) => self.summary.quality.add(
                Severity::Info,
                "overwritten_events",
                None,
                events,
                "the ring buffer had dropped its oldest events before the text was taken: the \
                 trace begins later than the recording, and not on all CPUs at once",
            ),
            Special::Lost(cpu, count) => self.lose(cpu, count),
            Special::Foreign if line.terminated => {
                self.add(Severity::Warning, "unparsed_lines", || {
                    let shown = shown(line.bytes);
                    format!("lines that are no events were skipped; the first is {number}: {shown}")
                });
            }
            Special::Foreign => self.unterminated(number, true),
        }
    }

    fn unterminated(&mut self, number: u64, is_broken: bool) {
        if is_broken {
            self.add(Severity::Warning, "truncated", || {
                format!("the file ends within line {number}, whose event is lost")
            });
        } else {
            self.add(Severity::Info, "truncated", || {
                format!("line {number}, the last one, has no line feed and may be cut short")
            });
        }
    }

    /// `perf script --show-lost-events` and its kin.
    fn perf_record(&mut self, cpu: CpuId, body: &[u8]) {
        if let Some(count) = body.strip_prefix(b"PERF_RECORD_LOST lost ") {
            self.lose(cpu, super::fields::decimal(count).map_or(0, |(count, _)| count));
        }
    }

    fn lose(&mut self, cpu: CpuId, count: u64) {
        self.see_cpu(cpu);
        self.summary.lost_events = self.summary.lost_events.saturating_add(count);
        self.summary.quality.add(
            Severity::Warning,
            "lost_events",
            Some(cpu),
            count,
            "the tracer dropped events of this CPU: intervals that span a gap are left out",
        );
        match self.lost.iter_mut().find(|(known, _)| *known == cpu) {
            Some((_, known)) => *known = known.saturating_add(count),
            None => self.lost.push((cpu, count)),
        }
    }

    fn place_losses(&mut self, cpu: CpuId, timestamp_ns: u64, reorder: &mut Reorder) {
        if let Some(index) = self.lost.iter().position(|(lost, _)| *lost == cpu) {
            let (_, count) = self.lost.swap_remove(index);
            let kind = EventKind::Lost { count };
            reorder.push(Event { timestamp_ns, cpu, pid: Pid::UNKNOWN, kind });
        }
    }

    fn note_order(&mut self, reorder: &mut Reorder) {
        let (reordered, dropped) = reorder.take_counts();
        let quality = &mut self.summary.quality;
        if reordered > 0 {
            let message = "events stood after later ones and were put into time order";
            quality.add(Severity::Info, "out_of_order", None, reordered, message);
        }
        if dropped > 0 {
            let message = format!(
                "events stood more than {} events too late and enter no figure; sort the lines \
                 by time first",
                super::order::WINDOW_EVENTS
            );
            quality.add(Severity::Error, "too_late", None, dropped, message);
        }
    }

    fn conclude(&mut self, reorder: &mut Reorder) {
        let end_ns = self.summary.time_span_ns.map_or(0, |(_, end)| end);
        while let Some(&(cpu, _)) = self.lost.first() {
            self.place_losses(cpu, end_ns, reorder);
        }
        let quality = &mut self.summary.quality;
        let mut note =
            |severity, code, message: &str| quality.add(severity, code, None, 1, message);
        if self.is_coarse {
            note(
                Severity::Info,
                "timestamp_precision",
                "times are printed in microseconds, so a latency may be 1 us off; \
                 `trace-cmd report -t` and `perf script --ns` print nanoseconds",
            );
        }
        if self.is_counter {
            note(
                Severity::Warning,
                "counter_clock",
                "times are counts of a trace clock without unit; they are taken as nanoseconds, \
                 and every duration is wrong where they are not",
            );
        }
        if self.preemption_unmarked {
            note(
                Severity::Info,
                "preemption_unmarked",
                "trace-cmd's sched_switch plugin prints R for preempted tasks too, so preemptions \
                 are counted as yields; `trace-cmd report -R` tells them apart",
            );
        }
        if self.events == 0 {
            note(Severity::Warning, "no_events", "the text holds no event line");
        }
    }

    /// Adds one to a finding. Its message is made on first sight only, since a broken file may
    /// have a finding on every line.
    fn add(&mut self, severity: Severity, code: &'static str, message: impl FnOnce() -> String) {
        let quality = &mut self.summary.quality;
        let is_known = quality.findings().iter().any(|finding| finding.code == code);
        let message = if is_known { String::new() } else { message() };
        quality.add(severity, code, None, 1, message);
    }

    /// Brings the summary up to date.
    fn flush(&mut self, reorder: &mut Reorder) {
        self.tally.flush(&mut self.summary.event_counts);
        self.note_order(reorder);
        let format = match self.printer {
            _ if self.summary.format == "systrace html" => return,
            Some(Printer::TraceCmd) => "trace-cmd report",
            Some(Printer::Perf) => "perf script",
            Some(Printer::Ftrace) | None => "ftrace text",
        };
        format.clone_into(&mut self.summary.format);
    }
}

/// systrace ends its text with an invented `dummy-0000 [000] 0.0: 0: trace_event_clock_sync: ...`
/// that pairs clocks; it happened at no time.
fn is_clock_marker(rest: &[u8]) -> bool {
    memchr::memmem::find(rest, b"trace_event_clock_sync").is_some()
}

/// The beginning of a line, quoted for a message.
fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).trim().chars().take(60).collect();
    format!("{text:?}")
}

impl<R: Read + Send> EventSource for TextSource<R> {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        if !self.at_end {
            self.read_lines()?;
            if self.at_end {
                self.conclude()?;
            }
        }
        let more = if self.at_end || self.reorder.is_full() {
            self.reorder.release(batch) || !self.at_end
        } else {
            true
        };
        self.parser.flush(&mut self.reorder);
        Ok(more)
    }

    fn summary(&self) -> &Summary {
        &self.parser.summary
    }

    fn strings(&self) -> &Strings {
        &self.parser.strings
    }

    fn progress_bytes(&self) -> (u64, u64) {
        let consumed = self.lines.consumed_bytes();
        (consumed, self.total_bytes.max(consumed))
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.parser.summary, self.parser.strings)
    }
}

//! The stream of events of a `perf.data`.

use super::attr::Attr;
use super::features::{self, Described};
use super::file::{FileHeader, Section, read_ids};
use super::records::{Record, Records, kind};
use super::sample::{Sample, read_record_end, read_sample};
use crate::dat::event_table::EventTable;
use crate::dat::metadata::Metadata;
use crate::error::TraceError;
use crate::event::{Event, EventKind, Pid};
use crate::format::{Abi, NameTable};
use crate::input::Input;
use crate::merge::MergeWindow;
use crate::quality::Severity;
use crate::source::{EventSource, Summary};
use crate::stream::ByteStream;
use crate::strings::Strings;
use rustc_hash::FxHashMap;
use schedlab_machine::{CPUS_MAX, CpuId};
use std::collections::{BTreeMap, BTreeSet};

/// Events per batch.
const BATCH_EVENTS: usize = 4096;
/// Records read per batch while no event is ready.
const BATCH_RECORDS: usize = 16 * 1024;
/// Events that a file may describe.
const EVENTS_MAX: usize = 1 << 16;
/// Ids of all of them.
const IDS_MAX: usize = 1 << 22;
/// Task names that are kept at most; the kernel has no more tasks.
const TASK_NAMES_MAX: usize = 1 << 20;
/// Tracing data in a stream is not longer: formats and symbols of any kernel are a tenth.
const TRACING_DATA_BYTES_MAX: usize = 128 << 20;

/// A `perf.data` being read.
pub(super) struct PerfSource {
    records: Records,
    decoder: Decoder,
    ended: bool,
}

/// An event of the file.
struct RecordedEvent {
    attr: Attr,
    name: String,
    /// Samples since the last update of the counts.
    count: u64,
}

/// Everything but the bytes, so that a record can be borrowed while it is decoded.
struct Decoder {
    abi: Abi,
    events: Vec<RecordedEvent>,
    event_by_id: FxHashMap<u64, usize>,
    /// Tracepoints by the kernel's own description; `None` without tracing data.
    tracepoints: Option<EventTable>,
    names: NameTable,
    window: MergeWindow,
    /// The newest event when the last round ended: nothing earlier follows the next one.
    round_ns: u64,
    cpus: BTreeSet<CpuId>,
    /// Lost records and lost samples: two counts of one loss.
    lost: BTreeMap<CpuId, (u64, u64)>,
    summary: Summary,
}

impl PerfSource {
    pub(super) fn open(input: Input) -> Result<PerfSource, TraceError> {
        let header = FileHeader::read(&input)?;
        let mut decoder = Decoder::new(header.abi);
        for &(attr, ids) in &header.attrs {
            decoder.add_event(attr, &read_ids(&input, header.abi, ids)?);
        }
        for &(number, section) in &header.features {
            decoder.file_feature(&input, number, section)?;
        }
        if header.unfinished {
            decoder.summary.quality.add(
                Severity::Warning,
                "unfinished",
                None,
                1,
                "perf was stopped before it could finish the file, which therefore lacks the \
                 events' formats; `perf record` must end by itself or by SIGINT",
            );
        }
        let end = header.data.offset.saturating_add(header.data.size);
        if !header.unfinished && header.data.size < u64::MAX / 2 && end > input.length() {
            decoder.summary.quality.add(
                Severity::Error,
                "truncated",
                None,
                end - input.length(),
                "the file ends before its records do, and with them the events' formats are lost; \
                 copy the file again",
            );
        }
        let stream = ByteStream::within(input, header.data.offset, end);
        let records = Records::new(stream, header.abi);
        Ok(PerfSource { records, decoder, ended: false })
    }

    fn step(&mut self) -> Result<(), TraceError> {
        let decoder = &mut self.decoder;
        let Some(record) = self.records.next(&mut decoder.summary.quality)? else {
            self.ended = true;
            decoder.conclude();
            return Ok(());
        };
        if record.kind == kind::HEADER_TRACING_DATA {
            let length = decoder.abi.u32_at(record.body, 0).unwrap_or(0);
            // Behind the record, padded to whole words.
            let length = (length as usize).next_multiple_of(8).min(TRACING_DATA_BYTES_MAX);
            let tracing_data = self.records.take_payload(length)?;
            decoder.tracing_data(&Input::from_bytes("tracing data", tracing_data), 0);
        } else {
            decoder.record(record);
        }
        Ok(())
    }
}

impl EventSource for PerfSource {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        for _ in 0..BATCH_RECORDS {
            if self.decoder.window.take(batch, BATCH_EVENTS) {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.step()?;
        }
        self.decoder.update_summary();
        Ok(true)
    }

    fn summary(&self) -> &Summary {
        &self.decoder.summary
    }

    fn strings(&self) -> &Strings {
        self.decoder.names.strings()
    }

    fn progress_bytes(&self) -> (u64, u64) {
        self.records.progress_bytes()
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.decoder.summary, self.decoder.names.into_strings())
    }
}

impl Decoder {
    fn new(abi: Abi) -> Decoder {
        Decoder {
            abi,
            events: Vec::new(),
            event_by_id: FxHashMap::default(),
            tracepoints: None,
            names: NameTable::default(),
            window: MergeWindow::default(),
            round_ns: 0,
            cpus: BTreeSet::new(),
            lost: BTreeMap::new(),
            summary: Summary { format: "perf.data".to_owned(), ..Summary::default() },
        }
    }

    fn add_event(&mut self, attr: Attr, ids: &[u64]) {
        if self.events.len() >= EVENTS_MAX {
            return;
        }
        if self.events.is_empty() {
            attr.clock_name().clone_into(&mut self.summary.clock);
        }
        let index = self.events.len();
        let kind = if attr.is_tracepoint { "tracepoint" } else { "event" };
        self.events.push(RecordedEvent { attr, name: format!("{kind}_{}", attr.config), count: 0 });
        for &id in ids {
            if self.event_by_id.len() < IDS_MAX {
                self.event_by_id.insert(id, index);
            }
        }
    }

    fn file_feature(
        &mut self,
        input: &Input,
        number: u32,
        section: Section,
    ) -> Result<(), TraceError> {
        if number == features::TRACING_DATA {
            self.tracing_data(input, section.offset);
            return Ok(());
        }
        let length = section.size.min(features::FEATURE_BYTES_MAX as u64);
        let bytes = input.bytes_at(section.offset, length as usize)?;
        self.feature(number, &bytes);
        Ok(())
    }

    fn feature(&mut self, number: u32, bytes: &[u8]) {
        match number {
            features::OSRELEASE => {
                self.summary.kernel_release =
                    features::read_text(bytes, self.abi).unwrap_or_default();
            }
            features::NRCPUS => {
                let count = features::read_cpu_count(bytes, self.abi).unwrap_or(0);
                self.cpus.extend((0..count.min(CPUS_MAX as u32)).map(CpuId));
            }
            features::EVENT_DESC => {
                self.name_events(&features::read_event_descriptions(bytes, self.abi))
            }
            _ => {}
        }
    }

    /// Descriptions repeat the attrs of the header in their order, and add names.
    fn name_events(&mut self, described: &[Described]) {
        for (index, described) in described.iter().enumerate() {
            if index >= self.events.len() {
                self.add_event(described.attr, &described.ids);
            }
            let Some(event) = self.events.get_mut(index) else { return };
            if event.attr.sample_type == described.attr.sample_type {
                // `sched:sched_switch` without its system; other names have no colon in front.
                let name = match described.name.split_once(':') {
                    Some((_, name)) if event.attr.is_tracepoint => name,
                    _ => &described.name,
                };
                name.clone_into(&mut event.name);
            }
        }
    }

    fn tracing_data(&mut self, input: &Input, offset: u64) {
        let mut metadata = Metadata::new(self.abi);
        if let Err(damage) = features::read_tracing_data(input, offset, &mut metadata) {
            self.summary.quality.add(
                Severity::Error,
                "damaged_formats",
                None,
                1,
                format!(
                    "the tracing data is damaged at byte {} ({}); events whose format is missing \
                     are counted only",
                    damage.offset, damage.what
                ),
            );
        }
        if metadata.formats.is_empty() {
            return;
        }
        self.update_summary();
        self.tracepoints = Some(EventTable::new(&metadata.formats, metadata.abi()));
        self.names = NameTable::new(metadata.symbols, metadata.printk);
        self.summary.task_names = metadata
            .task_names
            .iter()
            .map(|(&pid, name)| (Pid(pid), self.names.intern(name)))
            .collect();
    }

    fn record(&mut self, record: Record<'_>) {
        let body = record.body;
        match record.kind {
            kind::SAMPLE => self.sample(body),
            kind::LOST => {
                let lost = self.abi.u64_at(body, 8).unwrap_or(0);
                self.lost(body, lost, true);
            }
            kind::LOST_SAMPLES => {
                let lost = self.abi.u64_at(body, 0).unwrap_or(0);
                self.lost(body, lost, false);
            }
            kind::COMM => self.comm(body),
            kind::FINISHED_ROUND => {
                self.window.release_until(self.round_ns);
                self.round_ns = self.window.newest_ns();
                self.update_summary();
            }
            kind::HEADER_ATTR => self.attr_record(body),
            kind::HEADER_FEATURE => {
                if let Some(number) = self.abi.u64_at(body, 0) {
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    self.feature(number, body.get(8..).unwrap_or_default());
                }
            }
            _ => {}
        }
        if self.window.is_full() {
            self.window.release_half();
            self.update_summary();
        }
    }

    /// In a stream, a description of an event with its ids.
    fn attr_record(&mut self, body: &[u8]) {
        let Some(attr) = Attr::read(body, self.abi) else { return };
        let attr_bytes = self.abi.u32_at(body, 4).unwrap_or(0) as usize;
        let ids = body.get(attr_bytes.max(Attr::BYTES_MIN)..).unwrap_or_default();
        let abi = self.abi;
        let ids: Vec<_> = ids.chunks_exact(8).filter_map(|id| abi.u64_at(id, 0)).collect();
        self.add_event(attr, &ids);
    }

    /// The event that a record is of. All events of a file place the id alike, so the first one
    /// tells where it is.
    fn event_of(&self, body: &[u8], position: Option<usize>) -> Option<usize> {
        if self.events.len() < 2 {
            return (!self.events.is_empty()).then_some(0);
        }
        let Some(position) = position else { return Some(0) };
        let id = self.abi.u64_at(body, position.checked_mul(8)?)?;
        self.event_by_id.get(&id).copied()
    }

    fn sample(&mut self, body: &[u8]) {
        let first = self.events.first();
        let index = self.event_of(body, first.and_then(|event| event.attr.sample_id_position()));
        let event = index.and_then(|index| self.events.get_mut(index));
        let sample =
            event.and_then(|event| Some((read_sample(body, &event.attr, self.abi)?, event)));
        let Some((sample, event)) = sample else {
            self.note_damaged_sample();
            return;
        };
        let cpu = CpuId(sample.cpu.unwrap_or(0));
        let mut kind = None;
        let mut pid = sample.tid.map_or(Pid::UNKNOWN, Pid);
        match (&mut self.tracepoints, sample.raw) {
            (Some(types), Some(raw)) if event.attr.is_tracepoint => {
                pid = types.pid(raw).map_or(pid, Pid);
                let decoder = types.count(raw).and_then(|event_type| event_type.decoder.as_ref());
                kind = decoder.and_then(|decoder| decoder.decode(raw, cpu, &mut self.names));
            }
            _ => event.count += 1,
        }
        self.place(&sample, cpu, pid, kind);
    }

    /// Puts an event into its place in time.
    fn place(&mut self, sample: &Sample<'_>, cpu: CpuId, pid: Pid, kind: Option<EventKind>) {
        let Some(timestamp_ns) = sample.time_ns else {
            self.summary.quality.add(
                Severity::Error,
                "no_time",
                None,
                1,
                "samples without a time were counted only; record with `perf record -T`",
            );
            return;
        };
        let span = self.summary.time_span_ns.get_or_insert((timestamp_ns, timestamp_ns));
        *span = (span.0.min(timestamp_ns), span.1.max(timestamp_ns));
        if sample.cpu.is_none() {
            self.summary.quality.add(
                Severity::Error,
                "no_cpu",
                None,
                1,
                "samples without a CPU were taken for CPU 0; record with `perf record \
                 --sample-cpu`",
            );
        }
        if cpu.index() >= CPUS_MAX {
            let message = format!("events of a CPU {cpu}, beyond any machine, were left out");
            self.summary.quality.add(Severity::Error, "bad_cpu", None, 1, message);
            return;
        }
        self.cpus.insert(cpu);
        if let Some(kind) = kind {
            self.window.push(Event { timestamp_ns, cpu, pid, kind });
        }
    }

    fn record_end(&self, body: &[u8]) -> Sample<'static> {
        let position = self.events.first().and_then(|event| event.attr.record_id_position());
        let words = body.len() / 8;
        let index =
            position.and_then(|position| self.event_of(body, Some(words.checked_sub(position)?)));
        // Records that perf makes up itself have no id; they are laid out as the first event's.
        let event = self.events.get(index.unwrap_or(0));
        event.map_or_else(Sample::default, |event| read_record_end(body, &event.attr, self.abi))
    }

    fn lost(&mut self, body: &[u8], count: u64, records: bool) {
        let end = self.record_end(body);
        let cpu = CpuId(end.cpu.unwrap_or(0));
        if cpu.index() >= CPUS_MAX || count == 0 {
            return;
        }
        let lost = self.lost.entry(cpu).or_default();
        let total = if records { &mut lost.0 } else { &mut lost.1 };
        *total = total.saturating_add(count);
        // Counts that perf sums up when it ends have no time and mark no place.
        if let Some(timestamp_ns) = end.time_ns.filter(|&time| time > 0) {
            let kind = EventKind::Lost { count };
            self.window.push(Event { timestamp_ns, cpu, pid: Pid::UNKNOWN, kind });
        }
    }

    fn comm(&mut self, body: &[u8]) {
        let Some(tid) = self.abi.u32_at(body, 4) else { return };
        let name = body.get(8..).unwrap_or_default();
        let task_names = &mut self.summary.task_names;
        if task_names.len() < TASK_NAMES_MAX {
            task_names.insert(Pid(tid as i32), self.names.text(name));
        }
    }

    fn note_damaged_sample(&mut self) {
        self.summary.quality.add(
            Severity::Error,
            "damaged_samples",
            None,
            1,
            "samples that fit no event of the file were left out",
        );
    }

    fn update_summary(&mut self) {
        let counts = &mut self.summary.event_counts;
        if let Some(types) = &mut self.tracepoints {
            types.update_counts(counts);
        }
        for event in self.events.iter_mut().filter(|event| event.count > 0) {
            let new = std::mem::take(&mut event.count);
            *counts.entry(event.name.clone()).or_default() += new;
        }
        self.summary.cpus.clear();
        self.summary.cpus.extend(&self.cpus);
        self.summary.lost_events =
            self.lost.values().map(|&(records, samples)| records.max(samples)).sum();
    }

    /// The last findings, once all records are read.
    fn conclude(&mut self) {
        self.window.release_all();
        self.update_summary();
        let quality = &mut self.summary.quality;
        for (&cpu, &(records, samples)) in &self.lost {
            quality.add(
                Severity::Warning,
                "lost_events",
                Some(cpu),
                records.max(samples),
                "perf could not write events of this CPU fast enough; intervals that span a gap \
                 are not measured (record with larger buffers: -m)",
            );
        }
        for (cpu, count) in self.window.take_late() {
            quality.add(
                Severity::Warning,
                "late_events",
                Some(cpu),
                count,
                "events came too late in the file to be put into time order and were left out",
            );
        }
        let has_tracepoints = self.events.iter().any(|event| event.attr.is_tracepoint);
        if has_tracepoints && self.tracepoints.is_none() {
            quality.add(
                Severity::Error,
                "no_formats",
                None,
                1,
                "the file does not hold the formats of its tracepoints; they are counted only",
            );
        }
        if let Some(unknown) =
            self.tracepoints.as_ref().map(|types| types.unknown).filter(|&n| n > 0)
        {
            quality.add(
                Severity::Warning,
                "unknown_event_id",
                None,
                unknown,
                "events without a format (counted as `unknown_NUMBER`): what they say is lost",
            );
        }
    }
}

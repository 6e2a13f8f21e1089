//! The merge of all CPUs into one stream of events.

use super::buffers::{Buffer, CpuData};
use super::compression::Decompressor;
use super::event_table::EventTable;
use super::header::{Header, Version};
use super::metadata::Metadata;
use super::stream::{Shared, Stream};
use super::{clock, v7};
use crate::error::TraceError;
use crate::event::{Event, EventKind, Pid};
use crate::format::NameTable;
use crate::input::Input;
use crate::quality::{Quality, Severity};
use crate::source::{EventSource, Summary};
use crate::strings::Strings;
use schedlab_machine::{CPUS_MAX, CpuId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Records per batch.
const BATCH_RECORDS: usize = 4096;
/// Streams (CPUs of all buffers) per file.
const STREAMS_MAX: usize = 1 << 16;

/// The head of a stream: its time, its CPU, then the stream's own number, which is the order of
/// the buffers in the file.
type Head = Reverse<(u64, CpuId, u32)>;

/// A `trace.dat` being read.
pub(super) struct DatSource {
    shared: Shared,
    streams: Vec<Stream>,
    heads: BinaryHeap<Head>,
    types: EventTable,
    names: NameTable,
    summary: Summary,
    last_time_ns: u64,
    data_bytes: u64,
}

impl DatSource {
    pub(super) fn open(input: Input) -> Result<DatSource, TraceError> {
        let header = Header::read(&input)?;
        let mut quality = Quality::default();
        let metadata = Metadata::read(&input, &header, &mut quality);
        let streams = streams(&input, &header, &metadata, &mut quality);
        note_missing_parts(&metadata, &mut quality);

        let (format, decompressor) = match header.version {
            Version::V6 => ("trace.dat v6", None),
            Version::V7 { compression, .. } => ("trace.dat v7", compression.map(Decompressor::new)),
        };
        let cpus = cpus(&metadata);
        let types = EventTable::new(&metadata.formats, metadata.layout.abi);
        let mut names = NameTable::new(metadata.symbols, metadata.printk);
        let task_names = metadata.task_names.iter();
        let task_names = task_names.map(|(&pid, name)| (Pid(pid), names.intern(name))).collect();
        let summary = Summary {
            format: format.to_owned(),
            clock: metadata.options.clock_name,
            kernel_release: metadata.options.kernel_release,
            cpus,
            task_names,
            ..Summary::default()
        };
        let shared = Shared::new(
            input,
            metadata.options.clock,
            metadata.layout,
            decompressor,
            quality,
            streams.len(),
        );
        let mut source = DatSource {
            data_bytes: streams.iter().fold(0, |sum: u64, (_, length)| sum.saturating_add(*length)),
            streams: streams.into_iter().map(|(stream, _)| stream).collect(),
            heads: BinaryHeap::new(),
            types,
            names,
            summary,
            last_time_ns: 0,
            shared,
        };
        for (index, stream) in source.streams.iter_mut().enumerate() {
            if stream.advance(&mut source.shared) {
                source.heads.push(Reverse((stream.time_ns(), stream.cpu, index as u32)));
            }
        }
        source.update_summary();
        Ok(source)
    }

    fn update_summary(&mut self) {
        self.types.update_counts(&mut self.summary.event_counts);
        self.summary.lost_events = self.shared.lost_events;
        self.summary.quality.clone_from(&self.shared.quality);
    }

    /// The last findings, once all events are known.
    fn conclude(&mut self) {
        if self.types.unknown > 0 {
            let unknown = std::mem::take(&mut self.types.unknown);
            self.shared.quality.add(
                Severity::Warning,
                "unknown_event_id",
                None,
                unknown,
                "the file has no format for some events (they are counted as `unknown_NUMBER`): \
                 what they say is lost",
            );
        }
        self.update_summary();
    }
}

impl EventSource for DatSource {
    fn read_batch(&mut self, batch: &mut Vec<Event>) -> Result<bool, TraceError> {
        if self.heads.is_empty() {
            self.conclude();
            return Ok(false);
        }
        for _ in 0..BATCH_RECORDS {
            let Some(mut head) = self.heads.peek_mut() else { break };
            let Reverse((time_ns, cpu, index)) = *head;
            let Some(stream) = self.streams.get_mut(index as usize) else { break };
            let timestamp_ns = if time_ns < self.last_time_ns {
                note_backwards(cpu, &mut self.shared.quality);
                self.last_time_ns
            } else {
                time_ns
            };
            self.last_time_ns = timestamp_ns;
            let span = self.summary.time_span_ns.get_or_insert((timestamp_ns, timestamp_ns));
            span.1 = timestamp_ns;
            if let Some(count) = stream.take_lost() {
                let kind = EventKind::Lost { count };
                batch.push(Event { timestamp_ns, cpu, pid: Pid::UNKNOWN, kind });
            }
            let record = stream.record();
            let pid = self.types.pid(record).map_or(Pid::UNKNOWN, Pid);
            let event_type = self.types.count(record);
            let decoder = event_type.and_then(|event_type| event_type.decoder.as_ref());
            if let Some(kind) =
                decoder.and_then(|decoder| decoder.decode(record, cpu, &mut self.names))
            {
                batch.push(Event { timestamp_ns, cpu, pid, kind });
            }
            if stream.advance(&mut self.shared) {
                head.0.0 = stream.time_ns();
            } else {
                PeekMut::pop(head);
            }
        }
        self.update_summary();
        Ok(true)
    }

    fn summary(&self) -> &Summary {
        &self.summary
    }

    fn strings(&self) -> &Strings {
        self.names.strings()
    }

    fn progress_bytes(&self) -> (u64, u64) {
        (self.shared.consumed_bytes.min(self.data_bytes), self.data_bytes)
    }

    fn finish(self: Box<Self>) -> (Summary, Strings) {
        (self.summary, self.names.into_strings())
    }
}

#[cold]
fn note_backwards(cpu: CpuId, quality: &mut Quality) {
    quality.add(
        Severity::Warning,
        "time_backwards",
        Some(cpu),
        1,
        "time stamps of this CPU go backwards: those events were given the time of the event \
         before them, so durations around them are off",
    );
}

/// A stream for each CPU of each buffer that has data, with the length of the data.
fn streams(
    input: &Input,
    header: &Header,
    metadata: &Metadata,
    quality: &mut Quality,
) -> Vec<(Stream, u64)> {
    let mut streams = Vec::new();
    for buffer in &metadata.buffers {
        let compressed = match header.version {
            Version::V6 => Ok(false),
            Version::V7 { .. } => v7::is_compressed(input, header.abi, buffer.offset),
        };
        let Ok(compressed) = compressed else {
            quality.add(
                Severity::Error,
                "truncated_file",
                None,
                1,
                format!("the file ends before buffer `{}`: its events are lost", buffer.name),
            );
            continue;
        };
        for &CpuData { cpu, offset, length } in &buffer.cpus {
            if cpu as usize >= CPUS_MAX || streams.len() >= STREAMS_MAX {
                quality.add(
                    Severity::Error,
                    "too_many_cpus",
                    None,
                    1,
                    format!("CPUs from number {CPUS_MAX} on are left out"),
                );
                continue;
            }
            if length == 0 {
                continue;
            }
            let page_bytes = buffer.page_bytes.unwrap_or(header.page_bytes) as usize;
            let stream = if compressed {
                Stream::chunks(CpuId(cpu), page_bytes, offset, length)
            } else {
                Stream::pages(CpuId(cpu), page_bytes, offset, length)
            };
            streams.push((stream, length));
        }
    }
    streams
}

/// The CPUs that the file declares, in order.
fn cpus(metadata: &Metadata) -> Vec<CpuId> {
    let listed = metadata.buffers.iter().flat_map(|buffer: &Buffer| &buffer.cpus);
    let listed = listed.map(|data| data.cpu);
    let counted = 0..metadata.options.cpu_count.unwrap_or(0).min(CPUS_MAX as u32);
    let mut cpus: Vec<_> = listed.chain(counted).filter(|&cpu| (cpu as usize) < CPUS_MAX).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.into_iter().map(CpuId).collect()
}

fn note_missing_parts(metadata: &Metadata, quality: &mut Quality) {
    if metadata.buffers.is_empty() {
        quality.add(
            Severity::Error,
            "no_trace_data",
            None,
            1,
            "the file says nowhere where its events are: recording was interrupted or the file is \
             cut off; copy it again or record anew",
        );
    }
    if metadata.symbols.is_empty() {
        quality.add(
            Severity::Info,
            "no_symbols",
            None,
            1,
            "the file has no symbol table: functions of timers are shown as addresses",
        );
    }
    if metadata.task_names.is_empty() {
        quality.add(
            Severity::Info,
            "no_task_names",
            None,
            1,
            "the file has no table of task names: tasks that no event names are known by number \
             only",
        );
    }
    let clock = &metadata.options.clock_name;
    if let Some(doubt) = clock::doubt(clock, metadata.options.clock.tsc.is_some()) {
        quality.add(Severity::Warning, "clock", None, 1, doubt);
    }
}

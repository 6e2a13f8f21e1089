//! Writes `perf.data` files and streams.

use super::ring_buffer::number;
use schedlab_trace::format::Abi;

pub const IP: u64 = 1 << 0;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const ID: u64 = 1 << 6;
pub const CPU: u64 = 1 << 7;
pub const PERIOD: u64 = 1 << 8;
pub const RAW: u64 = 1 << 10;
pub const IDENTIFIER: u64 = 1 << 16;

/// What `perf record` asks of tracepoints.
pub const USUAL: u64 = IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER;

/// An event of the file: type, number, name, and its id.
pub struct PerfEvent {
    pub kind: u32,
    pub config: u64,
    pub name: &'static str,
    pub id: u64,
}

/// A file to be written.
pub struct PerfFile {
    pub abi: Abi,
    pub sample_type: u64,
    pub events: Vec<PerfEvent>,
    pub with_formats: bool,
    /// Compressed in pieces, each a record.
    pub compressed: bool,
    /// The records, ready-made.
    pub records: Vec<Vec<u8>>,
}

impl PerfFile {
    pub fn new(big_endian: bool) -> PerfFile {
        let abi = Abi { big_endian, long_size: 8 };
        let tracepoint = |config, name, id| PerfEvent { kind: 2, config, name, id };
        PerfFile {
            abi,
            sample_type: USUAL,
            events: vec![
                tracepoint(super::records::SCHED_SWITCH, "sched:sched_switch", 71),
                tracepoint(super::records::CPU_IDLE, "power:cpu_idle", 72),
                PerfEvent { kind: 1, config: 0, name: "cpu-clock:u", id: 73 },
            ],
            with_formats: true,
            compressed: false,
            records: Vec::new(),
        }
    }

    fn u32(&self, value: u64) -> Vec<u8> {
        number(self.abi, value, 4)
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        number(self.abi, value, 8)
    }

    fn words(&self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.u64(value)).collect()
    }

    fn text(&self, text: &str) -> Vec<u8> {
        let mut padded = text.as_bytes().to_vec();
        padded.resize((text.len() + 1).next_multiple_of(64), 0);
        [self.u32(padded.len() as u64), padded].concat()
    }

    pub fn record(&self, kind: u64, body: &[u8]) -> Vec<u8> {
        let size = number(self.abi, 8 + body.len() as u64, 2);
        [self.u32(kind), vec![0, 0], size, body.to_vec()].concat()
    }

    /// The fields that identify a sample, at the end of another record.
    pub fn record_end(&self, time_ns: u64, cpu: u64, id: u64) -> Vec<u8> {
        let tids = [self.u32(7), self.u32(7)].concat();
        [tids, self.u64(time_ns), self.u32(cpu), self.u32(0), self.u64(id)].concat()
    }

    /// Adds a sample of the usual layout.
    pub fn sample(&mut self, id: u64, time_ns: u64, cpu: u64, raw: &[u8]) {
        let mut raw = [self.u32(raw.len() as u64), raw.to_vec()].concat();
        raw.resize(raw.len().next_multiple_of(8), 0);
        let body = [
            self.words(&[id, 0xffff]),
            self.u32(7),
            self.u32(7),
            self.u64(time_ns),
            self.u32(cpu),
            self.u32(0),
            self.u64(1),
            raw,
        ];
        let record = self.record(9, &body.concat());
        self.records.push(record);
    }

    /// Marks that nothing earlier follows the next such mark.
    pub fn finished_round(&mut self) {
        let record = self.record(68, &[]);
        self.records.push(record);
    }

    fn attr(&self, event: &PerfEvent) -> Vec<u8> {
        // sample_id_all, and the clock was asked for.
        let flags = 1u64 << 18 | 1 << 25;
        let flags = if self.abi.big_endian { flags.reverse_bits() } else { flags };
        let head = [self.u32(u64::from(event.kind)), self.u32(128)].concat();
        let words = self.words(&[event.config, 1, self.sample_type, 0, flags]);
        let mut attr = [head, words].concat();
        attr.resize(92, 0);
        attr.extend(self.u32(1));
        attr.resize(128, 0);
        attr
    }

    fn tracing_data(&self) -> Vec<u8> {
        let block = |text: &str| [self.u64(text.len() as u64), text.as_bytes().to_vec()].concat();
        let formats = super::records::formats(self.abi);
        let mut out = b"\x17\x08Dtracing0.6\0".to_vec();
        out.extend([u8::from(self.abi.big_endian), 8]);
        out.extend(self.u32(4096));
        out.extend(b"header_page\0");
        out.extend(block(""));
        out.extend(b"header_event\0");
        out.extend(block(""));
        out.extend(self.u32(0));
        out.extend(self.u32(formats.len() as u64));
        for (system, format) in &formats {
            out.extend([system.as_bytes(), &[0]].concat());
            out.extend(self.u32(1));
            out.extend(block(format));
        }
        out.extend(self.u32(0));
        out.extend(self.u32(0));
        out.extend(block("7 task-seven\n"));
        out
    }

    fn event_descriptions(&self) -> Vec<u8> {
        let mut out = [self.u32(self.events.len() as u64), self.u32(128)].concat();
        for event in &self.events {
            out.extend(self.attr(event));
            out.extend(self.u32(1));
            out.extend(self.text(event.name));
            out.extend(self.u64(event.id));
        }
        out
    }

    fn features(&self) -> Vec<(u64, Vec<u8>)> {
        let mut features = vec![
            (3, self.text("host")),
            (4, self.text("6.12.0-test")),
            (7, [self.u32(8), self.u32(4)].concat()),
            (12, self.event_descriptions()),
        ];
        if self.with_formats {
            features.insert(0, (1, self.tracing_data()));
        }
        features
    }

    /// Records as they stand in the file.
    fn data(&self) -> Vec<u8> {
        let plain = self.records.concat();
        if !self.compressed {
            return plain;
        }
        // One stream over all pieces, cut at places that no record ends at.
        let packed = zstd::encode_all(&plain[..], 1).unwrap();
        let pieces = packed.chunks(packed.len().div_ceil(3));
        pieces.flat_map(|piece| self.record(81, piece)).collect()
    }

    /// A file with header and feature sections.
    pub fn bytes(&self) -> Vec<u8> {
        let magic: &[u8] = if self.abi.big_endian { b"2ELIFREP" } else { b"PERFILE2" };
        let (attr_bytes, header) = (128 + 16, 104);
        let ids_at = header + attr_bytes * self.events.len() as u64;
        let data_at = ids_at + 8 * self.events.len() as u64;
        let data = self.data();
        let features = self.features();
        let bits = features.iter().fold(0, |bits, (number, _)| bits | 1 << number);
        let mut out = magic.to_vec();
        out.extend(self.words(&[header, attr_bytes, header, ids_at - header]));
        out.extend(self.words(&[data_at, data.len() as u64, 0, 0, bits, 0, 0, 0]));
        for (event, index) in self.events.iter().zip(0..) {
            out.extend(self.attr(event));
            out.extend(self.words(&[ids_at + 8 * index, 8]));
        }
        self.events.iter().for_each(|event| out.extend(self.u64(event.id)));
        out.extend(data);
        let mut at = (out.len() + 16 * features.len()) as u64;
        for (_, content) in &features {
            out.extend(self.words(&[at, content.len() as u64]));
            at += content.len() as u64;
        }
        features.iter().for_each(|(_, content)| out.extend(content));
        out
    }

    /// What `perf record -o -` writes.
    pub fn stream(&self) -> Vec<u8> {
        let magic: &[u8] = if self.abi.big_endian { b"2ELIFREP" } else { b"PERFILE2" };
        let mut out = [magic.to_vec(), self.u64(16)].concat();
        for event in &self.events {
            out.extend(self.record(64, &[self.attr(event), self.u64(event.id)].concat()));
        }
        for (number, content) in self.features() {
            if number == 1 {
                out.extend(self.record(66, &self.u32(content.len() as u64)));
                let padding = content.len().next_multiple_of(8) - content.len();
                out.extend(content);
                out.extend(vec![0; padding]);
            } else {
                out.extend(self.record(80, &[self.u64(number), content].concat()));
            }
        }
        out.extend(self.data());
        out
    }
}

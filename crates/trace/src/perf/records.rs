//! One record after another, compressed ones unpacked on the way.

use crate::error::TraceError;
use crate::format::Abi;
use crate::quality::{Quality, Severity};
use crate::stream::ByteStream;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Record types of `include/uapi/linux/perf_event.h` and `tools/lib/perf/include/perf/event.h`.
pub(super) mod kind {
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const HEADER_TRACING_DATA: u32 = 66;
    pub(crate) const FINISHED_ROUND: u32 = 68;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const HEADER_FEATURE: u32 = 80;
    pub(crate) const COMPRESSED: u32 = 81;
    pub(crate) const COMPRESSED2: u32 = 83;
}

const HEADER_BYTES: usize = 8;
/// How much is unpacked before records are taken from it.
const UNPACK_BYTES: usize = 256 << 10;

/// A record, without its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    pub(super) body: &'a [u8],
}

/// The records of a file.
pub(super) struct Records {
    stream: ByteStream,
    abi: Abi,
    /// Bytes of the record last handed out, to be passed before the next one.
    pending: usize,
    unpacker: Option<Decoder<'static>>,
    /// A compressed record's content, and how much of it was unpacked.
    packed: Vec<u8>,
    packed_at: usize,
    /// Unpacked bytes, and how much of them was handed out. One stream of records spans all
    /// compressed records, so one may begin in a piece and end in the next.
    unpacked: Vec<u8>,
    unpacked_at: usize,
    ended: bool,
}

/// A record's place.
struct Place {
    kind: u32,
    unpacked: bool,
    body: std::ops::Range<usize>,
}

impl Records {
    pub(super) fn new(stream: ByteStream, abi: Abi) -> Records {
        Records {
            stream,
            abi,
            pending: 0,
            unpacker: None,
            packed: Vec::new(),
            packed_at: 0,
            unpacked: Vec::new(),
            unpacked_at: 0,
            ended: false,
        }
    }

    pub(super) fn progress_bytes(&self) -> (u64, u64) {
        self.stream.progress_bytes()
    }

    /// The next record, or `None` at the end or where nothing can be read any more, which is told
    /// in `quality`.
    pub(super) fn next(&mut self, quality: &mut Quality) -> Result<Option<Record<'_>>, TraceError> {
        let place = loop {
            if self.ended {
                return Ok(None);
            }
            if let Some(place) = self.next_unpacked(quality) {
                break place;
            }
            let Some(place) = self.next_in_stream(quality)? else {
                self.ended = true;
                continue;
            };
            match place.kind {
                kind::COMPRESSED | kind::COMPRESSED2 => self.start_unpacking(&place)?,
                kind::AUXTRACE => self.skip_auxtrace(&place)?,
                _ => break place,
            }
        };
        let bytes =
            if place.unpacked { &self.unpacked } else { self.stream.peek(place.body.end)? };
        Ok(bytes.get(place.body).map(|body| Record { kind: place.kind, body }))
    }

    /// What follows a record that announces bytes behind it; fewer than `length` at the end.
    pub(super) fn take_payload(&mut self, length: usize) -> Result<Vec<u8>, TraceError> {
        self.stream.consume(std::mem::take(&mut self.pending));
        let bytes = self.stream.peek(length)?;
        let payload = bytes[..length.min(bytes.len())].to_vec();
        self.stream.consume(payload.len());
        Ok(payload)
    }

    fn next_in_stream(&mut self, quality: &mut Quality) -> Result<Option<Place>, TraceError> {
        self.stream.consume(std::mem::take(&mut self.pending));
        let offset = self.stream.offset();
        let header = self.stream.peek(HEADER_BYTES)?;
        if header.is_empty() {
            return Ok(None);
        }
        let abi = self.abi;
        let (Some(kind), Some(size)) = (abi.u32_at(header, 0), abi.u16_at(header, 6)) else {
            note_truncated(offset, quality);
            return Ok(None);
        };
        let size = usize::from(size);
        if size < HEADER_BYTES {
            note_damage(format!("at byte {offset} a record of {size} bytes"), quality);
            return Ok(None);
        }
        if self.stream.peek(size)?.len() < size {
            note_truncated(offset, quality);
            return Ok(None);
        }
        self.pending = size;
        Ok(Some(Place { kind, unpacked: false, body: HEADER_BYTES..size }))
    }

    /// Hardware traces (Intel PT and the like) follow their record and are no part of its size.
    fn skip_auxtrace(&mut self, place: &Place) -> Result<(), TraceError> {
        let bytes = self.stream.peek(place.body.end)?;
        let length = self.abi.u64_at(bytes, place.body.start).unwrap_or(0);
        self.stream.consume(std::mem::take(&mut self.pending));
        self.stream.skip(length)?;
        Ok(())
    }

    fn start_unpacking(&mut self, place: &Place) -> Result<(), TraceError> {
        let abi = self.abi;
        let bytes = self.stream.peek(place.body.end)?;
        let mut packed = bytes.get(place.body.clone()).unwrap_or_default();
        if place.kind == kind::COMPRESSED2 {
            let length = abi.u64_at(packed, 0).unwrap_or(0);
            packed = packed.get(8..).unwrap_or_default();
            packed = &packed[..usize::try_from(length).unwrap_or(usize::MAX).min(packed.len())];
        }
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.packed_at = 0;
        Ok(())
    }

    /// The next record of the unpacked bytes, unpacking more while there is any.
    fn next_unpacked(&mut self, quality: &mut Quality) -> Option<Place> {
        loop {
            if let Some(place) = self.unpacked_record(quality) {
                return Some(place);
            }
            if self.packed_at >= self.packed.len() {
                return None;
            }
            if let Err(error) = self.unpack() {
                let message = format!("a compressed record ({error})");
                note_damage(message, quality);
                self.ended = true;
                return None;
            }
        }
    }

    fn unpacked_record(&mut self, quality: &mut Quality) -> Option<Place> {
        let bytes = self.unpacked.get(self.unpacked_at..)?;
        let kind = self.abi.u32_at(bytes, 0)?;
        let size = usize::from(self.abi.u16_at(bytes, 6)?);
        if size < HEADER_BYTES {
            note_damage(format!("among compressed ones a record of {size} bytes"), quality);
            self.unpacked.clear();
            self.packed.clear();
            self.ended = true;
            return None;
        }
        if bytes.len() < size {
            return None;
        }
        let start = self.unpacked_at;
        self.unpacked_at += size;
        Some(Place { kind, unpacked: true, body: start + HEADER_BYTES..start + size })
    }

    fn unpack(&mut self) -> std::io::Result<()> {
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            None => self.unpacker.insert(Decoder::new()?),
        };
        self.unpacked.drain(..self.unpacked_at);
        self.unpacked_at = 0;
        let kept = self.unpacked.len();
        self.unpacked.resize(kept + UNPACK_BYTES, 0);
        let mut input = InBuffer::around(&self.packed[self.packed_at..]);
        let mut output = OutBuffer::around(&mut self.unpacked[kept..]);
        let outcome = unpacker.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.truncate(kept + written);
        self.packed_at += read;
        outcome?;
        if read == 0 && written == 0 {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }
}

fn note_truncated(offset: u64, quality: &mut Quality) {
    quality.add(
        Severity::Error,
        "truncated",
        None,
        1,
        format!("the file ends inside a record that begins at byte {offset}; the rest is lost"),
    );
}

fn note_damage(what: String, quality: &mut Quality) {
    let message = format!("{what} is damaged; all events from there on are lost");
    quality.add(Severity::Error, "damaged_records", None, 1, message);
}

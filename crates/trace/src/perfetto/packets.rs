//! One `TracePacket` after another, without ever holding the whole `Trace` message.

use super::wire::{Fields, take_varint};
use crate::error::TraceError;
use crate::quality::{Quality, Severity};
use crate::stream::ByteStream;
use std::io::Read;

/// Larger packets are skipped unread. A tracer's bundles are well under a megabyte.
const PACKET_BYTES_MAX: usize = 16 << 20;

/// How far a marker is looked for behind damage: farther than any tracer writes between two.
const SEARCH_BYTES_MAX: u64 = 256 << 20;

/// A compressed group of packets may inflate to this much; a tracer packs at most 512 KiB.
const INFLATED_BYTES_MAX: u64 = 32 << 20;

/// `Trace.packet`, length-delimited: the tag that starts every packet.
const PACKET_TAG: u8 = 0x0a;

/// `TracePacket.compressed_packets`: deflate with a zlib header.
const COMPRESSED_PACKETS: u32 = 50;
/// `TracePacket.zstd_compressed_packets`.
const ZSTD_COMPRESSED_PACKETS: u32 = 133;

/// Last field of a packet that tracers write every few seconds, so that a reader finds its place
/// again (`kSyncMarker` of Perfetto's `tracing_service_impl.cc`).
const SYNC_MARKER: [u8; 16] = [
    0x82, 0x47, 0x7a, 0x76, 0xb2, 0x8d, 0x42, 0xba, 0x81, 0xdc, 0x33, 0x32, 0x6d, 0x57, 0xa0, 0x79,
];

/// The packets of a trace.
pub(super) struct PacketStream {
    stream: ByteStream,
    /// Bytes of the packet last handed out, to be passed before the next one.
    pending: usize,
    /// Inflated packets that come before the next one of the file.
    inflated: Vec<u8>,
    inflated_at: usize,
    truncated_told: bool,
}

/// Where the next packet lies.
enum Next {
    Stream(std::ops::Range<usize>),
    Inflated(std::ops::Range<usize>),
}

impl PacketStream {
    pub(super) fn new(stream: ByteStream) -> PacketStream {
        PacketStream {
            stream,
            pending: 0,
            inflated: Vec::new(),
            inflated_at: 0,
            truncated_told: false,
        }
    }

    pub(super) fn progress_bytes(&self) -> (u64, u64) {
        self.stream.progress_bytes()
    }

    /// The next packet's bytes, or `None` at the end. Compressed groups are taken apart; what is
    /// damaged is passed over and told in `quality`.
    pub(super) fn next(&mut self, quality: &mut Quality) -> Result<Option<&[u8]>, TraceError> {
        let next = loop {
            if let Some(range) = self.next_inflated(quality) {
                break Next::Inflated(range);
            }
            let Some(range) = self.next_in_stream(quality)? else { return Ok(None) };
            if !self.inflate(range.clone(), quality)? {
                break Next::Stream(range);
            }
        };
        Ok(Some(match next {
            Next::Stream(range) => &self.stream.peek(range.end)?[range],
            Next::Inflated(range) => &self.inflated[range],
        }))
    }

    fn next_inflated(&mut self, quality: &mut Quality) -> Option<std::ops::Range<usize>> {
        let bytes = self.inflated.get(self.inflated_at..).filter(|bytes| !bytes.is_empty())?;
        let mut rest = bytes;
        let length = match packet_length(&mut rest) {
            Some(length) if length <= rest.len() as u64 => length as usize,
            _ => {
                self.inflated.clear();
                quality.add(
                    Severity::Error,
                    "damaged_packets",
                    None,
                    1,
                    "bytes that are no Perfetto packets were passed over; events are missing",
                );
                return None;
            }
        };
        let start = self.inflated.len() - rest.len();
        self.inflated_at = start + length;
        Some(start..start + length)
    }

    /// The place of the next packet relative to the stream's position.
    fn next_in_stream(
        &mut self,
        quality: &mut Quality,
    ) -> Result<Option<std::ops::Range<usize>>, TraceError> {
        self.stream.consume(std::mem::take(&mut self.pending));
        loop {
            let head = self.stream.peek(1 + 10)?;
            if head.is_empty() {
                self.tell_stream_damage(quality);
                return Ok(None);
            }
            let mut rest = head;
            let Some(length) = packet_length(&mut rest) else {
                if !self.resynchronise(quality)? {
                    return Ok(None);
                }
                continue;
            };
            let start = head.len() - rest.len();
            let Some(length) = usize::try_from(length).ok().filter(|&l| l <= PACKET_BYTES_MAX)
            else {
                if !self.skip_oversized(length.saturating_add(start as u64), quality)? {
                    return Ok(None);
                }
                continue;
            };
            if self.stream.peek(start + length)?.len() < start + length {
                self.tell_truncated(quality);
                return Ok(None);
            }
            self.pending = start + length;
            return Ok(Some(start..start + length));
        }
    }

    fn skip_oversized(&mut self, length: u64, quality: &mut Quality) -> Result<bool, TraceError> {
        quality.add(
            Severity::Warning,
            "oversized_packets",
            None,
            1,
            "packets of more than 16 MiB were skipped; events in them are missing",
        );
        let complete = self.stream.skip(length)?;
        if !complete {
            self.tell_truncated(quality);
        }
        Ok(complete)
    }

    fn tell_truncated(&mut self, quality: &mut Quality) {
        self.tell_stream_damage(quality);
        if !self.truncated_told {
            self.truncated_told = true;
            quality.add(
                Severity::Error,
                "truncated",
                None,
                1,
                format!(
                    "the file ends inside a packet that begins at byte {}; what followed is lost",
                    self.stream.offset()
                ),
            );
        }
    }

    fn tell_stream_damage(&mut self, quality: &mut Quality) {
        if let Some(damage) = self.stream.damage() {
            let message = format!("the gzip stream is damaged ({damage}); the rest is lost");
            quality.add(Severity::Error, "damaged_gzip", None, 1, message);
        }
    }

    /// Passes over what is no packet, up to behind the next synchronisation marker.
    fn resynchronise(&mut self, quality: &mut Quality) -> Result<bool, TraceError> {
        const WINDOW: usize = 256 * 1024;
        let from = self.stream.offset();
        let finder = memchr::memmem::Finder::new(&SYNC_MARKER);
        let found = loop {
            let window = self.stream.peek(WINDOW)?;
            if let Some(at) = finder.find(window) {
                self.stream.consume(at + SYNC_MARKER.len());
                break true;
            }
            let length = window.len();
            self.stream.consume(length - length.min(SYNC_MARKER.len() - 1));
            if length < WINDOW || self.stream.offset() - from > SEARCH_BYTES_MAX {
                self.stream.consume(length.min(SYNC_MARKER.len() - 1));
                break false;
            }
        };
        let passed = self.stream.offset() - from;
        quality.add(
            Severity::Error,
            "damaged_packets",
            None,
            passed,
            format!(
                "bytes from byte {from} on are no Perfetto packets; reading {}; events are missing",
                if found {
                    "went on at the next marker"
                } else {
                    "ended there, as no marker follows"
                }
            ),
        );
        Ok(found)
    }

    /// True if the packet is a compressed group, whose packets then come next.
    fn inflate(
        &mut self,
        range: std::ops::Range<usize>,
        quality: &mut Quality,
    ) -> Result<bool, TraceError> {
        let packet = &self.stream.peek(range.end)?[range];
        let Some((number, bytes)) = Fields::new(packet)
            .find(|(number, _)| matches!(*number, COMPRESSED_PACKETS | ZSTD_COMPRESSED_PACKETS))
            .map(|(number, value)| (number, value.bytes()))
        else {
            return Ok(false);
        };
        self.inflated.clear();
        self.inflated_at = 0;
        let outcome = if number == COMPRESSED_PACKETS {
            flate2::read::ZlibDecoder::new(bytes)
                .take(INFLATED_BYTES_MAX + 1)
                .read_to_end(&mut self.inflated)
        } else {
            zstd::stream::read::Decoder::with_buffer(bytes).and_then(|decoder| {
                decoder.take(INFLATED_BYTES_MAX + 1).read_to_end(&mut self.inflated)
            })
        };
        if outcome.is_err() || self.inflated.len() as u64 > INFLATED_BYTES_MAX {
            quality.add(
                Severity::Error,
                "damaged_compression",
                None,
                1,
                "compressed packets could not be inflated in full; events are missing",
            );
        }
        Ok(true)
    }
}

/// Takes a packet's tag and length off `bytes`.
fn packet_length(bytes: &mut &[u8]) -> Option<u64> {
    let [PACKET_TAG, rest @ ..] = *bytes else { return None };
    *bytes = rest;
    take_varint(bytes)
}

/// Whether a file that begins with `head` looks like a Perfetto trace: a first packet with
/// fields that packets have, and a second one after it where `head` reaches that far.
pub(super) fn sniff(head: &[u8]) -> bool {
    let mut rest = head;
    let Some(length) = packet_length(&mut rest) else { return false };
    let Some(packet) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
        return length <= PACKET_BYTES_MAX as u64 && begins_like_a_packet(length, rest);
    };
    let after = rest.get(packet.len()).copied();
    let mut fields = Fields::new(packet);
    let known = fields.by_ref().all(|(number, _)| number < 1 << 16);
    known && !fields.damaged() && length > 0 && after.is_none_or(|tag| tag == PACKET_TAG)
}

/// For a packet of `length` bytes of which only `bytes` were read: whether its first field is one
/// that long packets begin with, and fits in.
fn begins_like_a_packet(length: u64, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let first = take_varint(&mut rest).zip(take_varint(&mut rest));
    let Some((tag, value)) = first else { return false };
    match (tag & 7, tag >> 3) {
        // Ftrace bundles, process trees and compressed groups grow this long.
        (2, 1 | 2 | 50 | 133) => value < length,
        // The sequence, user, process, flags and time that writers put first.
        (0, 3 | 8 | 10 | 13 | 42 | 58 | 79 | 87) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use std::io::Write;

    fn packets(bytes: Vec<u8>) -> (Vec<Vec<u8>>, Quality) {
        let stream = ByteStream::new(Input::from_bytes("test", bytes)).unwrap();
        let mut packets = PacketStream::new(stream);
        let (mut quality, mut seen) = (Quality::default(), Vec::new());
        while let Some(packet) = packets.next(&mut quality).unwrap() {
            seen.push(packet.to_vec());
        }
        (seen, quality)
    }

    fn delimited(tag: &[u8], bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128);
        [tag, &[bytes.len() as u8], bytes].concat()
    }

    fn codes(quality: &Quality) -> Vec<&'static str> {
        quality.findings().iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn compressed_groups_are_taken_apart_in_place() {
        let inner = [delimited(&[0x0a], &[0x50, 1]), delimited(&[0x0a], &[0x50, 2])].concat();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&inner).unwrap();
        let zlib = delimited(&[0x92, 0x03], &zlib.finish().unwrap());
        let zstd = delimited(&[0xaa, 0x08], &zstd::encode_all(&inner[..], 1).unwrap());
        let file =
            [delimited(&[0x0a], &zlib), delimited(&[0x0a], &zstd), delimited(&[0x0a], &[0x50, 3])];
        let (seen, quality) = packets(file.concat());
        assert_eq!(seen, [[0x50, 1], [0x50, 2], [0x50, 1], [0x50, 2], [0x50, 3]]);
        assert!(quality.findings().is_empty());
    }

    #[test]
    fn reading_goes_on_behind_the_next_marker() {
        let marker = delimited(&[0x0a], &delimited(&[0xa2, 0x02], &SYNC_MARKER));
        let mut file = delimited(&[0x0a], &[0x50, 1]);
        file.extend([0xff; 100_000]);
        file.extend(marker);
        file.extend(delimited(&[0x0a], &[0x50, 2]));
        let (seen, quality) = packets(file);
        assert_eq!(seen, [[0x50, 1], [0x50, 2]]);
        assert_eq!(codes(&quality), ["damaged_packets"]);
    }

    #[test]
    fn a_declared_length_is_not_believed() {
        let mut file = delimited(&[0x0a], &[0x50, 1]);
        file.extend([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3]);
        let (seen, quality) = packets(file);
        assert_eq!(seen, [[0x50, 1]]);
        assert_eq!(codes(&quality), ["oversized_packets", "truncated"]);

        let (seen, quality) = packets(vec![0x0a, 0x05, 0x50]);
        assert!(seen.is_empty());
        assert_eq!(codes(&quality), ["truncated"]);
    }

    #[test]
    fn text_is_no_perfetto_trace() {
        assert!(sniff(&[0x0a, 2, 0x50, 1, 0x0a]));
        assert!(!sniff(&[0x0a, 2, 0x50, 1, 0x0b]));
        assert!(!sniff(b"\n# tracer: nop\n#\n"));
        assert!(!sniff(b"\n\n\n"));
        assert!(!sniff(b""));
    }
}

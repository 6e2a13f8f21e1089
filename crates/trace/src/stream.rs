//! Forward reading in bounded memory: a window over the input that grows with the bytes that
//! really arrive, never with a length that the file declares.

use crate::error::TraceError;
use crate::input::{Input, InputReader};
use flate2::read::MultiGzDecoder;
use std::io::{Read, Take};

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The first two bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A file, or a gzip file's content, from front to back.
pub(crate) struct ByteStream {
    input: Input,
    source: Source,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `buffer[start]` in the (inflated) content.
    offset: u64,
    damage: Option<String>,
    ended: bool,
}

enum Source {
    Plain(Take<InputReader>),
    Gzip(Box<MultiGzDecoder<InputReader>>),
}

impl ByteStream {
    /// From the input's beginning; gzip is unwrapped by its first bytes.
    pub(crate) fn new(input: Input) -> Result<ByteStream, TraceError> {
        let source = if input.bytes_at(0, GZIP_MAGIC.len())? == GZIP_MAGIC {
            Source::Gzip(Box::new(MultiGzDecoder::new(input.reader())))
        } else {
            Source::Plain(input.reader().take(u64::MAX))
        };
        Ok(Self::of(input, source, 0))
    }

    /// The plain bytes from `start` up to `end`.
    pub(crate) fn within(input: Input, start: u64, end: u64) -> ByteStream {
        let mut reader = input.reader();
        reader.set_position(start);
        Self::of(input, Source::Plain(reader.take(end.saturating_sub(start))), start)
    }

    fn of(input: Input, source: Source, offset: u64) -> ByteStream {
        ByteStream {
            input,
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset,
            damage: None,
            ended: false,
        }
    }

    /// The bytes from here on: at least `want` of them, or fewer where the input ends first.
    pub(crate) fn peek(&mut self, want: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < want && !self.ended {
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn read_more(&mut self) -> Result<(), TraceError> {
        if self.buffer.len() - self.end < CHUNK_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            self.buffer.resize(self.end + CHUNK_BYTES.max(self.end), 0);
        }
        let space = &mut self.buffer[self.end..];
        let outcome = match &mut self.source {
            Source::Plain(reader) => {
                reader.read(space).map_err(|source| self.input.io_error(source))?
            }
            Source::Gzip(reader) => reader.read(space).unwrap_or_else(|error| {
                self.damage = Some(error.to_string());
                0
            }),
        };
        self.end += outcome;
        self.ended = outcome == 0;
        Ok(())
    }

    /// Moves on by `count` bytes, which the last [`ByteStream::peek`] must have shown.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Moves on by `count` bytes that need not be in memory; false where the input ends first.
    pub(crate) fn skip(&mut self, mut count: u64) -> Result<bool, TraceError> {
        while count > 0 {
            let here = self.peek(1)?.len();
            if here == 0 {
                return Ok(false);
            }
            let step = usize::try_from(count).map_or(here, |count| count.min(here));
            self.consume(step);
            count -= step as u64;
        }
        Ok(true)
    }

    /// Bytes passed so far, counted in the inflated content.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// What the decompressor complained of, if it did; reading ended there.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Bytes of the file itself: read, and in all.
    pub(crate) fn progress_bytes(&self) -> (u64, u64) {
        let total = self.input.length();
        let read = match &self.source {
            Source::Plain(_) => self.offset,
            Source::Gzip(reader) => reader.get_ref().position(),
        };
        (read.min(total), total)
    }
}

/// What a gzip file that begins with `head` unfolds to, as far as `head` tells; any other head as
/// it is.
pub(crate) fn inflated_head(head: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if !head.starts_with(&GZIP_MAGIC) {
        return head.into();
    }
    let mut inflated = Vec::new();
    // The head is cut somewhere, so an error at its end is expected; what came before counts.
    let _cut = MultiGzDecoder::new(head).take(4096).read_to_end(&mut inflated);
    inflated.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn stream(bytes: Vec<u8>) -> ByteStream {
        ByteStream::new(Input::from_bytes("test", bytes)).unwrap()
    }

    #[test]
    fn windows_slide_over_inputs_larger_than_a_chunk() {
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|i| (i / 251) as u8).collect();
        let mut stream = stream(bytes.clone());
        let mut seen = Vec::new();
        while !stream.peek(1000).unwrap().is_empty() {
            let window = stream.peek(1000).unwrap();
            let take = window.len().min(1000);
            seen.extend_from_slice(&window[..take]);
            stream.consume(take);
        }
        assert_eq!(seen, bytes);
        assert_eq!(stream.offset(), bytes.len() as u64);
    }

    #[test]
    fn a_huge_wish_costs_no_memory() {
        let mut stream = stream(vec![1, 2, 3]);
        assert_eq!(stream.peek(usize::MAX / 2).unwrap(), [1, 2, 3]);
        assert!(stream.buffer.len() <= 4 * CHUNK_BYTES);
        assert!(!stream.skip(u64::MAX).unwrap());
        assert_eq!(stream.progress_bytes(), (3, 3));
    }

    #[test]
    fn gzip_is_unwrapped_and_its_damage_told() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&[7; 10_000]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(stream(packed.clone()).peek(20_000).unwrap(), [7; 10_000]);

        assert_eq!(*inflated_head(&packed[..packed.len() - 9]), [7; 4096]);
        assert_eq!(*inflated_head(b"plain"), *b"plain");

        let mut cut = stream(packed[..packed.len() / 2].to_vec());
        assert!(cut.peek(20_000).unwrap().len() < 10_001);
        assert!(cut.damage().is_some());
    }
}

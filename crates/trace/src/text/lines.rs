//! Lines out of a byte stream, in constant memory whatever the input holds.

use memchr::memchr;
use std::io::{self, Read};

/// The longest line that is handed out. The kernel's own trace lines end at one page; HTML traces
/// hold minified scripts of any length, which nobody needs.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

const BUFFER_BYTES: usize = 256 << 10;

/// One line, without its line feed and a carriage return before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The content; empty when `oversized`.
    pub(super) bytes: &'a [u8],
    /// False for the last line of a file that does not end in a line feed.
    pub(super) terminated: bool,
    /// Longer than [`LINE_BYTES_MAX`]: its content was skipped.
    pub(super) oversized: bool,
}

/// Reads lines through one buffer of fixed size.
pub(super) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    at_end: bool,
    consumed_bytes: u64,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { input, buffer, start: 0, end: 0, at_end: false, consumed_bytes: 0, number: 0 }
    }

    /// Bytes of the lines handed out so far, line feeds included.
    pub(super) fn consumed_bytes(&self) -> u64 {
        self.consumed_bytes
    }

    /// Number of the line handed out last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or `None` at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut oversized = false;
        let mut searched = 0;
        loop {
            let found = memchr(b'\n', &self.buffer[self.start + searched..self.end]);
            if let Some(offset) = found {
                let length = searched + offset;
                let oversized = oversized || length > LINE_BYTES_MAX;
                return Ok(Some(self.take(length, true, oversized)));
            }
            searched = self.end - self.start;
            if searched > LINE_BYTES_MAX {
                oversized = true;
                self.discard(searched);
                searched = 0;
            }
            if self.at_end {
                if searched == 0 && !oversized {
                    return Ok(None);
                }
                return Ok(Some(self.take(searched, false, oversized)));
            }
            self.fill()?;
        }
    }

    fn take(&mut self, length: usize, terminated: bool, oversized: bool) -> Line<'_> {
        let from = self.start;
        self.discard(length + usize::from(terminated));
        self.number += 1;
        let mut bytes = if oversized { &[][..] } else { &self.buffer[from..from + length] };
        if let [rest @ .., b'\r'] = bytes {
            bytes = rest;
        }
        Line { bytes, terminated, oversized }
    }

    fn discard(&mut self, bytes: usize) {
        self.start += bytes;
        self.consumed_bytes += bytes as u64;
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // What is kept is at most one line of legal length, so there is always room to read into.
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one byte at a time, so that every boundary falls everywhere.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            into[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn all(input: impl Read) -> Vec<(Vec<u8>, bool, bool)> {
        let mut lines = Lines::new(input);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().expect("memory does not fail") {
            seen.push((line.bytes.to_vec(), line.terminated, line.oversized));
        }
        seen
    }

    #[test]
    fn lines_end_at_line_feeds_wherever_the_reads_end() {
        let expected = vec![
            (b"one".to_vec(), true, false),
            (Vec::new(), true, false),
            (b"two".to_vec(), true, false),
            (b"cut".to_vec(), false, false),
        ];
        assert_eq!(all(&b"one\n\ntwo\r\ncut"[..]), expected);
        assert_eq!(all(Trickle(b"one\n\ntwo\r\ncut")), expected);
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_one_read() {
        for length in [LINE_BYTES_MAX + 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 7] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nnext\n");
            let expected = vec![(Vec::new(), true, true), (b"next".to_vec(), true, false)];
            assert_eq!(all(&text[..]), expected, "{length}");
        }
        assert_eq!(all(&vec![b'x'; BUFFER_BYTES][..]), [(Vec::new(), false, true)]);
        let longest = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(all(&longest[..]), [(longest.clone(), false, false)]);
    }

    #[test]
    fn bytes_and_numbers_are_counted() {
        let mut lines = Lines::new(&b"one\ntwo"[..]);
        assert!(lines.next().expect("reads").is_some());
        assert_eq!((lines.consumed_bytes(), lines.number()), (4, 1));
        assert!(lines.next().expect("reads").is_some());
        assert_eq!((lines.consumed_bytes(), lines.number()), (7, 2));
        assert!(lines.next().expect("reads").is_none());
    }
}

//! The kernel's ring-buffer pages (`kernel/trace/ring_buffer.c`), as `trace_pipe_raw` hands them
//! out: a time stamp, a commit word, then entries of a 5-bit type, a 27-bit time delta and data.

use crate::format::Abi;

/// Bits of the commit word: the length of the data; then, above it, flags of the reader.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;

/// An absolute time stamp holds 59 bits; the upper five come from the time before it.
const ABSOLUTE_BITS: u32 = 59;
const ABSOLUTE_MASK: u64 = (1 << ABSOLUTE_BITS) - 1;

/// How a kernel lays out a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageLayout {
    /// The kernel's byte order and word size; the commit word is a kernel `long`.
    pub(super) abi: Abi,
    /// Where entries start: 16, or 12 on 32-bit kernels.
    pub(super) data_offset: usize,
}

/// Events that were dropped before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    Counted(u64),
    Uncounted,
}

/// A place among the entries of one page, which lies somewhere in a window of bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageCursor {
    position: usize,
    end: usize,
    timestamp: u64,
}

/// A page that is about to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenedPage {
    pub(super) cursor: PageCursor,
    pub(super) missed: Option<Missed>,
    /// The commit word announces more data than the page holds.
    pub(super) overlong: bool,
}

/// What comes next on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A record's bytes in the window. Its time is [`PageCursor::timestamp`].
    Record { start: usize, end: usize },
    /// The page is done.
    End,
    /// An entry reaches past the page's data: what follows is lost.
    Damaged,
}

impl PageCursor {
    /// Reads the header of the page at `start..end` of the window; `None` where not even the
    /// header fits.
    pub(super) fn open(
        window: &[u8],
        start: usize,
        end: usize,
        layout: PageLayout,
    ) -> Option<OpenedPage> {
        let page = window.get(start..end)?;
        let timestamp = layout.abi.u64_at(page, 0)?;
        let commit = layout.abi.long_at(page, 8)?;
        let capacity = page.len().checked_sub(layout.data_offset)?;
        let committed = (commit & COMMIT_MASK) as usize;
        let length = committed.min(capacity);
        let missed = (commit & MISSED_EVENTS != 0).then(|| {
            let stored = commit & MISSED_STORED != 0;
            let place = layout.data_offset + length;
            match layout.abi.long_at(page, place).filter(|_| stored) {
                Some(count) => Missed::Counted(count),
                None => Missed::Uncounted,
            }
        });
        let position = start + layout.data_offset;
        let cursor = PageCursor { position, end: position + length, timestamp };
        Some(OpenedPage { cursor, missed, overlong: committed > capacity })
    }

    /// Time of the entry that the last step went over, in units of the trace clock.
    #[inline]
    pub(super) fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Goes to the next record.
    #[inline]
    pub(super) fn step(&mut self, window: &[u8], abi: Abi) -> Step {
        let Some(entries) = window.get(..self.end) else { return Step::Damaged };
        loop {
            if self.position >= self.end {
                return Step::End;
            }
            let Some(word) = abi.u32_at(entries, self.position) else { return Step::Damaged };
            let (kind, delta) = if abi.big_endian {
                (word >> DELTA_BITS, word & ((1 << DELTA_BITS) - 1))
            } else {
                (word & 31, word >> 5)
            };
            let delta = u64::from(delta);
            let body = self.position + 4;
            if kind != 0 && kind < TYPE_PADDING {
                let end = body + kind as usize * 4;
                if end > self.end {
                    return Step::Damaged;
                }
                self.timestamp = self.timestamp.wrapping_add(delta);
                self.position = end;
                return Step::Record { start: body, end };
            }
            let Some(second) = abi.u32_at(entries, body) else {
                // A null entry may be the page's last word.
                let null = kind == TYPE_PADDING && delta == 0;
                return if null { Step::End } else { Step::Damaged };
            };
            match kind {
                TYPE_TIME_EXTEND => {
                    let extended = (u64::from(second) << DELTA_BITS) + delta;
                    self.timestamp = self.timestamp.wrapping_add(extended);
                    self.position = body + 4;
                }
                TYPE_TIME_STAMP => {
                    let absolute = ((u64::from(second) << DELTA_BITS) + delta) & ABSOLUTE_MASK;
                    let mut time = (self.timestamp & !ABSOLUTE_MASK) | absolute;
                    if time < self.timestamp && self.timestamp - time > ABSOLUTE_MASK / 2 {
                        time = time.wrapping_add(1 << ABSOLUTE_BITS);
                    }
                    self.timestamp = time;
                    self.position = body + 4;
                }
                // Padding without a delta ends the page; with one it is a discarded record.
                TYPE_PADDING if delta == 0 => return Step::End,
                TYPE_PADDING => {
                    self.timestamp = self.timestamp.wrapping_add(delta);
                    self.position = body.saturating_add(second as usize);
                }
                // A record too long for the type field: its length, itself included, comes first.
                _ => {
                    let Some(length) = (second as usize).checked_sub(4) else {
                        return Step::Damaged;
                    };
                    let start = body + 4;
                    let end = start.saturating_add(length.next_multiple_of(4));
                    if end > self.end {
                        return Step::Damaged;
                    }
                    self.timestamp = self.timestamp.wrapping_add(delta);
                    self.position = end;
                    return Step::Record { start, end };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { abi: Abi::LITTLE_64, data_offset: 16 };

    fn page(commit_flags: u64, words: &[u32], tail: &[u8]) -> Vec<u8> {
        let mut page = 1_000_u64.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | commit_flags).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.extend(tail);
        page
    }

    fn records(page: &[u8]) -> (Vec<(u64, usize)>, Step) {
        let mut cursor = PageCursor::open(page, 0, page.len(), LAYOUT).unwrap().cursor;
        let mut found = Vec::new();
        loop {
            match cursor.step(page, LAYOUT.abi) {
                Step::Record { start, end } => found.push((cursor.timestamp(), end - start)),
                last => return (found, last),
            }
        }
    }

    #[test]
    fn all_kinds_of_entries() {
        let words = [
            (5 << 5) | 1,
            0xaaaa_aaaa, // a record of one word, 5 later
            30 | (3 << 5),
            1, // time extend by 1 << 27 plus 3
            1 << 5,
            12,
            1,
            2, // a long record of 8 bytes
            29 | (1 << 5),
            4, // a discarded record of one word
            31 | (7 << 5),
            2, // absolute: 2 << 27 plus 7
            1,
            0,  // a record of one word
            29, // nothing more
        ];
        let expected = [(1005, 4), (1005 + (1 << 27) + 4, 8), ((2 << 27) + 7, 4)];
        assert_eq!(records(&page(0, &words, &[])), (expected.to_vec(), Step::End));
    }

    #[test]
    fn the_upper_bits_of_absolute_time_stay() {
        let mut bytes = page(0, &[31 | (7 << 5), 2, 1, 0], &[]);
        bytes[..8].copy_from_slice(&((3_u64 << 59) + 5).to_le_bytes());
        assert_eq!(records(&bytes).0, [((3 << 59) + (2 << 27) + 7, 4)]);
    }

    #[test]
    fn entries_past_the_data_are_damage() {
        assert_eq!(records(&page(0, &[28 | (1 << 5), 0], &[])).1, Step::Damaged);
        assert_eq!(records(&page(0, &[0, 3], &[])).1, Step::Damaged);
        assert_eq!(records(&page(0, &[0, u32::MAX], &[])).1, Step::Damaged);
        assert_eq!(records(&page(0, &[30], &[])).1, Step::Damaged);
        assert_eq!(records(&page(0, &[29 | (1 << 5), u32::MAX], &[])).1, Step::End);
    }

    #[test]
    fn missed_events() {
        let open = |page: &[u8]| PageCursor::open(page, 0, page.len(), LAYOUT).unwrap();
        let counted = page(MISSED_EVENTS | MISSED_STORED, &[1, 0], &77_u64.to_le_bytes());
        assert_eq!(open(&counted).missed, Some(Missed::Counted(77)));
        let uncounted = page(MISSED_EVENTS, &[1, 0], &77_u64.to_le_bytes());
        assert_eq!(open(&uncounted).missed, Some(Missed::Uncounted));
        assert!(open(&page(4096, &[1, 0], &[])).overlong);
    }
}

//! One CPU of one buffer: its records in the order of recording, through a window that moves over
//! the file.

use super::clock::Clock;
use super::compression::Decompressor;
use super::page::{Missed, PageCursor, PageLayout, Step};
use crate::input::Input;
use crate::quality::{Quality, Severity};
use schedlab_machine::CpuId;

/// Uncompressed pages are read this many bytes at a time, if there are few CPUs.
const WINDOW_BYTES_MAX: usize = 512 << 10;
/// Chunks of compressed pages are not longer than this; trace-cmd makes them of ten pages.
const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// All windows together hold no more than this.
const WINDOWS_BYTES_MAX: usize = 512 << 20;

/// What the streams of a file share.
pub(super) struct Shared {
    pub(super) input: Input,
    pub(super) clock: Clock,
    pub(super) layout: PageLayout,
    pub(super) decompressor: Option<Decompressor>,
    pub(super) quality: Quality,
    pub(super) lost_events: u64,
    /// Bytes of the file that were read.
    pub(super) consumed_bytes: u64,
    /// Bytes that all windows hold.
    window_bytes: usize,
    /// Bytes of one window of uncompressed pages.
    window_goal: usize,
    packed: Vec<u8>,
}

impl Shared {
    /// For so many streams.
    pub(super) fn new(
        input: Input,
        clock: Clock,
        layout: PageLayout,
        decompressor: Option<Decompressor>,
        quality: Quality,
        streams: usize,
    ) -> Shared {
        Shared {
            input,
            clock,
            layout,
            decompressor,
            quality,
            lost_events: 0,
            consumed_bytes: 0,
            window_bytes: 0,
            window_goal: (WINDOWS_BYTES_MAX / 8 / streams.max(1)).min(WINDOW_BYTES_MAX),
            packed: Vec::new(),
        }
    }

    fn note(
        &mut self,
        cpu: CpuId,
        severity: Severity,
        code: &'static str,
        count: u64,
        text: String,
    ) {
        self.quality.add(severity, code, Some(cpu), count, text);
    }
}

/// Where the next bytes of a stream come from.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// Pages as they are.
    Pages { offset: u64, length: u64 },
    /// So many chunks of compressed pages, ending at `end`.
    Chunks { offset: u64, end: u64, count: u32 },
}

/// The records of one CPU of one buffer. After [`Stream::advance`] said `true`, the record, its
/// time and what was lost before it can be asked for.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) cpu: CpuId,
    page_bytes: usize,
    rest: Rest,
    window: Vec<u8>,
    /// Where the next page begins in the window.
    next_page: usize,
    page: PageCursor,
    record: (usize, usize),
    time_ns: u64,
    lost: Option<u64>,
}

impl Stream {
    pub(super) fn pages(cpu: CpuId, page_bytes: usize, offset: u64, length: u64) -> Stream {
        Self::new(cpu, page_bytes, Rest::Pages { offset, length })
    }

    pub(super) fn chunks(cpu: CpuId, page_bytes: usize, offset: u64, length: u64) -> Stream {
        // trace-cmd leaves the count of chunks, 4 bytes, out of the length.
        let end = offset.saturating_add(length).saturating_add(4);
        // The count of chunks is read when the first is due: `u32::MAX` stands for "not yet".
        Self::new(cpu, page_bytes, Rest::Chunks { offset, end, count: u32::MAX })
    }

    fn new(cpu: CpuId, page_bytes: usize, rest: Rest) -> Stream {
        Stream {
            cpu,
            page_bytes,
            rest,
            window: Vec::new(),
            next_page: 0,
            page: PageCursor::default(),
            record: (0, 0),
            time_ns: 0,
            lost: None,
        }
    }

    /// Time of the record, ns.
    #[inline]
    pub(super) fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// Bytes of the record.
    #[inline]
    pub(super) fn record(&self) -> &[u8] {
        self.window.get(self.record.0..self.record.1).unwrap_or(&[])
    }

    /// How many events were dropped just before the record, if any were; 0 if uncounted. Told
    /// once.
    #[inline]
    pub(super) fn take_lost(&mut self) -> Option<u64> {
        self.lost.take()
    }

    /// Goes to the next record. `false` at the end.
    #[inline]
    pub(super) fn advance(&mut self, shared: &mut Shared) -> bool {
        loop {
            match self.page.step(&self.window, shared.layout.abi) {
                Step::Record { start, end } => {
                    self.record = (start, end);
                    self.time_ns =
                        shared.clock.nanoseconds(self.page.timestamp(), self.cpu.index());
                    return true;
                }
                Step::End => {}
                Step::Damaged => self.note_damaged_page(shared),
            }
            if !self.open_page(shared) {
                return false;
            }
        }
    }

    #[cold]
    fn note_damaged_page(&mut self, shared: &mut Shared) {
        shared.note(
            self.cpu,
            Severity::Error,
            "damaged_page",
            1,
            "a ring-buffer page is damaged: its events from there on are lost, and with them what \
             the CPU did"
                .to_owned(),
        );
        self.lost.get_or_insert(0);
        self.page = PageCursor::default();
    }

    /// Opens the next page. `false` if there is none.
    fn open_page(&mut self, shared: &mut Shared) -> bool {
        while self.next_page >= self.window.len() {
            if !self.fill(shared) {
                return false;
            }
        }
        let start = self.next_page;
        let end = start.saturating_add(self.page_bytes).min(self.window.len());
        self.next_page = end;
        match PageCursor::open(&self.window, start, end, shared.layout) {
            Some(page) => {
                self.page = page.cursor;
                if page.overlong {
                    self.note_damaged_or_cut(end - start, shared);
                }
                if let Some(missed) = page.missed {
                    self.note_missed(missed, shared);
                }
            }
            None => self.note_damaged_or_cut(end - start, shared),
        }
        true
    }

    /// A page that announces more data than there is: of full size, it is damaged throughout;
    /// the last one of a file that was cut off still has good entries.
    fn note_damaged_or_cut(&mut self, length: usize, shared: &mut Shared) {
        if length >= self.page_bytes {
            self.note_damaged_page(shared);
        }
    }

    fn note_missed(&mut self, missed: Missed, shared: &mut Shared) {
        match missed {
            Missed::Counted(count) => {
                shared.lost_events = shared.lost_events.saturating_add(count);
                let known = self.lost.unwrap_or(0);
                self.lost = Some(known.saturating_add(count));
                shared.note(
                    self.cpu,
                    Severity::Warning,
                    "lost_events",
                    count,
                    "the tracer dropped events: latencies, run and idle times across the gaps are \
                     unknown"
                        .to_owned(),
                );
            }
            Missed::Uncounted => {
                self.lost.get_or_insert(0);
                shared.note(
                    self.cpu,
                    Severity::Warning,
                    "lost_events_uncounted",
                    1,
                    "the tracer dropped events without saying how many: `lost_events` is too low, \
                     and times across the gaps are unknown"
                        .to_owned(),
                );
            }
        }
    }

    /// Reads the next pages into the window, which may leave it empty. `false` at the end.
    #[cold]
    fn fill(&mut self, shared: &mut Shared) -> bool {
        self.next_page = 0;
        self.page = PageCursor::default();
        shared.window_bytes -= self.window.capacity();
        let more = match self.rest {
            Rest::Pages { offset, length } => self.read_pages(offset, length, shared),
            Rest::Chunks { offset, end, count } => self.read_chunk(offset, end, count, shared),
        };
        if !more {
            self.window = Vec::new();
        }
        shared.window_bytes += self.window.capacity();
        more
    }

    fn read_pages(&mut self, offset: u64, length: u64, shared: &mut Shared) -> bool {
        let pages = (shared.window_goal / self.page_bytes).max(1);
        let wanted = (pages * self.page_bytes).min(usize::try_from(length).unwrap_or(usize::MAX));
        if wanted == 0 || !self.has_room(wanted, shared) {
            return false;
        }
        self.window.resize(wanted, 0);
        let filled = match shared.input.read_at(offset, &mut self.window) {
            Ok(filled) => filled,
            Err(error) => {
                self.note_unreadable(offset, &error.to_string(), shared);
                return false;
            }
        };
        self.window.truncate(filled);
        shared.consumed_bytes += filled as u64;
        let rest = length - filled as u64;
        if filled < wanted {
            self.note_truncated(rest, shared);
            self.rest = Rest::Pages { offset, length: 0 };
            return filled > 0;
        }
        self.rest = Rest::Pages { offset: offset + filled as u64, length: rest };
        true
    }

    fn read_chunk(&mut self, offset: u64, end: u64, count: u32, shared: &mut Shared) -> bool {
        let mut head = [0; 12];
        let first = count == u32::MAX;
        if count == 0 || offset >= end {
            return false;
        }
        let abi = shared.layout.abi;
        let skip = if first { 4 } else { 0 };
        let filled = shared.input.read_at(offset, &mut head[..skip + 8]).unwrap_or(0);
        if first && filled >= 4 && abi.u32_at(&head, 0) == Some(0) {
            return false;
        }
        let lengths = (filled == skip + 8)
            .then(|| Some((abi.u32_at(&head, skip)?, abi.u32_at(&head, skip + 4)?)))
            .flatten();
        let Some((packed_length, length)) = lengths else {
            self.note_truncated(end - offset, shared);
            return false;
        };
        let left = if first { abi.u32_at(&head, 0).unwrap_or(1) } else { count } - 1;
        let start = offset + skip as u64 + 8;
        let next = start.saturating_add(u64::from(packed_length));
        self.rest = Rest::Chunks { offset: next, end, count: left };
        if next > end || length == 0 || length > CHUNK_BYTES_MAX {
            self.note_unreadable(offset, "no compressed chunk is there", shared);
            return false;
        }
        let mut packed = std::mem::take(&mut shared.packed);
        let unpacked = self.unpack(start, packed_length, length, &mut packed, shared);
        shared.packed = packed;
        shared.consumed_bytes += next - offset;
        match unpacked {
            Ok(()) => true,
            // The chunks after it stand alone.
            Err(Broken::Content(what)) => {
                self.note_unreadable(offset, &what, shared);
                self.window.clear();
                self.lost.get_or_insert(0);
                true
            }
            Err(Broken::Truncated) => {
                self.note_truncated(end - offset, shared);
                false
            }
            Err(Broken::NoRoom) => false,
        }
    }

    fn unpack(
        &mut self,
        start: u64,
        packed_length: u32,
        length: u32,
        packed: &mut Vec<u8>,
        shared: &mut Shared,
    ) -> Result<(), Broken> {
        let available = shared.input.length().saturating_sub(start);
        if available < u64::from(packed_length) {
            return Err(Broken::Truncated);
        }
        if !self.has_room(length as usize, shared) || !self.has_room(packed_length as usize, shared)
        {
            return Err(Broken::NoRoom);
        }
        packed.resize(packed_length as usize, 0);
        match shared.input.read_at(start, packed) {
            Ok(filled) if filled == packed.len() => {}
            Ok(_) => return Err(Broken::Truncated),
            Err(error) => return Err(Broken::Content(error.to_string())),
        }
        let Some(decompressor) = &mut shared.decompressor else {
            return Err(Broken::Content("the file names no compression algorithm".to_owned()));
        };
        decompressor.unpack(packed, length as usize, &mut self.window).map_err(Broken::Content)
    }

    /// Whether the window may grow to `length` bytes.
    fn has_room(&mut self, length: usize, shared: &mut Shared) -> bool {
        let fits = shared.window_bytes.saturating_add(length) <= WINDOWS_BYTES_MAX;
        if !fits {
            shared.note(
                self.cpu,
                Severity::Error,
                "memory_limit",
                1,
                format!(
                    "a block of {length} bytes would exceed the memory that reading may take; \
                     this CPU's later events are left out"
                ),
            );
        }
        fits
    }

    fn note_truncated(&mut self, bytes: u64, shared: &mut Shared) {
        shared.note(
            self.cpu,
            Severity::Error,
            "truncated_file",
            bytes,
            "the file ends before this CPU's data does (bytes missing): its later events are lost; \
             copy the file again"
                .to_owned(),
        );
    }

    fn note_unreadable(&mut self, offset: u64, what: &str, shared: &mut Shared) {
        shared.note(
            self.cpu,
            Severity::Error,
            "unreadable_data",
            1,
            format!("this CPU's data cannot be read at byte {offset} ({what}): events are lost"),
        );
    }
}

/// Why a chunk gives no pages.
enum Broken {
    Truncated,
    NoRoom,
    Content(String),
}

//! Writes ring-buffer pages as the kernel does.

use schedlab_trace::format::Abi;

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const DELTA_MAX: u64 = (1 << 27) - 1;

/// The pages of one CPU.
pub struct Pages {
    abi: Abi,
    page_bytes: usize,
    finished: Vec<u8>,
    entries: Vec<u8>,
    page_time: u64,
    last_time: u64,
    /// Events that were dropped before the page being written: counted or not.
    missed: Option<Option<u64>>,
}

impl Pages {
    pub fn new(abi: Abi, page_bytes: usize) -> Pages {
        Pages {
            abi,
            page_bytes,
            finished: Vec::new(),
            entries: Vec::new(),
            page_time: 0,
            last_time: 0,
            missed: None,
        }
    }

    /// A record, with a time extension before it where its distance needs one.
    pub fn record(&mut self, time: u64, data: &[u8]) {
        let words = data.len().div_ceil(4);
        self.make_room(time, 8 + 8 + words * 4);
        let mut delta = time - self.last_time;
        if delta > DELTA_MAX {
            self.entry(30, delta & DELTA_MAX);
            self.word((delta >> 27) as u32);
            delta = 0;
        }
        if words <= 28 {
            self.entry(words as u32, delta);
        } else {
            self.entry(0, delta);
            self.word(data.len() as u32 + 4);
        }
        self.entries.extend(data);
        self.entries.resize(self.entries.len().next_multiple_of(4), 0);
        self.last_time = time;
    }

    /// A record that the kernel took back.
    pub fn discarded(&mut self, time: u64, data: &[u8]) {
        self.make_room(time, 4 + data.len());
        self.entry(29, (time - self.last_time).max(1));
        self.word(data.len() as u32);
        self.entries.extend(&data[4..]);
        self.last_time = time;
    }

    /// An absolute time stamp, for the records after it.
    pub fn absolute(&mut self, time: u64) {
        self.make_room(time, 8);
        self.entry(31, time & DELTA_MAX);
        self.word((time >> 27) as u32);
        self.last_time = time;
    }

    /// Drops events: the next page says so, if possible with their number.
    pub fn lose(&mut self, count: Option<u64>) {
        self.finish_page();
        self.missed = Some(count);
    }

    /// All pages.
    pub fn finish(mut self) -> Vec<u8> {
        self.finish_page();
        self.finished
    }

    fn header_bytes(&self) -> usize {
        8 + usize::from(self.abi.long_size)
    }

    fn make_room(&mut self, time: u64, bytes: usize) {
        // The count of missed events, if any, stands behind the entries.
        if self.header_bytes() + self.entries.len() + bytes + 8 > self.page_bytes {
            self.finish_page();
        }
        if self.entries.is_empty() {
            self.page_time = time;
            self.last_time = time;
        }
    }

    fn entry(&mut self, kind: u32, delta: u64) {
        let delta = delta as u32;
        let word = if self.abi.big_endian { (kind << 27) | delta } else { (delta << 5) | kind };
        self.word(word);
    }

    fn word(&mut self, word: u32) {
        let bytes = if self.abi.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
        self.entries.extend(bytes);
    }

    fn finish_page(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let mut commit = self.entries.len() as u64;
        match self.missed {
            Some(Some(_)) => commit |= MISSED_EVENTS | MISSED_STORED,
            Some(None) => commit |= MISSED_EVENTS,
            None => {}
        }
        let start = self.finished.len();
        self.finished.extend(number(self.abi, self.page_time, 8));
        self.finished.extend(number(self.abi, commit, self.abi.long_size));
        self.finished.append(&mut self.entries);
        if let Some(Some(count)) = self.missed.take() {
            self.finished.extend(number(self.abi, count, self.abi.long_size));
        }
        self.finished.resize(start + self.page_bytes, 0);
    }
}

/// A number of so many bytes.
pub fn number(abi: Abi, value: u64, size: u8) -> Vec<u8> {
    let size = usize::from(size);
    if abi.big_endian {
        value.to_be_bytes()[8 - size..].to_vec()
    } else {
        value.to_le_bytes()[..size].to_vec()
    }
}

//! Counts events by name without allocating per line.

use super::body::{self, Decode};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// More names than any kernel has tracepoints; a broken file may hold a new one on every line.
const NAMES_MAX: usize = 1 << 14;

/// The longest name that is kept. The kernel's limit is 64.
const NAME_BYTES_MAX: usize = 128;

/// The name under which what exceeds these limits is counted.
const OTHER: &[u8] = b"(other)";

struct Entry {
    name: Box<[u8]>,
    decode: Option<Decode>,
    count: u64,
    /// `count` at the last [`Tally::flush`].
    flushed: u64,
}

/// The names seen so far, each with its decoder and its count.
#[derive(Default)]
pub(super) struct Tally {
    index: FxHashMap<Box<[u8]>, usize>,
    entries: Vec<Entry>,
}

impl Tally {
    /// Counts one event and returns how to decode it.
    #[inline]
    pub(super) fn count(&mut self, name: &[u8]) -> Option<Decode> {
        let index = match self.index.get(name) {
            Some(&index) => index,
            None => self.add(name),
        };
        let entry = self.entries.get_mut(index)?;
        entry.count += 1;
        entry.decode
    }

    #[cold]
    fn add(&mut self, name: &[u8]) -> usize {
        let is_full = self.entries.len() >= NAMES_MAX || name.len() > NAME_BYTES_MAX;
        let name = if is_full { OTHER } else { name };
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.entries.len();
        let decode = body::decoder(name);
        self.entries.push(Entry { name: name.into(), decode, count: 0, flushed: 0 });
        self.index.insert(name.into(), index);
        index
    }

    /// Brings `counts` up to date.
    pub(super) fn flush(&mut self, counts: &mut BTreeMap<String, u64>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.count != entry.flushed) {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            *counts.entry(name).or_insert(0) += entry.count - entry.flushed;
            entry.flushed = entry.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_over_flushes_and_limits() {
        let mut tally = Tally::default();
        let mut counts = BTreeMap::new();
        assert!(tally.count(b"cpu_idle").is_some());
        tally.flush(&mut counts);
        assert!(tally.count(b"cpu_idle").is_some());
        assert!(tally.count(&[b'x'; NAME_BYTES_MAX + 1]).is_none());
        for number in 0..NAMES_MAX + 10 {
            assert!(tally.count(format!("n{number}").as_bytes()).is_none());
        }
        tally.flush(&mut counts);
        assert_eq!(counts["cpu_idle"], 2);
        assert_eq!(counts.values().sum::<u64>(), 2 + 1 + NAMES_MAX as u64 + 10);
        assert!(counts.len() <= NAMES_MAX + 1);
        assert!(counts["(other)"] >= 11);
    }
}

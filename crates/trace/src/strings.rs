//! Interned text: task names, function names and interrupt names recur millions of times, so an
//! event carries a number instead.

use rustc_hash::FxHashMap;

/// A string of a [`Strings`] table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrId(pub u32);

impl StrId {
    /// The empty string, which every table holds first.
    pub const EMPTY: StrId = StrId(0);
}

/// A table of distinct strings, numbered in the order in which they were first seen.
#[derive(Clone, Debug)]
pub struct Strings {
    ids: FxHashMap<Box<[u8]>, StrId>,
    texts: Vec<Box<str>>,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Self { ids: FxHashMap::default(), texts: Vec::new() };
        strings.intern(b"");
        strings
    }
}

impl Strings {
    /// At most this many distinct strings are kept, so that hostile input cannot exhaust memory;
    /// further ones become the empty string.
    pub const LIMIT: usize = 1 << 20;

    /// The number of `bytes`, which is added on first sight. Bytes that are not UTF-8 are shown
    /// with replacement characters.
    #[inline]
    pub fn intern(&mut self, bytes: &[u8]) -> StrId {
        if let Some(&id) = self.ids.get(bytes) {
            return id;
        }
        self.add(bytes)
    }

    #[cold]
    fn add(&mut self, bytes: &[u8]) -> StrId {
        if self.texts.len() >= Self::LIMIT {
            return StrId::EMPTY;
        }
        let id = StrId(self.texts.len() as u32);
        self.texts.push(String::from_utf8_lossy(bytes).into_owned().into_boxed_str());
        self.ids.insert(bytes.into(), id);
        id
    }

    /// The text of `id`; empty for a number that this table never gave out.
    #[inline]
    pub fn get(&self, id: StrId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// How many distinct strings there are, the empty one included.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Never true: the empty string is always there.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

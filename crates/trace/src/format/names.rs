//! Everything that turns bytes and addresses of a record into names, with small caches so that
//! the millionth `swapper/0` costs one comparison.

use super::access::until_nul;
use super::symbols::{PrintkFormats, Symbols};
use crate::strings::{StrId, Strings};

/// Slots of a cache; a power of two. Collisions only cost a hash look-up.
const SLOTS: usize = 1024;

/// The names of one trace: interned text, and the tables by which addresses become text.
#[derive(Debug)]
pub struct NameTable {
    strings: Strings,
    symbols: Symbols,
    printk: PrintkFormats,
    /// Raw 16-byte `comm` fields seen last, each in the slot of its hash.
    comms: Box<[(u128, StrId)]>,
    /// Function addresses seen last.
    functions: Box<[(u64, StrId)]>,
}

impl Default for NameTable {
    fn default() -> Self {
        Self::new(Symbols::default(), PrintkFormats::default())
    }
}

impl NameTable {
    /// With the trace's own tables; either may be empty.
    pub fn new(symbols: Symbols, printk: PrintkFormats) -> NameTable {
        NameTable {
            strings: Strings::default(),
            symbols,
            printk,
            comms: vec![(0, StrId::EMPTY); SLOTS].into_boxed_slice(),
            functions: vec![(0, StrId::EMPTY); SLOTS].into_boxed_slice(),
        }
    }

    /// The interned text so far.
    pub fn strings(&self) -> &Strings {
        &self.strings
    }

    /// The interned text, for good.
    pub fn into_strings(self) -> Strings {
        self.strings
    }

    /// A text as it stands.
    pub fn intern(&mut self, text: &[u8]) -> StrId {
        self.strings.intern(text)
    }

    /// A task's name, up to its NUL.
    #[inline]
    pub fn comm(&mut self, raw: &[u8]) -> StrId {
        let Ok(bytes) = <[u8; 16]>::try_from(raw) else {
            return self.text(raw);
        };
        let key = u128::from_le_bytes(bytes);
        let mixed = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> 54) as usize % SLOTS;
        match self.comms.get(slot) {
            Some(&(known, id)) if known == key => id,
            _ => {
                let id = self.strings.intern(until_nul(raw));
                self.comms[slot] = (key, id);
                id
            }
        }
    }

    /// Text up to its NUL.
    #[inline]
    pub fn text(&mut self, raw: &[u8]) -> StrId {
        self.strings.intern(until_nul(raw))
    }

    /// The function at `address`: its symbol, its hexadecimal address where the trace has no
    /// symbol for it, or empty for a null pointer.
    #[inline]
    pub fn function(&mut self, address: u64) -> StrId {
        if address == 0 {
            return StrId::EMPTY;
        }
        let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % SLOTS;
        match self.functions.get(slot) {
            Some(&(known, id)) if known == address => id,
            _ => {
                let id = match self.symbols.name(address) {
                    Some(name) => self.strings.intern(name),
                    None => self.strings.intern(format!("{address:#x}").as_bytes()),
                };
                self.functions[slot] = (address, id);
                id
            }
        }
    }

    /// The constant text at `address`, from `printk_formats`; `None` where the trace does not
    /// carry it.
    pub fn constant(&mut self, address: u64) -> Option<StrId> {
        self.printk.text(address).map(|text| self.strings.intern(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comms_are_cut_at_nul_and_cached_by_all_bytes() {
        let mut names = NameTable::default();
        let clean = names.comm(b"swapper/0\0\0\0\0\0\0\0");
        let dirty = names.comm(b"swapper/0\0stale\0");
        assert_eq!(clean, dirty);
        assert_eq!(names.strings().get(clean), "swapper/0");
        assert_eq!(names.comm(&[0; 16]), StrId::EMPTY);
        assert_eq!(names.comm(b"short\0"), names.intern(b"short"));
    }

    #[test]
    fn functions_without_symbols_keep_their_address() {
        let mut names = NameTable::default();
        let id = names.function(0xffff_1234);
        assert_eq!(names.strings().get(id), "0xffff1234");
        assert_eq!(names.function(0), StrId::EMPTY);
    }
}

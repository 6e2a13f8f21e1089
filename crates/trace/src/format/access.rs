//! Reading fields out of raw records: offsets are resolved once, when a decoder is compiled.

use super::event_format::{EventFormat, Field, Location};
use schedlab_machine::{CPUS_MAX, CpuId};

/// The traced machine's byte order and word size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    /// Whether numbers are stored most significant byte first.
    pub big_endian: bool,
    /// Bytes of a C `long`: 4 or 8.
    pub long_size: u8,
}

impl Abi {
    /// x86-64, arm64, ...
    pub const LITTLE_64: Abi = Abi { big_endian: false, long_size: 8 };

    /// A 16-bit number at `offset`.
    #[inline]
    pub fn u16_at(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let raw = *bytes.get(offset..)?.first_chunk()?;
        Some(if self.big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) })
    }

    /// A 32-bit number at `offset`.
    #[inline]
    pub fn u32_at(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let raw = *bytes.get(offset..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
    }

    /// A 64-bit number at `offset`.
    #[inline]
    pub fn u64_at(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let raw = *bytes.get(offset..)?.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) })
    }

    /// A C `unsigned long` at `offset`.
    #[inline]
    pub fn long_at(self, bytes: &[u8], offset: usize) -> Option<u64> {
        if self.long_size == 4 {
            self.u32_at(bytes, offset).map(u64::from)
        } else {
            self.u64_at(bytes, offset)
        }
    }
}

/// A number at a fixed place of a record.
#[derive(Clone, Copy, Debug)]
pub struct IntField {
    offset: u32,
    size: u8,
    signed: bool,
    abi: Abi,
}

impl IntField {
    /// The first field that bears one of the names, if it is a number of 1, 2, 4 or 8 bytes.
    pub fn of(format: &EventFormat, abi: Abi, names: &[&str]) -> Option<IntField> {
        let field = format.field_of(names)?;
        if field.location != Location::Fixed || !matches!(field.size, 1 | 2 | 4 | 8) {
            return None;
        }
        Some(IntField { offset: field.offset, size: field.size as u8, signed: field.signed, abi })
    }

    /// The number, sign-extended if its type is signed; `None` past the record's end.
    #[inline]
    pub fn get(self, record: &[u8]) -> Option<u64> {
        let offset = self.offset as usize;
        match self.size {
            4 => {
                let raw = self.abi.u32_at(record, offset)?;
                Some(if self.signed { i64::from(raw as i32) as u64 } else { u64::from(raw) })
            }
            8 => self.abi.u64_at(record, offset),
            2 => {
                let raw = self.abi.u16_at(record, offset)?;
                Some(if self.signed { i64::from(raw as i16) as u64 } else { u64::from(raw) })
            }
            _ => {
                let raw = *record.get(offset)?;
                Some(if self.signed { i64::from(raw as i8) as u64 } else { u64::from(raw) })
            }
        }
    }

    /// The low half, for fields that are 32 bits wide by their meaning (CPU, pid, priority).
    #[inline]
    pub fn get_u32(self, record: &[u8]) -> Option<u32> {
        self.get(record).map(|value| value as u32)
    }

    /// As [`IntField::get_u32`], signed.
    #[inline]
    pub fn get_i32(self, record: &[u8]) -> Option<i32> {
        self.get(record).map(|value| value as i32)
    }

    /// A CPU's number; `None` also for one beyond [`CPUS_MAX`], such as the -1 of "none", by which
    /// no array may be indexed.
    #[inline]
    pub fn get_cpu(self, record: &[u8]) -> Option<CpuId> {
        let cpu = self.get_u32(record)?;
        ((cpu as usize) < CPUS_MAX).then_some(CpuId(cpu))
    }
}

/// Bytes of a record: a fixed array, or a dynamic one that a location word points to.
#[derive(Clone, Copy, Debug)]
pub(super) struct BytesField {
    offset: u32,
    size: u32,
    location: Location,
    abi: Abi,
}

impl BytesField {
    pub(super) fn of(format: &EventFormat, abi: Abi, names: &[&str]) -> Option<BytesField> {
        format.field_of(names).map(|field| BytesField::new(field, abi))
    }

    fn new(field: &Field, abi: Abi) -> BytesField {
        BytesField { offset: field.offset, size: field.size, location: field.location, abi }
    }

    /// The bytes, or `None` where they reach past the record's end.
    #[inline]
    pub(super) fn get<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let offset = self.offset as usize;
        if self.location == Location::Fixed {
            return record.get(offset..offset.checked_add(self.size as usize)?);
        }
        let word = self.abi.u32_at(record, offset)?;
        let (from, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
        let start = match self.location {
            Location::Relative => from.checked_add(offset)?.checked_add(4)?,
            _ => from,
        };
        record.get(start..start.checked_add(length)?)
    }

    pub(super) fn abi(&self) -> Abi {
        self.abi
    }
}

/// Text up to its terminating NUL.
#[inline]
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..length]
}

//! Reading a file's description piece by piece, with a limit on every piece.

use super::BLOCK_BYTES_MAX;
use crate::format::Abi;
use crate::input::Input;

/// Why a piece could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Where, in bytes from the start of what is read.
    pub(crate) offset: u64,
    /// What is wrong, for the end of a sentence.
    pub(crate) what: String,
}

/// A place in a file, or in a section that was unpacked.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    input: Input,
    abi: Abi,
    position: u64,
}

impl Cursor {
    pub(crate) fn new(input: &Input, abi: Abi, position: u64) -> Cursor {
        Cursor { input: input.clone(), abi, position }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn damage(&self, what: impl Into<String>) -> Damage {
        Damage { offset: self.position, what: what.into() }
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: u64) -> Result<Vec<u8>, Damage> {
        if length > BLOCK_BYTES_MAX {
            return Err(self.damage(format!("a block of {length} bytes is beyond belief")));
        }
        let bytes = self.input.bytes_at(self.position, length as usize);
        let bytes = bytes.map_err(|error| self.damage(error.to_string()))?;
        if (bytes.len() as u64) < length {
            return Err(self.damage(format!("the file ends, {length} more bytes were announced")));
        }
        self.position += length;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        match self.input.read_at(self.position, &mut bytes) {
            Ok(length) if length == N => {
                self.position += N as u64;
                Ok(bytes)
            }
            Ok(_) => Err(self.damage("the file ends")),
            Err(error) => Err(self.damage(error.to_string())),
        }
    }

    pub(super) fn u16(&mut self) -> Result<u16, Damage> {
        let bytes = self.array::<2>()?;
        Ok(if self.abi.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(super) fn u32(&mut self) -> Result<u32, Damage> {
        let bytes = self.array::<4>()?;
        Ok(if self.abi.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u64(&mut self) -> Result<u64, Damage> {
        let bytes = self.array::<8>()?;
        Ok(if self.abi.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A block after its 32-bit length.
    pub(super) fn block32(&mut self) -> Result<Vec<u8>, Damage> {
        let length = self.u32()?;
        self.take(u64::from(length))
    }

    /// A block after its 64-bit length.
    pub(super) fn block64(&mut self) -> Result<Vec<u8>, Damage> {
        let length = self.u64()?;
        self.take(length)
    }

    /// Text up to its NUL, which is skipped.
    pub(crate) fn text(&mut self) -> Result<Vec<u8>, Damage> {
        const TEXT_MAX: usize = 4096;
        let head = self.input.bytes_at(self.position, TEXT_MAX);
        let mut head = head.map_err(|error| self.damage(error.to_string()))?;
        let Some(length) = head.iter().position(|&byte| byte == 0) else {
            return Err(self.damage("a text has no end"));
        };
        head.truncate(length);
        self.position += length as u64 + 1;
        Ok(head)
    }
}

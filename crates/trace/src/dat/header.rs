//! The first bytes of a file, and what both versions build on them.

use super::compression::Algorithm;
use super::cursor::{Cursor, Damage};
use crate::error::TraceError;
use crate::format::Abi;
use crate::input::Input;

/// "\x17\x08Dtracing", then the version as text.
pub(super) const MAGIC: &[u8] = b"\x17\x08Dtracing";

/// Ring-buffer pages are not longer than this: the kernel counts bytes of a page in 20 bits
/// (`RB_WRITE_MASK`).
const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Nor shorter.
const PAGE_BYTES_MIN: u32 = 64;

/// How to read the rest of the file.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) version: Version,
    pub(super) abi: Abi,
    pub(super) page_bytes: u32,
    /// Where the rest begins.
    pub(super) end: u64,
}

/// The two versions in use. (5 and before never left development.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Everything in one fixed order.
    V6,
    /// Sections that options point to.
    V7 { compression: Option<Algorithm>, first_options: u64 },
}

impl Header {
    /// Reads the beginning of a file that has the magic.
    pub(super) fn read(input: &Input) -> Result<Header, TraceError> {
        Self::parse(input).map_err(|damage| input.malformed(damage.offset, damage.what))
    }

    fn parse(input: &Input) -> Result<Header, Damage> {
        let start = MAGIC.len() as u64;
        let mut cursor = Cursor::new(input, Abi::LITTLE_64, start);
        let version = cursor.text()?;
        let sizes = cursor.take(2)?;
        let abi = match sizes[..] {
            [big_endian @ 0..=1, long_size @ (4 | 8)] => {
                Abi { big_endian: big_endian == 1, long_size }
            }
            _ => {
                return Err(cursor.damage(
                    "neither byte order nor word size is legible; the file must be recorded again",
                ));
            }
        };
        let mut cursor = Cursor::new(input, abi, cursor.position());
        let page_bytes = cursor.u32()?;
        check_page_bytes(page_bytes).map_err(|what| cursor.damage(what))?;
        let version = match &version[..] {
            b"6" => Version::V6,
            b"7" => {
                let name = cursor.text()?;
                cursor.text()?;
                let compression = Algorithm::from_name(&name);
                if compression.is_none() && !matches!(&name[..], b"none" | b"") {
                    return Err(cursor.damage(format!(
                        "compressed with `{}`, which is neither zlib nor zstd; convert it with \
                         `trace-cmd convert --compression none`",
                        String::from_utf8_lossy(&name)
                    )));
                }
                Version::V7 { compression, first_options: cursor.u64()? }
            }
            other => {
                return Err(cursor.damage(format!(
                    "version `{}` of trace.dat is unknown, 6 and 7 are read; convert it with \
                     `trace-cmd convert`",
                    String::from_utf8_lossy(other)
                )));
            }
        };
        Ok(Header { version, abi, page_bytes, end: cursor.position() })
    }
}

/// Whether ring-buffer pages can have that size; says why not.
pub(super) fn check_page_bytes(page_bytes: u32) -> Result<(), String> {
    if (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
        Ok(())
    } else {
        Err(format!("ring-buffer pages of {page_bytes} bytes do not exist"))
    }
}

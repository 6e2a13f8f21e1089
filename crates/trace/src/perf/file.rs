//! The header of a `perf.data` file: where the events' descriptions, their records and the
//! feature sections are. A stream from a pipe has none of it but the magic.

use super::attr::Attr;
use super::{MAGIC_BIG, abi};
use crate::error::TraceError;
use crate::format::Abi;
use crate::input::Input;

/// `struct perf_file_header` up to the feature bits' end.
const HEADER_BYTES: usize = 104;
/// `struct perf_pipe_file_header`.
const PIPE_HEADER_BYTES: u64 = 16;
/// Event descriptions, and ids of all of them, that are read at most: `perf record` makes one id
/// an event and CPU.
const ATTRS_MAX: u64 = 1 << 16;
const IDS_MAX: u64 = 1 << 22;
/// A description with all its future fields is not longer.
const ATTR_BYTES_MAX: u64 = 4096;

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// What the beginning of a file says.
#[derive(Debug)]
pub(super) struct FileHeader {
    pub(super) abi: Abi,
    /// Records; a stream's reach to the end.
    pub(super) data: Section,
    /// The recorder was stopped before it could note how much it wrote.
    pub(super) unfinished: bool,
    /// Feature number and place; empty for a stream, whose features are records.
    pub(super) features: Vec<(u32, Section)>,
    /// Descriptions with the place of their ids; empty for a stream.
    pub(super) attrs: Vec<(Attr, Section)>,
}

impl FileHeader {
    pub(super) fn read(input: &Input) -> Result<FileHeader, TraceError> {
        let bytes = input.bytes_at(0, HEADER_BYTES)?;
        let abi = abi(bytes.starts_with(MAGIC_BIG));
        let cut_off = || input.malformed(0, "the file header is cut off; copy the file again");
        let size = abi.u64_at(&bytes, 8).ok_or_else(cut_off)?;
        if size == PIPE_HEADER_BYTES {
            return Ok(FileHeader {
                abi,
                data: Section { offset: PIPE_HEADER_BYTES, size: u64::MAX - PIPE_HEADER_BYTES },
                unfinished: false,
                features: Vec::new(),
                attrs: Vec::new(),
            });
        }
        if bytes.len() < HEADER_BYTES {
            return Err(cut_off());
        }
        let word = |index: usize| abi.u64_at(&bytes, 8 * index).unwrap_or(0);
        let mut data = Section { offset: word(5), size: word(6) };
        let unfinished = data.size == 0;
        if unfinished {
            data.size = u64::MAX - data.offset;
        }
        let attrs = read_attrs(input, abi, word(2), Section { offset: word(3), size: word(4) })?;
        let features = if unfinished {
            Vec::new()
        } else {
            read_features(input, abi, [9, 10, 11, 12].map(word), data)?
        };
        Ok(FileHeader { abi, data, unfinished, features, attrs })
    }
}

/// Descriptions of `attr_bytes` each, the place of the ids included.
fn read_attrs(
    input: &Input,
    abi: Abi,
    attr_bytes: u64,
    section: Section,
) -> Result<Vec<(Attr, Section)>, TraceError> {
    if !(Attr::BYTES_MIN as u64 + 16..=ATTR_BYTES_MAX).contains(&attr_bytes) {
        let what = format!("event descriptions of {attr_bytes} bytes; no perf writes such a file");
        return Err(input.malformed(16, what));
    }
    let count = (section.size / attr_bytes).min(ATTRS_MAX);
    let bytes = input.bytes_at(section.offset, (count * attr_bytes) as usize)?;
    let attrs = bytes.chunks_exact(attr_bytes as usize).filter_map(|bytes| {
        let ids_at = attr_bytes as usize - 16;
        let ids =
            Section { offset: abi.u64_at(bytes, ids_at)?, size: abi.u64_at(bytes, ids_at + 8)? };
        Some((Attr::read(bytes, abi)?, ids))
    });
    let attrs: Vec<_> = attrs.collect();
    if attrs.is_empty() {
        let what = "no event descriptions where the header says; the file is cut off";
        return Err(input.malformed(section.offset, what));
    }
    Ok(attrs)
}

/// The ids by which records name their event.
pub(super) fn read_ids(input: &Input, abi: Abi, section: Section) -> Result<Vec<u64>, TraceError> {
    let bytes = input.bytes_at(section.offset, section.size.min(8 * IDS_MAX) as usize)?;
    Ok(bytes.chunks_exact(8).filter_map(|bytes| abi.u64_at(bytes, 0)).collect())
}

/// The table of feature sections, which follows the records.
fn read_features(
    input: &Input,
    abi: Abi,
    mut bits: [u64; 4],
    data: Section,
) -> Result<Vec<(u32, Section)>, TraceError> {
    // Every perf sets HOSTNAME (3). Where it is missing, a 32-bit machine of the other byte order
    // wrote the words in halves.
    if bits[0] & (1 << 3) == 0 && (bits[0] >> 32) & (1 << 3) != 0 {
        bits = bits.map(|word| word.rotate_left(32));
    }
    let numbers = (0..256u32).filter(|&bit| bits[bit as usize / 64] & (1 << (bit % 64)) != 0);
    let table = data.offset.saturating_add(data.size);
    let bytes = input.bytes_at(table, 256 * 16)?;
    let sections = numbers.zip(bytes.chunks_exact(16)).filter_map(|(number, bytes)| {
        let section = Section { offset: abi.u64_at(bytes, 0)?, size: abi.u64_at(bytes, 8)? };
        Some((number, section))
    });
    Ok(sections.collect())
}

//! Makes a long trace out of a short one: the same pages again and again, at later and later
//! times, as an uncompressed version 6 file of any size.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The parts of a little-endian version 6 file.
struct Parts<'a> {
    /// Everything up to the table of the CPUs' places.
    head: &'a [u8],
    /// Each CPU's pages.
    cpus: Vec<&'a [u8]>,
    page_bytes: usize,
}

/// Writes a file of at least `bytes` bytes of pages to `target` and says how often the source is
/// in it.
///
/// # Errors
/// When the file cannot be written, or `source` is no such trace.
pub fn repeat(source: &[u8], target: &Path, bytes: u64) -> io::Result<u64> {
    let parts = split(source).ok_or(io::ErrorKind::InvalidData)?;
    let total: usize = parts.cpus.iter().map(|pages| pages.len()).sum();
    let times = bytes.div_ceil(total as u64);
    let stamps = || parts.cpus.iter().flat_map(|pages| pages.chunks(parts.page_bytes)).map(stamp);
    let span = stamps().max().unwrap_or(0) - stamps().min().unwrap_or(0) + 10_000_000;

    let mut out = BufWriter::with_capacity(1 << 20, File::create(target)?);
    out.write_all(parts.head)?;
    let table_end = parts.head.len() + 16 * parts.cpus.len();
    let data = table_end.next_multiple_of(parts.page_bytes);
    let mut offset = data as u64;
    for pages in &parts.cpus {
        let length = pages.len() as u64 * times;
        out.write_all(&offset.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        offset += length;
    }
    out.write_all(&vec![0; data - table_end])?;
    for pages in &parts.cpus {
        for round in 0..times {
            for page in pages.chunks(parts.page_bytes) {
                out.write_all(&(stamp(page) + round * span).to_le_bytes())?;
                out.write_all(&page[8..])?;
            }
        }
    }
    out.into_inner()?.sync_data()?;
    Ok(times)
}

fn stamp(page: &[u8]) -> u64 {
    page.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn split(file: &[u8]) -> Option<Parts<'_>> {
    // Magic, version, byte order and word size, then the page size.
    let mut walk = Walk { file, at: 14 };
    let page_bytes = walk.number(4)? as usize;
    for tag in ["header_page", "header_event"] {
        walk.at += tag.len() + 1;
        walk.block(8)?;
    }
    for _ in 0..walk.number(4)? {
        walk.block(8)?;
    }
    for _ in 0..walk.number(4)? {
        while walk.number(1)? != 0 {}
        for _ in 0..walk.number(4)? {
            walk.block(8)?;
        }
    }
    walk.block(4)?;
    walk.block(4)?;
    walk.block(8)?;
    let cpu_count = walk.number(4)?;
    walk.at += 10;
    while walk.number(2)? != 0 {
        walk.block(4)?;
    }
    walk.at += 10;
    let head = &file[..walk.at];
    let mut cpus = Vec::new();
    for _ in 0..cpu_count {
        let (offset, length) = (walk.number(8)? as usize, walk.number(8)? as usize);
        cpus.push(file.get(offset..offset + length)?);
    }
    Some(Parts { head, cpus, page_bytes })
}

struct Walk<'a> {
    file: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn number(&mut self, size: usize) -> Option<u64> {
        let value = self.file.get(self.at..self.at + size)?;
        self.at += size;
        Some(value.iter().rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte)))
    }

    fn block(&mut self, size: usize) -> Option<()> {
        self.at += self.number(size)? as usize;
        Some(())
    }
}

//! Version 6: everything in one fixed order, uncompressed.

use super::buffers::{Buffer, CpuData};
use super::cursor::{Cursor, Damage};
use super::header::Header;
use super::metadata::{Metadata, note_damage};
use super::options::{Options, current_clock, latency_text};
use crate::format::Abi;
use crate::input::Input;
use crate::quality::Quality;
use schedlab_machine::CPUS_MAX;

/// Tags are this long, padded with blanks or NUL.
const TAG_BYTES: u64 = 10;
/// The end of the options.
const DONE: u16 = 0;

/// Reads the description of a version 6 file. It has no table of contents: what follows a broken
/// part cannot be found.
pub(super) fn read(input: &Input, header: &Header, metadata: &mut Metadata, quality: &mut Quality) {
    let mut cursor = Cursor::new(input, header.abi, header.end);
    if let Err(damage) = read_in_order(input, header.abi, &mut cursor, metadata, quality) {
        note_damage("the file's description", &damage, quality);
    }
}

fn read_in_order(
    input: &Input,
    abi: Abi,
    cursor: &mut Cursor,
    metadata: &mut Metadata,
    quality: &mut Quality,
) -> Result<(), Damage> {
    metadata.read_headers(cursor)?;
    metadata.read_ftrace_formats(cursor)?;
    metadata.read_event_formats(cursor)?;
    metadata.read_kallsyms(cursor)?;
    metadata.read_printk(cursor)?;
    metadata.read_task_names(cursor)?;
    let cpu_count = cursor.u32()?;

    let mut options = Options { cpu_count: Some(cpu_count), ..Options::default() };
    let top = read_buffer(abi, cursor, &mut options, quality);
    let clock_follows = options.clock_follows;
    metadata.options = options;
    metadata.buffers.extend(top?.map(|cpus| Buffer { cpus, ..Buffer::default() }));
    if clock_follows {
        let clock = cursor.block64().ok().and_then(|text| current_clock(&text));
        metadata.options.clock_name = clock.unwrap_or_default();
    }

    for mut buffer in std::mem::take(&mut metadata.options.buffers) {
        let mut cursor = Cursor::new(input, abi, buffer.offset);
        let cpu_count = metadata.options.cpu_count;
        let mut options = Options { cpu_count, ..Options::default() };
        match read_buffer(abi, &mut cursor, &mut options, quality) {
            Ok(Some(cpus)) => {
                buffer.cpus = cpus;
                metadata.buffers.push(buffer);
            }
            Ok(None) => {}
            Err(damage) => note_damage(&format!("buffer `{}`", buffer.name), &damage, quality),
        }
    }
    Ok(())
}

/// Options, if any, and the places of each CPU's pages; none for a latency tracer's text.
fn read_buffer(
    abi: Abi,
    cursor: &mut Cursor,
    options: &mut Options,
    quality: &mut Quality,
) -> Result<Option<Vec<CpuData>>, Damage> {
    let mut tag = cursor.take(TAG_BYTES)?;
    if tag.starts_with(b"options") {
        loop {
            let id = cursor.u16()?;
            if id == DONE {
                break;
            }
            let data = cursor.block32()?;
            options.take(id, &data, abi, false, quality);
        }
        tag = cursor.take(TAG_BYTES)?;
    }
    if tag.starts_with(b"latency") {
        latency_text("", quality);
        return Ok(None);
    }
    if !tag.starts_with(b"flyrecord") {
        return Err(cursor.damage("no trace data is announced here"));
    }
    let count = options.cpu_count.unwrap_or(0);
    if count as usize > CPUS_MAX {
        return Err(cursor.damage(format!("{count} CPUs are more than {CPUS_MAX}")));
    }
    let mut cpus = Vec::new();
    for cpu in 0..count {
        cpus.push(CpuData { cpu, offset: cursor.u64()?, length: cursor.u64()? });
    }
    Ok(Some(cpus))
}

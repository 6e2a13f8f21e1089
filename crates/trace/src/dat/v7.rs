//! Version 7: sections, found through options, possibly compressed.

use super::BLOCK_BYTES_MAX;
use super::compression::{Algorithm, Decompressor};
use super::cursor::{Cursor, Damage};
use super::header::Header;
use super::metadata::{Metadata, note_damage};
use crate::format::Abi;
use crate::input::Input;
use crate::quality::Quality;
use std::collections::BTreeSet;

/// Options that point to a section.
const HEADER_INFO: u16 = 16;
const FTRACE_EVENTS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const KALLSYMS: u16 = 19;
const PRINTK: u16 = 20;
const CMDLINES: u16 = 21;
/// The option that points to the next options section, and the number of such a section.
const DONE: u16 = 0;

/// A section's flag: its content is compressed.
const COMPRESSED: u16 = 1;
/// Number, flags, description and length.
const SECTION_HEADER_BYTES: u64 = 2 + 2 + 4 + 8;

/// Reads the description of a version 7 file. Sections stand alone, so a broken one costs only
/// what it says.
pub(super) fn read(
    input: &Input,
    header: &Header,
    compression: Option<Algorithm>,
    first_options: u64,
    metadata: &mut Metadata,
    quality: &mut Quality,
) {
    let mut reader = Reader {
        input,
        abi: header.abi,
        decompressor: compression.map(Decompressor::new),
        sections: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    let mut next = first_options;
    while next != 0 && seen.insert(next) {
        match reader.read_options(next, metadata, quality) {
            Ok(following) => next = following,
            Err(damage) => {
                note_damage("an options section", &damage, quality);
                break;
            }
        }
    }
    for (id, offset) in std::mem::take(&mut reader.sections) {
        let part = match id {
            HEADER_INFO => "the page layout",
            FTRACE_EVENTS | EVENT_FORMATS => "a section of event formats",
            KALLSYMS => "the symbol table",
            PRINTK => "the table of constant texts",
            _ => "the table of task names",
        };
        let read = reader.section(offset, None).and_then(|mut cursor| match id {
            HEADER_INFO => metadata.read_headers(&mut cursor),
            FTRACE_EVENTS => metadata.read_ftrace_formats(&mut cursor),
            EVENT_FORMATS => metadata.read_event_formats(&mut cursor),
            KALLSYMS => metadata.read_kallsyms(&mut cursor),
            PRINTK => metadata.read_printk(&mut cursor),
            _ => metadata.read_task_names(&mut cursor),
        });
        if let Err(damage) = read {
            note_damage(part, &damage, quality);
        }
    }
    metadata.buffers = std::mem::take(&mut metadata.options.buffers);
}

struct Reader<'a> {
    input: &'a Input,
    abi: Abi,
    decompressor: Option<Decompressor>,
    /// Sections that options pointed to: option and place, each kind once, the last one counts.
    sections: Vec<(u16, u64)>,
}

impl Reader<'_> {
    /// Reads one options section and says where the next one is, 0 for none.
    fn read_options(
        &mut self,
        offset: u64,
        metadata: &mut Metadata,
        quality: &mut Quality,
    ) -> Result<u64, Damage> {
        let mut cursor = self.section(offset, Some(DONE))?;
        loop {
            let id = cursor.u16()?;
            let data = cursor.block32()?;
            match id {
                DONE => {
                    let next = self.abi.u64_at(&data, 0);
                    return next.ok_or_else(|| cursor.damage("the last option is cut short"));
                }
                HEADER_INFO..=CMDLINES => {
                    if let Some(place) = self.abi.u64_at(&data, 0) {
                        self.sections.retain(|(known, _)| *known != id);
                        self.sections.push((id, place));
                    }
                }
                _ => metadata.options.take(id, &data, self.abi, true, quality),
            }
        }
    }

    /// A cursor at the content of the section at `offset`, unpacked where necessary.
    fn section(&mut self, offset: u64, expected: Option<u16>) -> Result<Cursor, Damage> {
        let mut cursor = Cursor::new(self.input, self.abi, offset);
        let id = cursor.u16()?;
        if expected.is_some_and(|expected| expected != id) {
            return Err(cursor.damage(format!("section {id} stands here, options were announced")));
        }
        let flags = cursor.u16()?;
        cursor.u32()?;
        cursor.u64()?;
        if flags & COMPRESSED == 0 {
            return Ok(cursor);
        }
        let Some(decompressor) = &mut self.decompressor else {
            return Err(cursor.damage("compressed, but the file names no algorithm"));
        };
        let packed_length = cursor.u32()?;
        let length = cursor.u32()?;
        if u64::from(length) > BLOCK_BYTES_MAX {
            return Err(cursor.damage(format!("a section of {length} bytes is beyond belief")));
        }
        let packed = cursor.take(u64::from(packed_length))?;
        let mut unpacked = Vec::new();
        decompressor
            .unpack(&packed, length as usize, &mut unpacked)
            .map_err(|what| cursor.damage(format!("cannot be unpacked: {what}")))?;
        Ok(Cursor::new(&Input::from_bytes(self.input.path(), unpacked), self.abi, 0))
    }
}

/// Whether the buffer section at `offset` holds compressed pages.
pub(super) fn is_compressed(input: &Input, abi: Abi, offset: u64) -> Result<bool, Damage> {
    let mut cursor = Cursor::new(input, abi, offset);
    let flags = cursor.take(SECTION_HEADER_BYTES)?;
    Ok(abi.u16_at(&flags, 2).unwrap_or(0) & COMPRESSED != 0)
}

//! What a file tells of its events before it tells the events: formats, symbols, names, options
//! and where each CPU's pages are.

use super::buffers::Buffer;
use super::cursor::{Cursor, Damage};
use super::header::{Header, Version};
use super::options::Options;
use super::page::PageLayout;
use super::{v6, v7};
use crate::format::{Abi, EventFormat, PrintkFormats, Symbols};
use crate::input::Input;
use crate::quality::{Quality, Severity};
use std::collections::BTreeMap;

/// Event formats are read up to this many and this long in all: several times what any kernel
/// has.
const FORMATS_MAX: u32 = 1 << 16;
const FORMATS_BYTES_MAX: usize = 16 << 20;
/// Task names likewise; the kernel keeps at most `PID_MAX_LIMIT`.
const TASK_NAMES_MAX: usize = 1 << 20;

/// The description of a file.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(super) layout: PageLayout,
    pub(crate) formats: Vec<EventFormat>,
    /// Length of the texts that they were read from.
    formats_bytes: usize,
    pub(crate) symbols: Symbols,
    pub(crate) printk: PrintkFormats,
    /// Names that the kernel remembered for tasks, by pid.
    pub(crate) task_names: BTreeMap<i32, Box<[u8]>>,
    pub(super) options: Options,
    pub(super) buffers: Vec<Buffer>,
}

impl Metadata {
    /// Reads as much as is legible; the rest becomes findings.
    pub(super) fn read(input: &Input, header: &Header, quality: &mut Quality) -> Metadata {
        let mut metadata = Metadata::new(header.abi);
        match header.version {
            Version::V6 => v6::read(input, header, &mut metadata, quality),
            Version::V7 { compression, first_options } => {
                v7::read(input, header, compression, first_options, &mut metadata, quality);
            }
        }
        metadata
    }

    /// Nothing known yet but how numbers are written.
    pub(crate) fn new(abi: Abi) -> Metadata {
        Metadata {
            layout: PageLayout { abi, data_offset: 8 + usize::from(abi.long_size) },
            formats: Vec::new(),
            formats_bytes: 0,
            symbols: Symbols::default(),
            printk: PrintkFormats::default(),
            task_names: BTreeMap::new(),
            options: Options::default(),
            buffers: Vec::new(),
        }
    }

    /// How the kernel that is described writes numbers.
    pub(crate) fn abi(&self) -> Abi {
        self.layout.abi
    }

    /// `header_page` and `header_event`: how the kernel lays out its pages. The size of `commit`
    /// is the kernel's word size, which a 32-bit trace-cmd on a 64-bit kernel does not share.
    pub(crate) fn read_headers(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        expect(cursor, b"header_page\0")?;
        let page = cursor.block64()?;
        expect(cursor, b"header_event\0")?;
        cursor.block64()?;
        let text = format!("name: header_page\nID: 0\n{}", String::from_utf8_lossy(&page));
        let Ok(format) = EventFormat::parse("", &text) else { return Ok(()) };
        if let Some(commit) = format.field("commit").filter(|field| matches!(field.size, 4 | 8)) {
            self.layout.abi.long_size = commit.size as u8;
            self.layout.data_offset = 8 + commit.size as usize;
        }
        if let Some(data) = format.field("data").filter(|field| (12..64).contains(&field.offset)) {
            self.layout.data_offset = data.offset as usize;
        }
        Ok(())
    }

    /// The formats of ftrace's own events.
    pub(crate) fn read_ftrace_formats(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        let count = cursor.u32()?;
        self.read_formats("ftrace", count, cursor)
    }

    /// The formats of all other events, by system.
    pub(crate) fn read_event_formats(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        for _ in 0..limited(cursor.u32()?, cursor)? {
            let system = cursor.text()?;
            let count = cursor.u32()?;
            self.read_formats(&String::from_utf8_lossy(&system), count, cursor)?;
        }
        Ok(())
    }

    fn read_formats(
        &mut self,
        system: &str,
        count: u32,
        cursor: &mut Cursor,
    ) -> Result<(), Damage> {
        for _ in 0..limited(count, cursor)? {
            let text = cursor.block64()?;
            self.formats_bytes += text.len();
            if self.formats_bytes > FORMATS_BYTES_MAX || self.formats.len() >= FORMATS_MAX as usize
            {
                return Err(cursor.damage("more event formats than any kernel has"));
            }
            // A text without a name or number describes nothing that could be counted by it.
            self.formats.extend(EventFormat::parse(system, &String::from_utf8_lossy(&text)));
        }
        Ok(())
    }

    pub(crate) fn read_kallsyms(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        self.symbols = Symbols::new(cursor.block32()?);
        Ok(())
    }

    pub(crate) fn read_printk(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        self.printk = PrintkFormats::parse(&cursor.block32()?);
        Ok(())
    }

    /// Lines of `PID NAME`.
    pub(crate) fn read_task_names(&mut self, cursor: &mut Cursor) -> Result<(), Damage> {
        let text = cursor.block64()?;
        let lines = text.split(|&byte| byte == b'\n').filter_map(|line| {
            let space = line.iter().position(|&byte| byte == b' ')?;
            let pid = std::str::from_utf8(&line[..space]).ok()?.parse().ok()?;
            Some((pid, line[space + 1..].into()))
        });
        self.task_names = lines.take(TASK_NAMES_MAX).collect();
        Ok(())
    }
}

/// Notes that part of the description is broken.
pub(super) fn note_damage(part: &str, damage: &Damage, quality: &mut Quality) {
    quality.add(
        Severity::Error,
        "damaged_header",
        None,
        1,
        format!(
            "{part} cannot be read (byte {}: {}): what it describes is missing; copy the file \
             again or record anew",
            damage.offset, damage.what
        ),
    );
}

fn expect(cursor: &mut Cursor, tag: &[u8]) -> Result<(), Damage> {
    let before = cursor.clone();
    if cursor.take(tag.len() as u64)? == tag {
        Ok(())
    } else {
        Err(before.damage(format!(
            "`{}` is not here",
            String::from_utf8_lossy(tag).trim_end_matches('\0')
        )))
    }
}

fn limited(count: u32, cursor: &Cursor) -> Result<u32, Damage> {
    if count <= FORMATS_MAX {
        Ok(count)
    } else {
        Err(cursor.damage(format!("{count} event formats are more than any kernel has")))
    }
}

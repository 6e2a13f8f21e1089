//! Writers: Perfetto protobuf for ui.perfetto.dev, CSV, and Arrow tables for whatever knows those.
//! They take events as they come, so a trace of any size is converted in bounded memory.
//!
//! ```
//! use schedlab_trace::write::{self, Format};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (text, table) = (folder.path().join("trace.txt"), folder.path().join("trace.csv"));
//! # std::fs::write(&text, "  <idle>-0  [001] 12.000001: cpu_frequency: state=1500000 cpu_id=1\n")?;
//! let mut source = schedlab_trace::open(&text)?;
//! let written = write::convert(&mut *source, &table, Format::Csv, |_done, _total| true)?;
//! assert_eq!(written.map(|written| written.events), Some(1));
//! assert!(std::fs::read_to_string(&table)?.lines().any(|row| row.starts_with("12000001000,1,0,")));
//! # Ok(())
//! # }
//! ```

mod columns;
mod csv;
mod perfetto;
mod rows;
mod tables;

pub use columns::{COLUMNS, Column, ColumnType};
pub use csv::CsvWriter;
pub use perfetto::PerfettoWriter;
pub use rows::EventRows;
pub use tables::EventTables;

use crate::error::TraceError;
use crate::event::{Event, EventKind};
use crate::source::{EventSource, Summary};
use crate::strings::Strings;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Takes events in time order and writes them in one format.
pub trait EventWriter {
    /// Writes the next events, whose names are in `strings`.
    ///
    /// # Errors
    /// What the operating system says.
    fn write(&mut self, events: &[Event], strings: &Strings) -> io::Result<()>;

    /// Writes what is left, and what only a finished trace knows.
    ///
    /// # Errors
    /// What the operating system says.
    fn finish(self: Box<Self>, summary: &Summary, strings: &Strings) -> io::Result<()>;
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Protobuf for ui.perfetto.dev and `trace_processor`.
    Perfetto,
    /// One row an event, in the columns of [`COLUMNS`].
    Csv,
}

impl Format {
    /// Every format, by its name.
    pub const NAMES: [(&'static str, Format); 2] =
        [("perfetto", Format::Perfetto), ("csv", Format::Csv)];

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, format)| format)
    }
}

/// What a conversion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Events written; marks of lost events are not counted.
    pub events: u64,
    /// Events that the trace has but no writer can write, because their types are outside the
    /// schema and were counted only.
    pub dropped: u64,
    /// Of those, how many of each type that is known to be left out; the rest were damaged, or were
    /// records of a known type about something else (a task group's utilisation).
    pub dropped_types: BTreeMap<String, u64>,
}

/// Counts events as they are written.
#[derive(Debug, Default)]
struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Events that are written now.
    fn add(&mut self, events: &[Event]) {
        for event in events.iter().filter(|event| !matches!(event.kind, EventKind::Lost { .. })) {
            *self.0.entry(columns::event_name(&event.kind)).or_default() += 1;
        }
    }

    /// What was written of the trace that `summary` is of, once that was read to its end.
    fn written(&self, summary: &Summary) -> Written {
        let events = self.0.values().sum();
        let dropped = summary.event_counts.values().sum::<u64>().saturating_sub(events);
        let missing = summary.event_counts.iter().map(|(name, &count)| {
            match self.0.get(name.as_str()) {
                Some(&written) => (name, count.saturating_sub(written)),
                // The schema has one name for several spellings of an event.
                None if crate::text::is_in_schema(name) => (name, 0),
                None => (name, count),
            }
        });
        let missing = missing.filter(|&(_, count)| count > 0);
        let dropped_types = missing.map(|(name, count)| (name.clone(), count)).collect();
        Written { events, dropped, dropped_types }
    }
}

/// Writes all that is left of `source` to a file. `progress` is told the bytes read and the bytes
/// in all; its `false` gives up, and the answer is then `None`. The file appears under its name, or
/// where a link of that name leads, once it is complete; a device or a pipe takes it as it comes.
///
/// # Errors
/// What the reader or the operating system says; the file is not left behind half-written.
pub fn convert(
    source: &mut dyn EventSource,
    path: &Path,
    format: Format,
    mut progress: impl FnMut(u64, u64) -> bool,
) -> Result<Option<Written>, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let mut fill = |file: File| {
        let writer = create(file, format, source.summary()).map_err(failed)?;
        pour(source, writer, path, &mut progress)
    };
    let Some(place) = replaceable(path).map_err(failed)? else {
        return fill(File::options().write(true).open(path).map_err(failed)?);
    };
    let mut partial = place.clone().into_os_string();
    partial.push(".part");
    let file = File::create(&partial).map_err(failed)?;
    let outcome = fill(file).and_then(|written| match written {
        Some(_) => std::fs::rename(&partial, &place).map(|()| written).map_err(failed),
        None => Ok(None),
    });
    if !matches!(outcome, Ok(Some(_))) {
        // What stopped the conversion is what to tell; a file that stays behind adds nothing.
        let _unremovable = std::fs::remove_file(&partial);
    }
    outcome
}

/// The name that another file may take in place of what `path` leads to; `None` if that is a device
/// or a pipe, which nothing may take the place of.
fn replaceable(path: &Path) -> io::Result<Option<PathBuf>> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => std::fs::canonicalize(path).map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link may lead to where no file is yet.
            let target = std::fs::read_link(path).ok().zip(path.parent());
            Ok(Some(target.map_or_else(|| path.to_owned(), |(target, folder)| folder.join(target))))
        }
        Err(error) => Err(error),
    }
}

fn create(file: File, format: Format, summary: &Summary) -> io::Result<Box<dyn EventWriter>> {
    let out = BufWriter::with_capacity(1 << 18, file);
    Ok(match format {
        Format::Perfetto => Box::new(PerfettoWriter::new(out, summary)?),
        Format::Csv => Box::new(CsvWriter::new(out)?),
    })
}

fn pour(
    source: &mut dyn EventSource,
    mut writer: Box<dyn EventWriter>,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Written>, TraceError> {
    let failed = |source| TraceError::Io { path: path.to_owned(), source };
    let mut tally = Tally::default();
    let mut events = Vec::new();
    loop {
        events.clear();
        let more = source.read_batch(&mut events)?;
        writer.write(&events, source.strings()).map_err(failed)?;
        tally.add(&events);
        if !more {
            break;
        }
        let (done, total) = source.progress_bytes();
        if !progress(done, total) {
            return Ok(None);
        }
    }
    let summary = source.summary();
    writer.finish(summary, source.strings()).map_err(failed)?;
    Ok(Some(tally.written(summary)))
}

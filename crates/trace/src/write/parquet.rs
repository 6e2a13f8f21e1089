//! Events as a Parquet table, in row groups of bounded size.

use super::EventWriter;
use super::rows::EventRows;
use crate::event::Event;
use crate::source::Summary;
use crate::strings::Strings;
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use arrow_schema::ArrowError;
use std::io::{self, Write};

/// Rows of a row group: a few megabytes in memory.
const GROUP_ROWS: usize = 1 << 17;

/// Writes the table of [`COLUMNS`](super::COLUMNS), compressed with zstd. The file's key-value metadata holds
/// `format`, `clock`, `kernel_release` and `lost_events` of the trace it came from.
pub struct ParquetWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    rows: EventRows,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(out: W) -> io::Result<ParquetWriter<W>> {
        let rows = EventRows::default();
        let level = ZstdLevel::try_new(3).map_err(parquet_error)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer =
            ArrowWriter::try_new(out, rows.schema(), Some(properties)).map_err(parquet_error)?;
        Ok(ParquetWriter { writer, rows })
    }

    fn write_rows(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = self.rows.take().map_err(arrow_error)?;
        self.writer.write(&batch).map_err(parquet_error)
    }
}

impl<W: Write + Send> EventWriter for ParquetWriter<W> {
    fn write(&mut self, events: &[Event], strings: &Strings) -> io::Result<()> {
        for event in events {
            self.rows.push(event, strings);
            if self.rows.len() >= GROUP_ROWS {
                self.write_rows()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, summary: &Summary, _strings: &Strings) -> io::Result<()> {
        self.write_rows()?;
        let lost = summary.lost_events.to_string();
        for (key, value) in [
            ("format", &summary.format),
            ("clock", &summary.clock),
            ("kernel_release", &summary.kernel_release),
            ("lost_events", &lost),
        ] {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value.clone()));
        }
        self.writer.finish().map_err(parquet_error)?;
        self.writer.inner_mut().flush()
    }
}

/// The system's own error where there is one beneath.
fn parquet_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(io) => *io,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn arrow_error(error: ArrowError) -> io::Error {
    io::Error::other(error)
}

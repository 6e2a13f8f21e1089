//! Events as Arrow tables of bounded size, which a caller takes one by one.

use super::{EventRows, Tally, Written};
use crate::error::TraceError;
use crate::event::Event;
use crate::source::{EventSource, Summary};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// Rows of a table, but for those of the source's last batch: a few megabytes in memory.
const TABLE_ROWS: usize = 1 << 17;

/// All that is left of a source, in the columns of [`COLUMNS`](super::COLUMNS).
///
/// ```
/// use schedlab_trace::write::EventTables;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = b"  <idle>-0  [001] 12.000001: cpu_frequency: state=1500000 cpu_id=1\n";
/// let mut tables = EventTables::new(schedlab_trace::open_bytes("trace.txt", text)?);
/// assert_eq!(tables.next_table()?.map(|table| table.num_rows()), Some(1));
/// assert_eq!(tables.next_table()?, None);
/// assert_eq!(tables.written().events, 1);
/// # Ok(())
/// # }
/// ```
pub struct EventTables {
    source: Box<dyn EventSource>,
    rows: EventRows,
    batch: Vec<Event>,
    tally: Tally,
    at_end: bool,
}

impl EventTables {
    /// Nothing is read yet.
    pub fn new(source: Box<dyn EventSource>) -> EventTables {
        let (rows, batch, tally) = (EventRows::default(), Vec::new(), Tally::default());
        EventTables { source, rows, batch, tally, at_end: false }
    }

    /// The schema of every table.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Reads the next events, a few thousand at most, and answers with a table once there are enough
    /// of them; [`EventTables::is_at_end`] tells an unfilled table from the end.
    ///
    /// # Errors
    /// What the reader says.
    pub fn read_on(&mut self) -> Result<Option<RecordBatch>, TraceError> {
        if !self.at_end {
            self.batch.clear();
            self.at_end = !self.source.read_batch(&mut self.batch)?;
            self.tally.add(&self.batch);
            let strings = self.source.strings();
            self.batch.iter().for_each(|event| self.rows.push(event, strings));
        }
        let due = if self.at_end { !self.rows.is_empty() } else { self.rows.len() >= TABLE_ROWS };
        Ok(due.then(|| self.rows.take()))
    }

    /// The next table; `None` at the end.
    ///
    /// # Errors
    /// What the reader says.
    pub fn next_table(&mut self) -> Result<Option<RecordBatch>, TraceError> {
        loop {
            match self.read_on()? {
                None if !self.is_at_end() => {}
                table => return Ok(table),
            }
        }
    }

    /// True once nothing is left to read, and the last table was handed out.
    pub fn is_at_end(&self) -> bool {
        self.at_end && self.rows.is_empty()
    }

    /// Bytes consumed and bytes in all, for a progress bar.
    pub fn progress_bytes(&self) -> (u64, u64) {
        self.source.progress_bytes()
    }

    /// What is known of the trace so far.
    pub fn summary(&self) -> &Summary {
        self.source.summary()
    }

    /// What the tables held, and what they left out.
    pub fn written(&self) -> Written {
        self.tally.written(self.source.summary())
    }
}

//! Events as comma-separated text (RFC 4180), one row an event.

use super::EventWriter;
use super::columns::{COLUMNS, Cell, Cells, Column, ColumnType};
use crate::event::Event;
use crate::source::Summary;
use crate::strings::Strings;
use std::io::{self, Write};

/// Writes a header line with the names of [`COLUMNS`], then a line an event. Null is empty; text
/// is quoted where it must be.
pub struct CsvWriter<W> {
    out: W,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    /// Starts with the header line.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(mut out: W) -> io::Result<CsvWriter<W>> {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name()).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(CsvWriter { out, line: String::new() })
    }

    fn event(&mut self, event: &Event, strings: &Strings) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        let mut at = 0;
        Cells(|column: Column, cell| {
            while at < column as usize {
                line.push(',');
                at += 1;
            }
            match cell {
                Cell::Number(value) => push_number(line, value, column.column_type()),
                Cell::Boolean(value) => line.push_str(if value { "true" } else { "false" }),
                Cell::Name(id) => push_text(line, strings.get(id)),
                Cell::Word(word) => line.push_str(word),
            }
        })
        .of(event);
        for _ in at..COLUMNS.len() - 1 {
            line.push(',');
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }
}

impl<W: Write> EventWriter for CsvWriter<W> {
    fn write(&mut self, events: &[Event], strings: &Strings) -> io::Result<()> {
        events.iter().try_for_each(|event| self.event(event, strings))
    }

    fn finish(mut self: Box<Self>, _summary: &Summary, _strings: &Strings) -> io::Result<()> {
        self.out.flush()
    }
}

fn push_number(line: &mut String, value: u64, column_type: ColumnType) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail.
    let _infallible = match column_type {
        ColumnType::Int64 | ColumnType::Int32 => write!(line, "{}", value as i64),
        _ => write!(line, "{value}"),
    };
}

fn push_text(line: &mut String, text: &str) {
    if text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Pid, Task};
    use schedlab_machine::CpuId;

    #[test]
    fn rows_have_a_field_for_every_column_and_quote_what_needs_it() {
        let mut strings = Strings::default();
        let comm = strings.intern(b"a,\"b\"");
        let kind = EventKind::Migrate {
            task: Task { pid: Pid(7), comm },
            prio: -1,
            from_cpu: CpuId(0),
            to_cpu: CpuId(3),
        };
        let event = Event { timestamp_ns: 5, cpu: CpuId(1), pid: Pid::UNKNOWN, kind };
        let mut out = Vec::new();
        let mut writer = CsvWriter::new(&mut out).unwrap();
        writer.write(&[event], &strings).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (header, row) = text.split_once('\n').unwrap();
        assert!(header.starts_with("timestamp_ns,cpu,pid,event,task_pid,comm,prio,prev_pid"));
        assert!(row.starts_with("5,1,,sched_migrate_task,7,\"a,\"\"b\"\"\",-1,,,,,,,,,0,3,,"));
        let commas = row.matches(',').count() - 1;
        assert_eq!(commas, header.matches(',').count());
    }
}

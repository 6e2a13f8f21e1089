//! Events as Arrow record batches in the columns of [`COLUMNS`].

use super::columns::{COLUMNS, Cell, Cells, Column, ColumnType};
use crate::event::Event;
use crate::strings::Strings;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, UInt32Builder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Gathers rows of the event table.
pub struct EventRows {
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
}

impl Default for EventRows {
    fn default() -> EventRows {
        let fields = COLUMNS.iter().map(|&column| {
            let required = matches!(column, Column::Timestamp | Column::Cpu | Column::Event);
            Field::new(column.name(), data_type(column.column_type()), !required)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let builders = COLUMNS.iter().map(|column| Builder::new(column.column_type())).collect();
        EventRows { schema, builders, rows: 0 }
    }
}

impl EventRows {
    /// The table's schema.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows since the last [`EventRows::take`].
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row.
    pub fn push(&mut self, event: &Event, strings: &Strings) {
        let (builders, row) = (&mut self.builders, self.rows);
        Cells(|column: Column, cell| {
            let builder = &mut builders[column as usize];
            builder.pad(row);
            builder.append(cell, strings);
        })
        .of(event);
        self.rows += 1;
    }

    /// The rows gathered so far, and starts anew.
    pub fn take(&mut self) -> RecordBatch {
        let rows = std::mem::take(&mut self.rows);
        let columns = self.builders.iter_mut().map(|builder| builder.finish(rows)).collect();
        RecordBatch::try_new(self.schema(), columns)
            .expect("columns of the schema's types, each padded to the same length")
    }
}

/// A column that grows, nulls being added late and in bulk: most cells of most rows are null.
enum Builder {
    UInt64(UInt64Builder),
    Int64(Int64Builder),
    UInt32(UInt32Builder),
    Int32(Int32Builder),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
}

impl Builder {
    fn new(column_type: ColumnType) -> Builder {
        match column_type {
            ColumnType::UInt64 => Builder::UInt64(UInt64Builder::new()),
            ColumnType::Int64 => Builder::Int64(Int64Builder::new()),
            ColumnType::UInt32 => Builder::UInt32(UInt32Builder::new()),
            ColumnType::Int32 => Builder::Int32(Int32Builder::new()),
            ColumnType::Boolean => Builder::Boolean(BooleanBuilder::new()),
            ColumnType::Text => Builder::Text(StringBuilder::new()),
        }
    }

    /// Adds nulls until the column has `rows` cells.
    fn pad(&mut self, rows: usize) {
        let missing = |length: usize| rows.saturating_sub(length);
        match self {
            Builder::UInt64(builder) => builder.append_nulls(missing(builder.len())),
            Builder::Int64(builder) => builder.append_nulls(missing(builder.len())),
            Builder::UInt32(builder) => builder.append_nulls(missing(builder.len())),
            Builder::Int32(builder) => builder.append_nulls(missing(builder.len())),
            Builder::Boolean(builder) => builder.append_nulls(missing(builder.len())),
            Builder::Text(builder) => builder.append_nulls(missing(builder.len())),
        }
    }

    fn append(&mut self, cell: Cell, strings: &Strings) {
        match (self, cell) {
            (Builder::UInt64(builder), Cell::Number(value)) => builder.append_value(value),
            (Builder::Int64(builder), Cell::Number(value)) => builder.append_value(value as i64),
            (Builder::UInt32(builder), Cell::Number(value)) => builder.append_value(value as u32),
            (Builder::Int32(builder), Cell::Number(value)) => builder.append_value(value as i32),
            (Builder::Boolean(builder), Cell::Boolean(value)) => builder.append_value(value),
            (Builder::Text(builder), Cell::Name(id)) => builder.append_value(strings.get(id)),
            (Builder::Text(builder), Cell::Word(word)) => builder.append_value(word),
            (_, cell) => debug_assert!(false, "{cell:?} is of another type than its column"),
        }
    }

    /// The column of `rows` cells; the builder is empty then.
    fn finish(&mut self, rows: usize) -> ArrayRef {
        self.pad(rows);
        match self {
            Builder::UInt64(builder) => Arc::new(builder.finish()),
            Builder::Int64(builder) => Arc::new(builder.finish()),
            Builder::UInt32(builder) => Arc::new(builder.finish()),
            Builder::Int32(builder) => Arc::new(builder.finish()),
            Builder::Boolean(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

fn data_type(column_type: ColumnType) -> DataType {
    match column_type {
        ColumnType::UInt64 => DataType::UInt64,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::UInt32 => DataType::UInt32,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Text => DataType::Utf8,
    }
}

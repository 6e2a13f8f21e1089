//! Parquet and CSV hold the same rows, which are the trace's events.

#![cfg(feature = "write")]

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use schedlab_trace::write::{COLUMNS, Format, convert};
use std::fs::File;
use std::path::Path;
use support::sample;

fn write(name: &str, path: &Path, format: Format) {
    let mut source = schedlab_trace::open(&sample(name)).unwrap();
    convert(&mut *source, path, format, |_, _| true).unwrap();
}

fn cell(batch: &RecordBatch, column: usize, row: usize) -> String {
    let array = batch.column(column);
    if array.is_null(row) {
        return String::new();
    }
    match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        other => panic!("{other} is no type of an event's column"),
    }
}

#[test]
fn both_tables_tell_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["qemu_pelt_ptask.dat", "qemu_idle_menu.dat", "trappy_arm32.dat"] {
        let (csv, parquet) = (folder.path().join("t.csv"), folder.path().join("t.parquet"));
        write(name, &csv, Format::Csv);
        write(name, &parquet, Format::Parquet);
        let text = std::fs::read_to_string(&csv).unwrap();
        let mut lines = text.lines();
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name()).collect();
        assert_eq!(lines.next().unwrap(), names.join(","));

        let file = File::open(&parquet).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        for batch in reader {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let cells: Vec<_> =
                    (0..batch.num_columns()).map(|column| cell(&batch, column, row)).collect();
                assert_eq!(lines.next().unwrap(), cells.join(","), "{name}");
            }
        }
        assert_eq!(lines.next(), None, "{name}");
    }
}

#[test]
fn rows_are_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    write("qemu_psched_hackbench.data", &path, Format::Csv);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1 + 1203);
    // As `perf script` prints these two.
    let stat = "113847594607,0,672,sched_stat_runtime,672,perf,";
    assert!(text.lines().nth(1).unwrap().starts_with(stat), "{:?}", text.lines().nth(1));
    let switch = "113847612169,0,672,sched_switch,,,,672,perf,120,R+,21,migration/0,0,,";
    assert!(text.lines().nth(4).unwrap().starts_with(switch), "{:?}", text.lines().nth(4));
}

#[test]
fn parquet_names_the_trace_it_came_from_and_keeps_groups_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write("qemu_idle_menu.dat", &path, Format::Parquet);
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| {
        metadata.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone())
    };
    assert_eq!(value("clock").as_deref(), Some("mono"));
    assert_eq!(value("kernel_release").as_deref(), Some("6.12.117+deb12-amd64"));
    assert_eq!(value("lost_events").as_deref(), Some("0"));
    let required: Vec<_> =
        reader.schema().fields().iter().filter(|field| !field.is_nullable()).collect();
    let required: Vec<_> = required.iter().map(|field| field.name().as_str()).collect();
    assert_eq!(required, ["timestamp_ns", "cpu", "event"]);
}

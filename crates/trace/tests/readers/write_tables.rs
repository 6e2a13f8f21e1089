//! Arrow tables and CSV hold the same rows, which are the trace's events.

use crate::support::sample;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use schedlab_trace::write::{COLUMNS, EventTables, Format, Written, convert};
use std::path::Path;

fn write_csv(name: &str, path: &Path) -> Written {
    let mut source = schedlab_trace::open(&sample(name)).unwrap();
    convert(&mut *source, path, Format::Csv, |_, _| true).unwrap().expect("it is not given up")
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
        let csv = folder.path().join("t.csv");
        let written = write_csv(name, &csv);
        let text = std::fs::read_to_string(&csv).unwrap();
        let mut lines = text.lines();
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name()).collect();
        assert_eq!(lines.next().unwrap(), names.join(","));

        let mut tables = EventTables::new(schedlab_trace::open(&sample(name)).unwrap());
        let schema = tables.schema();
        while let Some(table) = tables.next_table().unwrap() {
            assert_eq!(table.schema(), schema);
            for row in 0..table.num_rows() {
                let cells: Vec<_> =
                    (0..table.num_columns()).map(|column| cell(&table, column, row)).collect();
                assert_eq!(lines.next().unwrap(), cells.join(","), "{name}");
            }
        }
        assert_eq!(tables.written(), written, "{name}");
        assert_eq!(lines.next(), None, "{name}");
    }
}

#[test]
fn rows_are_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    write_csv("qemu_psched_hackbench.data", &path);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1 + 1203);
    // As `perf script` prints these two.
    let stat = "113847594607,0,672,sched_stat_runtime,672,perf,";
    assert!(text.lines().nth(1).unwrap().starts_with(stat), "{:?}", text.lines().nth(1));
    let switch = "113847612169,0,672,sched_switch,,,,672,perf,120,R+,21,migration/0,0,,";
    assert!(text.lines().nth(4).unwrap().starts_with(switch), "{:?}", text.lines().nth(4));
}

#[test]
fn tables_are_bounded_and_say_which_cells_are_always_there() {
    // Longer than a table may be; a source's batch is a few thousand events.
    let line = "  <idle>-0  [001] 12.000001: cpu_frequency: state=1500000 cpu_id=1\n";
    let text = line.repeat(300_000);
    let mut tables =
        EventTables::new(schedlab_trace::open_bytes("long.txt", text.as_bytes()).unwrap());
    let schema = tables.schema();
    let required: Vec<_> = schema.fields().iter().filter(|field| !field.is_nullable()).collect();
    let required: Vec<_> = required.iter().map(|field| field.name().as_str()).collect();
    assert_eq!(required, ["timestamp_ns", "cpu", "event"]);
    let mut heights = Vec::new();
    while let Some(table) = tables.next_table().unwrap() {
        heights.push(table.num_rows());
    }
    assert_eq!(heights.iter().sum::<usize>(), 300_000);
    assert!(heights.iter().all(|&height| height < (1 << 17) + (1 << 15)), "{heights:?}");
    assert!(tables.is_at_end());
    assert_eq!(tables.written().events, 300_000);
}

#[cfg(unix)]
#[test]
fn a_link_is_written_through_and_a_pipe_takes_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let plain = path("plain.csv");
    write_csv("qemu_pelt_ptask.dat", &plain);
    let text = std::fs::read_to_string(&plain).unwrap();
    std::fs::create_dir(path("there")).unwrap();
    // Twice: to where there is no file yet, and to the one that is there then.
    std::os::unix::fs::symlink("there/target.csv", path("link.csv")).unwrap();
    for _ in 0..2 {
        write_csv("qemu_pelt_ptask.dat", &path("link.csv"));
        assert!(std::fs::symlink_metadata(path("link.csv")).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(path("there/target.csv")).unwrap(), text);
    }
    let pipe = path("pipe.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    write_csv("qemu_pelt_ptask.dat", &pipe);
    assert_eq!(reader.join().unwrap(), text);
    assert!(!std::fs::symlink_metadata(&pipe).unwrap().is_file());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "no part is left behind");
}

//! The timeline's intervals as Arrow tables.

use crate::table::{Columns, Table};
use pyo3::PyResult;
use schedlab_metrics::idle_miss::Verdict;
use schedlab_metrics::timeline::{Run, Sample, Sleep};
use schedlab_trace::Strings;

pub fn runs(rows: &[Run], strings: &Strings) -> PyResult<Table> {
    Columns::default()
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u64("start_ns", rows.iter().map(|row| row.start_ns))
        .u64("end_ns", rows.iter().map(|row| row.end_ns))
        .i32("pid", rows.iter().map(|row| row.task.pid.0))
        .text("comm", rows.iter().map(|row| strings.get(row.task.comm)))
        .u64("latency_ns", rows.iter().map(|row| row.latency_ns))
        .text("state", rows.iter().map(|row| row.left.map(|left| left.letter())))
        .table()
}

pub fn sleeps(rows: &[Sleep]) -> PyResult<Table> {
    let miss = |verdict| match verdict {
        Verdict::TooDeep => -1,
        Verdict::Fits => 0,
        Verdict::TooShallow => 1,
    };
    Columns::default()
        .u32("cpu", rows.iter().map(|row| row.period.cpu.0))
        .u64("start_ns", rows.iter().map(|row| row.period.enter_ns))
        .u64("end_ns", rows.iter().map(|row| row.period.exit_ns))
        .u32("state", rows.iter().map(|row| row.period.state))
        .boolean("whole", rows.iter().map(|row| row.whole))
        .i32("miss", rows.iter().map(|row| row.verdict.map(miss)))
        .table()
}

pub fn samples(rows: &[Sample]) -> PyResult<Table> {
    Columns::default()
        .text("name", rows.iter().map(|row| row.counter.name()))
        .text("unit", rows.iter().map(|row| row.counter.unit()))
        .u32("cpu", rows.iter().map(|row| row.cpu.0))
        .u64("time_ns", rows.iter().map(|row| row.time_ns))
        .u32("value", rows.iter().map(|row| row.value))
        .table()
}

//! The Python binding: conversion only, no logic.

mod cpupri;
mod event_tables;
mod kernel;
mod kernels;
mod machine;
mod own;
mod reading;
mod replay;
mod sim;
mod stored;
mod table;
mod tasks;
mod timeline_tables;
mod trace;
mod trace_tables;
mod workload;

use pyo3::prelude::*;

/// The compiled half of the `schedlab` package.
#[pymodule]
fn _schedlab(module: &Bound<'_, PyModule>) -> PyResult<()> {
    event_tables::register(module)?;
    cpupri::register(module)?;
    kernel::register(module)?;
    kernels::register(module)?;
    machine::register(module)?;
    own::register(module)?;
    replay::register(module)?;
    sim::register(module)?;
    tasks::register(module)?;
    trace::register(module)?;
    workload::register(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

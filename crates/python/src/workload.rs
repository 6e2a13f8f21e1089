//! Workloads for Python.

use crate::machine::Machine;
use crate::reading;
use crate::sim::WorkloadError;
use pyo3::prelude::*;

/// A built-in workload or a file in words, as JSON text.
#[pyfunction]
#[pyo3(signature = (name_or_path, machine))]
fn workload_describe(name_or_path: &str, machine: Option<&Machine>) -> PyResult<String> {
    let machine = machine.map(|machine| &machine.inner);
    let described = schedlab_workload::describe(name_or_path, machine);
    described
        .map(|value| value.to_string())
        .map_err(|error| WorkloadError::new_err(reading::told(&error)))
}

/// Adds this module's functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(workload_describe, module)?)
}

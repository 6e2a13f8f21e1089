//! Named kernels for Python.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_kernel::preset;

create_exception!(schedlab, KernelError, PyValueError, "A kernel cannot be loaded.");

/// A kernel that has been loaded.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct Kernel {
    pub(crate) inner: preset::Kernel,
}

fn refusal(error: preset::KernelError) -> PyErr {
    KernelError::new_err(error.to_string())
}

#[pymethods]
impl Kernel {
    /// A built-in kernel.
    #[staticmethod]
    fn preset(name: &str) -> PyResult<Self> {
        let inner = preset::Kernel::preset(name);
        inner.map(|inner| Self { inner }).ok_or_else(|| refusal(preset::Kernel::unknown(name)))
    }

    /// TOML text; errors call it `name`.
    #[staticmethod]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        preset::Kernel::from_toml(name, text).map(|inner| Self { inner }).map_err(refusal)
    }

    /// The names of the built-in kernels, oldest first.
    #[staticmethod]
    fn preset_names() -> Vec<&'static str> {
        preset::Kernel::preset_names().collect()
    }

    /// The file of a built-in kernel, comments and all.
    #[staticmethod]
    fn preset_text(name: &str) -> Option<&'static str> {
        preset::Kernel::preset_text(name)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// One line on what it is.
    #[getter]
    fn description(&self) -> &str {
        &self.inner.description
    }

    /// Every setting with its value, in the order of files; times scaled to a number of CPUs.
    #[pyo3(signature = (cpus))]
    fn settings(&self, cpus: Option<usize>) -> Vec<(&'static str, String)> {
        self.inner.settings(cpus)
    }

    /// Whether both are the same in every setting.
    fn __eq__(&self, other: &Self) -> bool {
        self.inner.settings(None) == other.inner.settings(None)
    }
}

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Kernel>()?;
    module.add("KernelError", module.py().get_type::<KernelError>())
}

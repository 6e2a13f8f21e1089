//! Machines for Python.

use crate::kernels::Kernel;
use crate::reading;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::topology::Domain;
use schedlab_machine::import::{self, ImportOptions, Imported};
use serde_json::{Value, json};

create_exception!(schedlab, MachineError, PyValueError, "A machine cannot be loaded or imported.");

/// A machine that has been loaded.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct Machine {
    pub(crate) inner: schedlab_machine::Machine,
    toml: Option<String>,
}

impl From<schedlab_machine::Machine> for Machine {
    fn from(inner: schedlab_machine::Machine) -> Self {
        Self { inner, toml: None }
    }
}

fn refusal(error: schedlab_machine::MachineError) -> PyErr {
    MachineError::new_err(reading::told(&error))
}

impl From<Imported> for Machine {
    fn from(imported: Imported) -> Self {
        Self { inner: imported.machine, toml: Some(imported.toml) }
    }
}

#[pymethods]
impl Machine {
    /// A built-in machine or a file.
    #[staticmethod]
    fn find(name_or_path: &str) -> PyResult<Self> {
        let inner = schedlab_machine::Machine::find(name_or_path).map_err(refusal)?;
        Ok(Self { inner, toml: None })
    }

    /// A file, whatever it is called.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        let inner = schedlab_machine::Machine::load(&path).map_err(refusal)?;
        Ok(Self { inner, toml: None })
    }

    /// TOML text.
    #[staticmethod]
    fn parse(text: &str, path: PathBuf) -> PyResult<Self> {
        let inner = schedlab_machine::Machine::parse(text, &path).map_err(refusal)?;
        Ok(Self { inner, toml: None })
    }

    /// Another tool's description of a machine, from a file.
    #[staticmethod]
    #[pyo3(signature = (path, name, cpu_model))]
    fn import_file(
        path: PathBuf,
        name: Option<String>,
        cpu_model: Option<String>,
    ) -> PyResult<Self> {
        let options = ImportOptions { name, cpu_model };
        import::import_file(&path, &options).map(Self::from).map_err(refusal)
    }

    /// Another tool's description of a machine, from memory.
    #[staticmethod]
    #[pyo3(signature = (content, path, name, cpu_model))]
    fn import_bytes(
        content: &[u8],
        path: PathBuf,
        name: Option<String>,
        cpu_model: Option<String>,
    ) -> PyResult<Self> {
        let options = ImportOptions { name, cpu_model };
        import::import_bytes(content, &path, &options).map(Self::from).map_err(refusal)
    }

    /// The machine that a `/sys` tree describes.
    #[staticmethod]
    #[pyo3(signature = (root, name, cpu_model))]
    fn import_sysfs(
        root: PathBuf,
        name: Option<String>,
        cpu_model: Option<String>,
    ) -> PyResult<Self> {
        let options = ImportOptions { name, cpu_model };
        import::import_sysfs(&root, &options).map(Self::from).map_err(refusal)
    }

    /// The names of the built-in machines.
    #[staticmethod]
    fn preset_names() -> Vec<&'static str> {
        schedlab_machine::Machine::preset_names().collect()
    }

    /// The file of a built-in machine, comments and all.
    #[staticmethod]
    fn preset_text(name: &str) -> Option<&'static str> {
        schedlab_machine::Machine::preset_text(name)
    }

    /// The machine's file; an import's with its comments.
    fn to_toml(&self) -> String {
        self.toml.clone().unwrap_or_else(|| self.inner.to_toml())
    }

    /// Everything about the machine, as JSON text.
    fn to_json(&self) -> String {
        self.inner.to_json().to_string()
    }

    /// The scheduling domains that a kernel builds on the machine, as JSON text: every domain, and
    /// each CPU's stack of them, lowest first.
    fn domains_json(&self, kernel: &Kernel) -> String {
        let domains = build_domains(&self.inner, kernel.inner.domains);
        json!({
            "machine": self.inner.name(),
            "kernel": kernel.inner.name,
            "domains": domains.domains.iter().map(domain_json).collect::<Vec<_>>(),
            "cpus": self.inner.cpu_ids().map(|cpu| json!({
                "cpu": cpu.0,
                "stack": domains.stack(cpu).iter().map(|membership| json!({
                    "domain": membership.domain,
                    "first_group": membership.first_group,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Whether both describe the same machine.
    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

fn domain_json(domain: &Domain) -> Value {
    json!({
        "level": domain.name,
        "span": domain.span.to_string(),
        "weight": domain.weight,
        "flags": domain.flags.names().collect::<Vec<_>>(),
        "imbalance_pct": domain.imbalance_pct,
        "min_interval_ms": domain.balance_interval_ms,
        "max_interval_ms": domain.interval_max_ms,
        "busy_factor": domain.busy_factor,
        "cache_nice_tries": domain.cache_nice_tries,
        "imb_numa_nr": domain.imb_numa_nr,
        "groups": domain.groups.iter().map(|group| json!({
            "span": group.span.to_string(),
            "weight": group.weight,
            "capacity": group.capacity,
        })).collect::<Vec<_>>(),
    })
}

/// Adds this module's classes.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Machine>()?;
    module.add("MachineError", module.py().get_type::<MachineError>())
}

//! Machines from what other tools tell: sysfs, `lscpu -J`, hwloc XML, LISA's `plat_info.yml`.
//!
//! Each importer fills a [`Survey`] with what its source says and nothing else; one place
//! ([`survey`]) completes it with documented estimates, and says so in the file's comments.

pub(crate) mod estimate;
mod hwloc;
pub(crate) mod intel_idle;
mod lisa;
mod lscpu;
mod survey;
mod sysfs;
mod yaml;

use std::path::Path;

use crate::error::read_bounded;
use crate::{Machine, MachineError};

use survey::Survey;

/// No description of a machine is larger; a larger file is something else.
const BYTES_MAX: u64 = 64 << 20;

/// What the user adds to an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The machine's name, in place of what the source says.
    pub name: Option<String>,
    /// A processor of intel_idle's list, by the kernel's name (`SKYLAKE_X`), by the name of its
    /// table (`skx`) or as family/model (`6/85`, `6/0x55`), for sources that tell no idle states.
    pub cpu_model: Option<String>,
}

/// An imported machine.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The machine.
    pub machine: Machine,
    /// Its file, with comments on what is known and what is an estimate.
    pub toml: String,
}

/// Imports a file, whose format its content tells.
///
/// # Errors
/// When the file cannot be read, is of no known format, or contradicts itself.
pub fn import_file(path: &Path, options: &ImportOptions) -> Result<Imported, MachineError> {
    let io = |source| MachineError::Io { path: path.to_owned(), source };
    import_bytes(&read_bounded(path, BYTES_MAX).map_err(io)?, path, options)
}

/// Imports a description in memory; `path` is what errors call it.
///
/// # Errors
/// When the content is of no known format, or contradicts itself.
pub fn import_bytes(
    bytes: &[u8],
    path: &Path,
    options: &ImportOptions,
) -> Result<Imported, MachineError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        MachineError::import(path, format!("byte {}: not text; {FORMATS}", error.valid_up_to()))
    })?;
    let survey = match text.trim_start().chars().next() {
        Some('<') => hwloc::survey(text),
        Some('{') => lscpu::survey(text),
        Some(_) if text.contains("platform-info") => lisa::survey(text),
        _ => Err(format!("no description of a machine; {FORMATS}")),
    };
    finish(survey, path, options)
}

/// Imports a machine from its `/sys` tree: `root` holds `sys/`, or is a copy of `/sys` itself.
///
/// # Errors
/// When there is no such tree, or it contradicts itself.
pub fn import_sysfs(root: &Path, options: &ImportOptions) -> Result<Imported, MachineError> {
    finish(sysfs::survey(root), root, options)
}

const FORMATS: &str = "the importer reads lscpu -J, hwloc XML and LISA's plat_info.yml";

fn finish(
    survey: Result<Survey, String>,
    path: &Path,
    options: &ImportOptions,
) -> Result<Imported, MachineError> {
    let toml = survey
        .and_then(|survey| survey.complete(options))
        .map_err(|what| MachineError::import(path, what))?;
    // Loading the text is the check: what an import prints must load wherever it is taken.
    match Machine::parse(&toml, path) {
        Ok(machine) => Ok(Imported { machine, toml }),
        Err(MachineError::Invalid { what, .. }) => Err(MachineError::import(path, what)),
        Err(other) => Err(other),
    }
}

//! The TOML format that people read, copy and edit. See `machines/generic.toml` for a tour.

mod check;
mod cores;
pub(crate) mod draft;
mod layout;
mod raw;
pub(crate) mod save;

use std::path::Path;

use crate::error::{Fault, read_bounded};
use crate::{Machine, MachineError};

pub use layout::{Numbering, Regular};

/// No machine file is longer; a longer one is something else.
const BYTES_MAX: u64 = 4 << 20;

impl Machine {
    /// Loads a machine file.
    pub fn load(path: &Path) -> Result<Self, MachineError> {
        let bytes = read_bounded(path, BYTES_MAX)
            .map_err(|source| MachineError::Io { path: path.to_owned(), source })?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text, path),
            Err(error) => {
                let text = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(Fault::new(error.valid_up_to(), "not text; a machine file is TOML")
                    .at(path, &text))
            }
        }
    }

    /// Reads a machine from TOML text; `path` is what errors call it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, MachineError> {
        read(text).map_err(|fault| fault.at(path, text))
    }
}

fn read(text: &str) -> Result<Machine, Fault> {
    let file: raw::File = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        Fault::new(offset, error.message().replace('\n', "; "))
    })?;
    check::machine(file)
}

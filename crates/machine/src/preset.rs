//! The machines that come with schedlab, built into the library.

use std::path::Path;

use crate::{Machine, MachineError};

/// Every built-in machine: its name and its file.
const PRESETS: &[(&str, &str)] = &[
    ("generic", include_str!("../../../machines/generic.toml")),
    ("kunpeng920-2s", include_str!("../../../machines/kunpeng920-2s.toml")),
    ("power7-2s", include_str!("../../../machines/power7-2s.toml")),
    ("atom-netbook-ht", include_str!("../../../machines/atom-netbook-ht.toml")),
    ("nehalem-ep-2s", include_str!("../../../machines/nehalem-ep-2s.toml")),
    ("snb-laptop", include_str!("../../../machines/snb-laptop.toml")),
    ("snb-ep-2s", include_str!("../../../machines/snb-ep-2s.toml")),
    ("gnr-2s-snc3", include_str!("../../../machines/gnr-2s-snc3.toml")),
    ("pixel6-gs101", include_str!("../../../machines/pixel6-gs101.toml")),
    ("juno-r0", include_str!("../../../machines/juno-r0.toml")),
    ("simidle", include_str!("../../../machines/simidle.toml")),
    ("qemu4", include_str!("../../../machines/qemu4.toml")),
    ("qemu8", include_str!("../../../machines/qemu8.toml")),
];

impl Machine {
    /// The names of the built-in machines.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The TOML text of a built-in machine, to copy and edit.
    pub fn preset_text(name: &str) -> Option<&'static str> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// A built-in machine.
    pub fn preset(name: &str) -> Option<Self> {
        Self::parse(Self::preset_text(name)?, Path::new(name)).ok()
    }

    /// A built-in machine by its name, or else a file by its path.
    pub fn find(name_or_path: &str) -> Result<Self, MachineError> {
        let path = Path::new(name_or_path);
        match Self::preset_text(name_or_path) {
            Some(text) => Self::parse(text, path),
            None if path.exists() => Self::load(path),
            None => Err(MachineError::Unknown {
                name: name_or_path.to_owned(),
                presets: Self::preset_names().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_loads_and_bears_its_name() {
        for name in Machine::preset_names() {
            match Machine::find(name) {
                Ok(machine) => assert_eq!(machine.name(), name),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

//! Why a machine cannot be loaded.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Each message names the file, the line where there is one, and the mend.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own word.
        source: std::io::Error,
    },
    /// Neither a built-in machine nor a file.
    #[error("{name}: neither a file nor a built-in machine; built in are {presets}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        presets: String,
    },
    /// The content contradicts itself or the format.
    #[error("{}:{line}: {what}", path.display())]
    Invalid {
        /// The file, or the preset's name.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there and what would mend it.
        what: String,
    },
    /// A file of another tool that tells too little or contradicts itself.
    #[error("{}: {what}", path.display())]
    Import {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong and what would mend it.
        what: String,
    },
}

impl MachineError {
    /// An [`Import`](Self::Import) error.
    pub(crate) fn import(path: &Path, what: impl Into<String>) -> Self {
        Self::Import { path: path.to_owned(), what: what.into() }
    }
}

/// A file's bytes, unless there are more than `bytes_max`, be it a device without end.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let what = format!("longer than {bytes_max} bytes, so no description of a machine");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// What is wrong at a byte of a text that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub offset: usize,
    pub what: String,
}

impl Fault {
    pub fn new(offset: usize, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }

    /// The error for people: the byte becomes a line of `text`.
    pub fn at(self, path: &Path, text: &str) -> MachineError {
        let before = text.as_bytes().get(..self.offset).unwrap_or(text.as_bytes());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        MachineError::Invalid { path: path.to_owned(), line, what: self.what }
    }
}

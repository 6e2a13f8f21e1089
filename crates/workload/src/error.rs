//! Why a workload cannot be used.

use std::path::{Path, PathBuf};

/// Each message names the place and the mend.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own word.
        source: std::io::Error,
    },
    /// Neither a built-in workload nor a file.
    #[error("{name}: neither a file nor a built-in workload; built in are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The content of a file contradicts itself or the format.
    #[error("{}:{line}: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there and what would mend it.
        what: String,
    },
    /// An operation that cannot be carried out.
    #[error("{workload}: program {program}, operation {at} ({op}): {what}")]
    Operation {
        /// The workload.
        workload: String,
        /// The program's name.
        program: String,
        /// The operation's index, from 0.
        at: usize,
        /// The operation's name.
        op: String,
        /// What is wrong and what would mend it.
        what: String,
    },
    /// A workload that cannot run as a whole.
    #[error("{workload}: {what}")]
    Whole {
        /// The workload.
        workload: String,
        /// What is wrong and what would mend it.
        what: String,
    },
}

impl WorkloadError {
    /// An error of a whole workload.
    pub(crate) fn whole(workload: &str, what: impl Into<String>) -> WorkloadError {
        WorkloadError::Whole { workload: workload.to_owned(), what: what.into() }
    }

    /// An error at a line of a file.
    pub(crate) fn line(path: &Path, line: usize, what: impl Into<String>) -> WorkloadError {
        WorkloadError::Invalid { path: path.to_owned(), line, what: what.into() }
    }
}

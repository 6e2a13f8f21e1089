//! What stops a reader altogether. Everything less is a data-quality row.

use std::path::PathBuf;

/// Why a trace cannot be read at all. Each message names the file, the place and the mend.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own word.
        source: std::io::Error,
    },
    /// No reader knows this content.
    #[error(
        "{}: not a trace that schedlab knows (first bytes: {first}); it reads trace-cmd .dat, \
         ftrace and perf script text, systrace HTML, perf.data and Perfetto protobuf",
        path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The first bytes, printable.
        first: String,
    },
    /// The content is of a known format, but broken where nothing can be read without it.
    #[error("{}: byte {offset}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, in bytes from the start.
        offset: u64,
        /// What is wrong there and what would mend it.
        what: String,
    },
}

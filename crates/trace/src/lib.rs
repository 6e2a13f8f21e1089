//! What happened: the event schema, one reader per trace format behind one interface, writers,
//! and data-quality rows. Damage in a file never aborts a reader: it becomes a row.

// What only the writers call would be dead code without them.
#![cfg_attr(not(feature = "write"), allow(dead_code))]

pub mod c2c;
mod dat;
mod error;
mod event;
pub mod format;
mod input;
mod merge;
mod open;
mod perf;
mod perfetto;
mod quality;
mod source;
mod stream;
mod strings;
pub mod text;
#[cfg(feature = "write")]
pub mod write;

pub use error::TraceError;
pub use event::{Event, EventKind, PeltClass, Pid, Task, TaskState};
pub use input::{Input, InputReader};
pub use open::{open, open_bytes};
pub use quality::{Finding, Quality, Severity};
pub use source::{EventSource, Summary};
pub use strings::{StrId, Strings};

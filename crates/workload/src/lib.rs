//! What tasks do: a small task language, and the benchmarks of the field written in it. Nothing
//! here knows how a task gets its CPU.

mod attributes;
mod block;
pub mod build;
mod deadlines;
mod ends;
mod error;
mod file;
pub mod models;
mod outline;
pub mod program;
pub mod recorded;
pub mod rt_app;
mod sections;
mod slots;
mod validate;

pub use block::Bound;
pub use error::WorkloadError;
pub use file::{CPUS_DEFAULT, describe, load, preset_names, preset_text};
pub use validate::TASKS_MAX;

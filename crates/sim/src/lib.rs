//! Virtual time: drives the kernel over a machine with a workload. One run is a pure function of
//! machine, kernel, workload, duration and seed.

mod energy;
mod engine;
mod figures;
mod histogram;
mod interpret;
mod lines;
mod objects;
mod observe;
mod platform;
mod queue;
mod random;
mod sync;

pub use energy::Energy;
pub use engine::{CpuTimes, Ending, Engine, Outcome, Settings, TaskSummary};
pub use figures::Figure;
pub use histogram::Histogram;
pub use observe::{Nothing, Observer};
pub use random::Pcg;

//! Virtual time: drives the kernel over a machine with a workload. One run is a pure function of
//! machine, kernel, workload, duration and seed.

mod broadcast;
mod decisions;
mod devices;
mod energy;
mod engine;
mod figures;
mod frequency;
mod groups;
mod histogram;
mod idle;
mod idle_counts;
mod interpret;
mod lifecycle;
mod lines;
mod objects;
mod observe;
mod outcome;
mod passes;
mod patience;
mod platform;
mod queue;
mod random;
mod record;
mod share;
mod simulate;
mod streams;
mod sync;
mod timers;
mod verify;
mod watch;

pub use decisions::{DECISIONS_MAX, Explained};
pub use energy::{Energy, PackageTimes};
pub use engine::Engine;
pub use figures::Figure;
pub use frequency::FrequencyTimes;
pub use groups::GroupTimes;
pub use histogram::Histogram;
pub use idle_counts::IdleCounts;
pub use observe::{InOrder, Nothing, Observer};
pub use outcome::{CpuTimes, Ending, Outcome, Settings, TaskSummary};
pub use platform::FIRST_PID;
pub use random::Pcg;
pub use record::{RecordedTrace, TracedNames};
pub use simulate::{DURATION_MAX_NS, SimError, check, default_duration_ns, simulate};
pub use watch::{run_watched, verify_outcome};

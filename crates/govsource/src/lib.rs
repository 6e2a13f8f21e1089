//! An idle governor's C source, as a kernel tree has it, compiled and run beside the simulator.
//!
//! [`GovernorSource`] compiles a file such as `drivers/cpuidle/governors/teo.c` as it stands, with
//! headers of this crate's own in place of the kernel's, into a small program. Each life that is
//! asked for is a process of its own, so that a crash there is a message here. Every input of a
//! decision travels with the request: the process asks nothing, and answers the same to the same.
//!
//! ```no_run
//! use std::path::Path;
//! use schedlab_govsource::GovernorSource;
//! use schedlab_kernel::cpuidle::{Candidate, OwnKind};
//!
//! let teo = GovernorSource::open(Path::new("linux/drivers/cpuidle/governors/teo.c"))?;
//! println!("{}: {}", teo.name(), teo.source()); // teo.c@0b1c2d3e: linux/drivers/...
//! let candidate = Candidate::Own(&teo);
//! # Ok::<(), schedlab_govsource::SourceError>(())
//! ```

mod compile;
mod governor;
mod process;
mod source;
mod wire;

pub use compile::SourceError;
pub use source::GovernorSource;

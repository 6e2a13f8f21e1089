//! The benchmarks of the field, with the options and defaults of the real tools.
//!
//! What a tool's source fixes stands here as it is there. What depends on the machine that runs it
//! (how long an event computes) is an option whose default names its source; an *estimate* is
//! called one.

pub mod android;
pub mod busy_loops;
pub mod bzip2;
pub mod daemons;
pub mod ebizzy;
pub mod ffmpeg;
pub mod fio;
pub mod geekbench;
pub mod hackbench;
pub mod jankbench;
pub mod kbuild;
pub mod parameters;
pub mod pcmark;
pub mod perf_bench;
pub mod periodic;
pub mod pgbench;
pub mod schbench;
pub mod specjbb;
pub mod speedometer;
pub mod sysbench;

use crate::error::WorkloadError;
use crate::program::Workload;
use crate::validate::TASKS_MAX;

/// A benchmark whose options are known.
pub trait Model {
    /// The workload on a machine with `cpus` CPUs, which some defaults follow.
    ///
    /// # Errors
    /// Names the option that cannot be, and its mend.
    fn workload(&self, name: &str, cpus: u32) -> Result<Workload, WorkloadError>;
}

/// Refuses options outside their range before anything is built from them.
pub(crate) fn in_range(
    workload: &str,
    option: &str,
    value: u64,
    (min, max): (u64, u64),
) -> Result<(), WorkloadError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let what = format!("{option} = {value} is not in {min} to {max}; change it");
    Err(WorkloadError::whole(workload, what))
}

/// Refuses more tasks than are simulated.
pub(crate) fn tasks_in_range(
    workload: &str,
    option: &str,
    tasks: u64,
) -> Result<(), WorkloadError> {
    in_range(workload, option, tasks, (1, TASKS_MAX))
}

/// Nanoseconds of a number of seconds that an option gives.
pub(crate) fn seconds_ns(workload: &str, option: &str, s: u64) -> Result<u64, WorkloadError> {
    in_range(workload, option, s, (1, 1_000_000))?;
    Ok(s * 1_000_000_000)
}

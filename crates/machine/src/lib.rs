//! What the hardware is, as data: the CPU tree, distances, capacities, operating points, idle
//! states, power, cache-line transfer costs and kernel path costs. No time passes here, and the
//! only I/O is loading.
//!
//! [`Machine`] is the door: a built-in machine, a TOML file, or an import of what another tool
//! tells. Accessors are array look-ups by [`CpuId`]; quantities are integers, their units last in
//! the name (power in microwatts, so that microwatts times nanoseconds are femtojoules).

mod costs;
mod cpu_type;
mod cpuset;
mod error;
mod file;
mod group_state;
mod idle_miss;
pub mod import;
mod json;
mod memory;
mod model;
mod preset;
mod topology;
mod units;

pub use costs::{CacheCosts, PathCosts, Proximity, SmtCurve, UncorePower};
pub use cpu_type::{CpuType, IdleState, Opp};
pub use cpuset::{Both, CpuSet, CpuSetError, Iter};
pub use error::MachineError;
pub use file::{Numbering, Regular};
pub use group_state::GroupState;
pub use idle_miss::{Verdict, verdict};
pub use memory::MemoryLimits;
pub use model::{BroadcastIrq, FrequencyDomain, Machine, Rail, UsualCpufreq};
pub use topology::{Level, Topology};
pub use units::{CPUS_MAX, CpuId};

//! What several CPUs switch off together: the logic of a cluster, a package's uncore.

use crate::{CpuId, CpuSet, Machine};

/// A part of the hardware that sleeps while each CPU of its group has promised to
/// (platform-coordinated states: the least that any CPU promises decides, PSCI 1.3, 4.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// What people call it.
    pub name: String,
    /// The level of the CPU tree whose groups have such a part each (`cluster`, `package`, ...).
    pub level: String,
    /// Its groups.
    pub groups: Vec<CpuSet>,
    /// The idle state that a CPU enters to promise: this one or a deeper one.
    pub promise: String,
    /// Time that the first CPU that wakes waits for the part before it leaves its own state, ns.
    pub exit_latency_ns: u64,
    /// Power of the part, microwatts.
    pub active_uw: u64,
    /// The same while it sleeps, microwatts.
    pub asleep_uw: u64,
    /// Energy of falling asleep and waking up once, nanojoules.
    pub transition_energy_nj: u64,
}

impl Machine {
    /// What groups of CPUs switch off together, the widest groups first.
    pub fn group_states(&self) -> &[GroupState] {
        &self.group_states
    }

    /// The shallowest idle state by which `cpu` promises a part's sleep; `None` if it never does.
    pub fn promise_of(&self, cpu: CpuId, state: &GroupState) -> Option<u32> {
        let found = self.idle_states(cpu).iter().position(|own| own.name == state.promise);
        found.map(|index| index as u32)
    }
}

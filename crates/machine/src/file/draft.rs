//! A machine as it is about to be written: nothing derived, nothing checked yet.

use crate::{
    BroadcastIrq, CacheCosts, CpuSet, CpuType, GroupState, Machine, MemoryLimits, PathCosts, Rail,
    SmtCurve, Topology, UncorePower, UsualCpufreq,
};

/// What a machine file says. Importers fill one; the written text is then loaded like any other
/// file, so that what an import prints is known to load.
pub(crate) struct Draft {
    pub name: String,
    pub description: String,
    pub hz: u32,
    pub broadcast_irq: BroadcastIrq,
    pub usual_cpufreq: UsualCpufreq,
    pub rails: Vec<Rail>,
    pub group_states: Vec<GroupState>,
    pub topology: Topology,
    pub distances: Vec<u32>,
    pub kinds: Vec<Kind>,
    pub smt: SmtCurve,
    pub uncore_power: UncorePower,
    pub cache_costs: CacheCosts,
    pub path_costs: PathCosts,
    pub memory_limits: MemoryLimits,
    pub shared_instruction_stream: bool,
}

/// A kind of core with the CPUs that are of it.
pub(crate) struct Kind {
    pub cpu_type: CpuType,
    pub cpus: CpuSet,
    pub frequency_domains: Vec<CpuSet>,
}

impl From<&Machine> for Draft {
    fn from(machine: &Machine) -> Self {
        let kinds = machine.cpu_types.iter().enumerate();
        let kinds = kinds.map(|(index, cpu_type)| Kind {
            cpu_type: cpu_type.clone(),
            cpus: machine.cpus_of_type(index),
            frequency_domains: machine
                .frequency_domains
                .iter()
                .filter(|domain| domain.cpu_type == index)
                .map(|domain| domain.cpus)
                .collect(),
        });
        Self {
            name: machine.name.clone(),
            description: machine.description.clone(),
            hz: machine.hz,
            broadcast_irq: machine.broadcast_irq,
            usual_cpufreq: machine.usual_cpufreq,
            rails: machine.rails.clone(),
            group_states: machine.group_states.clone(),
            topology: machine.topology.clone(),
            distances: machine.distances.clone(),
            kinds: kinds.collect(),
            smt: machine.smt.clone(),
            uncore_power: machine.uncore_power.clone(),
            cache_costs: machine.cache_costs.clone(),
            path_costs: machine.path_costs.clone(),
            memory_limits: machine.memory_limits.clone(),
            shared_instruction_stream: machine.shared_instruction_stream,
        }
    }
}

//! The machine as JSON, derived maps and all.

use serde_json::{Map, Value, json};

use crate::{CacheCosts, CpuType, IdleState, Level, Machine, MemoryLimits, Opp, PathCosts};

impl Machine {
    /// Everything about the machine as one JSON object: what its file says, with every default
    /// filled in, and the place of each CPU. CPU sets are kernel lists (`0-3,8`); units end the
    /// names.
    ///
    /// ```
    /// let machine = schedlab_machine::Machine::preset("generic").expect("a built-in machine");
    /// let json = machine.to_json();
    /// assert_eq!(json["cpus"][5]["core"], 1);
    /// assert_eq!(json["topology"]["llcs"][0], "0-7");
    /// ```
    pub fn to_json(&self) -> Value {
        let topology = self.topology();
        let cpus: Vec<Value> = self
            .cpu_ids()
            .map(|cpu| {
                json!({
                    "cpu": cpu.0,
                    "thread": topology.thread_of(cpu),
                    "core": topology.cores().of(cpu),
                    "cluster": topology.clusters().map(|clusters| clusters.of(cpu)),
                    "llc": topology.llcs().of(cpu),
                    "node": topology.nodes().of(cpu),
                    "package": topology.packages().of(cpu),
                    "cpu_type": self.cpu_type(cpu).name,
                    "capacity": self.capacity(cpu),
                    "frequency_domain": self.frequency_domain_of(cpu),
                    "max_khz": self.max_khz(cpu),
                })
            })
            .collect();
        let cpu_types: Vec<Value> = self
            .cpu_types()
            .iter()
            .enumerate()
            .map(|(index, kind)| cpu_type(kind, &self.cpus_of_type(index).to_string()))
            .collect();
        let threads = 1..=self.smt().threads();
        let nodes = topology.nodes().len();
        json!({
            "name": self.name(),
            "description": self.description(),
            "hz": self.hz(),
            "broadcast_irq": self.broadcast_irq().name(),
            "cpufreq": self.usual_cpufreq().name(),
            "rails": self.rails().iter().map(|rail| json!({
                "name": rail.name,
                "cpus": rail.cpus.to_string(),
            })).collect::<Vec<_>>(),
            "group_states": self.group_states().iter().map(|state| json!({
                "name": state.name,
                "level": state.level,
                "promise": state.promise,
                "exit_latency_ns": state.exit_latency_ns,
                "active_uw": state.active_uw,
                "asleep_uw": state.asleep_uw,
                "transition_energy_nj": state.transition_energy_nj,
            })).collect::<Vec<_>>(),
            "cpu_count": self.cpu_count(),
            "cpus": cpus,
            "topology": {
                "cores": groups(topology.cores()),
                "clusters": topology.clusters().map(groups),
                "llcs": groups(topology.llcs()),
                "nodes": groups(topology.nodes()),
                "packages": groups(topology.packages()),
            },
            "node_distances": self.distances.chunks(nodes).collect::<Vec<_>>(),
            "cpu_types": cpu_types,
            "frequency_domains": self.frequency_domains().iter().map(|domain| json!({
                "cpus": domain.cpus.to_string(),
                "cpu_type": self.cpu_types()[domain.cpu_type].name,
            })).collect::<Vec<_>>(),
            "smt": {
                "throughput_permille": threads.clone().map(|busy| self.smt().throughput_permille(busy)).collect::<Vec<_>>(),
                "power_permille": threads.map(|busy| self.smt().power_permille(busy)).collect::<Vec<_>>(),
            },
            "power": {
                "machine_uw": self.uncore_power().machine_uw,
                "package_active_uw": self.uncore_power().package_active_uw,
                "package_idle": self.uncore_power().package_idle_uw.iter().map(|(state, uw)| json!({
                    "state": state,
                    "power_uw": uw,
                })).collect::<Vec<_>>(),
            },
            "cache": cache(self.cache_costs()),
            "kernel_lines": self.cache_costs().kernel_lines,
            "memory": memory(self.memory_limits()),
            "shared_instruction_stream": self.shared_instruction_stream(),
            "kernel_paths": paths(self.path_costs()),
        })
    }
}

fn groups(level: &Level) -> Value {
    level.groups().iter().map(ToString::to_string).collect()
}

fn cpu_type(kind: &CpuType, cpus: &str) -> Value {
    let opp = |opp: &Opp| json!({"khz": opp.khz, "uv": opp.uv, "power_uw": opp.power_uw});
    json!({
        "name": kind.name,
        "cpus": cpus,
        "capacity": kind.capacity,
        "frequency_transition_ns": kind.transition_latency_ns,
        "thermal_limit_khz": kind.thermal_limit_khz,
        "opps": kind.opps.iter().map(opp).collect::<Vec<_>>(),
        "idle_states": kind.idle_states.iter().map(idle_state).collect::<Vec<_>>(),
    })
}

fn idle_state(state: &IdleState) -> Value {
    json!({
        "name": state.name,
        "entry_latency_ns": state.entry_latency_ns,
        "exit_latency_ns": state.exit_latency_ns,
        "governor_exit_latency_ns": state.governor_exit_latency_ns,
        "target_residency_ns": state.target_residency_ns,
        "power_uw": state.power_uw,
        "power_of_busy_permille": state.power_of_busy_permille,
        "transition_energy_nj": state.transition_energy_nj,
        "polling": state.polling,
        "local_timer_stop": state.local_timer_stop,
        "disabled": state.disabled,
        "rejects_pending": state.rejects_pending,
    })
}

fn cache(costs: &CacheCosts) -> Value {
    let mut object = Map::new();
    object.insert("line_bytes".into(), costs.line_bytes.into());
    for (name, field) in CacheCosts::FIELDS {
        let name = name.strip_suffix("_ns").unwrap_or(name);
        object.insert(format!("{name}_ps"), (*field(&mut costs.clone())).into());
    }
    Value::Object(object)
}

fn memory(limits: &MemoryLimits) -> Value {
    json!({
        "l2_bytes": limits.l2_bytes,
        "llc_bytes": limits.llc_bytes,
        "llc_core_mb_per_s": limits.llc_core_mb_per_s,
        "core_mb_per_s": limits.core_mb_per_s,
        "node_mb_per_s": limits.node_mb_per_s,
        "package_link_mb_per_s": limits.package_link_mb_per_s,
        "stores_per_transfer_permille": limits.stores_per_transfer_permille,
    })
}

fn paths(costs: &PathCosts) -> Value {
    let named = PathCosts::FIELDS.iter();
    let pairs = named.map(|(name, field)| ((*name).into(), (*field(&mut costs.clone())).into()));
    Value::Object(pairs.collect())
}

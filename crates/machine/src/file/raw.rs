//! The TOML tables as they stand in the file, before anything is checked.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor, value::SeqAccessDeserializer};
use toml::Spanned;

/// A whole machine file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub hz: Option<Spanned<u32>>,
    pub broadcast_irq: Option<Spanned<String>>,
    pub cpufreq: Option<Spanned<String>>,
    #[serde(default)]
    pub kernel_lines: bool,
    pub shared_instruction_stream: Option<Spanned<bool>>,
    pub topology: Option<Spanned<Topology>>,
    pub cpu_groups: Option<Spanned<CpuGroups>>,
    pub numa: Option<Spanned<Numa>>,
    pub smt: Option<Spanned<Smt>>,
    pub power: Option<Power>,
    #[serde(default)]
    pub cache: Costs,
    #[serde(default)]
    pub memory: Costs,
    #[serde(default)]
    pub kernel_paths: Costs,
    #[serde(default)]
    pub rail: Vec<Spanned<Rail>>,
    #[serde(default)]
    pub group_state: Vec<Spanned<GroupState>>,
    #[serde(default)]
    pub cpu_type: Vec<Spanned<CpuType>>,
}

/// Named quantities; costs are in ns.
pub type Costs = BTreeMap<Spanned<String>, Spanned<f64>>;

/// A machine all of whose packages are alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    pub packages: Option<u32>,
    pub nodes_per_package: Option<u32>,
    pub llcs_per_node: Option<u32>,
    pub clusters_per_llc: Option<u32>,
    pub cores_per_cluster: Option<u32>,
    pub cores_per_llc: Option<u32>,
    pub threads_per_core: Option<u32>,
    pub numbering: Option<Spanned<String>>,
}

/// An irregular machine, level by level.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuGroups {
    pub cores: Option<Vec<Spanned<String>>>,
    pub clusters: Option<Vec<Spanned<String>>>,
    pub llcs: Option<Vec<Spanned<String>>>,
    pub nodes: Option<Vec<Spanned<String>>>,
    pub packages: Vec<Spanned<String>>,
}

/// Distances between nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    pub distances: Spanned<Vec<Spanned<Vec<Spanned<u32>>>>>,
    #[serde(default)]
    pub asymmetric_distances: bool,
}

/// What a core yields and draws by the number of its busy threads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smt {
    pub throughput: Spanned<Vec<Spanned<f64>>>,
    pub power: Option<Spanned<Vec<Spanned<f64>>>>,
}

/// Power beside the cores.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    pub machine_mw: Option<Spanned<f64>>,
    pub package_active_mw: Option<Spanned<f64>>,
    #[serde(default)]
    pub package_idle: Vec<Spanned<PackageIdle>>,
}

/// A package's uncore in idleness.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageIdle {
    pub state: String,
    pub mw: Spanned<f64>,
}

/// A supply.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rail {
    pub name: String,
    pub cpus: Spanned<String>,
}

/// What a group of CPUs switches off together.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupState {
    pub name: String,
    pub level: Spanned<String>,
    pub promise: Spanned<String>,
    pub exit_latency_us: Spanned<f64>,
    pub active_mw: Option<Spanned<f64>>,
    pub asleep_mw: Option<Spanned<f64>>,
    pub transition_energy_uj: Option<Spanned<f64>>,
}

/// A kind of core.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuType {
    pub name: String,
    pub cpus: Option<Spanned<String>>,
    pub capacity: Option<Spanned<u32>>,
    pub frequency_domains: Option<Spanned<Domains>>,
    pub frequency_transition_us: Option<Spanned<f64>>,
    pub thermal_limit_khz: Option<Spanned<u32>>,
    pub opps: Spanned<Vec<Spanned<Opp>>>,
    pub idle_states: Option<Spanned<Vec<Spanned<IdleState>>>>,
    pub idle_table: Option<Spanned<String>>,
    #[serde(default)]
    pub idle_power_mw: Costs,
}

/// An operating point.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opp {
    pub khz: Spanned<u32>,
    pub mv: Option<Spanned<f64>>,
    pub power_mw: Spanned<f64>,
}

/// An idle state.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    pub name: String,
    pub entry_latency_us: Option<Spanned<f64>>,
    pub exit_latency_us: Spanned<f64>,
    pub governor_exit_latency_us: Option<Spanned<f64>>,
    pub target_residency_us: Spanned<f64>,
    pub power_mw: Spanned<f64>,
    pub power_of_busy: Option<Spanned<f64>>,
    pub transition_energy_uj: Option<Spanned<f64>>,
    #[serde(default)]
    pub polling: bool,
    #[serde(default)]
    pub local_timer_stop: bool,
    #[serde(default)]
    pub disabled: bool,
    #[serde(default)]
    pub rejects_pending: bool,
    #[serde(default)]
    pub residency_below_latency: bool,
}

/// Which CPUs change frequency together: a level of the tree, or lists.
pub enum Domains {
    Level(String),
    Lists(Vec<String>),
}

impl<'de> Deserialize<'de> for Domains {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DomainsVisitor;

        impl<'de> Visitor<'de> for DomainsVisitor {
            type Value = Domains;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a level of the CPU tree or an array of CPU lists")
            }

            fn visit_str<E>(self, level: &str) -> Result<Domains, E> {
                Ok(Domains::Level(level.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, lists: A) -> Result<Domains, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(lists)).map(Domains::Lists)
            }
        }

        deserializer.deserialize_any(DomainsVisitor)
    }
}

//! What a source tells of a machine, and how the rest is filled in.

use std::collections::BTreeMap;

use super::{ImportOptions, estimate, intel_idle};
use crate::file::draft::{Draft, Kind};
use crate::file::save::{Notes, write_toml};
use crate::topology::Misplaced;
use crate::{
    BroadcastIrq, CPUS_MAX, CacheCosts, CpuId, CpuSet, CpuType, Level, MemoryLimits, PathCosts,
    Topology, UsualCpufreq,
};

/// A source's account of a machine. What it does not tell stays empty.
#[derive(Debug, Default)]
pub struct Survey {
    /// What the source is, for the file's head.
    pub source: &'static str,
    /// The machine's own name.
    pub name: Option<String>,
    /// The processor's name.
    pub model_name: Option<String>,
    /// Which idle states to assume.
    pub architecture: Architecture,
    /// Family and model of an Intel processor.
    pub intel_model: Option<(u32, u32)>,
    /// `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// CPUs that the source describes.
    pub cpus: CpuSet,
    /// Threads of a core.
    pub cores: Vec<CpuSet>,
    /// Clusters.
    pub clusters: Vec<CpuSet>,
    /// CPUs under a last-level cache.
    pub llcs: Vec<CpuSet>,
    /// NUMA nodes in the kernel's order.
    pub nodes: Vec<CpuSet>,
    /// Packages.
    pub packages: Vec<CpuSet>,
    /// Distances of `nodes`, row by row.
    pub distances: Option<Vec<u32>>,
    /// Bytes of a cache line.
    pub line_bytes: Option<u32>,
    /// CPUs that change frequency together.
    pub frequency_domains: Vec<CpuSet>,
    /// Time of a frequency change, ns.
    pub frequency_transition_ns: Option<u64>,
    /// What is told of single CPUs.
    pub per_cpu: BTreeMap<CpuId, CpuFacts>,
    /// Comments by their place in the file, beside those that completing adds.
    pub notes: BTreeMap<&'static str, Vec<String>>,
}

/// Whose conventions apply where a source is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    X86,
    Arm,
    Power,
    #[default]
    Other,
}

impl Architecture {
    /// By the word of `uname -m`, `lscpu` or LISA.
    pub fn by_name(name: &str) -> Self {
        match name {
            "x86_64" | "i386" | "i486" | "i586" | "i686" | "x86" => Self::X86,
            _ if name.starts_with("ppc") || name.starts_with("power") => Self::Power,
            _ if name.starts_with("arm") || name.starts_with("aarch") => Self::Arm,
            _ => Self::Other,
        }
    }
}

/// What is told of one CPU; CPUs with equal facts are of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFacts {
    pub capacity: Option<u32>,
    pub opps: Vec<FoundOpp>,
    pub idle_states: Vec<FoundState>,
}

/// An operating point as found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOpp {
    pub khz: u32,
    pub uv: Option<u32>,
    pub power_uw: Option<u64>,
}

/// An idle state as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundState {
    pub name: String,
    pub entry_ns: u64,
    pub exit_ns: u64,
    pub residency_ns: u64,
    pub power_uw: Option<u64>,
    pub polling: bool,
    pub local_timer_stop: bool,
    pub disabled: bool,
}

impl FoundState {
    /// A state with the kernel's exit latency and target residency, us.
    pub fn sleeping(name: &str, exit_us: u64, residency_us: u64) -> Self {
        let (exit_ns, residency_ns) = (exit_us * 1000, residency_us * 1000);
        Self { name: name.to_owned(), exit_ns, residency_ns, ..Self::default() }
    }

    /// The polling state that the cpuidle core adds on x86.
    pub fn poll() -> Self {
        Self { polling: true, ..Self::sleeping("POLL", 0, 0) }
    }
}

impl Survey {
    /// Facts of `cpu`, to be filled.
    pub fn facts(&mut self, cpu: CpuId) -> &mut CpuFacts {
        self.per_cpu.entry(cpu).or_default()
    }

    /// Adds a comment above `place` of the file.
    pub fn note(&mut self, place: &'static str, what: impl Into<String>) {
        self.notes.entry(place).or_default().push(what.into());
    }

    /// The machine's file: what was found, completed by estimates that are marked as such.
    pub fn complete(mut self, options: &ImportOptions) -> Result<String, String> {
        let topology = self.topology()?;
        self.share_facts(&topology);
        self.assume_idle_states(options, &topology)?;
        let name = options.name.clone().or(self.name.take());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "imported".to_owned());
        let description = self.model_name.take().unwrap_or_default();
        self.note(
            "",
            format!(
                "Imported from {}. What no comment calls an ESTIMATE is its word.",
                self.source
            ),
        );
        let hz = self.hz.unwrap_or_else(|| {
            self.note("hz", "ESTIMATE: the kernel's default; see CONFIG_HZ in its configuration.");
            250
        });
        let nodes = topology.nodes().len();
        let distances = match self.distances.take() {
            Some(distances) if distances.len() == nodes * nodes => distances,
            _ => {
                self.note("numa", "ESTIMATE: 20, what the kernel assumes without firmware's word.");
                let remote = estimate::REMOTE_DISTANCE;
                (0..nodes * nodes)
                    .map(|at| if at / nodes == at % nodes { 10 } else { remote })
                    .collect()
            }
        };
        if topology.threads_per_core_max() > 1 {
            self.note("smt", "ESTIMATES: the whole core against one busy thread.");
        }
        self.note(
            "cache",
            "ESTIMATES, the library's defaults: one-way hand-over of a dirty line, ns.",
        );
        self.note("kernel_paths", "ESTIMATES, the library's defaults, ns.");
        let smt = estimate::smt(topology.threads_per_core_max());
        let kinds = self.kinds(&topology);
        let cache_costs =
            CacheCosts { line_bytes: self.line_bytes.unwrap_or(64), ..CacheCosts::default() };
        let draft = Draft {
            name,
            description,
            hz,
            topology,
            distances,
            kinds,
            smt,
            uncore_power: Default::default(),
            cache_costs,
            path_costs: PathCosts::default(),
            memory_limits: MemoryLimits::default(),
            broadcast_irq: BroadcastIrq::default(),
            usual_cpufreq: UsualCpufreq::default(),
            rails: Vec::new(),
            group_states: Vec::new(),
            shared_instruction_stream: false,
        };
        let notes: Notes =
            self.notes.iter().map(|(place, lines)| (*place, lines.join("\n"))).collect();
        Ok(write_toml(&draft, &notes))
    }

    /// Fills gaps in the levels and orders their groups package by package.
    fn topology(&mut self) -> Result<Topology, String> {
        let Some(last) = self.cpus.last() else {
            return Err("it tells of no CPU".to_owned());
        };
        let count = last.index() + 1;
        if count > CPUS_MAX {
            return Err(format!("CPU {last} is beyond the {CPUS_MAX} CPUs that schedlab handles"));
        }
        let absent = CpuSet::first_n(count) - self.cpus;
        if !absent.is_empty() {
            self.note("topology", format!(
                "ESTIMATE: CPUs {absent} were offline; each is taken for a core beside the CPU before it."
            ));
            self.notes
                .insert("cpu_groups", self.notes.get("topology").cloned().unwrap_or_default());
        }
        let all = CpuSet::first_n(count);
        if self.llcs.iter().all(CpuSet::is_empty) {
            self.llcs.clone_from(&self.packages);
        }
        for (level, whole) in [
            (&mut self.packages, true),
            (&mut self.nodes, true),
            (&mut self.llcs, true),
            (&mut self.cores, false),
        ] {
            level.retain(|group| !group.is_empty());
            if whole && level.is_empty() {
                level.push(all);
            }
            let placed = level.iter().fold(CpuSet::EMPTY, |placed, group| placed | *group);
            for cpu in all - placed {
                let before = level
                    .iter_mut()
                    .find(|group| whole && cpu.0 > 0 && group.contains(CpuId(cpu.0 - 1)));
                match before {
                    Some(group) => {
                        group.insert(cpu);
                    }
                    None if whole => {
                        level[0].insert(cpu);
                    }
                    None => level.push(CpuSet::of(cpu)),
                }
            }
        }
        self.packages.sort_by_key(CpuSet::first);
        let packages = partition("packages", &self.packages, count)?;
        let within = |outer: &Level, groups: &mut Vec<CpuSet>| {
            groups.sort_by_key(|group| group.first().map(|cpu| (outer.of(cpu), cpu)));
        };
        let nodes = partition("nodes", &self.nodes, count)?;
        within(&packages, &mut self.llcs);
        // By package first and node second, as the groups of a regular machine run.
        self.llcs
            .sort_by_key(|group| group.first().map(|cpu| (packages.of(cpu), nodes.of(cpu), cpu)));
        let llcs = partition("last-level caches", &self.llcs, count)?;
        within(&llcs, &mut self.clusters);
        within(&llcs, &mut self.cores);
        let clusters = self.useful_clusters(count, &llcs);
        if let Some(clusters) = &clusters {
            within(clusters, &mut self.cores);
        }
        let cores = partition("cores", &self.cores, count)?;
        Topology::new(cores, clusters, llcs, nodes, packages).map_err(|cut| {
            format!(
                "one of the {} straddles two {}; such a machine needs a file by hand",
                cut.inner, cut.outer
            )
        })
    }

    /// Threads of a core share what is told of any of them, and a CPU of which nothing is told is
    /// taken to be like the one before it.
    fn share_facts(&mut self, topology: &Topology) {
        for core in topology.cores().groups() {
            let mut whole = CpuFacts::default();
            for facts in core.iter().filter_map(|cpu| self.per_cpu.get(&cpu)) {
                whole.capacity = whole.capacity.or(facts.capacity);
                if whole.opps.is_empty() {
                    whole.opps.clone_from(&facts.opps);
                }
                if whole.idle_states.is_empty() {
                    whole.idle_states.clone_from(&facts.idle_states);
                }
            }
            for cpu in core {
                *self.facts(cpu) = whole.clone();
            }
        }
        let mut last = CpuFacts::default();
        for cpu in topology.cpus() {
            let facts = self.facts(cpu);
            if *facts == CpuFacts::default() {
                facts.clone_from(&last);
            }
            last.clone_from(facts);
        }
    }

    /// Clusters, unless they repeat another level, as the kernel drops such domains too.
    fn useful_clusters(&self, count: usize, llcs: &Level) -> Option<Level> {
        let repeats =
            |other: &[CpuSet]| self.clusters.iter().all(|cluster| other.contains(cluster));
        let inside = |cluster: &CpuSet| {
            cluster.first().is_some_and(|cpu| cluster.is_subset(llcs.siblings(cpu)))
        };
        if repeats(&self.cores) || repeats(llcs.groups()) || !self.clusters.iter().all(inside) {
            return None;
        }
        Level::new(self.clusters.clone(), count).ok()
    }

    /// Idle states for CPUs of which the source tells none: intel_idle's, or the least there are.
    fn assume_idle_states(
        &mut self,
        options: &ImportOptions,
        topology: &Topology,
    ) -> Result<(), String> {
        let asked = match &options.cpu_model {
            Some(model) => {
                Some(intel_idle::by_name(model).map_err(|what| format!("CPU model {what}"))?)
            }
            None => None,
        };
        let mut told = self.per_cpu.values().map(|facts| &facts.idle_states);
        if let Some(known) = told.find(|states| !states.is_empty()).cloned() {
            if asked.is_some() {
                let what = "The source's own states, preferred to those of --cpu-model.";
                self.note("idle_states", what);
            }
            for cpu in topology.cpus() {
                let facts = self.facts(cpu);
                if facts.idle_states.is_empty() {
                    facts.idle_states.clone_from(&known);
                }
            }
            let what = "Powers and transition energies: ESTIMATES unless the source gives power.";
            self.note("idle_states", what);
            return Ok(());
        }
        let found = asked.or_else(|| self.intel_model.and_then(intel_idle::by_model));
        let states = match found {
            Some(processor) => {
                self.note(
                    "idle_states",
                    format!(
                        "intel_idle's table for {} (linux 6.12); powers and energies ESTIMATES.",
                        processor.name()
                    ),
                );
                processor.states(topology.packages().len())
            }
            None => {
                self.note("idle_states", "ESTIMATES throughout: the source tells no idle states.");
                estimate::least_states(self.architecture)
            }
        };
        for cpu in topology.cpus() {
            self.facts(cpu).idle_states.clone_from(&states);
        }
        Ok(())
    }

    /// CPUs of equal facts make a type.
    fn kinds(&mut self, topology: &Topology) -> Vec<Kind> {
        let fastest = self.per_cpu.values().filter_map(|facts| facts.capacity).max();
        let told = fastest.is_some();
        if !told {
            self.note("capacity", "ESTIMATE: the source tells no capacities.");
        }
        let power_told = self.per_cpu.values().all(|facts| {
            !facts.opps.is_empty() && facts.opps.iter().all(|opp| opp.power_uw.is_some())
        });
        if self.per_cpu.values().any(|facts| facts.opps.is_empty()) {
            self.note(
                "opps",
                format!("Frequency ESTIMATED: {} kHz, where the source tells none.", estimate::KHZ),
            );
        }
        if !power_told {
            self.note("opps", "Power: ESTIMATES, the square of the frequency, 5 W for capacity 1024 at full speed.");
        }
        let mut groups: Vec<(CpuFacts, CpuSet)> = Vec::new();
        for cpu in topology.cpus() {
            let mut facts = self.per_cpu.get(&cpu).cloned().unwrap_or_default();
            // Capacities are relative to the fastest CPU, which has 1024 by definition.
            let scaled = facts.capacity.zip(fastest).map(|(capacity, fastest)| {
                (u64::from(capacity) * 1024 / u64::from(fastest.max(1))).clamp(1, 1024) as u32
            });
            facts.capacity = Some(scaled.unwrap_or(1024));
            match groups.iter_mut().find(|(known, _)| *known == facts) {
                Some((_, cpus)) => {
                    cpus.insert(cpu);
                }
                None => groups.push((facts, CpuSet::of(cpu))),
            }
        }
        let many = groups.len() > 1;
        let domains = std::mem::take(&mut self.frequency_domains);
        let kinds = groups.into_iter().enumerate().map(|(index, (facts, cpus))| {
            let capacity = facts.capacity.unwrap_or(1024);
            let opps = estimate::opps(&facts.opps, capacity);
            let busy_uw = opps.last().map_or(0, |opp| opp.power_uw);
            let idle_states = estimate::idle_states(&facts.idle_states, busy_uw);
            let name = if many { format!("kind{index}") } else { "cpu".to_owned() };
            let transition_latency_ns = self.frequency_transition_ns.unwrap_or(0);
            let cpu_type = CpuType {
                name,
                capacity,
                opps,
                idle_states,
                transition_latency_ns,
                thermal_limit_khz: None,
            };
            Kind { cpu_type, cpus, frequency_domains: within_kind(&domains, cpus) }
        });
        kinds.collect()
    }
}

/// The parts of `domains` inside `cpus`; the CPUs in none of them are a domain together.
fn within_kind(domains: &[CpuSet], cpus: CpuSet) -> Vec<CpuSet> {
    let mut rest = cpus;
    let mut own = Vec::new();
    for domain in domains {
        let part = *domain & rest;
        if !part.is_empty() {
            own.push(part);
            rest -= part;
        }
    }
    if !rest.is_empty() {
        own.push(rest);
    }
    own.sort_by_key(CpuSet::first);
    own
}

fn partition(what: &str, groups: &[CpuSet], count: usize) -> Result<Level, String> {
    Level::new(groups.to_vec(), count).map_err(|misplaced| match misplaced {
        Misplaced::Twice { cpu, .. } => format!("CPU {cpu} is in two {what}; correct the source"),
        Misplaced::Beyond { cpu, .. } | Misplaced::Nowhere { cpu } => {
            format!("the {what} and the CPUs disagree on CPU {cpu}; correct the source")
        }
    })
}

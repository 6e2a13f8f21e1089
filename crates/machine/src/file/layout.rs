//! The CPU tree of a file: a regular one by its counts, an irregular one by its groups.

use std::ops::Range;

use toml::Spanned;

use super::raw;
use crate::error::Fault;
use crate::topology::Misplaced;
use crate::{CPUS_MAX, CpuId, CpuSet, Level, Topology};

/// How CPU numbers run over cores and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// The threads of a core follow each other (`threads-adjacent`).
    ThreadsAdjacent,
    /// All first threads, then all second ones (`threads-last`).
    ThreadsLast,
    /// As `threads-last`, and neighbouring numbers are on different packages
    /// (`packages-interleaved`).
    PackagesInterleaved,
}

impl Numbering {
    /// Every numbering, with the name that files use.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::ThreadsAdjacent, "threads-adjacent"),
        (Self::ThreadsLast, "threads-last"),
        (Self::PackagesInterleaved, "packages-interleaved"),
    ];

    /// The name that files use.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(numbering, _)| *numbering == self).map_or("", |(_, name)| name)
    }
}

/// A tree all of whose packages, nodes, caches and cores are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regular {
    /// Packages of the machine.
    pub packages: u32,
    /// Nodes of a package.
    pub nodes_per_package: u32,
    /// Last-level caches of a node.
    pub llcs_per_node: u32,
    /// Clusters of a last-level cache, on machines that have clusters.
    pub clusters_per_llc: Option<u32>,
    /// Cores of a cluster, or of a last-level cache where there are no clusters.
    pub cores_per_group: u32,
    /// Threads of a core.
    pub threads_per_core: u32,
    /// How numbers run.
    pub numbering: Numbering,
}

impl Regular {
    /// Logical CPUs, or `None` when there are none or more than [`CPUS_MAX`].
    pub fn cpu_count(&self) -> Option<usize> {
        let factors = [
            self.packages,
            self.nodes_per_package,
            self.llcs_per_node,
            self.clusters_per_llc.unwrap_or(1),
            self.cores_per_group,
            self.threads_per_core,
        ];
        let product =
            factors.iter().try_fold(1_u32, |product, factor| product.checked_mul(*factor));
        product.map(|cpus| cpus as usize).filter(|cpus| (1..=CPUS_MAX).contains(cpus))
    }

    /// The tree, or `None` when it has no CPU or too many.
    pub fn build(&self) -> Option<Topology> {
        let cpus = self.cpu_count()?;
        let cores_per_llc = self.clusters_per_llc.unwrap_or(1) * self.cores_per_group;
        let cores_per_node = cores_per_llc * self.llcs_per_node;
        let cores_per_package = cores_per_node * self.nodes_per_package;
        let cores = cores_per_package * self.packages;
        let level = |cores_per_part: u32| {
            let parts = 0..cores / cores_per_part;
            let part = |part: u32| {
                let own = part * cores_per_part..(part + 1) * cores_per_part;
                own.flat_map(|core| self.threads(core, cores, cores_per_package)).collect()
            };
            Level::new(parts.map(part).collect(), cpus).ok()
        };
        let clusters = match self.clusters_per_llc {
            Some(_) => Some(level(self.cores_per_group)?),
            None => None,
        };
        Topology::new(
            level(1)?,
            clusters,
            level(cores_per_llc)?,
            level(cores_per_node)?,
            level(cores_per_package)?,
        )
        .ok()
    }

    fn threads(
        &self,
        core: u32,
        cores: u32,
        cores_per_package: u32,
    ) -> impl Iterator<Item = CpuId> {
        let Self { packages, threads_per_core, numbering, .. } = *self;
        (0..threads_per_core).map(move |thread| {
            CpuId(match numbering {
                Numbering::ThreadsAdjacent => core * threads_per_core + thread,
                Numbering::ThreadsLast => thread * cores + core,
                Numbering::PackagesInterleaved => {
                    let within = core % cores_per_package;
                    thread * cores + within * packages + core / cores_per_package
                }
            })
        })
    }

    /// The counts that give exactly this tree, if any do.
    pub fn recognise(topology: &Topology) -> Option<Self> {
        let count = |level: &Level| level.len() as u32;
        let (packages, nodes, llcs) =
            (count(topology.packages()), count(topology.nodes()), count(topology.llcs()));
        let cores = count(topology.cores());
        let groups = topology.clusters().map_or(llcs, count);
        Numbering::ALL.into_iter().find_map(|(numbering, _)| {
            let regular = Self {
                packages,
                nodes_per_package: nodes / packages,
                llcs_per_node: llcs / nodes,
                clusters_per_llc: topology.clusters().map(|_| groups / llcs),
                cores_per_group: cores / groups,
                threads_per_core: topology.cpu_count() as u32 / cores,
                numbering,
            };
            (regular.build().as_ref() == Some(topology)).then_some(regular)
        })
    }
}

/// The tree of a `[topology]` table.
pub fn regular(table: &Spanned<raw::Topology>) -> Result<Topology, Fault> {
    let raw = table.get_ref();
    let fault = |what: String| Err(Fault::new(table.span().start, what));
    let cores_per_group = match (raw.clusters_per_llc, raw.cores_per_cluster, raw.cores_per_llc) {
        (Some(_), Some(cores), None) | (None, None, Some(cores)) => cores,
        (Some(_), _, _) | (None, Some(_), _) => {
            return fault(
                "clusters need both clusters_per_llc and cores_per_cluster, and no cores_per_llc"
                    .into(),
            );
        }
        (None, None, None) => return fault("the topology lacks cores_per_llc".into()),
    };
    let numbering = match &raw.numbering {
        None => Numbering::ThreadsAdjacent,
        Some(name) => {
            let known = Numbering::ALL.into_iter().find(|(_, known)| known == name.get_ref());
            let Some((numbering, _)) = known else {
                let names = Numbering::ALL.map(|(_, name)| name).join(", ");
                let what = format!("numbering `{}` is unknown; write {names}", name.get_ref());
                return Err(Fault::new(name.span().start, what));
            };
            numbering
        }
    };
    let regular = Regular {
        packages: raw.packages.unwrap_or(1),
        nodes_per_package: raw.nodes_per_package.unwrap_or(1),
        llcs_per_node: raw.llcs_per_node.unwrap_or(1),
        clusters_per_llc: raw.clusters_per_llc,
        cores_per_group,
        threads_per_core: raw.threads_per_core.unwrap_or(1),
        numbering,
    };
    match regular.build() {
        Some(topology) => Ok(topology),
        None => {
            fault(format!("the counts multiply to no CPU or to more than {CPUS_MAX}; lower them"))
        }
    }
}

/// The tree of a `[cpu_groups]` table.
pub fn groups(table: &Spanned<raw::CpuGroups>) -> Result<Topology, Fault> {
    let raw = table.get_ref();
    let packages = Lists::parse("packages", &raw.packages)?;
    let all = packages.sets.iter().fold(CpuSet::EMPTY, |all, set| all | *set);
    let cpus = all.weight();
    if cpus == 0 {
        return Err(Fault::new(
            table.span().start,
            "the machine has no CPU; list them in packages",
        ));
    }
    if let Some(hole) = (CpuSet::first_n(cpus) - all).first() {
        let what = format!("CPU {hole} is in no package; number the CPUs from 0 without holes");
        return Err(Fault::new(table.span().start, what));
    }
    let level = |name: &'static str, lists: &Option<Vec<Spanned<String>>>| match lists {
        Some(lists) => Lists::parse(name, lists)?.level(cpus, &table.span()),
        None => packages.level(cpus, &table.span()),
    };
    let cores = match &raw.cores {
        Some(_) => level("cores", &raw.cores)?,
        None => {
            let singles = all.iter().map(CpuSet::of).collect();
            Level::new(singles, cpus)
                .map_err(|_| Fault::new(table.span().start, "the cores are not a partition"))?
        }
    };
    let clusters = match &raw.clusters {
        Some(_) => Some(level("clusters", &raw.clusters)?),
        None => None,
    };
    let built = Topology::new(
        cores,
        clusters,
        level("llcs", &raw.llcs)?,
        level("nodes", &raw.nodes)?,
        packages.level(cpus, &table.span())?,
    );
    built.map_err(|cut| {
        let lists = match cut.inner {
            "cores" => raw.cores.as_ref(),
            "clusters" => raw.clusters.as_ref(),
            _ => raw.llcs.as_ref(),
        };
        let offset =
            lists.and_then(|lists| lists.get(cut.group)).map_or(0, |list| list.span().start);
        let what = format!(
            "{}[{}] is cut by the borders of {}; each of the {0} lies within one of the {2}",
            cut.inner, cut.group, cut.outer
        );
        Fault::new(offset, what)
    })
}

/// The CPU lists of one level and where each stands.
struct Lists {
    name: &'static str,
    sets: Vec<CpuSet>,
    spans: Vec<Range<usize>>,
}

impl Lists {
    fn parse(name: &'static str, lists: &[Spanned<String>]) -> Result<Self, Fault> {
        let mut sets = Vec::with_capacity(lists.len());
        for list in lists {
            let set = cpu_list(list)?;
            if set.is_empty() {
                return Err(Fault::new(
                    list.span().start,
                    format!("an empty list in {name}; remove it"),
                ));
            }
            sets.push(set);
        }
        Ok(Self { name, sets, spans: lists.iter().map(Spanned::span).collect() })
    }

    fn level(&self, cpus: usize, table: &Range<usize>) -> Result<Level, Fault> {
        let name = self.name;
        Level::new(self.sets.clone(), cpus).map_err(|misplaced| match misplaced {
            Misplaced::Twice { cpu, groups: [first, second] } => Fault::new(
                self.spans[second].start,
                format!(
                    "CPU {cpu} is in {name}[{first}] and in {name}[{second}]; take it out of one"
                ),
            ),
            Misplaced::Beyond { cpu, group } => Fault::new(
                self.spans[group].start,
                format!("{name}[{group}] has CPU {cpu}, which is in no package"),
            ),
            Misplaced::Nowhere { cpu } => Fault::new(
                self.spans.first().map_or(table.start, |span| span.start),
                format!("CPU {cpu} is in none of the {name}; add it to one"),
            ),
        })
    }
}

/// A CPU list of a file.
pub fn cpu_list(list: &Spanned<String>) -> Result<CpuSet, Fault> {
    list.get_ref().parse().map_err(|error| Fault::new(list.span().start, format!("{error}")))
}

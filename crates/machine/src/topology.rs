//! The CPU tree: which CPUs share a core, a cluster, a last-level cache, a NUMA node, a package.

use crate::{CpuId, CpuSet, Proximity};

/// A level of the tree: a partition of the CPUs, and the way back from a CPU to its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    groups: Vec<CpuSet>,
    of: Vec<u32>,
}

impl Level {
    /// `groups` must cover the CPUs 0 to `cpus - 1`, each once; the first CPU that it does not
    /// cover so is the error.
    pub(crate) fn new(groups: Vec<CpuSet>, cpus: usize) -> Result<Self, Misplaced> {
        let mut of = vec![u32::MAX; cpus];
        for (index, group) in groups.iter().enumerate() {
            for cpu in group {
                match of.get_mut(cpu.index()) {
                    None => return Err(Misplaced::Beyond { cpu, group: index }),
                    Some(place) if *place != u32::MAX => {
                        return Err(Misplaced::Twice { cpu, groups: [*place as usize, index] });
                    }
                    Some(place) => *place = index as u32,
                }
            }
        }
        match of.iter().position(|place| *place == u32::MAX) {
            Some(cpu) => Err(Misplaced::Nowhere { cpu: CpuId(cpu as u32) }),
            None => Ok(Self { groups, of }),
        }
    }

    /// How many groups the level has.
    #[inline]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Never true: a machine has a CPU, and each CPU is in a group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups by their number.
    #[inline]
    pub fn groups(&self) -> &[CpuSet] {
        &self.groups
    }

    /// The number of the group that `cpu` is in.
    ///
    /// # Panics
    /// When the machine has no such CPU, as all per-CPU accessors do.
    #[inline]
    pub fn of(&self, cpu: CpuId) -> usize {
        self.of[cpu.index()] as usize
    }

    /// The CPUs of the group that `cpu` is in, `cpu` among them.
    #[inline]
    pub fn siblings(&self, cpu: CpuId) -> &CpuSet {
        &self.groups[self.of(cpu)]
    }

    /// The first group of this level that is cut by a group of `outer`, if any.
    fn first_cut_by(&self, outer: &Self) -> Option<usize> {
        let inside = |group: &CpuSet| {
            group.first().is_none_or(|first| group.is_subset(outer.siblings(first)))
        };
        self.groups.iter().position(|group| !inside(group))
    }
}

/// How a partition fails to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// A CPU in two groups.
    Twice { cpu: CpuId, groups: [usize; 2] },
    /// A CPU in no group.
    Nowhere { cpu: CpuId },
    /// A CPU that the machine does not have.
    Beyond { cpu: CpuId, group: usize },
}

/// The CPU tree. Each level is a partition of the CPUs; cores lie within clusters, clusters
/// within last-level caches, and cores within nodes and packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cpus: CpuSet,
    count: usize,
    cores: Level,
    clusters: Option<Level>,
    llcs: Level,
    nodes: Level,
    packages: Level,
    thread: Vec<u32>,
}

/// A core, cluster or cache that is cut by a boundary that it cannot straddle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub inner: &'static str,
    pub group: usize,
    pub outer: &'static str,
}

impl Topology {
    pub(crate) fn new(
        cores: Level,
        clusters: Option<Level>,
        llcs: Level,
        nodes: Level,
        packages: Level,
    ) -> Result<Self, Cut> {
        let count = cores.of.len();
        let outers = [
            ("clusters", clusters.as_ref()),
            ("llcs", Some(&llcs)),
            ("nodes", Some(&nodes)),
            ("packages", Some(&packages)),
        ];
        for (outer, level) in outers {
            let Some(level) = level else { continue };
            if let Some(group) = cores.first_cut_by(level) {
                return Err(Cut { inner: "cores", group, outer });
            }
        }
        for (inner, inner_level, outer, outer_level) in [
            ("clusters", clusters.as_ref(), "llcs", &llcs),
            ("llcs", Some(&llcs), "packages", &packages),
        ] {
            if let Some(group) = inner_level.and_then(|level| level.first_cut_by(outer_level)) {
                return Err(Cut { inner, group, outer });
            }
        }
        let mut thread = vec![0; count];
        for core in &cores.groups {
            for (index, cpu) in core.iter().enumerate() {
                thread[cpu.index()] = index as u32;
            }
        }
        let cpus = CpuSet::first_n(count);
        Ok(Self { cpus, count, cores, clusters, llcs, nodes, packages, thread })
    }

    /// All CPUs: 0 to [`cpu_count`](Self::cpu_count) - 1.
    #[inline]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// How many CPUs there are.
    #[inline]
    pub fn cpu_count(&self) -> usize {
        self.count
    }

    /// Physical cores: `topology_sibling_cpumask()`.
    #[inline]
    pub fn cores(&self) -> &Level {
        &self.cores
    }

    /// Clusters between core and last-level cache, on machines that have them:
    /// `topology_cluster_cpumask()`.
    #[inline]
    pub fn clusters(&self) -> Option<&Level> {
        self.clusters.as_ref()
    }

    /// Last-level caches: `cpu_coregroup_mask()`.
    #[inline]
    pub fn llcs(&self) -> &Level {
        &self.llcs
    }

    /// NUMA nodes, numbered as the kernel does: `cpu_to_node()`.
    #[inline]
    pub fn nodes(&self) -> &Level {
        &self.nodes
    }

    /// Packages (sockets): `topology_core_cpumask()`.
    #[inline]
    pub fn packages(&self) -> &Level {
        &self.packages
    }

    /// The place of `cpu` among the threads of its core, by ascending number.
    #[inline]
    pub fn thread_of(&self, cpu: CpuId) -> usize {
        self.thread[cpu.index()] as usize
    }

    /// The widest core's number of threads.
    pub fn threads_per_core_max(&self) -> usize {
        self.cores.groups.iter().map(CpuSet::weight).max().unwrap_or(1)
    }

    /// The nearest level that two CPUs share.
    #[inline]
    pub fn proximity(&self, a: CpuId, b: CpuId) -> Proximity {
        if a == b {
            Proximity::Cpu
        } else if self.cores.of(a) == self.cores.of(b) {
            Proximity::Core
        } else if self.clusters.as_ref().is_some_and(|level| level.of(a) == level.of(b)) {
            Proximity::Cluster
        } else if self.llcs.of(a) == self.llcs.of(b) {
            Proximity::Llc
        } else if self.packages.of(a) == self.packages.of(b) {
            Proximity::Package
        } else {
            Proximity::Machine
        }
    }
}

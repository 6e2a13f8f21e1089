//! Which CPUs a layout keeps together.

use schedlab_machine::{CpuId, CpuSet, Topology};

/// The CPUs by NUMA node and by last-level cache, and their order in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How many CPUs.
    pub cpus: usize,
    /// NUMA nodes.
    pub nodes: Vec<CpuSet>,
    /// Last-level caches.
    pub llcs: Vec<CpuSet>,
    /// Every CPU: threads of a core side by side, cores of a cache side by side.
    pub order: Vec<CpuId>,
}

impl Groups {
    /// Those of a machine.
    pub fn of(topology: &Topology) -> Groups {
        let mut order: Vec<CpuId> = topology.cpus().iter().collect();
        order.sort_by_key(|&cpu| (topology.llcs().of(cpu), topology.cores().of(cpu), cpu));
        Groups {
            cpus: topology.cpu_count(),
            nodes: topology.nodes().groups().to_vec(),
            llcs: topology.llcs().groups().to_vec(),
            order,
        }
    }

    /// So many CPUs in equal runs: `per_llc` to a cache, `per_node` to a node, the last of each
    /// with what is left.
    pub fn even(cpus: usize, per_llc: usize, per_node: usize) -> Groups {
        let runs = |size: usize| {
            let starts = (0..cpus).step_by(size.max(1));
            starts
                .map(|start| CpuSet::first_n((start + size).min(cpus)) - CpuSet::first_n(start))
                .collect()
        };
        let order = (0..cpus).map(|cpu| CpuId(cpu as u32)).collect();
        Groups { cpus, nodes: runs(per_node), llcs: runs(per_llc), order }
    }
}

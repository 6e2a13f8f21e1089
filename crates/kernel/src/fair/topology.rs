//! Scheduling domains as the fair class walks them: for each CPU a stack of domains, each split
//! into a ring of groups (`include/linux/sched/topology.h`, `kernel/sched/topology.c`, 6.12).

use schedlab_machine::{CpuId, CpuSet};

/// The `SD_*` flags of a domain, with the bits that 6.12 gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainFlags(pub u32);

impl DomainFlags {
    /// Balance when a CPU is about to become idle.
    pub const BALANCE_NEWIDLE: DomainFlags = DomainFlags(0x1);
    /// Balance on exec.
    pub const BALANCE_EXEC: DomainFlags = DomainFlags(0x2);
    /// Balance on fork.
    pub const BALANCE_FORK: DomainFlags = DomainFlags(0x4);
    /// Balance on wake-up.
    pub const BALANCE_WAKE: DomainFlags = DomainFlags(0x8);
    /// Consider waking the task near its waker.
    pub const WAKE_AFFINE: DomainFlags = DomainFlags(0x10);
    /// CPUs of different capacity.
    pub const ASYM_CPUCAPACITY: DomainFlags = DomainFlags(0x20);
    /// CPUs of every capacity that the machine has.
    pub const ASYM_CPUCAPACITY_FULL: DomainFlags = DomainFlags(0x40);
    /// Members are threads of one core.
    pub const SHARE_CPUCAPACITY: DomainFlags = DomainFlags(0x80);
    /// Members share a cluster.
    pub const CLUSTER: DomainFlags = DomainFlags(0x100);
    /// Members share the last-level cache.
    pub const SHARE_LLC: DomainFlags = DomainFlags(0x200);
    /// Only one balancer at a time.
    pub const SERIALIZE: DomainFlags = DomainFlags(0x400);
    /// Busy groups are packed on preferred CPUs.
    pub const ASYM_PACKING: DomainFlags = DomainFlags(0x800);
    /// Tasks prefer a sibling group.
    pub const PREFER_SIBLING: DomainFlags = DomainFlags(0x1000);
    /// Groups may overlap.
    pub const OVERLAP: DomainFlags = DomainFlags(0x2000);
    /// Crosses NUMA nodes.
    pub const NUMA: DomainFlags = DomainFlags(0x4000);
    /// Tasks are packed to save power. Gone since v3.5 (8e7fbcbc22c1), so the bit is none of 6.12.
    pub const POWERSAVINGS_BALANCE: DomainFlags = DomainFlags(0x8000);

    /// Every flag with its name, as debugfs prints it, in the order of the bits.
    const NAMES: [(DomainFlags, &str); 16] = [
        (DomainFlags::BALANCE_NEWIDLE, "SD_BALANCE_NEWIDLE"),
        (DomainFlags::BALANCE_EXEC, "SD_BALANCE_EXEC"),
        (DomainFlags::BALANCE_FORK, "SD_BALANCE_FORK"),
        (DomainFlags::BALANCE_WAKE, "SD_BALANCE_WAKE"),
        (DomainFlags::WAKE_AFFINE, "SD_WAKE_AFFINE"),
        (DomainFlags::ASYM_CPUCAPACITY, "SD_ASYM_CPUCAPACITY"),
        (DomainFlags::ASYM_CPUCAPACITY_FULL, "SD_ASYM_CPUCAPACITY_FULL"),
        (DomainFlags::SHARE_CPUCAPACITY, "SD_SHARE_CPUCAPACITY"),
        (DomainFlags::CLUSTER, "SD_CLUSTER"),
        (DomainFlags::SHARE_LLC, "SD_SHARE_LLC"),
        (DomainFlags::SERIALIZE, "SD_SERIALIZE"),
        (DomainFlags::ASYM_PACKING, "SD_ASYM_PACKING"),
        (DomainFlags::PREFER_SIBLING, "SD_PREFER_SIBLING"),
        (DomainFlags::OVERLAP, "SD_OVERLAP"),
        (DomainFlags::NUMA, "SD_NUMA"),
        (DomainFlags::POWERSAVINGS_BALANCE, "SD_POWERSAVINGS_BALANCE"),
    ];

    /// The names of the flags that are set, as debugfs prints them, in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }

    /// True if any flag of `other` is set here.
    #[inline]
    pub const fn has(self, other: DomainFlags) -> bool {
        self.0 & other.0 != 0
    }
}

/// A group of CPUs within a domain (`struct sched_group` and its capacity).
#[derive(Clone, Debug)]
pub struct Group {
    /// Its CPUs.
    pub span: CpuSet,
    /// Those of its CPUs that balance on its behalf (`group_balance_mask()`): all of them, unless
    /// groups overlap.
    pub balance_mask: CpuSet,
    /// Number of its CPUs.
    pub weight: u32,
    /// Capacity for fair tasks, all CPUs together (1024 per biggest CPU).
    pub capacity: u64,
    /// The smallest capacity of one CPU.
    pub min_capacity: u64,
    /// The largest capacity of one CPU.
    pub max_capacity: u64,
    /// Affinity kept a lower level from balancing (`sgc->imbalance`).
    pub imbalance: bool,
    /// Flags of the domain below that the group stands for.
    pub flags: DomainFlags,
    /// Number of cores.
    pub cores: u32,
    /// The CPU that ASYM_PACKING prefers.
    pub asym_prefer_cpu: CpuId,
}

/// One scheduling domain, shared by the CPUs whose groups are the same ring.
#[derive(Clone, Debug)]
pub struct Domain {
    /// The level's name (`SMT`, `CLS`, `MC`, `PKG`, which was `DIE` before v6.7, or `NUMA`).
    pub name: &'static str,
    /// Its CPUs.
    pub span: CpuSet,
    /// Number of its CPUs.
    pub weight: u32,
    /// Behaviour.
    pub flags: DomainFlags,
    /// Imbalance that is tolerated, percent (117 means 17 % over).
    pub imbalance_pct: u32,
    /// Tasks that may stay together on a node before a NUMA imbalance counts.
    pub imb_numa_nr: u32,
    /// Shortest interval between balancing, ms, and the one to start with.
    pub balance_interval_ms: u32,
    /// Longest interval, ms (`max_interval`).
    pub interval_max_ms: u32,
    /// Times longer that a busy CPU waits.
    pub busy_factor: u32,
    /// Failed attempts after which cache-hot tasks are moved, too.
    pub cache_nice_tries: u32,
    /// The ring of groups.
    pub groups: Vec<Group>,
}

/// A CPU's place in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Index into [`Domains::domains`].
    pub domain: u32,
    /// The CPU's own group, at which its ring starts (`sd->groups`).
    pub first_group: u32,
}

/// What the wake path caches per CPU (`update_top_cache_domain()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CacheDomains {
    llc: Option<Membership>,
    llc_id: CpuId,
    share_id: CpuId,
    asym_cpucapacity: Option<Membership>,
    asym_packing: Option<Membership>,
}

/// All scheduling domains of a machine.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    /// Every domain, in the order in which they were added.
    pub domains: Vec<Domain>,
    stacks: Vec<Vec<Membership>>,
    caches: Vec<CacheDomains>,
    smt: Vec<CpuSet>,
    /// The same as lists, which are quicker to go through.
    threads: Vec<Box<[CpuId]>>,
    nodes: Vec<u32>,
    smt_active: bool,
    cluster_active: bool,
    asym_cpucapacity_active: bool,
}

impl Domains {
    /// A machine without any domain: every CPU alone, on node 0.
    pub fn new(cpu_count: usize) -> Domains {
        let alone = |cpu: usize| CpuId(cpu as u32);
        Domains {
            domains: Vec::new(),
            stacks: vec![Vec::new(); cpu_count],
            caches: (0..cpu_count)
                .map(|cpu| CacheDomains {
                    llc_id: alone(cpu),
                    share_id: alone(cpu),
                    ..CacheDomains::default()
                })
                .collect(),
            smt: (0..cpu_count).map(|cpu| CpuSet::of(alone(cpu))).collect(),
            threads: (0..cpu_count).map(|cpu| Box::from([alone(cpu)])).collect(),
            nodes: vec![0; cpu_count],
            smt_active: false,
            cluster_active: false,
            asym_cpucapacity_active: false,
        }
    }

    /// Number of CPUs.
    pub fn cpu_count(&self) -> usize {
        self.stacks.len()
    }

    /// Sets the NUMA node of a CPU.
    pub fn set_node(&mut self, cpu: CpuId, node: u32) {
        self.nodes[cpu.index()] = node;
    }

    /// Declares the threads of one core.
    pub fn set_siblings(&mut self, siblings: CpuSet) {
        self.smt_active |= siblings.weight() > 1;
        for cpu in siblings.iter() {
            self.smt[cpu.index()] = siblings;
            self.threads[cpu.index()] = siblings.iter().collect();
        }
    }

    /// Puts `domain` on top of the stacks of `cpus`. A CPU in none of its groups starts the ring
    /// at the first one.
    pub fn push(&mut self, cpus: &CpuSet, domain: Domain) {
        self.cluster_active |= domain.flags.has(DomainFlags::CLUSTER);
        self.asym_cpucapacity_active |= domain.flags.has(DomainFlags::ASYM_CPUCAPACITY);
        let index = self.domains.len() as u32;
        for cpu in cpus.iter() {
            let first = domain.groups.iter().position(|group| group.span.contains(cpu));
            let membership =
                Membership { domain: index, first_group: first.unwrap_or_default() as u32 };
            self.stacks[cpu.index()].push(membership);
        }
        self.domains.push(domain);
        for cpu in cpus.iter() {
            self.refresh_caches(cpu);
        }
    }

    fn refresh_caches(&mut self, cpu: CpuId) {
        let stack = &self.stacks[cpu.index()];
        let flags = |membership: &Membership| self.domains[membership.domain as usize].flags;
        // SD_SHARE_LLC of a domain implies it for all below, so the first without it ends the search.
        let llc = stack.iter().take_while(|m| flags(m).has(DomainFlags::SHARE_LLC)).last().copied();
        let cluster = stack.iter().find(|m| flags(m).has(DomainFlags::CLUSTER)).copied();
        let asym_cpucapacity =
            stack.iter().find(|m| flags(m).has(DomainFlags::ASYM_CPUCAPACITY_FULL)).copied();
        let asym_packing = stack.iter().rfind(|m| flags(m).has(DomainFlags::ASYM_PACKING)).copied();
        let first_cpu = |membership: Membership| {
            self.domains[membership.domain as usize].span.first().unwrap_or(cpu)
        };
        let llc_id = llc.map_or(cpu, first_cpu);
        self.caches[cpu.index()] = CacheDomains {
            llc,
            llc_id,
            share_id: cluster.map_or(llc_id, first_cpu),
            asym_cpucapacity,
            asym_packing,
        };
    }

    /// The domains of a CPU, lowest first.
    #[inline]
    pub fn stack(&self, cpu: CpuId) -> &[Membership] {
        &self.stacks[cpu.index()]
    }

    /// The domain of a membership.
    #[inline]
    pub fn get(&self, membership: Membership) -> &Domain {
        &self.domains[membership.domain as usize]
    }

    /// Sets the capacity of the group at which a membership's ring starts: all CPUs together, the
    /// smallest and the largest. Rings that overlap share it.
    pub fn set_capacity(&mut self, membership: Membership, total: u64, min: u64, max: u64) {
        let set = |group: &mut Group| {
            let before = (group.capacity, group.min_capacity, group.max_capacity);
            (group.capacity, group.min_capacity, group.max_capacity) = (total, min, max);
            before != (total, min, max)
        };
        self.for_each_twin(membership, set);
    }

    /// Notes that affinity kept the group at which a membership's ring starts from being balanced
    /// (`sgc->imbalance`), or that it no longer does.
    pub fn set_imbalance(&mut self, membership: Membership, imbalance: bool) {
        self.for_each_twin(membership, |group| {
            std::mem::replace(&mut group.imbalance, imbalance) != imbalance
        });
    }

    /// `change` tells whether it changed anything.
    fn for_each_twin(
        &mut self,
        membership: Membership,
        mut change: impl FnMut(&mut Group) -> bool,
    ) {
        let at = membership.domain as usize;
        let first = membership.first_group as usize;
        let overlaps = self.domains[at].flags.has(DomainFlags::OVERLAP);
        let Some(own) = self.domains[at].groups.get_mut(first) else { return };
        // Twins are only ever changed together.
        if !change(own) || !overlaps {
            return;
        }
        let (name, span) = (self.domains[at].name, self.domains[at].groups[first].span);
        for (index, domain) in self.domains.iter_mut().enumerate() {
            if index != at && domain.name == name && domain.flags.has(DomainFlags::OVERLAP) {
                for group in domain.groups.iter_mut().filter(|group| group.span == span) {
                    change(group);
                }
            }
        }
    }

    /// The groups of a membership's domain in ring order, the CPU's own first.
    #[inline]
    pub fn ring(&self, membership: Membership) -> impl Iterator<Item = &Group> + Clone {
        let groups = &self.get(membership).groups;
        let (before, from) = groups.split_at(membership.first_group as usize);
        from.iter().chain(before)
    }

    /// The NUMA node of a CPU.
    #[inline]
    pub fn node(&self, cpu: CpuId) -> u32 {
        self.nodes[cpu.index()]
    }

    /// The threads of a CPU's core, itself included (`cpu_smt_mask()`).
    #[inline]
    pub fn siblings(&self, cpu: CpuId) -> &CpuSet {
        &self.smt[cpu.index()]
    }

    /// The threads of a CPU's core, itself included, in order.
    #[inline]
    pub fn threads(&self, cpu: CpuId) -> &[CpuId] {
        &self.threads[cpu.index()]
    }

    /// Any core has several threads.
    #[inline]
    pub fn smt_active(&self) -> bool {
        self.smt_active
    }

    /// Any domain is a cluster (`sched_cluster_active`).
    #[inline]
    pub fn cluster_active(&self) -> bool {
        self.cluster_active
    }

    /// Any domain has CPUs of different capacity (`sched_asym_cpucapacity`).
    #[inline]
    pub fn asym_cpucapacity_active(&self) -> bool {
        self.asym_cpucapacity_active
    }

    /// The widest domain that shares the last-level cache (`sd_llc`).
    #[inline]
    pub fn llc(&self, cpu: CpuId) -> Option<Membership> {
        self.caches[cpu.index()].llc
    }

    /// The lowest CPU of the cache domain, or the CPU itself (`sd_llc_id`).
    #[inline]
    pub fn llc_id(&self, cpu: CpuId) -> CpuId {
        self.caches[cpu.index()].llc_id
    }

    /// Number of CPUs that share the cache (`sd_llc_size`).
    #[inline]
    pub fn llc_size(&self, cpu: CpuId) -> u32 {
        self.llc(cpu).map_or(1, |membership| self.get(membership).weight)
    }

    /// The lowest domain that holds CPUs of every capacity (`sd_asym_cpucapacity`).
    #[inline]
    pub fn asym_cpucapacity(&self, cpu: CpuId) -> Option<Membership> {
        self.caches[cpu.index()].asym_cpucapacity
    }

    /// The widest ASYM_PACKING domain (`sd_asym_packing`).
    #[inline]
    pub fn asym_packing(&self, cpu: CpuId) -> Option<Membership> {
        self.caches[cpu.index()].asym_packing
    }

    /// `cpus_share_cache()`.
    #[inline]
    pub fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        a == b || self.llc_id(a) == self.llc_id(b)
    }

    /// `cpus_share_resources()`: cluster, or cache on machines without clusters.
    #[inline]
    pub fn share_resources(&self, a: CpuId, b: CpuId) -> bool {
        a == b || self.caches[a.index()].share_id == self.caches[b.index()].share_id
    }
}

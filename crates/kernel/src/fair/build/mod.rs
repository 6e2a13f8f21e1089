//! Builds scheduling domains from a machine as the kernel builds them at boot
//! (`build_sched_domains()`, `sd_init()`, `sched_init_numa()`; `kernel/sched/topology.c`, 6.12).

mod classic;

use crate::fair::classic::domains::ClassicDomains;
use crate::fair::topology::{Domain, DomainFlags, Domains, Group};
use schedlab_machine::{CpuId, CpuSet, Machine};
use serde::Deserialize;

/// What differs between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainRules {
    /// Clusters are a level of their own (v5.16, 778c558f49a2).
    pub clusters: bool,
    /// `imbalance_pct` where neither threads nor a cache are shared: 125 up to v5.9, then 117
    /// (2208cdaa56c9).
    pub imbalance_pct: u32,
    /// How many times longer a busy CPU waits between balancing: 32 up to v5.9, then 16
    /// (6e7499135db7).
    pub busy_factor: u32,
    /// Overlapping groups never hold CPUs outside their domain (v5.13, 585b6d2723dc). Before,
    /// they did on machines with three NUMA hops or more, and placement could leave the domain.
    pub groups_within_domain: bool,
    /// Distances between sockets count as their average (v6.18, 528d89a4707e and 4d6dd05d07d0,
    /// there for Granite Rapids with sub-NUMA clusters). Without, firmware that tells them apart
    /// gives nodes stacks of different height, and the top domain may have no group for some.
    pub uniform_remote_distance: bool,
    /// The values of 2.6.32 and kernels near it, beside which nothing above matters.
    #[serde(skip)]
    pub classic: Option<ClassicDomains>,
}

impl DomainRules {
    /// 6.12, and every release since v5.16.
    pub const CURRENT: DomainRules = DomainRules {
        clusters: true,
        imbalance_pct: 117,
        busy_factor: 16,
        groups_within_domain: true,
        uniform_remote_distance: false,
        classic: None,
    };

    /// Those of a classic kernel.
    pub const fn classic(classic: ClassicDomains) -> DomainRules {
        DomainRules { clusters: false, classic: Some(classic), ..DomainRules::CURRENT }
    }
}

/// Beyond this distance, fork, exec and wake-up do not place tasks (`node_reclaim_distance`).
const NODE_RECLAIM_DISTANCE: u32 = 30;

/// One level of the topology, before degenerate ones are removed.
struct Level {
    name: LevelName,
    /// For each CPU, the CPUs of its domain.
    spans: Vec<CpuSet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LevelName {
    Smt,
    Cluster,
    Llc,
    Package,
    /// CPUs of nodes up to this distance.
    Numa(u32),
    /// All nodes, whatever their distances.
    AllNodes,
}

impl LevelName {
    /// As debugfs shows it.
    fn text(self) -> &'static str {
        match self {
            LevelName::Smt => "SMT",
            LevelName::Cluster => "CLS",
            LevelName::Llc => "MC",
            LevelName::Package => "PKG",
            LevelName::Numa(_) | LevelName::AllNodes => "NUMA",
        }
    }
}

/// A CPU's domain while its stack is built.
#[derive(Clone, Copy)]
struct Raw {
    level: usize,
    name: &'static str,
    span: CpuSet,
    flags: DomainFlags,
    imbalance_pct: u32,
    imb_numa_nr: u32,
    cache_nice_tries: u32,
    /// Shortest and longest interval, ms, and how many times longer a busy CPU waits.
    intervals: (u32, u32, u32),
}

/// The domains that a kernel with `rules` builds on `machine`, with the capacities of idle CPUs.
///
/// ```
/// use schedlab_kernel::fair::build::{DomainRules, build_domains};
/// use schedlab_machine::{CpuId, Machine};
/// let machine = Machine::preset("kunpeng920-2s").expect("a built-in machine");
/// let domains = build_domains(&machine, DomainRules::CURRENT);
/// // Clusters, the last-level cache, and four NUMA distances, of which CPU 0 needs three to reach
/// // every CPU.
/// let weights: Vec<u32> =
///     domains.stack(CpuId(0)).iter().map(|&m| domains.get(m).weight).collect();
/// assert_eq!(weights, [4, 32, 64, 96, 128]);
/// ```
pub fn build_domains(machine: &Machine, rules: DomainRules) -> Domains {
    let levels = levels(machine, rules);
    let mut domains = Domains::new(machine.cpu_count());
    for cpu in machine.cpu_ids() {
        domains.set_node(cpu, machine.topology().nodes().of(cpu) as u32);
    }
    for siblings in machine.topology().cores().groups() {
        domains.set_siblings(*siblings);
    }
    let capacities = capacities(machine);
    let raw: Vec<Vec<Raw>> =
        machine.cpu_ids().map(|cpu| stack(machine, rules, &levels, &capacities, cpu)).collect();
    let kept = raw.iter().map(|stack| match rules.classic {
        Some(_) => classic::without_degenerate(stack),
        None => without_degenerate(stack),
    });
    let kept: Vec<Vec<Raw>> = kept.collect();
    // CPUs share a domain if it is of one level and span, and, where groups overlap, if they see
    // the ring from the same node.
    let height = kept.iter().map(Vec::len).max().unwrap_or_default();
    for above in 0..height {
        let mut done = CpuSet::EMPTY;
        for cpu in machine.cpu_ids() {
            let Some(own) = kept[cpu.index()].get(above) else { continue };
            if done.contains(cpu) {
                continue;
            }
            let overlaps = own.flags.has(DomainFlags::OVERLAP);
            let node = machine.topology().nodes().siblings(cpu);
            let peers = own.span.iter().filter(|&peer| {
                let same = kept[peer.index()]
                    .get(above)
                    .is_some_and(|other| other.level == own.level && other.span == own.span);
                same && (!overlaps || node.contains(peer))
            });
            let peers: CpuSet = peers.collect();
            done |= peers;
            let groups = if overlaps {
                overlapping_groups(&raw, own, cpu, rules)
            } else {
                child_groups(&raw, own, cpu)
            };
            let groups =
                groups.into_iter().map(|spans| group(machine, &raw, &kept, spans, own, cpu));
            let mut groups: Vec<Group> = groups.collect();
            if let Some(classic) = rules.classic {
                groups.iter_mut().for_each(|group| classic::set_power(machine, classic, group));
            }
            let weight = own.span.weight() as u32;
            let (balance_interval_ms, interval_max_ms, busy_factor) = own.intervals;
            let domain = Domain {
                name: own.name,
                span: own.span,
                weight,
                flags: own.flags,
                imbalance_pct: own.imbalance_pct,
                imb_numa_nr: own.imb_numa_nr,
                balance_interval_ms,
                interval_max_ms,
                busy_factor,
                cache_nice_tries: own.cache_nice_tries,
                groups,
            };
            domains.push(&peers, domain);
        }
    }
    domains
}

fn levels(machine: &Machine, rules: DomainRules) -> Vec<Level> {
    let topology = machine.topology();
    let by = |name, siblings: &dyn Fn(CpuId) -> CpuSet| Level {
        name,
        spans: machine.cpu_ids().map(siblings).collect(),
    };
    let mut levels = vec![by(LevelName::Smt, &|cpu| *topology.cores().siblings(cpu))];
    if rules.clusters
        && let Some(clusters) = topology.clusters()
    {
        levels.push(by(LevelName::Cluster, &|cpu| *clusters.siblings(cpu)));
    }
    // cpu_coregroup_mask() never leaves the node, and "PKG" is the node (cpu_cpu_mask()).
    let nodes = topology.nodes();
    levels.push(by(LevelName::Llc, &|cpu| *topology.llcs().siblings(cpu) & *nodes.siblings(cpu)));
    levels.push(by(LevelName::Package, &|cpu| *nodes.siblings(cpu)));
    let count = nodes.len();
    if rules.classic.is_some_and(|classic| classic.v3_9.is_none()) {
        if count > 1 {
            levels.push(by(LevelName::AllNodes, &|_| *machine.cpus()));
        }
        return levels;
    }
    let distance = distances(machine, rules);
    let mut distinct: Vec<u32> = distance.iter().copied().filter(|&apart| apart > 10).collect();
    distinct.sort_unstable();
    distinct.dedup();
    for limit in distinct {
        levels.push(by(LevelName::Numa(limit), &|cpu| {
            let from = nodes.of(cpu);
            let near = (0..count).filter(|&to| distance[from * count + to] <= limit);
            near.fold(CpuSet::EMPTY, |span, to| span | nodes.groups()[to])
        }));
    }
    levels
}

/// Distances between nodes, row by row, as the kernel takes them (`arch_sched_node_distance()`).
fn distances(machine: &Machine, rules: DomainRules) -> Vec<u32> {
    let topology = machine.topology();
    let count = topology.nodes().len();
    let package = |node: usize| {
        let first = topology.nodes().groups()[node].first().unwrap_or_default();
        topology.packages().of(first)
    };
    let pairs = || (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let remote = |&(from, to): &(usize, usize)| package(from) != package(to);
    let firmware = |(from, to)| machine.node_distance(from, to);
    let far: Vec<u32> = pairs().filter(remote).map(firmware).collect();
    let average = far.iter().sum::<u32>().checked_div(far.len() as u32);
    let seen = |pair| match average {
        Some(average) if rules.uniform_remote_distance && remote(&pair) => average,
        _ => firmware(pair),
    };
    pairs().map(seen).collect()
}

/// One CPU's domains up to the first that holds every CPU, with their flags (`sd_init()`).
fn stack(
    machine: &Machine,
    rules: DomainRules,
    levels: &[Level],
    capacities: &[CpuSet],
    cpu: CpuId,
) -> Vec<Raw> {
    let mut stack: Vec<Raw> = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let span = level.spans[cpu.index()];
        if let Some(classic) = rules.classic {
            stack.push(classic::level(classic, index, level.name, span));
            continue;
        }
        let mut flags = DomainFlags::BALANCE_NEWIDLE.0
            | DomainFlags::BALANCE_EXEC.0
            | DomainFlags::BALANCE_FORK.0
            | DomainFlags::WAKE_AFFINE.0
            | DomainFlags::PREFER_SIBLING.0;
        let mut imbalance_pct = rules.imbalance_pct;
        let mut cache_nice_tries = 1;
        match level.name {
            LevelName::Smt => {
                flags |= DomainFlags::SHARE_CPUCAPACITY.0 | DomainFlags::SHARE_LLC.0;
                imbalance_pct = 110;
                cache_nice_tries = 0;
            }
            LevelName::Cluster => {
                flags |= DomainFlags::CLUSTER.0 | DomainFlags::SHARE_LLC.0;
                imbalance_pct = 117;
            }
            LevelName::Llc => {
                flags |= DomainFlags::SHARE_LLC.0;
                imbalance_pct = 117;
            }
            LevelName::Package | LevelName::AllNodes => {}
            LevelName::Numa(distance) => {
                cache_nice_tries = 2;
                flags &= !DomainFlags::PREFER_SIBLING.0;
                flags |= DomainFlags::SERIALIZE.0 | DomainFlags::NUMA.0 | DomainFlags::OVERLAP.0;
                if distance > NODE_RECLAIM_DISTANCE {
                    flags &= !(DomainFlags::BALANCE_EXEC.0
                        | DomainFlags::BALANCE_FORK.0
                        | DomainFlags::WAKE_AFFINE.0);
                }
            }
        }
        flags |= asymmetry(capacities, &span).0;
        if flags & DomainFlags::ASYM_CPUCAPACITY.0 != 0
            && let Some(child) = stack.last_mut()
        {
            child.flags.0 &= !DomainFlags::PREFER_SIBLING.0;
        }
        let weight = span.weight() as u32;
        stack.push(Raw {
            level: index,
            name: level.name.text(),
            span,
            flags: DomainFlags(flags),
            imbalance_pct,
            imb_numa_nr: 0,
            cache_nice_tries,
            intervals: (weight, 2 * weight, rules.busy_factor),
        });
        if span == *machine.cpus() {
            break;
        }
    }
    allow_numa_imbalance(&mut stack);
    stack
}

/// The CPUs of each capacity that the machine has (`asym_cap_list`).
fn capacities(machine: &Machine) -> Vec<CpuSet> {
    let mut values: Vec<u32> = machine.cpu_ids().map(|cpu| machine.capacity(cpu)).collect();
    values.sort_unstable();
    values.dedup();
    let having = |value| machine.cpu_ids().filter(|&cpu| machine.capacity(cpu) == value).collect();
    values.into_iter().map(having).collect()
}

/// `asym_cpu_capacity_classify()`.
fn asymmetry(capacities: &[CpuSet], span: &CpuSet) -> DomainFlags {
    let here = capacities.iter().filter(|cpus| cpus.intersects(span)).count();
    if here < 2 {
        DomainFlags(0)
    } else if here < capacities.len() {
        DomainFlags::ASYM_CPUCAPACITY
    } else {
        DomainFlags(DomainFlags::ASYM_CPUCAPACITY.0 | DomainFlags::ASYM_CPUCAPACITY_FULL.0)
    }
}

/// How many tasks may stay together on a node: an eighth of a node with one cache, else one per
/// cache, and more in wider domains (`imb_numa_nr`).
fn allow_numa_imbalance(stack: &mut [Raw]) {
    let shares_cache = |raw: &Raw| raw.flags.has(DomainFlags::SHARE_LLC);
    let mut allowed = 0;
    let mut first_numa_weight = 1;
    for at in 0..stack.len() {
        let weight = stack[at].span.weight() as u32;
        let child = at.checked_sub(1).map(|below| stack[below]);
        match child {
            Some(child) if !shares_cache(&stack[at]) && shares_cache(&child) => {
                let caches = weight / child.span.weight() as u32;
                allowed = if caches == 1 { weight >> 3 } else { caches }.max(1);
                stack[at].imb_numa_nr = allowed;
                let numa = stack[at + 1..].iter().find(|raw| raw.flags.has(DomainFlags::NUMA));
                first_numa_weight = numa.map_or(weight, |raw| raw.span.weight() as u32);
            }
            _ => stack[at].imb_numa_nr = allowed * (weight / first_numa_weight).max(1),
        }
    }
}

/// A domain that holds one CPU, or the same CPUs as the one below, decides nothing
/// (`sd_parent_degenerate()`). Its wish to spread tasks passes to the one below.
fn without_degenerate(stack: &[Raw]) -> Vec<Raw> {
    let mut kept: Vec<Raw> = Vec::new();
    for raw in stack {
        if raw.span.weight() < 2 {
            continue;
        }
        match kept.last_mut() {
            Some(below) if below.span == raw.span => {
                if raw.flags.has(DomainFlags::PREFER_SIBLING) {
                    below.flags.0 |= DomainFlags::PREFER_SIBLING.0;
                }
            }
            _ => kept.push(*raw),
        }
    }
    kept
}

/// A group's CPUs, and those of them that balance on its behalf (`group_balance_mask()`).
type GroupSpans = (CpuSet, CpuSet);

/// The span of `cpu`'s domain one level below `level`; a single CPU below the lowest.
fn span_below(raw: &[Vec<Raw>], level: usize, cpu: CpuId) -> CpuSet {
    level
        .checked_sub(1)
        .and_then(|below| raw[cpu.index()].get(below))
        .map_or(CpuSet::of(cpu), |raw| raw.span)
}

/// `build_sched_groups()`: the domains one level below, in the order of CPU numbers.
fn child_groups(raw: &[Vec<Raw>], own: &Raw, cpu: CpuId) -> Vec<GroupSpans> {
    let mut covered = CpuSet::EMPTY;
    let mut groups = Vec::new();
    for member in own.span.iter_wrapping(cpu) {
        if !covered.contains(member) {
            let span = span_below(raw, own.level, member);
            covered |= span;
            groups.push((span, span));
        }
    }
    groups
}

/// `build_overlap_sched_groups()`: what each node sees one level below, or further down if that
/// leaves the domain.
fn overlapping_groups(
    raw: &[Vec<Raw>],
    own: &Raw,
    cpu: CpuId,
    rules: DomainRules,
) -> Vec<GroupSpans> {
    let mut covered = CpuSet::EMPTY;
    let mut groups = Vec::new();
    for member in own.span.iter_wrapping(cpu) {
        // A CPU whose stack ends below this level sees every CPU from there and has no group here.
        if covered.contains(member) || raw[member.index()].len() <= own.level {
            continue;
        }
        let mut level = own.level;
        let mut span = span_below(raw, level, member);
        while rules.groups_within_domain && !span.is_subset(&own.span) && level > 0 {
            level -= 1;
            span = span_below(raw, level, member);
        }
        covered |= span;
        // Only CPUs that see the same group from their side of the domain can go on from it.
        let arrives = |&at: &CpuId| {
            level > 0 && raw[at.index()].len() > level && span_below(raw, level, at) == span
        };
        groups.push((span, span.iter().filter(arrives).collect()));
    }
    groups
}

fn group(
    machine: &Machine,
    raw: &[Vec<Raw>],
    kept: &[Vec<Raw>],
    (span, balance_mask): GroupSpans,
    own: &Raw,
    cpu: CpuId,
) -> Group {
    let capacities = || span.iter().map(|cpu| u64::from(machine.capacity(cpu)));
    let first = span.first().unwrap_or_default();
    // A group bears the flags of the domain below that it stands for. In a ring of one's own,
    // where groups overlap, only the own group learns that levels below were removed.
    let stacks =
        if own.flags.has(DomainFlags::OVERLAP) && !span.contains(cpu) { raw } else { kept };
    let child = stacks[first.index()].iter().rfind(|raw| raw.level < own.level && raw.span == span);
    Group {
        span,
        balance_mask,
        weight: span.weight() as u32,
        capacity: capacities().sum(),
        min_capacity: capacities().min().unwrap_or(1024),
        max_capacity: capacities().max().unwrap_or(1024),
        imbalance: false,
        flags: child.map_or(DomainFlags(0), |child| child.flags),
        cores: span.iter().filter(|&cpu| machine.topology().thread_of(cpu) == 0).count() as u32,
        asym_prefer_cpu: first,
    }
}

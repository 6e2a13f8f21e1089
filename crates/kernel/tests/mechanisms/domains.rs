//! Scheduling domains as built from machines, against what real kernels print and what follows
//! from their source by hand.

use schedlab_kernel::fair::build::{DomainRules, build_domains};
use schedlab_kernel::fair::topology::{Domain, DomainFlags, Domains};
use schedlab_machine::{CpuId, CpuSet, Machine};

const V5_7: DomainRules = DomainRules {
    clusters: false,
    imbalance_pct: 125,
    busy_factor: 32,
    groups_within_domain: false,
    uniform_remote_distance: false,
    classic: None,
};

fn built(machine: &str, rules: DomainRules) -> Domains {
    build_domains(&Machine::preset(machine).expect("a preset"), rules)
}

fn stack(domains: &Domains, cpu: u32) -> Vec<&Domain> {
    domains.stack(CpuId(cpu)).iter().map(|&m| domains.get(m)).collect()
}

fn spans(domains: &Domains, cpu: u32) -> Vec<String> {
    stack(domains, cpu).iter().map(|domain| domain.span.to_string()).collect()
}

/// The groups of `cpu`'s domain at `level` in ring order.
fn ring(domains: &Domains, cpu: u32, level: usize) -> Vec<String> {
    let membership = domains.stack(CpuId(cpu))[level];
    domains.ring(membership).map(|group| group.span.to_string()).collect()
}

fn flag_names(flags: DomainFlags) -> String {
    flags.names().collect::<Vec<_>>().join(" ")
}

/// `/sys/kernel/debug/sched/domains/cpu0` of Linux 6.12.117 in a QEMU machine, one line per
/// domain, as the recordings' `sysinfo.txt` has them.
const QEMU4: &str = "\
MC flags=SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_SHARE_LLC SD_PREFER_SIBLING min=4 max=8 imb=117 busy=16
";
const QEMU8: &str = "\
SMT flags=SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_SHARE_CPUCAPACITY SD_SHARE_LLC SD_PREFER_SIBLING min=2 max=4 imb=110 busy=16
MC flags=SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_SHARE_LLC SD_PREFER_SIBLING min=4 max=8 imb=117 busy=16
NUMA flags=SD_BALANCE_NEWIDLE SD_BALANCE_EXEC SD_BALANCE_FORK SD_WAKE_AFFINE SD_SERIALIZE SD_OVERLAP SD_NUMA min=8 max=16 imb=117 busy=16
";

fn as_debugfs(domains: &Domains, cpu: u32) -> String {
    let line = |domain: &&Domain| {
        let flags = flag_names(domain.flags);
        format!(
            "{} flags={flags} min={} max={} imb={} busy={}\n",
            domain.name,
            domain.balance_interval_ms,
            domain.interval_max_ms,
            domain.imbalance_pct,
            domain.busy_factor
        )
    };
    stack(domains, cpu).iter().map(line).collect()
}

#[test]
fn a_real_kernel_builds_the_same_domains() {
    assert_eq!(as_debugfs(&built("qemu4", DomainRules::CURRENT), 0), QEMU4);
    let domains = built("qemu8", DomainRules::CURRENT);
    for cpu in 0..8 {
        assert_eq!(as_debugfs(&domains, cpu), QEMU8, "CPU {cpu}");
    }
    assert_eq!(spans(&domains, 0), ["0-1", "0-3", "0-7"]);
    assert_eq!(spans(&domains, 6), ["6-7", "4-7", "0-7"]);
    assert_eq!(ring(&domains, 6, 2), ["4-7", "0-3"]);
}

#[test]
fn kunpeng_has_a_cache_level_and_three_of_four_numa_levels() {
    let domains = built("kunpeng920-2s", V5_7);
    assert_eq!(spans(&domains, 0), ["0-31", "0-63", "0-95", "0-127"]);
    // Node 1 reaches no further at distance 20 than at 12, and only at 24 every node.
    assert_eq!(spans(&domains, 32), ["32-63", "0-63", "0-95", "0-127"]);
    assert_eq!(spans(&domains, 64), ["64-95", "64-127", "0-31,64-127", "0-127"]);
    // The package level, which holds a die as the cache level does, is gone.
    assert_eq!(stack(&domains, 0).iter().map(|d| d.name).collect::<Vec<_>>()[0], "MC");
    assert_eq!(domains.llc_size(CpuId(0)), 32);
    // FACTS: 32 / 8 on two nodes, twice that on four; the level between is not twice as wide.
    let allowed: Vec<u32> = stack(&domains, 0).iter().map(|d| d.imb_numa_nr).collect();
    assert_eq!(allowed, [0, 4, 4, 8]);
    // In the cache every group is a CPU, and the ring starts with one's own.
    assert_eq!(ring(&domains, 5, 0)[..3], ["5", "6", "7"]);
}

#[test]
fn before_v5_13_a_group_could_leave_its_domain() {
    let old = built("kunpeng920-2s", V5_7);
    assert_eq!(ring(&old, 0, 2), ["0-63", "64-127"], "the domain is 0-95");
    let new = built("kunpeng920-2s", DomainRules { groups_within_domain: true, ..V5_7 });
    assert_eq!(ring(&new, 0, 2), ["0-63", "64-95"]);
    assert_eq!(ring(&new, 0, 3), ["0-95", "64-127"]);
    assert_eq!(ring(&new, 32, 3), ["0-95", "0-31,64-127"]);
}

#[test]
fn clusters_are_a_level_since_v5_16() {
    let domains = built("kunpeng920-2s", DomainRules::CURRENT);
    assert_eq!(spans(&domains, 5)[..2], ["4-7", "0-31"]);
    assert!(domains.cluster_active());
    assert_eq!(ring(&domains, 5, 1)[..2], ["4-7", "8-11"]);
}

#[test]
fn granite_rapids_has_threads_dies_and_sockets() {
    let domains = built("gnr-2s-snc3", DomainRules::CURRENT);
    let own = stack(&domains, 245);
    assert_eq!(own[0].span.to_string(), "5,245");
    assert_eq!(own[1].span.to_string(), "0-39,240-279");
    assert_eq!(own.last().map(|domain| domain.weight), Some(480));
    assert_eq!(own[1].imbalance_pct, 117);
    // A node of 80 threads lets an eighth of it run beside idle nodes.
    assert_eq!(own[2].imb_numa_nr, 10);
    assert!(domains.smt_active());
    let group = domains.ring(domains.stack(CpuId(245))[2]).next().expect("a group");
    assert_eq!((group.weight, group.cores), (80, 40));
}

/// What the log of 4d6dd05d07d0 calls "groups don't span domain->span": node 4 is nearer to every
/// node than distance 28, so it has no domain there that could be a group in node 0's.
#[test]
fn granite_rapids_loses_a_node_until_remote_distances_are_uniform() {
    let covered = |rules| {
        let domains = built("gnr-2s-snc3", rules);
        let top = *domains.stack(CpuId(0)).last().expect("a domain");
        domains.ring(top).fold(CpuSet::EMPTY, |sum, group| sum | group.span)
    };
    assert_eq!(covered(DomainRules::CURRENT).to_string(), "0-159,200-399,440-479");
    let uniform = DomainRules { uniform_remote_distance: true, ..DomainRules::CURRENT };
    assert_eq!(covered(uniform).weight(), 480);
    let domains = built("gnr-2s-snc3", uniform);
    let weights: Vec<u32> = stack(&domains, 0).iter().map(|domain| domain.weight).collect();
    assert_eq!(weights, [2, 80, 160, 240, 480]);
}

#[test]
fn nehalem_numbers_its_sockets_alternately() {
    let domains = built("nehalem-ep-2s", DomainRules::CURRENT);
    assert_eq!(spans(&domains, 0), ["0,8", "0,2,4,6,8,10,12,14", "0-15"]);
    assert_eq!(ring(&domains, 3, 1), ["3,11", "5,13", "7,15", "1,9"]);
    assert!(!stack(&domains, 0)[2].flags.has(DomainFlags::PREFER_SIBLING));
}

#[test]
fn big_little_is_one_asymmetric_domain() {
    let domains = built("pixel6-gs101", DomainRules::CURRENT);
    let own = stack(&domains, 0);
    assert_eq!(own.len(), 1);
    assert!(own[0].flags.has(DomainFlags::ASYM_CPUCAPACITY_FULL));
    assert!(own[0].flags.has(DomainFlags::ASYM_CPUCAPACITY));
    assert!(domains.asym_cpucapacity_active() && domains.asym_cpucapacity(CpuId(0)).is_some());
    let capacities: Vec<u64> = own[0].groups.iter().map(|group| group.capacity).collect();
    assert_eq!(capacities, [124, 124, 124, 124, 427, 427, 1024, 1024]);
}

#[test]
fn every_preset_s_groups_cover_their_domain() {
    for name in Machine::preset_names() {
        let rules = DomainRules { uniform_remote_distance: true, ..DomainRules::CURRENT };
        let domains = built(name, rules);
        let all = CpuSet::first_n(domains.cpu_count());
        for cpu in all.iter() {
            for &membership in domains.stack(cpu) {
                let domain = domains.get(membership);
                let groups = domains.ring(membership);
                let covered = groups.clone().fold(CpuSet::EMPTY, |sum, group| sum | group.span);
                assert_eq!(covered, domain.span, "{name}, CPU {cpu}, {}", domain.name);
                let own = groups.clone().next().expect("a group");
                assert!(own.span.contains(cpu), "{name}, CPU {cpu}, {}", domain.name);
                assert!(groups.clone().all(|group| !group.balance_mask.is_empty()), "{name}");
                assert!(own.balance_mask.contains(cpu), "{name}, CPU {cpu}, {}", domain.name);
            }
        }
    }
}

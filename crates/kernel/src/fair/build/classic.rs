//! Domains as a classic kernel builds them.

use super::{LevelName, Raw};
use crate::fair::classic::domains::{ClassicDomains, ClassicLevel, adds_nothing};
use crate::fair::topology::Group;
use schedlab_machine::{CpuSet, Machine};

/// One domain of a classic kernel.
pub(super) fn level(classic: ClassicDomains, level: usize, name: LevelName, span: CpuSet) -> Raw {
    let values = classic.values(match name {
        LevelName::Smt => ClassicLevel::Sibling,
        LevelName::Llc | LevelName::Cluster => ClassicLevel::Mc,
        LevelName::Package => ClassicLevel::Cpu,
        LevelName::AllNodes => ClassicLevel::Node,
        LevelName::Numa(distance) => ClassicLevel::Numa { distance, weight: span.weight() as u32 },
    });
    Raw {
        level,
        name: values.name,
        span,
        flags: values.flags,
        imbalance_pct: values.imbalance_pct,
        imb_numa_nr: 0,
        cache_nice_tries: values.cache_nice_tries,
        intervals: (values.min_interval_ms, values.max_interval_ms, values.busy_factor),
    }
}

/// What a domain of the same CPUs adds beside the one below is its
/// flags, as long as they mean something with one group.
pub(super) fn without_degenerate(stack: &[Raw]) -> Vec<Raw> {
    let mut kept: Vec<Raw> = Vec::new();
    for raw in stack.iter().filter(|raw| raw.span.weight() > 1) {
        let below = kept.last().filter(|below| below.span == raw.span);
        if !below.is_some_and(|below| adds_nothing(below.flags, raw.flags)) {
            kept.push(*raw);
        }
    }
    kept
}

/// `cpu_power` of a group: no kernel of that time knew CPUs of different capacity.
pub(super) fn set_power(machine: &Machine, classic: ClassicDomains, group: &mut Group) {
    let threads = |cpu| machine.topology().cores().siblings(cpu).weight() as u64;
    let power = |cpu| classic.thread_power(threads(cpu));
    group.capacity = group.span.iter().map(power).sum();
    group.min_capacity = group.span.iter().map(power).min().unwrap_or(1024);
    group.max_capacity = group.span.iter().map(power).max().unwrap_or(1024);
}

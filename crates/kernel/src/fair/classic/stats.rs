//! The sums of a domain's groups, and which of them is the busiest (`struct sd_lb_stats`,
//! `update_sd_lb_stats()`).

use super::savings::Savings;
use super::{ClassicRules, CpuView, LOAD_SCALE};
use crate::fair::balance::CpuIdle;
use crate::fair::topology::{Domain, DomainFlags, Domains, Group};
use schedlab_machine::{CpuId, CpuSet};

/// One attempt to balance: a CPU, one of its domains, and the CPUs that take part.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The domains.
    pub domains: &'a Domains,
    /// The run queues, by CPU number.
    pub cpus: &'a [CpuView],
    /// The CPU that would pull.
    pub this_cpu: CpuId,
    /// Which of its domains, 0 being the lowest.
    pub level: usize,
    /// Whether it idles.
    pub idle: CpuIdle,
    /// CPUs to look at.
    pub candidates: &'a CpuSet,
    /// The release's rules.
    pub rules: ClassicRules,
}

/// A group's sums (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLoad {
    /// Load in relation to power.
    pub avg_load: u64,
    /// Load, guessed high or low.
    pub group_load: u64,
    /// Tasks.
    pub sum_nr_running: u64,
    /// Load of now.
    pub sum_weighted_load: u64,
    /// Tasks for which it has power.
    pub capacity: u64,
    /// Its CPUs differ by more than two tasks.
    pub imbalanced: bool,
}

/// The domain's sums.
#[derive(Clone, Copy, Debug)]
pub struct DomainLoad<'a> {
    /// The busiest group other than the own that has more tasks than power.
    pub busiest: Option<(&'a Group, GroupLoad)>,
    /// The own group.
    pub this: (&'a Group, GroupLoad),
    /// Load of all groups.
    pub total_load: u64,
    /// Power of all groups.
    pub total_power: u64,
    /// Whom to empty to save power, if that is wanted.
    pub(super) savings: Savings<'a>,
}

impl<'a> DomainLoad<'a> {
    /// Sums of groups that were weighed elsewhere: the busiest, the own one, and load and power of
    /// all.
    pub(super) fn of(
        busiest: (&'a Group, GroupLoad),
        this: (&'a Group, GroupLoad),
        (total_load, total_power): (u64, u64),
    ) -> DomainLoad<'a> {
        let savings = Savings::default();
        DomainLoad { busiest: Some(busiest), this, total_load, total_power, savings }
    }
}

impl<'a> Search<'a> {
    /// The domain.
    pub fn domain(&self) -> &'a Domain {
        self.domains.get(self.domains.stack(self.this_cpu)[self.level])
    }

    pub(super) fn cpu(&self, cpu: CpuId) -> &'a CpuView {
        &self.cpus[cpu.index()]
    }

    /// True if the domain above packs tasks (`test_sd_parent()`).
    pub fn parent_saves(&self) -> bool {
        let above = self.domains.stack(self.this_cpu).get(self.level + 1);
        above.is_some_and(|&above| {
            self.domains.get(above).flags.has(DomainFlags::POWERSAVINGS_BALANCE)
        })
    }

    /// True if it matters whether other threads of the core idle: an idle thread beside busy ones
    /// then counts as busy in what follows from balancing.
    pub fn minds_siblings(&self) -> bool {
        // Gone since v2.6.39 (46e49b3836c7).
        self.rules.v3_9.is_none()
            && self.domain().flags.has(DomainFlags::SHARE_CPUCAPACITY)
            && !self.parent_saves()
    }

    /// The sums of all groups and the busiest of them. `None` if another CPU of the group balances
    /// here. `sd_idle` is cleared if a CPU of the domain has work.
    pub fn domain_load(&self, sd_idle: &mut bool) -> Option<DomainLoad<'a>> {
        let domain = self.domain();
        let membership = self.domains.stack(self.this_cpu)[self.level];
        let below = self.level.checked_sub(1);
        let below = below.map(|below| self.domains.get(self.domains.stack(self.this_cpu)[below]));
        let prefer_sibling = below.is_some_and(|b| b.flags.has(DomainFlags::PREFER_SIBLING));
        let indices = super::load_indices(domain.name);
        let index = match self.idle {
            CpuIdle::Busy => indices.busy,
            CpuIdle::Idle => indices.idle,
            CpuIdle::NewlyIdle => indices.newidle,
        };
        let mut found: Option<DomainLoad<'a>> = None;
        // The ring begins with the own group.
        for group in self.domains.ring(membership) {
            let local = group.span.contains(self.this_cpu);
            let mut load = self.group_load(group, local, index, sd_idle)?;
            if prefer_sibling {
                load.capacity = load.capacity.min(1);
            }
            let sums = found.get_or_insert(DomainLoad {
                busiest: None,
                this: (group, load),
                total_load: 0,
                total_power: 0,
                savings: Savings::new(self.idle, domain),
            });
            sums.total_load += load.group_load;
            sums.total_power += group.capacity;
            if !local && is_busier(sums, &load) {
                sums.busiest = Some((group, load));
            }
            let own_running = sums.this.1.sum_nr_running;
            sums.savings.add(group, &load, local, own_running);
        }
        found
    }

    /// `update_sg_lb_stats()`; `None` if the group is the own and somebody else balances for it: its
    /// first idle CPU, or its first one.
    fn group_load(
        &self,
        group: &Group,
        local: bool,
        index: usize,
        sd_idle: &mut bool,
    ) -> Option<GroupLoad> {
        let mut sums = GroupLoad::default();
        let mut idle_cpu = None;
        let (mut most, mut least) = (0, u64::MAX);
        for at in (group.span & *self.candidates).iter() {
            let cpu = self.cpu(at);
            *sd_idle &= cpu.nr_running == 0;
            let load = if local {
                if cpu.idle && idle_cpu.is_none() {
                    idle_cpu = Some(at);
                }
                cpu.target_load(index)
            } else {
                let load = cpu.source_load(index);
                (most, least) = (load.max(most), load.min(least));
                load
            };
            sums.group_load += load;
            sums.sum_nr_running += u64::from(cpu.nr_running);
            sums.sum_weighted_load += cpu.weight;
        }
        let balancer = idle_cpu.or(group.span.first());
        if local && self.idle != CpuIdle::NewlyIdle && balancer != Some(self.this_cpu) {
            return None;
        }
        sums.avg_load = sums.group_load * LOAD_SCALE / group.capacity.max(1);
        let per_task = sums.sum_weighted_load.checked_div(sums.sum_nr_running).unwrap_or(0);
        sums.imbalanced = u64::wrapping_sub(most, least) > 2 * per_task;
        sums.capacity = self.tasks_for(group.capacity);
        Some(sums)
    }

    /// For how many tasks there is power; a thread may be too small to count as one.
    pub(super) fn tasks_for(&self, power: u64) -> u64 {
        let rounded = (power + LOAD_SCALE / 2) / LOAD_SCALE;
        let threads = self.domain().flags.has(DomainFlags::SHARE_CPUCAPACITY);
        if rounded == 0 && self.rules.small_capacity && threads { 1 } else { rounded }
    }
}

/// `update_sd_pick_busiest()`.
fn is_busier(sums: &DomainLoad<'_>, load: &GroupLoad) -> bool {
    let most = sums.busiest.map_or(0, |(_, busiest)| busiest.avg_load);
    load.avg_load > most && (load.sum_nr_running > load.capacity || load.imbalanced)
}

//! Sums of run queues that are kept from one balancing to the next, so that balancing between cores,
//! clusters and caches looks only at CPUs that changed meanwhile, and lists of the CPUs of other
//! groups.

use super::topology::{Domain, DomainFlags, Domains, Membership};
use super::view::CpuState;
use schedlab_machine::{CpuId, CpuSet};

/// What balancing adds up over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSums {
    /// Load.
    pub load: u64,
    /// Utilisation.
    pub util: u64,
    /// Runnable averages.
    pub runnable: u64,
    /// Fair tasks.
    pub h_nr_queued: u32,
    /// Tasks.
    pub nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs with more than one task.
    pub overloaded_cpus: u32,
}

impl CpuSums {
    /// One CPU's part.
    #[inline]
    pub fn of(state: &CpuState) -> CpuSums {
        CpuSums {
            load: state.load,
            util: state.cfs_util(),
            runnable: state.runnable,
            h_nr_queued: state.h_nr_queued,
            nr_running: state.nr_running,
            idle_cpus: u32::from(state.is_idle()),
            overloaded_cpus: u32::from(state.nr_running > 1),
        }
    }

    /// Adds a part.
    #[inline]
    pub fn add(&mut self, part: &CpuSums) {
        self.load = self.load.wrapping_add(part.load);
        self.util = self.util.wrapping_add(part.util);
        self.runnable = self.runnable.wrapping_add(part.runnable);
        self.h_nr_queued = self.h_nr_queued.wrapping_add(part.h_nr_queued);
        self.nr_running = self.nr_running.wrapping_add(part.nr_running);
        self.idle_cpus = self.idle_cpus.wrapping_add(part.idle_cpus);
        self.overloaded_cpus = self.overloaded_cpus.wrapping_add(part.overloaded_cpus);
    }

    /// What has to be added to sums that `before` is a part of, to make `self` a part of them in its
    /// place. Parts may shrink, so this wraps, and so does adding it.
    #[inline]
    fn instead_of(&self, before: &CpuSums) -> CpuSums {
        CpuSums {
            load: self.load.wrapping_sub(before.load),
            util: self.util.wrapping_sub(before.util),
            runnable: self.runnable.wrapping_sub(before.runnable),
            h_nr_queued: self.h_nr_queued.wrapping_sub(before.h_nr_queued),
            nr_running: self.nr_running.wrapping_sub(before.nr_running),
            idle_cpus: self.idle_cpus.wrapping_sub(before.idle_cpus),
            overloaded_cpus: self.overloaded_cpus.wrapping_sub(before.overloaded_cpus),
        }
    }
}

/// What a group consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// One core, cluster or cache, by its domain.
    Domain(u32),
    /// Several.
    Domains(Box<[u32]>),
    /// One CPU of those that do not differ.
    Cpu(CpuId),
    /// CPUs, in order.
    Cpus(Box<[CpuId]>),
}

/// Domains within a cache that a CPU is in, at most: threads, cluster and cache. A wider stack
/// would do without sums.
const LEVELS_MAX: usize = 4;

/// No domain.
const NONE: u32 = u32::MAX;

/// The sums of each core, cluster and cache, and what each group consists of.
#[derive(Clone, Debug)]
pub struct Sums {
    /// By domain.
    domains: Vec<CpuSums>,
    /// Each CPU's part in them.
    cpus: Vec<CpuSums>,
    /// The domains that a CPU counts in; [`NONE`] behind the last one.
    of_cpu: Vec<[u32; LEVELS_MAX]>,
    /// By domain and group.
    parts: Vec<Vec<Parts>>,
    /// There is a group of such domains, so that their sums are worth keeping.
    kept: bool,
    /// CPUs do not differ, so that sums tell all that balancing asks for, but for what other classes
    /// take from single CPUs.
    plain: bool,
    /// They take something.
    reduced: bool,
}

impl Sums {
    /// Of run queues that are in this state. With `plain`, CPUs do not differ; else sums do not tell
    /// enough, and groups consist of CPUs.
    pub fn new(domains: &Domains, cpus: &[CpuState], plain: bool) -> Sums {
        let within_cache = |cpu: CpuId| {
            let stack = domains.stack(cpu).iter().map(|membership| membership.domain);
            let shares =
                |&domain: &u32| domains.domains[domain as usize].flags.has(DomainFlags::SHARE_LLC);
            stack.take_while(shares).take(LEVELS_MAX)
        };
        let of_cpu = |cpu: usize| {
            let mut places = [NONE; LEVELS_MAX];
            for (place, domain) in places.iter_mut().zip(within_cache(CpuId(cpu as u32))) {
                *place = domain;
            }
            places
        };
        // The widest domains of which the rest of a group is made, one after the other.
        let tiles = |span: &CpuSet| {
            let mut rest = *span;
            let mut tiles = Vec::new();
            while let Some(cpu) = rest.first() {
                let fits = |&domain: &u32| domains.domains[domain as usize].span.is_subset(&rest);
                let tile = within_cache(cpu).filter(fits).last()?;
                rest -= domains.domains[tile as usize].span;
                tiles.push(tile);
            }
            Some(tiles)
        };
        let parts_of = |span: &CpuSet| match tiles(span).filter(|_| plain) {
            Some(tiles) => match tiles[..] {
                [tile] => Parts::Domain(tile),
                _ => Parts::Domains(tiles.into()),
            },
            None => match span.first() {
                Some(cpu) if plain && span.weight() == 1 => Parts::Cpu(cpu),
                _ => Parts::Cpus(span.iter().collect()),
            },
        };
        let groups =
            |domain: &Domain| domain.groups.iter().map(|group| parts_of(&group.span)).collect();
        let parts: Vec<Vec<Parts>> = domains.domains.iter().map(groups).collect();
        let kept = parts
            .iter()
            .flatten()
            .any(|parts| matches!(parts, Parts::Domain(_) | Parts::Domains(_)));
        let mut sums = Sums {
            domains: vec![CpuSums::default(); domains.domains.len()],
            cpus: vec![CpuSums::default(); cpus.len()],
            of_cpu: (0..cpus.len()).map(of_cpu).collect(),
            parts,
            kept,
            plain,
            reduced: false,
        };
        for (index, state) in cpus.iter().enumerate() {
            sums.update(CpuId(index as u32), state);
        }
        sums
    }

    /// Sums are kept: who reads them calls [`Sums::update`] for run queues that changed.
    #[inline]
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// CPUs do not differ.
    #[inline]
    pub fn plain(&self) -> bool {
        self.plain
    }

    /// The sums of a group tell all that balancing asks of it: nothing but fair tasks takes capacity
    /// from CPUs, which do not differ.
    #[inline]
    pub fn suffice(&self) -> bool {
        self.plain && !self.reduced
    }

    /// From now on, tasks of other classes take capacity from CPUs.
    pub fn expect_reduced(&mut self) {
        self.reduced = true;
    }

    /// The sums of a group.
    #[inline]
    pub fn of(&self, parts: &Parts, cpus: &[CpuState]) -> CpuSums {
        match parts {
            Parts::Domain(domain) => *self.domain(*domain),
            Parts::Domains(domains) => {
                added(domains.iter().map(|&domain| self.domains[domain as usize]))
            }
            Parts::Cpu(cpu) => CpuSums::of(&cpus[cpu.index()]),
            Parts::Cpus(group) => added(group.iter().map(|&cpu| CpuSums::of(&cpus[cpu.index()]))),
        }
    }

    /// The sums of a core, cluster or cache that a group consists of.
    #[inline]
    pub fn domain(&self, domain: u32) -> &CpuSums {
        &self.domains[domain as usize]
    }

    /// A CPU is in this state now.
    #[inline]
    pub fn update(&mut self, cpu: CpuId, state: &CpuState) {
        let now = CpuSums::of(state);
        let change = now.instead_of(&std::mem::replace(&mut self.cpus[cpu.index()], now));
        for &domain in &self.of_cpu[cpu.index()] {
            let Some(sums) = self.domains.get_mut(domain as usize) else { break };
            sums.add(&change);
        }
    }

    /// What each group of a domain consists of.
    #[inline]
    pub fn parts(&self, domain: u32) -> &[Parts] {
        &self.parts[domain as usize]
    }

    /// The same in ring order, the own group of a CPU first.
    pub fn ring(&self, membership: Membership) -> impl Iterator<Item = &Parts> {
        let (before, from) =
            self.parts(membership.domain).split_at(membership.first_group as usize);
        from.iter().chain(before)
    }

    /// The sums of a core, cluster or cache, by its domain; `None` for wider ones, which have none,
    /// and if no sums are kept.
    pub fn known(&self, domains: &Domains, domain: u32) -> Option<&CpuSums> {
        if !self.kept {
            return None;
        }
        let cpu = domains.domains[domain as usize].span.first()?;
        self.of_cpu[cpu.index()].contains(&domain).then(|| &self.domains[domain as usize])
    }
}

/// The sum of parts, of which most groups have but one.
#[inline]
fn added(mut parts: impl Iterator<Item = CpuSums>) -> CpuSums {
    let mut sums = parts.next().unwrap_or_default();
    parts.for_each(|part| sums.add(&part));
    sums
}

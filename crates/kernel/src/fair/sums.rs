//! Sums of run queues that are kept as they change, so that balancing between caches need not
//! look at every CPU, and lists of the CPUs of small groups.

use super::topology::Domains;
use super::view::CpuState;
use schedlab_machine::CpuId;

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
        self.load += part.load;
        self.util += part.util;
        self.runnable += part.runnable;
        self.h_nr_queued += part.h_nr_queued;
        self.nr_running += part.nr_running;
        self.idle_cpus += part.idle_cpus;
        self.overloaded_cpus += part.overloaded_cpus;
    }

    /// Takes a part out that was added.
    #[inline]
    pub fn subtract(&mut self, part: &CpuSums) {
        self.load -= part.load;
        self.util -= part.util;
        self.runnable -= part.runnable;
        self.h_nr_queued -= part.h_nr_queued;
        self.nr_running -= part.nr_running;
        self.idle_cpus -= part.idle_cpus;
        self.overloaded_cpus -= part.overloaded_cpus;
    }
}

/// What a group consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Whole caches, by their lowest CPUs.
    Caches(Box<[CpuId]>),
    /// CPUs, in order.
    Cpus(Box<[CpuId]>),
}

/// The sums of each cache, and what each group consists of.
#[derive(Clone, Debug)]
pub struct Sums {
    /// By the lowest CPU of a cache.
    caches: Vec<CpuSums>,
    /// By domain and group.
    parts: Vec<Vec<Parts>>,
    /// There is a group of caches, so that their sums are worth keeping.
    kept: bool,
}

impl Sums {
    /// Of run queues that are in this state. With `plain`, CPUs do not differ and nothing but fair
    /// tasks takes capacity from them; else sums do not tell enough, and groups consist of CPUs.
    pub fn new(domains: &Domains, cpus: &[CpuState], plain: bool) -> Sums {
        let parts_of = |span: &schedlab_machine::CpuSet| {
            let caches: Vec<CpuId> =
                span.iter().filter(|&cpu| domains.llc_id(cpu) == cpu).collect();
            let whole = |&cache: &CpuId| {
                let llc = domains.llc(cache).map(|llc| &domains.get(llc).span);
                llc.is_some_and(|llc| llc.is_subset(span))
            };
            let covered: usize = caches.iter().map(|&cache| domains.llc_size(cache) as usize).sum();
            if plain && covered == span.weight() && caches.iter().all(whole) {
                Parts::Caches(caches.into())
            } else {
                Parts::Cpus(span.iter().collect())
            }
        };
        let groups = |domain: &super::topology::Domain| {
            domain.groups.iter().map(|group| parts_of(&group.span)).collect()
        };
        let parts: Vec<Vec<Parts>> = domains.domains.iter().map(groups).collect();
        let kept = parts.iter().flatten().any(|parts| matches!(parts, Parts::Caches(_)));
        let mut caches = vec![CpuSums::default(); cpus.len()];
        for (index, state) in cpus.iter().enumerate() {
            caches[domains.llc_id(CpuId(index as u32)).index()].add(&CpuSums::of(state));
        }
        Sums { caches, parts, kept }
    }

    /// Sums are kept: who changes a run queue calls [`Sums::change`].
    #[inline]
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// A CPU of `cache` changed.
    #[inline]
    pub fn change(&mut self, cache: CpuId, before: &CpuSums, after: &CpuSums) {
        let sums = &mut self.caches[cache.index()];
        sums.subtract(before);
        sums.add(after);
    }

    /// What a group consists of.
    #[inline]
    pub fn parts(&self, domain: u32, group: usize) -> &Parts {
        &self.parts[domain as usize][group]
    }

    /// The sums of a cache.
    #[inline]
    pub fn cache(&self, cache: CpuId) -> &CpuSums {
        &self.caches[cache.index()]
    }
}

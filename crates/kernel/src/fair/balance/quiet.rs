//! Domains in which nothing waits, told without a look at their groups: on machines whose tasks are
//! mostly of other classes, or asleep, that is what most attempts find.

use super::Balance;
use crate::fair::sums::Sums;
use crate::fair::topology::{DomainFlags, Group};

/// What an attempt leaves behind although there is nothing to pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Some CPU has more than one task ([`DomainStats::overloaded`](super::DomainStats)).
    pub overloaded: bool,
    /// CPUs at which a wake-up may look from now on
    /// ([`DomainStats::nr_idle_scan`](super::DomainStats)).
    pub nr_idle_scan: Option<u32>,
}

impl Balance<'_> {
    /// What [`Balance::domain_stats`] and [`Balance::imbalance`] would come to, if it is plain that
    /// they find nothing to pull: no group but the own one has fair tasks, or each is a CPU with one
    /// task at most, and nothing else takes capacity from those. `None` if that is not so,
    /// or if they look for more, since CPUs differ, energy counts, or not all CPUs take part.
    pub fn quiet(&self) -> Option<Quiet> {
        let domain = self.domain();
        let membership = self.domains.stack(self.dst_cpu)[self.level];
        let (queued, loaded) = (&self.census.queued, &self.census.loaded);
        // Groups that overlap may hold tasks of the own one, and need not be all of the domain.
        let (calm, overloaded) = if domain.flags.has(DomainFlags::OVERLAP) {
            let own = |group: &Group| group.span.contains(self.dst_cpu);
            let mut groups = domain.groups.iter();
            let calm = groups.all(|group| own(group) || !group.span.intersects(queued));
            (calm, calm && domain.groups.iter().any(|group| group.span.intersects(loaded)))
        } else {
            let home = self.domains.ring(membership).next()?;
            // One task is pulled from no CPU that is a group by itself.
            let single = self.level == 0
                && home.weight == 1
                && !domain.flags.has(DomainFlags::ASYM_PACKING)
                && self.sums.is_some_and(Sums::suffice);
            let waiting = if single { loaded } else { queued };
            let calm = !waiting.intersects_beyond(&domain.span, &home.span);
            (calm && home.span.contains(self.dst_cpu), domain.span.intersects(loaded))
        };
        let quiet = calm && !self.asymmetric() && !self.energy_aware && self.everyone(domain);
        quiet.then(|| Quiet {
            overloaded,
            nr_idle_scan: self.nr_idle_scan(domain, || {
                let known = self.sums.and_then(|sums| sums.known(self.domains, membership.domain));
                let utils = domain.span.iter().map(|cpu| self.state(cpu).cfs_util());
                known.map_or_else(|| utils.sum(), |sums| sums.util)
            }),
        })
    }
}

//! From which group and run queue to pull (`find_busiest_group()`, `find_busiest_queue()`).

use super::stats::Search;
use super::{LOAD_SCALE, power_of};
use crate::fair::topology::Group;
use schedlab_machine::CpuId;

/// What a look at the domain's groups comes to.
#[derive(Clone, Copy, Debug)]
pub enum Busiest<'a> {
    /// Another CPU of the own group balances here and above.
    NotOurs,
    /// Nothing is to be moved.
    Balanced,
    /// So much load is to be moved from this group.
    Group(&'a Group, u64),
}

impl<'a> Search<'a> {
    /// The busiest group and how much to pull from it, or, if tasks are to be packed, the group that
    /// is easiest to empty. `sd_idle` is cleared if a CPU of the domain has work.
    pub fn find_busiest_group(&self, sd_idle: &mut bool) -> Busiest<'a> {
        let Some(sums) = self.domain_load(sd_idle) else { return Busiest::NotOurs };
        if let Some((group, busiest)) = sums.busiest
            && busiest.sum_nr_running > 0
        {
            let this_load = sums.this.1.avg_load;
            let avg_load = LOAD_SCALE * sums.total_load / sums.total_power.max(1);
            let pct = u64::from(self.domain().imbalance_pct);
            if this_load < busiest.avg_load
                && this_load < avg_load
                && 100 * busiest.avg_load > pct * this_load
            {
                return Busiest::Group(group, self.amount(&sums));
            }
        }
        match sums.savings.empties(sums.this.0) {
            Some((group, load)) => Busiest::Group(group, load),
            None => Busiest::Balanced,
        }
    }

    /// The run queue of `group` with the most load in relation to its power, but not one whose only
    /// task is more than what is to be moved.
    /// If the group is being emptied, that does not matter.
    pub fn find_busiest_queue(&self, group: &Group, amount: u64, empties: bool) -> Option<CpuId> {
        let mut busiest = None;
        let mut most = 0;
        for at in (group.span & *self.candidates).iter() {
            let cpu = self.cpu(at);
            let power = power_of(self.domains, at);
            let room = self.tasks_for(power);
            if !empties && room > 0 && cpu.nr_running == 1 && cpu.weight > amount {
                continue;
            }
            let load = cpu.weight * LOAD_SCALE / power.max(1);
            if load > most {
                (most, busiest) = (load, Some(at));
            }
        }
        busiest
    }
}

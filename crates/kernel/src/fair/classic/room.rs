//! The busiest group as 3.9 finds it: still by load weights, but room counts, too. A CPU that is about
//! to idle takes from a group without room if its own has some (v2.6.37, fab476228ba3), idle CPUs go
//! by how many of each group idle (v2.6.37, aae6d3ddd8b9), packages are filled one by one only if the
//! own one has room (v2.6.37, 75dd321d79d4), and threads of a core may be packed on the lower ones
//! (v2.6.36, 532cb4c401e2). Power-aware scheduling decides before all of that what balancing is for.

use super::stats::{DomainLoad, GroupLoad, Search};
use super::{LOAD_SCALE, busiest::Busiest};
use crate::fair::balance::CpuIdle;
use crate::fair::power_aware::balance::{Aim, LazyHistory, Moment, PowerStats};
use crate::fair::power_aware::{PowerPolicy, PowerRules};
use crate::fair::topology::{DomainFlags, Group};
use schedlab_machine::CpuId;

/// What is known of a group beside its loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    load: GroupLoad,
    idle_cpus: u32,
    /// Utilisation as power-aware scheduling tells it.
    util: u64,
}

impl Room {
    fn has_room(&self) -> bool {
        self.load.capacity > self.load.sum_nr_running
    }
}

/// A group chosen so far.
#[derive(Clone, Copy, Debug)]
struct Chosen<'a> {
    group: &'a Group,
    room: Room,
}

/// What one attempt in a domain comes to.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The group and how much.
    pub busiest: Busiest<'a>,
    /// A group is being emptied: any of its tasks may go, and CPUs with one task give it.
    pub empties: bool,
}

impl<'a> Search<'a> {
    /// The group to pull from (`find_busiest_group()` of 3.9).
    pub fn find_busiest_by_room(&self, history: &mut LazyHistory, moment: &Moment) -> Found<'a> {
        let found = |busiest| Found { busiest, empties: false };
        let domain = self.domain();
        let membership = self.domains.stack(self.this_cpu)[self.level];
        let below = self.level.checked_sub(1);
        let below = below.map(|below| self.domains.get(self.domains.stack(self.this_cpu)[below]));
        let prefer_sibling = below.is_some_and(|b| b.flags.has(DomainFlags::PREFER_SIBLING));
        let mut power = self.rules.power.map(|rules| PowerStats::new(rules, domain, self.idle));
        let (mut own, mut busiest): (Option<Chosen<'_>>, Option<Chosen<'_>>) = (None, None);
        let (mut total_load, mut total_power) = (0, 0);
        // The ring begins with the own group.
        for group in self.domains.ring(membership) {
            let local = group.span.contains(self.this_cpu);
            let Some(mut room) = self.room_of(group, local) else { return found(Busiest::NotOurs) };
            total_load += room.load.group_load;
            total_power += group.capacity;
            let spreads = power.is_none_or(|power| power.aim() == Aim::Performance);
            let own_room = own.is_some_and(|own| own.room.has_room());
            if prefer_sibling && !local && own_room && spreads {
                room.load.capacity = room.load.capacity.min(1);
            }
            if local {
                own = Some(Chosen { group, room });
            } else if self.is_busier_by_room(busiest, group, &room) {
                busiest = Some(Chosen { group, room });
            }
            if let Some(power) = &mut power {
                let GroupLoad { sum_nr_running, sum_weighted_load, .. } = room.load;
                power.add(group, local, room.util, sum_nr_running, sum_weighted_load);
            }
        }
        let Some(own) = own else { return found(Busiest::NotOurs) };
        if let Some(power) = power {
            let empties = power.empties(own.group, history, moment);
            if power.aim() != Aim::Performance {
                let group = empties
                    .map_or(Busiest::Balanced, |(group, load)| Busiest::Group(group, load.max(1)));
                return Found { busiest: group, empties: empties.is_some() };
            }
        }
        let Some(busiest) = busiest else { return found(Busiest::Balanced) };
        if let Some(amount) = self.asym_amount(&busiest) {
            return found(Busiest::Group(busiest.group, amount));
        }
        if busiest.room.load.sum_nr_running == 0 {
            return found(Busiest::Balanced);
        }
        let avg_load = LOAD_SCALE * total_load / total_power.max(1);
        if !self.is_out_of_balance(&own, &busiest, avg_load) {
            return found(Busiest::Balanced);
        }
        let sums = DomainLoad::of(
            (busiest.group, busiest.room.load),
            (own.group, own.room.load),
            (total_load, total_power),
        );
        found(Busiest::Group(busiest.group, self.amount(&sums)))
    }

    /// `update_sg_lb_stats()` of 3.9; `None` if another CPU of the own group balances.
    fn room_of(&self, group: &Group, local: bool) -> Option<Room> {
        let indices = super::load_indices(self.domain().name);
        let index = match self.idle {
            CpuIdle::Busy => indices.busy,
            CpuIdle::Idle => indices.idle,
            CpuIdle::NewlyIdle => indices.newidle,
        };
        let mut room = Room::default();
        let mut balancer = group.balance_mask.first();
        let mut idle_found = false;
        let (mut most, mut least) = (0, u64::MAX);
        let (mut most_running, mut least_running) = (0, u32::MAX);
        let power: Option<PowerRules> =
            self.rules.power.filter(|rules| rules.policy != PowerPolicy::Performance);
        for at in (group.span & *self.candidates).iter() {
            let cpu = self.cpu(at);
            let load = if local {
                if cpu.idle && !idle_found && group.balance_mask.contains(at) {
                    (idle_found, balancer) = (true, Some(at));
                }
                cpu.target_load(index)
            } else {
                let load = cpu.source_load(index);
                (most, least) = (load.max(most), load.min(least));
                most_running = most_running.max(cpu.nr_running);
                least_running = least_running.min(cpu.nr_running);
                load
            };
            let sums = &mut room.load;
            sums.group_load += load;
            sums.sum_nr_running += u64::from(cpu.nr_running);
            sums.sum_weighted_load += cpu.weight;
            room.idle_cpus += u32::from(cpu.idle);
            room.util += power.map_or(0, |rules| rules.max_util(cpu, false));
        }
        if local && self.idle != CpuIdle::NewlyIdle && balancer != Some(self.this_cpu) {
            return None;
        }
        let sums = &mut room.load;
        sums.avg_load = sums.group_load * LOAD_SCALE / group.capacity.max(1);
        let per_task = sums.sum_weighted_load.checked_div(sums.sum_nr_running).unwrap_or(0);
        sums.imbalanced = !local
            && most.saturating_sub(least) >= per_task
            && most_running.saturating_sub(least_running) > 1;
        sums.capacity = self.tasks_for(group.capacity);
        Some(room)
    }

    /// `update_sd_pick_busiest()` of 3.9.
    fn is_busier_by_room(&self, busiest: Option<Chosen<'_>>, group: &Group, room: &Room) -> bool {
        let load = &room.load;
        if load.avg_load <= busiest.map_or(0, |busiest| busiest.room.load.avg_load) {
            return false;
        }
        let first = |group: &Group| group.span.first();
        let packs = self.packs_threads() && load.sum_nr_running > 0;
        load.sum_nr_running > load.capacity
            || load.imbalanced
            || (packs
                && Some(self.this_cpu) < first(group)
                && busiest.is_none_or(|busiest| first(busiest.group) > first(group)))
    }

    fn packs_threads(&self) -> bool {
        self.domain().flags.has(DomainFlags::ASYM_PACKING)
    }

    /// All of the load of a higher thread, if threads are packed and this CPU idles
    /// (`check_asym_packing()`).
    fn asym_amount(&self, busiest: &Chosen<'_>) -> Option<u64> {
        let lower = busiest.group.span.first().is_none_or(|first| self.this_cpu <= first);
        let all = busiest.room.load.avg_load * busiest.group.capacity;
        (self.idle.is_idle() && self.packs_threads() && lower)
            .then_some((all + LOAD_SCALE / 2) / LOAD_SCALE)
    }

    fn is_out_of_balance(&self, own: &Chosen<'_>, busiest: &Chosen<'_>, avg_load: u64) -> bool {
        let (this, that) = (&own.room.load, &busiest.room.load);
        if that.imbalanced {
            return true;
        }
        if self.idle == CpuIdle::NewlyIdle && own.room.has_room() && !busiest.room.has_room() {
            return true;
        }
        if this.avg_load >= that.avg_load || this.avg_load >= avg_load {
            return false;
        }
        if self.idle == CpuIdle::Idle {
            let spread = own.room.idle_cpus <= busiest.room.idle_cpus + 1;
            return !(spread && that.sum_nr_running <= u64::from(busiest.group.weight));
        }
        100 * that.avg_load > u64::from(self.domain().imbalance_pct) * this.avg_load
    }

    /// `need_active_balance()` of 3.9, but for the number of failures: a thread that is about to idle
    /// takes over from a higher one at once.
    pub fn packs_actively(&self, src_cpu: CpuId) -> bool {
        self.idle == CpuIdle::NewlyIdle && self.packs_threads() && src_cpu > self.this_cpu
    }
}

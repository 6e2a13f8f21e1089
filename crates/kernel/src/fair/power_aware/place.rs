//! Packing at fork, exec and wake-up: the lowest domain with room, in it the group with least room to
//! spare, in that a CPU (`get_cpu_for_power_policy()`, `is_sd_full()`, `find_leader_cpu()`).

use super::{FULL_UTIL, PowerRules};
use crate::fair::classic::place::{Place, Placed};
use crate::fair::group::GroupStats;
use crate::fair::slow_path::{Candidate, CpuRule, GroupChoice, GroupRule};
use crate::fair::topology::{DomainFlags, Group, Membership};
use schedlab_machine::CpuId;

/// What a group has, and how much room is left in it.
#[derive(Clone, Copy, Debug)]
struct Leader<'a> {
    group: &'a Group,
    delta: u64,
}

impl Place<'_> {
    /// A CPU for the task in a domain of `this_cpu`; `None` if tasks are to be spread in it.
    /// `waking` if it wakes; a choice goes to `log`.
    pub(in crate::fair) fn pack(
        &self,
        membership: Membership,
        task: &Placed<'_>,
        this_cpu: CpuId,
        waking: bool,
        log: Option<&mut Vec<GroupChoice>>,
    ) -> Option<(CpuId, CpuRule)> {
        let rules = self.rules.power.filter(PowerRules::saves)?;
        let domain = self.domains.get(membership);
        let (mut used, mut room) = (0, 0);
        let mut leader: Option<Leader<'_>> = None;
        let mut candidates = log.is_some().then(Vec::new);
        for group in self.domains.ring(membership) {
            let group_util: u64 =
                group.span.iter().map(|cpu| rules.max_util(self.cpu(cpu), waking)).sum();
            let most = rules.room(group, domain.flags);
            let delta = most.saturating_sub(group_util);
            if delta > 0 && leader.is_none_or(|leader| delta < leader.delta) {
                leader = Some(Leader { group, delta });
            }
            used += group_util;
            room += most;
            if let Some(candidates) = &mut candidates {
                candidates.push(self.candidate(group, this_cpu, group_util, most));
            }
        }
        if used + task.util >= room {
            return None;
        }
        let group = leader?.group;
        let threads = domain.flags.has(DomainFlags::SHARE_CPUCAPACITY);
        let packs = waking && !threads && rules.small_tasks;
        let small = packs.then(|| self.leader_cpu(&rules, group, task, this_cpu)).flatten();
        let found = match small {
            Some(cpu) => Some((cpu, CpuRule::SmallTask)),
            None => self.idlest_cpu(group, task, this_cpu).map(|cpu| (cpu, CpuRule::Load)),
        };
        if let (Some(log), Some(candidates), Some(picked)) = (log, candidates, found) {
            let stack = self.domains.stack(this_cpu).iter();
            log.push(GroupChoice {
                level: stack.take_while(|&&below| below != membership).count() as u32,
                from: this_cpu,
                chosen: group.span.first(),
                rule: GroupRule::LeastRoom,
                tie: None,
                picked: Some(picked),
                candidates,
            });
        }
        found
    }

    /// For a task that uses less than a quarter of what a CPU has left: this one, or the one of
    /// `group` with least left.
    fn leader_cpu(
        &self,
        rules: &PowerRules,
        group: &Group,
        task: &Placed<'_>,
        this_cpu: CpuId,
    ) -> Option<CpuId> {
        let left = |cpu: CpuId| {
            let used = rules.max_util(self.cpu(cpu), true) + 4 * task.util;
            FULL_UTIL.checked_sub(used).filter(|&left| left > 0)
        };
        // This one need not be of the group.
        if task.allowed.contains(this_cpu) && left(this_cpu).is_some() {
            return Some(this_cpu);
        }
        let others = (group.span & *task.allowed).into_iter().filter(|&cpu| cpu != this_cpu);
        let with_room = others.filter_map(|cpu| left(cpu).map(|left| (left, cpu)));
        with_room.min_by_key(|&(left, _)| left).map(|(_, cpu)| cpu)
    }

    fn candidate(&self, group: &Group, this_cpu: CpuId, util: u64, room: u64) -> Candidate {
        let stats = GroupStats {
            util,
            capacity: room,
            sum_nr_running: group.span.iter().map(|cpu| self.cpu(cpu).nr_running).sum(),
            weight: group.weight,
            ..GroupStats::EMPTY
        };
        Candidate {
            first_cpu: group.span.first().unwrap_or_default(),
            local: group.span.contains(this_cpu),
            by_load: true,
            stats,
        }
    }
}

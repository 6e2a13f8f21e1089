//! A kernel's settings as names and values, for people to read and compare.

use super::Kernel;
use crate::cpuidle::{GovernorParameters, LATENCY_UNLIMITED_NS};
use crate::fair::classic::ClassicRules;
use crate::fair::energy::EnergyRelease;
use crate::fair::nohz::NohzRules;
use crate::fair::queue::FairRules;
use crate::sched::TtwuQueue;

impl Kernel {
    /// Every setting by its name in files, in their order. With a number of CPUs, times are scaled
    /// to it as the kernel scales them.
    pub fn settings(&self, cpus: Option<usize>) -> Vec<(&'static str, String)> {
        let fair = cpus.map_or(self.fair, |cpus| self.config(cpus).fair);
        let mut settings = vec![("tick.hz", self.hz.to_string())];
        match fair {
            FairRules::Cfs(cfs) => settings.extend([
                ("fair", "cfs".to_owned()),
                ("fair.cfs.latency_ns", cfs.latency_ns.to_string()),
                ("fair.cfs.min_granularity_ns", cfs.min_granularity_ns.to_string()),
                ("fair.cfs.wakeup_granularity_ns", cfs.wakeup_granularity_ns.to_string()),
                ("fair.cfs.idle_min_granularity_ns", cfs.idle_min_granularity_ns.to_string()),
                ("fair.cfs.base_slice", cfs.base_slice.to_string()),
                ("fair.cfs.idle_sleeper_credit", cfs.idle_sleeper_credit.to_string()),
                ("fair.cfs.pick_clears_buddies", cfs.pick_clears_buddies.to_string()),
                ("fair.cfs.preemptor_is_next", cfs.preemptor_is_next.to_string()),
                ("fair.cfs.yield_skips", cfs.yield_skips.to_string()),
            ]),
            FairRules::Eevdf(eevdf) => settings.extend([
                ("fair", "eevdf".to_owned()),
                ("fair.eevdf.base_slice_ns", eevdf.base_slice_ns.to_string()),
            ]),
        }
        match self.classic {
            Some(classic) => classic_settings(&classic, self.ttwu_queue, &mut settings),
            None => settings.extend(self.tracking_settings()),
        }
        settings.extend([
            ("rt.pull", kebab(&self.rt.pull)),
            ("rt.choice", kebab(&self.rt.choice)),
            ("rt.migrate_disable", self.rt.migrate_disable.to_string()),
            ("rt.limit", kebab(&self.rt.limit)),
            ("rt.priority_map", self.rt.priority_map.name().to_owned()),
            ("nohz.variant", self.nohz.name().to_owned()),
        ]);
        if let NohzRules::Push { stale_kick } = self.nohz {
            settings.push(("nohz.stale_kick", stale_kick.to_string()));
        }
        if let NohzRules::PushByDomain { rcu_ticks } = self.nohz {
            settings.push(("nohz.rcu_ticks", rcu_ticks.to_string()));
        }
        if self.classic.is_none() {
            let domains = &self.domains;
            settings.extend([
                ("domains.clusters", domains.clusters.to_string()),
                ("domains.imbalance_pct", domains.imbalance_pct.to_string()),
                ("domains.busy_factor", domains.busy_factor.to_string()),
                ("domains.groups_within_domain", domains.groups_within_domain.to_string()),
                ("domains.uniform_remote_distance", domains.uniform_remote_distance.to_string()),
            ]);
        }
        settings.push(("cpuidle.governor", self.governor.to_string()));
        let (own, usual) = (self.governor_parameters, GovernorParameters::default());
        if own.utilization_shift != usual.utilization_shift {
            settings.push(("cpuidle.utilization_shift", own.utilization_shift.to_string()));
        }
        if own.haltpoll != usual.haltpoll {
            settings.push(("cpuidle.halt_poll_ns", own.haltpoll.halt_poll_ns.to_string()));
            let start_ns = own.haltpoll.grow_start_ns.to_string();
            settings.push(("cpuidle.halt_poll_grow_start_ns", start_ns));
        }
        if self.cpu_latency_ns != LATENCY_UNLIMITED_NS {
            let limit_us = (self.cpu_latency_ns / 1_000).to_string();
            settings.push(("cpuidle.cpu_latency_us", limit_us));
        }
        if let Some(governor) = self.cpufreq.governor {
            settings.push(("cpufreq.governor", governor.to_string()));
        }
        if let Some(release) = self.cpufreq.schedutil {
            settings.push(("cpufreq.schedutil", release.name().to_owned()));
        }
        if let Some(limit_ns) = self.cpufreq.rate_limit_ns {
            settings.push(("cpufreq.rate_limit_us", (limit_ns / 1_000).to_string()));
        }
        settings
    }

    fn tracking_settings(&self) -> [(&'static str, String); 15] {
        let (placement, wake, balance) = (&self.placement, &self.wake, &self.balance);
        [
            ("placement.idlest_tie", kebab(&placement.idlest_tie)),
            ("placement.numa_allowance", kebab(&placement.numa_allowance)),
            ("wake.search", kebab(&wake.search)),
            ("wake.clusters", wake.clusters.to_string()),
            ("wake.idle_prev_is_target", wake.idle_prev_is_target.to_string()),
            ("wake.recent_used", kebab(&wake.recent_used)),
            ("wake.ttwu_queue", kebab(&self.ttwu_queue)),
            ("wake.energy", wake.energy.map_or("none", EnergyRelease::name).to_owned()),
            ("balance.mode", kebab(&balance.mode)),
            ("balance.numa_imbalance", kebab(&balance.numa_imbalance)),
            ("balance.smt_groups", balance.smt_groups.to_string()),
            ("balance.boosted_util", balance.boosted_util.to_string()),
            ("balance.detach", kebab(&balance.detach)),
            ("balance.newidle_needs_idle_time", balance.newidle_needs_idle_time.to_string()),
            ("balance.newidle_random", balance.newidle_random.to_string()),
        ]
    }
}

fn classic_settings(
    classic: &ClassicRules,
    ttwu_queue: TtwuQueue,
    settings: &mut Vec<(&'static str, String)>,
) {
    settings.extend([
        ("classic.mode", kebab(&classic.mode)),
        ("classic.missed_ticks_decay", classic.missed_ticks_decay.to_string()),
        ("classic.affine_by_power", classic.affine_by_power.to_string()),
        ("classic.small_capacity", classic.small_capacity.to_string()),
        ("classic.newidle_counts", classic.newidle_counts.to_string()),
    ]);
    match classic.v3_9 {
        None => settings.extend([
            ("classic.mc_power_savings", classic.mc_power_savings.to_string()),
            ("classic.smt_power_savings", classic.smt_power_savings.to_string()),
        ]),
        Some(v3_9) => settings.extend([
            ("classic.v3_9.ttwu_queue", kebab(&ttwu_queue)),
            ("classic.v3_9.smt_asym_packing", v3_9.smt_asym_packing.to_string()),
            ("classic.v3_9.reclaim_distance", v3_9.reclaim_distance.to_string()),
            ("classic.v3_9.smt_gain", v3_9.smt_gain.to_string()),
        ]),
    }
    if let Some(power) = classic.power {
        settings.extend([
            ("classic.power.policy", kebab(&power.policy)),
            ("classic.power.threshold", kebab(&power.threshold)),
            ("classic.power.utilisation", kebab(&power.utilisation)),
            ("classic.power.burst_threshold_ns", power.burst_threshold_ns.to_string()),
            ("classic.power.thread_is_room", power.thread_is_room.to_string()),
            ("classic.power.small_tasks", power.small_tasks.to_string()),
            ("classic.power.lazy", power.lazy.to_string()),
        ]);
    }
}

/// A variant's name as files write it: `GroupUtil` is `group-util`.
fn kebab(variant: &impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

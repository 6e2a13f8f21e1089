//! Drives load balancing by the commands of the `balance` and `nohz` vectors.

use super::fair_state::{State, mask, number};
use schedlab_kernel::fair::balance::{
    Balance, BalanceRules, CpuIdle, Migration, Quiet, SourceKind,
};
use schedlab_kernel::fair::capacity::update_group_capacity;
use schedlab_kernel::fair::census::Census;
use schedlab_kernel::fair::nohz::{Kick, KickFlags, Nohz};
use schedlab_machine::{CpuId, CpuSet};

/// Ticks a second of the recorder.
const HZ: u64 = 250;

/// `max_load_balance_interval` of the recorder, jiffies.
const INTERVAL_MAX: u64 = HZ / 10;

/// A machine's state.
pub struct Driver {
    state: State,
}

fn first(span: Option<&CpuSet>) -> i64 {
    span.and_then(CpuSet::first).map_or(-1, |cpu| i64::from(cpu.0))
}

impl Driver {
    /// Before the first line.
    pub fn new() -> Driver {
        Driver { state: State::new(0) }
    }

    /// Carries out one line; what it prints, if it prints.
    pub fn command(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        if self.state.set(&words) {
            return None;
        }
        match words[0] {
            "B" => Some(self.balance(&words[1..])),
            "K" => Some(self.kick(&words[1..])),
            _ => panic!("unknown command {line}"),
        }
    }

    fn balance(&mut self, words: &[&str]) -> String {
        let dst_cpu = CpuId(number(words[0]));
        let level: usize = number(words[1]);
        let idle = match words[2] {
            "0" => CpuIdle::Busy,
            "1" => CpuIdle::Idle,
            _ => CpuIdle::NewlyIdle,
        };
        let State { domains, cpus, llcs, .. } = &mut self.state;
        let membership = domains.stack(dst_cpu)[level];
        // A command changes no group; the recorder kept the CPU's own capacity, though.
        let saved = domains.clone();
        let mut next_update = 1;
        if idle != CpuIdle::NewlyIdle || words[4] != "0" {
            update_group_capacity(domains, cpus, dst_cpu, level);
            let interval_ms = u64::from(domains.get(membership).balance_interval_ms);
            next_update = (interval_ms * HZ).div_ceil(1000).clamp(1, INTERVAL_MAX);
        }
        let domain = domains.get(membership);
        let candidates = mask(words[3]) & domain.span;
        let balance = Balance {
            domains,
            cpus,
            census: &Census::of(domains, cpus),
            dst_cpu,
            level,
            idle,
            candidates: &candidates,
            rules: BalanceRules::V6_12,
            sums: None,
            energy_aware: false,
        };
        let mut stats = balance.domain_stats();
        let found = balance.imbalance(&mut stats);
        let busiest = stats.busiest;
        let source = found
            .ok()
            .zip(busiest)
            .and_then(|(found, (group, _))| balance.source(group, found, stats.source_kind));
        if let Some(quiet) = balance.quiet() {
            // The short way to nothing comes to the same.
            let Quiet { overloaded, nr_idle_scan } = quiet;
            assert_eq!((overloaded, nr_idle_scan), (stats.overloaded, stats.nr_idle_scan));
            assert_eq!((found, busiest.is_some()), (Err(Migration::default()), false));
        }
        let migration = found.map_or_else(|migration| migration, |found| found.migration);
        let group = found.ok().and(busiest).map(|(group, _)| &group.span);
        let migration = match migration {
            Migration::Load => 0,
            Migration::Util => 1,
            Migration::Task => 2,
            Migration::Misfit => 3,
        };
        let source_kind = match stats.source_kind {
            SourceKind::Regular => 0,
            SourceKind::Remote => 1,
            SourceKind::All => 2,
        };
        let nr_idle_scan = domains.llc(dst_cpu).map_or(-1, |_| {
            let hint = llcs[domains.llc_id(dst_cpu).index()].nr_idle_scan;
            i64::from(stats.nr_idle_scan.unwrap_or(hint) as i32)
        });
        let is_root = level + 1 == domains.stack(dst_cpu).len();
        let overloaded = if is_root { i32::from(stats.overloaded) } else { -1 };
        let local = domains.ring(membership).next().expect("a group");
        let line = format!(
            "{} {} {migration} {source_kind} {} | {} {} {} {} {nr_idle_scan} {overloaded} | {} {} {} {next_update}",
            first(group),
            found.map_or(0, |found| found.amount),
            source.map_or(-1, |cpu| i64::from(cpu.0)),
            first(busiest.map(|(group, _)| &group.span)),
            busiest.map_or(-1, |(_, stats)| stats.group_type as i32),
            stats.local.map_or(-1, |(_, stats)| stats.group_type as i32),
            u8::from(stats.prefer_sibling),
            local.capacity,
            local.min_capacity,
            local.max_capacity,
        );
        *domains = saved;
        line
    }

    fn kick(&self, words: &[&str]) -> String {
        let State { domains, cpus, llcs, .. } = &self.state;
        let cpu = CpuId(number(words[0]));
        let jiffies: u64 = number(words[1]);
        let mut nohz = Nohz {
            next_balance: number(words[2]),
            has_blocked: words[3] != "0",
            next_blocked: number(words[4]),
            needs_update: words[5] != "0",
            idle_cpus: mask(words[8]),
        };
        let (idle_balance, tick_stopped) = (words[6] != "0", words[7] != "0");
        let housekeeping = mask(words[9]);
        let (flagged, flag_value): (CpuSet, u32) = (mask(words[10]), number(words[11]));
        let mut llcs = llcs.clone();
        let llc = domains.llc(cpu).map(|_| domains.llc_id(cpu).index());
        let mut flags = KickFlags::default();
        let mut nr_cpus = nohz.idle_cpus.weight() as i64;
        let mut ipi = None;
        if !idle_balance {
            if tick_stopped {
                nohz.idle_cpus.remove(cpu);
                nr_cpus -= 1;
                if let Some(llc) = llc {
                    llcs[llc].nr_busy_cpus += 1;
                }
            }
            let kick = Kick { domains, cpus, llcs: &llcs, housekeeping: &housekeeping };
            flags = kick.flags(cpu, &nohz, jiffies);
            if flags.has(KickFlags::BALANCE) {
                nohz.next_balance = jiffies.wrapping_add(1);
            }
            let pending = |target: &CpuId| if flagged.contains(*target) { flag_value } else { 0 };
            ipi = kick.target(cpu, &nohz).filter(|target| {
                flags != KickFlags::default()
                    && pending(target) & flags.0 != flags.0
                    && !KickFlags(pending(target)).has(KickFlags::KICKS)
            });
        }
        format!(
            "{} {} {} {nr_cpus} {} {}",
            flags.0,
            ipi.map_or(-1, |cpu| i64::from(cpu.0)),
            nohz.next_balance,
            nohz.idle_cpus.to_mask().replace(',', ""),
            llc.map_or(-1, |llc| i64::from(llcs[llc].nr_busy_cpus)),
        )
    }
}

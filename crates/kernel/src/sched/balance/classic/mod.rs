//! Classic load balancing at work: when it runs, whose tasks it moves, and what it remembers
//! (`rebalance_domains()`, `load_balance()`). The decisions are in [`crate::fair::classic`].
//!
//! Sources: `kernel/sched.c` of 2.6.32, `kernel/sched_fair.c` of 2.6.36.

mod newidle;
mod tasks;

use super::super::Scheduler;
use super::periodic::NOTHING_DUE_S;
use super::pull::PINNED_INTERVAL_MAX_MS;
use crate::fair::balance::{BalanceMode, CpuIdle};
use crate::fair::classic::busiest::Busiest;
use crate::fair::classic::stats::Search;
use crate::fair::classic::{ClassicRules, CpuView};
use crate::fair::nohz::after;
use crate::fair::topology::{Domain, DomainFlags};
use crate::hardware::{Hardware, Path};
use schedlab_machine::{CpuId, CpuSet};

/// What an attempt came to (`ld_moved`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// Nothing moved.
    Nothing,
    /// Nothing moved, and the CPU does not count as idle, since a thread of its core is busy.
    SiblingBusy,
    /// Tasks moved.
    Tasks,
}

/// One attempt under way.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    rules: ClassicRules,
    this_cpu: CpuId,
    level: usize,
    idle: CpuIdle,
    executing_cpu: CpuId,
    /// No CPU of the domain has work, as far as that matters.
    sd_idle: bool,
    /// An idle thread beside a busy one counts as busy.
    minds_siblings: bool,
    /// No task of the source was found that may run here.
    all_pinned: bool,
    /// The source's group is being emptied to save power.
    empties: bool,
}

impl Attempt {
    /// What it means that nothing moved.
    fn nothing(&self) -> Moved {
        if self.minds_siblings && !self.sd_idle { Moved::SiblingBusy } else { Moved::Nothing }
    }
}

impl Scheduler {
    /// What other CPUs see of `cpu`.
    pub(in super::super) fn publish_classic(&mut self, cpu: CpuId) {
        let v3_9 = self.config.classic.is_some_and(|rules| rules.v3_9.is_some());
        let state = &self.cpus[cpu.index()];
        let fair = &self.rqs[cpu.index()].fair;
        let view = CpuView {
            weight: fair.load_weight() >> 10,
            nr_running: state.nr_running,
            cfs_nr_running: fair.nr_running(),
            idle: if v3_9 { state.is_idle() } else { state.curr_is_idle },
            load: self.classic_cpus[cpu.index()].load,
            util: self.rqs[cpu.index()].runnable.queue_util(),
            rt_util: state.util_rt,
            avg_idle_ns: self.rqs[cpu.index()].avg_idle_ns,
        };
        self.classic_cpus[cpu.index()] = view;
    }

    /// The tick's first part: the smoothed loads (`update_cpu_load()`).
    pub(in super::super) fn update_classic_load(&mut self, cpu: CpuId, jiffies: u64) {
        let Some(rules) = self.config.classic else { return };
        let view = &mut self.classic_cpus[cpu.index()];
        if rules.missed_ticks_decay {
            view.load.tick_after(view.weight, jiffies);
        } else {
            view.load.tick(view.weight);
        }
    }

    /// Balances `cpu` in each of its domains that is due (`rebalance_domains()`).
    pub(super) fn rebalance_classic(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        idle: CpuIdle,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let far = hardware.jiffies() + NOTHING_DUE_S * u64::from(self.config.hz);
        let mut next_balance = far;
        let mut idle = idle;
        if rules.power.is_some() {
            self.update_clock(cpu, hardware);
            self.track_queue(cpu);
            self.publish(cpu);
        }
        for level in 0..self.domains.stack(cpu).len() {
            let domain = self.domains.get(self.domains.stack(cpu)[level]);
            let serial = domain.flags.has(DomainFlags::SERIALIZE);
            let mut ms = self.rqs[cpu.index()].balance.levels[level].interval_ms;
            if idle != CpuIdle::Idle {
                ms *= u64::from(domain.busy_factor);
            }
            let interval = self.jiffies_of_ms(ms).clamp(1, self.interval_max());
            let mut goes_on = true;
            // Of the widest domains, one at a time is balanced in the whole machine.
            if !serial || hardware.now_ns() >= self.serial_until_ns {
                let last = self.rqs[cpu.index()].balance.levels[level].last_balance;
                if !after(last + interval, hardware.jiffies()) {
                    let moved = self.load_balance(
                        rules,
                        cpu,
                        level,
                        idle,
                        executing_cpu,
                        &mut goes_on,
                        hardware,
                    );
                    if moved != Moved::Nothing {
                        idle = CpuIdle::Busy;
                    }
                    self.rqs[cpu.index()].balance.levels[level].last_balance = hardware.jiffies();
                }
                if serial {
                    self.serial_until_ns = hardware.now_ns();
                }
            }
            let last = self.rqs[cpu.index()].balance.levels[level].last_balance;
            next_balance = next_balance.min(last + interval);
            if !goes_on {
                break;
            }
        }
        if next_balance < far {
            self.rqs[cpu.index()].balance.next_balance = next_balance;
        }
    }

    fn attempt(&self, rules: ClassicRules, cpu: CpuId, level: usize, idle: CpuIdle) -> Attempt {
        let everyone = CpuSet::EMPTY;
        let minds_siblings = self.search(rules, cpu, level, idle, &everyone).minds_siblings();
        let sd_idle = idle.is_idle() && minds_siblings;
        Attempt {
            rules,
            this_cpu: cpu,
            level,
            idle,
            executing_cpu: cpu,
            sd_idle,
            minds_siblings,
            all_pinned: false,
            empties: false,
        }
    }

    fn search<'a>(
        &'a self,
        rules: ClassicRules,
        this_cpu: CpuId,
        level: usize,
        idle: CpuIdle,
        candidates: &'a CpuSet,
    ) -> Search<'a> {
        let (domains, cpus) = (&self.domains, &self.classic_cpus[..]);
        Search { domains, cpus, this_cpu, level, idle, candidates, rules }
    }

    fn domain_of(&self, cpu: CpuId, level: usize) -> &Domain {
        self.domains.get(self.domains.stack(cpu)[level])
    }

    /// The CPU to pull from, and how much load; `None` if the domain is in balance or, which clears
    /// `goes_on`, another CPU's business.
    fn find_busiest(
        &mut self,
        attempt: &mut Attempt,
        candidates: &CpuSet,
        goes_on: &mut bool,
        hardware: &mut impl Hardware,
    ) -> Option<(CpuId, u64)> {
        let Attempt { rules, this_cpu, level, idle, .. } = *attempt;
        let mut sd_idle = attempt.sd_idle;
        let mut lazy = self.rqs[this_cpu.index()].balance.levels[level].lazy;
        let moment = self.moment(this_cpu, level, hardware.jiffies());
        let search = self.search(rules, this_cpu, level, idle, candidates);
        let busiest = match rules.v3_9 {
            None => search.find_busiest_group(&mut sd_idle),
            Some(_) => {
                let found = search.find_busiest_by_room(&mut lazy, &moment);
                attempt.empties = found.empties;
                found.busiest
            }
        };
        let (looked_at, found) = match busiest {
            Busiest::NotOurs => {
                *goes_on = false;
                let own = self.domains.ring(self.domains.stack(this_cpu)[level]).next();
                (own.map_or(1, |own| own.weight), None)
            }
            Busiest::Balanced => (search.domain().weight, None),
            Busiest::Group(group, amount) => {
                let queue = search.find_busiest_queue(group, amount, attempt.empties);
                (search.domain().weight, queue.map(|queue| (queue, amount)))
            }
        };
        attempt.sd_idle = sd_idle;
        self.rqs[this_cpu.index()].balance.levels[level].lazy = lazy;
        hardware.charge(attempt.executing_cpu, Path::Balance { cpus: looked_at });
        found
    }

    /// Balances `cpu` within its domain at `level` (`load_balance()`). `goes_on` is cleared if wider
    /// domains are not its business either.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of the kernel's function, and the hardware"
    )]
    fn load_balance(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        level: usize,
        idle: CpuIdle,
        executing_cpu: CpuId,
        goes_on: &mut bool,
        hardware: &mut impl Hardware,
    ) -> Moved {
        if rules.mode == BalanceMode::None {
            return Moved::Nothing;
        }
        let mut attempt = Attempt { executing_cpu, ..self.attempt(rules, cpu, level, idle) };
        let mut candidates = CpuSet::first_n(self.rqs.len());
        let (src_cpu, moved) = loop {
            let found = self.find_busiest(&mut attempt, &candidates, goes_on, hardware);
            let Some((src_cpu, amount)) = found else {
                return self.balanced(&attempt, false);
            };
            if self.nr_running(src_cpu) <= 1 && !attempt.empties {
                break (src_cpu, false);
            }
            let moved = self.move_load(&mut attempt, src_cpu, amount, hardware);
            if !attempt.all_pinned {
                break (src_cpu, moved);
            }
            candidates.remove(src_cpu);
            if candidates.is_empty() {
                return self.balanced(&attempt, false);
            }
        };
        let mut asked = false;
        let tries = self.domain_of(cpu, level).cache_nice_tries;
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if moved {
            state.nr_balance_failed = 0;
        } else {
            // Attempts before idling are too frequent to count (v2.6.39, 58b26c4c0257).
            if rules.v3_9.is_none() || idle != CpuIdle::NewlyIdle {
                state.nr_balance_failed += 1;
            }
            if self.needs_active_classic(&attempt, src_cpu) {
                if !self.may_push(src_cpu, cpu) {
                    attempt.all_pinned = true;
                    return self.balanced(&attempt, true);
                }
                asked = self.ask_stopper(src_cpu, cpu, executing_cpu, hardware);
                self.rqs[cpu.index()].balance.levels[level].nr_balance_failed = tries + 1;
            }
        }
        let (shortest, longest) = self.intervals(cpu, level);
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if !asked {
            state.set_interval(shortest);
        } else if state.interval_ms < longest {
            state.set_interval(2 * state.interval_ms);
        }
        if moved { Moved::Tasks } else { attempt.nothing() }
    }

    /// Nothing is to be moved, or nothing can: the domain is looked at less often.
    fn balanced(&mut self, attempt: &Attempt, one_pinned: bool) -> Moved {
        let (_, longest) = self.intervals(attempt.this_cpu, attempt.level);
        let levels = &mut self.rqs[attempt.this_cpu.index()].balance.levels;
        let state = &mut levels[attempt.level];
        if !one_pinned {
            state.nr_balance_failed = 0;
        }
        let pinned = attempt.all_pinned && state.interval_ms < PINNED_INTERVAL_MAX_MS;
        if pinned || state.interval_ms < longest {
            state.set_interval(2 * state.interval_ms);
        }
        attempt.nothing()
    }

    fn intervals(&self, cpu: CpuId, level: usize) -> (u64, u64) {
        let domain = self.domain_of(cpu, level);
        (u64::from(domain.balance_interval_ms), u64::from(domain.interval_max_ms))
    }

    /// True if the task to move is the one that runs (`need_active_balance()`).
    fn needs_active_classic(&self, attempt: &Attempt, src_cpu: CpuId) -> bool {
        if attempt.rules.v3_9.is_some() {
            let Attempt { rules, this_cpu, level, idle, .. } = *attempt;
            let everyone = CpuSet::EMPTY;
            // What runs alone stays, also where a group is to be emptied.
            if attempt.empties && self.nr_running(src_cpu) <= 1 {
                return false;
            }
            if self.search(rules, this_cpu, level, idle, &everyone).packs_actively(src_cpu) {
                return true;
            }
        } else if attempt.idle == CpuIdle::NewlyIdle
            && (attempt.nothing() == Moved::SiblingBusy || attempt.rules.mc_power_savings < 2)
        {
            return false;
        }
        let (cpu, level) = (attempt.this_cpu, attempt.level);
        let failed = self.rqs[cpu.index()].balance.levels[level].nr_balance_failed;
        failed > self.domain_of(cpu, level).cache_nice_tries + 2
    }

    /// True if what runs on `src_cpu` may run on `dst_cpu`; the idle task may not.
    fn may_push(&self, src_cpu: CpuId, dst_cpu: CpuId) -> bool {
        let curr = self.rqs[src_cpu.index()].curr;
        curr.is_some_and(|curr| self.allowed(curr).contains(dst_cpu))
    }

    /// Sends the source CPU's migration thread to work, unless it is at work already.
    fn ask_stopper(
        &mut self,
        src_cpu: CpuId,
        dst_cpu: CpuId,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> bool {
        let push_cpu = &mut self.rqs[src_cpu.index()].balance.push_cpu;
        if push_cpu.is_some() {
            return false;
        }
        *push_cpu = Some(dst_cpu);
        hardware.send_reschedule(executing_cpu, src_cpu);
        true
    }
}

//! Classic load balancing at work: when it runs, whose tasks it moves, and what it remembers
//! (`rebalance_domains()`, `load_balance()`, `load_balance_newidle()`, `idle_balance()`,
//! `move_tasks()`). The decisions are in [`crate::fair::classic`].
//!
//! Sources: `kernel/sched.c` of 2.6.32, `kernel/sched_fair.c` of 2.6.36.

use super::super::Scheduler;
use super::super::run_queue::MIGRATION_COST_NS;
use super::periodic::NOTHING_DUE_S;
use super::pull::{NR_MIGRATE_MAX, PINNED_INTERVAL_MAX_MS};
use crate::fair::TaskId;
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
        let state = &self.cpus[cpu.index()];
        let fair = &self.rqs[cpu.index()].fair;
        let view = CpuView {
            weight: fair.load_weight() >> 10,
            nr_running: state.nr_running,
            cfs_nr_running: fair.nr_running(),
            idle: state.curr_is_idle,
            load: self.classic_cpus[cpu.index()].load,
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

    /// Looks for a task before `cpu` idles, if it usually idles for long enough
    /// (`idle_balance()`).
    pub(super) fn idle_balance_classic(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        hardware: &mut impl Hardware,
    ) {
        let rq = &mut self.rqs[cpu.index()];
        rq.idle_stamp_ns = rq.clock.clock;
        if rq.avg_idle_ns < MIGRATION_COST_NS {
            return;
        }
        let mut next_balance = hardware.jiffies() + u64::from(self.config.hz);
        let mut pulled = false;
        for level in 0..self.domains.stack(cpu).len() {
            let domain = self.domains.get(self.domains.stack(cpu)[level]);
            if domain.flags.has(DomainFlags::BALANCE_NEWIDLE) {
                let mut goes_on = true;
                let idle = CpuIdle::NewlyIdle;
                let moved = if rules.newidle_counts {
                    self.load_balance(rules, cpu, level, idle, cpu, &mut goes_on, hardware)
                } else {
                    self.load_balance_newidle(rules, cpu, level, hardware)
                };
                pulled = moved != Moved::Nothing;
            }
            let state = &self.rqs[cpu.index()].balance.levels[level];
            let due = state.last_balance + self.jiffies_of_ms(state.interval_ms);
            next_balance = next_balance.min(due);
            if pulled {
                self.rqs[cpu.index()].idle_stamp_ns = 0;
                break;
            }
        }
        let balance = &mut self.rqs[cpu.index()].balance;
        if pulled || after(hardware.jiffies(), balance.next_balance) {
            balance.next_balance = next_balance;
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
        let search = self.search(rules, this_cpu, level, idle, candidates);
        let (looked_at, found) = match search.find_busiest_group(&mut sd_idle) {
            Busiest::NotOurs => {
                *goes_on = false;
                let own = self.domains.ring(self.domains.stack(this_cpu)[level]).next();
                (own.map_or(1, |own| own.weight), None)
            }
            Busiest::Balanced => (search.domain().weight, None),
            Busiest::Group(group, amount) => {
                let queue = search.find_busiest_queue(group, amount);
                (search.domain().weight, queue.map(|queue| (queue, amount)))
            }
        };
        attempt.sd_idle = sd_idle;
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
            if self.nr_running(src_cpu) <= 1 {
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
            state.nr_balance_failed += 1;
            if self.needs_active_classic(&attempt) {
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

    /// Before 2.6.34, a CPU that was about to idle kept no intervals (`load_balance_newidle()`).
    fn load_balance_newidle(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        level: usize,
        hardware: &mut impl Hardware,
    ) -> Moved {
        if rules.mode == BalanceMode::None {
            return Moved::Nothing;
        }
        let mut attempt = self.attempt(rules, cpu, level, CpuIdle::NewlyIdle);
        let mut candidates = CpuSet::first_n(self.rqs.len());
        let (src_cpu, moved) = loop {
            let mut goes_on = true;
            let found = self.find_busiest(&mut attempt, &candidates, &mut goes_on, hardware);
            let Some((src_cpu, amount)) = found else {
                if attempt.nothing() == Moved::Nothing {
                    self.rqs[cpu.index()].balance.levels[level].nr_balance_failed = 0;
                }
                return attempt.nothing();
            };
            if self.nr_running(src_cpu) <= 1 {
                break (src_cpu, false);
            }
            let moved = self.move_load(&mut attempt, src_cpu, amount, hardware);
            candidates.remove(src_cpu);
            if !attempt.all_pinned || candidates.is_empty() {
                break (src_cpu, moved);
            }
        };
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if moved {
            state.nr_balance_failed = 0;
            return Moved::Tasks;
        }
        if attempt.nothing() == Moved::SiblingBusy || rules.mc_power_savings < 2 {
            return Moved::SiblingBusy;
        }
        state.nr_balance_failed += 1;
        if state.nr_balance_failed > 2 && self.may_push(src_cpu, cpu) {
            self.ask_stopper(src_cpu, cpu, cpu, hardware);
            return Moved::Nothing;
        }
        Moved::SiblingBusy
    }

    /// True if the task to move is the one that runs (`need_active_balance()`).
    fn needs_active_classic(&self, attempt: &Attempt) -> bool {
        if attempt.idle == CpuIdle::NewlyIdle
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

    /// Pulls tasks until `amount` of load has moved (`move_tasks()`). From 2.6.34 on, the queue is
    /// gone through again as long as that moves any.
    fn move_load(
        &mut self,
        attempt: &mut Attempt,
        src_cpu: CpuId,
        amount: u64,
        hardware: &mut impl Hardware,
    ) -> bool {
        let mut total = 0;
        loop {
            let moved = self.move_some(attempt, src_cpu, amount - total, hardware);
            total += moved;
            let content =
                attempt.idle == CpuIdle::NewlyIdle && self.nr_running(attempt.this_cpu) > 0;
            if moved == 0 || total >= amount || content || !attempt.rules.newidle_counts {
                return total > 0;
            }
        }
    }

    /// One pass over the queue, the task that came last first (`balance_tasks()`). Returns the load
    /// that moved. A queue whose tasks are all too heavy counts as one whose tasks may not move.
    fn move_some(
        &mut self,
        attempt: &mut Attempt,
        src_cpu: CpuId,
        amount: u64,
        hardware: &mut impl Hardware,
    ) -> u64 {
        attempt.all_pinned = false;
        if amount == 0 {
            return 0;
        }
        self.update_clock(src_cpu, hardware);
        self.update_clock(attempt.this_cpu, hardware);
        let mut all_pinned = true;
        let mut left = amount as i64;
        let mut loops = 0;
        let mut place = self.rqs[src_cpu.index()].tasks.len();
        while place > 0 && loops <= NR_MIGRATE_MAX {
            place -= 1;
            loops += 1;
            let id = self.rqs[src_cpu.index()].tasks[place];
            let weight = self.entities[id.index()].load.unscaled();
            if weight >> 1 > left as u64
                || !self.can_migrate_classic(id, attempt, src_cpu, &mut all_pinned)
            {
                continue;
            }
            self.detach(id, attempt.this_cpu, attempt.executing_cpu, hardware);
            self.attach(id, attempt.this_cpu, attempt.executing_cpu, hardware);
            left -= weight as i64;
            // A preemptible kernel that wants to idle is content with one.
            if attempt.idle == CpuIdle::NewlyIdle || left <= 0 {
                break;
            }
        }
        attempt.all_pinned = all_pinned;
        (amount as i64 - left) as u64
    }

    /// `can_migrate_task()`.
    fn can_migrate_classic(
        &self,
        id: TaskId,
        attempt: &Attempt,
        src_cpu: CpuId,
        all_pinned: &mut bool,
    ) -> bool {
        if !self.allowed(id).contains(attempt.this_cpu) {
            return false;
        }
        *all_pinned = false;
        let src = &self.rqs[src_cpu.index()];
        if src.curr == Some(id) {
            return false;
        }
        let (cpu, level) = (attempt.this_cpu, attempt.level);
        let failed = self.rqs[cpu.index()].balance.levels[level].nr_balance_failed;
        if failed > self.domain_of(cpu, level).cache_nice_tries {
            return true;
        }
        // Whether the cache still holds what the task needs (task_hot()).
        if self.nr_running(attempt.executing_cpu) > 0 && src.fair.is_buddy(id) {
            return false;
        }
        let ran_ns = self.entities[id.index()].exec_start_ns;
        src.clock.clock_task.wrapping_sub(ran_ns) as i64 >= MIGRATION_COST_NS as i64
    }

    /// The migration thread of `cpu` pushes one of its tasks to `to_cpu` (`move_one_task()`).
    pub(super) fn push_one_classic(
        &mut self,
        rules: ClassicRules,
        cpu: CpuId,
        to_cpu: CpuId,
        level: usize,
        hardware: &mut impl Hardware,
    ) {
        let attempt =
            Attempt { executing_cpu: cpu, ..self.attempt(rules, to_cpu, level, CpuIdle::Idle) };
        self.update_clock(cpu, hardware);
        for place in (0..self.rqs[cpu.index()].tasks.len()).rev() {
            let id = self.rqs[cpu.index()].tasks[place];
            if self.can_migrate_classic(id, &attempt, cpu, &mut true) {
                self.detach(id, to_cpu, cpu, hardware);
                self.attach(id, to_cpu, cpu, hardware);
                return;
            }
        }
    }
}

//! One balancing attempt: from whom to pull, which of its tasks, and what a failure means
//! (`sched_balance_rq()`, `detach_tasks()`, `can_migrate_task()`).

use super::super::Scheduler;
use super::super::run_queue::MIGRATION_COST_NS;
use crate::fair::TaskId;
use crate::fair::balance::{Balance, BalanceMode, CpuIdle, DetachLimit, Migration};
use crate::fair::capacity::{is_reduced, update_group_capacity};
use crate::fair::entity::FairPolicy;
use crate::fair::nohz::after;
use crate::fair::topology::{DomainFlags, Membership};
use crate::fair::view::Fit;
use crate::hardware::{Hardware, Path};
use schedlab_machine::{CpuId, CpuSet};

/// Tasks that one attempt looks at (`sysctl_sched_nr_migrate`).
pub(super) const NR_MIGRATE_MAX: u32 = 32;

/// The longest interval to which affinity drives a domain, ms (`MAX_PINNED_INTERVAL`).
pub(super) const PINNED_INTERVAL_MAX_MS: u64 = 512;

/// An attempt under way (`struct lb_env`).
pub(super) struct Attempt {
    /// The CPU whose domains these are.
    pub this_cpu: CpuId,
    /// Which of them.
    pub level: usize,
    /// Whether it idles.
    pub idle: CpuIdle,
    /// The CPU that receives; another of the group if tasks may not run on `this_cpu`.
    pub dst_cpu: CpuId,
    /// The CPU that gives.
    pub src_cpu: CpuId,
    /// Not all of the domain's CPUs take part any more: [`Scheduler::candidates`] do.
    pub narrowed: bool,
    pub imbalance: i64,
    pub migration: Migration,
    /// The stopper thread asks: everything but affinity is beside the point.
    pub active: bool,
    /// No task was found that may run on the receiving CPU (`LBF_ALL_PINNED`).
    pub all_pinned: bool,
    /// Some task may not (`LBF_SOME_PINNED`).
    pub some_pinned: bool,
    /// A CPU of the group on which it may (`LBF_DST_PINNED`).
    pub other_dst: Option<CpuId>,
    pub looked_at: u32,
    pub look_at_most: u32,
}

/// What an attempt came to.
pub(super) struct Outcome {
    /// Tasks moved.
    pub moved: u32,
    /// Higher domains are this CPU's business, too.
    pub goes_on: bool,
}

/// What the domain's state makes of an attempt.
enum End {
    Moved(u32),
    Balanced,
    AllPinned,
    OnePinned,
    Failed,
}

impl Attempt {
    pub(super) fn new(this_cpu: CpuId, level: usize, idle: CpuIdle, src_cpu: CpuId) -> Attempt {
        Attempt {
            this_cpu,
            level,
            idle,
            dst_cpu: this_cpu,
            src_cpu,
            narrowed: false,
            imbalance: 0,
            migration: Migration::default(),
            active: false,
            all_pinned: false,
            some_pinned: false,
            other_dst: None,
            looked_at: 0,
            look_at_most: 0,
        }
    }
}

impl Scheduler {
    /// Balances `cpu` within its domain at `level` (`sched_balance_rq()`).
    pub(super) fn balance_level(
        &mut self,
        cpu: CpuId,
        level: usize,
        idle: CpuIdle,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> Outcome {
        if self.config.balance.mode == BalanceMode::None {
            return Outcome { moved: 0, goes_on: true };
        }
        let weight = self.domains.get(self.domains.stack(cpu)[level]).weight;
        let mut attempt = Attempt::new(cpu, level, idle, cpu);
        let mut goes_on = true;
        let end = loop {
            if !self.view_of(&attempt).should_balance() {
                goes_on = false;
                break End::Balanced;
            }
            hardware.charge(executing_cpu, Path::Balance { cpus: weight });
            let Some(src_cpu) = self.find_source(&mut attempt, hardware.jiffies()) else {
                break End::Balanced;
            };
            attempt.src_cpu = src_cpu;
            attempt.all_pinned = true;
            let nr_running = self.nr_running(src_cpu);
            if nr_running > 1 {
                attempt.look_at_most = NR_MIGRATE_MAX.min(nr_running);
                let moved = self.move_tasks(&mut attempt, executing_cpu, hardware);
                self.note_affinity(&attempt, level);
                if attempt.all_pinned {
                    self.leave_out(&mut attempt, src_cpu);
                    if self.candidates.is_subset(self.own_group(&attempt)) {
                        break End::AllPinned;
                    }
                    attempt.looked_at = 0;
                    continue;
                }
                if moved > 0 {
                    break End::Moved(moved);
                }
            }
            break End::Failed;
        };
        let moved = self.conclude(&mut attempt, end, executing_cpu, hardware);
        Outcome { moved, goes_on }
    }

    /// CPUs that still take part in an attempt.
    #[inline]
    fn candidates(&self, attempt: &Attempt) -> &CpuSet {
        if attempt.narrowed {
            return &self.candidates;
        }
        &self.domains.get(self.membership(attempt)).span
    }

    /// A CPU takes no more part.
    fn leave_out(&mut self, attempt: &mut Attempt, cpu: CpuId) {
        if !std::mem::replace(&mut attempt.narrowed, true) {
            self.candidates = self.domains.get(self.membership(attempt)).span;
        }
        self.candidates.remove(cpu);
    }

    /// CPUs of the own group (`dst_grpmask`).
    fn own_group(&self, attempt: &Attempt) -> &CpuSet {
        let membership = self.membership(attempt);
        let span = &self.domains.get(membership).span;
        self.domains.ring(membership).next().map_or(span, |group| &group.balance_mask)
    }

    #[inline]
    fn view_of<'a>(&'a self, attempt: &'a Attempt) -> Balance<'a> {
        Balance {
            domains: &self.domains,
            cpus: &self.cpus,
            census: &self.census,
            dst_cpu: attempt.this_cpu,
            level: attempt.level,
            idle: attempt.idle,
            candidates: self.candidates(attempt),
            rules: self.config.balance,
            sums: Some(&self.sums),
            energy_aware: self.energy.is_some(),
        }
    }

    /// The CPU to pull from, if the domain is out of balance.
    fn find_source(&mut self, attempt: &mut Attempt, jiffies: u64) -> Option<CpuId> {
        let (cpu, level) = (attempt.this_cpu, attempt.level);
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if attempt.idle != CpuIdle::NewlyIdle || !after(state.capacity_update, jiffies) {
            state.capacity_update = jiffies + state.interval(false);
            // Where CPUs do not differ and only fair tasks run, capacities stay what they are.
            if !self.sums.suffice() {
                update_group_capacity(&mut self.domains, &mut self.cpus, cpu, level);
            }
        }
        self.catch_up_with(self.membership(attempt));
        let balance = self.view_of(attempt);
        let root = level + 1 == self.domains.stack(cpu).len();
        if let Some(quiet) = balance.quiet() {
            attempt.migration = Migration::default();
            self.conclude_search(cpu, root.then_some(quiet.overloaded), quiet.nr_idle_scan);
            return None;
        }
        let mut stats = balance.domain_stats();
        let overutilized = stats.overutilized || (!root && self.overutilized);
        stats.left_to_energy = self.energy.is_some() && !overutilized;
        let found = balance.imbalance(&mut stats);
        let source = match (found, &stats.busiest) {
            (Ok(found), Some((group, _))) => balance.source(group, found, stats.source_kind),
            _ => None,
        };
        let (overloaded, nr_idle_scan) = (stats.overloaded, stats.nr_idle_scan);
        match found {
            Ok(found) => {
                attempt.imbalance = found.amount;
                attempt.migration = found.migration;
            }
            Err(migration) => attempt.migration = migration,
        }
        self.overutilized = overutilized;
        self.conclude_search(cpu, root.then_some(overloaded), nr_idle_scan);
        source
    }

    /// Notes for others what a search of one of the domains of `cpu` has seen: at the root, whether
    /// some CPU has tasks to spare, and how far wake-ups may look.
    fn conclude_search(&mut self, cpu: CpuId, overloaded: Option<bool>, nr_idle_scan: Option<u32>) {
        if let Some(overloaded) = overloaded {
            self.overloaded = overloaded;
            self.rt.map.note_spare(overloaded);
        }
        if let Some(nr_idle_scan) = nr_idle_scan {
            self.llcs[self.domains.llc_id(cpu).index()].nr_idle_scan = nr_idle_scan;
        }
    }

    /// Pulls tasks, in the end to another CPU of the group if affinity demands it. Returns how
    /// many.
    fn move_tasks(
        &mut self,
        attempt: &mut Attempt,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> u32 {
        let mut moved = 0;
        loop {
            moved += self.detach_tasks(attempt, executing_cpu, hardware);
            let Some(other) = attempt.other_dst.take().filter(|_| attempt.imbalance > 0) else {
                return moved;
            };
            let dst_cpu = attempt.dst_cpu;
            self.leave_out(attempt, dst_cpu);
            attempt.dst_cpu = other;
            attempt.looked_at = 0;
        }
    }

    /// Moves tasks from the source queue, those that waited longest first, until the imbalance is
    /// made up for (`detach_tasks()`, `attach_tasks()`).
    fn detach_tasks(
        &mut self,
        attempt: &mut Attempt,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> u32 {
        let src = attempt.src_cpu.index();
        self.update_clock(attempt.src_cpu, hardware);
        if self.nr_running(attempt.src_cpu) <= 1 {
            attempt.all_pinned = false;
            return 0;
        }
        let mut moved = std::mem::take(&mut self.moving);
        moved.clear();
        while attempt.imbalance > 0 && !self.rqs[src].tasks.is_empty() {
            // A CPU whose last task is stolen would steal it back.
            if attempt.idle.is_idle() && self.nr_running(attempt.src_cpu) <= 1 {
                break;
            }
            attempt.looked_at += 1;
            if attempt.looked_at > attempt.look_at_most {
                break;
            }
            let id = self.rqs[src].tasks[0];
            if !self.can_migrate(id, attempt) || !self.fits_imbalance(id, attempt) {
                // It goes to the other end of the list.
                let tasks = &mut self.rqs[src].tasks;
                tasks.remove(0);
                tasks.push(id);
                continue;
            }
            self.detach(id, attempt.dst_cpu, executing_cpu, hardware);
            moved.push(id);
            // A preemptible kernel that wants to idle is content with one.
            if attempt.idle == CpuIdle::NewlyIdle {
                break;
            }
        }
        for &id in moved.iter().rev() {
            self.attach(id, attempt.dst_cpu, executing_cpu, hardware);
        }
        let count = moved.len() as u32;
        self.moving = moved;
        count
    }

    /// `can_migrate_task()`.
    pub(super) fn can_migrate(&self, id: TaskId, attempt: &mut Attempt) -> bool {
        let task = &self.tasks[id.index()];
        if task.per_cpu_kthread {
            return false;
        }
        let allowed = self.allowed(id);
        if !allowed.contains(attempt.dst_cpu) {
            attempt.some_pinned = true;
            let look_around = attempt.idle != CpuIdle::NewlyIdle && !attempt.active;
            if look_around && attempt.other_dst.is_none() {
                let group = self.own_group(attempt);
                attempt.other_dst = (*group & *self.candidates(attempt) & *allowed).first();
            }
            return false;
        }
        attempt.all_pinned = false;
        if self.rqs[attempt.src_cpu.index()].curr == Some(id) {
            return false;
        }
        if attempt.active {
            return true;
        }
        let state = &self.rqs[attempt.this_cpu.index()].balance.levels[attempt.level];
        let domain = self.domains.get(self.membership(attempt));
        state.nr_balance_failed > domain.cache_nice_tries || !self.is_hot(id, attempt, domain.flags)
    }

    fn membership(&self, attempt: &Attempt) -> Membership {
        self.domains.stack(attempt.this_cpu)[attempt.level]
    }

    /// True if the source CPU's caches still hold what the task needs (`task_hot()`).
    fn is_hot(&self, id: TaskId, attempt: &Attempt, flags: DomainFlags) -> bool {
        let entity = &self.entities[id.index()];
        if entity.policy == FairPolicy::Idle || flags.has(DomainFlags::SHARE_CPUCAPACITY) {
            return false;
        }
        let src = &self.rqs[attempt.src_cpu.index()];
        if self.nr_running(attempt.dst_cpu) > 0 && src.fair.next_buddy() == Some(id) {
            return true;
        }
        let since_ns = src.clock.clock_task.wrapping_sub(entity.exec_start_ns) as i64;
        since_ns < MIGRATION_COST_NS as i64
    }

    /// True if the task is not too large for what is to move, which it then counts against.
    fn fits_imbalance(&self, id: TaskId, attempt: &mut Attempt) -> bool {
        let task = &self.tasks[id.index()];
        let domain = self.domains.get(self.membership(attempt));
        let state = &self.rqs[attempt.this_cpu.index()].balance.levels[attempt.level];
        let failed = state.nr_balance_failed;
        let shifted = |amount: u64| (amount >> failed.min(63)) as i64;
        let by_shift = self.config.balance.detach == DetachLimit::Shift;
        let amount = match attempt.migration {
            Migration::Load => {
                let load = task.avg.load_avg.max(1);
                let too_large = if by_shift {
                    shifted(load) > attempt.imbalance
                } else {
                    (load / 2) as i64 > attempt.imbalance && failed <= domain.cache_nice_tries
                };
                if too_large {
                    return false;
                }
                load as i64
            }
            Migration::Util => {
                let util = task.avg.util_avg.max(task.util_est());
                let judged = if by_shift { shifted(util) } else { util as i64 };
                if judged > attempt.imbalance {
                    return false;
                }
                util as i64
            }
            Migration::Task => 1,
            Migration::Misfit => {
                let allowed = self.allowed(id);
                let state = &self.cpus[attempt.src_cpu.index()];
                if self.view(id, allowed).fit(state) == Fit::Full {
                    return false;
                }
                attempt.imbalance
            }
        };
        attempt.imbalance -= amount;
        true
    }

    /// Tells the domain above that affinity kept this one from being balanced.
    fn note_affinity(&mut self, attempt: &Attempt, level: usize) {
        if attempt.some_pinned
            && attempt.imbalance > 0
            && let Some(&above) = self.domains.stack(attempt.this_cpu).get(level + 1)
        {
            self.domains.set_imbalance(above, true);
        }
    }

    /// Draws the conclusions for the next attempts. Returns how many tasks were moved.
    fn conclude(
        &mut self,
        attempt: &mut Attempt,
        end: End,
        executing_cpu: CpuId,
        hardware: &mut impl Hardware,
    ) -> u32 {
        let (cpu, level) = (attempt.this_cpu, attempt.level);
        let mut end = end;
        let mut pushed = false;
        if let End::Failed = end {
            if attempt.idle != CpuIdle::NewlyIdle && attempt.migration != Migration::Misfit {
                self.rqs[cpu.index()].balance.levels[level].nr_balance_failed += 1;
            }
            if self.needs_active_balance(attempt) {
                match self.ask_to_push(attempt, executing_cpu, hardware) {
                    None => end = End::OnePinned,
                    Some(now) => pushed = now,
                }
            }
        }
        match end {
            End::Moved(moved) => {
                self.rqs[cpu.index()].balance.levels[level].nr_balance_failed = 0;
                self.look_often(attempt);
                return moved;
            }
            End::Failed => {
                if !pushed || self.needs_active_balance(attempt) {
                    self.look_often(attempt);
                }
                return 0;
            }
            End::Balanced => {
                if !attempt.all_pinned
                    && let Some(&above) = self.domains.stack(cpu).get(level + 1)
                {
                    self.domains.set_imbalance(above, false);
                }
            }
            End::AllPinned | End::OnePinned => {}
        }
        let longest_ms = self.domains.get(self.membership(attempt)).interval_max_ms;
        let state = &mut self.rqs[cpu.index()].balance.levels[level];
        if !matches!(end, End::OnePinned) {
            state.nr_balance_failed = 0;
        }
        // Nothing to do here: look less often. Attempts before idling are too frequent to count.
        if attempt.idle != CpuIdle::NewlyIdle && attempt.migration != Migration::Misfit {
            let pinned = attempt.all_pinned && state.interval_ms < PINNED_INTERVAL_MAX_MS;
            if pinned || state.interval_ms < u64::from(longest_ms) {
                state.set_interval(2 * state.interval_ms);
            }
        }
        0
    }

    /// There is something to do in a domain.
    fn look_often(&mut self, attempt: &Attempt) {
        let shortest_ms = u64::from(self.domains.get(self.membership(attempt)).balance_interval_ms);
        let state = &mut self.rqs[attempt.this_cpu.index()].balance.levels[attempt.level];
        if state.interval_ms != shortest_ms {
            state.set_interval(shortest_ms);
        }
    }

    /// True if the task to move is the one that runs (`need_active_balance()`).
    fn needs_active_balance(&self, attempt: &Attempt) -> bool {
        let balance = self.view_of(attempt);
        let domain = balance.domain();
        let state = &self.rqs[attempt.this_cpu.index()].balance.levels[attempt.level];
        let (src, dst) = (&self.cpus[attempt.src_cpu.index()], &self.cpus[attempt.dst_cpu.index()]);
        let pct = u64::from(domain.imbalance_pct);
        let squeezed = attempt.idle.is_idle()
            && src.h_nr_queued == 1
            && is_reduced(src, domain.imbalance_pct)
            && src.capacity * pct < dst.capacity * 100;
        balance.packs_actively(attempt.dst_cpu, attempt.src_cpu)
            || (attempt.migration == Migration::Task
                && state.nr_balance_failed > domain.cache_nice_tries + 2)
            || squeezed
            || attempt.migration == Migration::Misfit
    }
}

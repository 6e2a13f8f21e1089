//! Load balancing at work: when it runs, whose tasks it moves, and what it remembers
//! (`kernel/sched/fair.c`, 6.12). The decisions themselves are in [`crate::fair::balance`] and
//! [`crate::fair::nohz`].

mod active;
mod classic;
mod newidle;
mod nohz;
mod nohz_pull;
mod nohz_push;
mod periodic;
mod pull;
mod tickless;

pub use tickless::BalanceCounts;
pub(super) use tickless::OlderNohz;

use super::Scheduler;
use crate::fair::census::Census;
use crate::fair::nohz::{KickFlags, NohzRules};
use crate::fair::power_aware::balance::LazyHistory;
use crate::fair::sums::Sums;
use crate::fair::topology::{Domain, DomainFlags, Membership};
use crate::fair::view::CpuState;
use crate::hardware::Hardware;
use schedlab_machine::CpuId;

/// What a CPU remembers of one of its domains (the changing part of `struct sched_domain`). What
/// most attempts need comes first, so that it is in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct LevelState {
    /// When it last balanced here, jiffies.
    last_balance: u64,
    /// How long it waits between balancing in jiffies, while idle and while busy.
    interval: [u64; 2],
    /// The longest that balancing before idling took lately, ns.
    max_newidle_lb_cost_ns: u64,
    /// When that was last renewed or decayed, jiffies.
    last_decay_max_lb_cost: u64,
    /// When the own group's capacity is due, jiffies (`sgc->next_update`).
    capacity_update: u64,
    /// Attempts in a row that moved nothing.
    nr_balance_failed: u32,
    /// Of domains like this one, one at a time is balanced (`SD_SERIALIZE`).
    serial: bool,
    /// A CPU that is about to idle balances here (`SD_BALANCE_NEWIDLE`).
    newidle: bool,
    newidle_call: u32,
    newidle_success: u32,
    /// Of 1024 balances before idling, how many paid.
    newidle_ratio: u32,
    /// How long it waits while idle, ms; `interval` is computed when this changes.
    interval_ms: u64,
    /// What that takes.
    rules: IntervalRules,
    /// What attempts here were for, where tasks may be packed.
    lazy: LazyHistory,
}

/// How an interval in ms becomes jiffies.
#[derive(Clone, Copy, Debug)]
struct IntervalRules {
    hz: u32,
    busy_factor: u32,
    /// The longest interval, jiffies.
    most: u64,
}

impl LevelState {
    fn new(domain: &Domain, hz: u32, most: u64) -> LevelState {
        let mut state = LevelState {
            last_balance: 0,
            interval_ms: 0,
            interval: [0; 2],
            rules: IntervalRules { hz, busy_factor: domain.busy_factor, most },
            nr_balance_failed: 0,
            max_newidle_lb_cost_ns: 0,
            last_decay_max_lb_cost: 0,
            // Half of all attempts pay, until better is known.
            newidle_call: 512,
            newidle_success: 256,
            newidle_ratio: 512,
            capacity_update: 0,
            lazy: LazyHistory::default(),
            serial: domain.flags.has(DomainFlags::SERIALIZE),
            newidle: domain.flags.has(DomainFlags::BALANCE_NEWIDLE),
        };
        state.set_interval(u64::from(domain.balance_interval_ms));
        state
    }

    /// When it last balanced here, jiffies.
    pub(super) fn last_balance(&self) -> u64 {
        self.last_balance
    }

    /// How long the CPU waits between balancing here, jiffies.
    #[inline]
    fn interval(&self, busy: bool) -> u64 {
        self.interval[usize::from(busy)]
    }

    /// When it balances here again, jiffies.
    #[inline]
    fn next_balance(&self, busy: bool) -> u64 {
        self.last_balance + self.interval(busy)
    }

    /// Changes how long the CPU waits between balancing here (`get_sd_balance_interval()`).
    fn set_interval(&mut self, ms: u64) {
        let IntervalRules { hz, busy_factor, most } = self.rules;
        self.interval_ms = ms;
        let idle = jiffies_of_ms(ms, hz);
        // One jiffy off, so that a busy CPU's periods at different levels do not fall together.
        let busy = jiffies_of_ms(ms * u64::from(busy_factor), hz).saturating_sub(1);
        self.interval = [idle.clamp(1, most), busy.clamp(1, most)];
    }
}

/// What a run queue remembers of balancing.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueState {
    /// One for each of the CPU's domains, lowest first.
    pub levels: Vec<LevelState>,
    /// When balancing is due in some domain, jiffies.
    pub next_balance: u64,
    /// The CPU idled at its last tick or kick (`rq->idle_balance`).
    pub idle_balance: bool,
    /// The balancing softirq is raised.
    pub softirq: bool,
    /// What other CPUs ask this one to do for all idle ones (`nohz_flags()`).
    pub asked: KickFlags,
    /// What of it the softirq is to do (`rq->nohz_idle_balance`).
    pub accepted: KickFlags,
    /// The CPU is in the mask of those without a tick.
    pub tick_stopped: bool,
    /// It does not count as busy in its cache (`sd->nohz_idle`).
    pub llc_idle: bool,
    /// Its averages may still decay.
    pub has_blocked_load: bool,
    /// When they were last brought to the present, jiffies.
    pub last_blocked_update: u64,
    /// The CPU to which the stopper thread is to push a task (`active_balance`, `push_cpu`).
    pub push_cpu: Option<CpuId>,
    /// Until when the tick of an idle CPU does not stop, jiffies.
    pub ticks_until: u64,
    /// A kick came that the CPU has neither answered nor refused yet.
    pub kick_pending: bool,
    /// What was done so far.
    pub counts: BalanceCounts,
}

/// `msecs_to_jiffies()`.
fn jiffies_of_ms(ms: u64, hz: u32) -> u64 {
    (ms * u64::from(hz)).div_ceil(1000)
}

/// A CPU is in this state now.
fn recount(census: &mut Census, sums: &mut Sums, cpu: CpuId, state: &CpuState) {
    census.recount(cpu, state);
    if sums.kept() {
        sums.update(cpu, state);
    }
}

impl Scheduler {
    pub(super) fn start_balancing(&mut self) {
        let cpus = self.rqs.len() as u64;
        self.interval_max = (u64::from(self.config.hz) * cpus / 10).max(1);
        for index in 0..self.rqs.len() {
            let cpu = CpuId(index as u32);
            let stack = self.domains.stack(cpu).iter();
            let (hz, most) = (self.config.hz, self.interval_max);
            let levels = stack.map(|&m| LevelState::new(self.domains.get(m), hz, most));
            self.rqs[index].balance.levels = levels.collect();
            if self.config.classic.is_some_and(|rules| rules.v3_9.is_none()) {
                // Whatever the shortest interval is, the first one is that of the lowest domain.
                let levels = &mut self.rqs[index].balance.levels;
                levels.iter_mut().for_each(|level| level.interval_ms = 1);
            }
            let llc_id = self.domains.llc_id(cpu);
            self.llcs[llc_id.index()].nr_busy_cpus = self.domains.llc_size(cpu);
        }
    }

    /// Does what the interrupt of another CPU was sent for: wake-ups that it left, idle balancing,
    /// work for the stopper thread. The balancing softirq that this may raise is left to
    /// [`Scheduler::softirq`].
    pub fn interrupt_from_cpu(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        self.finish_remote_wakeups(cpu, hardware);
        if self.rt.active {
            self.push_by_interrupt(cpu, hardware);
        }
        match self.config.nohz {
            NohzRules::Modern {} => self.accept_kick(cpu),
            NohzRules::Push { stale_kick } => self.accept_push(cpu, stale_kick),
            NohzRules::PushByDomain { .. } => self.accept_push(cpu, false),
            NohzRules::Pull {} => {}
        }
        self.push_running(cpu, hardware);
        self.push_by_stopper(cpu, hardware);
    }

    /// Brings what is known of many CPUs up to date with those that changed.
    pub(super) fn catch_up(&mut self) {
        let Scheduler { stale, census, sums, cpus, .. } = self;
        for cpu in &*stale {
            recount(census, sums, cpu, &cpus[cpu.index()]);
        }
        stale.clear();
    }

    /// The same as far as balancing in a domain looks at. Groups that overlap may reach beyond it.
    fn catch_up_with(&mut self, membership: Membership) {
        let domain = self.domains.get(membership);
        if domain.flags.has(DomainFlags::OVERLAP) {
            return self.catch_up();
        }
        let Scheduler { stale, census, sums, cpus, .. } = self;
        for cpu in stale.iter_and(&domain.span) {
            recount(census, sums, cpu, &cpus[cpu.index()]);
        }
        stale.subtract(&domain.span);
    }

    /// The longest balancing interval, jiffies (`update_max_interval()`).
    fn interval_max(&self) -> u64 {
        self.interval_max
    }

    /// `msecs_to_jiffies()`.
    pub(super) fn jiffies_of_ms(&self, ms: u64) -> u64 {
        jiffies_of_ms(ms, self.config.hz)
    }

    /// Brings the averages of a CPU that may sleep to the present
    /// (`sched_balance_update_blocked_averages()`).
    fn update_blocked_averages(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        if self.age_blocked_averages(cpu, hardware) {
            self.publish(cpu);
        }
    }

    /// The same, which is yet to be published if it made a difference (`true`).
    fn age_blocked_averages(&mut self, cpu: CpuId, hardware: &mut impl Hardware) -> bool {
        self.update_clock(cpu, hardware);
        let changed = self.update_queue_load(cpu);
        let rq = &mut self.rqs[cpu.index()];
        rq.balance.last_blocked_update = hardware.jiffies();
        let mut decays = rq.avg.load_avg != 0 || rq.avg.util_avg != 0;
        if self.rt.active {
            decays |= self.age_rt_load(cpu) | self.age_dl_load(cpu);
        }
        self.rqs[cpu.index()].balance.has_blocked_load &= decays;
        changed || self.rt.active
    }
}

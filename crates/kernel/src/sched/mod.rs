//! The scheduler core: tasks, run queues, and what happens to them when tasks wake, fork, block,
//! yield and exit, when the tick fires and when a CPU picks its next task (`kernel/sched/core.c`
//! with the fair, the real-time and the deadline class, 6.12).

mod affinity;
mod balance;
mod deadline;
mod energy;
mod io_wait;
mod migrate_disable;
mod pick;
mod placement;
mod placement_classic;
mod power_aware;
mod rt;
mod run_queue;
mod task;
mod verify;

pub use balance::BalanceCounts;
pub use placement::WakeFlags;
pub use run_queue::RunQueue;
pub use task::{AffinityId, NewTask, Task, TaskState};

use crate::cpufreq::{Request, Schedutil};
use crate::fair::TaskId;
use crate::fair::balance::BalanceRules;
use crate::fair::census::Census;
use crate::fair::classic::{ClassicRules, CpuView};
use crate::fair::energy::EnergyModel;
use crate::fair::entity::Entity;
use crate::fair::nohz::{Nohz, NohzRules};
use crate::fair::queue::FairRules;
use crate::fair::slow_path::SlowPathRules;
use crate::fair::sums::Sums;
use crate::fair::topology::Domains;
use crate::fair::view::CpuState;
use crate::fair::wake::{LlcShared, WakeRules};
use crate::hardware::Hardware;
use crate::rt::RtRules;
use schedlab_machine::{CpuId, CpuSet};
use serde::Deserialize;

/// Which rules a task runs by (`p->sched_class`), the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Deadline,
    RealTime,
    Fair,
}

/// The variants and constants of one kernel.
#[derive(Clone, Copy, Debug)]
pub struct SchedConfig {
    /// Fork and exec placement.
    pub slow_path: SlowPathRules,
    /// Wake-up placement.
    pub wake: WakeRules,
    /// The fair pick, its constants scaled to the machine.
    pub fair: FairRules,
    /// Load balancing.
    pub balance: BalanceRules,
    /// Placement and load balancing by load weights, in place of all three above; no load is
    /// tracked then.
    pub classic: Option<ClassicRules>,
    /// Real-time tasks.
    pub rt: RtRules,
    /// Who balances for CPUs without a tick.
    pub nohz: NohzRules,
    /// Ticks a second.
    pub hz: u32,
    /// Which wake-ups are left to the CPU that the task wakes on.
    pub ttwu_queue: TtwuQueue,
}

/// Which wake-ups are queued on the target and done there (`TTWU_QUEUE`, `ttwu_queue_cond()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TtwuQueue {
    /// None: the waker does them.
    Never,
    /// Up to v5.19: those of a CPU that shares no cache with the waker's.
    OtherCache,
    /// From v6.0 on (f3dd3f674555): also those of an idle CPU.
    OtherCacheOrIdle,
}

impl SchedConfig {
    /// `TICK_NSEC`.
    pub fn tick_ns(&self) -> u64 {
        (1_000_000_000 + u64::from(self.hz) / 2) / u64::from(self.hz)
    }
}

/// All run queues and tasks of a machine.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedConfig,
    domains: Domains,
    rqs: Vec<RunQueue>,
    cpus: Vec<CpuState>,
    /// The same as classic kernels see them; empty under others.
    classic_cpus: Vec<CpuView>,
    llcs: Vec<LlcShared>,
    sums: Sums,
    census: Census,
    /// CPUs that changed since balancing looked at them last, of which it is yet to bring sums and
    /// sets up to date.
    stale: CpuSet,
    tasks: Vec<Task>,
    entities: Vec<Entity>,
    affinities: Vec<CpuSet>,
    /// Of each, the CPU if it is of one alone.
    only: Vec<Option<CpuId>>,
    /// The sets of one CPU each, once tasks ask to stay where they are.
    singles: Vec<AffinityId>,
    nohz: Nohz,
    older_nohz: balance::OlderNohz,
    /// Some CPU has tasks to spare (`rd->overloaded`).
    overloaded: bool,
    /// Placement weighs energy by this model (`rd->pd`).
    energy: Option<EnergyModel>,
    /// Some CPU uses more than four fifths of its capacity, so that tasks are spread instead of
    /// placed by energy (`rd->overutilized`). Of meaning only with an energy model.
    overutilized: bool,
    /// Some task has asked for utilisation clamps (`uclamp_is_used()`).
    uclamp_used: bool,
    /// Until when some CPU balances a domain of which one at a time is balanced, ns.
    serial_until_ns: u64,
    /// The longest balancing interval, jiffies (`max_load_balance_interval`).
    interval_max: u64,
    /// Tasks between two queues; empty but for a moment.
    moving: Vec<TaskId>,
    /// CPUs that still take part in an attempt to balance that has left some out.
    candidates: CpuSet,
    rt: rt::RtClass,
    dl: deadline::DlClass,
    /// Chooses frequencies, if it is the governor.
    schedutil: Option<Schedutil>,
}

impl Scheduler {
    /// An idle machine at `now_ns` with the given domains; `capacities` by CPU number, 1024 for
    /// the biggest.
    pub fn new(
        config: SchedConfig,
        domains: Domains,
        capacities: &[u64],
        now_ns: u64,
    ) -> Scheduler {
        let cpu_count = domains.cpu_count();
        let cpu = |index: usize| CpuId(index as u32);
        let state = |index: usize| CpuState::idle(cpu(index), capacities[index]);
        let llcs = (0..cpu_count)
            .map(|index| LlcShared {
                has_idle_cores: true,
                // update_idle_cpu_scan() allows the whole cache while it is idle.
                nr_idle_scan: domains.llc_size(cpu(index)),
                nr_busy_cpus: 0,
            })
            .collect();
        let cpus: Vec<CpuState> = (0..cpu_count).map(state).collect();
        let plain = !domains.asym_cpucapacity_active();
        let sums = Sums::new(&domains, &cpus, plain && config.classic.is_none());
        let mut scheduler = Scheduler {
            sums,
            census: Census::of(&domains, &cpus),
            stale: CpuSet::EMPTY,
            nohz: Nohz::default(),
            older_nohz: balance::OlderNohz::new(
                config.nohz,
                cpu_count,
                config.classic.is_some_and(|classic| classic.saves_power()),
            ),
            overloaded: false,
            energy: None,
            overutilized: false,
            uclamp_used: false,
            serial_until_ns: 0,
            interval_max: 1,
            moving: Vec::with_capacity(32),
            candidates: CpuSet::EMPTY,
            rt: rt::RtClass::new(),
            dl: deadline::DlClass::default(),
            schedutil: None,
            rqs: (0..cpu_count).map(|_| RunQueue::new(config.fair, now_ns)).collect(),
            classic_cpus: match config.classic {
                Some(_) => vec![CpuView { idle: true, ..CpuView::default() }; cpu_count],
                None => Vec::new(),
            },
            cpus,
            llcs,
            tasks: Vec::new(),
            entities: Vec::new(),
            affinities: vec![CpuSet::first_n(cpu_count)],
            only: vec![CpuSet::first_n(cpu_count).first().filter(|_| cpu_count == 1)],
            singles: Vec::new(),
            config,
            domains,
        };
        scheduler.start_balancing();
        for index in 0..cpu_count {
            scheduler.publish(cpu(index));
        }
        scheduler
    }

    /// The kernel's variants and constants.
    pub fn config(&self) -> &SchedConfig {
        &self.config
    }

    /// The scheduling domains.
    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The run queues as other CPUs see them.
    pub fn cpus(&self) -> &[CpuState] {
        &self.cpus
    }

    /// The same as kernels with classic balancing see them; empty under others.
    pub fn classic_cpus(&self) -> &[CpuView] {
        &self.classic_cpus
    }

    /// Notes the idle state that `cpu` enters, by its exit latency, or that it leaves it
    /// (`sched_idle_set_state()`). Fork placement prefers shallow ones.
    pub fn set_idle_state(&mut self, cpu: CpuId, exit_latency_us: Option<u32>) {
        self.cpus[cpu.index()].idle_exit_latency_us = exit_latency_us;
    }

    /// Has `schedutil` choose frequencies from now on.
    pub fn set_schedutil(&mut self, schedutil: Schedutil) {
        self.schedutil = Some(schedutil);
    }

    /// Schedutil chooses frequencies, without which energy-aware placement does not work
    /// (`sd_is_eas_possible()`).
    pub fn has_schedutil(&self) -> bool {
        self.schedutil.is_some()
    }

    /// The oldest change of frequency that the governor asked for and that was not taken yet.
    #[inline]
    pub fn take_frequency_request(&mut self) -> Option<Request> {
        self.schedutil.as_mut()?.take_request()
    }

    /// `cpu` idles and would stop its tick, if that does not stand already
    /// (`tick_nohz_idle_stop_tick()`).
    #[inline]
    pub fn count_idle_call(&mut self, cpu: CpuId) {
        if let Some(schedutil) = &mut self.schedutil {
            schedutil.count_idle_call(cpu);
        }
    }

    /// Heat takes so much of `cpu`'s capacity (`arch_update_hw_pressure()`).
    pub fn set_hw_pressure(&mut self, cpu: CpuId, pressure: u64) {
        self.cpus[cpu.index()].hw_pressure = pressure;
    }

    /// A run queue.
    pub fn run_queue(&self, cpu: CpuId) -> &RunQueue {
        &self.rqs[cpu.index()]
    }

    /// Every task there ever was.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// A task's state.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    /// A task's place in virtual time.
    pub fn entity(&self, task: TaskId) -> &Entity {
        &self.entities[task.index()]
    }

    /// What `cpu` runs; `None` is the idle task.
    #[inline]
    pub fn current(&self, cpu: CpuId) -> Option<TaskId> {
        self.rqs[cpu.index()].curr
    }

    /// True if `cpu` should call [`Scheduler::schedule`] at its next opportunity.
    #[inline]
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu.index()];
        rq.need_resched || rq.fair.resched()
    }

    /// Registers a set of allowed CPUs. Equal sets share a number.
    pub fn affinity(&mut self, allowed: CpuSet) -> AffinityId {
        let known = self.affinities.iter().position(|&other| other == allowed);
        AffinityId(known.unwrap_or_else(|| {
            self.affinities.push(allowed);
            self.only.push(self.only_of(&allowed));
            self.affinities.len() - 1
        }) as u32)
    }

    /// The one CPU of the machine in a set that has no other.
    fn only_of(&self, allowed: &CpuSet) -> Option<CpuId> {
        let cpus = CpuSet::first_n(self.cpus.len());
        allowed.first().filter(|_| allowed.weight_and(&cpus) == 1)
    }

    /// A task's class.
    #[inline]
    fn class(&self, id: TaskId) -> Class {
        // Deadline tasks activate the real-time class, too.
        match id {
            _ if !self.rt.active => Class::Fair,
            id if self.is_rt(id) => Class::RealTime,
            id if self.is_deadline(id) => Class::Deadline,
            _ => Class::Fair,
        }
    }

    /// The CPUs that a task may use.
    pub fn allowed(&self, task: TaskId) -> &CpuSet {
        &self.affinities[self.tasks[task.index()].affinity.0 as usize]
    }

    /// The periodic tick on `cpu` (`sched_tick()`).
    pub fn tick(&mut self, cpu: CpuId, hardware: &mut impl Hardware) {
        hardware.charge(cpu, crate::hardware::Path::Tick);
        self.update_clock(cpu, hardware);
        if self.config.classic.is_some() {
            self.update_classic_load(cpu, hardware.jiffies());
        }
        if let Some(curr) = self.rqs[cpu.index()].curr
            && self.is_rt(curr)
        {
            self.tick_rt(cpu, curr);
        } else if let Some(curr) = self.rqs[cpu.index()].curr
            && self.is_deadline(curr)
        {
            self.tick_dl(cpu, curr, hardware);
        } else if let Some(curr) = self.rqs[cpu.index()].curr {
            let rq = &mut self.rqs[cpu.index()];
            rq.fair.tick(&mut self.entities, rq.clock.clock_task);
            if self.rt.active {
                self.account_fair(cpu, curr);
                self.arm_timer(cpu, hardware);
            }
            self.update_load(cpu, curr);
            self.publish(cpu);
            self.update_misfit(cpu, Some(curr));
            self.check_overutilized(cpu);
        }
        self.trigger_balance(cpu, hardware);
    }
}

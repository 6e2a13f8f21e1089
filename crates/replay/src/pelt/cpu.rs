//! The signals of one CPU.

use schedlab_kernel::pelt::{Avg, RqClock, SCHED_CAPACITY_SCALE};
use schedlab_trace::Pid;

use super::KNOWN_AFTER_NS;
use super::scale::{Contribution, CpuScale, Invariance};
use super::task::Task;

/// The class whose signal a running task feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Idle,
    Fair,
    RealTime,
    Deadline,
    Stop,
}

impl Class {
    /// From a task's kernel priority (`p->prio`).
    pub fn of(pid: Pid, prio: i32) -> Self {
        match prio {
            _ if pid == Pid::IDLE => Class::Idle,
            ..0 => Class::Deadline,
            0 => Class::Stop,
            1..100 => Class::RealTime,
            _ => Class::Fair,
        }
    }
}

/// A signal that stands at `clock`. Every signal of a CPU starts at the zero of its PELT clock or is
/// attached to one that did, so periods end at multiples of 2^20 ns.
pub(super) fn aligned(avg: Avg, clock: u64) -> Avg {
    Avg { last_update_time: clock & !1023, period_contrib: (clock >> 10) as u32 & 1023, ..avg }
}

/// What left an idle CPU, or one of its task groups, is taken off at the latest when blocked load
/// is next updated: every `LOAD_AVG_PERIOD` ms (`_nohz_idle_balance()`, `kernel/sched/fair.c`).
const BLOCKED_UPDATE_NS: u64 = 32_000_000;

/// One CPU's signals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    pub scale: CpuScale,
    pub invariance: Invariance,
    /// Current frequency out of 1024, and whether the trace has told it.
    pub frequency: u64,
    pub frequency_known: bool,
    pub clock: RqClock,
    /// Trace time up to which the clock stands, ns.
    pub at_ns: u64,
    pub fair: Avg,
    pub real_time: Avg,
    pub deadline: Avg,
    pub current: Pid,
    pub class: Class,
    /// How the CPU stood before the current task came from idle, until its run time is accounted
    /// for the first time.
    pub before: Option<Arrival>,
    /// When `update_curr()` last accounted the current task's run time, since it got the CPU.
    pub accounted_ns: Option<u64>,
    /// Weight and number of the queued fair tasks, as far as wake-ups and sleeps show.
    pub weight: u64,
    pub queued: u64,
    /// Tasks that were woken for this CPU and are not queued yet. The kernel may have counted them
    /// in already.
    pub incoming: u32,
    /// When a task last left with its signal, if one did.
    pub left_ns: Option<u64>,
    /// A kernel value has told when this CPU's periods end.
    pub period_known: bool,
    /// How far the rebuilt PELT clock is ahead of the kernel's.
    pub clock_distance: Option<i64>,
    /// Per class: fair, real-time, deadline.
    pub known_since_ns: [Option<u64>; 3],
}

impl Cpu {
    pub fn new(scale: CpuScale, invariance: Invariance, now_ns: u64) -> Self {
        Self {
            scale,
            invariance,
            frequency: SCHED_CAPACITY_SCALE,
            frequency_known: scale.max_khz == 0,
            period_known: false,
            incoming: 0,
            left_ns: None,
            clock: RqClock::at(now_ns),
            at_ns: now_ns,
            fair: aligned(Avg::default(), now_ns),
            real_time: aligned(Avg::default(), now_ns),
            deadline: aligned(Avg::default(), now_ns),
            current: Pid::UNKNOWN,
            class: Class::Idle,
            before: None,
            accounted_ns: None,
            weight: 0,
            queued: 0,
            clock_distance: None,
            known_since_ns: [Some(now_ns); 3],
        }
    }

    /// Whether a value that does not say when it was computed may still hold what has left.
    pub fn may_lag(&self, now_ns: u64) -> bool {
        self.left_ns.is_some_and(|left_ns| now_ns.saturating_sub(left_ns) < BLOCKED_UPDATE_NS)
    }

    /// Brings clock and signals to `now_ns`.
    pub fn advance(&mut self, now_ns: u64) {
        let delta_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = self.at_ns.max(now_ns);
        let idle = self.class == Class::Idle;
        let (frequency, capacity) = match self.invariance {
            Invariance::Clock => (self.frequency, self.scale.capacity),
            Invariance::Contribution => (SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SCALE),
        };
        self.clock.advance(delta_ns, 0, idle, frequency, capacity);
        let (now, weight, class) = (self.clock.pelt(), self.weight, self.class);
        if !self.frequency_known {
            // What it ran added an unknown amount.
            let [fair, real_time, deadline] = &mut self.known_since_ns;
            match class {
                Class::Fair => *fair = Some(now_ns),
                Class::RealTime => *real_time = Some(now_ns),
                Class::Deadline => *deadline = Some(now_ns),
                Class::Idle | Class::Stop => {}
            }
        }
        let fair = class == Class::Fair;
        let queued = self.queued.max(u64::from(fair));
        let contribution = self.contribution();
        contribution.scaled(&mut self.fair, fair, |avg, running| {
            avg.update_cfs_rq(now, weight, queued, running)
        });
        contribution.scaled(&mut self.real_time, class == Class::RealTime, |avg, running| {
            avg.update_class_rq(now, running)
        });
        contribution.scaled(&mut self.deadline, class == Class::Deadline, |avg, running| {
            avg.update_class_rq(now, running)
        });
    }

    /// What scales contributions; nothing where the clock is scaled.
    pub fn contribution(&self) -> Contribution {
        match self.invariance {
            Invariance::Clock => {
                Contribution { frequency: SCHED_CAPACITY_SCALE, capacity: SCHED_CAPACITY_SCALE }
            }
            Invariance::Contribution => {
                Contribution { frequency: self.frequency, capacity: self.scale.capacity }
            }
        }
    }

    /// A time of the kernel's PELT clock on the rebuilt one, which now stands at `now`. The two
    /// differ by a constant: the least distance seen, that of a value which was just computed.
    pub fn rebuilt_clock(&mut self, now: u64, kernel: u64) -> u64 {
        let distance = now.wrapping_sub(kernel) as i64;
        let constant = self.clock_distance.map_or(distance, |least| least.min(distance));
        self.clock_distance = Some(constant);
        kernel.wrapping_add(constant as u64)
    }

    /// A task's signals become part of this CPU's. If the task's history is not known, neither is
    /// the CPU's from now on. The task's open period is dropped, and how much of it there was is
    /// not known unless a kernel value has told when periods end.
    pub fn join(&mut self, task: &mut Task, now_ns: u64) {
        self.fair.attach(&mut task.avg, task.weight);
        if !self.period_known {
            task.since_ns = Some(now_ns);
        }
        if !known(task.since_ns, now_ns) {
            self.known_since_ns[0] = Some(now_ns);
        }
    }

    /// A task's signals leave this CPU's; see [`Cpu::join`] on what is known then.
    pub fn part(&mut self, task: &Task, now_ns: u64) {
        self.fair.detach(&task.avg, task.weight);
        self.left_ns = Some(now_ns);
        if !self.period_known || !known(task.since_ns, now_ns) {
            self.known_since_ns[0] = Some(now_ns);
        }
    }

    pub fn change_queue(&mut self, weight: u64, joins: bool) {
        if joins {
            self.weight = self.weight.wrapping_add(weight);
            self.queued += 1;
        } else {
            self.weight = self.weight.saturating_sub(weight);
            self.queued = self.queued.saturating_sub(1);
        }
    }
}

/// A CPU just before a task came from idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub clock: RqClock,
    pub at_ns: u64,
    pub fair: Avg,
    pub real_time: Avg,
    pub deadline: Avg,
    pub switched_ns: u64,
}

impl Arrival {
    pub fn of(cpu: &Cpu, switched_ns: u64) -> Option<Self> {
        (cpu.class == Class::Idle).then_some(Self {
            clock: cpu.clock,
            at_ns: cpu.at_ns,
            fair: cpu.fair,
            real_time: cpu.real_time,
            deadline: cpu.deadline,
            switched_ns,
        })
    }
}

/// Sets a signal to the kernel's value. When the kernel updated it tells how far its period is.
pub(super) fn seed(avg: &mut Avg, util_avg: u64, updated_ns: Option<u64>) {
    if let Some(updated_ns) = updated_ns {
        avg.period_contrib = (updated_ns >> 10) as u32 & 1023;
    }
    avg.util_avg = util_avg;
    avg.util_sum = util_avg.wrapping_mul(u64::from(avg.divider())) as u32;
}

pub(super) fn known(since_ns: Option<u64>, now_ns: u64) -> bool {
    since_ns.is_none_or(|since_ns| now_ns.saturating_sub(since_ns) >= KNOWN_AFTER_NS)
}

//! What a trace shows of timers and interrupts. These events follow from the others, so they are
//! remarks, and written only if they are wanted: there are three for every tick.

use crate::observe::Observer;
use crate::platform::Platform;
use crate::timer_queue::{KERNEL_TIMER, Timer};
use schedlab_machine::{CPUS_MAX, CpuId};
use schedlab_trace::{EventKind, StrId, Strings};

/// The number of the interrupts of devices.
const DEVICE_IRQ: i32 = 1;

/// The vector of softirqs that balance (`SCHED_SOFTIRQ`).
const SCHED_SOFTIRQ: u32 = 7;

/// Where the timers of sleeping tasks are: one each, so many bytes apart.
const SLEEPERS: u64 = 0x1000_0000;

/// Where the ticks' timers are, one for each CPU.
const TICKS: u64 = 0x2000_0000;

/// Where the kernel's own other timers are, by when they expire.
const KERNEL_TIMERS: u64 = 1 << 63;

/// How far apart timers are.
const TIMER_BYTES: u64 = 64;

/// CPUs are numbered below two to this power.
const CPU_BITS: u32 = CPUS_MAX.next_power_of_two().ilog2();

/// The names that these events bear.
#[derive(Clone, Copy, Debug)]
pub struct InterruptNames {
    sleep: StrId,
    tick: StrId,
    kernel: StrId,
    device: StrId,
    reschedule: StrId,
}

impl InterruptNames {
    /// The names of Linux 6.12.
    pub fn new(strings: &mut Strings) -> InterruptNames {
        let mut name = |text: &str| strings.intern(text.as_bytes());
        InterruptNames {
            sleep: name("hrtimer_wakeup"),
            tick: name("tick_nohz_handler"),
            kernel: name("dl_task_timer"),
            device: name("device"),
            reschedule: name("reschedule"),
        }
    }
}

fn tick_address(cpu: CpuId) -> u64 {
    TICKS + u64::from(cpu.0) * TIMER_BYTES
}

fn signed(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}

impl<O: Observer> Platform<'_, O> {
    /// The names, if anybody wants such events.
    #[inline]
    fn told(&self) -> Option<InterruptNames> {
        if O::ACTIVE { self.interrupt_names } else { None }
    }

    /// The address and the function of a timer, as events give them.
    fn identity(&self, cpu: CpuId, timer: Timer, names: InterruptNames) -> (u64, StrId) {
        if timer.task == KERNEL_TIMER {
            return (KERNEL_TIMERS | timer.hard_ns << CPU_BITS | u64::from(cpu.0), names.kernel);
        }
        (SLEEPERS + u64::from(timer.task) * TIMER_BYTES, names.sleep)
    }

    /// `cpu` armed a timer (`hrtimer_start`).
    #[inline]
    pub fn tell_armed(&mut self, cpu: CpuId, armed: Timer) {
        let Some(names) = self.told() else { return };
        let (timer, function) = self.identity(cpu, armed, names);
        let (expires_ns, soft_expires_ns) = (signed(armed.hard_ns), signed(armed.soft_ns));
        self.remark(cpu, EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns });
    }

    /// A timer's interrupt, which began at `began_ns`, serves this timer
    /// (`hrtimer_expire_entry`).
    #[inline]
    pub fn tell_expires(&mut self, cpu: CpuId, expired: Timer, began_ns: u64) {
        let Some(names) = self.told() else { return };
        let (timer, function) = self.identity(cpu, expired, names);
        let now_ns = signed(began_ns);
        self.remark(cpu, EventKind::HrtimerExpireEntry { timer, function, now_ns });
    }

    /// It has served this timer (`hrtimer_expire_exit`).
    #[inline]
    pub fn tell_expired(&mut self, cpu: CpuId, expired: Timer) {
        let Some(names) = self.told() else { return };
        let (timer, _) = self.identity(cpu, expired, names);
        self.remark(cpu, EventKind::HrtimerExpireExit { timer });
    }

    /// The tick of `cpu` begins.
    #[inline]
    pub fn tell_tick(&mut self, cpu: CpuId) {
        let Some(names) = self.told() else { return };
        let (timer, function, now_ns) = (tick_address(cpu), names.tick, signed(self.clock_ns));
        self.remark(cpu, EventKind::HrtimerExpireEntry { timer, function, now_ns });
    }

    /// The tick of `cpu` is over.
    #[inline]
    pub fn tell_ticked(&mut self, cpu: CpuId) {
        if self.told().is_some() {
            self.remark(cpu, EventKind::HrtimerExpireExit { timer: tick_address(cpu) });
        }
    }

    /// The next tick of `cpu` is armed.
    #[inline]
    pub fn tell_tick_armed(&mut self, cpu: CpuId) {
        let Some(names) = self.told() else { return };
        let expires_ns = signed(self.cpus[cpu.index()].tick_ns);
        let (timer, function, soft_expires_ns) = (tick_address(cpu), names.tick, expires_ns);
        self.remark(cpu, EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns });
    }

    /// The tick of `cpu` stops (`tick_stop`), and its timer with it.
    #[inline]
    pub fn tell_tick_stopped(&mut self, cpu: CpuId) {
        if self.told().is_some() {
            self.remark(cpu, EventKind::TickStop { success: true, dependency: 0 });
            self.remark(cpu, EventKind::HrtimerCancel { timer: tick_address(cpu) });
        }
    }

    /// `cpu` begins to balance (`softirq_entry`).
    pub fn tell_balances(&mut self, cpu: CpuId) {
        if self.told().is_some() {
            self.remark(cpu, EventKind::SoftirqEntry { vec: SCHED_SOFTIRQ });
        }
    }

    /// It has balanced.
    pub fn tell_balanced(&mut self, cpu: CpuId) {
        if self.told().is_some() {
            self.remark(cpu, EventKind::SoftirqExit { vec: SCHED_SOFTIRQ });
        }
    }

    /// The interrupt of a device begins on `cpu` (`irq_handler_entry`).
    #[inline]
    pub fn tell_device(&mut self, cpu: CpuId) {
        let Some(names) = self.told() else { return };
        self.remark(cpu, EventKind::IrqEntry { irq: DEVICE_IRQ, name: names.device });
    }

    /// It is over.
    #[inline]
    pub fn tell_device_done(&mut self, cpu: CpuId) {
        if self.told().is_some() {
            self.remark(cpu, EventKind::IrqExit { irq: DEVICE_IRQ });
        }
    }

    /// The interrupt that another CPU sent begins on `cpu` (`reschedule_entry`).
    #[inline]
    pub fn tell_reschedule(&mut self, cpu: CpuId) {
        let Some(names) = self.told() else { return };
        self.remark(cpu, EventKind::VectorEntry { name: names.reschedule });
    }

    /// It is over.
    #[inline]
    pub fn tell_rescheduled(&mut self, cpu: CpuId) {
        let Some(names) = self.told() else { return };
        self.remark(cpu, EventKind::VectorExit { name: names.reschedule });
    }
}

//! The event schema: what happened on which CPU at which nanosecond, the same for a real and a
//! simulated trace.

use crate::strings::StrId;
use schedlab_machine::CpuId;

/// A kernel thread id, as tracepoints name tasks. 0 is a CPU's idle task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub i32);

impl Pid {
    /// The idle task ("swapper") of whichever CPU.
    pub const IDLE: Pid = Pid(0);
    /// A record that does not say which task was running.
    pub const UNKNOWN: Pid = Pid(-1);
}

/// Why a task left its CPU, from `prev_state` of `sched_switch`. The numbers behind the letters
/// differ between kernel releases, so readers translate by the trace's own print format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// `R`: still runnable; yielded, or (before 4.14) preempted.
    Running,
    /// `R+`: still runnable, preempted.
    Preempted,
    /// `S`: interruptible sleep.
    Sleeping,
    /// `D`: uninterruptible sleep.
    DiskSleep,
    /// `T`: stopped by a signal.
    Stopped,
    /// `t`: stopped by a tracer.
    Traced,
    /// `X` or `x`: dead.
    Dead,
    /// `Z`: zombie.
    Zombie,
    /// `P`: parked kernel thread.
    Parked,
    /// `I`: idle kernel thread (uninterruptible, not counted as load).
    Idle,
    /// Anything else that the trace named.
    Other,
}

impl TaskState {
    /// True while the task stays on a run queue.
    #[inline]
    pub const fn is_runnable(self) -> bool {
        matches!(self, TaskState::Running | TaskState::Preempted)
    }

    /// The kernel's letter.
    pub const fn letter(self) -> &'static str {
        match self {
            TaskState::Running => "R",
            TaskState::Preempted => "R+",
            TaskState::Sleeping => "S",
            TaskState::DiskSleep => "D",
            TaskState::Stopped => "T",
            TaskState::Traced => "t",
            TaskState::Dead => "X",
            TaskState::Zombie => "Z",
            TaskState::Parked => "P",
            TaskState::Idle => "I",
            TaskState::Other => "?",
        }
    }

    /// From a printed `prev_state` such as `S`, `R+` or `D|K`: the first letter decides.
    pub fn from_letters(text: &str) -> TaskState {
        match text.as_bytes() {
            b"R" => TaskState::Running,
            [b'R', b'+', ..] => TaskState::Preempted,
            [b'R', ..] => TaskState::Running,
            [b'S', ..] => TaskState::Sleeping,
            [b'D', ..] => TaskState::DiskSleep,
            [b'T', ..] => TaskState::Stopped,
            [b't', ..] => TaskState::Traced,
            [b'X' | b'x', ..] => TaskState::Dead,
            [b'Z', ..] => TaskState::Zombie,
            [b'P', ..] => TaskState::Parked,
            [b'I', ..] => TaskState::Idle,
            _ => TaskState::Other,
        }
    }
}

/// Which kind of utilisation a [`EventKind::PeltCpu`] carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeltClass {
    /// The fair class (root `cfs_rq`).
    Fair,
    /// Real-time.
    Rt,
    /// Deadline.
    Deadline,
    /// Interrupts.
    Irq,
    /// Hardware (thermal) pressure.
    Hardware,
}

/// A task named by an event: its id and the name it bore then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Task {
    /// Thread id.
    pub pid: Pid,
    /// Thread name (`comm`).
    pub comm: StrId,
}

/// What happened. Names follow the kernel's tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `sched_switch`: `prev` leaves the CPU, `next` gets it.
    Switch {
        /// The task that leaves.
        prev: Task,
        /// Kernel priority (`p->prio`) of `prev`.
        prev_prio: i32,
        /// Why it leaves.
        prev_state: TaskState,
        /// The task that comes.
        next: Task,
        /// Kernel priority of `next`.
        next_prio: i32,
    },
    /// `sched_waking`: someone starts to wake the task; runs in the waker's context.
    Waking {
        /// The woken task.
        task: Task,
        /// Its kernel priority.
        prio: i32,
        /// The CPU it was on (before placement).
        target_cpu: CpuId,
    },
    /// `sched_wakeup`: the task is now runnable.
    Wakeup {
        /// The woken task.
        task: Task,
        /// Its kernel priority.
        prio: i32,
        /// The CPU it was placed on.
        target_cpu: CpuId,
    },
    /// `sched_wakeup_new`: a new task is runnable for the first time.
    WakeupNew {
        /// The new task.
        task: Task,
        /// Its kernel priority.
        prio: i32,
        /// The CPU it was placed on.
        target_cpu: CpuId,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The task.
        task: Task,
        /// Its kernel priority.
        prio: i32,
        /// From this CPU.
        from_cpu: CpuId,
        /// To this CPU.
        to_cpu: CpuId,
    },
    /// `sched_process_fork`.
    Fork {
        /// The forking task.
        parent: Task,
        /// The new task.
        child: Task,
    },
    /// `sched_process_exec`: the task replaced its program (its name follows in later events).
    Exec {
        /// Thread id now.
        pid: Pid,
        /// Thread id before (differs when a non-leader thread calls exec).
        old_pid: Pid,
        /// The program's path.
        filename: StrId,
    },
    /// `sched_process_exit`.
    Exit {
        /// The task that ends.
        task: Task,
    },
    /// `sched_stat_runtime`: the fair class accounted run time.
    StatRuntime {
        /// The task.
        task: Task,
        /// Time since the last such accounting, ns.
        runtime_ns: u64,
    },
    /// `cpu_idle` with a state: the CPU enters idle state `state`.
    IdleEnter {
        /// The CPU that goes idle (`cpu_id`, normally the recording CPU).
        cpu: CpuId,
        /// Index of the idle state, shallowest 0.
        state: u32,
    },
    /// `cpu_idle` with state -1: the CPU leaves idle.
    IdleExit {
        /// The CPU that wakes.
        cpu: CpuId,
    },
    /// `cpu_idle_miss` (6.0 on): the kernel's own verdict on the sleep that just ended.
    IdleMiss {
        /// The CPU.
        cpu: CpuId,
        /// The state it had been in.
        state: u32,
        /// True: too shallow ("below"); false: too deep ("above").
        below: bool,
    },
    /// `cpu_frequency`.
    Frequency {
        /// The CPU whose frequency changes.
        cpu: CpuId,
        /// New frequency, kHz.
        frequency_khz: u32,
    },
    /// `irq_handler_entry`.
    IrqEntry {
        /// Interrupt number.
        irq: i32,
        /// Handler's name.
        name: StrId,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// Interrupt number.
        irq: i32,
    },
    /// An architecture interrupt vector (`local_timer_entry`, `reschedule_entry`, `ipi_entry`, ...).
    VectorEntry {
        /// The tracepoint's name without `_entry`, or the IPI's reason.
        name: StrId,
    },
    /// The end of a [`EventKind::VectorEntry`].
    VectorExit {
        /// As in the entry.
        name: StrId,
    },
    /// `softirq_raise`.
    SoftirqRaise {
        /// Softirq number (1 timer, 7 sched, 9 rcu, ...).
        vec: u32,
    },
    /// `softirq_entry`.
    SoftirqEntry {
        /// Softirq number.
        vec: u32,
    },
    /// `softirq_exit`.
    SoftirqExit {
        /// Softirq number.
        vec: u32,
    },
    /// `hrtimer_start`.
    HrtimerStart {
        /// Address of the timer: its identity.
        timer: u64,
        /// Callback's symbol name.
        function: StrId,
        /// Hard expiry, ns of the timer's clock.
        expires_ns: i64,
        /// Earliest expiry, ns of the timer's clock.
        soft_expires_ns: i64,
    },
    /// `hrtimer_expire_entry`.
    HrtimerExpireEntry {
        /// Address of the timer.
        timer: u64,
        /// Callback's symbol name.
        function: StrId,
        /// The timer clock's time when the interrupt began, ns.
        now_ns: i64,
    },
    /// `hrtimer_expire_exit`.
    HrtimerExpireExit {
        /// Address of the timer.
        timer: u64,
    },
    /// `hrtimer_cancel`.
    HrtimerCancel {
        /// Address of the timer.
        timer: u64,
    },
    /// `timer_start` (timer wheel).
    TimerStart {
        /// Address of the timer.
        timer: u64,
        /// Callback's symbol name.
        function: StrId,
        /// Expiry, jiffies.
        expires_jiffies: u64,
        /// `now` of the record, jiffies, or 0 where the release does not print it.
        now_jiffies: u64,
        /// True for a deferrable timer, which does not wake an idle CPU.
        deferrable: bool,
    },
    /// `timer_expire_entry`.
    TimerExpireEntry {
        /// Address of the timer.
        timer: u64,
        /// Callback's symbol name.
        function: StrId,
        /// `now` of the record, jiffies.
        now_jiffies: u64,
    },
    /// `timer_cancel`.
    TimerCancel {
        /// Address of the timer.
        timer: u64,
    },
    /// `tick_stop`.
    TickStop {
        /// True: the tick stopped; false: something needs it.
        success: bool,
        /// What needs it (bit mask of `TICK_DEP_MASK_*`).
        dependency: u32,
    },
    /// `ipi_send_cpu`, `ipi_send_cpumask` and `ipi_raise` with one target.
    IpiSend {
        /// The target, or `None` for a mask of several.
        target_cpu: Option<CpuId>,
        /// The callback or reason.
        callback: StrId,
    },
    /// `sched_wake_idle_without_ipi`: a polling CPU was told by a flag.
    WakeIdleWithoutIpi {
        /// That CPU.
        target_cpu: CpuId,
    },
    /// A utilisation tracepoint or probe of a CPU.
    PeltCpu {
        /// Which sum.
        class: PeltClass,
        /// Whose.
        cpu: CpuId,
        /// `load_avg`.
        load: u32,
        /// `runnable_avg` (0 where the trace has none).
        runnable: u32,
        /// `util_avg`.
        util: u32,
        /// `last_update_time`, ns of the rq's PELT clock (0 where the trace has none).
        last_update_time_ns: u64,
    },
    /// A utilisation tracepoint or probe of a task (not of a task group).
    PeltTask {
        /// Whose.
        pid: Pid,
        /// On this CPU.
        cpu: CpuId,
        /// `load_avg`.
        load: u32,
        /// `runnable_avg` (0 where the trace has none).
        runnable: u32,
        /// `util_avg`.
        util: u32,
        /// `last_update_time`, ns of the rq's PELT clock (0 where the trace has none).
        last_update_time_ns: u64,
    },
    /// Estimated utilisation of a CPU's fair class.
    UtilEstCpu {
        /// Whose.
        cpu: CpuId,
        /// `util_avg` at that moment.
        util: u32,
        /// `util_est` (enqueued).
        util_est: u32,
    },
    /// Estimated utilisation of a task.
    UtilEstTask {
        /// Whose.
        pid: Pid,
        /// `util_avg` at that moment.
        util: u32,
        /// `util_est` (enqueued).
        util_est: u32,
    },
    /// The number of runnable tasks of a CPU changed (`sched_update_nr_running`).
    NrRunning {
        /// Whose.
        cpu: CpuId,
        /// The new number.
        nr_running: u32,
    },
    /// The tracer dropped events of this CPU between its previous event and this place. What the
    /// CPU runs and whether it idles is unknown from here on. No tracepoint: readers put it into
    /// the stream where the file marks the gap, and do not count it as an event.
    Lost {
        /// How many, or 0 where the file does not say.
        count: u64,
    },
}

/// One event. Readers hand them out in time order; events of one nanosecond come in the order of
/// their CPU's number, and within one CPU as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ns of the trace's clock.
    pub timestamp_ns: u64,
    /// The CPU that recorded it.
    pub cpu: CpuId,
    /// The task that the CPU was running (`common_pid`), or [`Pid::UNKNOWN`].
    pub pid: Pid,
    /// What.
    pub kind: EventKind,
}

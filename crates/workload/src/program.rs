//! The task language. A workload is a set of shared objects and of programs; a task steps through
//! the operations of its program. Times of computation are given for the biggest CPU of the
//! machine at its highest frequency with its core to itself.

pub use crate::attributes::{Attributes, Policy};

/// A quantity that may differ from use to use, drawn from the task's own generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Always the same.
    Fixed(u64),
    /// Evenly between both ends, which belong to it.
    Uniform {
        /// Smallest.
        low: u64,
        /// Largest.
        high: u64,
    },
    /// Exponential, such as the gaps of independent arrivals.
    Exponential {
        /// Mean.
        mean: u64,
    },
    /// Normal, cut off at zero.
    Normal {
        /// Mean.
        mean: u64,
        /// Standard deviation.
        deviation: u64,
    },
}

/// A shared object, by its place in [`Workload::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

/// Which object an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Always this one.
    One(ObjectId),
    /// One of `count` from `first` on, drawn evenly.
    Random {
        /// The first.
        first: ObjectId,
        /// How many.
        count: u32,
    },
    /// One of `count` from `first` on, by a counter that all tasks share and that each use
    /// advances.
    Next {
        /// The first.
        first: ObjectId,
        /// How many.
        count: u32,
        /// An object of kind [`ObjectKind::Counter`].
        counter: ObjectId,
    },
    /// One of several from `first` on: the task's own index among the tasks of its program.
    Own {
        /// The first.
        first: ObjectId,
    },
    /// One of `count` from `first` on: the number of the CPU that the task runs on.
    OfCpu {
        /// The first.
        first: ObjectId,
        /// How many; a CPU beyond them starts anew.
        count: u32,
    },
    /// The one that [`Op::Pick`] left in this slot.
    Picked(Slot),
}

/// What a shared object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A sleeping lock as glibc's: free in one atomic, contended through a futex; a woken waiter
    /// competes again.
    Mutex,
    /// A counting semaphore over a futex, with its initial count.
    Semaphore(u32),
    /// A bare futex queue: waiters sleep until woken.
    Futex,
    /// A condition variable.
    Condition,
    /// A barrier for this many tasks.
    Barrier(u32),
    /// A pipe or stream socket.
    Channel {
        /// Bytes that fit before a writer blocks.
        capacity_bytes: u64,
        /// Writers promise to sleep soon (`WF_SYNC`), as pipes do.
        sync_wakeup: bool,
    },
    /// A flag for which tasks may spin.
    Flag,
    /// A number that operations advance.
    Counter,
    /// A cache line.
    Line,
    /// A block of memory that tasks go through as a rate ([`Op::Stream`]).
    Block(Block),
    /// A device that serves so many requests at once; others wait in the order in which they came.
    Device(u32),
    /// A lock-free list on which tasks post themselves, and a server that takes the whole list and
    /// wakes each of them (schbench's message threads).
    Mailbox,
}

/// In which order a pass goes through a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From one end to the other.
    Sequential,
    /// As many words as it has, drawn evenly.
    Uniform,
    /// As many words as it has, drawn by sysbench's `special` distribution: three in four from its
    /// middle percent. Known for blocks of [`SPECIAL_BYTES`] only.
    Special,
}

/// Size of the blocks for which [`Pattern::Special`] is known, bytes: sysbench's default.
pub const SPECIAL_BYTES: u64 = 1024;

/// Bytes of one access to a block.
pub const WORD_BYTES: u64 = 8;

/// Memory that tasks go through over and over, too often for each access to be an event. Its home
/// is the node of the CPU that touches it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Size, bytes.
    pub bytes: u64,
    /// Each task has a block of its own of this size, all with one home; otherwise all share one.
    pub private: bool,
    /// Words are stored; otherwise loaded.
    pub writes: bool,
    /// The order of a pass.
    pub pattern: Pattern,
    /// What one pass takes on the biggest CPU while nothing else slows it down, ps.
    pub pass_ps: u64,
}

/// How a cache line is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Atomic read-modify-write.
    Atomic,
}

/// A number local to a task: a loop counter, a timestamp or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u8);

/// Slots that a task has.
pub const SLOTS: usize = 16;

/// A figure that a workload keeps, by its place in [`Workload::metrics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricId(pub u32);

/// A program, by its place in [`Workload::programs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub u32);

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Compute: this many ns on the biggest CPU alone.
    Run(Amount),
    /// As [`Op::Run`], but in the kernel: a system call's own work, which counts as system time.
    System(Amount),
    /// Hold the CPU for this many ns of wall time, however fast it is (rt-app's `runtime`).
    Hold(Amount),
    /// Look at the clock over and over until this many ns have passed, on the CPU or off it.
    Spin(Amount),
    /// Sleep for this many ns.
    Sleep(Amount),
    /// Sleep until a multiple of `period_ns` after the first use of this timer; a task that is
    /// late goes on at once (rt-app's `timer`).
    Timer {
        /// Holds the next expiry.
        slot: Slot,
        /// Period, ns.
        period_ns: u64,
    },
    /// As [`Op::Timer`], but a task that is late starts the period anew (rt-app's `timer` in mode
    /// `relative`, its default).
    RestartingTimer {
        /// Holds the next expiry.
        slot: Slot,
        /// Period, ns.
        period_ns: u64,
    },
    /// A timer that several tasks share: each use moves its next expiry on.
    SharedTimer {
        /// An object of kind [`ObjectKind::Counter`], which holds the next expiry.
        timer: Which,
        /// Period, ns.
        period_ns: u64,
        /// A task that is late starts the period anew.
        restarts: bool,
    },
    /// Sleep for `soft_ns`; the timer's interrupt comes after `hard_ns` at the latest.
    SleepFor {
        /// The time, ns.
        soft_ns: u64,
        /// The latest time, ns.
        hard_ns: u64,
    },
    /// Sleep until a time of the run; a task that is late goes on at once (`clock_nanosleep()`
    /// with `TIMER_ABSTIME`).
    SleepUntil {
        /// Receives `soft_ns`, so that an [`Op::Timer`] can go on from there.
        slot: Option<Slot>,
        /// The time, ns from the start of the run.
        soft_ns: u64,
        /// The latest time at which the timer's interrupt comes, ns.
        hard_ns: u64,
    },
    /// Nothing in itself: the wake-up that ended the sleep before, or the birth if this is the first
    /// operation, was held up for so long before its CPU got on with it, ns.
    Late(u64),
    /// Nothing in itself, if the task was woken: the interrupt that held its CPU up until that got on
    /// with the wake-up before, or with the birth, ended with adding one to this semaphore. It stands
    /// behind [`Op::Late`] if there is one.
    Brings(Which),
    /// Choose an object once, for several uses as [`Which::Picked`].
    Pick {
        /// Holds the choice.
        slot: Slot,
        /// What to choose from.
        which: Which,
    },
    /// Take a mutex.
    Lock(Which),
    /// Release a mutex.
    Unlock(Which),
    /// Take one from a semaphore, sleeping while it is empty.
    Down(Which),
    /// Add one to a semaphore.
    Up(Which),
    /// Advance a shared counter, and add one to a semaphore at every `every`th use: a latch, whose
    /// last part wakes whoever waits for all of them.
    UpEvery {
        /// The semaphore.
        semaphore: Which,
        /// An object of kind [`ObjectKind::Counter`].
        counter: Which,
        /// Uses for one addition; at least 1.
        every: u64,
    },
    /// Sleep on a futex until woken.
    FutexWait(Which),
    /// Wake up to `count` sleepers of a futex.
    FutexWake {
        /// The futex.
        futex: Which,
        /// At most this many.
        count: u32,
    },
    /// Sleep on a condition, giving up and retaking a mutex.
    CondWait {
        /// The condition.
        condition: Which,
        /// The mutex.
        mutex: Which,
    },
    /// Wake one sleeper of a condition.
    CondSignal(Which),
    /// Wake all sleepers of a condition.
    CondBroadcast(Which),
    /// Meet the others at a barrier.
    Barrier(Which),
    /// Write into a channel, sleeping while it is full.
    Write {
        /// The channel.
        channel: Which,
        /// Message size.
        bytes: u64,
    },
    /// Read from a channel, sleeping until the whole message is there.
    Read {
        /// The channel.
        channel: Which,
        /// Message size.
        bytes: u64,
    },
    /// Hand a request to a device and sleep until it is done (`io_schedule()`): the device's
    /// interrupt comes to the CPU from which the request went.
    Io {
        /// An object of kind [`ObjectKind::Device`].
        device: Which,
        /// What the device needs for it, ns.
        service_ns: Amount,
    },
    /// Put oneself on a mailbox's list, waking its server if it sleeps.
    Post(Which),
    /// Sleep until served, unless that happened since the [`Op::Post`].
    AwaitServed {
        /// The mailbox.
        mailbox: Which,
        /// Receives the time at which the server began to go through its list.
        slot: Slot,
    },
    /// Sleep until somebody is on a mailbox's list.
    AwaitPosted(Which),
    /// Take everybody off a mailbox's list and wake them, the latest first.
    Serve(Which),
    /// Spin, using the CPU, until a flag is set.
    SpinUntil(Which),
    /// Set a flag.
    SetFlag(Which),
    /// `sched_yield()`.
    Yield,
    /// Change the CPUs that the task may use (`sched_setaffinity()`), by the place of the new set
    /// in [`Attributes::other_affinities`].
    SetAffinity {
        /// That place.
        to: u32,
    },
    /// From here to the [`Op::MigrateEnable`] that belongs to it the task stays on its CPU, though it
    /// may be preempted or sleep there (`migrate_disable()`). Such sections may stand within one
    /// another, but every way to an operation must lead through equally many of them.
    MigrateDisable,
    /// The end of such a section (`migrate_enable()`).
    MigrateEnable,
    /// Enter the kernel so often and come back at once, as with a device that swallows what is
    /// written to it.
    SystemCalls(u64),
    /// Create `count` tasks that run a program.
    Fork {
        /// Their program.
        program: ProgramId,
        /// How many.
        count: u32,
        /// A thread shares the address space and is cheaper to create than a process.
        thread: bool,
    },
    /// Replace the program in memory, which is a chance to move to another CPU; the task goes on
    /// with the next operation.
    Exec,
    /// Wait until all tasks that this one created have ended.
    Join,
    /// End.
    Exit,
    /// End with all tasks of the workload (`exit_group()` of the main task): the run is over.
    ExitGroup,
    /// Touch a cache line `count` times in a row.
    Touch {
        /// The line.
        line: Which,
        /// How.
        access: Access,
        /// How often.
        count: u32,
    },
    /// Go through a block `passes` times, at the speed that its cache lines or its memory allow.
    Stream {
        /// An object of kind [`ObjectKind::Block`].
        block: Which,
        /// How often; passes that the end of the run cuts short count as far as they went.
        passes: u64,
        /// Counts the passes.
        metric: MetricId,
        /// What one pass counts.
        amount: u64,
    },
    /// Go back to operation `to` until it was done `times` in all.
    Repeat {
        /// Counts the rounds.
        slot: Slot,
        /// Index of the first operation of the loop.
        to: u32,
        /// Rounds.
        times: u64,
    },
    /// Go on with operation `to`.
    Jump {
        /// Its index.
        to: u32,
    },
    /// Add to a counting metric.
    Count {
        /// The metric.
        metric: MetricId,
        /// How much.
        amount: u64,
    },
    /// Remember the time.
    Mark(Slot),
    /// Add the time since a mark to a latency metric.
    Measure {
        /// The metric.
        metric: MetricId,
        /// The mark.
        since: Slot,
    },
    /// Add the time since a mark, less an allowance, to a latency metric.
    MeasureBeyond {
        /// The metric.
        metric: MetricId,
        /// The mark.
        since: Slot,
        /// What the time is reduced by, ns.
        allowance_ns: u64,
        /// What counts where the allowance is more than the time, ns.
        least_ns: u64,
    },
    /// Remember the time in an object that other tasks read (a [`ObjectKind::Counter`]).
    MarkShared(Which),
    /// Add the time since a shared mark to a latency metric.
    MeasureShared {
        /// The metric.
        metric: MetricId,
        /// The object that holds the mark.
        since: Which,
    },
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The task's name (`comm`, at most 15 bytes are shown).
    pub comm: String,
    /// The operations; running off their end ends the task.
    pub ops: Vec<Op>,
    /// What its tasks are like.
    pub attributes: Attributes,
}

/// A task that exists from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// Its program.
    pub program: ProgramId,
    /// The CPU on which it is created; placement goes from there.
    pub birth_cpu: u32,
    /// When, ns from the start.
    pub start_ns: u64,
    /// It is asleep on that CPU from the start, in the first operation of its program, which is
    /// [`Op::Down`] or [`Op::SleepUntil`]; `start_ns` has no meaning then.
    pub asleep: bool,
}

/// An interrupt of a device, which takes a CPU's time and may wake a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The CPU.
    pub cpu: u32,
    /// When, ns from the start.
    pub at_ns: u64,
    /// How long its handler runs, ns.
    pub length_ns: u64,
    /// The semaphore to which it adds one.
    pub raises: Option<ObjectId>,
}

/// Which direction of a figure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// How a metric's samples become a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// The count per second of simulated time between first and last use.
    Rate,
    /// The count in all.
    Total,
    /// The count, of bytes, per second as of [`MetricKind::Rate`], in MiB/s.
    MibPerS,
    /// The count, of bytes, in MiB.
    Mib,
    /// A percentile of the measured times, us.
    Percentile(f64),
    /// The mean of the measured times, us.
    Mean,
    /// The mean of the measured times, ms.
    MeanMs,
    /// The mean of the measured times, s.
    MeanS,
    /// Time from the start to the last use, s.
    Finish,
    /// A score: this much over the geometric mean of the measured times in ms, as benchmarks of
    /// phones rate them.
    Score(f64),
}

/// A figure that the workload yields.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, as the real tool's.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// How it is computed.
    pub kind: MetricKind,
    /// Samples are taken from this metric instead of its own, so that one series yields several
    /// figures.
    pub samples_of: Option<MetricId>,
}

/// Everything that runs on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Shared objects.
    pub objects: Vec<ObjectKind>,
    /// Programs.
    pub programs: Vec<Program>,
    /// Tasks that exist from the start.
    pub spawns: Vec<Spawn>,
    /// Interrupts of devices, by time.
    pub interrupts: Vec<Interrupt>,
    /// Figures.
    pub metrics: Vec<Metric>,
}

//! The table that an event becomes a row of. Arrow tables and CSV share it.

use crate::event::{Event, EventKind, PeltClass, Pid, Task};
use crate::strings::StrId;
use schedlab_machine::CpuId;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned, 64 bits.
    UInt64,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 32 bits.
    UInt32,
    /// Signed, 32 bits.
    Int32,
    /// `true` or `false`.
    Boolean,
    /// UTF-8.
    Text,
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    /// Of any of the integer types, as two's complement.
    Number(u64),
    Boolean(bool),
    Name(StrId),
    Word(&'static str),
}

macro_rules! columns {
    ($($(#[$doc:meta])* $variant:ident $name:literal $kind:ident,)*) => {
        /// A column of the event table. Apart from the first, second and fourth, a column is null
        /// (empty in CSV) for events that do not have it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Column {
            $($(#[$doc])* $variant,)*
        }

        /// All columns, in order.
        pub const COLUMNS: &[Column] = &[$(Column::$variant,)*];

        impl Column {
            /// The column's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Column::$variant => $name,)*
                }
            }

            /// What it holds.
            pub const fn column_type(self) -> ColumnType {
                match self {
                    $(Column::$variant => ColumnType::$kind,)*
                }
            }
        }
    };
}

columns! {
    /// When, ns of the trace's clock.
    Timestamp "timestamp_ns" UInt64,
    /// The CPU that recorded the event.
    Cpu "cpu" UInt32,
    /// The task that this CPU was running; null where the trace does not say.
    Pid "pid" Int32,
    /// The tracepoint's usual name; `lost_events` where the tracer dropped events.
    Event "event" Text,
    /// The task that the event is about (wakeups, migration, exit, run time, utilisation).
    TaskPid "task_pid" Int32,
    /// Its name.
    Comm "comm" Text,
    /// Its kernel priority.
    Prio "prio" Int32,
    /// `sched_switch`: the task that leaves.
    PrevPid "prev_pid" Int32,
    /// Its name.
    PrevComm "prev_comm" Text,
    /// Its kernel priority.
    PrevPrio "prev_prio" Int32,
    /// The letter of its state.
    PrevState "prev_state" Text,
    /// `sched_switch`: the task that comes.
    NextPid "next_pid" Int32,
    /// Its name.
    NextComm "next_comm" Text,
    /// Its kernel priority.
    NextPrio "next_prio" Int32,
    /// The CPU that the event is about: wakeup's target, whose idle state or frequency changes,
    /// whose utilisation it is, to which an interrupt is sent.
    TargetCpu "target_cpu" UInt32,
    /// `sched_migrate_task`: from.
    OrigCpu "orig_cpu" UInt32,
    /// `sched_migrate_task`: to.
    DestCpu "dest_cpu" UInt32,
    /// `sched_process_fork`: the forking task.
    ParentPid "parent_pid" Int32,
    /// Its name.
    ParentComm "parent_comm" Text,
    /// `sched_process_fork`: the new task.
    ChildPid "child_pid" Int32,
    /// Its name.
    ChildComm "child_comm" Text,
    /// `sched_process_exec`: the thread's id before.
    OldPid "old_pid" Int32,
    /// `sched_process_exec`: the program.
    Filename "filename" Text,
    /// `sched_stat_runtime`: time accounted, ns.
    Runtime "runtime_ns" UInt64,
    /// Idle state, shallowest 0; null when idling ends.
    State "state" UInt32,
    /// `cpu_idle_miss`: too shallow rather than too deep.
    Below "below" Boolean,
    /// `cpu_frequency`: the new frequency, kHz.
    Frequency "frequency_khz" UInt32,
    /// Interrupt number.
    Irq "irq" Int32,
    /// Name of an interrupt's handler or vector.
    Name "name" Text,
    /// Softirq number.
    Vec "vec" UInt32,
    /// Address of a timer.
    Timer "timer" UInt64,
    /// Callback of a timer or an inter-processor interrupt.
    Function "function" Text,
    /// `hrtimer_start`: hard expiry, ns of the timer's clock.
    Expires "expires_ns" Int64,
    /// `hrtimer_start`: earliest expiry, ns of the timer's clock.
    SoftExpires "soft_expires_ns" Int64,
    /// `hrtimer_expire_entry`: the timer clock's time, ns.
    Now "now_ns" Int64,
    /// `timer_start`: expiry, jiffies.
    ExpiresJiffies "expires_jiffies" UInt64,
    /// `timer_start`, `timer_expire_entry`: the time, jiffies.
    NowJiffies "now_jiffies" UInt64,
    /// `timer_start`: does not wake an idle CPU.
    Deferrable "deferrable" Boolean,
    /// `tick_stop`: whether the tick stopped.
    Success "success" Boolean,
    /// `tick_stop`: what needs the tick (`TICK_DEP_MASK_*`).
    Dependency "dependency" UInt32,
    /// `load_avg`.
    Load "load_avg" UInt32,
    /// `runnable_avg`.
    Runnable "runnable_avg" UInt32,
    /// `util_avg`.
    Util "util_avg" UInt32,
    /// `util_est`.
    UtilEst "util_est" UInt32,
    /// `last_update_time` of a utilisation event, ns of the run queue's PELT clock.
    LastUpdate "last_update_time_ns" UInt64,
    /// Runnable tasks of the CPU.
    NrRunning "nr_running" UInt32,
    /// How many events the tracer dropped here; 0 where the file does not say.
    LostEvents "lost_events" UInt64,
}

/// The name in the column `event`.
pub(super) fn event_name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Switch { .. } => "sched_switch",
        EventKind::Waking { .. } => "sched_waking",
        EventKind::Wakeup { .. } => "sched_wakeup",
        EventKind::WakeupNew { .. } => "sched_wakeup_new",
        EventKind::Migrate { .. } => "sched_migrate_task",
        EventKind::Fork { .. } => "sched_process_fork",
        EventKind::Exec { .. } => "sched_process_exec",
        EventKind::Exit { .. } => "sched_process_exit",
        EventKind::StatRuntime { .. } => "sched_stat_runtime",
        EventKind::IdleEnter { .. } | EventKind::IdleExit { .. } => "cpu_idle",
        EventKind::IdleMiss { .. } => "cpu_idle_miss",
        EventKind::Frequency { .. } => "cpu_frequency",
        EventKind::IrqEntry { .. } => "irq_handler_entry",
        EventKind::IrqExit { .. } => "irq_handler_exit",
        EventKind::VectorEntry { .. } => "vector_entry",
        EventKind::VectorExit { .. } => "vector_exit",
        EventKind::SoftirqRaise { .. } => "softirq_raise",
        EventKind::SoftirqEntry { .. } => "softirq_entry",
        EventKind::SoftirqExit { .. } => "softirq_exit",
        EventKind::HrtimerStart { .. } => "hrtimer_start",
        EventKind::HrtimerExpireEntry { .. } => "hrtimer_expire_entry",
        EventKind::HrtimerExpireExit { .. } => "hrtimer_expire_exit",
        EventKind::HrtimerCancel { .. } => "hrtimer_cancel",
        EventKind::TimerStart { .. } => "timer_start",
        EventKind::TimerExpireEntry { .. } => "timer_expire_entry",
        EventKind::TimerCancel { .. } => "timer_cancel",
        EventKind::TickStop { .. } => "tick_stop",
        EventKind::IpiSend { target_cpu: Some(_), .. } => "ipi_send_cpu",
        EventKind::IpiSend { target_cpu: None, .. } => "ipi_send_cpumask",
        EventKind::WakeIdleWithoutIpi { .. } => "sched_wake_idle_without_ipi",
        EventKind::PeltCpu { class, .. } => match class {
            PeltClass::Fair => "pelt_cfs",
            PeltClass::Rt => "pelt_rt",
            PeltClass::Deadline => "pelt_dl",
            PeltClass::Irq => "pelt_irq",
            PeltClass::Hardware => "pelt_hw",
        },
        EventKind::PeltTask { .. } => "pelt_se",
        EventKind::UtilEstCpu { .. } => "util_est_cfs",
        EventKind::UtilEstTask { .. } => "util_est_se",
        EventKind::NrRunning { .. } => "sched_update_nr_running",
        EventKind::Lost { .. } => "lost_events",
    }
}

/// Sets cells of a row, each column at most once and in the order of [`COLUMNS`].
pub(super) struct Cells<F>(pub(super) F);

impl<F: FnMut(Column, Cell)> Cells<F> {
    /// Hands out the cells of `event`'s row that are not null.
    pub(super) fn of(&mut self, event: &Event) {
        self.number(Column::Timestamp, event.timestamp_ns);
        self.cpu(Column::Cpu, event.cpu);
        if event.pid != Pid::UNKNOWN {
            self.signed(Column::Pid, event.pid.0);
        }
        self.0(Column::Event, Cell::Word(event_name(&event.kind)));
        match event.kind {
            EventKind::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                self.task(Column::PrevPid, Column::PrevComm, prev);
                self.signed(Column::PrevPrio, prev_prio);
                self.0(Column::PrevState, Cell::Word(prev_state.letter()));
                self.task(Column::NextPid, Column::NextComm, next);
                self.signed(Column::NextPrio, next_prio);
            }
            EventKind::Waking { task, prio, target_cpu }
            | EventKind::Wakeup { task, prio, target_cpu }
            | EventKind::WakeupNew { task, prio, target_cpu } => {
                self.task(Column::TaskPid, Column::Comm, task);
                self.signed(Column::Prio, prio);
                self.cpu(Column::TargetCpu, target_cpu);
            }
            EventKind::Migrate { task, prio, from_cpu, to_cpu } => {
                self.task(Column::TaskPid, Column::Comm, task);
                self.signed(Column::Prio, prio);
                self.cpu(Column::OrigCpu, from_cpu);
                self.cpu(Column::DestCpu, to_cpu);
            }
            EventKind::Fork { parent, child } => {
                self.task(Column::ParentPid, Column::ParentComm, parent);
                self.task(Column::ChildPid, Column::ChildComm, child);
            }
            EventKind::Exec { pid, old_pid, filename } => {
                self.signed(Column::TaskPid, pid.0);
                self.signed(Column::OldPid, old_pid.0);
                self.0(Column::Filename, Cell::Name(filename));
            }
            EventKind::Exit { task } => self.task(Column::TaskPid, Column::Comm, task),
            EventKind::StatRuntime { task, runtime_ns } => {
                self.task(Column::TaskPid, Column::Comm, task);
                self.number(Column::Runtime, runtime_ns);
            }
            EventKind::IdleEnter { cpu, state } => {
                self.cpu(Column::TargetCpu, cpu);
                self.number(Column::State, state);
            }
            EventKind::IdleExit { cpu } => self.cpu(Column::TargetCpu, cpu),
            EventKind::IdleMiss { cpu, state, below } => {
                self.cpu(Column::TargetCpu, cpu);
                self.number(Column::State, state);
                self.0(Column::Below, Cell::Boolean(below));
            }
            EventKind::Frequency { cpu, frequency_khz } => {
                self.cpu(Column::TargetCpu, cpu);
                self.number(Column::Frequency, frequency_khz);
            }
            EventKind::Lost { count } => self.number(Column::LostEvents, count),
            _ => self.interrupt_or_timer(&event.kind),
        }
    }

    fn interrupt_or_timer(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::IrqEntry { irq, name } => {
                self.signed(Column::Irq, irq);
                self.0(Column::Name, Cell::Name(name));
            }
            EventKind::IrqExit { irq } => self.signed(Column::Irq, irq),
            EventKind::VectorEntry { name } | EventKind::VectorExit { name } => {
                self.0(Column::Name, Cell::Name(name));
            }
            EventKind::SoftirqRaise { vec }
            | EventKind::SoftirqEntry { vec }
            | EventKind::SoftirqExit { vec } => self.number(Column::Vec, vec),
            EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns } => {
                self.number(Column::Timer, timer);
                self.0(Column::Function, Cell::Name(function));
                self.signed(Column::Expires, expires_ns);
                self.signed(Column::SoftExpires, soft_expires_ns);
            }
            EventKind::HrtimerExpireEntry { timer, function, now_ns } => {
                self.number(Column::Timer, timer);
                self.0(Column::Function, Cell::Name(function));
                self.signed(Column::Now, now_ns);
            }
            EventKind::HrtimerExpireExit { timer }
            | EventKind::HrtimerCancel { timer }
            | EventKind::TimerCancel { timer } => self.number(Column::Timer, timer),
            EventKind::TimerStart { timer, function, expires_jiffies, now_jiffies, deferrable } => {
                self.number(Column::Timer, timer);
                self.0(Column::Function, Cell::Name(function));
                self.number(Column::ExpiresJiffies, expires_jiffies);
                self.number(Column::NowJiffies, now_jiffies);
                self.0(Column::Deferrable, Cell::Boolean(deferrable));
            }
            EventKind::TimerExpireEntry { timer, function, now_jiffies } => {
                self.number(Column::Timer, timer);
                self.0(Column::Function, Cell::Name(function));
                self.number(Column::NowJiffies, now_jiffies);
            }
            EventKind::TickStop { success, dependency } => {
                self.0(Column::Success, Cell::Boolean(success));
                self.number(Column::Dependency, dependency);
            }
            EventKind::IpiSend { target_cpu, callback } => {
                if let Some(cpu) = target_cpu {
                    self.cpu(Column::TargetCpu, cpu);
                }
                self.0(Column::Function, Cell::Name(callback));
            }
            EventKind::WakeIdleWithoutIpi { target_cpu } => {
                self.cpu(Column::TargetCpu, target_cpu);
            }
            _ => self.utilisation(kind),
        }
    }

    fn utilisation(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::PeltCpu { cpu, load, runnable, util, last_update_time_ns, .. } => {
                self.cpu(Column::TargetCpu, cpu);
                self.averages(load, runnable, util, last_update_time_ns);
            }
            EventKind::PeltTask { pid, cpu, load, runnable, util, last_update_time_ns } => {
                self.signed(Column::TaskPid, pid.0);
                self.cpu(Column::TargetCpu, cpu);
                self.averages(load, runnable, util, last_update_time_ns);
            }
            EventKind::UtilEstCpu { cpu, util, util_est } => {
                self.cpu(Column::TargetCpu, cpu);
                self.number(Column::Util, util);
                self.number(Column::UtilEst, util_est);
            }
            EventKind::UtilEstTask { pid, util, util_est } => {
                self.signed(Column::TaskPid, pid.0);
                self.number(Column::Util, util);
                self.number(Column::UtilEst, util_est);
            }
            EventKind::NrRunning { cpu, nr_running } => {
                self.cpu(Column::TargetCpu, cpu);
                self.number(Column::NrRunning, nr_running);
            }
            _ => {}
        }
    }

    fn averages(&mut self, load: u32, runnable: u32, util: u32, last_update_time_ns: u64) {
        self.number(Column::Load, load);
        self.number(Column::Runnable, runnable);
        self.number(Column::Util, util);
        self.number(Column::LastUpdate, last_update_time_ns);
    }

    fn number(&mut self, column: Column, value: impl Into<u64>) {
        self.0(column, Cell::Number(value.into()));
    }

    fn signed(&mut self, column: Column, value: impl Into<i64>) {
        self.0(column, Cell::Number(value.into() as u64));
    }

    fn cpu(&mut self, column: Column, cpu: CpuId) {
        self.number(column, cpu.0);
    }

    fn task(&mut self, pid: Column, comm: Column, task: Task) {
        self.signed(pid, task.pid.0);
        self.0(comm, Cell::Name(task.comm));
    }
}

//! From a record's bytes to an [`EventKind`]: one small program per event type, compiled from the
//! trace's own format text, so that every layout from Linux 3.x to 6.x is the same code.

mod compile;
mod decode;

use super::access::{Abi, BytesField, IntField};
use super::event_format::EventFormat;
use super::names::NameTable;
use super::print_fmt::StateMap;
use super::utilisation::Utilisation;
use crate::event::{EventKind, Pid, Task};
use schedlab_machine::CpuId;

pub(crate) use compile::X86_VECTORS;

/// Decodes the records of one event type.
#[derive(Clone, Debug)]
pub struct Decoder {
    program: Program,
}

impl Decoder {
    /// Compiles a format. `None` for an event type outside the schema, or one that lacks a field
    /// without which the event would say nothing: its records are then counted only.
    pub fn compile(format: &EventFormat, abi: Abi) -> Option<Decoder> {
        Some(Decoder { program: Program::compile(&Fields { format, abi })? })
    }

    /// What the record says. `cpu` is the CPU that recorded it. `None` for a record that is too
    /// short, or that is no such event after all (a wakeup without success, a task group's PELT
    /// values).
    #[inline]
    pub fn decode(&self, record: &[u8], cpu: CpuId, names: &mut NameTable) -> Option<EventKind> {
        self.program.decode(record, cpu, names)
    }
}

/// Finds fields of one format.
pub(in crate::format) struct Fields<'a> {
    pub(in crate::format) format: &'a EventFormat,
    pub(in crate::format) abi: Abi,
}

impl Fields<'_> {
    pub(in crate::format) fn int(&self, names: &[&str]) -> Option<IntField> {
        IntField::of(self.format, self.abi, names)
    }

    pub(in crate::format) fn bytes(&self, names: &[&str]) -> Option<BytesField> {
        BytesField::of(self.format, self.abi, names)
    }

    fn task(&self, comm: &str, pid: &str) -> Option<TaskFields> {
        Some(TaskFields { comm: self.bytes(&[comm])?, pid: self.int(&[pid])? })
    }
}

/// A task's name and id.
#[derive(Clone, Copy, Debug)]
struct TaskFields {
    comm: BytesField,
    pid: IntField,
}

impl TaskFields {
    #[inline]
    fn get(&self, record: &[u8], names: &mut NameTable) -> Option<Task> {
        let pid = Pid(self.pid.get_i32(record)?);
        Some(Task { pid, comm: names.comm(self.comm.get(record)?) })
    }
}

/// The three wakeup events share their fields.
#[derive(Clone, Copy, Debug)]
enum WakeStep {
    Waking,
    Wakeup,
    WakeupNew,
}

#[derive(Clone, Debug)]
enum Program {
    Switch {
        prev: TaskFields,
        prev_prio: IntField,
        prev_state: IntField,
        states: Box<StateMap>,
        next: TaskFields,
        next_prio: IntField,
    },
    Wake {
        step: WakeStep,
        task: TaskFields,
        prio: IntField,
        success: Option<IntField>,
        target_cpu: IntField,
    },
    Migrate {
        task: TaskFields,
        prio: IntField,
        from_cpu: IntField,
        to_cpu: IntField,
    },
    Fork {
        parent: TaskFields,
        child: TaskFields,
    },
    Exec {
        pid: IntField,
        old_pid: IntField,
        filename: BytesField,
    },
    Exit {
        task: TaskFields,
    },
    StatRuntime {
        task: TaskFields,
        runtime_ns: IntField,
    },
    Idle {
        cpu: IntField,
        state: IntField,
    },
    IdleMiss {
        cpu: IntField,
        state: IntField,
        below: IntField,
    },
    Frequency {
        cpu: IntField,
        frequency_khz: IntField,
    },
    IrqEntry {
        irq: IntField,
        name: BytesField,
    },
    IrqExit {
        irq: IntField,
    },
    Vector {
        name: VectorName,
        entry: bool,
    },
    SoftirqRaise {
        vec: IntField,
    },
    SoftirqEntry {
        vec: IntField,
    },
    SoftirqExit {
        vec: IntField,
    },
    HrtimerStart {
        timer: IntField,
        function: IntField,
        expires_ns: IntField,
        soft_expires_ns: Option<IntField>,
    },
    HrtimerExpireEntry {
        timer: IntField,
        function: Option<IntField>,
        now_ns: IntField,
    },
    HrtimerExpireExit {
        timer: IntField,
    },
    HrtimerCancel {
        timer: IntField,
    },
    TimerStart {
        timer: IntField,
        function: IntField,
        expires_jiffies: IntField,
        now_jiffies: Option<IntField>,
        flags: Option<IntField>,
        deferrable: u64,
    },
    TimerExpireEntry {
        timer: IntField,
        function: Option<IntField>,
        now_jiffies: IntField,
    },
    TimerCancel {
        timer: IntField,
    },
    TickStop {
        success: IntField,
        dependency: Option<IntField>,
    },
    IpiSendCpu {
        target_cpu: IntField,
        callback: Option<IntField>,
    },
    IpiSendMask {
        mask: BytesField,
        callback: Option<IntField>,
    },
    IpiRaise {
        mask: BytesField,
        reason: Option<IntField>,
    },
    WakeIdleWithoutIpi {
        target_cpu: IntField,
    },
    Utilisation(Utilisation),
}

/// Where an interrupt vector's name comes from.
#[derive(Clone, Debug)]
enum VectorName {
    /// The tracepoint's own name.
    Fixed(Box<str>),
    /// A pointer to a constant text.
    Reason(IntField),
}

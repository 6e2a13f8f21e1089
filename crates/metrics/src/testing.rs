//! Events for tests, in few words.

use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Pid, StrId, Task, TaskState};

/// `kind` on CPU `cpu` at `timestamp_ns`, in a record that does not say what the CPU runs.
pub(crate) fn at(timestamp_ns: u64, cpu: u32, kind: EventKind) -> Event {
    Event { timestamp_ns, cpu: CpuId(cpu), pid: Pid::UNKNOWN, kind }
}

/// As [`at`], in the context of task `pid`.
pub(crate) fn by(pid: i32, timestamp_ns: u64, cpu: u32, kind: EventKind) -> Event {
    Event { pid: Pid(pid), ..at(timestamp_ns, cpu, kind) }
}

/// A task whose name is told by its id.
pub(crate) fn task(pid: i32) -> Task {
    Task { pid: Pid(pid), comm: StrId(pid.unsigned_abs()) }
}

pub(crate) fn switch(prev: i32, prev_state: TaskState, next: i32) -> EventKind {
    let (prev, next) = (task(prev), task(next));
    EventKind::Switch { prev, prev_prio: 120, prev_state, next, next_prio: 120 }
}

pub(crate) fn waking(pid: i32) -> EventKind {
    EventKind::Waking { task: task(pid), prio: 120, target_cpu: CpuId(0) }
}

pub(crate) fn wakeup(pid: i32) -> EventKind {
    EventKind::Wakeup { task: task(pid), prio: 120, target_cpu: CpuId(0) }
}

pub(crate) fn wakeup_new(pid: i32) -> EventKind {
    EventKind::WakeupNew { task: task(pid), prio: 120, target_cpu: CpuId(0) }
}

pub(crate) fn khz(cpu: u32, frequency_khz: u32) -> EventKind {
    EventKind::Frequency { cpu: CpuId(cpu), frequency_khz }
}

pub(crate) fn enter(cpu: u32, state: u32) -> EventKind {
    EventKind::IdleEnter { cpu: CpuId(cpu), state }
}

pub(crate) fn exit(cpu: u32) -> EventKind {
    EventKind::IdleExit { cpu: CpuId(cpu) }
}

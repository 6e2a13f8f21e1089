//! Running a compiled program over a record.

use super::{Program, VectorName, WakeStep};
use crate::event::{EventKind, Pid};
use crate::format::NameTable;
use crate::format::access::{BytesField, IntField};
use crate::strings::StrId;
use schedlab_machine::{CPUS_MAX, CpuId};

impl Program {
    #[inline]
    pub(super) fn decode(
        &self,
        record: &[u8],
        cpu: CpuId,
        names: &mut NameTable,
    ) -> Option<EventKind> {
        match self {
            Program::Switch { prev, prev_prio, prev_state, states, next, next_prio } => {
                Some(EventKind::Switch {
                    prev: prev.get(record, names)?,
                    prev_prio: prev_prio.get_i32(record)?,
                    prev_state: states.state(prev_state.get(record)?),
                    next: next.get(record, names)?,
                    next_prio: next_prio.get_i32(record)?,
                })
            }
            Program::Wake { step, task, prio, success, target_cpu } => {
                if success.is_some_and(|success| success.get(record) == Some(0)) {
                    return None;
                }
                let task = task.get(record, names)?;
                let prio = prio.get_i32(record)?;
                let target_cpu = target_cpu.get_cpu(record)?;
                Some(match step {
                    WakeStep::Waking => EventKind::Waking { task, prio, target_cpu },
                    WakeStep::Wakeup => EventKind::Wakeup { task, prio, target_cpu },
                    WakeStep::WakeupNew => EventKind::WakeupNew { task, prio, target_cpu },
                })
            }
            Program::Migrate { task, prio, from_cpu, to_cpu } => Some(EventKind::Migrate {
                task: task.get(record, names)?,
                prio: prio.get_i32(record)?,
                from_cpu: from_cpu.get_cpu(record)?,
                to_cpu: to_cpu.get_cpu(record)?,
            }),
            Program::Fork { parent, child } => Some(EventKind::Fork {
                parent: parent.get(record, names)?,
                child: child.get(record, names)?,
            }),
            Program::Exec { pid, old_pid, filename } => Some(EventKind::Exec {
                pid: Pid(pid.get_i32(record)?),
                old_pid: Pid(old_pid.get_i32(record)?),
                filename: names.text(filename.get(record)?),
            }),
            Program::Exit { task } => Some(EventKind::Exit { task: task.get(record, names)? }),
            Program::StatRuntime { task, runtime_ns } => Some(EventKind::StatRuntime {
                task: task.get(record, names)?,
                runtime_ns: runtime_ns.get(record)?,
            }),
            Program::Idle { cpu, state } => {
                let cpu = cpu.get_cpu(record)?;
                Some(match state.get_u32(record)? {
                    u32::MAX => EventKind::IdleExit { cpu },
                    state => EventKind::IdleEnter { cpu, state },
                })
            }
            Program::IdleMiss { cpu, state, below } => Some(EventKind::IdleMiss {
                cpu: cpu.get_cpu(record)?,
                state: state.get_u32(record)?,
                below: below.get(record)? != 0,
            }),
            Program::Frequency { cpu, frequency_khz } => Some(EventKind::Frequency {
                cpu: cpu.get_cpu(record)?,
                frequency_khz: frequency_khz.get_u32(record)?,
            }),
            Program::IrqEntry { irq, name } => Some(EventKind::IrqEntry {
                irq: irq.get_i32(record)?,
                name: names.text(name.get(record)?),
            }),
            Program::IrqExit { irq } => Some(EventKind::IrqExit { irq: irq.get_i32(record)? }),
            Program::Vector { name, entry } => {
                let name = name.get(record, names)?;
                Some(if *entry {
                    EventKind::VectorEntry { name }
                } else {
                    EventKind::VectorExit { name }
                })
            }
            Program::SoftirqRaise { vec } => {
                Some(EventKind::SoftirqRaise { vec: vec.get_u32(record)? })
            }
            Program::SoftirqEntry { vec } => {
                Some(EventKind::SoftirqEntry { vec: vec.get_u32(record)? })
            }
            Program::SoftirqExit { vec } => {
                Some(EventKind::SoftirqExit { vec: vec.get_u32(record)? })
            }
            Program::HrtimerStart { timer, function, expires_ns, soft_expires_ns } => {
                let expires_ns = expires_ns.get(record)? as i64;
                let soft = soft_expires_ns.and_then(|soft| soft.get(record));
                Some(EventKind::HrtimerStart {
                    timer: timer.get(record)?,
                    function: names.function(function.get(record)?),
                    expires_ns,
                    soft_expires_ns: soft.map_or(expires_ns, |soft| soft as i64),
                })
            }
            Program::HrtimerExpireEntry { timer, function, now_ns } => {
                Some(EventKind::HrtimerExpireEntry {
                    timer: timer.get(record)?,
                    function: function_name(*function, record, names)?,
                    now_ns: now_ns.get(record)? as i64,
                })
            }
            Program::HrtimerExpireExit { timer } => {
                Some(EventKind::HrtimerExpireExit { timer: timer.get(record)? })
            }
            Program::HrtimerCancel { timer } => {
                Some(EventKind::HrtimerCancel { timer: timer.get(record)? })
            }
            Program::TimerStart {
                timer,
                function,
                expires_jiffies,
                now_jiffies,
                flags,
                deferrable,
            } => Some(EventKind::TimerStart {
                timer: timer.get(record)?,
                function: names.function(function.get(record)?),
                expires_jiffies: expires_jiffies.get(record)?,
                now_jiffies: now_jiffies.and_then(|now| now.get(record)).unwrap_or(0),
                deferrable: flags
                    .and_then(|flags| flags.get(record))
                    .is_some_and(|flags| flags & deferrable != 0),
            }),
            Program::TimerExpireEntry { timer, function, now_jiffies } => {
                Some(EventKind::TimerExpireEntry {
                    timer: timer.get(record)?,
                    function: function_name(*function, record, names)?,
                    now_jiffies: now_jiffies.get(record)?,
                })
            }
            Program::TimerCancel { timer } => {
                Some(EventKind::TimerCancel { timer: timer.get(record)? })
            }
            Program::TickStop { success, dependency } => Some(EventKind::TickStop {
                success: success.get(record)? != 0,
                dependency: dependency
                    .and_then(|dependency| dependency.get_u32(record))
                    .unwrap_or(0),
            }),
            Program::IpiSendCpu { target_cpu, callback } => Some(EventKind::IpiSend {
                target_cpu: Some(target_cpu.get_cpu(record)?),
                callback: function_name(*callback, record, names)?,
            }),
            Program::IpiSendMask { mask, callback } => Some(EventKind::IpiSend {
                target_cpu: only_cpu(mask, record)?,
                callback: function_name(*callback, record, names)?,
            }),
            Program::IpiRaise { mask, reason } => Some(EventKind::IpiSend {
                target_cpu: only_cpu(mask, record)?,
                callback: match reason {
                    Some(reason) => constant_text(*reason, record, names)?,
                    None => StrId::EMPTY,
                },
            }),
            Program::WakeIdleWithoutIpi { target_cpu } => {
                Some(EventKind::WakeIdleWithoutIpi { target_cpu: target_cpu.get_cpu(record)? })
            }
            Program::Utilisation(utilisation) => utilisation.decode(record, cpu),
        }
    }
}

impl VectorName {
    fn get(&self, record: &[u8], names: &mut NameTable) -> Option<StrId> {
        match self {
            VectorName::Fixed(name) => Some(names.intern(name.as_bytes())),
            VectorName::Reason(reason) => constant_text(*reason, record, names),
        }
    }
}

fn function_name(
    function: Option<IntField>,
    record: &[u8],
    names: &mut NameTable,
) -> Option<StrId> {
    match function {
        Some(function) => Some(names.function(function.get(record)?)),
        None => Some(StrId::EMPTY),
    }
}

/// A constant text by its address; `ipi` where the trace lacks the text, so that entry and exit
/// still pair up.
fn constant_text(field: IntField, record: &[u8], names: &mut NameTable) -> Option<StrId> {
    let address = field.get(record)?;
    Some(names.constant(address).unwrap_or_else(|| names.intern(b"ipi")))
}

/// The one CPU of a bit mask of C longs, or `None` inside for any other number of CPUs.
fn only_cpu(mask: &BytesField, record: &[u8]) -> Option<Option<CpuId>> {
    let bytes = mask.get(record)?;
    let abi = mask.abi();
    let long_size = usize::from(abi.long_size);
    let mut only = None;
    for (index, long) in bytes.chunks_exact(long_size).enumerate() {
        let bits = abi.long_at(long, 0)?;
        match (bits.count_ones(), only) {
            (0, _) => {}
            (1, None) => only = Some(index * long_size * 8 + bits.trailing_zeros() as usize),
            _ => return Some(None),
        }
    }
    match only {
        Some(cpu) if cpu >= CPUS_MAX => None,
        only => Some(only.map(|cpu| CpuId(cpu as u32))),
    }
}

//! From an [`EventKind`] to the fields of its tracepoint: the reverse of the reader's decoding.

use super::message::Message;
use crate::event::{Event, EventKind, PeltClass, Task};
use crate::perfetto::names::field;
use crate::perfetto::points::Point;
use crate::perfetto::states::PrevStates;
use crate::strings::{StrId, Strings};

/// Addresses are above this; below it are the numbers by which names are interned.
const ADDRESS_MIN: u64 = 1 << 32;

/// One field's value.
#[derive(Clone, Copy, Debug)]
enum Field {
    Absent,
    Unsigned(u64),
    Signed(i64),
    Text(StrId),
    /// A function: by interning number where the tracepoint is typed, else by name.
    Function(StrId),
}

/// A tracepoint's fields, in the order of their numbers.
struct Encoded {
    point: Point,
    /// The event's name where the point has several.
    name: Option<String>,
    fields: [Field; 8],
}

fn encoded<const N: usize>(point: Point, values: [Field; N]) -> Encoded {
    let mut fields = [Field::Absent; 8];
    fields[..N].copy_from_slice(&values);
    Encoded { point, name: None, fields }
}

/// Encodes events, and notes which function names they refer to.
#[derive(Debug)]
pub(super) struct Encoder {
    states: PrevStates,
    /// By [`StrId`]: the name has been written as an interned symbol.
    symbols_written: Vec<bool>,
    /// `InternedData` with the symbols that the next packet brings.
    pub(super) new_symbols: Message,
}

impl Encoder {
    pub(super) fn new(states: PrevStates) -> Encoder {
        Encoder { states, symbols_written: Vec::new(), new_symbols: Message::default() }
    }

    /// Appends `event` to a bundle; nothing for a mark of lost events, which is no event.
    pub(super) fn event(&mut self, bundle: &mut Message, event: &Event, strings: &Strings) {
        let Some(encoded) = self.encode(&event.kind, strings) else { return };
        bundle.nested(2, |message| {
            message.number(1, event.timestamp_ns);
            message.number(2, u64::from(event.pid.0 as u32));
            match encoded.point.field().filter(|_| encoded.name.is_none()) {
                Some(number) => message.nested(number, |body| {
                    self.typed(body, &encoded.fields, strings);
                }),
                None => message.nested(field::GENERIC, |body| generic(body, &encoded, strings)),
            }
        });
    }

    fn typed(&mut self, body: &mut Message, fields: &[Field], strings: &Strings) {
        for (number, &value) in (1..).zip(fields) {
            match value {
                Field::Absent => {}
                Field::Unsigned(value) => body.number(number, value),
                Field::Signed(value) => body.number(number, value as u64),
                Field::Text(id) => body.text(number, strings.get(id).as_bytes()),
                Field::Function(id) => body.number(number, self.symbol(id, strings)),
            }
        }
    }

    /// The number that stands for a function: its address if that is all that is known, else the
    /// number of its name, which is interned on first use.
    fn symbol(&mut self, id: StrId, strings: &Strings) -> u64 {
        if id == StrId::EMPTY {
            return 0;
        }
        let name = strings.get(id);
        let address = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if let Some(address) = address.filter(|&address| address >= ADDRESS_MIN) {
            return address;
        }
        let index = id.0 as usize;
        if self.symbols_written.len() <= index {
            self.symbols_written.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.symbols_written[index], true) {
            // InternedData.kernel_symbols: InternedString.
            self.new_symbols.nested(26, |symbol| {
                symbol.number(1, u64::from(id.0));
                symbol.text(2, name.as_bytes());
            });
        }
        u64::from(id.0)
    }

    fn encode(&self, kind: &EventKind, strings: &Strings) -> Option<Encoded> {
        use Field::{Absent, Text};
        let pid = |task: Task| Field::Signed(i64::from(task.pid.0));
        let wake = |point, task: Task, prio: i32, target_cpu: u32| {
            encoded(point, [Text(task.comm), pid(task), signed(prio), Absent, unsigned(target_cpu)])
        };
        Some(match *kind {
            EventKind::Switch { prev, prev_prio, prev_state, next, next_prio } => encoded(
                Point::Switch,
                [
                    Text(prev.comm),
                    pid(prev),
                    signed(prev_prio),
                    Field::Signed(self.states.encode(prev_state)),
                    Text(next.comm),
                    pid(next),
                    signed(next_prio),
                ],
            ),
            EventKind::Waking { task, prio, target_cpu } => {
                wake(Point::Waking, task, prio, target_cpu.0)
            }
            EventKind::Wakeup { task, prio, target_cpu } => {
                wake(Point::Wakeup, task, prio, target_cpu.0)
            }
            EventKind::WakeupNew { task, prio, target_cpu } => {
                wake(Point::WakeupNew, task, prio, target_cpu.0)
            }
            EventKind::Migrate { task, prio, from_cpu, to_cpu } => encoded(
                Point::Migrate,
                [
                    Text(task.comm),
                    pid(task),
                    signed(prio),
                    unsigned(from_cpu.0),
                    unsigned(to_cpu.0),
                ],
            ),
            EventKind::Fork { parent, child } => {
                encoded(Point::Fork, [Text(parent.comm), pid(parent), Text(child.comm), pid(child)])
            }
            EventKind::Exec { pid, old_pid, filename } => {
                encoded(Point::Exec, [Text(filename), signed(pid.0), signed(old_pid.0)])
            }
            EventKind::Exit { task } => encoded(Point::Exit, [Text(task.comm), pid(task)]),
            EventKind::StatRuntime { task, runtime_ns } => {
                encoded(Point::StatRuntime, [Text(task.comm), pid(task), unsigned(runtime_ns)])
            }
            EventKind::IdleEnter { cpu, state } => {
                encoded(Point::Idle, [unsigned(state), unsigned(cpu.0)])
            }
            EventKind::IdleExit { cpu } => {
                encoded(Point::Idle, [unsigned(u32::MAX), unsigned(cpu.0)])
            }
            EventKind::IdleMiss { cpu, state, below } => {
                encoded(Point::IdleMiss, [unsigned(cpu.0), unsigned(state), unsigned(below)])
            }
            EventKind::Frequency { cpu, frequency_khz } => {
                encoded(Point::Frequency, [unsigned(frequency_khz), unsigned(cpu.0)])
            }
            EventKind::Lost { .. } => return None,
            _ => return interrupt_or_timer(kind, strings),
        })
    }
}

/// A `GenericFtraceEvent`.
fn generic(body: &mut Message, encoded: &Encoded, strings: &Strings) {
    let name = encoded.name.as_deref().unwrap_or(encoded.point.name());
    body.text(1, name.as_bytes());
    for (name, &value) in encoded.point.fields().zip(&encoded.fields) {
        if matches!(value, Field::Absent) {
            continue;
        }
        body.nested(2, |field| {
            field.text(1, name.as_bytes());
            match value {
                Field::Absent => {}
                Field::Text(id) | Field::Function(id) => field.text(3, strings.get(id).as_bytes()),
                Field::Signed(value) => field.number(4, value as u64),
                Field::Unsigned(value) => field.number(5, value),
            }
        });
    }
}

fn unsigned(value: impl Into<u64>) -> Field {
    Field::Unsigned(value.into())
}

fn signed(value: impl Into<i64>) -> Field {
    Field::Signed(value.into())
}

fn interrupt_or_timer(kind: &EventKind, strings: &Strings) -> Option<Encoded> {
    use Field::{Function, Text};
    Some(match *kind {
        EventKind::IrqEntry { irq, name } => encoded(Point::IrqEntry, [signed(irq), Text(name)]),
        EventKind::IrqExit { irq } => encoded(Point::IrqExit, [signed(irq)]),
        EventKind::VectorEntry { name } => vector(name, "_entry", strings),
        EventKind::VectorExit { name } => vector(name, "_exit", strings),
        EventKind::SoftirqRaise { vec } => encoded(Point::SoftirqRaise, [unsigned(vec)]),
        EventKind::SoftirqEntry { vec } => encoded(Point::SoftirqEntry, [unsigned(vec)]),
        EventKind::SoftirqExit { vec } => encoded(Point::SoftirqExit, [unsigned(vec)]),
        EventKind::HrtimerStart { timer, function, expires_ns, soft_expires_ns } => encoded(
            Point::HrtimerStart,
            [unsigned(timer), Function(function), signed(expires_ns), signed(soft_expires_ns)],
        ),
        EventKind::HrtimerExpireEntry { timer, function, now_ns } => encoded(
            Point::HrtimerExpireEntry,
            [unsigned(timer), signed(now_ns), Function(function)],
        ),
        EventKind::HrtimerExpireExit { timer } => {
            encoded(Point::HrtimerExpireExit, [unsigned(timer)])
        }
        EventKind::HrtimerCancel { timer } => encoded(Point::HrtimerCancel, [unsigned(timer)]),
        EventKind::TimerStart { timer, function, expires_jiffies, now_jiffies, deferrable } => {
            encoded(
                Point::TimerStart,
                [
                    unsigned(timer),
                    Function(function),
                    unsigned(expires_jiffies),
                    unsigned(now_jiffies),
                    unsigned(deferrable),
                ],
            )
        }
        EventKind::TimerExpireEntry { timer, function, now_jiffies } => encoded(
            Point::TimerExpireEntry,
            [unsigned(timer), unsigned(now_jiffies), Function(function)],
        ),
        EventKind::TimerCancel { timer } => encoded(Point::TimerCancel, [unsigned(timer)]),
        EventKind::TickStop { success, dependency } => {
            encoded(Point::TickStop, [unsigned(success), unsigned(dependency)])
        }
        EventKind::IpiSend { target_cpu: Some(cpu), callback } => {
            encoded(Point::IpiSendCpu, [unsigned(cpu.0), Function(callback)])
        }
        EventKind::IpiSend { target_cpu: None, callback } => {
            encoded(Point::IpiSendMask, [Field::Absent, Function(callback)])
        }
        EventKind::WakeIdleWithoutIpi { target_cpu } => {
            encoded(Point::WakeIdleWithoutIpi, [unsigned(target_cpu.0)])
        }
        _ => return utilisation(kind),
    })
}

/// An interrupt vector has a tracepoint of its own name; the reason of an inter-processor
/// interrupt is a field of `ipi_entry`.
fn vector(name: StrId, suffix: &str, strings: &Strings) -> Encoded {
    let (vector, ipi) = match suffix {
        "_entry" => (Point::VectorEntry, Point::IpiEntry),
        _ => (Point::VectorExit, Point::IpiExit),
    };
    let event_name = strings.get(name).to_owned() + suffix;
    if Point::of_name(&event_name) != Some(vector) {
        return encoded(ipi, [Field::Text(name)]);
    }
    // The vector's number depends on the release and no reader needs it, but a field must be there.
    let typed = event_name == vector.name();
    Encoded { name: (!typed).then_some(event_name), ..encoded(vector, [unsigned(0u32)]) }
}

fn utilisation(kind: &EventKind) -> Option<Encoded> {
    Some(match *kind {
        EventKind::PeltCpu { class, cpu, load, runnable, util, last_update_time_ns } => encoded(
            match class {
                PeltClass::Fair => Point::PeltFair,
                PeltClass::Rt => Point::PeltRt,
                PeltClass::Deadline => Point::PeltDeadline,
                PeltClass::Irq => Point::PeltIrq,
                PeltClass::Hardware => Point::PeltHardware,
            },
            [
                unsigned(cpu.0),
                unsigned(load),
                unsigned(runnable),
                unsigned(util),
                unsigned(last_update_time_ns),
            ],
        ),
        EventKind::PeltTask { pid, cpu, load, runnable, util, last_update_time_ns } => encoded(
            Point::PeltTask,
            [
                unsigned(cpu.0),
                unsigned(load),
                unsigned(runnable),
                unsigned(util),
                unsigned(last_update_time_ns),
                signed(pid.0),
            ],
        ),
        EventKind::UtilEstCpu { cpu, util, util_est } => {
            encoded(Point::UtilEstCpu, [unsigned(cpu.0), unsigned(util), unsigned(util_est)])
        }
        EventKind::UtilEstTask { pid, util, util_est } => {
            encoded(Point::UtilEstTask, [signed(pid.0), unsigned(util), unsigned(util_est)])
        }
        EventKind::NrRunning { cpu, nr_running } => {
            encoded(Point::NrRunning, [unsigned(cpu.0), unsigned(nr_running)])
        }
        _ => return None,
    })
}

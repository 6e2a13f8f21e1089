//! From the fields of one tracepoint to an [`EventKind`].

use super::points::Point;
use super::states::PrevStates;
use super::wire::Slots;
use crate::event::{EventKind, PeltClass, Pid, Task};
use crate::strings::{StrId, Strings};
use rustc_hash::FxHashMap;
use schedlab_machine::CpuId;

/// Kernel symbols of one sequence of packets that are kept at most.
const SYMBOLS_MAX: usize = 1 << 20;

/// `TIMER_DEFERRABLE` in a timer's flags, 4.8 on (`include/linux/timer.h`).
const TIMER_DEFERRABLE: u32 = 0x0008_0000;

/// `UTIL_AVG_UNCHANGED` (5.13 on): a flag in the top bit of a task's `util_est`.
const UTIL_AVG_UNCHANGED: u32 = 0x8000_0000;

/// What turns numbers of a trace into names and states.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) strings: Strings,
    pub(super) states: PrevStates,
    /// Function names by sequence and interning number (`InternedData.kernel_symbols`).
    symbols: FxHashMap<(u32, u64), StrId>,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            strings: Strings::default(),
            states: PrevStates::of_release(""),
            symbols: FxHashMap::default(),
        }
    }
}

impl Names {
    pub(super) fn add_symbol(&mut self, sequence: u32, id: u64, name: &[u8]) {
        if self.symbols.len() < SYMBOLS_MAX {
            let name = self.strings.intern(name);
            self.symbols.insert((sequence, id), name);
        }
    }

    /// Forgets the symbols of `sequence`, whose numbers start anew.
    pub(super) fn clear_symbols(&mut self, sequence: u32) {
        self.symbols.retain(|&(owner, _), _| owner != sequence);
    }

    /// A function, given by name, by interning number or by address; empty for none.
    fn function(&mut self, sequence: u32, slots: &Slots<'_>, number: usize) -> StrId {
        if !slots.text(number).is_empty() {
            return self.strings.intern(slots.text(number));
        }
        match slots.u64(number) {
            0 => StrId::EMPTY,
            id => match self.symbols.get(&(sequence, id)) {
                Some(&name) => name,
                None => self.strings.intern(format!("{id:#x}").as_bytes()),
            },
        }
    }

    /// Decodes `slots` as `point`. `None` for what is no such event after all: a wakeup without
    /// success, a task group's PELT values. `name` is the event's own name, which tells
    /// interrupt vectors apart.
    pub(super) fn decode(
        &mut self,
        point: Point,
        name: &str,
        sequence: u32,
        slots: &Slots<'_>,
    ) -> Option<EventKind> {
        let cpu = |number| CpuId(slots.u32(number));
        let intern = |names: &mut Names, number| names.strings.intern(slots.text(number));
        let task = |names: &mut Names, comm, pid| Task {
            pid: Pid(slots.i32(pid)),
            comm: intern(names, comm),
        };
        Some(match point {
            Point::Switch => EventKind::Switch {
                prev: task(self, 1, 2),
                prev_prio: slots.i32(3),
                prev_state: self.states.decode(slots.i64(4)),
                next: task(self, 5, 6),
                next_prio: slots.i32(7),
            },
            Point::Waking | Point::Wakeup | Point::WakeupNew => {
                if slots.has(4) && slots.u64(4) == 0 {
                    return None;
                }
                let (task, prio, target_cpu) = (task(self, 1, 2), slots.i32(3), cpu(5));
                match point {
                    Point::Waking => EventKind::Waking { task, prio, target_cpu },
                    Point::Wakeup => EventKind::Wakeup { task, prio, target_cpu },
                    _ => EventKind::WakeupNew { task, prio, target_cpu },
                }
            }
            Point::Migrate => EventKind::Migrate {
                task: task(self, 1, 2),
                prio: slots.i32(3),
                from_cpu: cpu(4),
                to_cpu: cpu(5),
            },
            Point::Fork => EventKind::Fork { parent: task(self, 1, 2), child: task(self, 3, 4) },
            Point::Exec => EventKind::Exec {
                pid: Pid(slots.i32(2)),
                old_pid: Pid(slots.i32(3)),
                filename: intern(self, 1),
            },
            Point::Exit => EventKind::Exit { task: task(self, 1, 2) },
            Point::StatRuntime => {
                EventKind::StatRuntime { task: task(self, 1, 2), runtime_ns: slots.u64(3) }
            }
            Point::Idle => match slots.u32(1) {
                u32::MAX => EventKind::IdleExit { cpu: cpu(2) },
                state => EventKind::IdleEnter { cpu: cpu(2), state },
            },
            Point::IdleMiss => {
                EventKind::IdleMiss { cpu: cpu(1), state: slots.u32(2), below: slots.u64(3) != 0 }
            }
            Point::Frequency => EventKind::Frequency { cpu: cpu(2), frequency_khz: slots.u32(1) },
            _ => return self.decode_interrupt_or_timer(point, name, sequence, slots),
        })
    }

    fn decode_interrupt_or_timer(
        &mut self,
        point: Point,
        name: &str,
        sequence: u32,
        slots: &Slots<'_>,
    ) -> Option<EventKind> {
        let timer = slots.u64(1);
        Some(match point {
            Point::IrqEntry => {
                EventKind::IrqEntry { irq: slots.i32(1), name: self.strings.intern(slots.text(2)) }
            }
            Point::IrqExit => EventKind::IrqExit { irq: slots.i32(1) },
            Point::IpiEntry => EventKind::VectorEntry { name: self.strings.intern(slots.text(1)) },
            Point::IpiExit => EventKind::VectorExit { name: self.strings.intern(slots.text(1)) },
            Point::VectorEntry => EventKind::VectorEntry {
                name: self.strings.intern(name.strip_suffix("_entry")?.as_bytes()),
            },
            Point::VectorExit => EventKind::VectorExit {
                name: self.strings.intern(name.strip_suffix("_exit")?.as_bytes()),
            },
            Point::SoftirqRaise => EventKind::SoftirqRaise { vec: slots.u32(1) },
            Point::SoftirqEntry => EventKind::SoftirqEntry { vec: slots.u32(1) },
            Point::SoftirqExit => EventKind::SoftirqExit { vec: slots.u32(1) },
            Point::HrtimerStart => EventKind::HrtimerStart {
                timer,
                function: self.function(sequence, slots, 2),
                expires_ns: slots.i64(3),
                soft_expires_ns: slots.i64(4),
            },
            Point::HrtimerExpireEntry => EventKind::HrtimerExpireEntry {
                timer,
                function: self.function(sequence, slots, 3),
                now_ns: slots.i64(2),
            },
            Point::HrtimerExpireExit => EventKind::HrtimerExpireExit { timer },
            Point::HrtimerCancel => EventKind::HrtimerCancel { timer },
            Point::TimerStart => EventKind::TimerStart {
                timer,
                function: self.function(sequence, slots, 2),
                expires_jiffies: slots.u64(3),
                now_jiffies: slots.u64(4),
                deferrable: slots.u64(5) != 0 || slots.u32(6) & TIMER_DEFERRABLE != 0,
            },
            Point::TimerExpireEntry => EventKind::TimerExpireEntry {
                timer,
                function: self.function(sequence, slots, 3),
                now_jiffies: slots.u64(2),
            },
            Point::TimerCancel => EventKind::TimerCancel { timer },
            Point::TickStop => {
                EventKind::TickStop { success: slots.u64(1) != 0, dependency: slots.u32(2) }
            }
            // Perfetto keeps the location word of the mask, not the mask.
            Point::IpiRaise => EventKind::IpiSend {
                target_cpu: None,
                callback: self.strings.intern(slots.text(2)),
            },
            Point::IpiSendCpu => EventKind::IpiSend {
                target_cpu: Some(CpuId(slots.u32(1))),
                callback: self.function(sequence, slots, 2),
            },
            Point::IpiSendMask => {
                EventKind::IpiSend { target_cpu: None, callback: self.function(sequence, slots, 2) }
            }
            Point::WakeIdleWithoutIpi => {
                EventKind::WakeIdleWithoutIpi { target_cpu: CpuId(slots.u32(1)) }
            }
            _ => return decode_utilisation(point, slots),
        })
    }
}

fn decode_utilisation(point: Point, slots: &Slots<'_>) -> Option<EventKind> {
    let class = match point {
        Point::PeltFair => PeltClass::Fair,
        Point::PeltRt => PeltClass::Rt,
        Point::PeltDeadline => PeltClass::Deadline,
        Point::PeltIrq => PeltClass::Irq,
        Point::PeltHardware => PeltClass::Hardware,
        Point::PeltTask => {
            let pid = slots.i32(6);
            let is_group = slots.u64(7) != 0 || !matches!(slots.text(7), b"" | b"(null)");
            return (pid > 0 && !is_group).then(|| EventKind::PeltTask {
                pid: Pid(pid),
                cpu: CpuId(slots.u32(1)),
                load: slots.u32(2),
                runnable: slots.u32(3),
                util: slots.u32(4),
                last_update_time_ns: slots.u64(5),
            });
        }
        Point::UtilEstCpu => {
            return is_root(slots.text(4)).then(|| EventKind::UtilEstCpu {
                cpu: CpuId(slots.u32(1)),
                util: slots.u32(2),
                util_est: slots.u32(3) & !UTIL_AVG_UNCHANGED,
            });
        }
        Point::UtilEstTask => {
            let pid = slots.i32(1);
            return (pid > 0).then(|| EventKind::UtilEstTask {
                pid: Pid(pid),
                util: slots.u32(2),
                util_est: slots.u32(3) & !UTIL_AVG_UNCHANGED,
            });
        }
        Point::NrRunning => {
            return Some(EventKind::NrRunning {
                cpu: CpuId(slots.u32(1)),
                nr_running: slots.u32(2),
            });
        }
        _ => return None,
    };
    is_root(slots.text(6)).then(|| EventKind::PeltCpu {
        class,
        cpu: CpuId(slots.u32(1)),
        load: slots.u32(2),
        runnable: slots.u32(3),
        util: slots.u32(4),
        last_update_time_ns: slots.u64(5),
    })
}

/// Whether the values are of a CPU's root queue rather than of a task group's.
fn is_root(path: &[u8]) -> bool {
    matches!(path, b"/" | b"" | b"(null)")
}

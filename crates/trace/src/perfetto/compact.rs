//! `FtraceEventBundle.CompactSched`: switches and wakings as parallel columns of packed numbers,
//! with times as differences and task names by index. Tracers use it by default, because it is a
//! third of the size.

use super::decode::Names;
use super::wire::{Fields, Packed};
use crate::event::{Event, EventKind, Pid, Task};
use crate::strings::StrId;
use schedlab_machine::CpuId;

/// Who runs on a CPU, as far as its last switch told: compact switches name the next task only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) prio: i32,
}

/// The columns of one bundle.
#[derive(Default)]
pub(super) struct CompactSched<'a> {
    comms: Vec<StrId>,
    switches: Columns<'a>,
    wakings: Columns<'a>,
    damaged: bool,
}

/// Four columns and the times; which numbers they hold differs between the two events.
#[derive(Clone, Copy, Default)]
struct Columns<'a> {
    time_ns: u64,
    times: Packed<'a>,
    states_or_cpus: Packed<'a>,
    pids: Packed<'a>,
    prios: Packed<'a>,
    comms: Packed<'a>,
}

struct Row {
    time_ns: u64,
    state_or_cpu: u64,
    pid: i32,
    prio: i32,
    comm: u64,
}

impl Columns<'_> {
    fn next(&mut self) -> Option<Row> {
        self.time_ns = self.time_ns.wrapping_add(self.times.next()?);
        Some(Row {
            time_ns: self.time_ns,
            state_or_cpu: self.states_or_cpus.next()?,
            pid: self.pids.next()? as i32,
            prio: self.prios.next()? as i32,
            comm: self.comms.next()?,
        })
    }

    /// Whether every column ended with the same row.
    fn is_exhausted(&self) -> bool {
        [self.times, self.states_or_cpus, self.pids, self.prios, self.comms]
            .iter()
            .all(|column| column.0.is_empty())
    }
}

impl<'a> CompactSched<'a> {
    pub(super) fn read(message: &'a [u8], names: &mut Names) -> CompactSched<'a> {
        let mut compact = CompactSched::default();
        let mut fields = Fields::new(message);
        for (number, value) in fields.by_ref() {
            let column = match number {
                1 => &mut compact.switches.times,
                2 => &mut compact.switches.states_or_cpus,
                3 => &mut compact.switches.pids,
                4 => &mut compact.switches.prios,
                5 => {
                    compact.comms.push(names.strings.intern(value.bytes()));
                    continue;
                }
                6 => &mut compact.switches.comms,
                7 => &mut compact.wakings.times,
                8 => &mut compact.wakings.pids,
                9 => &mut compact.wakings.states_or_cpus,
                10 => &mut compact.wakings.prios,
                11 => &mut compact.wakings.comms,
                _ => continue,
            };
            *column = Packed(value.bytes());
        }
        compact.damaged = fields.damaged();
        compact
    }

    /// The time of the first event.
    pub(super) fn first_time_ns(&self) -> Option<u64> {
        let first = |columns: &Columns<'_>| columns.times.clone().next();
        match (first(&self.switches), first(&self.wakings)) {
            (Some(switch), Some(waking)) => Some(switch.min(waking)),
            (switch, waking) => switch.or(waking),
        }
    }

    /// Hands out all events of `cpu` in time order. False if the columns do not fit together:
    /// events are missing then.
    pub(super) fn events(
        mut self,
        cpu: CpuId,
        names: &Names,
        running: &mut Option<Running>,
        mut emit: impl FnMut(Event),
    ) -> bool {
        let mut switch = self.switches.next();
        let mut waking = self.wakings.next();
        loop {
            let switch_first = match (&switch, &waking) {
                (Some(switch), Some(waking)) => switch.time_ns <= waking.time_ns,
                (switch, _) => switch.is_some(),
            };
            if switch_first {
                let Some(row) = switch.take() else { break };
                emit(self.switch(&row, cpu, names, running));
                switch = self.switches.next();
            } else {
                let Some(row) = waking.take() else { break };
                let kind = EventKind::Waking {
                    task: self.task(&row),
                    prio: row.prio,
                    target_cpu: CpuId(row.state_or_cpu as u32),
                };
                let pid = running.map_or(Pid::UNKNOWN, |running| running.task.pid);
                emit(Event { timestamp_ns: row.time_ns, cpu, pid, kind });
                waking = self.wakings.next();
            }
        }
        !self.damaged && self.switches.is_exhausted() && self.wakings.is_exhausted()
    }

    fn switch(&self, row: &Row, cpu: CpuId, names: &Names, running: &mut Option<Running>) -> Event {
        let unknown = Running { task: Task { pid: Pid::UNKNOWN, comm: StrId::EMPTY }, prio: 0 };
        let next = Running { task: self.task(row), prio: row.prio };
        let prev = running.replace(next).unwrap_or(unknown);
        let kind = EventKind::Switch {
            prev: prev.task,
            prev_prio: prev.prio,
            prev_state: names.states.decode(row.state_or_cpu as i64),
            next: next.task,
            next_prio: next.prio,
        };
        Event { timestamp_ns: row.time_ns, cpu, pid: prev.task.pid, kind }
    }

    fn task(&self, row: &Row) -> Task {
        let comm = usize::try_from(row.comm).ok().and_then(|index| self.comms.get(index));
        Task { pid: Pid(row.pid), comm: comm.copied().unwrap_or_default() }
    }
}

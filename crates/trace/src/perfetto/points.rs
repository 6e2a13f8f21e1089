//! The tracepoints of the schema: their fields by number, which is how Perfetto stores those it
//! knows, and by name, which is how it stores the others.

use super::names::field;

/// A tracepoint that becomes an [`crate::EventKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    Exec,
    Exit,
    StatRuntime,
    Idle,
    IdleMiss,
    Frequency,
    IrqEntry,
    IrqExit,
    IpiEntry,
    IpiExit,
    VectorEntry,
    VectorExit,
    SoftirqRaise,
    SoftirqEntry,
    SoftirqExit,
    HrtimerStart,
    HrtimerExpireEntry,
    HrtimerExpireExit,
    HrtimerCancel,
    TimerStart,
    TimerExpireEntry,
    TimerCancel,
    TickStop,
    IpiRaise,
    IpiSendCpu,
    IpiSendMask,
    WakeIdleWithoutIpi,
    PeltFair,
    PeltRt,
    PeltDeadline,
    PeltIrq,
    PeltHardware,
    PeltTask,
    UtilEstCpu,
    UtilEstTask,
    NrRunning,
}

use Point as P;

/// Number in `FtraceEvent` (0: Perfetto has none, the event is stored by name), name, and the
/// fields in the order of their numbers, which start at 1. Alternatives after `|` are names that
/// other releases or modules use.
type Row = (Point, u32, &'static str, &'static [&'static str]);

const WAKE: &[&str] = &["comm", "pid", "prio", "success", "target_cpu"];
const AVERAGES: &[&str] = &[
    "cpu",
    "load|load_avg",
    "runnable|runn|runnable_avg|RBL_load|rbl_load",
    "util|util_avg",
    "last_update_time|update_time|lut",
    "path",
];
const TASK_AVERAGES: &[&str] = &[
    "cpu",
    "load|load_avg",
    "runnable|runn|runnable_avg|RBL_load|rbl_load",
    "util|util_avg",
    "last_update_time|update_time|lut",
    "pid",
    "my_q|myq",
];
const UTIL_EST: &str = "est|util_est|enqueued|util_est_enqueued";

/// Numbers and order from `protos/perfetto/trace/ftrace/*.proto` of Perfetto 59.1.
const ROWS: &[Row] = &[
    (
        P::Switch,
        field::SCHED_SWITCH,
        "sched_switch",
        &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
    ),
    (P::Waking, field::SCHED_WAKING, "sched_waking", WAKE),
    (P::Wakeup, field::SCHED_WAKEUP, "sched_wakeup", WAKE),
    (P::WakeupNew, field::SCHED_WAKEUP_NEW, "sched_wakeup_new", WAKE),
    (
        P::Migrate,
        field::SCHED_MIGRATE_TASK,
        "sched_migrate_task",
        &["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
    ),
    (
        P::Fork,
        field::SCHED_PROCESS_FORK,
        "sched_process_fork",
        &["parent_comm", "parent_pid", "child_comm", "child_pid"],
    ),
    (P::Exec, field::SCHED_PROCESS_EXEC, "sched_process_exec", &["filename", "pid", "old_pid"]),
    (P::Exit, field::SCHED_PROCESS_EXIT, "sched_process_exit", &["comm", "pid"]),
    (P::StatRuntime, 0, "sched_stat_runtime", &["comm", "pid", "runtime"]),
    (P::Idle, field::CPU_IDLE, "cpu_idle", &["state", "cpu_id"]),
    (P::IdleMiss, 0, "cpu_idle_miss", &["cpu_id", "state", "below"]),
    (P::Frequency, field::CPU_FREQUENCY, "cpu_frequency", &["state", "cpu_id"]),
    (P::IrqEntry, field::IRQ_HANDLER_ENTRY, "irq_handler_entry", &["irq", "name"]),
    (P::IrqExit, field::IRQ_HANDLER_EXIT, "irq_handler_exit", &["irq"]),
    (P::IpiEntry, field::IPI_ENTRY, "ipi_entry", &["reason"]),
    (P::IpiExit, field::IPI_EXIT, "ipi_exit", &["reason"]),
    (P::VectorEntry, field::LOCAL_TIMER_ENTRY, "local_timer_entry", &["vector"]),
    (P::VectorExit, field::LOCAL_TIMER_EXIT, "local_timer_exit", &["vector"]),
    (P::SoftirqRaise, field::SOFTIRQ_RAISE, "softirq_raise", &["vec"]),
    (P::SoftirqEntry, field::SOFTIRQ_ENTRY, "softirq_entry", &["vec"]),
    (P::SoftirqExit, field::SOFTIRQ_EXIT, "softirq_exit", &["vec"]),
    (
        P::HrtimerStart,
        field::HRTIMER_START,
        "hrtimer_start",
        &["hrtimer", "function", "expires", "softexpires"],
    ),
    (
        P::HrtimerExpireEntry,
        field::HRTIMER_EXPIRE_ENTRY,
        "hrtimer_expire_entry",
        &["hrtimer", "now", "function"],
    ),
    (P::HrtimerExpireExit, field::HRTIMER_EXPIRE_EXIT, "hrtimer_expire_exit", &["hrtimer"]),
    (P::HrtimerCancel, field::HRTIMER_CANCEL, "hrtimer_cancel", &["hrtimer"]),
    (
        P::TimerStart,
        field::TIMER_START,
        "timer_start",
        &["timer", "function", "expires", "now", "deferrable", "flags"],
    ),
    (
        P::TimerExpireEntry,
        field::TIMER_EXPIRE_ENTRY,
        "timer_expire_entry",
        &["timer", "now", "function"],
    ),
    (P::TimerCancel, field::TIMER_CANCEL, "timer_cancel", &["timer"]),
    (P::TickStop, 0, "tick_stop", &["success", "dependency"]),
    (P::IpiRaise, field::IPI_RAISE, "ipi_raise", &["target_cpus", "reason"]),
    (P::IpiSendCpu, 0, "ipi_send_cpu", &["cpu", "callback"]),
    (P::IpiSendMask, 0, "ipi_send_cpumask", &["cpumask", "callback"]),
    (P::WakeIdleWithoutIpi, 0, "sched_wake_idle_without_ipi", &["cpu"]),
    (P::PeltFair, 0, "pelt_cfs", AVERAGES),
    (P::PeltRt, 0, "pelt_rt", AVERAGES),
    (P::PeltDeadline, 0, "pelt_dl", AVERAGES),
    (P::PeltIrq, 0, "pelt_irq", AVERAGES),
    (P::PeltHardware, 0, "pelt_hw", AVERAGES),
    (P::PeltTask, 0, "pelt_se", TASK_AVERAGES),
    (P::UtilEstCpu, 0, "util_est_cfs", &["cpu", "util|util_avg", UTIL_EST, "path"]),
    (P::UtilEstTask, 0, "util_est_se", &["pid", "util|util_avg", UTIL_EST]),
    (P::NrRunning, 0, "sched_update_nr_running", &["cpu", "nr|nr_running"]),
];

impl Point {
    /// The point that field `number` of `FtraceEvent` holds.
    #[inline]
    pub(crate) fn of_field(number: u32) -> Option<Point> {
        if number == 0 {
            return None;
        }
        ROWS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The point of a tracepoint's (or probe's) name.
    pub(crate) fn of_name(name: &str) -> Option<Point> {
        if let Some(row) = ROWS.iter().find(|row| row.2 == name) {
            return Some(row.0);
        }
        let subject = name.strip_prefix("lisa__").unwrap_or(name);
        match subject.strip_prefix("sched_").unwrap_or(subject) {
            "pelt_cfs" | "load_cfs_rq" | "load_avg_cpu" => return Some(P::PeltFair),
            "pelt_rt" => return Some(P::PeltRt),
            "pelt_dl" => return Some(P::PeltDeadline),
            "pelt_irq" => return Some(P::PeltIrq),
            "pelt_hw" | "pelt_thermal" => return Some(P::PeltHardware),
            "pelt_se" | "load_se" | "load_avg_task" => return Some(P::PeltTask),
            "util_est_cfs" | "util_est_cpu" => return Some(P::UtilEstCpu),
            "util_est_se" | "util_est_task" => return Some(P::UtilEstTask),
            "nr" | "update_nr_running" => return Some(P::NrRunning),
            _ => {}
        }
        let entry = name.strip_suffix("_entry").map(|base| (base, P::VectorEntry));
        let (base, point) =
            entry.or_else(|| name.strip_suffix("_exit").map(|base| (base, P::VectorExit)))?;
        crate::format::X86_VECTORS.contains(&base).then_some(point)
    }

    fn row(self) -> &'static Row {
        let row = &ROWS[self as usize];
        debug_assert_eq!(row.0, self);
        row
    }

    /// The number in `FtraceEvent`; `None` where Perfetto knows the event by name only.
    pub(crate) fn field(self) -> Option<u32> {
        Some(self.row().1).filter(|&number| number != 0)
    }

    /// The tracepoint's usual name.
    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    /// The names of the fields 1, 2, ...; the first alternative is the usual one.
    pub(crate) fn fields(self) -> impl Iterator<Item = &'static str> {
        self.row().3.iter().map(|names| names.split('|').next().unwrap_or(names))
    }

    /// The number of the field that bears `name`.
    pub(crate) fn field_number(self, name: &[u8]) -> Option<usize> {
        let at =
            self.row().3.iter().position(|names| {
                names.split('|').any(|alternative| alternative.as_bytes() == name)
            })?;
        Some(at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::names::event_name;

    #[test]
    fn rows_stand_in_the_order_of_the_points_and_agree_with_perfetto_s_names() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.2);
            assert_eq!(Point::of_name(row.2), Some(row.0));
            if row.1 != 0 {
                assert_eq!(event_name(row.1), Some(row.2));
                assert_eq!(Point::of_field(row.1), Some(row.0));
            }
            assert!(row.3.len() < 16);
        }
    }

    #[test]
    fn probes_and_vectors_are_known_by_their_names() {
        assert_eq!(Point::of_name("lisa__sched_pelt_cfs"), Some(P::PeltFair));
        assert_eq!(Point::of_name("reschedule_exit"), Some(P::VectorExit));
        assert_eq!(Point::of_name("sys_entry"), None);
        assert_eq!(P::PeltFair.field_number(b"util_avg"), Some(4));
        assert_eq!(P::PeltFair.field_number(b"weight"), None);
    }
}

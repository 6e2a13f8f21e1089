//! Which field of `FtraceEvent` stands for which tracepoint.

use std::sync::LazyLock;

/// `number name` lines, from `protos/perfetto/trace/ftrace/ftrace_event.proto` of Perfetto 59.1.
const FTRACE_EVENTS: &str = include_str!("ftrace_events.txt");

/// Field numbers from here on stand for events that the trace itself describes
/// (`FtraceEventBundle.GenericEventDescriptor`).
pub(crate) const FIRST_DESCRIBED_FIELD: u32 = 65536;

/// Field numbers below this one are looked up in the table.
pub(crate) const FIELDS_MAX: usize = 1024;

static NAMES: LazyLock<Vec<Option<&'static str>>> = LazyLock::new(|| {
    let mut names = vec![None; FIELDS_MAX];
    for line in FTRACE_EVENTS.lines() {
        let entry = line
            .split_once(' ')
            .and_then(|(number, name)| Some((names.get_mut(number.parse::<usize>().ok()?)?, name)));
        if let Some((slot, name)) = entry {
            *slot = Some(name);
        }
    }
    names
});

/// The tracepoint that field `number` of `FtraceEvent` stands for, if Perfetto has given it out.
pub(crate) fn event_name(number: u32) -> Option<&'static str> {
    NAMES.get(number as usize).copied().flatten()
}

/// Field numbers of `FtraceEvent` that this crate decodes and encodes.
pub(crate) mod field {
    #![allow(missing_docs, reason = "each is a tracepoint's name")]
    pub(crate) const SCHED_SWITCH: u32 = 4;
    pub(crate) const CPU_FREQUENCY: u32 = 11;
    pub(crate) const CPU_IDLE: u32 = 13;
    pub(crate) const SCHED_WAKEUP: u32 = 17;
    pub(crate) const SCHED_WAKING: u32 = 20;
    pub(crate) const IPI_ENTRY: u32 = 21;
    pub(crate) const IPI_EXIT: u32 = 22;
    pub(crate) const IPI_RAISE: u32 = 23;
    pub(crate) const SOFTIRQ_ENTRY: u32 = 24;
    pub(crate) const SOFTIRQ_EXIT: u32 = 25;
    pub(crate) const SOFTIRQ_RAISE: u32 = 26;
    pub(crate) const IRQ_HANDLER_ENTRY: u32 = 36;
    pub(crate) const IRQ_HANDLER_EXIT: u32 = 37;
    pub(crate) const SCHED_WAKEUP_NEW: u32 = 114;
    pub(crate) const SCHED_PROCESS_EXEC: u32 = 237;
    pub(crate) const SCHED_PROCESS_EXIT: u32 = 238;
    pub(crate) const SCHED_PROCESS_FORK: u32 = 239;
    pub(crate) const GENERIC: u32 = 327;
    pub(crate) const SCHED_MIGRATE_TASK: u32 = 491;
    pub(crate) const HRTIMER_START: u32 = 551;
    pub(crate) const HRTIMER_CANCEL: u32 = 552;
    pub(crate) const HRTIMER_EXPIRE_ENTRY: u32 = 553;
    pub(crate) const HRTIMER_EXPIRE_EXIT: u32 = 554;
    pub(crate) const TIMER_START: u32 = 555;
    pub(crate) const TIMER_CANCEL: u32 = 556;
    pub(crate) const TIMER_EXPIRE_ENTRY: u32 = 557;
    pub(crate) const LOCAL_TIMER_ENTRY: u32 = 559;
    pub(crate) const LOCAL_TIMER_EXIT: u32 = 560;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_the_fields_that_are_decoded() {
        for (number, name) in [
            (field::SCHED_SWITCH, "sched_switch"),
            (field::CPU_FREQUENCY, "cpu_frequency"),
            (field::CPU_IDLE, "cpu_idle"),
            (field::SCHED_WAKEUP, "sched_wakeup"),
            (field::SCHED_WAKING, "sched_waking"),
            (field::IPI_ENTRY, "ipi_entry"),
            (field::IPI_EXIT, "ipi_exit"),
            (field::IPI_RAISE, "ipi_raise"),
            (field::SOFTIRQ_ENTRY, "softirq_entry"),
            (field::SOFTIRQ_EXIT, "softirq_exit"),
            (field::SOFTIRQ_RAISE, "softirq_raise"),
            (field::IRQ_HANDLER_ENTRY, "irq_handler_entry"),
            (field::IRQ_HANDLER_EXIT, "irq_handler_exit"),
            (field::SCHED_WAKEUP_NEW, "sched_wakeup_new"),
            (field::SCHED_PROCESS_EXEC, "sched_process_exec"),
            (field::SCHED_PROCESS_EXIT, "sched_process_exit"),
            (field::SCHED_PROCESS_FORK, "sched_process_fork"),
            (field::GENERIC, "generic"),
            (field::SCHED_MIGRATE_TASK, "sched_migrate_task"),
            (field::HRTIMER_START, "hrtimer_start"),
            (field::HRTIMER_CANCEL, "hrtimer_cancel"),
            (field::HRTIMER_EXPIRE_ENTRY, "hrtimer_expire_entry"),
            (field::HRTIMER_EXPIRE_EXIT, "hrtimer_expire_exit"),
            (field::TIMER_START, "timer_start"),
            (field::TIMER_CANCEL, "timer_cancel"),
            (field::TIMER_EXPIRE_ENTRY, "timer_expire_entry"),
            (field::LOCAL_TIMER_ENTRY, "local_timer_entry"),
            (field::LOCAL_TIMER_EXIT, "local_timer_exit"),
        ] {
            assert_eq!(event_name(number), Some(name));
        }
        assert_eq!(event_name(3), Some("print"));
        assert_eq!(event_name(1), None);
        assert_eq!(event_name(u32::MAX), None);
    }
}

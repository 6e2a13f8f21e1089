//! Which fields of which tracepoint make which event: the schema's names on the left, the kernel's
//! on the right.

use super::{Fields, Program, VectorName, WakeStep};
use crate::format::print_fmt::{StateMap, flag_bit};
use crate::format::utilisation::Utilisation;

/// The x86 interrupt vectors that are traced on entry and exit
/// (`arch/x86/include/asm/trace/irq_vectors.h`).
pub(crate) const X86_VECTORS: [&str; 12] = [
    "local_timer",
    "spurious_apic",
    "error_apic",
    "x86_platform_ipi",
    "irq_work",
    "reschedule",
    "call_function",
    "call_function_single",
    "threshold_apic",
    "deferred_error_apic",
    "thermal_apic",
    "smp_thermal",
];

/// `TIMER_DEFERRABLE` of Linux 4.2 to 4.7, which print `flags` as a number only.
const DEFERRABLE_UNNAMED: u64 = 0x0010_0000;

impl Program {
    pub(super) fn compile(fields: &Fields<'_>) -> Option<Program> {
        let format = fields.format;
        let int = |name: &str| fields.int(&[name]);
        let wake = |step| {
            Some(Program::Wake {
                step,
                task: fields.task("comm", "pid")?,
                prio: int("prio")?,
                success: int("success"),
                target_cpu: int("target_cpu")?,
            })
        };
        match &*format.name {
            "sched_switch" => Some(Program::Switch {
                prev: fields.task("prev_comm", "prev_pid")?,
                prev_prio: int("prev_prio")?,
                prev_state: int("prev_state")?,
                states: Box::new(StateMap::parse(&format.print_fmt)),
                next: fields.task("next_comm", "next_pid")?,
                next_prio: int("next_prio")?,
            }),
            "sched_waking" => wake(WakeStep::Waking),
            "sched_wakeup" => wake(WakeStep::Wakeup),
            "sched_wakeup_new" => wake(WakeStep::WakeupNew),
            "sched_migrate_task" => Some(Program::Migrate {
                task: fields.task("comm", "pid")?,
                prio: int("prio")?,
                from_cpu: int("orig_cpu")?,
                to_cpu: int("dest_cpu")?,
            }),
            "sched_process_fork" => Some(Program::Fork {
                parent: fields.task("parent_comm", "parent_pid")?,
                child: fields.task("child_comm", "child_pid")?,
            }),
            "sched_process_exec" => Some(Program::Exec {
                pid: int("pid")?,
                old_pid: int("old_pid")?,
                filename: fields.bytes(&["filename"])?,
            }),
            "sched_process_exit" => Some(Program::Exit { task: fields.task("comm", "pid")? }),
            "sched_stat_runtime" => Some(Program::StatRuntime {
                task: fields.task("comm", "pid")?,
                runtime_ns: int("runtime")?,
            }),
            "cpu_idle" => Some(Program::Idle { cpu: int("cpu_id")?, state: int("state")? }),
            "cpu_idle_miss" => Some(Program::IdleMiss {
                cpu: int("cpu_id")?,
                state: int("state")?,
                below: int("below")?,
            }),
            "cpu_frequency" => {
                Some(Program::Frequency { cpu: int("cpu_id")?, frequency_khz: int("state")? })
            }
            "irq_handler_entry" => {
                Some(Program::IrqEntry { irq: int("irq")?, name: fields.bytes(&["name"])? })
            }
            "irq_handler_exit" => Some(Program::IrqExit { irq: int("irq")? }),
            "softirq_raise" => Some(Program::SoftirqRaise { vec: int("vec")? }),
            "softirq_entry" => Some(Program::SoftirqEntry { vec: int("vec")? }),
            "softirq_exit" => Some(Program::SoftirqExit { vec: int("vec")? }),
            "sched_wake_idle_without_ipi" => {
                Some(Program::WakeIdleWithoutIpi { target_cpu: int("cpu")? })
            }
            _ => Self::timer(fields)
                .or_else(|| Self::interrupt(fields))
                .or_else(|| Utilisation::compile(fields).map(Program::Utilisation)),
        }
    }

    fn timer(fields: &Fields<'_>) -> Option<Program> {
        let int = |name: &str| fields.int(&[name]);
        let format = fields.format;
        match &*format.name {
            "hrtimer_start" => Some(Program::HrtimerStart {
                timer: int("hrtimer")?,
                function: int("function")?,
                expires_ns: int("expires")?,
                soft_expires_ns: int("softexpires"),
            }),
            "hrtimer_expire_entry" => Some(Program::HrtimerExpireEntry {
                timer: int("hrtimer")?,
                function: int("function"),
                now_ns: int("now")?,
            }),
            "hrtimer_expire_exit" => Some(Program::HrtimerExpireExit { timer: int("hrtimer")? }),
            "hrtimer_cancel" => Some(Program::HrtimerCancel { timer: int("hrtimer")? }),
            "timer_start" => Some(Program::TimerStart {
                timer: int("timer")?,
                function: int("function")?,
                expires_jiffies: int("expires")?,
                now_jiffies: int("now"),
                flags: int("flags"),
                deferrable: flag_bit(&format.print_fmt, "flags", "D").unwrap_or(DEFERRABLE_UNNAMED),
            }),
            "timer_expire_entry" => Some(Program::TimerExpireEntry {
                timer: int("timer")?,
                function: int("function"),
                now_jiffies: int("now")?,
            }),
            "timer_cancel" => Some(Program::TimerCancel { timer: int("timer")? }),
            "tick_stop" => {
                Some(Program::TickStop { success: int("success")?, dependency: int("dependency") })
            }
            _ => None,
        }
    }

    fn interrupt(fields: &Fields<'_>) -> Option<Program> {
        let int = |name: &str| fields.int(&[name]);
        let format = fields.format;
        match &*format.name {
            "ipi_send_cpu" => {
                Some(Program::IpiSendCpu { target_cpu: int("cpu")?, callback: int("callback") })
            }
            "ipi_send_cpumask" => Some(Program::IpiSendMask {
                mask: fields.bytes(&["cpumask"])?,
                callback: int("callback"),
            }),
            "ipi_raise" => Some(Program::IpiRaise {
                mask: fields.bytes(&["target_cpus"])?,
                reason: int("reason"),
            }),
            "ipi_entry" => {
                Some(Program::Vector { name: VectorName::Reason(int("reason")?), entry: true })
            }
            "ipi_exit" => {
                Some(Program::Vector { name: VectorName::Reason(int("reason")?), entry: false })
            }
            name => {
                let entry = name.strip_suffix("_entry");
                let base = entry.or_else(|| name.strip_suffix("_exit"))?;
                let known = &*format.system == "irq_vectors" || X86_VECTORS.contains(&base);
                known.then(|| Program::Vector {
                    name: VectorName::Fixed(base.into()),
                    entry: entry.is_some(),
                })
            }
        }
    }
}

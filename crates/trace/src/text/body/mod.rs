//! Bodies of printed events, by name, into the event schema.

mod load;
mod sched;
mod system;
mod timer;

use super::fields::{Broken, Fields, pid, symbol};
use super::state::States;
use crate::event::{EventKind, Task};
use crate::strings::{StrId, Strings};
use schedlab_machine::CpuId;

/// What decoding needs beside the body.
pub(super) struct Context<'a> {
    pub(super) strings: &'a mut Strings,
    pub(super) states: &'a mut States,
    /// The CPU that recorded the event.
    pub(super) cpu: CpuId,
    /// Set when a plugin's `R` may hide a preemption.
    pub(super) preemption_unmarked: &'a mut bool,
}

impl Context<'_> {
    fn intern(&mut self, text: &[u8]) -> StrId {
        self.strings.intern(text)
    }

    /// A function's name without its offset, empty for a null pointer (a plain reschedule has no
    /// callback).
    fn function(&mut self, word: &[u8]) -> StrId {
        match symbol(word) {
            b"0x0" | b"0" | b"(null)" => StrId::EMPTY,
            name => self.strings.intern(name),
        }
    }

    fn task(&mut self, comm: &[u8], id: &[u8]) -> Result<Task, Broken> {
        Ok(Task { pid: pid(id)?, comm: self.strings.intern(comm) })
    }
}

/// What a body says: an event of the schema, or `None` for one that the schema leaves out (the
/// load of a task group, for instance).
pub(super) type Decoded = Result<Option<EventKind>, Broken>;

/// Decodes the bodies of one kind of event.
pub(super) type Decode = fn(&mut Context<'_>, &[u8]) -> Decoded;

/// The decoder for events of this name, or `None` for a name outside the schema.
pub(super) fn decoder(name: &[u8]) -> Option<Decode> {
    let decode: Decode = match name {
        b"sched_switch" => sched::switch,
        b"sched_waking" => sched::waking,
        b"sched_wakeup" => sched::wakeup,
        b"sched_wakeup_new" => sched::wakeup_new,
        b"sched_migrate_task" => sched::migrate,
        b"sched_process_fork" => sched::fork,
        b"sched_process_exec" => sched::exec,
        b"sched_process_exit" => sched::exit,
        b"sched_stat_runtime" => sched::stat_runtime,
        b"sched_wake_idle_without_ipi" => sched::wake_idle_without_ipi,
        b"cpu_idle" => system::cpu_idle,
        b"cpu_idle_miss" => system::cpu_idle_miss,
        b"cpu_frequency" => system::cpu_frequency,
        b"irq_handler_entry" => system::irq_entry,
        b"irq_handler_exit" => system::irq_exit,
        b"softirq_raise" => system::softirq_raise,
        b"softirq_entry" => system::softirq_entry,
        b"softirq_exit" => system::softirq_exit,
        b"ipi_raise" => system::ipi_raise,
        b"ipi_send_cpu" => system::ipi_send_cpu,
        b"ipi_send_cpumask" => system::ipi_send_cpumask,
        b"ipi_entry" => system::ipi_entry,
        b"ipi_exit" => system::ipi_exit,
        b"hrtimer_start" => timer::hrtimer_start,
        b"hrtimer_expire_entry" => timer::hrtimer_expire_entry,
        b"hrtimer_expire_exit" => timer::hrtimer_expire_exit,
        b"hrtimer_cancel" => timer::hrtimer_cancel,
        b"timer_start" => timer::timer_start,
        b"timer_expire_entry" => timer::timer_expire_entry,
        b"timer_cancel" => timer::timer_cancel,
        b"tick_stop" => timer::tick_stop,
        _ => return vector(name).or_else(|| utilisation(name)),
    };
    Some(decode)
}

/// arch/x86/include/asm/trace/irq_vectors.h: one pair of tracepoints per vector.
fn vector(name: &[u8]) -> Option<Decode> {
    macro_rules! vectors {
        ($($vector:literal)*) => {
            match name {
                $(
                    name if name == concat!($vector, "_entry").as_bytes() => {
                        Some(|context, body| system::vector_entry(context, $vector, body))
                    }
                    name if name == concat!($vector, "_exit").as_bytes() => {
                        Some(|context, body| system::vector_exit(context, $vector, body))
                    }
                )*
                _ => None,
            }
        };
    }
    vectors! {
        "local_timer" "reschedule" "call_function" "call_function_single" "irq_work"
        "x86_platform_ipi" "spurious_apic" "error_apic" "thermal_apic" "threshold_apic"
        "deferred_error_apic" "smp_thermal"
    }
}

/// The kernel's PELT tracepoints have no print of their own: modules and probes give them one.
fn utilisation(name: &[u8]) -> Option<Decode> {
    let name = name.strip_prefix(b"lisa__").unwrap_or(name);
    let decode: Decode = match name.strip_prefix(b"sched_").unwrap_or(name) {
        b"pelt_cfs" | b"load_cfs_rq" | b"load_avg_cpu" => load::cfs,
        b"pelt_rt" => load::rt,
        b"pelt_dl" => load::deadline,
        b"pelt_irq" => load::irq,
        b"pelt_hw" | b"pelt_thermal" => load::hardware,
        b"pelt_se" | b"load_se" | b"load_avg_task" => load::task,
        b"util_est_cfs" | b"util_est_cpu" => load::util_est_cpu,
        b"util_est_se" | b"util_est_task" => load::util_est_task,
        b"nr" | b"update_nr_running" => load::nr_running,
        _ => return None,
    };
    Some(decode)
}

/// Fields of a body, behind the address in parentheses that probe events begin with.
fn fields(body: &[u8]) -> Fields<'_> {
    if body.first() == Some(&b'(')
        && let Some(close) = body.windows(2).position(|at| at == b") ")
    {
        return Fields(&body[close + 2..]);
    }
    Fields(body)
}

#[cfg(test)]
mod tests;

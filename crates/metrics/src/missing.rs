//! Which figures suffer from what a trace does not have.

use crate::Collector;
use crate::per_cpu::PerCpu;
use crate::task_table::TaskTable;
use schedlab_machine::CpuId;
use schedlab_trace::{Event, EventKind, Severity, Summary};

/// Figures and the tracepoints of which they need at least one.
struct Need {
    code: &'static str,
    any_of: &'static [&'static str],
    severity: Severity,
    consequence: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        code: "missing_switch",
        any_of: &["sched_switch"],
        severity: Severity::Warning,
        consequence: "no wakeup latency; who ran, and for how long, is only told by who wrote events",
    },
    Need {
        code: "missing_waking",
        any_of: &["sched_waking"],
        severity: Severity::Info,
        consequence: "no wakeup latency from waking; `--from wakeup` may serve",
    },
    Need {
        code: "missing_wakeup",
        any_of: &["sched_wakeup"],
        severity: Severity::Info,
        consequence: "no wakeup latency from wakeup",
    },
    Need {
        code: "missing_wakes",
        any_of: &["sched_waking", "sched_wakeup", "sched_wakeup_new"],
        severity: Severity::Warning,
        consequence: "sleep times of tasks include their waits for a CPU",
    },
    Need {
        code: "missing_migrate",
        any_of: &["sched_migrate_task"],
        severity: Severity::Info,
        consequence: "migrations read 0; see the changes of CPU between switch-ins",
    },
    Need {
        code: "missing_idle",
        any_of: &["cpu_idle"],
        severity: Severity::Warning,
        consequence: "no idle residency, no idle misses",
    },
    Need {
        code: "missing_idle_miss",
        any_of: &["cpu_idle_miss"],
        severity: Severity::Info,
        consequence: "idle misses are computed alone, without the kernel's own count beside them",
    },
    Need {
        code: "missing_frequency",
        any_of: &["cpu_frequency"],
        severity: Severity::Info,
        consequence: "no frequency residency",
    },
    Need {
        code: "missing_irq",
        any_of: &["irq_handler_entry", "local_timer_entry", "reschedule_entry", "ipi_entry"],
        severity: Severity::Info,
        consequence: "interrupt time reads 0",
    },
    Need {
        code: "missing_softirq",
        any_of: &["softirq_entry"],
        severity: Severity::Info,
        consequence: "softirq time reads 0",
    },
    Need {
        code: "missing_hrtimer",
        any_of: &["hrtimer_start"],
        severity: Severity::Info,
        consequence: "the next timer of an idle CPU is estimated from what woke it",
    },
];

/// A CPU's first event is late when more than this part of the trace has passed before it.
const LATE_PART: u64 = 100;

/// Watches the events for what the reader itself cannot know, and completes the data-quality rows
/// of a trace that was read to its end.
#[derive(Debug, Default)]
pub struct Watch {
    table: TaskTable,
    cpus: PerCpu<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    first_ns: Option<u64>,
    /// Whether its first `cpu_idle` event is an exit.
    begins_asleep: Option<bool>,
}

impl Watch {
    /// Adds rows to `summary.quality`: `missing_...` for each tracepoint whose absence touches a
    /// figure, `silent_cpu`, `late_first_event` and `unknown_first_idle` per CPU, and `pid_reuse`.
    pub fn finish(mut self, summary: &mut Summary) {
        missing_events(summary);
        let Some(span_ns) = summary.time_span_ns else { return };
        for cpu in summary.cpus.clone() {
            if let Some(seen) = self.cpus.get_mut(cpu) {
                unknown_begin(summary, cpu, seen, span_ns);
            }
        }
        let reused = self.table.tasks().iter().filter(|task| task.reused_pid).count() as u64;
        if reused > 0 {
            summary.quality.add(
                Severity::Info,
                "pid_reuse",
                None,
                reused,
                "thread ids were given out again; each holder has a row of its own",
            );
        }
    }

    fn idle(&mut self, cpu: CpuId, exit: bool) {
        if let Some(seen) = self.cpus.get_mut(cpu) {
            seen.begins_asleep.get_or_insert(exit);
        }
    }
}

fn missing_events(summary: &mut Summary) {
    for need in NEEDS {
        let has = |name: &&str| summary.event_counts.get(*name).is_some_and(|&count| count > 0);
        if !need.any_of.iter().any(has) {
            summary.quality.add(
                need.severity,
                need.code,
                None,
                0,
                format!("no {}: {}", need.any_of.join(", "), need.consequence),
            );
        }
    }
}

/// What the trace does not show of a CPU's beginning.
fn unknown_begin(summary: &mut Summary, cpu: CpuId, seen: &Seen, span_ns: (u64, u64)) {
    let (begin_ns, end_ns) = span_ns;
    let quality = &mut summary.quality;
    let Some(first_ns) = seen.first_ns else {
        let message = "the CPU recorded no event that is parsed: what it did is unknown";
        return quality.add(Severity::Info, "silent_cpu", Some(cpu), 1, message);
    };
    let unknown_ns = first_ns.saturating_sub(begin_ns);
    if unknown_ns > end_ns.saturating_sub(begin_ns) / LATE_PART {
        quality.add(
            Severity::Info,
            "late_first_event",
            Some(cpu),
            1,
            format!(
                "the CPU's first event comes {:.3} ms after the trace begins: what it did before is \
                 unknown and counts in no figure",
                unknown_ns as f64 / 1e6
            ),
        );
    }
    if seen.begins_asleep == Some(true) {
        let message = "the trace begins while the CPU idles: the state of that first idle period is \
                       unknown and counts in no figure";
        quality.add(Severity::Info, "unknown_first_idle", Some(cpu), 1, message);
    }
}

impl Collector for Watch {
    fn push(&mut self, event: &Event) {
        if let Some(seen) = self.cpus.get_mut(event.cpu) {
            seen.first_ns.get_or_insert(event.timestamp_ns);
        }
        self.table.follow(&event.kind);
        match event.kind {
            EventKind::IdleEnter { cpu, .. } => self.idle(cpu, false),
            EventKind::IdleExit { cpu } => self.idle(cpu, true),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, enter, exit, switch, task};
    use schedlab_trace::TaskState;

    fn codes(events: &[Event], summary: &mut Summary) -> Vec<(&'static str, Option<u32>)> {
        let mut watch = Watch::default();
        events.iter().for_each(|event| watch.push(event));
        watch.finish(summary);
        let findings = summary.quality.findings().iter();
        findings.map(|finding| (finding.code, finding.cpu.map(|cpu| cpu.0))).collect()
    }

    fn all_events() -> Summary {
        let names = NEEDS.iter().flat_map(|need| need.any_of);
        Summary {
            cpus: vec![CpuId(0), CpuId(1)],
            event_counts: names.map(|&name| (name.to_owned(), 1)).collect(),
            time_span_ns: Some((0, 10_000)),
            ..Summary::default()
        }
    }

    #[test]
    fn a_missing_tracepoint_names_the_figure_that_suffers() {
        let mut summary = all_events();
        summary.event_counts.remove("cpu_idle");
        summary.cpus.clear();
        assert_eq!(codes(&[], &mut summary), [("missing_idle", None)]);
        let finding = &summary.quality.findings()[0];
        assert_eq!(finding.message, "no cpu_idle: no idle residency, no idle misses");
    }

    #[test]
    fn unknown_beginnings_are_named_per_cpu() {
        let late = [at(5_000, 0, exit(0)), at(6_000, 0, enter(0, 1))];
        assert_eq!(
            codes(&late, &mut all_events()),
            [
                ("late_first_event", Some(0)),
                ("unknown_first_idle", Some(0)),
                ("silent_cpu", Some(1))
            ]
        );
        let prompt = [at(10, 0, enter(0, 1)), at(20, 1, enter(1, 1)), at(30, 1, exit(1))];
        assert_eq!(codes(&prompt, &mut all_events()), []);
    }

    #[test]
    fn a_reused_thread_id_is_named() {
        let events = [
            at(1, 0, switch(7, TaskState::Dead, 0)),
            at(1, 1, EventKind::Fork { parent: task(1), child: task(7) }),
        ];
        assert_eq!(codes(&events, &mut all_events()), [("pid_reuse", None)]);
    }
}

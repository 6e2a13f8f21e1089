use super::*;
use crate::testing::{at, by, enter, switch};
use proptest::prelude::*;
use schedlab_trace::TaskState::{Preempted, Sleeping};

fn cpus(events: &[Event], span_ns: (u64, u64), declared: &[u32]) -> Vec<CpuFigures> {
    let mut collector = Cpus::default();
    events.iter().for_each(|event| collector.push(event));
    let declared: Vec<_> = declared.iter().map(|&cpu| CpuId(cpu)).collect();
    collector.finish(span_ns, &declared)
}

#[test]
fn busy_idle_and_unknown_add_up_to_the_trace() {
    let events = [
        by(0, 120, 0, EventKind::SoftirqRaise { vec: 1 }), // unknown 20
        by(0, 150, 0, switch(0, Preempted, 7)),            // idle 30
        by(7, 190, 0, switch(7, Sleeping, 0)),             // busy 40
        by(0, 195, 0, enter(0, 2)),
    ];
    let rows = cpus(&events, (100, 200), &[0, 1]);
    assert_eq!((rows[0].unknown_ns, rows[0].idle_ns, rows[0].busy_ns), (20, 40, 40));
    assert_eq!((rows[0].switches, rows[0].idle_entries), (2, 1));
    assert_eq!((rows[1].cpu, rows[1].unknown_ns), (CpuId(1), 100));
    assert_eq!(rows.len(), 2);
}

#[test]
fn interrupts_nest_and_time_counts_once() {
    let irq = 9;
    let name = StrId(1);
    let events = [
        at(10, 0, EventKind::SoftirqEntry { vec: 3 }),
        at(20, 0, EventKind::VectorEntry { name }),
        at(22, 0, EventKind::IrqEntry { irq, name }),
        at(27, 0, EventKind::IrqExit { irq }),
        at(30, 0, EventKind::VectorExit { name }),
        at(45, 0, EventKind::SoftirqExit { vec: 3 }),
    ];
    let row = cpus(&events, (0, 100), &[])[0];
    assert_eq!((row.irq_ns, row.softirq_ns, row.interrupts, row.softirqs), (10, 25, 2, 1));
}

#[test]
fn a_handler_without_its_exit_has_no_time() {
    let (irq, name) = (9, StrId(1));
    let events = [
        at(10, 0, EventKind::IrqEntry { irq, name }),
        at(20, 0, switch(0, Preempted, 7)),
        at(30, 0, EventKind::IrqExit { irq }),
        at(40, 0, EventKind::IrqEntry { irq, name }),
        at(50, 0, EventKind::IrqEntry { irq, name }),
        at(53, 0, EventKind::IrqExit { irq }),
    ];
    let row = cpus(&events, (0, 100), &[])[0];
    assert_eq!((row.irq_ns, row.interrupts), (3, 3));
}

#[test]
fn what_a_cpu_runs_is_unknown_after_lost_events_until_a_record_shows_it() {
    let events = [
        at(0, 0, switch(0, Preempted, 7)),
        at(10, 0, EventKind::Lost { count: 1 }),
        by(0, 30, 0, EventKind::SoftirqRaise { vec: 1 }),
    ];
    let row = cpus(&events, (0, 100), &[])[0];
    assert_eq!((row.busy_ns, row.unknown_ns, row.idle_ns), (10, 20, 70));
}

proptest! {
    #[test]
    fn times_add_up(steps in prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..200)) {
        let mut now_ns = 50;
        let mut collector = Cpus::default();
        for (what, cpu, pid, delay) in steps {
            now_ns += u64::from(delay);
            let vec = u32::from(pid % 2);
            let kind = match what % 7 {
                0 => EventKind::Lost { count: 1 },
                1 => EventKind::SoftirqEntry { vec },
                2 => EventKind::SoftirqExit { vec },
                3 => EventKind::IrqEntry { irq: 1, name: StrId::EMPTY },
                4 => EventKind::IrqExit { irq: 1 },
                _ => switch(1, Sleeping, i32::from(pid % 3)),
            };
            collector.push(&by(i32::from(pid % 4) - 1, now_ns, u32::from(cpu % 3), kind));
        }
        for row in collector.finish((0, now_ns + 10), &[CpuId(7)]) {
            prop_assert_eq!(row.busy_ns + row.idle_ns + row.unknown_ns, now_ns + 10);
            prop_assert!(row.irq_ns + row.softirq_ns <= now_ns);
        }
    }
}

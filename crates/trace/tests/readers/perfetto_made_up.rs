//! What Perfetto traces may hold and no sample does.

use crate::support::protobuf::{bundle, bytes, event, message, number, packed, packet};
use crate::support::{Contents, read_bytes};
use schedlab_machine::CpuId;
use schedlab_trace::{EventKind, Pid, TaskState};

const CPU_IDLE: u64 = 13;

fn idle(time: u64, cpu: u64, state: u64) -> Vec<u8> {
    event(time, 0, CPU_IDLE, &[number(1, state), number(2, cpu)])
}

fn contents(packets: &[Vec<u8>]) -> Contents {
    read_bytes(&packets.concat()).unwrap()
}

fn times(contents: &Contents) -> Vec<(u64, u32)> {
    contents.events.iter().map(|event| (event.timestamp_ns, event.cpu.0)).collect()
}

#[test]
fn bundles_of_a_write_period_are_put_in_order() {
    let contents = contents(&[
        bundle(1, &[idle(10, 1, 0), idle(30, 1, u32::MAX.into())]),
        bundle(0, &[idle(20, 0, 2), idle(40, 0, u32::MAX.into())]),
        bundle(1, &[idle(40, 1, 1)]),
    ]);
    assert_eq!(times(&contents), [(10, 1), (20, 0), (30, 1), (40, 0), (40, 1)]);
    assert_eq!(contents.events[1].kind, EventKind::IdleEnter { cpu: CpuId(0), state: 2 });
    assert_eq!(contents.events[2].kind, EventKind::IdleExit { cpu: CpuId(1) });
    assert_eq!(contents.summary.time_span_ns, Some((10, 40)));
}

#[test]
fn lost_events_are_marked_where_the_bundle_begins_and_summed_as_the_kernel_counts_them() {
    let stats = |phase, overrun, dropped| {
        let cpu = message(2, &[number(1, 0), number(3, overrun), number(8, dropped)]);
        packet(&[message(34, &[number(1, phase), cpu])])
    };
    let contents = contents(&[
        stats(1, 5, 0),
        bundle(0, &[idle(10, 0, 0)]),
        bundle(0, &[number(3, 1), idle(20, 0, 1)]),
        bundle(1, &[number(3, 1), idle(15, 1, 1)]),
        stats(2, 105, 7),
    ]);
    assert_eq!(times(&contents), [(10, 0), (15, 1), (15, 1), (20, 0), (20, 0)]);
    assert_eq!(contents.events[1].kind, EventKind::Lost { count: 0 });
    assert_eq!(contents.events[3].kind, EventKind::Lost { count: 0 });
    assert_eq!(contents.summary.lost_events, 107 + 1);
    assert_eq!(contents.summary.event_counts["cpu_idle"], 3);
    assert_eq!(contents.findings(), [("lost_events", Some(0), 107), ("lost_events", Some(1), 1)]);
}

#[test]
fn dropped_packets_are_gaps_unless_they_begin_a_sequence() {
    let contents = contents(&[
        message(1, &[number(42, 1), number(10, 1), message(1, &[number(1, 0), idle(10, 0, 0)])]),
        message(1, &[number(42, 1), number(10, 9)]),
        message(1, &[number(42, 1), number(10, 1), message(1, &[number(1, 0), idle(20, 0, 0)])]),
    ]);
    let lost: Vec<_> = contents
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Lost { .. }))
        .collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].timestamp_ns, 20);
    assert!(contents.findings().contains(&("dropped_packets", None, 1)));
}

#[test]
fn functions_are_named_by_the_packet_that_refers_to_them() {
    let start = |time, function| {
        event(
            time,
            0,
            551,
            &[number(1, 0xabc), number(2, function), number(3, 500), number(4, 400)],
        )
    };
    let symbols = message(12, &[message(26, &[number(1, 3), bytes(2, b"tick_nohz_handler")])]);
    let contents = contents(&[
        packet(&[message(1, &[number(1, 0), start(10, 3), start(20, 0xffff_8000)]), symbols]),
        packet(&[number(13, 1), message(1, &[number(1, 0), start(30, 3)])]),
    ]);
    let functions: Vec<_> = contents
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::HrtimerStart { function, expires_ns: 500, soft_expires_ns: 400, .. } => {
                contents.strings.get(function)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(functions, ["tick_nohz_handler", "0xffff8000", "0x3"]);
}

#[test]
fn events_without_a_number_of_their_own_are_read_by_name() {
    let field = |name: &[u8], value: Vec<u8>| message(2, &[bytes(1, name), value]);
    let tick = event(
        10,
        0,
        327,
        &[
            bytes(1, b"tick_stop"),
            field(b"dependency", number(4, 8)),
            field(b"success", number(5, 1)),
        ],
    );
    let pelt = event(
        20,
        0,
        327,
        &[
            bytes(1, b"sched_pelt_cfs"),
            field(b"cpu", number(4, 0)),
            field(b"path", bytes(3, b"/")),
            field(b"util", number(4, 321)),
        ],
    );
    let group = event(
        30,
        0,
        327,
        &[
            bytes(1, b"sched_pelt_cfs"),
            field(b"path", bytes(3, b"/user")),
            field(b"util", number(4, 5)),
        ],
    );
    let other = event(40, 0, 327, &[bytes(1, b"my_kprobe"), field(b"x", number(4, 1))]);
    let unknown = event(50, 0, 900, &[]);
    let contents = contents(&[bundle(0, &[tick, pelt, group, other, unknown])]);
    assert_eq!(contents.events[0].kind, EventKind::TickStop { success: true, dependency: 8 });
    assert!(matches!(contents.events[1].kind, EventKind::PeltCpu { util: 321, .. }));
    assert_eq!(contents.events.len(), 2);
    let counts: Vec<_> =
        contents.summary.event_counts.iter().map(|(name, count)| (&**name, *count)).collect();
    let expected = [("my_kprobe", 1), ("sched_pelt_cfs", 2), ("tick_stop", 1), ("unknown_900", 1)];
    assert_eq!(counts, expected);
    assert_eq!(contents.summary.time_span_ns, Some((10, 50)));
}

#[test]
fn events_that_the_trace_describes_are_read_by_its_description() {
    let field = |name: &[u8], field| message(2, &[bytes(1, name), number(3, field)]);
    let description =
        [bytes(1, b"cpu_idle_miss"), field(b"below", 1), field(b"state", 2), field(b"cpu_id", 3)];
    let described = message(11, &[number(1, 65_600), bytes(2, &description.concat())]);
    let miss = event(10, 0, 65_600, &[number(1, 1), number(2, 4), number(3, 0)]);
    let stranger = event(20, 0, 65_601, &[]);
    // Descriptions are valid for events before them in the same bundle.
    let contents = contents(&[bundle(0, &[miss, stranger, described])]);
    let expected = EventKind::IdleMiss { cpu: CpuId(0), state: 4, below: true };
    assert_eq!(contents.events[0].kind, expected);
    assert_eq!(contents.summary.event_counts["cpu_idle_miss"], 1);
    assert_eq!(contents.summary.event_counts["undescribed_65601"], 1);
}

#[test]
fn wakeups_without_success_are_counted_only() {
    let wakeup = |time, success: &[u64]| {
        let success: Vec<_> = success.iter().flat_map(|&value| number(4, value)).collect();
        event(time, 0, 17, &[bytes(1, b"a"), number(2, 5), number(3, 120), success, number(5, 1)])
    };
    let contents = contents(&[bundle(0, &[wakeup(10, &[]), wakeup(20, &[0]), wakeup(30, &[1])])]);
    assert_eq!(times(&contents), [(10, 0), (30, 0)]);
    assert_eq!(contents.summary.event_counts["sched_wakeup"], 3);
}

#[test]
fn task_states_are_numbered_by_the_kernel_s_release() {
    let switch = |state| {
        let body = [bytes(1, b"a"), number(2, 5), number(4, state), bytes(5, b"b"), number(6, 6)];
        bundle(0, &[event(10, 5, 4, &body)])
    };
    let system = |release: &[u8]| packet(&[message(45, &[message(1, &[bytes(3, release)])])]);
    let state = |packets: &[Vec<u8>]| match contents(packets).events[0].kind {
        EventKind::Switch { prev_state, .. } => prev_state,
        other => panic!("{other:?}"),
    };
    assert_eq!(state(&[switch(0x100)]), TaskState::Preempted);
    assert_eq!(state(&[system(b"6.1.0"), switch(0x10)]), TaskState::Dead);
    assert_eq!(state(&[system(b"4.9.1"), switch(0x10)]), TaskState::Zombie);
    assert_eq!(state(&[system(b"4.4.7"), switch(0x800)]), TaskState::Preempted);
}

#[test]
fn a_gap_hides_who_ran_before_a_compact_switch() {
    let compact = |fields: &[u64]| {
        let [time, pid] = fields else { panic!() };
        message(
            4,
            &[
                packed(1, &[*time]),
                packed(2, &[1]),
                packed(3, &[*pid]),
                packed(4, &[120]),
                bytes(5, b"name"),
                packed(6, &[0]),
            ],
        )
    };
    let prev = |packets: &[Vec<u8>]| {
        let contents = contents(packets);
        let last = contents.events.last().unwrap().kind;
        match last {
            EventKind::Switch { prev, .. } => prev.pid,
            other => panic!("{other:?}"),
        }
    };
    let first = bundle(0, &[compact(&[10, 5])]);
    assert_eq!(prev(&[first.clone(), bundle(0, &[compact(&[20, 6])])]), Pid(5));
    let gap = bundle(0, &[number(3, 1), compact(&[20, 6])]);
    assert_eq!(prev(&[first.clone(), gap]), Pid::UNKNOWN);

    let torn = bundle(0, &[message(4, &[packed(1, &[20, 5]), packed(2, &[1])])]);
    assert!(contents(&[first, torn]).findings().contains(&("damaged_packets", None, 1)));
}

#[test]
fn what_cannot_be_is_told_and_left_out() {
    let contents = contents(&[
        bundle(1 << 20, &[idle(10, 0, 0)]),
        bundle(0, &[number(5, 3), idle(20, 0, 0)]),
        bundle(0, &[idle(30, 0, 0), bytes(8, b""), bytes(2, &[0xff])]),
    ]);
    assert_eq!(times(&contents), [(20, 0), (30, 0)]);
    assert_eq!(contents.summary.clock, "local");
    let found = contents.findings();
    for expected in [
        ("bad_cpu", None, 1),
        ("mixed_clocks", Some(0), 1),
        ("ftrace_errors", Some(0), 1),
        ("damaged_packets", None, 1),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not in {found:?}");
    }
}

//! `perf.data` in the forms that no sample has: both byte orders, streams, compression, lost
//! records, rounds, files without formats.

use crate::support::perf_file::{ID, IDENTIFIER, PerfFile, USUAL};
use crate::support::records::Records;
use crate::support::{Contents, read_bytes};
use schedlab_trace::{Event, EventKind, Pid, TaskState};

const SWITCH: u64 = 71;
const IDLE: u64 = 72;
const CLOCK: u64 = 73;

/// Two CPUs in two rounds; the second round begins before the first one's end.
fn two_rounds(big_endian: bool) -> PerfFile {
    let mut file = PerfFile::new(big_endian);
    let records = Records(file.abi);
    file.sample(SWITCH, 100, 0, &records.switch(("a", 7), 1, ("b", 8)));
    file.sample(IDLE, 300, 0, &records.idle(0, 2));
    file.sample(IDLE, 200, 1, &records.idle(1, 1));
    file.sample(CLOCK, 210, 1, &[]);
    file.finished_round();
    file.sample(IDLE, 400, 0, &records.idle(0, u32::MAX));
    file.sample(IDLE, 250, 1, &records.idle(1, u32::MAX));
    file.finished_round();
    file
}

fn times(contents: &Contents) -> Vec<(u64, u32)> {
    contents.events.iter().map(|event| (event.timestamp_ns, event.cpu.0)).collect()
}

fn check(bytes: &[u8]) {
    let contents = read_bytes(bytes).unwrap();
    assert_eq!(times(&contents), [(100, 0), (200, 1), (250, 1), (300, 0), (400, 0)]);
    let counts: Vec<_> =
        contents.summary.event_counts.iter().map(|(name, count)| (&**name, *count)).collect();
    assert_eq!(counts, [("cpu-clock:u", 1), ("cpu_idle", 4), ("sched_switch", 1)]);
    let Event { kind: EventKind::Switch { prev, prev_state, next, .. }, pid, .. } =
        contents.events[0]
    else {
        panic!("{:?}", contents.events[0]);
    };
    assert_eq!((pid, prev.pid, next.pid), (Pid(7), Pid(7), Pid(8)));
    assert_eq!(prev_state, TaskState::Sleeping);
    assert_eq!(contents.strings.get(next.comm), "b");
    let summary = &contents.summary;
    assert_eq!((&*summary.kernel_release, &*summary.clock), ("6.12.0-test", "mono"));
    assert_eq!(summary.cpus.len(), 4);
    assert_eq!(summary.time_span_ns, Some((100, 400)));
    assert_eq!(contents.strings.get(summary.task_names[&Pid(7)]), "task-seven");
    assert_eq!(contents.findings(), []);
}

#[test]
fn files_and_streams_of_both_byte_orders_compressed_or_not() {
    for big_endian in [false, true] {
        for compressed in [false, true] {
            let file = PerfFile { compressed, ..two_rounds(big_endian) };
            check(&file.bytes());
            check(&file.stream());
        }
    }
}

#[test]
fn lost_events_mark_their_place_and_their_cpu() {
    let mut file = two_rounds(false);
    let lost = [
        file.record(
            2,
            &[&72u64.to_le_bytes()[..], &5u64.to_le_bytes(), &file.record_end(350, 1, 72)].concat(),
        ),
        file.record(13, &[&3u64.to_le_bytes()[..], &file.record_end(360, 0, 72)].concat()),
        // What perf sums up at its end has neither time nor id.
        file.record(13, &[&9u64.to_le_bytes()[..], &file.record_end(0, 1, 0)].concat()),
    ];
    file.records.extend(lost);
    let contents = read_bytes(&file.bytes()).unwrap();
    let lost: Vec<_> = contents
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Lost { count } => Some((event.timestamp_ns, event.cpu.0, count)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(350, 1, 5), (360, 0, 3)]);
    assert_eq!(contents.summary.lost_events, 9 + 3);
    assert_eq!(contents.findings(), [("lost_events", Some(0), 3), ("lost_events", Some(1), 9)]);
}

#[test]
fn hardware_traces_are_passed_over_with_what_follows_them() {
    let mut file = two_rounds(false);
    let mut auxtrace = file.record(71, &[&1000u64.to_le_bytes()[..], &[0; 32]].concat());
    auxtrace.extend([0xff; 1000]);
    file.records.insert(2, auxtrace);
    check(&file.bytes());
}

#[test]
fn without_formats_tracepoints_are_counted_by_the_names_that_perf_gave() {
    let file = PerfFile { with_formats: false, ..two_rounds(false) };
    let contents = read_bytes(&file.bytes()).unwrap();
    assert!(contents.events.is_empty());
    assert_eq!(contents.summary.event_counts["cpu_idle"], 4);
    assert_eq!(contents.findings(), [("no_formats", None, 1)]);
}

#[test]
fn an_unfinished_file_is_counted_by_number() {
    let mut bytes = two_rounds(false).bytes();
    bytes[48..56].fill(0);
    let features_at = bytes.windows(4).rposition(|word| word == b"host").unwrap() - 200;
    bytes.truncate(features_at.min(bytes.len()));
    let contents = read_bytes(&bytes).unwrap();
    assert!(contents.findings().contains(&("unfinished", None, 1)));
    assert!(contents.findings().contains(&("no_formats", None, 1)));
    assert_eq!(contents.summary.event_counts["tracepoint_12"], 1);
}

#[test]
fn ids_may_stand_in_the_middle_of_a_sample() {
    // IP, TID, TIME, ID, CPU, PERIOD, RAW.
    let mut file = two_rounds(false);
    file.sample_type = USUAL & !IDENTIFIER | ID;
    for record in file.records.iter_mut().filter(|record| record[0] == 9) {
        let id: Vec<_> = record.drain(8..16).collect();
        let at = 8 + 24;
        record.splice(at..at, id);
    }
    check(&file.bytes());
}

#[test]
fn events_of_no_known_id_are_told() {
    let mut file = two_rounds(false);
    file.sample(99, 500, 0, &Records(file.abi).idle(0, 3));
    let contents = read_bytes(&file.bytes()).unwrap();
    assert_eq!(contents.findings(), [("damaged_samples", None, 1)]);
    assert_eq!(contents.events.len(), 5);
}

//! Damaged Perfetto traces: findings, never a panic.

use crate::support::damage::{flipped, flips};
use crate::support::protobuf::{bundle, bytes, event, number, packet};
use crate::support::{Contents, read, read_bytes, sample};
use proptest::prelude::*;
use schedlab_trace::TraceError;
use std::fs::File;
use std::io::Write;

fn whole() -> Vec<u8> {
    std::fs::read(sample("qemu_idle_menu_compact.pftrace")).unwrap()
}

/// What was read, or that no reader knows the content.
fn tolerated(result: Result<Contents, TraceError>) -> Option<Contents> {
    match result {
        Ok(contents) => {
            assert!(contents.events.is_sorted_by_key(|event| event.timestamp_ns));
            Some(contents)
        }
        Err(error) => {
            assert!(matches!(error, TraceError::UnknownFormat { .. }), "{error}");
            None
        }
    }
}

#[test]
fn truncated_everywhere() {
    let whole = whole();
    let all = read_bytes(&whole).unwrap().events.len();
    let mut before = 0;
    for length in (64..whole.len()).step_by(509).chain([whole.len() - 1]) {
        let contents = tolerated(read_bytes(&whole[..length])).unwrap();
        let events = contents.events.len();
        assert!(events >= before && events <= all, "cut to {length} bytes");
        assert!(contents.findings().len() <= 1);
        before = events;
    }
    assert!(before > all * 9 / 10);
}

#[test]
fn ten_sparse_gigabytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.pftrace");
    let mut file = File::create(&path).unwrap();
    file.write_all(&whole()).unwrap();
    file.set_len(10 << 30).unwrap();
    let contents = tolerated(read(schedlab_trace::open(&path).unwrap())).unwrap();
    assert_eq!(contents.events.len(), 9184);
    assert_eq!(contents.findings()[0].0, "damaged_packets");
}

#[test]
fn a_gzip_file_that_is_cut_gives_what_it_has() {
    let packed = std::fs::read(sample("android_print.pftrace.gz")).unwrap();
    let contents = read_bytes(&packed[..packed.len() / 2]).unwrap();
    assert!((1..1614).contains(&contents.summary.event_counts["print"]));
    assert!(contents.findings().iter().any(|finding| finding.0 == "damaged_gzip"));
}

#[test]
fn a_packet_as_long_as_can_be_said_ends_the_file() {
    let idle = event(10, 0, 13, &[number(1, 0), number(2, 0)]);
    let length = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let file = [
        bundle(0, std::slice::from_ref(&idle)),
        [&[0x0a], &length[..]].concat(),
        bundle(0, &[idle]),
    ];
    let contents = read_bytes(&file.concat()).unwrap();
    assert_eq!(contents.events.len(), 1);
    let told: Vec<_> = contents.findings().iter().map(|finding| finding.0).collect();
    assert!(told.contains(&"oversized_packets") && told.contains(&"truncated"), "{told:?}");
}

#[test]
fn packets_that_inflate_without_end_are_cut() {
    let bomb = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        (0..100).for_each(|_| encoder.write_all(&vec![0x0a; 1 << 20]).unwrap());
        encoder.finish().unwrap()
    };
    let idle = event(10, 0, 13, &[number(1, 0), number(2, 0)]);
    let file =
        [bundle(0, std::slice::from_ref(&idle)), packet(&[bytes(50, &bomb)]), bundle(0, &[idle])];
    let contents = read_bytes(&file.concat()).unwrap();
    assert_eq!(contents.events.len(), 2);
    assert!(contents.findings().iter().any(|finding| finding.0 == "damaged_compression"));
}

#[test]
fn names_without_number_do_not_fill_the_memory() {
    let events: Vec<_> = (0..40_000u64)
        .map(|step| event(step, 0, 327, &[bytes(1, format!("event_{step}").as_bytes())]))
        .collect();
    let contents = read_bytes(&bundle(0, &events)).unwrap();
    let counts = &contents.summary.event_counts;
    assert_eq!(counts.values().sum::<u64>(), 40_000);
    assert!(counts.len() < 20_000 && counts["further_events"] > 20_000);
}

#[test]
fn late_events_are_told() {
    // More than the window holds, then one that should have been first.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.pftrace");
    let mut file = std::io::BufWriter::new(File::create(&path).unwrap());
    let idle = |time: u64| event(time, 0, 13, &[number(1, 0), number(2, 0)]);
    for step in 0..700u64 {
        let events: Vec<_> = (0..4096).map(|time| idle(1_000_000 + step * 4096 + time)).collect();
        file.write_all(&bundle(0, &events)).unwrap();
    }
    file.write_all(&bundle(3, &[idle(5)])).unwrap();
    file.into_inner().unwrap();
    let contents = tolerated(read(schedlab_trace::open(&path).unwrap())).unwrap();
    assert_eq!(contents.events.len(), 700 * 4096);
    assert_eq!(contents.findings(), [("late_events", Some(3), 1)]);
    assert_eq!(contents.summary.event_counts["cpu_idle"], 700 * 4096 + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes: Vec<u8>) {
        let _ = tolerated(read_bytes(&bundle(0, std::slice::from_ref(&bytes))));
        let _ = tolerated(read_bytes(&packet(&[bytes])));
    }

    #[test]
    fn arbitrary_bodies_of_events(field in 1u64..700, body: Vec<u8>, time: u64) {
        let whole = bundle(0, &[event(time, 0, field, &[body])]);
        let _ = tolerated(read_bytes(&whole));
    }

    #[test]
    fn flipped_bytes(flips in flips()) {
        let _ = tolerated(read_bytes(&flipped(whole(), flips)));
    }
}

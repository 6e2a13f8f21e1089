//! Files that no sample is like: both byte orders and word sizes, both versions, all compressions,
//! several buffers, every kind of ring-buffer entry, lost events, shifted clocks.

use crate::support::dat_file::DatFile;
use crate::support::read_bytes;
use crate::support::records::Records;
use crate::support::ring_buffer::{Pages, number};
use schedlab_machine::CpuId;
use schedlab_trace::format::Abi;
use schedlab_trace::{EventKind, TaskState};

const ABIS: [Abi; 4] = [
    Abi { big_endian: false, long_size: 8 },
    Abi { big_endian: true, long_size: 8 },
    Abi { big_endian: false, long_size: 4 },
    Abi { big_endian: true, long_size: 4 },
];
const LITTLE: Abi = Abi::LITTLE_64;

/// CPU 0 and 2 of the top buffer, CPU 0 and 1 of an instance; some records at the same time.
fn two_buffers(version: u8, abi: Abi, compression: &'static str) -> DatFile {
    let records = Records(abi);
    let cpu = |start: u64, cpu: u64| {
        let mut pages = Pages::new(abi, 4096);
        for step in 0..400 {
            pages.record(start + step * 1_000, &records.idle(cpu, step as u32 % 4));
            let state = if step % 2 == 0 { 0x100 } else { 0x20 };
            let switch = records.switch(("swapper/0", 0), state, ("worker", 100 + step));
            pages.record(start + step * 1_000 + 10, &switch);
        }
        pages.finish()
    };
    let top = vec![cpu(1_000_000, 0), Vec::new(), cpu(1_000_500, 2)];
    let instance = vec![cpu(1_000_250, 0), cpu(1_000_000, 1), Vec::new()];
    DatFile {
        compression,
        task_names: "100 worker\n7 other\n",
        buffers: vec![("", top), ("second", instance)],
        ..DatFile::new(version, abi)
    }
}

#[test]
fn every_byte_order_word_size_version_and_compression() {
    let expected = read_bytes(&two_buffers(6, LITTLE, "none").bytes()).unwrap();
    assert_eq!(expected.events.len(), 4 * 2 * 400);
    assert_eq!(expected.summary.event_counts["sched_switch"], 1_600);
    let key = |event: &schedlab_trace::Event| (event.timestamp_ns, event.cpu);
    assert!(expected.events.is_sorted_by_key(key));
    let first: Vec<_> = expected.events[..3].iter().map(|event| event.cpu.0).collect();
    assert_eq!(first, [0, 1, 0], "at the same time the lower CPU comes first");
    assert_eq!(expected.summary.cpus, [CpuId(0), CpuId(1), CpuId(2)]);
    let states = expected.events.iter().filter_map(|event| match event.kind {
        EventKind::Switch { prev_state, .. } => Some(prev_state),
        _ => None,
    });
    let preempted = states.filter(|&state| state == TaskState::Preempted).count();
    assert_eq!(preempted, 800);

    for abi in ABIS {
        for (version, compression) in [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")] {
            let found = read_bytes(&two_buffers(version, abi, compression).bytes()).unwrap();
            let which = format!("{abi:?} v{version} {compression}");
            assert_eq!(found.events, expected.events, "{which}");
            assert_eq!(found.summary.event_counts, expected.summary.event_counts, "{which}");
            assert_eq!(found.summary.task_names.len(), 2, "{which}");
        }
    }
}

fn one_cpu(pages: Pages) -> DatFile {
    DatFile { buffers: vec![("", vec![pages.finish()])], ..DatFile::new(7, LITTLE) }
}

#[test]
fn every_kind_of_entry() {
    let records = Records(LITTLE);
    let mut pages = Pages::new(LITTLE, 4096);
    pages.record(1_000, &records.idle(0, 1));
    pages.discarded(1_500, &records.idle(0, 9));
    pages.record(2_000, &records.idle(0, 2));
    pages.record(2_000 + (1 << 40), &records.undecoded(100));
    pages.absolute(5 << 40);
    pages.record((5 << 40) + 7, &records.unknown());
    pages.record((5 << 40) + 8, &records.idle(0, u32::MAX));
    let found = read_bytes(&one_cpu(pages).bytes()).unwrap();
    let times: Vec<_> = found.events.iter().map(|event| event.timestamp_ns).collect();
    assert_eq!(times, [1_000, 2_000, (5 << 40) + 8]);
    assert_eq!(found.events[2].kind, EventKind::IdleExit { cpu: CpuId(0) });
    assert_eq!(found.summary.time_span_ns, Some((1_000, (5 << 40) + 8)));
    let counts = &found.summary.event_counts;
    assert_eq!((counts["cpu_idle"], counts["undecoded"], counts["unknown_999"]), (3, 1, 1));
    assert!(found.findings().contains(&("unknown_event_id", None, 1)));
}

#[test]
fn lost_events_are_marked_where_they_are_missing() {
    for abi in ABIS {
        let records = Records(abi);
        let mut pages = Pages::new(abi, 4096);
        pages.record(1_000, &records.idle(0, 1));
        pages.lose(Some(77));
        pages.record(2_000, &records.idle(0, 2));
        pages.lose(None);
        pages.record(3_000, &records.undecoded(1));
        pages.record(3_500, &records.idle(0, 3));
        let file = DatFile { buffers: vec![("", vec![pages.finish()])], ..DatFile::new(6, abi) };
        let found = read_bytes(&file.bytes()).unwrap();
        let lost = |event: &schedlab_trace::Event| match event.kind {
            EventKind::Lost { count } => Some((event.timestamp_ns, count)),
            _ => None,
        };
        let gaps: Vec<_> = found.events.iter().filter_map(lost).collect();
        assert_eq!(gaps, [(2_000, 77), (3_000, 0)]);
        assert_eq!(found.summary.lost_events, 77);
        let findings = found.findings();
        assert!(findings.contains(&("lost_events", Some(0), 77)), "{findings:?}");
        assert!(findings.contains(&("lost_events_uncounted", Some(0), 1)), "{findings:?}");
    }
}

#[test]
fn masks_and_constant_texts() {
    for abi in ABIS {
        let records = Records(abi);
        let bits = u64::from(abi.long_size) * 8;
        let mut pages = Pages::new(abi, 4096);
        pages.record(1, &records.ipi([0, 1 << 3], 0x1000));
        pages.record(2, &records.ipi([1 << 5, 1], 0x1000));
        pages.record(3, &records.ipi([1 << 5, 0], 0x2000));
        let file = DatFile {
            printk: "0x1000 : \"Rescheduling interrupts\"\n",
            buffers: vec![("", vec![pages.finish()])],
            ..DatFile::new(6, abi)
        };
        let found = read_bytes(&file.bytes()).unwrap();
        let sent: Vec<_> = found
            .events
            .iter()
            .map(|event| match event.kind {
                EventKind::IpiSend { target_cpu, callback } => {
                    (target_cpu.map(|cpu| u64::from(cpu.0)), found.strings.get(callback))
                }
                other => panic!("{other:?} is no IPI"),
            })
            .collect();
        let reason = "Rescheduling interrupts";
        assert_eq!(sent, [(Some(bits + 3), reason), (None, reason), (Some(5), "ipi")]);
    }
}

#[test]
fn time_options() {
    let mut pages = Pages::new(LITTLE, 4096);
    pages.record(1 << 30, &Records(LITTLE).idle(0, 1));
    let mut file = one_cpu(pages);
    let tsc = [number(LITTLE, 1 << 21, 4), number(LITTLE, 22, 4), number(LITTLE, 0, 8)].concat();
    file.options = vec![(14, tsc), (7, b"-100\0".to_vec()), (8, number(LITTLE, 3, 4))];
    let found = read_bytes(&file.bytes()).unwrap();
    assert_eq!(found.events[0].timestamp_ns, (1 << 29) - 100);
    assert_eq!(found.summary.cpus.len(), 3);
}

#[test]
fn clocks_that_are_no_time_are_findings() {
    for (version, clock, code) in
        [(7, "counter", Some("clock")), (7, "x86-tsc", Some("clock")), (7, "mono", None)]
    {
        let mut pages = Pages::new(LITTLE, 4096);
        pages.record(1_000, &Records(LITTLE).idle(0, 1));
        let mut file = one_cpu(pages);
        file.version = version;
        file.options = vec![(4, format!("local [{clock}] boot\0").into_bytes())];
        let found = read_bytes(&file.bytes()).unwrap();
        assert_eq!(found.summary.clock, clock);
        assert_eq!(found.findings().iter().find(|f| f.0 == "clock").map(|f| f.0), code);
    }
}

#[test]
fn the_clock_that_follows_a_version_6_table() {
    let mut file = two_buffers(6, LITTLE, "none");
    file.options = vec![(4, Vec::new())];
    let found = read_bytes(&file.bytes()).unwrap();
    assert_eq!(found.summary.clock, "mono");
    assert_eq!(found.events.len(), 3_200);
}

#[test]
fn time_never_goes_backwards() {
    let records = Records(LITTLE);
    let mut pages = Pages::new(LITTLE, 4096);
    pages.record(5_000, &records.idle(0, 1));
    pages.absolute(4_000);
    pages.record(4_000, &records.idle(0, 2));
    pages.record(6_000, &records.idle(0, 3));
    let found = read_bytes(&one_cpu(pages).bytes()).unwrap();
    let times: Vec<_> = found.events.iter().map(|event| event.timestamp_ns).collect();
    assert_eq!(times, [5_000, 5_000, 6_000]);
    assert!(found.findings().contains(&("time_backwards", Some(0), 1)));
}

#[test]
fn latency_text_is_a_finding() {
    let mut file = two_buffers(7, LITTLE, "none");
    file.options = vec![(22, [&[0; 8][..], b"wakeup\0mono\0"].concat())];
    let found = read_bytes(&file.bytes()).unwrap();
    assert!(found.findings().contains(&("latency_text", None, 1)));
    assert_eq!(found.events.len(), 3_200);
}

//! What holds of the text reader on any input.

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use schedlab_machine::CPUS_MAX;
use schedlab_trace::text::TextSource;
use schedlab_trace::{Event, EventKind, EventSource, Summary};
use std::path::Path;

const SAMPLES: [&[u8]; 4] = [
    include_bytes!("../../../../tests/data/traces/trappy_trace_sched.txt"),
    include_bytes!("../../../../tests/data/traces/trappy_trace_idle_unsorted.txt"),
    include_bytes!("../../../../tests/data/traces/trappy_trace_failed_to_parse.txt"),
    include_bytes!("../../../../tests/data/traces/qemu_trace_cmd_latency_format.txt"),
];

/// Reads everything and checks what every reader promises.
fn read(bytes: &[u8], is_html: bool) -> Option<(Vec<Event>, Summary)> {
    let name = Path::new("generated");
    let mut source = TextSource::new(bytes, name, bytes.len() as u64, is_html);
    let mut events = Vec::new();
    loop {
        let before = events.len();
        match source.read_batch(&mut events) {
            Ok(true) => assert!(events.len() - before <= 1 << 14, "batches are small"),
            Ok(false) => break,
            Err(_) => return None,
        }
    }
    assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
    let (done, all) = source.progress_bytes();
    assert_eq!(done, all, "everything was consumed");
    let (summary, _) = Box::new(source).finish();
    let counted: u64 = summary.event_counts.values().sum();
    let placed = events.iter().filter(|e| !matches!(e.kind, EventKind::Lost { .. })).count();
    assert!(placed as u64 <= counted);
    if let (Some((first, last)), [begin, .., end]) = (summary.time_span_ns, &events[..]) {
        assert!(first <= begin.timestamp_ns && end.timestamp_ns <= last);
    }
    Some((events, summary))
}

/// Lines that look like a trace's, with damage.
fn trace_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("  sh-12 [003] d..2 17.123456: sched_switch: ".to_owned()),
        Just("<idle>-0 (-----) [000] 17.123456789: cpu_idle: state=1 cpu_id=0".to_owned()),
        Just("prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> ".to_owned()),
        Just("CPU:3 [LOST 18446744073709551615 EVENTS]".to_owned()),
        Just("# entries-in-buffer/entries-written: 1/99 #P:4".to_owned()),
        Just("<script class=\"trace-data\" type=\"application/text\">".to_owned()),
        Just("</script>".to_owned()),
        Just("\\n\\\n".to_owned()),
        Just("\n".to_owned()),
        "[ -~]{0,12}",
        any::<i64>().prop_map(|number| number.to_string()),
        any::<Vec<u8>>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..4096), html: bool) {
        read(&bytes, html);
    }

    #[test]
    fn anything_like_a_trace_is_read(bytes in trace_like(), html: bool) {
        read(&bytes, html);
        schedlab_trace::text::sniff(&bytes);
    }

    #[test]
    fn any_order_of_lines_is_read(sample in any::<Index>(), swaps: Vec<(Index, Index)>) {
        let sample = SAMPLES[sample.index(SAMPLES.len())];
        let mut lines: Vec<&[u8]> = sample.split_inclusive(|&byte| byte == b'\n').collect();
        for (from, to) in swaps {
            let length = lines.len();
            lines.swap(from.index(length), to.index(length));
        }
        let (_, expected) = read(sample, false).expect("text is always read");
        let (_, shuffled) = read(&lines.concat(), false).expect("text is always read");
        prop_assert_eq!(shuffled.event_counts, expected.event_counts);
        prop_assert_eq!(shuffled.time_span_ns, expected.time_span_ns);
    }

    #[test]
    fn damage_and_truncation_cost_no_more_than_their_lines(
        sample in any::<Index>(), cut in any::<Index>(), flips: Vec<(Index, u8)>,
    ) {
        let sample = SAMPLES[sample.index(SAMPLES.len())];
        let mut bytes = sample[..=cut.index(sample.len())].to_vec();
        let (_, intact) = read(&bytes, false).expect("text is always read");
        for (place, value) in &flips {
            let length = bytes.len();
            bytes[place.index(length)] = *value;
        }
        let (_, damaged) = read(&bytes, false).expect("text is always read");
        let total = |summary: &Summary| summary.event_counts.values().sum::<u64>();
        // A damaged byte may join two lines or split one.
        let damage = 2 * flips.len() as u64;
        prop_assert!(total(&damaged) + damage >= total(&intact));
        prop_assert!(total(&damaged) <= total(&intact) + damage);
    }

    #[test]
    fn what_a_printer_writes_is_read_back(
        comm in "[ -~]{1,15}", next_comm in "[ -~]{1,15}", pid in 0..i32::MAX, next_pid in 0..i32::MAX,
        cpu in 0..CPUS_MAX as u32, nanoseconds in 0u64..1 << 60, prio in -1i32..140,
    ) {
        let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        let body = format!(
            "sched_switch: prev_comm={comm} prev_pid={pid} prev_prio={prio} prev_state=S ==> \
             next_comm={next_comm} next_pid={next_pid} next_prio=120"
        );
        let plugin = format!(
            "sched_switch: {comm}:{pid} [{prio}] S ==> {next_comm}:{next_pid} [120]"
        );
        let time = format!("{seconds}.{fraction:09}");
        for line in [
            format!("{comm:>16}-{pid:<7} [{cpu:03}] d..2. {time}: {body}\n"),
            format!("{comm:>16}-{pid:<7} (-------) [{cpu:03}] .... {time}: {body}\n"),
            format!("{comm:>16}-{pid:<5} [{cpu:03}] {time}: {plugin}\n"),
            format!("{comm:>8.8}-{pid:<5} {cpu:>3}d..2. {time}: {plugin}\n"),
            format!("{comm:>16} {pid:>5} [{cpu:03}] {time}: sched:{body}\n"),
            format!("{comm:>16} {pid:>5}/{pid:<5} [{cpu:03}] {time}: 1 sched:{body}\n"),
        ] {
            let (events, summary) = read(line.as_bytes(), false).expect("text is always read");
            prop_assert_eq!(summary.event_counts.get("sched_switch"), Some(&1), "{}", line);
            let [event] = events[..] else { panic!("{line}") };
            prop_assert_eq!((event.timestamp_ns, event.cpu.0), (nanoseconds, cpu), "{}", line);
            prop_assert_eq!(event.pid.0, pid, "{}", line);
            let EventKind::Switch { prev, prev_prio, next, .. } = event.kind else {
                panic!("{line}")
            };
            prop_assert_eq!((prev.pid.0, prev_prio, next.pid.0), (pid, prio, next_pid), "{}", line);
        }
    }

    #[test]
    fn lost_events_are_added_up(lost in subsequence((0u64..64).collect::<Vec<_>>(), 1..20)) {
        let mut text = String::new();
        for (index, count) in lost.iter().enumerate() {
            let cpu = index % 3;
            text += &format!("CPU:{cpu} [LOST {count} EVENTS]\n");
            text += &format!(" a-1 [{cpu:03}] .... {index}.0: cpu_idle: state=1 cpu_id={cpu}\n");
        }
        let (events, summary) = read(text.as_bytes(), false).expect("text is always read");
        prop_assert_eq!(summary.lost_events, lost.iter().sum::<u64>());
        let placed: Vec<u64> = events.iter().filter_map(|event| match event.kind {
            EventKind::Lost { count } => Some(count),
            _ => None,
        }).collect();
        prop_assert_eq!(placed, lost);
    }
}

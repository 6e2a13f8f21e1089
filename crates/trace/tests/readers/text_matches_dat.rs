//! The text that `trace-cmd report` prints of a `trace.dat` gives the same events as the file
//! itself, with nanoseconds and with microseconds, states included.

use crate::support::{Contents, read, read_bytes, sample};
use schedlab_trace::{Event, EventKind, TaskState};
use std::io::Read;

/// What `trace-cmd report -t` prints of the sample.
fn printed(name: &str) -> String {
    let packed = std::fs::File::open(sample(&format!("{name}.txt.zst"))).expect("the sample opens");
    let mut text = String::new();
    let mut unpacked = zstd::Decoder::new(packed).expect("the sample is compressed");
    unpacked.read_to_string(&mut text).expect("the sample is text");
    text
}

/// As without `-t`: nanoseconds become microseconds, rounded to the nearest, as trace-cmd does.
fn in_microseconds(text: &str) -> String {
    let mut shortened = String::new();
    for line in text.lines() {
        let time = line.split(' ').find(|word| word.len() > 11 && word.ends_with(':'));
        match time.and_then(|time| Some((time, time.trim_end_matches(':').split_once('.')?))) {
            Some((time, (seconds, fraction))) if line.contains("] ") => {
                let seconds: u64 = seconds.parse().expect("seconds");
                let nanoseconds: u64 = fraction.parse().expect("nine digits");
                let rounded = (seconds * 1_000_000_000 + nanoseconds + 500) / 1000;
                let (seconds, rest) = (rounded / 1_000_000, rounded % 1_000_000);
                shortened += &line.replacen(time, &format!("{seconds}.{rest:06}:"), 1);
            }
            _ => shortened += line,
        }
        shortened.push('\n');
    }
    shortened
}

/// An event without what a plugin's print leaves out, and with texts in place of numbers.
fn shown(event: &Event, contents: &Contents) -> String {
    let mut kind = event.kind;
    if let EventKind::Switch { prev_state, .. } = &mut kind
        && *prev_state == TaskState::Preempted
    {
        *prev_state = TaskState::Running;
    }
    let mut text = format!("cpu {} pid {} {kind:?}", event.cpu, event.pid.0);
    while let Some(start) = text.find("StrId(") {
        let end = start + text[start..].find(')').expect("Debug closes its parentheses");
        let id = schedlab_trace::StrId(text[start + 6..end].parse().expect("a number"));
        text.replace_range(start..=end, &format!("{:?}", contents.strings.get(id)));
    }
    text
}

fn check(name: &str) {
    let binary = read(schedlab_trace::open(&sample(name)).expect("opens")).expect("reads");
    let nanoseconds = printed(name);
    let microseconds = in_microseconds(&nanoseconds);
    let rounded = |timestamp_ns: u64| (timestamp_ns + 500) / 1000 * 1000;
    for (text, is_rounded) in [(nanoseconds, false), (microseconds, true)] {
        let textual = read_bytes(text.as_bytes()).expect("text reads");
        assert_eq!(textual.summary.event_counts, binary.summary.event_counts, "{name}");
        assert_eq!(textual.summary.cpus, binary.summary.cpus, "{name}");
        assert_eq!(textual.events.len(), binary.events.len(), "{name}");
        for (mine, theirs) in textual.events.iter().zip(&binary.events) {
            let expected_ns =
                if is_rounded { rounded(theirs.timestamp_ns) } else { theirs.timestamp_ns };
            assert_eq!(mine.timestamp_ns, expected_ns, "{name}");
            assert_eq!(shown(mine, &textual), shown(theirs, &binary), "{name}");
        }
        let is_coarse = textual.findings().iter().any(|(code, ..)| *code == "timestamp_precision");
        assert_eq!(is_coarse, is_rounded, "{name}");
    }
}

#[test]
fn arm64_with_utilisation_events() {
    check("lisa_sched_load.dat");
}

#[test]
fn x86_with_timers() {
    check("qemu_idle_menu.dat");
}

#[test]
fn x86_with_probes() {
    check("qemu_pelt_ptask.dat");
}

#[test]
fn arm32_of_an_old_kernel() {
    check("trappy_arm32.dat");
}

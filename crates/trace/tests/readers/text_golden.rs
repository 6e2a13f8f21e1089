//! Golden tests of the text readers: a real trace in, what was understood of it out.
//!
//! `UPDATE_GOLDEN=1 cargo test -p schedlab-trace --test readers text_golden` writes the expectations anew.

use schedlab_trace::{Event, EventKind, EventSource, StrId, Strings};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces")
}

fn read(path: &Path) -> (Vec<Event>, Box<dyn EventSource>) {
    let mut source = schedlab_trace::open(path).expect("the sample opens");
    let mut events = Vec::new();
    while source.read_batch(&mut events).expect("the sample reads") {}
    (events, source)
}

/// The variant's name, which groups events of one kind.
fn kind_name(kind: &EventKind) -> String {
    format!("{kind:?}").split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// An event with its texts in place of their numbers.
fn shown(event: &Event, strings: &Strings) -> String {
    let mut text = format!("{} cpu {} pid {} ", event.timestamp_ns, event.cpu, event.pid.0);
    let raw = format!("{:?}", event.kind);
    let mut rest = raw.as_str();
    while let Some((before, after)) = rest.split_once("StrId(") {
        let (number, behind) = after.split_once(')').expect("Debug closes its parentheses");
        let id = StrId(number.parse().expect("a number"));
        let _ = write!(text, "{before}{:?}", strings.get(id));
        rest = behind;
    }
    text + rest
}

fn summarised(path: &Path) -> String {
    let (events, source) = read(path);
    let summary = source.summary();
    let mut text = String::new();
    let _ = writeln!(text, "format {}", summary.format);
    let _ = writeln!(text, "clock {:?} kernel {:?}", summary.clock, summary.kernel_release);
    let _ = writeln!(text, "cpus {:?}", summary.cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
    let _ = writeln!(text, "span {:?} lost {}", summary.time_span_ns, summary.lost_events);
    for (name, count) in &summary.event_counts {
        let _ = writeln!(text, "count {name} {count}");
    }
    for finding in summary.quality.findings() {
        let cpu = finding.cpu.map(|cpu| format!(" cpu {cpu}")).unwrap_or_default();
        let (severity, count) = (finding.severity.name(), finding.count);
        let _ = writeln!(text, "{severity} {}{cpu} {count}: {}", finding.code, finding.message);
    }
    let mut kinds: BTreeMap<String, Vec<&Event>> = BTreeMap::new();
    for event in &events {
        kinds.entry(kind_name(&event.kind)).or_default().push(event);
    }
    for (name, events) in kinds {
        let _ = writeln!(text, "kind {name} {}", events.len());
        for event in events.iter().take(2).chain(events.get(2..).and_then(<[_]>::last)) {
            let _ = writeln!(text, "  {}", shown(event, source.strings()));
        }
    }
    assert!(events.is_sorted_by_key(|event| event.timestamp_ns), "{}", path.display());
    text
}

#[test]
fn samples_are_understood_as_before() {
    let mut names: Vec<_> = std::fs::read_dir(traces())
        .expect("the samples are part of the repository")
        .map(|entry| entry.expect("the directory reads").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "txt" || ext == "html"))
        .collect();
    names.sort();
    assert!(names.len() >= 11, "{names:?}");
    for path in names {
        let summary = summarised(&path);
        let mut golden = path.clone().into_os_string();
        golden.push(".golden");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &summary).expect("the expectation is written");
        }
        let expected = std::fs::read_to_string(&golden).expect("each sample has an expectation");
        assert_eq!(summary, expected, "{}", path.display());
    }
}

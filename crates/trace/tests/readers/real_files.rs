//! Every trace of a directory, read whole: `SCHEDLAB_TRACES=DIR make traces`, or else the samples
//! of the repository. Prints a line per file and fails where a reader breaks its promises.

use crate::support::{Contents, read, sample};
use schedlab_trace::{EventKind, Finding, TraceError};
use std::path::{Path, PathBuf};

/// Files under `directory`, in the order of their paths.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the directory of traces opens");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("it reads").path()).collect();
    entries.sort();
    entries
        .into_iter()
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

/// What every reader promises of every file.
fn check(contents: &Contents) {
    let Contents { events, summary, strings } = contents;
    assert!(!summary.format.is_empty(), "a format has a name");
    assert!(events.is_sorted_by_key(|event| event.timestamp_ns), "events come in time order");
    assert!(summary.cpus.is_sorted_by(|a, b| a < b), "CPUs are listed once, in order");
    let counted: u64 = summary.event_counts.values().sum();
    let parsed = events.iter().filter(|e| !matches!(e.kind, EventKind::Lost { .. })).count();
    assert!(parsed as u64 <= counted, "{parsed} parsed events of {counted}");
    if let ([first, .., last], Some((begin, end))) = (&events[..], summary.time_span_ns) {
        assert!(begin <= first.timestamp_ns && last.timestamp_ns <= end, "the span covers all");
    }
    for event in events {
        assert!(summary.cpus.contains(&event.cpu), "CPU {} is listed", event.cpu);
        if let EventKind::Switch { prev, next, .. } = event.kind {
            assert!(!strings.get(prev.comm).is_empty() || !strings.get(next.comm).is_empty());
        }
    }
}

fn describe(contents: &Contents) -> String {
    let summary = &contents.summary;
    let events: u64 = summary.event_counts.values().sum();
    let (begin, end) = summary.time_span_ns.unwrap_or_default();
    let finding = |finding: &Finding| match finding.cpu {
        Some(cpu) => format!("{} on CPU {cpu} x{}", finding.code, finding.count),
        None => format!("{} x{}", finding.code, finding.count),
    };
    let findings: Vec<_> = summary.quality.findings().iter().map(finding).collect();
    format!(
        "{}, {events} events of {} types, {} CPUs, {:.6} s, {} lost [{}]",
        summary.format,
        summary.event_counts.len(),
        summary.cpus.len(),
        end.saturating_sub(begin) as f64 / 1e9,
        summary.lost_events,
        findings.join(", "),
    )
}

#[test]
fn every_trace_is_read_to_its_end() {
    let named = std::env::var_os("SCHEDLAB_TRACES").filter(|name| !name.is_empty());
    let directory = named.map_or_else(|| sample("."), PathBuf::from);
    let mut traces = 0;
    for path in files(&directory) {
        let shown = path.strip_prefix(&directory).unwrap_or(&path).display();
        match schedlab_trace::open(&path).and_then(read) {
            Ok(contents) => {
                println!("{shown}: {}", describe(&contents));
                check(&contents);
                traces += 1;
            }
            Err(TraceError::UnknownFormat { first, .. }) => {
                println!("{shown}: skipped, no reader knows it: {first}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(traces > 0, "{} holds no trace", directory.display());
}

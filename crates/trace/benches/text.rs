//! How fast text becomes events, in bytes of text per second on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schedlab_trace::EventSource;
use schedlab_trace::text::TextSource;
use std::hint::black_box;
use std::path::Path;

const TEXT_BYTES: usize = 32 << 20;

/// `sample` over and over, each time later than before, as a long trace is.
fn lengthened(sample: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(TEXT_BYTES + sample.len());
    for round in 0u64.. {
        for line in sample.split_inclusive(|&byte| byte == b'\n') {
            match seconds(line) {
                Some((from, to, seconds)) => {
                    text.extend_from_slice(&line[..from]);
                    text.extend_from_slice((seconds + 100 * round).to_string().as_bytes());
                    text.extend_from_slice(&line[to..]);
                }
                None => text.extend_from_slice(line),
            }
        }
        if text.len() >= TEXT_BYTES {
            break;
        }
    }
    text
}

/// Where the seconds of a line's time stand, and their number.
fn seconds(line: &[u8]) -> Option<(usize, usize, u64)> {
    let colon = (1..line.len()).find(|&at| {
        let word = line[..at].rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        line[at] == b':' && word.len() > 7 && word.iter().all(|b| b.is_ascii_digit() || *b == b'.')
    })?;
    let from = line[..colon].iter().rposition(|&byte| byte == b' ')? + 1;
    let to = from + line[from..colon].iter().position(|&byte| byte == b'.')?;
    let seconds = std::str::from_utf8(&line[from..to]).ok()?.parse().ok()?;
    Some((from, to, seconds))
}

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("text");
    for name in [
        "qemu_trace_cmd_report_ns.txt",
        "qemu_trace_cmd_raw.txt",
        "qemu_trace_cmd_latency_format.txt",
        "android_systrace.txt",
        "qemu_perf_script_ns.txt",
    ] {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces");
        let sample = std::fs::read(samples.join(name)).expect("the sample is in the repository");
        let text = lengthened(&sample);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(10);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let path = Path::new(name);
                let mut source = TextSource::new(&text[..], path, text.len() as u64, false);
                let mut batch = Vec::new();
                while source.read_batch(&mut batch).expect("memory does not fail") {
                    black_box(&batch);
                    batch.clear();
                }
                source.summary().event_counts.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);

//! How fast `trace.dat` is read: MB of raw ring-buffer pages a second on one core, into counted
//! and decoded events; and, where trace-cmd is installed, against `trace-cmd report > /dev/null`
//! on the same file.

#[path = "../tests/readers/support/mod.rs"]
mod support;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{repeat::repeat, sample, v7_as_v6::v7_as_v6};

/// Pages in the file that is read.
const PAGES_BYTES: u64 = 200 << 20;

/// A long trace made of the pages of a sample, written once.
fn long_trace(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("long-{name}"));
    if !path.exists() {
        let source = fs::read(sample(name)).expect("the sample is there");
        let source = v7_as_v6(&source).unwrap_or(source);
        repeat(&source, &path, PAGES_BYTES).expect("the file can be written");
    }
    path
}

/// Reads a trace to its end: events of all kinds, and those decoded.
fn import(path: &Path) -> (u64, u64) {
    let mut source = schedlab_trace::open(path).expect("the file opens");
    let (mut events, mut decoded) = (Vec::new(), 0);
    while source.read_batch(&mut events).expect("the file reads") {
        decoded += events.len() as u64;
        events.clear();
    }
    (source.summary().event_counts.values().sum(), decoded)
}

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trace.dat pages");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for name in ["qemu_idle_menu.dat", "qemu_pelt_ptask.dat", "trappy_arm32.dat"] {
        let path = long_trace(name);
        let (all, decoded) = import(&path);
        println!("{name}: {all} events, {decoded} decoded");
        group.throughput(Throughput::BytesDecimal(PAGES_BYTES));
        group.bench_function(name, |bencher| {
            bencher.iter(|| import(&path));
        });
    }
    group.finish();
}

/// Each once on a warm file, alternating so that a slow moment of the machine touches both.
fn against_trace_cmd(_: &mut Criterion) {
    let path = long_trace("qemu_idle_menu.dat");
    let report = || {
        let mut command = Command::new("trace-cmd");
        command.arg("report").arg("-i").arg(&path).stderr(Stdio::null());
        command.stdout(File::create("/dev/null").expect("it is there"));
        let start = Instant::now();
        let done = command.status().is_ok_and(|status| status.success());
        done.then(|| start.elapsed())
    };
    let Some(first) = report() else {
        println!("trace-cmd is not installed: no comparison");
        return;
    };
    let (mut theirs, mut mine) = (first, Duration::MAX);
    for _ in 0..2 {
        let start = Instant::now();
        import(&path);
        mine = mine.min(start.elapsed());
        theirs = theirs.min(report().unwrap_or(theirs));
    }
    let ratio = theirs.as_secs_f64() / mine.as_secs_f64();
    println!("trace-cmd report: {theirs:.2?}, schedlab: {mine:.2?}, {ratio:.1} times as fast");
}

criterion_group!(benches, pages, against_trace_cmd);
criterion_main!(benches);

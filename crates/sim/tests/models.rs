//! The benchmark models and rt-app files run, and count what the real tools would.

#[allow(dead_code, reason = "each test takes what it needs")]
mod support;

use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_sim::{Ending, Nothing, Outcome, Settings};
use schedlab_workload::load;
use schedlab_workload::models::{Model, ebizzy, hackbench, perf_bench, schbench, sysbench};
use schedlab_workload::program::Workload;
use support::{run, settings};

const S: u64 = 1_000_000_000;

fn current() -> Settings {
    settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr)
}

fn simulate(model: &impl Model, duration_ns: u64) -> Outcome<Nothing> {
    let workload = model.workload("test", 8).expect("a valid workload");
    run("generic", &workload, &Settings { duration_ns, ..current() }, Nothing)
}

fn figure(outcome: &Outcome<Nothing>, name: &str) -> f64 {
    let found = outcome.figures.iter().find(|figure| figure.name == name);
    found.and_then(|figure| figure.value).unwrap_or_else(|| panic!("no {name}"))
}

fn small_hackbench() -> hackbench::Options {
    hackbench::Options { groups: 2, fds: 5, loops: 40, ..hackbench::Options::default() }
}

#[test]
fn hackbench_passes_every_message() {
    for pipe in [false, true] {
        let options = hackbench::Options { pipe, ..small_hackbench() };
        let outcome = simulate(&options, 10 * S);
        assert_eq!(outcome.ending, Ending::Finished);
        assert_eq!(figure(&outcome, "messages"), options.messages() as f64);
        assert!(figure(&outcome, "Time") > 0.0);
        assert_eq!(outcome.tasks.len(), 21);
    }
}

#[test]
fn equal_runs_have_equal_digests() {
    let workload = small_hackbench().workload("test", 8).expect("valid");
    let digest = |seed, workload: &Workload| {
        let settings = Settings { seed, shuffle_ties: true, ..current() };
        let outcome = run("generic", workload, &settings, Nothing);
        (outcome.digest, outcome.events, outcome.end_ns)
    };
    assert_eq!(digest(1, &workload), digest(1, &workload));
    let options = sysbench::Options {
        test: sysbench::Test::Mutex,
        threads: 8,
        mutex_num: 4,
        mutex_locks: 200,
        ..sysbench::Options::default()
    };
    let random = options.workload("test", 8).expect("valid");
    assert_eq!(digest(1, &random), digest(1, &random));
    assert_ne!(digest(1, &random), digest(2, &random));
}

#[test]
fn sysbench_cpu_counts_events_of_its_length() {
    let options = sysbench::Options { threads: 4, time: 1, ..sysbench::Options::default() };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.tasks.len(), 5);
    let events = figure(&outcome, "total number of events");
    let most = 4.0 * 1e9 / 297_000.0;
    // Four threads on eight CPUs: at least as many as two threads alone would have carried out.
    assert!(events <= most * 1.001 && events > most / 2.0, "{events} of {most}");
    assert!(figure(&outcome, "latency avg") >= 0.296);
}

#[test]
fn sysbench_mutex_ends_with_its_work() {
    let options = sysbench::Options {
        test: sysbench::Test::Mutex,
        threads: 4,
        mutex_num: 1,
        mutex_locks: 500,
        ..sysbench::Options::default()
    };
    let outcome = simulate(&options, 10 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(figure(&outcome, "total number of events"), 4.0);
    // No thread can be faster than its own empty loops.
    assert!(figure(&outcome, "total time") >= 500.0 * 3.85e-6);
}

#[test]
fn sysbench_threads_makes_progress_under_contention() {
    let options = sysbench::Options {
        test: sysbench::Test::Threads,
        threads: 16,
        time: 1,
        ..sysbench::Options::default()
    };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert!(figure(&outcome, "total number of events") >= 16.0);
}

#[test]
fn schbench_measures_both_latencies() {
    let options = schbench::Options { runtime: 1, ..schbench::Options::default() };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert!(figure(&outcome, "average rps") > 100.0);
    assert!(figure(&outcome, "Wakeup Latencies 50.0th") > 0.0);
    // A request contains 100 us of sleep and 6 ms of work.
    assert!(figure(&outcome, "Request Latencies 50.0th") >= 6_000.0);
    let version = schbench::Version::V91ea787;
    let old = schbench::Options { runtime: 2, version, ..schbench::Options::default() };
    let outcome = simulate(&old, 4 * S);
    // 168 million multiplications and additions.
    assert!(figure(&outcome, "Latency 99.0th") >= 175_000.0, "{:?}", outcome.figures);
}

#[test]
fn ebizzy_counts_records_of_all_cpus() {
    let options = ebizzy::Options { seconds: 1, ..ebizzy::Options::default() };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.tasks.len(), 17);
    let most = 8.0 * 1e9 / 37_500.0;
    let records = figure(&outcome, "records/s");
    // Four cores, and a little more by their second threads.
    assert!(records <= most * 1.01 && records > most / 2.0, "{records} of {most}");
    assert!(outcome.tasks.iter().all(|task| task.runtime_ns > 0));
}

#[test]
fn perf_bench_wakes_everybody_and_goes_to_and_fro() {
    let outcome = simulate(&perf_bench::FutexWake { threads: Some(16), nwakes: 1 }, 10 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert_eq!(outcome.tasks.len(), 161);
    assert!(figure(&outcome, "Wokeup threads") > 0.0);
    let outcome = simulate(&perf_bench::SchedPipe { loops: 1000, threaded: false }, 10 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    assert!(figure(&outcome, "Total time") > 0.0);
}

#[test]
fn rt_app_files_run_to_their_duration() {
    for (name, tasks) in [
        ("mp3-short", 6),
        ("browser-short", 10),
        ("video-short", 18),
        ("template", 2),
        ("example1", 2),
        ("example7", 3),
        ("example9", 5),
    ] {
        let path = format!("{}/../workload/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let workload = load(&path, 8).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run("generic", &workload, &current(), Nothing);
        assert_eq!(outcome.ending, Ending::TimeUp, "{name}");
        assert!(outcome.tasks.len() >= tasks, "{name}: {}", outcome.tasks.len());
        let idle = outcome.tasks.iter().filter(|task| task.switches == 0).count();
        assert_eq!(idle, 0, "{name}: every thread gets a CPU");
    }
}

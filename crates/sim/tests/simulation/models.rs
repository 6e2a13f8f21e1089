//! The benchmark models and rt-app files run, and count what the real tools would.

use crate::support::{run, settings};
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_sim::{Ending, Nothing, Outcome, Settings};
use schedlab_workload::load;
use schedlab_workload::models::{
    Model, bzip2, ebizzy, geekbench, hackbench, jankbench, pcmark, perf_bench, schbench, specjbb,
    speedometer, sysbench,
};
use schedlab_workload::program::Workload;

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
fn sysbench_alone_takes_what_its_steps_take() {
    // On the Kunpeng a line that the CPU owns costs 7.7 ns to change and 1.5 ns to store into, and
    // a system call 100 ns; each is rounded up to whole nanoseconds.
    let one = sysbench::Options { threads: 1, ..sysbench::Options::default() };
    let kunpeng = |options: sysbench::Options| {
        let workload = options.workload("test", 128).expect("valid");
        run("kunpeng920-2s", &workload, &Settings { duration_ns: 10 * S, ..current() }, Nothing)
    };
    let test = sysbench::Test::Mutex;
    let mutex = kunpeng(sysbench::Options { test, mutex_num: 1, mutex_locks: 5_000, ..one });
    // 10000 empty iterations of 385 ps, lock, store, unlock.
    let expected_s = 5_000.0 * (3_850.0 + 8.0 + 2.0 + 8.0) / 1e9;
    let total_s = figure(&mutex, "total time");
    assert!((total_s / expected_s - 1.0).abs() < 0.01, "{total_s}, not {expected_s}");

    let test = sysbench::Test::Threads;
    let threads = kunpeng(sysbench::Options { test, time: 1, ..one });
    // 1000 rounds of lock, yield (a system call that finds nobody else) and unlock.
    let round_ns = 1e6 / figure(&threads, "events per second");
    assert!((round_ns / (8.0 + 100.0 + 8.0) - 1.0).abs() < 0.01, "{round_ns}");
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
fn schbench_that_spins_measures_what_goes_beyond_the_spin() {
    let version = schbench::Version::V2eef447;
    let few = schbench::Options {
        version,
        runtime: 2,
        message_threads: Some(1),
        threads: Some(3),
        ..schbench::Options::default()
    };
    // Four threads on eight CPUs: a wake-up out of C8 (200 us), and a few interrupts of the spin.
    let alone = figure(&simulate(&few, 4 * S), "Latency 50.0th");
    assert!((200.0..300.0).contains(&alone), "{alone}");
    // A worker that shares its CPU reads the clock late.
    let many = schbench::Options { threads: Some(40), ..few };
    let crowded = figure(&simulate(&many, 4 * S), "Latency 99.0th");
    assert!(crowded > 3_000.0, "{crowded}");
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
fn bunzip2_computes_for_its_user_time_and_waits_for_the_disk() {
    let options =
        bzip2::Options { blocks: 10, user_ms: 700, system_ms: 150, wait_ms: 50, watchdog_ms: 0 };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    let task = &outcome.tasks[0];
    assert_eq!(task.user_ns, 700_000_000);
    // The kernel's own paths come on top of the system calls.
    let system_ns = task.runtime_ns - task.user_ns;
    assert!((150_000_000..152_000_000).contains(&system_ns), "{system_ns}");
    let elapsed_s = figure(&outcome, "elapsed");
    assert!((0.9..0.905).contains(&elapsed_s), "{elapsed_s}");
}

#[test]
fn warehouses_work_until_the_collector_stops_them() {
    let options = specjbb::Options {
        warehouses: Some(4),
        seconds: 1,
        collection_period_ms: 100,
        collection_ms: 10,
        ..specjbb::Options::default()
    };
    let outcome = simulate(&options, 3 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    // Four of four cores work, but for the tenth of the time that the collections take, in which
    // both threads of each core share it.
    let most = 4.0 * 1e9 / 40_000.0;
    let operations = figure(&outcome, "BOPS");
    assert!((0.8 * most..0.92 * most).contains(&operations), "{operations} of {most}");
    let collection_us = figure(&outcome, "collection mean");
    assert!((10_000.0..20_000.0).contains(&collection_us), "{collection_us}");
    // Without a collection nobody stops.
    let calm = simulate(&specjbb::Options { collection_period_ms: 2_000, ..options }, 3 * S);
    assert!(figure(&calm, "BOPS") > 0.98 * most);
}

#[test]
fn geekbench_is_rated_by_how_long_its_computations_take() {
    let options = geekbench::Options {
        workloads: 3,
        gap_ms: 20,
        single_ms: 100,
        multi_ms: 400,
        points_ms: 100_000,
        background_pairs: 0,
        interrupts_per_s: 0,
        housekeeping_ms: 0,
        ..geekbench::Options::default()
    };
    let outcome = simulate(&options, 10 * S);
    assert_eq!(outcome.ending, Ending::Finished);
    let single_ms = figure(&outcome, "one thread");
    assert!((100.0..101.0).contains(&single_ms), "{single_ms}");
    // Eight threads of four cores, which yield five quarters of a core's throughput, and a wait at
    // the end of each of four parts for the last chunk.
    let least_ms = 400.0 / (4.0 * 1.25);
    let multi_ms = figure(&outcome, "many threads");
    assert!((least_ms..least_ms + 4.0 * 9.0).contains(&multi_ms), "{multi_ms} of {least_ms}");
    let score = figure(&outcome, "score");
    assert!((score / (100_000.0 / multi_ms) - 1.0).abs() < 0.02, "{score}");
}

#[test]
fn jankbench_draws_a_frame_at_every_refresh() {
    let options = jankbench::Options {
        seconds: 2,
        frames: 1_000_000,
        pause_ms: 0,
        background_pairs: 0,
        interrupts_per_s: 0,
        housekeeping_ms: 0,
        ..jankbench::Options::default()
    };
    let workload = options.workload("test", 8).expect("a valid workload");
    let settings = Settings { duration_ns: 3 * S, ..current() };
    let outcome = run("generic", &workload, &settings, Nothing);
    assert_eq!(outcome.ending, Ending::Finished);
    let frames = outcome.figures.iter().find(|figure| figure.name == "frame").expect("frames");
    assert!((117..=121).contains(&frames.samples), "{}", frames.samples);
    // Application, RenderThread and GPU take 5.5 ms, and each has to be woken from a deep sleep.
    let frame_ms = frames.value.expect("a mean");
    assert!((5.5..6.5).contains(&frame_ms), "{frame_ms}");
}

#[test]
fn pages_are_rated_by_their_timed_actions() {
    let options = pcmark::Options { seconds: 10, ..pcmark::Options::default() };
    let outcome = simulate(&options, 20 * S);
    let times = ["R1", "R4", "R5", "R7"].map(|action| figure(&outcome, action));
    // The longest action is that with most bursts, 23 of 10 ms and 1 ms each of script and helper.
    let longest_ms = 23.0 * 12.0;
    assert!((times[0] / longest_ms - 1.0).abs() < 0.15, "{times:?}");
    assert!(times[0] > times[3] && times[3] > times[1] && times[1] > times[2], "{times:?}");
    let mean_ms = times.iter().product::<f64>().powf(0.25);
    let score = figure(&outcome, "score");
    assert!((score / (2_500_000.0 / mean_ms) - 1.0).abs() < 0.1, "{score}");
}

#[test]
fn a_page_that_never_rests_is_rated_by_its_runs() {
    let options = speedometer::Options { seconds: 4, ..speedometer::Options::default() };
    let outcome = simulate(&options, 10 * S);
    // 300 steps of 1.5 ms, each with a helper of 0.3 ms and two ways out of an idle state.
    let run_ms = figure(&outcome, "run");
    assert!((540.0..720.0).contains(&run_ms), "{run_ms}");
    assert!((figure(&outcome, "score") / (60_000.0 / run_ms) - 1.0).abs() < 0.02);
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

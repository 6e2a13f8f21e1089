//! Operating points in a run: speed, limits, time and power by hand.

use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_sim::{Ending, Outcome, Settings, simulate, verify_outcome};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::build::Builder;
use schedlab_workload::program::{Amount, ObjectKind, Op, Which, Workload};

const MS: u64 = 1_000_000;

/// A task on CPU 7, which is big: so many times, it computes for so long (at full speed) and sleeps.
fn beats(times: u64, run_ns: u64, sleep_ns: u64) -> Workload {
    let mut build = Builder::new("beats");
    let program = build.program("beat", |code| {
        code.repeat(times, |code| {
            code.run(run_ns);
            if sleep_ns > 0 {
                code.op(Op::Sleep(Amount::Fixed(sleep_ns)));
            }
        });
    });
    build.attributes(program).affinity = Some(CpuSet::of(CpuId(7)));
    build.spawn(program, 7, 0);
    build.finish().expect("valid")
}

fn phone() -> Machine {
    Machine::preset("pixel6-gs101").expect("a preset")
}

fn run(
    machine: &Machine,
    workload: &Workload,
    governor: CpufreqGovernor,
    duration_ns: u64,
) -> Outcome<Vec<Event>> {
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let mut settings = Settings::new(&kernel, machine, duration_ns, 1);
    settings.cpufreq.governor = Some(governor);
    let outcome = simulate(machine, kernel.domains, workload, &settings, Vec::new());
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    verify_outcome(machine, &outcome).unwrap_or_else(|what| panic!("{what}"));
    outcome
}

/// Frequencies of CPU 7 with their begin, ns.
fn steps(outcome: &Outcome<Vec<Event>>) -> Vec<(u64, u32)> {
    let changes = outcome.observer.iter().filter_map(|event| match event.kind {
        EventKind::Frequency { cpu: CpuId(7), frequency_khz } => {
            Some((event.timestamp_ns, frequency_khz))
        }
        _ => None,
    });
    changes.collect()
}

#[test]
fn half_the_frequency_takes_twice_the_time() {
    let machine = phone();
    let run_ns = |governor| {
        let outcome = run(&machine, &beats(1, 100 * MS, 0), governor, 2_000 * MS);
        assert_eq!(outcome.ending, Ending::Finished);
        outcome.tasks[0].user_ns
    };
    assert_eq!(run_ns(CpufreqGovernor::Performance), 100 * MS);
    let slow_ns = run_ns(CpufreqGovernor::Userspace { khz: 1_277_000 });
    // Work per nanosecond is a whole number, so a microsecond may be lost.
    assert!(slow_ns.abs_diff(100 * MS * 2_802 / 1_277) < 2_000, "{slow_ns}");
    let slowest_ns = run_ns(CpufreqGovernor::Powersave);
    assert!(slowest_ns.abs_diff(100 * MS * 2_802 / 500) < 2_000, "{slowest_ns}");
}

#[test]
fn schedutil_speeds_up_a_busy_task_by_steps_a_rate_limit_apart() {
    let outcome = run(&phone(), &beats(1, 300 * MS, 0), CpufreqGovernor::Schedutil, 2_000 * MS);
    assert_eq!(outcome.ending, Ending::Finished);
    let steps = steps(&outcome);
    assert!(steps.len() > 2 && steps.len() < 20, "{steps:?}");
    assert!(steps.windows(2).all(|pair| pair[0].1 < pair[1].1), "{steps:?}");
    // At most one request every 10 ms, each done 5 ms later.
    assert!(steps.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 10 * MS), "{steps:?}");
    assert_eq!(steps[steps.len() - 1].1, 2_802_000);
    // The work is the integral of the frequency.
    let (mut since_ns, mut khz, mut cycles) = (0, 500_000, 0);
    for &(time_ns, next_khz) in &steps {
        cycles += (time_ns - since_ns) * u64::from(khz);
        (since_ns, khz) = (time_ns, next_khz);
    }
    cycles += (outcome.end_ns - since_ns) * u64::from(khz);
    let needed = 300 * MS * 2_802_000;
    // The start, the end and the ticks take less than a per cent.
    assert!(cycles >= needed && cycles < needed / 100 * 101, "{cycles} cycles of {needed}");
}

#[test]
fn utilisation_is_that_of_the_work_whatever_the_frequency() {
    // 5 ms of 100 ms at full speed: well below the lowest operating point's capacity.
    let machine = phone();
    let busy_pct = |governor| {
        let outcome = run(&machine, &beats(20, 5 * MS, 95 * MS), governor, 4_000 * MS);
        100 * outcome.cpus[7].busy_ns / outcome.end_ns
    };
    assert!(busy_pct(CpufreqGovernor::Performance) < 7);
    assert!(busy_pct(CpufreqGovernor::Powersave) > 20);
    // So little work is done at low frequencies once the new task's benefit of doubt is forgotten.
    let outcome =
        run(&machine, &beats(40, 5 * MS, 95 * MS), CpufreqGovernor::Schedutil, 4_000 * MS);
    let late = steps(&outcome).into_iter().filter(|&(time_ns, _)| time_ns > 1_000 * MS);
    let most = late.map(|(_, khz)| khz).max().unwrap_or(500_000);
    assert!(most <= 1_106_000, "{most} kHz");
}

/// Every millisecond a little work, and a device or a timer until then.
fn requests(device: bool) -> Workload {
    let mut build = Builder::new("requests");
    let disk = Which::One(build.object(ObjectKind::Device(1)));
    let program = build.program("reader", |code| {
        code.repeat(400, |code| {
            code.run(MS / 20);
            let rest = Amount::Fixed(MS * 19 / 20);
            code.op(if device {
                Op::Io { device: disk, service_ns: rest }
            } else {
                Op::Sleep(rest)
            });
        });
    });
    build.attributes(program).affinity = Some(CpuSet::of(CpuId(7)));
    build.spawn(program, 7, 0);
    build.finish().expect("valid")
}

#[test]
fn tasks_that_wait_for_io_raise_the_frequency() {
    for kernel in ["v6.1", "v6.12"] {
        let machine = phone();
        let kernel = Kernel::preset(kernel).expect("a preset");
        let most = |device| {
            let mut settings = Settings::new(&kernel, &machine, 1_000 * MS, 1);
            settings.cpufreq.governor = Some(CpufreqGovernor::Schedutil);
            let workload = requests(device);
            let outcome = simulate(&machine, kernel.domains, &workload, &settings, Vec::new());
            let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
            verify_outcome(&machine, &outcome).unwrap_or_else(|what| panic!("{what}"));
            assert_eq!(outcome.ending, Ending::Finished);
            let steps = steps(&outcome);
            let late = steps.iter().filter(|(time_ns, _)| *time_ns > 200 * MS);
            let before = steps.iter().rev().find(|(time_ns, _)| *time_ns <= 200 * MS);
            let last = before.map_or(500_000, |(_, khz)| *khz);
            (late.map(|(_, khz)| *khz).fold(last, u32::max), outcome.cpus[7].iowait_ns)
        };
        // A twentieth of the time is far below what the lowest operating point does.
        assert_eq!(most(false), (500_000, 0));
        // The boost doubles at each look until it asks for everything.
        let (most_khz, iowait_ns) = most(true);
        assert_eq!(most_khz, 2_802_000);
        // 400 waits of 0.95 ms, less the way into the idle loop, and the wait for shared power.
        assert!((370 * MS..=385 * MS).contains(&iowait_ns), "{iowait_ns} ns");
    }
}

#[test]
fn heat_limits_the_frequency() {
    let machine = phone().with_thermal_limit("big", 1_500_000).expect("a kind of core");
    for governor in [CpufreqGovernor::Performance, CpufreqGovernor::Schedutil] {
        let outcome = run(&machine, &beats(1, 100 * MS, 0), governor, 2_000 * MS);
        let big = outcome.frequencies.last().expect("a domain");
        let faster = big.points.iter().filter(|(khz, _)| *khz > 1_500_000);
        assert_eq!(faster.map(|(_, time_ns)| time_ns).sum::<u64>(), 0);
        assert!(outcome.tasks[0].user_ns > 195 * MS, "{}", outcome.tasks[0].user_ns);
    }
}

#[test]
fn rails_show_what_their_cores_draw() {
    let machine = phone();
    let outcome = run(&machine, &beats(1, 1_000 * MS, 0), CpufreqGovernor::Performance, 2_000 * MS);
    let energy = &outcome.energy;
    let sum_j: f64 = energy.rails_j.iter().sum();
    assert!((sum_j - energy.total_j()).abs() < 1e-9, "nothing draws power beside the rails");
    // A busy core at 2.802 GHz draws 2.032 W, its sleeping sister 4.1 mW.
    let big_mw = energy.rails_j[2] * 1e3 / (outcome.end_ns as f64 / 1e9);
    assert!((2_034.0..2_038.0).contains(&big_mw), "{big_mw} mW");
}

#[test]
fn no_state_is_slower_to_leave_than_the_latency_limit() {
    let machine = phone();
    let kernel = Kernel::preset("v6.1").expect("a preset");
    let deep = |cpu_latency_ns| {
        let settings =
            Settings { cpu_latency_ns, ..Settings::new(&kernel, &machine, 1_000 * MS, 1) };
        let workload = beats(100, MS, 9 * MS);
        let outcome = simulate(&machine, kernel.domains, &workload, &settings, Vec::<Event>::new());
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        outcome.cpus[7].idle_counts[1].usage
    };
    let unlimited = schedlab_kernel::cpuidle::LATENCY_UNLIMITED_NS;
    assert!(deep(unlimited) > 50, "{}", deep(unlimited));
    // The governor sees 455 us; the machine slept deeply before the run.
    assert!(deep(455_000) > 50);
    assert_eq!(deep(454_999), 1);
    assert_eq!(deep(0), 1);
}

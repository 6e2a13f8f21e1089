//! Energy-aware placement in whole runs. On the Juno board CPUs 1 and 2 are big, the others little
//! and cheaper; on the phone CPUs 6 and 7 are the biggest. The decisions by themselves are worked out
//! on paper in the kernel crate.

use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::hardware::Decision;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Outcome, Settings, simulate};
use schedlab_workload::models::{Model, periodic};

const KERNELS: [&str; 2] = ["v6.1", "v6.12"];

const LITTLE: [usize; 4] = [0, 3, 4, 5];

fn run(kernel: &str, options: periodic::Options, cpufreq: CpufreqGovernor) -> Outcome<Nothing> {
    run_on("juno-r0", kernel, options, cpufreq)
}

fn run_on(
    machine: &str,
    kernel: &str,
    options: periodic::Options,
    cpufreq: CpufreqGovernor,
) -> Outcome<Nothing> {
    let machine = Machine::preset(machine).expect("a preset");
    let kernel = Kernel::preset(kernel).expect("a preset");
    let workload = options.workload("periodic", machine.cpu_count() as u32).expect("valid");
    let mut settings = Settings::new(&kernel, &machine, 2_000_000_000, 3);
    (settings.cpufreq.governor, settings.explain) = (Some(cpufreq), true);
    let outcome = simulate(&machine, kernel.domains, &workload, &settings, Nothing);
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Share of all busy time on these CPUs, percent.
fn share(outcome: &Outcome<Nothing>, cpus: &[usize]) -> u64 {
    let all: u64 = outcome.cpus.iter().map(|cpu| cpu.busy_ns).sum();
    100 * cpus.iter().map(|&cpu| outcome.cpus[cpu].busy_ns).sum::<u64>() / all.max(1)
}

fn weighed(outcome: &Outcome<Nothing>) -> usize {
    let by_energy = |(_, _, decision): &&_| matches!(decision, Decision::Energy { .. });
    outcome.decisions.iter().filter(by_energy).count()
}

fn light() -> periodic::Options {
    periodic::Options {
        tasks: 3,
        run_us: 300,
        period_us: 16_000,
        // Tasks that wake at once would not see each other on their way to the same CPU.
        stagger_ns: 5_000_000,
        ..periodic::Options::default()
    }
}

#[test]
fn light_tasks_gather_on_little_cpus() {
    for kernel in KERNELS {
        let aware = run(kernel, light(), CpufreqGovernor::Schedutil);
        assert!(weighed(&aware) > 200, "{kernel}: {}", weighed(&aware));
        assert!(share(&aware, &LITTLE) > 80, "{kernel}: {} %", share(&aware, &LITTLE));
        // The kernel insists on schedutil.
        let spread = run(kernel, light(), CpufreqGovernor::Performance);
        assert_eq!(weighed(&spread), 0, "{kernel}");
        assert!(aware.energy.total_j() < spread.energy.total_j(), "{kernel}");
    }
}

/// A task that a little CPU cannot serve is born on one, and moves up: first as it wakes, and if it
/// never sleeps, as a misfit.
#[test]
fn a_task_that_does_not_fit_moves_up() {
    for kernel in KERNELS {
        let endless = periodic::Options {
            tasks: 1,
            run_us: 1_000_000,
            period_us: 1_000_000,
            ..periodic::Options::default()
        };
        let outcome = run_on("pixel6-gs101", kernel, endless, CpufreqGovernor::Schedutil);
        assert!(share(&outcome, &[6, 7]) > 90, "{kernel}: {} %", share(&outcome, &[6, 7]));
        let outcome = run(kernel, endless, CpufreqGovernor::Schedutil);
        assert!(share(&outcome, &LITTLE) < 10, "{kernel}: {} %", share(&outcome, &LITTLE));
    }
}

#[test]
fn clamps_move_tasks_up_and_down() {
    for kernel in KERNELS {
        let wants_much = periodic::Options { uclamp_min: 900, ..light() };
        let up = run(kernel, wants_much, CpufreqGovernor::Schedutil);
        assert!(share(&up, &[1, 2]) > 60, "{kernel}: {} %", share(&up, &[1, 2]));
        let heavy = periodic::Options {
            tasks: 1,
            run_us: 6_000,
            period_us: 16_000,
            ..periodic::Options::default()
        };
        let free = run(kernel, heavy, CpufreqGovernor::Schedutil);
        let capped = periodic::Options { uclamp_max: 200, ..heavy };
        let capped = run(kernel, capped, CpufreqGovernor::Schedutil);
        assert!(share(&free, &LITTLE) < 20, "{kernel}: {} %", share(&free, &LITTLE));
        assert!(share(&capped, &LITTLE) > 60, "{kernel}: {} %", share(&capped, &LITTLE));
        assert!(capped.energy.total_j() < free.energy.total_j(), "{kernel}");
    }
}

#[test]
fn a_busy_machine_spreads_its_tasks_instead() {
    for kernel in KERNELS {
        let many = periodic::Options { tasks: 16, ..periodic::Options::default() };
        let outcome = run(kernel, many, CpufreqGovernor::Schedutil);
        let by_energy = weighed(&outcome);
        assert!(by_energy * 2 < outcome.decisions.len(), "{kernel}: {by_energy}");
        assert!(outcome.cpus.iter().all(|cpu| cpu.busy_ns > 0), "{kernel}");
    }
}

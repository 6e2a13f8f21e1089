//! A whole run by one call, with everything that could not run refused by name.

use crate::engine::Engine;
use crate::observe::Observer;
use crate::outcome::{Outcome, Settings};
use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::deadline::entity::{BW_SHIFT, RESERVABLE, Reservation, fits};
use schedlab_kernel::fair::build::{DomainRules, build_domains};
use schedlab_kernel::rt::Limit;
use schedlab_machine::Machine;
use schedlab_workload::WorkloadError;
use schedlab_workload::program::Workload;

/// The longest run, ns: virtual time is also kept in picoseconds, in 64 bits.
pub const DURATION_MAX_NS: u64 = 100 * 24 * 3600 * 1_000_000_000;

/// How long a run lasts at most for which no time was given, ns: a workload that ends by itself has
/// the time to, one that does not stops early.
pub fn default_duration_ns(workload: &Workload) -> u64 {
    if workload.ends() { 60_000_000_000 } else { 10_000_000_000 }
}

/// Why a run is refused.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A machine without any CPU.
    #[error("machine {machine} has no CPU; give it 1 or more")]
    NoCpu {
        /// Its name.
        machine: String,
    },
    /// A time that cannot be simulated.
    #[error("a duration of {duration_ns} ns cannot be simulated; give 1 ns to 100 days")]
    Duration {
        /// It.
        duration_ns: u64,
    },
    /// A governor that the kernel does not have.
    #[error(
        "this kernel has no schedutil; choose another cpufreq governor, or a kernel from v4.7 on"
    )]
    NoSchedutil,
    /// A kernel without `migrate_disable()`.
    #[error(
        "this kernel has no migrate_disable(), which the workload asks for; choose one from \
         v5.11 on, or set migrate_disable under [rt] in its file"
    )]
    NoMigrateDisable,
    /// The kernel would not admit the deadline tasks (`sched_setattr()`, EBUSY).
    #[error(
        "deadline tasks reserve {reserved:.2} CPUs, but of this machine no more than {room:.2} can \
         be reserved; have fewer of them or let each reserve less"
    )]
    Reserved {
        /// Run time over period, in all.
        reserved: f64,
        /// 95 % of the capacity, in CPUs of the biggest kind.
        room: f64,
    },
    /// The workload cannot run, or not on this machine.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Runs a workload on a machine until it ends or the time is up.
///
/// # Errors
/// What cannot run is refused before it starts.
///
/// ```
/// use schedlab_kernel::preset::Kernel;
/// use schedlab_machine::Machine;
/// use schedlab_sim::{Ending, Nothing, Settings, simulate};
/// use schedlab_workload::build::Builder;
/// let machine = Machine::preset("generic").expect("a preset");
/// let kernel = Kernel::preset("v6.12").expect("a preset");
/// let mut build = Builder::new("one task");
/// let program = build.program("task", |code| {
///     code.run(1_000_000);
/// });
/// build.spawn(program, 0, 0);
/// let settings = Settings::new(&kernel, &machine, 1_000_000_000, 1);
/// let workload = build.finish()?;
/// let outcome = simulate(&machine, kernel.domains, &workload, &settings, Nothing)?;
/// assert_eq!(outcome.ending, Ending::Finished);
/// assert!(outcome.tasks[0].runtime_ns >= 1_000_000);
/// # Ok::<(), schedlab_sim::SimError>(())
/// ```
pub fn simulate<O: Observer>(
    machine: &Machine,
    domains: DomainRules,
    workload: &Workload,
    settings: &Settings,
    observer: O,
) -> Result<Outcome<O>, SimError> {
    check(machine, workload, settings)?;
    let domains = build_domains(machine, domains);
    let engine = Engine::new(machine, domains, workload, settings, observer);
    Ok(engine.run(settings.duration_ns))
}

/// Refuses what [`Engine`] could not run. Who drives an engine step by step calls this first.
///
/// # Errors
/// The first thing found.
pub fn check(machine: &Machine, workload: &Workload, settings: &Settings) -> Result<(), SimError> {
    if machine.cpu_count() == 0 {
        return Err(SimError::NoCpu { machine: machine.name().to_owned() });
    }
    let duration_ns = settings.duration_ns;
    if !(1..=DURATION_MAX_NS).contains(&duration_ns) {
        return Err(SimError::Duration { duration_ns });
    }
    if settings.cpufreq.governor == Some(CpufreqGovernor::Schedutil)
        && settings.cpufreq.schedutil.is_none()
    {
        return Err(SimError::NoSchedutil);
    }
    workload.validate()?;
    if workload.disables_migration() && !settings.sched.rt.migrate_disable {
        return Err(SimError::NoMigrateDisable);
    }
    workload.validate_on(machine)?;
    admit(machine, workload, settings)
}

/// Refuses deadline tasks that reserve more than can be, unless the kernel asks for no limit.
fn admit(machine: &Machine, workload: &Workload, settings: &Settings) -> Result<(), SimError> {
    let bandwidth = |(count, runtime_ns, period_ns)| {
        let reservation = Reservation::new(runtime_ns, period_ns, period_ns);
        count * reservation.map_or(0, |one| one.bandwidth())
    };
    let reserved: u64 = workload.reservations().map(bandwidth).sum();
    let capacity = machine.cpu_ids().map(|cpu| u64::from(machine.capacity(cpu))).sum();
    if settings.sched.rt.limit == Limit::None || fits(reserved, capacity) {
        return Ok(());
    }
    let cpus = |bandwidth: u64| bandwidth as f64 / (1_u64 << BW_SHIFT) as f64;
    Err(SimError::Reserved {
        reserved: cpus(reserved),
        room: cpus(RESERVABLE) * capacity as f64 / 1024.0,
    })
}

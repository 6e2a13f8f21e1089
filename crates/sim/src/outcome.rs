//! What a run is made of, and what it yields.

use crate::c2c::C2cReport;
use crate::coherence::KernelLines;
use crate::decisions::Explained;
use crate::energy::{Energy, PackageTimes};
use crate::figures::Figure;
use crate::frequency::FrequencyTimes;
use crate::groups::GroupTimes;
use crate::idle_counts::IdleCounts;
use schedlab_kernel::cpufreq::CpufreqRules;
use schedlab_kernel::cpuidle::{GovernorKind, GovernorParameters};
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::{BalanceCounts, SchedConfig};
use schedlab_machine::{CpuId, Machine};
use schedlab_trace::{Strings, Task};
use schedlab_workload::program::{Policy, ProgramId};

/// What a run is made of, beside machine and workload.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The kernel's variants.
    pub sched: SchedConfig,
    /// The idle governor.
    pub governor: GovernorKind,
    /// What parameters the idle governor has.
    pub governor_parameters: GovernorParameters,
    /// The longest exit latency that any CPU may have, ns: what `/dev/cpu_dma_latency` and
    /// `pm_qos_resume_latency_us` ask for. [`LATENCY_UNLIMITED_NS`](schedlab_kernel::cpuidle::LATENCY_UNLIMITED_NS) asks for nothing.
    pub cpu_latency_ns: i64,
    /// CPU frequencies.
    pub cpufreq: CpufreqRules,
    /// The run ends at this time at the latest, ns.
    pub duration_ns: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Handle events of one nanosecond in random order.
    pub shuffle_ties: bool,
    /// Keep explained decisions.
    pub explain: bool,
    /// Tell an observer of timers and interrupts, too, as a trace of them would.
    pub interrupts: bool,
    /// What of the kernel's shared cache lines is modelled while there are real-time tasks.
    pub kernel_lines: KernelLines,
}

impl Settings {
    /// The variants and the idle governor of a kernel, sized for a machine.
    pub fn new(kernel: &Kernel, machine: &Machine, duration_ns: u64, seed: u64) -> Settings {
        Settings {
            sched: kernel.config(machine.cpu_count()),
            governor: kernel.governor,
            governor_parameters: kernel.governor_parameters,
            cpu_latency_ns: kernel.cpu_latency_ns,
            cpufreq: kernel.cpufreq,
            duration_ns,
            seed,
            shuffle_ties: false,
            explain: false,
            interrupts: false,
            kernel_lines: match machine.cache_costs().kernel_lines {
                true => KernelLines::Charged,
                false => KernelLines::Off,
            },
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every task ended, or one ended all of them.
    Finished,
    /// The time was up.
    TimeUp,
    /// Nothing can happen any more, though tasks live: each with what it waits for.
    Stuck(Vec<String>),
    /// More tasks were created than are simulated: this many are too many.
    TooManyTasks(u64),
}

/// Time of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Running tasks or the kernel, ns.
    pub busy_ns: u64,
    /// Idle while tasks that ran here last waited for I/O (`iowait` of `/proc/stat`), ns.
    pub iowait_ns: u64,
    /// Of the busy time, in interrupts and softirqs, ns.
    pub irq_ns: u64,
    /// Of that, in softirqs, ns.
    pub softirq_ns: u64,
    /// In each idle state, ns.
    pub idle_ns: Vec<u64>,
    /// What the kernel counts of each idle state.
    pub idle_counts: Vec<IdleCounts>,
    /// Ticks.
    pub ticks: u64,
    /// Of these, ticks that found it idle.
    pub idle_ticks: u64,
    /// Interrupts from other CPUs; one may be for several things.
    pub ipis: u64,
    /// Those for wake-ups and the stopper thread.
    pub ipis_reschedule: u64,
    /// Those that made it balance for idle CPUs, or should have.
    pub ipis_kick: u64,
    /// Those in place of its timer's, which slept.
    pub ipis_timer: u64,
    /// Interrupts of the broadcast timer, which it passes on.
    pub broadcasts: u64,
    /// Balancing softirqs, and kicks by which CPUs make others balance.
    pub balance: BalanceCounts,
}

/// A task at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// Its name.
    pub comm: String,
    /// Its policy, with its priority if it is a real-time one.
    pub policy: Policy,
    /// Its program.
    pub program: ProgramId,
    /// Run time, ns.
    pub runtime_ns: u64,
    /// Of that, computing outside the kernel, ns.
    pub user_ns: u64,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often it moved.
    pub migrations: u64,
    /// The CPU it was last on.
    pub cpu: CpuId,
}

/// What a run yields.
#[derive(Debug)]
pub struct Outcome<O> {
    /// How it ended.
    pub ending: Ending,
    /// When, ns.
    pub end_ns: u64,
    /// Events of the trace schema, kept or not.
    pub events: u64,
    /// Operations of tasks that were carried out: most cause no event.
    pub operations: u64,
    /// Timers of tasks that expired.
    pub expiries: u64,
    /// Hash of all events.
    pub digest: u64,
    /// The workload's figures.
    pub figures: Vec<Figure>,
    /// Per CPU.
    pub cpus: Vec<CpuTimes>,
    /// Per task.
    pub tasks: Vec<TaskSummary>,
    /// Per package.
    pub packages: Vec<PackageTimes>,
    /// Energy.
    pub energy: Energy,
    /// What became of each part that groups of CPUs share.
    pub groups: Vec<GroupTimes>,
    /// How long each frequency domain had which operating point.
    pub frequencies: Vec<FrequencyTimes>,
    /// Explained decisions, the first [`DECISIONS_MAX`](crate::DECISIONS_MAX) of them.
    pub decisions: Vec<Explained>,
    /// Those after them.
    pub decisions_left_out: u64,
    /// Accesses to the kernel's shared cache lines, if they were taken down.
    pub c2c: Option<C2cReport>,
    /// The tasks as events name them.
    pub task_names: Vec<Task>,
    /// Names that events refer to.
    pub strings: Strings,
    /// What took the events.
    pub observer: O,
}

impl<O> Outcome<O> {
    /// All that was handled: every event of the trace, kept or not, every interrupt (timer expiry,
    /// tick, interrupt of another CPU) and every operation of a task. Its rate is the speed of a
    /// simulator.
    pub fn scheduling_events(&self) -> u64 {
        let interrupts: u64 = self.cpus.iter().map(|cpu| cpu.ticks + cpu.ipis).sum();
        self.events + self.operations + self.expiries + interrupts
    }
}

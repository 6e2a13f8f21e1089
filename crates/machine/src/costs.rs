//! What things cost on the machine: cache-line transfers, kernel paths, shared cores.

use crate::{CpuType, IdleState};

/// How close two CPUs are, by the nearest level of the CPU tree that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proximity {
    /// The same CPU.
    Cpu,
    /// Threads of one core.
    Core,
    /// Cores of one cluster (shared L2 or L3 tags).
    Cluster,
    /// One last-level cache.
    Llc,
    /// One package, different last-level caches (dies, sub-NUMA clusters).
    Package,
    /// Different packages.
    Machine,
}

/// What moving and touching cache lines costs, in picoseconds (published medians have tenths of
/// a nanosecond, and rounding them would shift a contended line by percents).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheCosts {
    /// Bytes of a line.
    pub line_bytes: u32,
    /// One-way hand-over of a dirty line between threads of a core.
    pub core_ps: u64,
    /// The same between cores of a cluster.
    pub cluster_ps: u64,
    /// The same between cores that share the last-level cache.
    pub llc_ps: u64,
    /// The same between last-level caches of a package.
    pub package_ps: u64,
    /// The same between packages.
    pub machine_ps: u64,
    /// An atomic read-modify-write on a line that the CPU owns.
    pub owned_rmw_ps: u64,
    /// A load that hits the first-level cache.
    pub l1_hit_ps: u64,
    /// A load that hits the second-level cache.
    pub l2_hit_ps: u64,
    /// A load that hits the last-level cache.
    pub llc_hit_ps: u64,
    /// A load from memory of the own node.
    pub memory_local_ps: u64,
    /// A load from memory of another package's node.
    pub memory_remote_ps: u64,
    /// Transfers of lines that the kernel's own code shares are modelled, where a run knows which
    /// these are. False where path costs were measured and hold them.
    pub kernel_lines: bool,
}

/// Estimates for a server core of the 2010s; a machine file overrides each.
impl Default for CacheCosts {
    fn default() -> Self {
        Self {
            line_bytes: 64,
            core_ps: 8_000,
            cluster_ps: 40_000,
            llc_ps: 45_000,
            package_ps: 90_000,
            machine_ps: 130_000,
            owned_rmw_ps: 7_000,
            l1_hit_ps: 1_500,
            l2_hit_ps: 5_000,
            llc_hit_ps: 18_000,
            memory_local_ps: 90_000,
            memory_remote_ps: 150_000,
            kernel_lines: false,
        }
    }
}

/// A cost by the name that files give it.
type Field<T> = (&'static str, fn(&mut T) -> &mut u64);

impl CacheCosts {
    /// Every cost by its name in files, where it is given in nanoseconds.
    pub(crate) const FIELDS: &[Field<Self>] = &[
        ("core_ns", |costs| &mut costs.core_ps),
        ("cluster_ns", |costs| &mut costs.cluster_ps),
        ("llc_ns", |costs| &mut costs.llc_ps),
        ("package_ns", |costs| &mut costs.package_ps),
        ("machine_ns", |costs| &mut costs.machine_ps),
        ("owned_rmw_ns", |costs| &mut costs.owned_rmw_ps),
        ("l1_hit_ns", |costs| &mut costs.l1_hit_ps),
        ("l2_hit_ns", |costs| &mut costs.l2_hit_ps),
        ("llc_hit_ns", |costs| &mut costs.llc_hit_ps),
        ("memory_local_ns", |costs| &mut costs.memory_local_ps),
        ("memory_remote_ns", |costs| &mut costs.memory_remote_ps),
    ];

    /// One-way hand-over of a dirty line between CPUs this close, ps; nothing to itself.
    #[inline]
    pub fn transfer_ps(&self, proximity: Proximity) -> u64 {
        match proximity {
            Proximity::Cpu => 0,
            Proximity::Core => self.core_ps,
            Proximity::Cluster => self.cluster_ps,
            Proximity::Llc => self.llc_ps,
            Proximity::Package => self.package_ps,
            Proximity::Machine => self.machine_ps,
        }
    }
}

/// CPU time of kernel paths, ns, cache lines warm and uncontended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCosts {
    /// `__schedule()` from entry to the next task's first instruction.
    pub context_switch_ns: u64,
    /// `try_to_wake_up()` on the waker's CPU.
    pub wakeup_ns: u64,
    /// One timer tick, interrupt entry and exit included.
    pub tick_ns: u64,
    /// What a tick takes longer if it wakes an idle CPU: cold caches, and work that waited.
    pub idle_tick_ns: u64,
    /// Entry and exit of a device interrupt, handler left out.
    pub irq_ns: u64,
    /// Entry and exit of softirq processing, handlers left out.
    pub softirq_ns: u64,
    /// Sending an inter-processor interrupt.
    pub ipi_send_ns: u64,
    /// From sending to the first instruction on a CPU that is awake.
    pub ipi_deliver_ns: u64,
    /// Handling a reschedule interrupt.
    pub ipi_handle_ns: u64,
    /// Idle loop, from the switch to the idle task to the entry of the state, governor included.
    pub idle_entry_ns: u64,
    /// Idle loop, from leaving the state to `schedule_idle()`.
    pub idle_exit_ns: u64,
    /// The same way once more, from the interrupt that ended the sleep to `schedule_idle()`: 0 where
    /// it is part of `idle_exit_ns`.
    pub idle_resched_ns: u64,
    /// Arming the CPU's timer hardware.
    pub timer_program_ns: u64,
    /// Entry and exit of a system call.
    pub syscall_ns: u64,
    /// `fork()` of a small process, parent's side.
    pub fork_ns: u64,
    /// Thread creation, parent's side.
    pub thread_create_ns: u64,
    /// Moving a queued task to another runqueue, both locks taken.
    pub migrate_ns: u64,
}

/// Estimates for a 3 GHz core without mitigations; a machine file overrides each.
impl Default for PathCosts {
    fn default() -> Self {
        Self {
            context_switch_ns: 1_000,
            wakeup_ns: 700,
            tick_ns: 1_500,
            idle_tick_ns: 0,
            irq_ns: 500,
            softirq_ns: 300,
            ipi_send_ns: 150,
            ipi_deliver_ns: 500,
            ipi_handle_ns: 300,
            idle_entry_ns: 400,
            idle_exit_ns: 300,
            idle_resched_ns: 0,
            timer_program_ns: 100,
            syscall_ns: 100,
            fork_ns: 50_000,
            thread_create_ns: 25_000,
            migrate_ns: 500,
        }
    }
}

impl PathCosts {
    /// Every cost by its name in files.
    pub(crate) const FIELDS: &[Field<Self>] = &[
        ("context_switch_ns", |costs| &mut costs.context_switch_ns),
        ("wakeup_ns", |costs| &mut costs.wakeup_ns),
        ("tick_ns", |costs| &mut costs.tick_ns),
        ("idle_tick_ns", |costs| &mut costs.idle_tick_ns),
        ("irq_ns", |costs| &mut costs.irq_ns),
        ("softirq_ns", |costs| &mut costs.softirq_ns),
        ("ipi_send_ns", |costs| &mut costs.ipi_send_ns),
        ("ipi_deliver_ns", |costs| &mut costs.ipi_deliver_ns),
        ("ipi_handle_ns", |costs| &mut costs.ipi_handle_ns),
        ("idle_entry_ns", |costs| &mut costs.idle_entry_ns),
        ("idle_exit_ns", |costs| &mut costs.idle_exit_ns),
        ("idle_resched_ns", |costs| &mut costs.idle_resched_ns),
        ("timer_program_ns", |costs| &mut costs.timer_program_ns),
        ("syscall_ns", |costs| &mut costs.syscall_ns),
        ("fork_ns", |costs| &mut costs.fork_ns),
        ("thread_create_ns", |costs| &mut costs.thread_create_ns),
        ("migrate_ns", |costs| &mut costs.migrate_ns),
    ];
}

/// What a core yields and draws by the number of its threads that are busy, in thousandths of
/// what it yields and draws with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtCurve {
    throughput_permille: Vec<u32>,
    power_permille: Vec<u32>,
}

impl SmtCurve {
    /// One entry per number of busy threads, from one busy thread on; both the same length and
    /// starting with 1000.
    pub(crate) fn new(throughput_permille: Vec<u32>, power_permille: Vec<u32>) -> Self {
        Self { throughput_permille, power_permille }
    }

    /// Throughput of the whole core, thousandths of a lone thread's; 0 with none busy.
    #[inline]
    pub fn throughput_permille(&self, threads_busy: usize) -> u32 {
        Self::at(&self.throughput_permille, threads_busy)
    }

    /// Power of the whole core, thousandths of that with a lone thread; 0 with none busy.
    #[inline]
    pub fn power_permille(&self, threads_busy: usize) -> u32 {
        Self::at(&self.power_permille, threads_busy)
    }

    /// How many threads the curve covers.
    pub fn threads(&self) -> usize {
        self.throughput_permille.len()
    }

    #[inline]
    fn at(curve: &[u32], threads_busy: usize) -> u32 {
        match threads_busy {
            0 => 0,
            busy => curve[busy.min(curve.len()) - 1],
        }
    }
}

/// Power beside the cores, microwatts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UncorePower {
    /// Board, memory, disks and fans: drawn always.
    pub machine_uw: u64,
    /// A package's uncore while one of its cores is busy.
    pub package_active_uw: u64,
    /// A package's uncore while each of its cores is in the named idle state or a deeper one,
    /// shallow first. In states before the first named one the uncore draws its active power.
    pub package_idle_uw: Vec<(String, u64)>,
}

impl UncorePower {
    /// A package's uncore by the shallowest idle state that one of its cores, of type `kind`, is
    /// in, microwatts.
    pub(crate) fn by_state(&self, kind: &CpuType) -> Vec<u64> {
        let mut uw = self.package_active_uw;
        let of_state = |state: &IdleState| {
            if let Some((_, idle_uw)) =
                self.package_idle_uw.iter().find(|(name, _)| *name == state.name)
            {
                uw = *idle_uw;
            }
            uw
        };
        kind.idle_states.iter().map(of_state).collect()
    }
}

//! A machine: the CPU tree with all that is known of its parts.

use crate::{
    CacheCosts, CpuId, CpuSet, CpuType, GroupState, IdleState, MemoryLimits, Opp, PathCosts,
    SmtCurve, Topology, UncorePower,
};

/// CPUs that change frequency together (`struct cpufreq_policy`, `struct em_perf_domain`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequencyDomain {
    /// The CPUs, all of one type.
    pub cpus: CpuSet,
    /// Their type, as an index into [`Machine::cpu_types`].
    pub cpu_type: usize,
}

/// Which CPU takes the interrupt of the broadcast timer, which serves CPUs in idle states that stop
/// their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BroadcastIrq {
    /// The CPU whose event is the next: the kernel moves the interrupt's affinity there
    /// (`CLOCK_EVT_FEAT_DYNIRQ`, v3.9, d2348fb6fdc6), as on ARM.
    #[default]
    NextEvent,
    /// The boot CPU, CPU 0, which passes it on to the others by inter-processor interrupts
    /// (`tick_do_broadcast()`): the PC's HPET, whose interrupt 0 stays where it is.
    BootCpu,
}

impl BroadcastIrq {
    /// Every variant with its name in files.
    pub(crate) const NAMES: [(&'static str, BroadcastIrq); 2] =
        [("next-event", BroadcastIrq::NextEvent), ("boot-cpu", BroadcastIrq::BootCpu)];

    /// The name that files give it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, irq)| *irq == self).map_or("", |(name, _)| name)
    }
}

/// The cpufreq governor that the machine usually runs, unless a kernel or a run chooses another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsualCpufreq {
    /// The highest frequency always.
    #[default]
    Performance,
    /// The lowest.
    Powersave,
    /// What utilisation asks for; `performance` under kernels without it.
    Schedutil,
}

impl UsualCpufreq {
    /// Every variant with its name in files.
    pub(crate) const NAMES: [(&'static str, UsualCpufreq); 3] = [
        ("performance", UsualCpufreq::Performance),
        ("powersave", UsualCpufreq::Powersave),
        ("schedutil", UsualCpufreq::Schedutil),
    ];

    /// The name that files give it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, usual)| *usual == self).map_or("", |(name, _)| name)
    }
}

/// A supply of some CPUs, as a power meter would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rail {
    /// Its name on the meter.
    pub name: String,
    /// The CPUs whose cores it feeds.
    pub cpus: CpuSet,
}

/// Hardware as data. Every accessor that takes a CPU is an array look-up and panics when the
/// machine has no such CPU.
///
/// ```
/// use schedlab_machine::{CpuId, Machine};
///
/// let machine = Machine::preset("simidle").expect("a built-in machine");
/// assert_eq!(machine.cpu_count(), 4);
/// let states = machine.idle_states(CpuId(0));
/// assert_eq!(states[4].name, "C6");
/// assert_eq!(states[4].target_residency_ns, 600_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) hz: u32,
    pub(crate) broadcast_irq: BroadcastIrq,
    pub(crate) usual_cpufreq: UsualCpufreq,
    pub(crate) rails: Vec<Rail>,
    pub(crate) group_states: Vec<GroupState>,
    pub(crate) topology: Topology,
    pub(crate) distances: Vec<u32>,
    pub(crate) cpu_types: Vec<CpuType>,
    pub(crate) type_of: Vec<u32>,
    pub(crate) frequency_domains: Vec<FrequencyDomain>,
    pub(crate) frequency_domain_of: Vec<u32>,
    pub(crate) smt: SmtCurve,
    pub(crate) uncore_power: UncorePower,
    pub(crate) package_idle_uw: Vec<Vec<u64>>,
    pub(crate) cache_costs: CacheCosts,
    pub(crate) path_costs: PathCosts,
    pub(crate) memory_limits: MemoryLimits,
    pub(crate) shared_instruction_stream: bool,
}

impl Machine {
    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line on what it is; may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The kernel's tick rate that is usual on the machine (`CONFIG_HZ`), a second.
    #[inline]
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// `TICK_NSEC` at [`hz`](Self::hz).
    #[inline]
    pub fn tick_ns(&self) -> u64 {
        (1_000_000_000 + u64::from(self.hz) / 2) / u64::from(self.hz)
    }

    /// Which CPU takes the interrupt of the broadcast timer.
    #[inline]
    pub fn broadcast_irq(&self) -> BroadcastIrq {
        self.broadcast_irq
    }

    /// The cpufreq governor that the machine usually runs.
    #[inline]
    pub fn usual_cpufreq(&self) -> UsualCpufreq {
        self.usual_cpufreq
    }

    /// What feeds which cores; empty where nobody said so.
    pub fn rails(&self) -> &[Rail] {
        &self.rails
    }

    /// The CPU tree.
    #[inline]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How many CPUs there are; their numbers are 0 to one less.
    #[inline]
    pub fn cpu_count(&self) -> usize {
        self.topology.cpu_count()
    }

    /// All CPUs.
    #[inline]
    pub fn cpus(&self) -> &CpuSet {
        self.topology.cpus()
    }

    /// All CPU numbers in ascending order.
    pub fn cpu_ids(&self) -> impl ExactSizeIterator<Item = CpuId> + use<> {
        (0..self.cpu_count() as u32).map(CpuId)
    }

    /// `node_distance()`: 10 within a node.
    #[inline]
    pub fn node_distance(&self, from: usize, to: usize) -> u32 {
        self.distances[from * self.topology.nodes().len() + to]
    }

    /// The kinds of cores.
    pub fn cpu_types(&self) -> &[CpuType] {
        &self.cpu_types
    }

    /// The number of `cpu`'s kind among [`cpu_types`](Self::cpu_types).
    #[inline]
    pub fn type_of(&self, cpu: CpuId) -> usize {
        self.type_of[cpu.index()] as usize
    }

    /// The kind of `cpu`.
    #[inline]
    pub fn cpu_type(&self, cpu: CpuId) -> &CpuType {
        &self.cpu_types[self.type_of(cpu)]
    }

    /// The CPUs of a kind.
    pub fn cpus_of_type(&self, cpu_type: usize) -> CpuSet {
        self.cpu_ids().filter(|cpu| self.type_of(*cpu) == cpu_type).collect()
    }

    /// `arch_scale_cpu_capacity()`: 1024 on the fastest CPU.
    #[inline]
    pub fn capacity(&self, cpu: CpuId) -> u32 {
        self.cpu_type(cpu).capacity
    }

    /// Idle states of `cpu`, shallow first.
    #[inline]
    pub fn idle_states(&self, cpu: CpuId) -> &[IdleState] {
        &self.cpu_type(cpu).idle_states
    }

    /// Operating points of `cpu`, slow first.
    #[inline]
    pub fn opps(&self, cpu: CpuId) -> &[Opp] {
        &self.cpu_type(cpu).opps
    }

    /// Power of `cpu`'s core while all its threads are in idle state `state`, microwatts.
    #[inline]
    pub fn idle_power_uw(&self, cpu: CpuId, state: usize) -> u64 {
        self.cpu_type(cpu).idle_power_uw(state)
    }

    /// Power of `cpu`'s core at `khz` while `cpu` alone of its threads is busy, microwatts.
    #[inline]
    pub fn busy_power_uw(&self, cpu: CpuId, khz: u32) -> u64 {
        self.cpu_type(cpu).busy_power_uw(khz)
    }

    /// [`busy_power_uw`](Self::busy_power_uw) at the fastest operating point.
    #[inline]
    pub fn busy_power_max_uw(&self, cpu: CpuId) -> u64 {
        self.cpu_type(cpu).max_opp().power_uw
    }

    /// The fastest frequency of `cpu`, kHz.
    #[inline]
    pub fn max_khz(&self, cpu: CpuId) -> u32 {
        self.cpu_type(cpu).max_opp().khz
    }

    /// Sets of CPUs that change frequency together.
    pub fn frequency_domains(&self) -> &[FrequencyDomain] {
        &self.frequency_domains
    }

    /// The number of `cpu`'s frequency domain.
    #[inline]
    pub fn frequency_domain_of(&self, cpu: CpuId) -> usize {
        self.frequency_domain_of[cpu.index()] as usize
    }

    /// What a core yields and draws with some of its threads busy.
    #[inline]
    pub fn smt(&self) -> &SmtCurve {
        &self.smt
    }

    /// Power beside the cores.
    pub fn uncore_power(&self) -> &UncorePower {
        &self.uncore_power
    }

    /// Power of a package's uncore while all its cores idle and the shallowest of them, that of
    /// `cpu`, is in idle state `state`, microwatts.
    #[inline]
    pub fn package_idle_power_uw(&self, cpu: CpuId, state: usize) -> u64 {
        let by_state = &self.package_idle_uw[self.type_of(cpu)];
        by_state[state.min(by_state.len() - 1)]
    }

    /// What cache lines cost.
    #[inline]
    pub fn cache_costs(&self) -> &CacheCosts {
        &self.cache_costs
    }

    /// One-way hand-over of a dirty cache line between two CPUs, picoseconds.
    #[inline]
    pub fn line_transfer_ps(&self, from: CpuId, to: CpuId) -> u64 {
        self.cache_costs.transfer_ps(self.topology.proximity(from, to))
    }

    /// Cache sizes and memory bandwidth, as far as they are known.
    #[inline]
    pub fn memory_limits(&self) -> &MemoryLimits {
        &self.memory_limits
    }

    /// The CPUs are those of a virtual machine whose host runs all of them in one thread, one after
    /// the other, and counts their instructions as time: QEMU's TCG with `-icount`. Of those that
    /// have something to do, one at a time gets on. The others neither run their tasks nor take
    /// their interrupts, though time passes for them.
    ///
    /// Traces of such a machine are read accordingly. A simulated run does not go through it again:
    /// there each CPU gets on by itself, and what a trace held up is held up as long.
    #[inline]
    pub fn shared_instruction_stream(&self) -> bool {
        self.shared_instruction_stream
    }

    /// The same machine with other costs of kernel paths.
    pub fn with_path_costs(mut self, path_costs: PathCosts) -> Machine {
        self.path_costs = path_costs;
        self
    }

    /// The same machine, whose hardware leaves idle state `state` of every kind of core within
    /// `exit_latency_ns`. What governors believe of the state stays.
    pub fn with_exit_latency(mut self, state: usize, exit_latency_ns: u64) -> Machine {
        for state in self.cpu_types.iter_mut().filter_map(|kind| kind.idle_states.get_mut(state)) {
            state.exit_latency_ns = exit_latency_ns;
        }
        self
    }

    /// The same machine, whose cores of kind `name` run at `khz` at most, for heat. `None` if there is
    /// no such kind, or it has no operating point as slow as that.
    pub fn with_thermal_limit(mut self, name: &str, khz: u32) -> Option<Machine> {
        let kind = self.cpu_types.iter_mut().find(|kind| kind.name == name)?;
        if khz < kind.opps[0].khz {
            return None;
        }
        kind.thermal_limit_khz = Some(khz);
        Some(self)
    }

    /// What kernel paths cost.
    #[inline]
    pub fn path_costs(&self) -> &PathCosts {
        &self.path_costs
    }
}

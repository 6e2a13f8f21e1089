//! Energy: the integral of the power of every core and of every package's uncore.

use schedlab_machine::{CpuId, Machine};

/// What a CPU does, as its power is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Runs a task or the kernel.
    Busy,
    /// In this idle state.
    Idle(u32),
}

/// Energy drawn so far, with what is needed to go on. Powers are in microwatts and times in
/// nanoseconds, so energies are in femtojoules, which add up exactly.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    cpus: Vec<Activity>,
    cores: Vec<Rail>,
    packages: Vec<Rail>,
    machine_uw: u64,
    transition_fj: u128,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rail {
    power_uw: u64,
    since_ns: u64,
    energy_fj: u128,
}

impl Rail {
    fn set(&mut self, power_uw: u64, now_ns: u64) {
        // The executing CPU's clock may run ahead of others', so a rail may be set in its past.
        let span_ns = now_ns.saturating_sub(self.since_ns);
        self.energy_fj += u128::from(self.power_uw) * u128::from(span_ns);
        self.since_ns = self.since_ns.max(now_ns);
        self.power_uw = power_uw;
    }
}

/// Energy by rail, joules.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Each core.
    pub cores_j: Vec<f64>,
    /// Each package's uncore.
    pub packages_j: Vec<f64>,
    /// The rest of the machine.
    pub machine_j: f64,
    /// Entries into and exits from idle states.
    pub transitions_j: f64,
}

impl Energy {
    /// All rails together.
    pub fn total_j(&self) -> f64 {
        self.cores_j.iter().sum::<f64>()
            + self.packages_j.iter().sum::<f64>()
            + self.machine_j
            + self.transitions_j
    }
}

/// The deepest idle state of `cpu`; 0 if it has none.
pub fn deepest(machine: &Machine, cpu: CpuId) -> u32 {
    machine.idle_states(cpu).len().saturating_sub(1) as u32
}

impl EnergyMeter {
    /// Every CPU in its deepest idle state at time 0.
    pub fn new(machine: &Machine) -> EnergyMeter {
        let mut meter = EnergyMeter {
            cpus: machine.cpu_ids().map(|cpu| Activity::Idle(deepest(machine, cpu))).collect(),
            cores: vec![Rail::default(); machine.topology().cores().len()],
            packages: vec![Rail::default(); machine.topology().packages().len()],
            machine_uw: machine.uncore_power().machine_uw,
            transition_fj: 0,
        };
        for cpu in machine.cpu_ids() {
            meter.settle(machine, cpu, 0);
        }
        meter
    }

    /// `cpu` does something else from `now_ns` on.
    pub fn set(&mut self, machine: &Machine, cpu: CpuId, activity: Activity, now_ns: u64) {
        if self.cpus[cpu.index()] == activity {
            return;
        }
        if let Activity::Idle(state) = activity
            && let Some(state) = machine.idle_states(cpu).get(state as usize)
        {
            self.transition_fj += u128::from(state.transition_energy_nj) * 1_000_000;
        }
        self.cpus[cpu.index()] = activity;
        self.settle(machine, cpu, now_ns);
    }

    fn settle(&mut self, machine: &Machine, cpu: CpuId, now_ns: u64) {
        let topology = machine.topology();
        let threads = topology.cores().siblings(cpu);
        let (busy, shallowest) = self.census(threads.iter());
        let power_uw = if busy > 0 {
            let alone_uw = machine.busy_power_max_uw(cpu);
            alone_uw * u64::from(machine.smt().power_permille(busy)) / 1000
        } else {
            machine.idle_power_uw(cpu, shallowest as usize)
        };
        self.cores[topology.cores().of(cpu)].set(power_uw, now_ns);

        let package = topology.packages().of(cpu);
        let uncore = machine.uncore_power();
        let (busy, shallowest) = self.census(topology.packages().siblings(cpu).iter());
        let power_uw = if busy > 0 {
            uncore.package_active_uw
        } else {
            machine.package_idle_power_uw(cpu, shallowest as usize)
        };
        self.packages[package].set(power_uw, now_ns);
    }

    /// How many of these CPUs are busy, and the shallowest idle state among the others.
    fn census(&self, cpus: impl Iterator<Item = CpuId>) -> (usize, u32) {
        cpus.fold((0, u32::MAX), |(busy, shallowest), cpu| match self.cpus[cpu.index()] {
            Activity::Busy => (busy + 1, shallowest),
            Activity::Idle(state) => (busy, shallowest.min(state)),
        })
    }

    /// The energy drawn until `now_ns`.
    pub fn read(&self, now_ns: u64) -> Energy {
        let joules = |rail: &Rail| {
            let mut rail = *rail;
            rail.set(0, now_ns);
            rail.energy_fj as f64 / 1e15
        };
        Energy {
            cores_j: self.cores.iter().map(joules).collect(),
            packages_j: self.packages.iter().map(joules).collect(),
            machine_j: (u128::from(self.machine_uw) * u128::from(now_ns)) as f64 / 1e15,
            transitions_j: self.transition_fj as f64 / 1e15,
        }
    }
}

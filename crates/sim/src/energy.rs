//! Energy: the integral of the power of every core and of every package's uncore.

use crate::groups::{GroupTimes, Groups};
use schedlab_machine::{CpuId, Machine};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a CPU does, as its power is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Runs a task or the kernel.
    Busy,
    /// Leaves this idle state: its package is awake, and the state's transition energy is what the
    /// core takes beyond the state's own power.
    Waking(u32),
    /// In this idle state.
    Idle(u32),
}

impl Activity {
    /// What the core draws power for.
    fn of_core(self) -> Activity {
        match self {
            Activity::Waking(state) => Activity::Idle(state),
            other => other,
        }
    }

    /// What the package draws power for.
    fn of_package(self) -> Activity {
        match self {
            Activity::Waking(_) => Activity::Busy,
            other => other,
        }
    }
}

/// Energy drawn so far, with what is needed to go on. Powers are in microwatts and times in
/// nanoseconds, so energies are in femtojoules, which add up exactly.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    cpus: Vec<Activity>,
    cores: Vec<Rail>,
    packages: Vec<Rail>,
    machine_uw: u64,
    groups: Groups,
    /// Power of each core at its present operating point with one busy thread.
    busy_uw: Vec<u64>,
    /// By core.
    transition_fj: Vec<u128>,
    /// Changes that lie ahead of the earliest event, because a kernel path is executed at once.
    ahead: BinaryHeap<Reverse<Change>>,
    changes: u64,
}

/// A CPU's activity changes: when, in which order, which CPU, to what.
type Change = (u64, u64, u32, Activity);

/// What draws power together: how many of its CPUs do what, and the energy so far.
#[derive(Clone, Debug, Default)]
struct Rail {
    busy: usize,
    /// CPUs in each idle state.
    idle: Vec<u32>,
    power_uw: u64,
    since_ns: u64,
    energy_fj: u128,
    /// What the one that does most does: none of its CPUs sleeps less deeply.
    shared: Option<Activity>,
    active_ns: u64,
    /// Time in which that was this idle state.
    idle_ns: Vec<u64>,
}

/// Time of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageTimes {
    /// One of its CPUs was busy, ns.
    pub active_ns: u64,
    /// All slept, and none less deeply than this, by idle state, ns.
    pub idle_ns: Vec<u64>,
}

impl Rail {
    fn of(states: usize) -> Rail {
        let idle_ns = vec![0; states.max(1)];
        Rail { idle: vec![0; states.max(1)], idle_ns, ..Rail::default() }
    }

    fn count(&mut self, activity: Activity, comes: bool) {
        match (activity, comes) {
            (Activity::Busy | Activity::Waking(_), true) => self.busy += 1,
            (Activity::Busy | Activity::Waking(_), false) => self.busy -= 1,
            (Activity::Idle(state), true) => self.idle[state as usize] += 1,
            (Activity::Idle(state), false) => self.idle[state as usize] -= 1,
        }
    }

    fn shallowest(&self) -> usize {
        self.idle.iter().position(|&cpus| cpus > 0).unwrap_or(0)
    }

    fn set(&mut self, power_uw: u64, now_ns: u64) {
        let passed_ns = now_ns - self.since_ns;
        self.energy_fj += u128::from(self.power_uw) * u128::from(passed_ns);
        match self.shared {
            Some(Activity::Idle(state)) => self.idle_ns[state as usize] += passed_ns,
            Some(Activity::Busy | Activity::Waking(_)) => self.active_ns += passed_ns,
            None => {}
        }
        self.shared = Some(match self.busy {
            0 => Activity::Idle(self.shallowest() as u32),
            _ => Activity::Busy,
        });
        self.since_ns = now_ns;
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
    /// What groups of CPUs share ([`Machine::group_states`]).
    pub groups_j: f64,
    /// What a meter would show of each of [`Machine::rails`]: its cores with their entries and exits.
    pub rails_j: Vec<f64>,
}

impl Energy {
    /// All rails together.
    pub fn total_j(&self) -> f64 {
        self.cores_j.iter().sum::<f64>()
            + self.packages_j.iter().sum::<f64>()
            + self.machine_j
            + self.transitions_j
            + self.groups_j
    }
}

/// The deepest enabled idle state of `cpu`; 0 if it has none.
pub fn deepest(machine: &Machine, cpu: CpuId) -> u32 {
    machine.idle_states(cpu).iter().rposition(|state| !state.disabled).unwrap_or(0) as u32
}

impl EnergyMeter {
    /// Every CPU in its deepest idle state at time 0.
    pub fn new(machine: &Machine) -> EnergyMeter {
        let topology = machine.topology();
        let states = machine.cpu_ids().map(|cpu| machine.idle_states(cpu).len()).max();
        let rail = Rail::of(states.unwrap_or(0));
        let mut meter = EnergyMeter {
            cpus: machine.cpu_ids().map(|cpu| Activity::Idle(deepest(machine, cpu))).collect(),
            cores: vec![rail.clone(); topology.cores().len()],
            packages: vec![rail; topology.packages().len()],
            machine_uw: machine.uncore_power().machine_uw,
            groups: Groups::default(),
            busy_uw: vec![0; topology.cores().len()],
            transition_fj: vec![0; topology.cores().len()],
            ahead: BinaryHeap::with_capacity(2 * machine.cpu_count()),
            changes: 0,
        };
        meter.groups = Groups::new(machine, &meter.cpus);
        for cpu in machine.cpu_ids() {
            let activity = meter.cpus[cpu.index()];
            meter.cores[topology.cores().of(cpu)].count(activity, true);
            meter.busy_uw[topology.cores().of(cpu)] = machine.busy_power_max_uw(cpu);
            meter.packages[topology.packages().of(cpu)].count(activity, true);
        }
        for cpu in machine.cpu_ids() {
            meter.settle(machine, cpu, 0);
        }
        meter
    }

    /// `cpu` does something else from `now_ns` on.
    pub fn set(&mut self, cpu: CpuId, activity: Activity, now_ns: u64) {
        self.changes += 1;
        self.ahead.push(Reverse((now_ns, self.changes, cpu.0, activity)));
    }

    /// No change before `now_ns` is to come any more.
    #[inline]
    pub fn advance(&mut self, machine: &Machine, now_ns: u64) {
        while let Some(&Reverse((time_ns, _, cpu, activity))) = self.ahead.peek()
            && time_ns <= now_ns
        {
            self.ahead.pop();
            self.change(machine, CpuId(cpu), activity, time_ns);
        }
    }

    fn change(&mut self, machine: &Machine, cpu: CpuId, activity: Activity, now_ns: u64) {
        let before = std::mem::replace(&mut self.cpus[cpu.index()], activity);
        if before == activity {
            return;
        }
        self.groups.change(cpu, before, activity, now_ns);
        let topology = machine.topology();
        if let Activity::Idle(state) = activity
            && let Some(state) = machine.idle_states(cpu).get(state as usize)
        {
            let own_fj = &mut self.transition_fj[topology.cores().of(cpu)];
            *own_fj += u128::from(state.transition_energy_nj) * 1_000_000;
        }
        let core = &mut self.cores[topology.cores().of(cpu)];
        core.count(before.of_core(), false);
        core.count(activity.of_core(), true);
        let package = &mut self.packages[topology.packages().of(cpu)];
        package.count(before.of_package(), false);
        package.count(activity.of_package(), true);
        self.settle(machine, cpu, now_ns);
    }

    fn settle(&mut self, machine: &Machine, cpu: CpuId, now_ns: u64) {
        let topology = machine.topology();
        let index = topology.cores().of(cpu);
        let (core, busy_uw) = (&mut self.cores[index], self.busy_uw[index]);
        let power_uw = if core.busy > 0 {
            busy_uw * u64::from(machine.smt().power_permille(core.busy)) / 1000
        } else {
            machine.cpu_type(cpu).idle_power_at_uw(core.shallowest(), busy_uw)
        };
        core.set(power_uw, now_ns);

        let package = &mut self.packages[topology.packages().of(cpu)];
        let power_uw = if package.busy > 0 {
            machine.uncore_power().package_active_uw
        } else {
            machine.package_idle_power_uw(cpu, package.shallowest())
        };
        package.set(power_uw, now_ns);
    }

    /// The last entry of `cpu` came to nothing, until which this meter is.
    pub fn retract_entry(&mut self, machine: &Machine, cpu: CpuId, state: u32) {
        if let Some(state) = machine.idle_states(cpu).get(state as usize) {
            let own_fj = &mut self.transition_fj[machine.topology().cores().of(cpu)];
            *own_fj -= u128::from(state.transition_energy_nj) * 1_000_000;
        }
    }

    /// An interrupt wakes `cpu` at `now_ns`, until which this meter is: when what it shares with
    /// others is awake, ns.
    #[inline]
    pub fn wake_groups(&mut self, cpu: CpuId, now_ns: u64) -> u64 {
        self.groups.wake(cpu, now_ns)
    }

    /// What became of the parts that CPUs share until `now_ns`, the end of the run.
    pub fn groups(&mut self, machine: &Machine, now_ns: u64) -> Vec<GroupTimes> {
        self.advance(machine, now_ns);
        self.groups.finish(now_ns)
    }

    /// The core of `cpu` runs at `khz` from `now_ns` on, before which no change is to come any more.
    pub fn set_frequency(&mut self, machine: &Machine, cpu: CpuId, khz: u32, now_ns: u64) {
        let core = machine.topology().cores().of(cpu);
        let busy_uw = machine.busy_power_uw(cpu, khz);
        if self.busy_uw[core] != busy_uw {
            self.busy_uw[core] = busy_uw;
            self.settle(machine, cpu, now_ns);
        }
    }

    /// What the packages did until `now_ns`, the end of the run.
    pub fn packages(&mut self, machine: &Machine, now_ns: u64) -> Vec<PackageTimes> {
        self.advance(machine, now_ns);
        let times = |rail: &mut Rail| {
            rail.set(rail.power_uw, now_ns);
            PackageTimes { active_ns: rail.active_ns, idle_ns: rail.idle_ns.clone() }
        };
        self.packages.iter_mut().map(times).collect()
    }

    /// The energy drawn until `now_ns`, the end of the run.
    pub fn read(&mut self, machine: &Machine, now_ns: u64) -> Energy {
        self.advance(machine, now_ns);
        let joules = |rail: &mut Rail| {
            rail.set(0, now_ns);
            rail.energy_fj as f64 / 1e15
        };
        for core in &mut self.cores {
            core.set(0, now_ns);
        }
        let cores = machine.topology().cores();
        let groups = &mut self.groups;
        let mut supply = |supply: &schedlab_machine::Rail| {
            let shared_fj = groups.energy_fj(&supply.cpus, now_ns);
            let fed = cores.groups().iter().enumerate();
            let fed = fed.filter(|(_, core)| !(**core & supply.cpus).is_empty());
            let fj = |(core, _): (usize, _)| self.cores[core].energy_fj + self.transition_fj[core];
            (shared_fj + fed.map(fj).sum::<u128>()) as f64 / 1e15
        };
        let rails_j = machine.rails().iter().map(&mut supply).collect();
        let groups_j = groups.energy_fj(machine.cpus(), now_ns) as f64 / 1e15;
        Energy {
            rails_j,
            groups_j,
            cores_j: self.cores.iter_mut().map(joules).collect(),
            packages_j: self.packages.iter_mut().map(joules).collect(),
            machine_j: (u128::from(self.machine_uw) * u128::from(now_ns)) as f64 / 1e15,
            transitions_j: self.transition_fj.iter().sum::<u128>() as f64 / 1e15,
        }
    }
}

//! Energy: the integral of the power of every core and of every package's uncore.

use crate::changes::Changes;
use crate::groups::{GroupTimes, Groups};
use schedlab_machine::{CpuId, Machine};

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
    cpus: Vec<Place>,
    cores: Vec<Core>,
    packages: Vec<Package>,
    package_active_uw: u64,
    machine_uw: u64,
    groups: Groups,
    changes: Changes,
}

/// What a CPU does, and what draws power for that.
#[derive(Clone, Copy, Debug)]
struct Place {
    activity: Activity,
    core: u32,
    package: u32,
}

/// The integral of a power.
#[derive(Clone, Debug, Default)]
struct Integral {
    power_uw: u64,
    since_ns: u64,
    energy_fj: u128,
}

impl Integral {
    /// The power is this from `now_ns` on. Gives how long it was the last one, ns.
    fn set(&mut self, power_uw: u64, now_ns: u64) -> u64 {
        let passed_ns = now_ns - self.since_ns;
        self.energy_fj += u128::from(self.power_uw) * u128::from(passed_ns);
        self.since_ns = now_ns;
        self.power_uw = power_uw;
        passed_ns
    }
}

/// What draws power for the threads of a core.
#[derive(Clone, Debug, Default)]
struct Core {
    energy: Integral,
    /// How many of its threads are busy.
    busy: u32,
    /// Power at its present operating point with one busy thread.
    busy_uw: u64,
    /// Energy of entries into and exits from idle states, nJ.
    transition_nj: u64,
    states: Box<[CoreState]>,
}

/// An idle state of a core.
#[derive(Clone, Copy, Debug, Default)]
struct CoreState {
    /// Threads in it.
    threads: u32,
    /// Power while none sleeps less deeply, at the core's present operating point.
    power_uw: u64,
    transition_nj: u64,
}

impl Core {
    fn count(&mut self, activity: Activity) -> &mut u32 {
        match activity {
            Activity::Busy => &mut self.busy,
            Activity::Waking(state) | Activity::Idle(state) => {
                &mut self.states[state as usize].threads
            }
        }
    }

    /// Its power follows from what its threads do.
    fn settle(&mut self, machine: &Machine, now_ns: u64) {
        let power_uw = if self.busy > 0 {
            let permille = machine.smt().power_permille(self.busy as usize);
            self.busy_uw * u64::from(permille) / 1000
        } else {
            let shallowest = self.states.iter().find(|state| state.threads > 0);
            shallowest.unwrap_or(&self.states[0]).power_uw
        };
        self.energy.set(power_uw, now_ns);
    }

    /// Its powers with one busy thread at a power of `busy_uw`; that of `cpu` is its type.
    fn set_busy_power(&mut self, machine: &Machine, cpu: CpuId, busy_uw: u64) {
        self.busy_uw = busy_uw;
        for (index, state) in self.states.iter_mut().enumerate() {
            state.power_uw = machine.cpu_type(cpu).idle_power_at_uw(index, busy_uw);
        }
    }
}

/// What draws power for the CPUs of a package.
#[derive(Clone, Debug, Default)]
struct Package {
    energy: Integral,
    /// How many of its CPUs are busy.
    busy: u32,
    /// How many are in each idle state.
    idle: Box<[u32]>,
    /// What the one that does most does: none of its CPUs sleeps less deeply.
    shared: Option<Activity>,
    active_ns: u64,
    /// Time in which that was this idle state.
    idle_ns: Box<[u64]>,
}

impl Package {
    fn count(&mut self, activity: Activity) -> &mut u32 {
        match activity {
            Activity::Busy | Activity::Waking(_) => &mut self.busy,
            Activity::Idle(state) => &mut self.idle[state as usize],
        }
    }

    fn shallowest(&self) -> usize {
        self.idle.iter().position(|&cpus| cpus > 0).unwrap_or(0)
    }

    fn set(&mut self, power_uw: u64, shared: Option<Activity>, now_ns: u64) {
        let passed_ns = self.energy.set(power_uw, now_ns);
        match self.shared {
            Some(Activity::Idle(state)) => self.idle_ns[state as usize] += passed_ns,
            Some(Activity::Busy | Activity::Waking(_)) => self.active_ns += passed_ns,
            None => {}
        }
        self.shared = shared;
    }
}

/// Time of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageTimes {
    /// One of its CPUs was busy, ns.
    pub active_ns: u64,
    /// All slept, and none less deeply than this, by idle state, ns.
    pub idle_ns: Vec<u64>,
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
        let (cores, packages) = (machine.topology().cores(), machine.topology().packages());
        let states = machine.cpu_ids().map(|cpu| machine.idle_states(cpu).len()).max();
        let states = states.unwrap_or(0).max(1);
        let place = |cpu: CpuId| Place {
            activity: Activity::Idle(deepest(machine, cpu)),
            core: cores.of(cpu) as u32,
            package: packages.of(cpu) as u32,
        };
        let core = Core { states: vec![CoreState::default(); states].into(), ..Core::default() };
        let package = Package {
            idle: vec![0; states].into(),
            idle_ns: vec![0; states].into(),
            ..Package::default()
        };
        let activity = |cpu| Activity::Idle(deepest(machine, cpu));
        let activity: Vec<Activity> = machine.cpu_ids().map(activity).collect();
        let mut meter = EnergyMeter {
            cpus: machine.cpu_ids().map(place).collect(),
            cores: vec![core; cores.len()],
            packages: vec![package; packages.len()],
            package_active_uw: machine.uncore_power().package_active_uw,
            machine_uw: machine.uncore_power().machine_uw,
            groups: Groups::new(machine, &activity),
            changes: Changes::new(machine.cpu_count()),
        };
        for (cpu, activity) in machine.cpu_ids().zip(activity) {
            let core = &mut meter.cores[cores.of(cpu)];
            *core.count(activity) += 1;
            core.set_busy_power(machine, cpu, machine.busy_power_max_uw(cpu));
            for (state, found) in core.states.iter_mut().zip(machine.idle_states(cpu)) {
                state.transition_nj = found.transition_energy_nj;
            }
            *meter.packages[packages.of(cpu)].count(activity) += 1;
        }
        for cpu in machine.cpu_ids() {
            meter.cores[cores.of(cpu)].settle(machine, 0);
            meter.settle_package(machine, cpu, 0);
        }
        meter
    }

    /// `cpu` does something else from `now_ns` on. No change before `horizon_ns` is to come any more.
    #[inline]
    pub fn set(
        &mut self,
        machine: &Machine,
        cpu: CpuId,
        activity: Activity,
        (now_ns, horizon_ns): (u64, u64),
    ) {
        if self.changes.add(cpu, activity, now_ns) {
            self.advance(machine, horizon_ns);
        }
    }

    /// Takes the changes until `now_ns` in, before which none is to come any more.
    #[inline(never)]
    fn advance(&mut self, machine: &Machine, now_ns: u64) {
        let mut changes = std::mem::take(&mut self.changes);
        changes.take(now_ns, |cpu, activity, time_ns| {
            self.change(machine, cpu, activity, time_ns);
        });
        self.changes = changes;
    }

    fn change(&mut self, machine: &Machine, cpu: CpuId, activity: Activity, now_ns: u64) {
        let place = &mut self.cpus[cpu.index()];
        let before = std::mem::replace(&mut place.activity, activity);
        if before == activity {
            return;
        }
        self.groups.change(cpu, before, activity, now_ns);
        let core = &mut self.cores[place.core as usize];
        if let Activity::Idle(state) = activity {
            core.transition_nj += core.states[state as usize].transition_nj;
        }
        if before.of_core() != activity.of_core() {
            *core.count(before) -= 1;
            *core.count(activity) += 1;
            core.settle(machine, now_ns);
        }
        if before.of_package() != activity.of_package() {
            let package = &mut self.packages[place.package as usize];
            *package.count(before) -= 1;
            *package.count(activity) += 1;
            // While others are busy, one more or less is all the same.
            if package.busy == 0 || package.shared != Some(Activity::Busy) {
                self.settle_package(machine, cpu, now_ns);
            }
        }
    }

    /// The power of the package of `cpu` follows from what its CPUs do, one of which is in the least
    /// deep state, and counts as `cpu`'s type.
    fn settle_package(&mut self, machine: &Machine, cpu: CpuId, now_ns: u64) {
        let package = &mut self.packages[self.cpus[cpu.index()].package as usize];
        let (power_uw, shared) = if package.busy > 0 {
            (self.package_active_uw, Activity::Busy)
        } else {
            let state = package.shallowest();
            (machine.package_idle_power_uw(cpu, state), Activity::Idle(state as u32))
        };
        if power_uw != package.energy.power_uw || package.shared != Some(shared) {
            package.set(power_uw, Some(shared), now_ns);
        }
    }

    /// The last entry of `cpu` came to nothing, at `now_ns`, before which no change is to come.
    pub fn retract_entry(&mut self, machine: &Machine, cpu: CpuId, state: u32, now_ns: u64) {
        self.advance(machine, now_ns);
        let core = &mut self.cores[self.cpus[cpu.index()].core as usize];
        core.transition_nj -= core.states[state as usize].transition_nj;
    }

    /// An interrupt wakes `cpu` at `now_ns`, before which no change is to come any more: when what it
    /// shares with others is awake, ns.
    #[inline]
    pub fn wake_groups(&mut self, machine: &Machine, cpu: CpuId, now_ns: u64) -> u64 {
        if self.groups.are_none() {
            return now_ns;
        }
        self.advance(machine, now_ns);
        self.groups.wake(cpu, now_ns)
    }

    /// What became of the parts that CPUs share until `now_ns`, the end of the run.
    pub fn groups(&mut self, machine: &Machine, now_ns: u64) -> Vec<GroupTimes> {
        self.advance(machine, now_ns);
        self.groups.finish(now_ns)
    }

    /// The core of `cpu` runs at `khz` from `now_ns` on, before which no change is to come any more.
    pub fn set_frequency(&mut self, machine: &Machine, cpu: CpuId, khz: u32, now_ns: u64) {
        let core = self.cpus[cpu.index()].core as usize;
        let busy_uw = machine.busy_power_uw(cpu, khz);
        if self.cores[core].busy_uw != busy_uw {
            self.advance(machine, now_ns);
            self.cores[core].set_busy_power(machine, cpu, busy_uw);
            self.cores[core].settle(machine, now_ns);
            self.settle_package(machine, cpu, now_ns);
        }
    }

    /// What the packages did until `now_ns`, the end of the run.
    pub fn packages(&mut self, machine: &Machine, now_ns: u64) -> Vec<PackageTimes> {
        self.advance(machine, now_ns);
        let times = |package: &mut Package| {
            package.set(package.energy.power_uw, package.shared, now_ns);
            PackageTimes { active_ns: package.active_ns, idle_ns: package.idle_ns.to_vec() }
        };
        self.packages.iter_mut().map(times).collect()
    }

    /// The energy drawn until `now_ns`, the end of the run.
    pub fn read(&mut self, machine: &Machine, now_ns: u64) -> Energy {
        self.advance(machine, now_ns);
        let drawn_fj = |energy: &mut Integral| {
            energy.set(0, now_ns);
            energy.energy_fj
        };
        let drawn = |core: &mut Core| drawn_fj(&mut core.energy);
        let drawn_fj_by_core: Vec<u128> = self.cores.iter_mut().map(drawn).collect();
        let transition_fj = |core: &Core| u128::from(core.transition_nj) * 1_000_000;
        let joules = |energy_fj: u128| energy_fj as f64 / 1e15;
        let cores = machine.topology().cores();
        let groups = &mut self.groups;
        let mut supply = |supply: &schedlab_machine::Rail| {
            let shared_fj = groups.energy_fj(&supply.cpus, now_ns);
            let fed = cores.groups().iter().enumerate();
            let fed = fed.filter(|(_, core)| !(**core & supply.cpus).is_empty());
            let fj =
                |(core, _): (usize, _)| drawn_fj_by_core[core] + transition_fj(&self.cores[core]);
            joules(shared_fj + fed.map(fj).sum::<u128>())
        };
        let rails_j = machine.rails().iter().map(&mut supply).collect();
        let packages = self.packages.iter_mut().map(|package| drawn_fj(&mut package.energy));
        Energy {
            rails_j,
            groups_j: joules(groups.energy_fj(machine.cpus(), now_ns)),
            cores_j: drawn_fj_by_core.iter().copied().map(joules).collect(),
            packages_j: packages.map(joules).collect(),
            machine_j: joules(u128::from(self.machine_uw) * u128::from(now_ns)),
            transitions_j: joules(self.cores.iter().map(transition_fj).sum::<u128>()),
        }
    }
}

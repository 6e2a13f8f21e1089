//! Parts of the hardware that several CPUs share and that sleep while all of them have promised to:
//! the last CPU that goes down lets the part sleep, and the first that wakes waits for it.

use crate::energy::Activity;
use schedlab_machine::{CpuId, CpuSet, Machine};

/// All such parts of a machine. Powers are in microwatts, times in nanoseconds, so energies in
/// femtojoules, which add up exactly.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    parts: Vec<Part>,
    /// By CPU: its parts, the widest first, and the shallowest state by which it promises.
    of: Vec<Vec<(usize, u32)>>,
}

#[derive(Clone, Debug)]
struct Part {
    cpus: CpuSet,
    exit_latency_ns: u64,
    active_uw: u64,
    asleep_uw: u64,
    transition_fj: u128,
    /// CPUs that have not promised.
    awake: usize,
    asleep: bool,
    /// Until when it wakes up, ns.
    ready_ns: u64,
    since_ns: u64,
    energy_fj: u128,
    times: GroupTimes,
}

/// What became of a part that CPUs share.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupTimes {
    /// Its name.
    pub name: String,
    /// The CPUs that share it.
    pub cpus: CpuSet,
    /// Time asleep, ns.
    pub asleep_ns: u64,
    /// How often it fell asleep.
    pub entries: u64,
    /// Energy that it drew, its transitions included, joules.
    pub energy_j: f64,
}

impl Part {
    /// Takes the time until `now_ns` down.
    fn count(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let power_uw = if self.asleep { self.asleep_uw } else { self.active_uw };
        self.energy_fj += u128::from(power_uw) * u128::from(passed_ns);
        self.times.asleep_ns += if self.asleep { passed_ns } else { 0 };
        self.since_ns = self.since_ns.max(now_ns);
    }
}

impl Groups {
    /// Every part asleep that may be, with CPUs that do what `activity` tells.
    pub fn new(machine: &Machine, activity: &[Activity]) -> Groups {
        let mut groups = Groups { parts: Vec::new(), of: vec![Vec::new(); machine.cpu_count()] };
        for state in machine.group_states() {
            for cpus in &state.groups {
                let mut awake = 0;
                for cpu in cpus {
                    let least = machine.promise_of(cpu, state).unwrap_or(u32::MAX);
                    awake += usize::from(!promises(activity[cpu.index()], least));
                    groups.of[cpu.index()].push((groups.parts.len(), least));
                }
                groups.parts.push(Part {
                    cpus: *cpus,
                    exit_latency_ns: state.exit_latency_ns,
                    active_uw: state.active_uw,
                    asleep_uw: state.asleep_uw,
                    transition_fj: u128::from(state.transition_energy_nj) * 1_000_000,
                    awake,
                    asleep: awake == 0,
                    ready_ns: 0,
                    since_ns: 0,
                    energy_fj: 0,
                    times: GroupTimes {
                        name: state.name.clone(),
                        cpus: *cpus,
                        asleep_ns: 0,
                        entries: 0,
                        energy_j: 0.0,
                    },
                });
            }
        }
        groups
    }

    /// `cpu` does something else from `now_ns` on, before which no change is to come any more.
    #[inline]
    pub fn change(&mut self, cpu: CpuId, before: Activity, after: Activity, now_ns: u64) {
        if !self.parts.is_empty() {
            self.change_parts(cpu, before, after, now_ns);
        }
    }

    fn change_parts(&mut self, cpu: CpuId, before: Activity, after: Activity, now_ns: u64) {
        for &(part, least) in &self.of[cpu.index()] {
            let part = &mut self.parts[part];
            match (promises(before, least), promises(after, least)) {
                (false, true) => {
                    part.awake -= 1;
                    if part.awake == 0 {
                        part.count(now_ns);
                        part.asleep = true;
                        part.times.entries += 1;
                        part.energy_fj += part.transition_fj;
                    }
                }
                (true, false) => {
                    part.awake += 1;
                    part.count(now_ns);
                    part.asleep = false;
                }
                _ => {}
            }
        }
    }

    /// The machine has no such parts.
    #[inline]
    pub fn are_none(&self) -> bool {
        self.parts.is_empty()
    }

    /// An interrupt wakes `cpu` at `now_ns`: when its own way up may begin, ns. What sleeps wakes up
    /// first, from the widest part to the narrowest.
    pub fn wake(&mut self, cpu: CpuId, now_ns: u64) -> u64 {
        let mut ready_ns = now_ns;
        for &(part, _) in &self.of[cpu.index()] {
            let part = &mut self.parts[part];
            if part.asleep {
                part.count(now_ns);
                part.asleep = false;
                part.ready_ns = ready_ns + part.exit_latency_ns;
            }
            ready_ns = ready_ns.max(part.ready_ns);
        }
        ready_ns
    }

    /// Energy of the parts whose CPUs are all among `cpus` until `now_ns`, fJ.
    pub fn energy_fj(&mut self, cpus: &CpuSet, now_ns: u64) -> u128 {
        let inside = self.parts.iter_mut().filter(|part| (part.cpus - *cpus).is_empty());
        let energy_fj = |part: &mut Part| {
            part.count(now_ns);
            part.energy_fj
        };
        inside.map(energy_fj).sum()
    }

    /// What became of each part until `now_ns`, the end of the run.
    pub fn finish(&mut self, now_ns: u64) -> Vec<GroupTimes> {
        let times = |part: &mut Part| {
            part.count(now_ns);
            GroupTimes { energy_j: part.energy_fj as f64 / 1e15, ..part.times.clone() }
        };
        self.parts.iter_mut().map(times).collect()
    }
}

/// The CPU sleeps in state `least` or deeper.
pub fn promises(activity: Activity, least: u32) -> bool {
    matches!(activity, Activity::Idle(state) if state >= least)
}

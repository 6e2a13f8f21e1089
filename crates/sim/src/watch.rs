//! Checkers that watch a run: what they find is a defect of the simulator, never of a workload.

use crate::energy::{Activity, deepest};
use crate::engine::Engine;
use crate::groups::promises;
use crate::idle_counts::IdleCounts;
use crate::outcome::Outcome;
use crate::patience::Patience;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::queue::FairQueue;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_trace::{Event, EventKind, Pid, TaskState};
use schedlab_workload::program::Op;
use std::collections::BTreeMap;

/// Runs to the end and checks the state between any `every` events ([`Engine::verify`]), and in
/// the end what the events and the outcome tell ([`verify_outcome`]).
///
/// # Errors
/// The first thing that does not hold, in one line, with its time.
pub fn run_watched(
    machine: &Machine,
    mut engine: Engine<'_, Vec<Event>>,
    duration_ns: u64,
    every: u32,
) -> Result<Outcome<Vec<Event>>, String> {
    let mut least = Vec::new();
    let (mut neglected, mut neglected_deadline) = (None, None);
    let mut patience = Patience::default();
    // Who changes the CPUs of a task may make it wait where it goes: nothing pushes it from there.
    let bound = engine.workload.programs.iter().all(|program| {
        program.attributes.policy.priority().is_none()
            || !program.ops.iter().any(|op| matches!(op, Op::SetAffinity { .. }))
    });
    let ending = loop {
        let ending = engine.advance(duration_ns, every.max(1));
        let at = |what| format!("at {} ns: {what}", engine.now_ns());
        engine.verify().map_err(at)?;
        watch_virtual_time(&engine, &mut least).map_err(at)?;
        patience.watch(&engine).map_err(at)?;
        if bound {
            let (scheduler, now_ns) = (engine.scheduler(), engine.now_ns());
            watch_urgent(scheduler.neglected(), now_ns, &mut neglected).map_err(at)?;
            watch_urgent(scheduler.neglected_deadline(), now_ns, &mut neglected_deadline)
                .map_err(at)?;
        }
        if let Some(ending) = ending {
            break ending;
        }
    };
    let outcome = engine.finish(ending, duration_ns);
    verify_outcome(machine, &outcome)?;
    Ok(outcome)
}

/// CFS's `min_vruntime` never goes back.
fn watch_virtual_time<O: crate::Observer>(
    engine: &Engine<'_, O>,
    least: &mut Vec<u64>,
) -> Result<(), String> {
    let scheduler = engine.scheduler();
    for index in 0..scheduler.cpus().len() {
        let FairQueue::Cfs(queue) = &scheduler.run_queue(CpuId(index as u32)).fair else { break };
        let now = queue.min_vruntime;
        let before = least.get(index).copied().unwrap_or(now);
        if (now.wrapping_sub(before) as i64) < 0 {
            return Err(format!("min_vruntime of CPU {index} went back from {before} to {now}"));
        }
        match least.get_mut(index) {
            Some(least) => *least = now,
            None => least.push(now),
        }
    }
    Ok(())
}

/// How long a real-time task may wait while a CPU that it may use runs nothing as urgent, ns:
/// interrupts and sleeping CPUs take their time, and a task that is enqueued just when its CPU
/// is about to schedule is pushed only at the next occasion.
const NEGLECT_MAX_NS: u64 = 20_000_000;

/// Pushing and pulling bring urgent tasks to CPUs that run less urgent ones.
fn watch_urgent(
    found: Option<(TaskId, CpuId)>,
    now_ns: u64,
    neglected: &mut Option<(TaskId, u64)>,
) -> Result<(), String> {
    let Some((task, cpu)) = found else {
        *neglected = None;
        return Ok(());
    };
    let since_ns = neglected.filter(|(other, _)| *other == task).map_or(now_ns, |(_, ns)| ns);
    *neglected = Some((task, since_ns));
    if now_ns.saturating_sub(since_ns) > NEGLECT_MAX_NS {
        let (task, cpu) = (task.0, cpu.0);
        return Err(format!("task {task} waits since {since_ns} ns, but CPU {cpu} would take it"));
    }
    Ok(())
}

/// Checks what a finished run tells against itself: tasks are on one CPU at a time and run only
/// once they were woken, the times of each CPU add up to the whole, and energy is the integral of
/// power.
///
/// # Errors
/// The first thing that does not hold, in one line.
pub fn verify_outcome(machine: &Machine, outcome: &Outcome<Vec<Event>>) -> Result<(), String> {
    let cpus = machine.cpu_count();
    let mut last_ns = vec![0; cpus];
    // A change of frequency is the hardware's: its CPUs may be on their way beyond it.
    let by_cpus = |event: &&Event| !matches!(event.kind, EventKind::Frequency { .. });
    for event in outcome.observer.iter().filter(by_cpus) {
        let last_ns = &mut last_ns[event.cpu.index()];
        if event.timestamp_ns < *last_ns {
            return Err(format!("{event:?} comes after {last_ns} ns of its CPU"));
        }
        *last_ns = event.timestamp_ns;
    }
    let mut events = outcome.observer.clone();
    events.sort_by_key(|event| (event.timestamp_ns, event.cpu));
    let mut places = Places { running: vec![Pid::IDLE; cpus], tasks: BTreeMap::new() };
    let mut idle = Idle::new(machine, outcome.end_ns);
    for event in &events {
        places.event(event).map_err(|what| format!("{what}: {event:?}"))?;
        idle.event(event).map_err(|what| format!("{what}: {event:?}"))?;
    }
    verify_times(outcome)?;
    idle.verify(outcome)
}

/// A kernel path that the end comes upon counts whole for its task, and is at most this long, ns.
const PATH_MAX_NS: u64 = 100_000;

fn verify_times(outcome: &Outcome<Vec<Event>>) -> Result<(), String> {
    let mut busy_ns = 0;
    for (cpu, times) in outcome.cpus.iter().enumerate() {
        let idle_ns: u64 = times.idle_ns.iter().sum();
        if times.busy_ns + idle_ns != outcome.end_ns {
            return Err(format!(
                "CPU {cpu} was busy for {} ns and idle for {idle_ns} ns of {} ns",
                times.busy_ns, outcome.end_ns
            ));
        }
        busy_ns += times.busy_ns;
    }
    // A kernel path that the end cut short belongs to its task in full.
    let mut last_ns = vec![outcome.end_ns; outcome.cpus.len()];
    for event in &outcome.observer {
        let last_ns = &mut last_ns[event.cpu.index()];
        *last_ns = event.timestamp_ns.max(*last_ns);
    }
    busy_ns += last_ns.iter().map(|last_ns| last_ns - outcome.end_ns).sum::<u64>();
    let run_ns: u64 = outcome.tasks.iter().map(|task| task.runtime_ns).sum();
    if run_ns > busy_ns + outcome.cpus.len() as u64 * PATH_MAX_NS {
        return Err(format!("tasks ran for {run_ns} ns on CPUs busy for {busy_ns} ns"));
    }
    Ok(())
}

/// Where a task is, as events tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Queued,
    Running(CpuId),
    Asleep,
    Waking,
    Gone,
}

struct Places {
    running: Vec<Pid>,
    tasks: BTreeMap<Pid, Place>,
}

impl Places {
    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            EventKind::Switch { prev, prev_state, next, .. } => {
                let running = &mut self.running[event.cpu.index()];
                if *running != prev.pid {
                    return Err(format!("{running:?} ran before"));
                }
                *running = next.pid;
                if prev.pid != Pid::IDLE {
                    let place = match prev_state {
                        TaskState::Running | TaskState::Preempted => Place::Queued,
                        TaskState::Dead => Place::Gone,
                        _ => Place::Asleep,
                    };
                    self.go(prev.pid, &[Place::Running(event.cpu)], place)?;
                }
                if next.pid != Pid::IDLE {
                    self.go(next.pid, &[Place::Queued], Place::Running(event.cpu))?;
                }
                Ok(())
            }
            EventKind::Waking { task, .. } => self.go(task.pid, &[Place::Asleep], Place::Waking),
            EventKind::Wakeup { task, .. } => self.go(task.pid, &[Place::Waking], Place::Queued),
            EventKind::WakeupNew { task, .. } => match self.tasks.insert(task.pid, Place::Queued) {
                None => Ok(()),
                Some(place) => Err(format!("it was {place:?} before")),
            },
            EventKind::Migrate { task, .. } => match self.tasks.get(&task.pid) {
                Some(Place::Queued | Place::Waking | Place::Asleep) => Ok(()),
                place => Err(format!("it was {place:?} before")),
            },
            _ => Ok(()),
        }
    }

    fn go(&mut self, pid: Pid, from: &[Place], to: Place) -> Result<(), String> {
        match self.tasks.insert(pid, to) {
            Some(place) if from.contains(&place) => Ok(()),
            place => Err(format!("task {} was {place:?}", pid.0)),
        }
    }
}

/// What becomes of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Activity(Activity),
    Khz(u32),
}

/// Idle periods, as events tell them, and the energy that follows from them.
struct Idle<'a> {
    machine: &'a Machine,
    end_ns: u64,
    /// Activity of each CPU, and since when.
    cpus: Vec<(Activity, u64)>,
    /// Every change of activity or frequency: when, which CPU, to what.
    changes: Vec<(u64, CpuId, Change)>,
    idle_ns: Vec<u64>,
    /// What the kernel should have counted.
    counts: Vec<Vec<IdleCounts>>,
    running: Vec<Pid>,
}

impl<'a> Idle<'a> {
    fn new(machine: &'a Machine, end_ns: u64) -> Idle<'a> {
        let count = machine.cpu_count();
        Idle {
            machine,
            end_ns,
            cpus: vec![(Activity::Busy, 0); count],
            changes: Vec::new(),
            idle_ns: vec![0; count],
            counts: machine
                .cpu_ids()
                .map(|cpu| vec![IdleCounts::default(); machine.idle_states(cpu).len().max(1)])
                .collect(),
            running: vec![Pid::IDLE; count],
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            EventKind::Switch { next, .. } => self.running[event.cpu.index()] = next.pid,
            EventKind::IdleEnter { cpu, state } => {
                if self.running[cpu.index()] != Pid::IDLE {
                    return Err("a task runs".to_owned());
                }
                if self.cpus[cpu.index()].0 != Activity::Busy {
                    return Err("it idles already".to_owned());
                }
                self.change(event.timestamp_ns, cpu, Activity::Idle(state));
            }
            EventKind::IdleExit { cpu } => {
                let Activity::Idle(state) = self.cpus[cpu.index()].0 else {
                    return Err("it did not idle".to_owned());
                };
                // The event comes once the CPU has woken up, which takes power and time.
                let states = self.machine.idle_states(cpu);
                let exit_ns = states.get(state as usize).map_or(0, |state| state.exit_latency_ns);
                let since_ns = self.cpus[cpu.index()].1;
                let own = states.get(state as usize);
                // Before the run, there was time enough to enter it.
                let entry_ns = own.filter(|_| since_ns > 0).map_or(0, |own| own.entry_latency_ns);
                if entry_ns > 0 && event.timestamp_ns == since_ns {
                    self.abort(cpu, own.is_some_and(|own| own.rejects_pending));
                    return Ok(());
                }
                if event.timestamp_ns < since_ns + entry_ns + exit_ns {
                    return Err(format!("asleep since {since_ns} ns, it woke in no time"));
                }
                if let Some(counts) = self.counts[cpu.index()].get_mut(state as usize) {
                    counts.count(states, state, event.timestamp_ns - since_ns);
                }
                self.change(event.timestamp_ns - exit_ns, cpu, Activity::Waking(state));
                self.change(event.timestamp_ns, cpu, Activity::Busy);
            }
            EventKind::Frequency { cpu, frequency_khz } => {
                self.changes.push((event.timestamp_ns, cpu, Change::Khz(frequency_khz)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The entry that was begun last came to nothing.
    fn abort(&mut self, cpu: CpuId, rejected: bool) {
        let (activity, now_ns) = self.cpus[cpu.index()];
        let begun = self.changes.iter().rposition(|&(_, own, _)| own == cpu);
        begun.map(|begun| self.changes.remove(begun));
        self.cpus[cpu.index()] = (Activity::Busy, now_ns);
        if let Activity::Idle(state) = activity
            && !rejected
            && let Some(counts) = self.counts[cpu.index()].get_mut(state as usize)
        {
            counts.count(self.machine.idle_states(cpu), state, 0);
        }
    }

    fn change(&mut self, now_ns: u64, cpu: CpuId, activity: Activity) {
        let (before, since_ns) = std::mem::replace(&mut self.cpus[cpu.index()], (activity, now_ns));
        if matches!(before, Activity::Idle(_)) {
            self.idle_ns[cpu.index()] += now_ns.min(self.end_ns).saturating_sub(since_ns);
        }
        self.changes.push((now_ns, cpu, Change::Activity(activity)));
    }

    fn verify(mut self, outcome: &Outcome<Vec<Event>>) -> Result<(), String> {
        for cpu in self.machine.cpu_ids() {
            let (activity, since_ns) = self.cpus[cpu.index()];
            let mut idle_ns = self.idle_ns[cpu.index()];
            if matches!(activity, Activity::Idle(_)) {
                idle_ns += outcome.end_ns.saturating_sub(since_ns);
            }
            let told_ns: u64 = outcome.cpus[cpu.index()].idle_ns.iter().sum();
            if idle_ns != told_ns {
                return Err(format!(
                    "CPU {} idled for {idle_ns} ns by its events, {told_ns} ns by its sums",
                    cpu.0
                ));
            }
        }
        for (cpu, (own, told)) in self.counts.iter().zip(&outcome.cpus).enumerate() {
            let rejected = told.idle_counts.iter().map(|counts| counts.rejected);
            let own = own.iter().zip(rejected);
            let own = own.map(|(own, rejected)| IdleCounts { rejected, ..*own });
            if !own.eq(told.idle_counts.iter().copied()) {
                return Err(format!("CPU {cpu} counts other sleeps than it had by its events"));
            }
        }
        for domain in &outcome.frequencies {
            let told_ns: u64 = domain.points.iter().map(|(_, time_ns)| time_ns).sum();
            if told_ns != outcome.end_ns {
                let cpus = domain.cpus;
                return Err(format!("the frequencies of CPUs {cpus} make {told_ns} ns"));
            }
        }
        for (number, package) in outcome.packages.iter().enumerate() {
            let told_ns = package.active_ns + package.idle_ns.iter().sum::<u64>();
            if told_ns != outcome.end_ns {
                return Err(format!("the times of package {number} make {told_ns} ns"));
            }
        }
        if let Some(task) = outcome.tasks.iter().find(|task| task.user_ns > outcome.end_ns) {
            let (comm, user_ns) = (&task.comm, task.user_ns);
            return Err(format!("{comm} computed for {user_ns} ns of {} ns", outcome.end_ns));
        }
        let user_ns: u64 = outcome.tasks.iter().map(|task| task.user_ns).sum();
        let busy_ns: u64 = outcome.cpus.iter().map(|cpu| cpu.busy_ns).sum();
        if user_ns > busy_ns {
            return Err(format!("tasks computed for {user_ns} ns on CPUs busy for {busy_ns} ns"));
        }
        self.changes.sort_by_key(|&(time_ns, ..)| time_ns);
        self.verify_groups(outcome)?;
        let told_j = outcome.energy.total_j() - outcome.energy.machine_j - outcome.energy.groups_j;
        let energy_j = self.integral_j(outcome);
        if (told_j - energy_j).abs() > 1e-9 * energy_j.max(1.0) {
            return Err(format!("energy is {told_j} J, but the integral of power {energy_j} J"));
        }
        Ok(())
    }

    /// What CPUs share sleeps only while each of them has promised to, and always but for the time
    /// that it takes to wake.
    fn verify_groups(&self, outcome: &Outcome<Vec<Event>>) -> Result<(), String> {
        let machine = self.machine;
        let states = machine.group_states().iter();
        let parts = states.flat_map(|state| state.groups.iter().map(move |cpus| (state, cpus)));
        for ((state, cpus), told) in parts.zip(&outcome.groups) {
            let least = |cpu| machine.promise_of(cpu, state).unwrap_or(u32::MAX);
            let start =
                |cpu: &CpuId| !promises(Activity::Idle(deepest(machine, *cpu)), least(*cpu));
            let mut awake: CpuSet = cpus.iter().filter(start).collect();
            let (mut all_ns, mut times, mut since_ns) = (0, 1, 0);
            for &(time_ns, cpu, change) in &self.changes {
                let Change::Activity(activity) = change else { continue };
                if !cpus.contains(cpu) || time_ns > outcome.end_ns {
                    continue;
                }
                let before = awake.is_empty();
                match promises(activity, least(cpu)) {
                    true => awake.remove(cpu),
                    false => awake.insert(cpu),
                };
                if before {
                    all_ns += time_ns - since_ns;
                }
                times += u64::from(!before && awake.is_empty());
                since_ns = time_ns;
            }
            if awake.is_empty() {
                all_ns += outcome.end_ns - since_ns;
            }
            let waking_ns: u64 =
                machine.group_states().iter().map(|state| state.exit_latency_ns).sum();
            let entry_ns = machine.cpu_ids().flat_map(|cpu| machine.idle_states(cpu));
            let entry_ns = entry_ns.map(|state| state.entry_latency_ns).max().unwrap_or(0);
            let least_ns = all_ns.saturating_sub(times * (waking_ns + entry_ns));
            if !(least_ns..=all_ns).contains(&told.asleep_ns) {
                return Err(format!(
                    "{} of CPUs {cpus} slept for {} ns, its CPUs allowed {all_ns} ns",
                    state.name, told.asleep_ns
                ));
            }
        }
        Ok(())
    }

    /// The integral of the power of all cores and packages, with what transitions take.
    fn integral_j(&self, outcome: &Outcome<Vec<Event>>) -> f64 {
        let (machine, end_ns) = (self.machine, outcome.end_ns);
        let mut khz = vec![0; machine.cpu_count()];
        for domain in &outcome.frequencies {
            domain.cpus.iter().for_each(|cpu| khz[cpu.index()] = domain.first_khz);
        }
        let mut now: Vec<Activity> =
            machine.cpu_ids().map(|cpu| Activity::Idle(deepest(machine, cpu))).collect();
        let (mut energy_fj, mut since_ns) = (0_u128, 0);
        for &(time_ns, cpu, change) in &self.changes {
            if time_ns > end_ns {
                break;
            }
            energy_fj += u128::from(self.power_uw(&now, &khz)) * u128::from(time_ns - since_ns);
            since_ns = time_ns;
            let activity = match change {
                Change::Activity(activity) => activity,
                Change::Khz(new_khz) => {
                    khz[cpu.index()] = new_khz;
                    continue;
                }
            };
            if let Activity::Idle(state) = activity
                && now[cpu.index()] != activity
                && let Some(state) = machine.idle_states(cpu).get(state as usize)
            {
                energy_fj += u128::from(state.transition_energy_nj) * 1_000_000;
            }
            now[cpu.index()] = activity;
        }
        energy_fj += u128::from(self.power_uw(&now, &khz)) * u128::from(end_ns - since_ns);
        energy_fj as f64 / 1e15
    }

    /// The power of all cores and packages, by looking at each.
    fn power_uw(&self, now: &[Activity], khz: &[u32]) -> u64 {
        let machine = self.machine;
        // Of the CPUs: how many are busy, how many wake, and the shallowest state of the others.
        let census = |cpus: &schedlab_machine::CpuSet| {
            cpus.iter().fold((0, 0, u32::MAX), |(busy, waking, least), cpu| {
                match now[cpu.index()] {
                    Activity::Busy => (busy + 1, waking, least),
                    Activity::Waking(state) => (busy, waking + 1, least.min(state)),
                    Activity::Idle(state) => (busy, waking, least.min(state)),
                }
            })
        };
        let core_uw = |core: &schedlab_machine::CpuSet| {
            let Some(cpu) = core.first() else { return 0 };
            let busy_uw = machine.busy_power_uw(cpu, khz[cpu.index()]);
            match census(core) {
                (0, _, least) => machine.cpu_type(cpu).idle_power_at_uw(least as usize, busy_uw),
                (busy, ..) => busy_uw * u64::from(machine.smt().power_permille(busy)) / 1000,
            }
        };
        let package_uw = |package: &schedlab_machine::CpuSet| {
            let Some(cpu) = package.first() else { return 0 };
            match census(package) {
                (0, 0, least) => machine.package_idle_power_uw(cpu, least as usize),
                _ => machine.uncore_power().package_active_uw,
            }
        };
        let topology = machine.topology();
        topology.cores().groups().iter().map(core_uw).sum::<u64>()
            + topology.packages().groups().iter().map(package_uw).sum::<u64>()
    }
}

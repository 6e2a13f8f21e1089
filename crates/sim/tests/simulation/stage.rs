//! Scenarios of a few tasks, and who ran when.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::{CPUS_MAX, CpuId, CpuSet, Machine};
use schedlab_sim::{Engine, Settings, run_watched};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::build::{Builder, Code};
use schedlab_workload::program::Policy;

pub const MS: u64 = 1_000_000;

/// Kernel paths of a scenario take less than this, ns.
pub const PATHS_NS: u64 = 100_000;

/// A task: name, policy, the CPUs that it may use, what it does.
pub struct Actor<'a> {
    pub comm: &'a str,
    pub policy: Policy,
    pub cpus: &'a [u32],
    pub write: &'a dyn Fn(&mut Code),
    /// Utilisation clamps, if it asks for any.
    pub clamps: Option<(u16, u16)>,
    /// Sets of CPUs to which it changes.
    pub others: &'a [&'a [u32]],
}

/// A task that is created on the first of its CPUs.
pub fn at<'a>(
    comm: &'a str,
    policy: Policy,
    cpus: &'a [u32],
    write: &'a dyn Fn(&mut Code),
) -> Actor<'a> {
    Actor { comm, policy, cpus, write, clamps: None, others: &[] }
}

/// Deadline tasks may use every CPU.
fn unbound(policy: Policy) -> bool {
    matches!(policy, Policy::Deadline { .. })
}

/// Who ran when on which CPU: name, CPU, from and to, ns.
pub type Stints = Vec<(String, u32, u64, u64)>;

/// Runs on four CPUs until every task has ended, with every check on.
pub fn play(kernel: &Kernel, actors: &[Actor<'_>]) -> Stints {
    play_on(&Machine::preset("qemu4").expect("a preset"), kernel, actors)
}

/// The same on another machine.
pub fn play_on(machine: &Machine, kernel: &Kernel, actors: &[Actor<'_>]) -> Stints {
    let mut build = Builder::new("scenario");
    for actor in actors {
        let program = build.program(actor.comm, |code| (actor.write)(code));
        let attributes = build.attributes(program);
        attributes.policy = actor.policy;
        attributes.clamps = actor.clamps;
        let set = |cpus: &[u32]| cpus.iter().map(|&cpu| CpuId(cpu)).collect::<CpuSet>();
        attributes.affinity = (!unbound(actor.policy)).then(|| set(actor.cpus));
        attributes.other_affinities = actor.others.iter().map(|cpus| set(cpus)).collect();
        build.spawn(program, actor.cpus[0], 0);
    }
    let workload = build.finish().expect("a valid workload");
    let settings = Settings::new(kernel, machine, 10_000 * MS, 1);
    let domains = build_domains(machine, kernel.domains);
    let engine = Engine::new(machine, domains, &workload, &settings, Vec::new());
    let mut outcome = run_watched(machine, engine, settings.duration_ns, 1).expect("no defect");
    let events = std::mem::take(&mut outcome.observer);
    stints(&events, |comm| outcome.strings.get(comm).to_owned())
}

fn stints(events: &[Event], name: impl Fn(schedlab_trace::StrId) -> String) -> Stints {
    let mut since_ns = [0; CPUS_MAX];
    let mut stints = Vec::new();
    for event in events {
        if let EventKind::Switch { prev, .. } = event.kind {
            let since_ns = std::mem::replace(&mut since_ns[event.cpu.index()], event.timestamp_ns);
            if prev.pid.0 != 0 {
                stints.push((name(prev.comm), event.cpu.0, since_ns, event.timestamp_ns));
            }
        }
    }
    stints.sort_by_key(|stint| stint.2);
    stints
}

/// The stints of one CPU that are longer than kernel paths: name, and when it began, in ms.
pub fn course(stints: &Stints, cpu: u32) -> Vec<(&str, u64)> {
    let long = stints.iter().filter(|(_, on, from, to)| *on == cpu && to - from > PATHS_NS);
    long.map(|(comm, _, from_ns, _)| (comm.as_str(), (from_ns + MS / 2) / MS)).collect()
}

/// How long tasks of this name had a CPU within a span of time, ms.
pub fn share(stints: &Stints, comm: &str, from_ms: u64, to_ms: u64) -> u64 {
    let of = stints.iter().filter(|stint| stint.0 == comm);
    let ns: u64 =
        of.map(|stint| stint.3.min(to_ms * MS).saturating_sub(stint.2.max(from_ms * MS))).sum();
    (ns + MS / 2) / MS
}

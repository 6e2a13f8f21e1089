//! Settings and small workloads that the tests share.

use schedlab_kernel::cpuidle::LATENCY_UNLIMITED_NS;
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance, SlowPathRules};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Engine, Observer, Outcome, Settings};
use schedlab_workload::program::{
    Amount, Attributes, ObjectId, ObjectKind, Op, Program, ProgramId, Spawn, Which, Workload,
};

/// v5.9 with the given placement rules, on 128 CPUs.
pub fn settings(idlest_tie: IdlestTie, numa_allowance: NumaAllowance) -> Settings {
    let mut kernel = kernel();
    kernel.placement = SlowPathRules { idlest_tie, numa_allowance };
    Settings {
        sched: kernel.config(128),
        governor: kernel.governor,
        governor_parameters: kernel.governor_parameters,
        cpu_latency_ns: LATENCY_UNLIMITED_NS,
        cpufreq: kernel.cpufreq,
        duration_ns: 1_000_000_000,
        seed: 1,
        shuffle_ties: false,
        explain: false,
        interrupts: false,
        kernel_lines: schedlab_sim::KernelLines::Off,
    }
}

fn kernel() -> Kernel {
    Kernel::preset("v5.9").expect("a preset")
}

/// Runs a workload on a preset machine.
pub fn run<O: Observer>(
    machine: &str,
    workload: &Workload,
    settings: &Settings,
    observer: O,
) -> Outcome<O> {
    run_on(&Machine::preset(machine).expect("a preset"), workload, settings, observer)
}

/// Runs a workload on any machine, and checks now and then what must hold between two events.
pub fn run_on<O: Observer>(
    machine: &Machine,
    workload: &Workload,
    settings: &Settings,
    observer: O,
) -> Outcome<O> {
    let domains = build_domains(machine, kernel().domains);
    let mut engine = Engine::new(machine, domains, workload, settings, observer);
    loop {
        let ending = engine.advance(settings.duration_ns, 997);
        engine.verify().unwrap_or_else(|what| panic!("at {} ns: {what}", engine.now_ns()));
        if let Some(ending) = ending {
            return engine.finish(ending, settings.duration_ns);
        }
    }
}

/// A main task on CPU 0 creates `threads` threads in a loop; each runs for 5 us and then waits
/// for the others.
pub fn fork_storm(threads: u32) -> Workload {
    let gate = Which::One(ObjectId(0));
    let program =
        |comm: &str, ops| Program { comm: comm.to_owned(), ops, attributes: Attributes::default() };
    let main = vec![
        Op::Run(Amount::Fixed(50_000)),
        Op::Fork { program: ProgramId(1), count: threads, thread: true },
        Op::Barrier(gate),
        Op::Join,
    ];
    let worker =
        vec![Op::Run(Amount::Fixed(5_000)), Op::Barrier(gate), Op::Run(Amount::Fixed(10_000_000))];
    Workload {
        name: "fork storm".to_owned(),
        objects: vec![ObjectKind::Barrier(threads + 1)],
        programs: vec![program("main", main), program("worker", worker)],
        spawns: vec![Spawn { program: ProgramId(0), birth_cpu: 0, start_ns: 0, asleep: false }],
        interrupts: Vec::new(),
        metrics: Vec::new(),
    }
}

//! Two scenarios by which scheduler simulators are compared: wall time for periodic tasks on 8 and
//! on 384 CPUs.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Engine, Nothing, Observer, Settings};
use schedlab_trace::Event;
use schedlab_workload::program::*;

fn periodic(tasks: u32, cpus: u32, work_ns: u64, period_ns: u64) -> Workload {
    Workload {
        name: "periodic".into(),
        objects: vec![],
        programs: vec![Program {
            comm: "periodic".into(),
            ops: vec![
                Op::Run(Amount::Fixed(work_ns)),
                Op::Timer { slot: Slot(0), period_ns },
                Op::Count { metric: MetricId(0), amount: 1 },
                Op::Jump { to: 0 },
            ],
            attributes: Attributes::default(),
        }],
        spawns: (0..tasks)
            .map(|t| Spawn {
                program: ProgramId(0),
                birth_cpu: t % cpus,
                start_ns: u64::from(t) * 1000,
            })
            .collect(),
        metrics: vec![Metric {
            name: "periods".into(),
            unit: "1/s".into(),
            better: Better::Higher,
            kind: MetricKind::Rate,
            samples_of: None,
        }],
    }
}

fn run<O: Observer>(machine: &Machine, workload: &Workload, seconds: u64, observer: O) {
    let kernel = Kernel::preset("v6.12").expect("a preset");
    let settings = Settings {
        sched: kernel.config(machine.cpu_count()),
        governor: kernel.governor,
        duration_ns: seconds * 1_000_000_000,
        seed: 1,
        shuffle_ties: false,
        explain: false,
    };
    let start = std::time::Instant::now();
    let domains = build_domains(machine, kernel.domains);
    let engine = Engine::new(machine, domains, workload, &settings, observer);
    let outcome = engine.run(settings.duration_ns);
    let wall = start.elapsed().as_secs_f64();
    println!(
        "{} CPUs: {:.3} s, {} events, {:.1} M events/s, {:?}, {:?}, digest {:x}, busy {:.2} CPUs, {:.1} J",
        machine.cpu_count(),
        wall,
        outcome.events,
        outcome.events as f64 / wall / 1e6,
        outcome.ending,
        outcome.figures[0].value,
        outcome.digest,
        outcome.cpus.iter().map(|c| c.busy_ns).sum::<u64>() as f64 / outcome.end_ns as f64,
        outcome.energy.total_j(),
    );
}

fn main() {
    let generic = Machine::preset("generic").expect("a preset");
    run(&generic, &periodic(32, 8, 2_000_000, 10_000_000), 100, Nothing);
    run(&generic, &periodic(32, 8, 2_000_000, 10_000_000), 100, Vec::<Event>::new());
    let big = Machine::preset("gnr-2s-snc3").expect("a preset");
    run(&big, &periodic(768, 480, 2_000_000, 10_000_000), 5, Nothing);
}

//! Two scenarios by which scheduler simulators are compared: wall time for periodic tasks on 8 and
//! on 384 CPUs.

use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Engine, Nothing, Observer, Settings};
use schedlab_trace::Event;
use schedlab_workload::program::*;
use std::path::Path;

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

/// A preset machine with some lines changed.
fn machine(preset: &str, changes: &[(&str, &str)]) -> Machine {
    let mut text = Machine::preset_text(preset).expect("a preset").to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{preset} has no {from}");
        text = text.replace(from, to);
    }
    Machine::parse(&text, Path::new(preset)).unwrap_or_else(|error| panic!("{error}"))
}

fn main() {
    let small = machine(
        "generic",
        &[
            ("cores_per_llc = 4", "cores_per_llc = 8"),
            ("threads_per_core = 2", "threads_per_core = 1"),
            ("throughput = [1.0, 1.25]", "throughput = [1.0]"),
            ("power = [1.0, 1.15]", "power = [1.0]"),
        ],
    );
    let which = std::env::args().nth(1).unwrap_or_default();
    if which != "big" {
        run(&small, &periodic(32, 8, 2_000_000, 10_000_000), 100, Nothing);
        run(&small, &periodic(32, 8, 2_000_000, 10_000_000), 100, Vec::<Event>::new());
    }
    if which == "small" {
        return;
    }
    let big = machine("gnr-2s-snc3", &[("cores_per_llc = 40", "cores_per_llc = 32")]);
    run(&big, &periodic(768, 384, 2_000_000, 10_000_000), 5, Nothing);
}

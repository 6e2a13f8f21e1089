//! The models load with the tools' defaults, and bad options and workloads are refused.

use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_workload::build::Builder;
use schedlab_workload::models::{Model, hackbench, schbench, sysbench};
use schedlab_workload::program::{
    Amount, MetricId, ObjectId, ObjectKind, Op, Slot, Which, Workload,
};
use schedlab_workload::{load, preset_names, preset_text};
use std::path::Path;

fn toml_error(text: &str) -> String {
    let error = Workload::from_toml(text, Path::new("w.toml"), 8).expect_err("must be refused");
    error.to_string()
}

#[test]
fn every_built_in_workload_loads_on_small_and_big_machines() {
    for name in preset_names() {
        for cpus in [1, 8, 480] {
            let workload = load(name, cpus).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(workload.name, name);
            assert!(!workload.metrics.is_empty(), "{name}");
        }
        assert!(preset_text(name).is_some());
    }
}

#[test]
fn hackbench_has_its_tasks_and_capacities() {
    let options = hackbench::Options::default();
    assert_eq!(options.messages(), 10 * 20 * 20 * 100);
    let workload = options.workload("h", 8).expect("valid");
    // Main, and receivers and senders of 10 groups.
    assert_eq!(workload.programs.len(), 21);
    assert!(workload.objects.contains(&ObjectKind::Barrier(401)));
    // 277 messages of 100 bytes fit into a socket.
    let socket = ObjectKind::Channel { capacity_bytes: 27_700, sync_wakeup: true };
    assert_eq!(workload.objects.iter().filter(|object| **object == socket).count(), 200);
}

#[test]
fn schbench_computes_as_many_products_as_the_tool() {
    let workload = schbench::Options::default().workload("s", 8).expect("valid");
    let work = workload.programs.iter().flat_map(|program| &program.ops).find_map(|op| match op {
        Op::Run(Amount::Fixed(ns)) => Some(*ns),
        _ => None,
    });
    // 5 products of 104 x 104.
    assert_eq!(work, Some(5 * 104 * 104 * 104 * 1_067 / 1000));
}

#[test]
fn sysbench_cpu_scales_with_the_divisions() {
    let work = |cpu_max_prime| {
        let options = sysbench::Options { cpu_max_prime, ..sysbench::Options::default() };
        let workload = options.workload("s", 8).expect("valid");
        workload.programs[0].ops.iter().find_map(|op| match op {
            Op::Run(Amount::Fixed(ns)) => Some(*ns),
            _ => None,
        })
    };
    assert_eq!(work(10_000), Some(297_000));
    let twice = work(20_000).expect("computes");
    assert!((700_000..800_000).contains(&twice), "{twice}");
}

#[test]
fn bad_files_are_refused_with_line_and_mend() {
    let cases = [
        ("model = 'hackbnch'", "w.toml:1: unknown model hackbnch; there are sysbench,"),
        ("model = 'ebizzy'\nmodle = 1", "w.toml:2: unknown field `modle`"),
        ("model = 'ebizzy'\n[options]\n\nthreads = 'x'", "w.toml:4: invalid type"),
        ("model = 'ebizzy'\n[options]\nthreads = 0", "w.toml:3: threads = 0 is not in 1 to"),
        (
            "model = 'periodic'\n[options]\ntasks = 1000000",
            "w.toml:3: tasks = 1000000 is not in 1 to",
        ),
        (
            "model = 'periodic'\n[options]\npolicy = 'fifo'\npriority = 100",
            "w.toml:4: priority = 100 is not in 1 to 99",
        ),
        ("model = 'periodic'\n[options]\npolicy = 'fofi'", "w.toml:3: unknown variant `fofi`"),
        (
            "model = 'periodic'\n[options]\nnice = 30",
            "w.toml:1: program periodic: nice 30 is not in",
        ),
        (
            "model = 'sysbench'\n[options]\ntest = 'memory'\nmemory_access_mode = 'rnd'\n\
             memory_block_size = 2048",
            "w.toml:1: block 1: sysbench's special distribution is modelled for blocks of 1024 bytes only",
        ),
        ("model = 'sysbench'\n[options]\ntest = 'fileio'", "w.toml:3: unknown variant `fileio`"),
        ("model = 'hackbench'\n[options]\nfds = 0", "w.toml:3: fds = 0 is not in 1 to 1000"),
        ("model = ", "w.toml:1: "),
    ];
    for (text, message) in cases {
        assert!(toml_error(text).starts_with(message), "{}", toml_error(text));
    }
    let unknown = load("no-such", 8).expect_err("unknown").to_string();
    assert!(unknown.starts_with("no-such: neither a file nor a built-in workload; built in are"));
}

/// What is said of a workload with one task of these operations.
fn refusal(objects: &[ObjectKind], ops: &[Op]) -> String {
    let mut build = Builder::new("w");
    for &object in objects {
        build.object(object);
    }
    let program = build.program("p", |code| {
        for &op in ops {
            code.op(op);
        }
    });
    build.spawn(program, 0, 0);
    build.finish().expect_err("must be refused").to_string()
}

#[test]
fn operations_that_cannot_be_are_refused() {
    let one = |id| Which::One(ObjectId(id));
    let random = Which::Random { first: ObjectId(0), count: 1 };
    let cases = [
        (refusal(&[], &[Op::Lock(one(0))]), "(Lock): object 0 does not exist; there are 0"),
        (refusal(&[ObjectKind::Flag], &[Op::Lock(one(0))]), "object 0 is Flag; it must be a mutex"),
        (refusal(&[ObjectKind::Mutex], &[Op::Lock(random)]), "Pick one first"),
        (refusal(&[], &[Op::Mark(Slot(16))]), "slot 16 does not exist; a task has 16"),
        (refusal(&[], &[Op::Count { metric: MetricId(0), amount: 1 }]), "metric 0 does not exist"),
        (refusal(&[], &[Op::Jump { to: 0 }]), "operation 0 (Jump): the loop never lets time pass"),
        (refusal(&[ObjectKind::Barrier(0)], &[]), "w: barrier 0 is for no task"),
        (
            refusal(&[ObjectKind::Barrier(2)], &[Op::Barrier(one(0))]),
            "w: barrier 0 waits for 2 tasks, but only 1 ever come",
        ),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message}");
    }
    let none = Builder::new("w").finish().expect_err("no task").to_string();
    assert_eq!(none, "w: no task exists from the start; spawn one");
}

#[test]
fn tasks_must_be_allowed_on_some_cpu_of_the_machine() {
    let mut build = Builder::new("w");
    let program = build.program("p", |code| {
        code.run(1);
    });
    build.attributes(program).affinity = Some(CpuSet::of(CpuId(9)));
    build.spawn(program, 0, 0);
    let workload = build.finish().expect("valid as such");
    let machine = |name| Machine::preset(name).expect("a preset");
    assert!(workload.validate_on(&machine("nehalem-ep-2s")).is_ok());
    let error = workload.validate_on(&machine("generic")).expect_err("not allowed").to_string();
    assert!(error.starts_with("w: program p is allowed on no CPU of this machine, which has 8"));
}

//! Tasks that go through memory as a rate: as fast as the same stores one by one, and within
//! bandwidths computed by hand.

use crate::support::{run_on, settings};
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_sim::{Nothing, Outcome, Settings};
use schedlab_workload::build::Builder;
use schedlab_workload::models::{Model, sysbench};
use schedlab_workload::program::{
    Access, Better, Block, MetricKind, ObjectId, ObjectKind, Op, Pattern, Which, Workload,
};
use std::path::Path;

const MACHINE: &str = "kunpeng920-2s";
const LINE_WORDS: u64 = 8;
const L1_HIT_PS: u64 = 1_500;

/// A Kunpeng where a hand-over of a line serves as many stores as the line has words.
fn machine() -> Machine {
    let text = Machine::preset(MACHINE).expect("a preset").to_toml();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some((key @ "stores_per_transfer", _)) => format!("{key} = {LINE_WORDS}"),
        _ => line.to_owned(),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    Machine::parse(&text, Path::new("m.toml")).expect("a machine")
}

fn simulate(workload: &Workload, duration_ns: u64) -> Outcome<Nothing> {
    let settings = settings(IdlestTie::First, NumaAllowance::LocalIdle);
    run_on(&machine(), workload, &Settings { duration_ns, ..settings }, Nothing)
}

fn value(outcome: &Outcome<Nothing>) -> f64 {
    outcome.figures[0].value.expect("something was counted")
}

/// Tasks on `cpus`, each bound to its own, that go through a block for ever; MB/s in all.
fn stream(block: Block, cpus: &[u32], home: u32) -> f64 {
    let mut build = Builder::new("stream");
    let object = Which::One(build.object(ObjectKind::Block(block)));
    let bytes = build.metric("bytes", "B/s", Better::Higher, MetricKind::Rate);
    let owner = build.program("owner", |code| {
        code.op(Op::Touch { line: object, access: Access::Write, count: 1 });
    });
    build.attributes(owner).affinity = Some(CpuSet::of(CpuId(home)));
    build.spawn(owner, home, 0);
    for &cpu in cpus {
        let program = build.program("stream", |code| {
            let amount = block.bytes;
            code.op(Op::Stream { block: object, passes: 1 << 40, metric: bytes, amount });
        });
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(cpu)));
        build.spawn(program, cpu, 1_000_000);
    }
    value(&simulate(&build.finish().expect("valid"), 101_000_000)) / 1e6
}

/// The same for stores into a shared block, all that one hand-over serves an event; MB/s in all.
fn store_one_by_one(block: Block, cpus: &[u32]) -> f64 {
    let mut build = Builder::new("stores");
    let lines = (block.bytes / 64) as u32;
    let first = build.objects(ObjectKind::Line, lines);
    let bytes = build.metric("bytes", "B/s", Better::Higher, MetricKind::Rate);
    let between_ns = (block.pass_ps / u64::from(lines) - LINE_WORDS * L1_HIT_PS) / 1000;
    for (index, &cpu) in cpus.iter().enumerate() {
        let program = build.program("stores", |code| {
            let slot = code.slot();
            code.forever(|pass| {
                for line in 0..lines {
                    // Everyone begins a sequential pass at another line, as threads do that have
                    // run for a while.
                    let which = match block.pattern {
                        Pattern::Sequential => {
                            Which::One(ObjectId(first.0 + (line + index as u32) % lines))
                        }
                        _ => Which::Random { first, count: lines },
                    };
                    let (access, count) = (Access::Write, LINE_WORDS as u32);
                    pass.op(Op::Pick { slot, which })
                        .run(between_ns)
                        .op(Op::Touch { line: Which::Picked(slot), access, count })
                        .op(Op::Count { metric: bytes, amount: 64 });
                }
            });
        });
        build.attributes(program).affinity = Some(CpuSet::of(CpuId(cpu)));
        build.spawn(program, cpu, 1_000_000);
    }
    value(&simulate(&build.finish().expect("valid"), 6_000_000)) / 1e6
}

#[test]
fn a_shared_block_is_as_fast_as_its_stores_one_by_one() {
    // A hand-over serves eight stores in either order. 100 ns of computation per
    // line leave room to few threads, and to many none.
    for pattern in [Pattern::Sequential, Pattern::Uniform] {
        let block =
            Block { bytes: 1024, private: false, writes: true, pattern, pass_ps: 1_600_000 };
        for (threads, tolerance) in
            [(1, 0.001), (2, 0.01), (4, 0.02), (8, 0.05), (16, 0.1), (32, 0.2)]
        {
            let cpus: Vec<u32> = (0..threads).collect();
            let (rate, events) = (stream(block, &cpus, 0), store_one_by_one(block, &cpus));
            let off = rate / events - 1.0;
            assert!(off.abs() < tolerance, "{pattern:?} {threads}: {rate} against {events}");
        }
    }
}

#[test]
fn a_shared_block_on_two_dies_is_slower() {
    let block = Block {
        bytes: 1024,
        private: false,
        writes: true,
        pattern: Pattern::Special,
        pass_ps: 128 * 6_000,
    };
    let one_die: Vec<u32> = (0..32).collect();
    let two_dies: Vec<u32> = (16..48).collect();
    let two_sockets: Vec<u32> = (48..80).collect();
    let [one, two, far] = [one_die, two_dies, two_sockets].map(|cpus| stream(block, &cpus, 0));
    assert!(one > 1.3 * two && two > 1.5 * far, "{one} {two} {far}");
    // Alone a thread is as fast as its draws: 8 bytes in 6 ns.
    let alone = stream(block, &[5], 0);
    assert!((alone - 1333.3).abs() < 2.0, "{alone}");
}

fn sequential(bytes: u64, private: bool, writes: bool) -> Block {
    // 8 bytes in 0.385 ns are 20.8 GB/s, of which stores move twice as much.
    Block { bytes, private, writes, pattern: Pattern::Sequential, pass_ps: bytes / 8 * 385 }
}

#[test]
fn bandwidths_are_those_computed_by_hand() {
    const MIB: u64 = 1 << 20;
    let first = |cpus: u32| (0..cpus).collect::<Vec<u32>>();
    let cases = [
        // Own caches: two threads at full speed.
        ("own caches", sequential(MIB / 4, true, true), first(2), 0, 2.0 * 20_779.0),
        // The last-level cache: 20 GB/s, half of them stores.
        ("last-level cache", sequential(4 * MIB, true, true), first(1), 0, 10_000.0),
        // Memory: 12 GB/s for a core, 93.8 GB/s for a node.
        ("a core", sequential(64 * MIB, true, true), first(1), 0, 6_000.0),
        ("four cores", sequential(64 * MIB, true, true), first(4), 0, 24_000.0),
        ("a node", sequential(64 * MIB, true, true), first(32), 0, 46_900.0),
        ("loads", sequential(64 * MIB, true, false), first(1), 0, 12_000.0),
        // Node 2 is at distance 20 of 24: 100 ns and 10/14 of another 100 ns.
        ("far", sequential(64 * MIB, true, false), vec![64], 0, 12_000.0 / (1.0 + 10.0 / 14.0)),
        // Their link carries 50 GB/s.
        ("a link", sequential(64 * MIB, true, false), (64..96).collect(), 0, 50_000.0),
        // Sixteen over the link leave 43.8 GB/s to those at home.
        ("both", sequential(64 * MIB, true, false), (16..32).chain(64..80).collect(), 0, 93_800.0),
        // A shared block of loads is small for all.
        ("shared loads", sequential(MIB / 4, false, false), first(32), 0, 32.0 * 20_779.0),
    ];
    for (name, block, cpus, home, expected) in cases {
        let simulated = stream(block, &cpus, home);
        assert!((simulated / expected - 1.0).abs() < 0.005, "{name}: {simulated}, not {expected}");
    }
}

#[test]
fn sysbench_memory_ends_with_its_time_or_its_work() {
    let options = sysbench::Options {
        test: sysbench::Test::Memory,
        threads: 4,
        time: 1,
        memory_access_mode: sysbench::AccessMode::Rnd,
        ..sysbench::Options::default()
    };
    let figures = |options: sysbench::Options| {
        let workload = options.workload("memory", 128).expect("valid");
        workload.validate_on(&machine()).expect("all is known");
        let outcome = simulate(&workload, 3_000_000_000);
        let [rate, mib, s] = [0, 1, 2].map(|at| outcome.figures[at].value.expect("counted"));
        assert!((rate * s / mib - 1.0).abs() < 0.01, "{rate} {mib} {s}");
        (mib, s)
    };
    let (_, s) = figures(options);
    assert!((1.0..1.001).contains(&s), "{s}");
    let (mib, s) = figures(sysbench::Options { memory_total_size: 64 << 20, ..options });
    assert_eq!(mib, 64.0);
    assert!(s < 0.5, "{s}");
}

#[test]
fn what_a_machine_does_not_say_is_asked_for_by_name() {
    let text = Machine::preset(MACHINE).expect("a preset").to_toml();
    let text = text.lines().filter(|line| !line.starts_with("stores_per_transfer"));
    let text = text.collect::<Vec<_>>().join("\n");
    let machine = Machine::parse(&text, Path::new("m.toml")).expect("a machine");
    let workload = schedlab_workload::load("sysbench-memory", 128).expect("built in");
    let error = workload.validate_on(&machine).expect_err("refused").to_string();
    assert!(
        error.contains("depend on stores_per_transfer, which machine kunpeng920-2s"),
        "{error}"
    );
    assert!(error.contains("write memory.stores_per_transfer into its file"), "{error}");
}

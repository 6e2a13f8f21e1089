//! Random machines, kernels and workloads, each drawn from a seed that is the whole bug report.
//! `SCHEDLAB_SWARM` says how many (300 by default), `SCHEDLAB_SWARM_SEED` where they begin.

use crate::draw::{Dice, kernel, machine, try_seeds};
use schedlab_kernel::cpuidle::LATENCY_UNLIMITED_NS;
use schedlab_kernel::fair::build::build_domains;
use schedlab_machine::{CpuId, CpuSet};
use schedlab_sim::{Ending, Engine, Nothing, Settings, check, run_watched};
use schedlab_workload::build::{Builder, Code};
use schedlab_workload::program::{
    Access, Amount, Better, MetricId, MetricKind, ObjectId, ObjectKind, Op, Policy, ProgramId,
    Slot, Spawn, Which, Workload,
};

fn amount(dice: &mut Dice, scale_ns: u64) -> Amount {
    match dice.below(4) {
        0 => Amount::Fixed(dice.within(0, 2 * scale_ns)),
        1 => Amount::Uniform { low: scale_ns / 2, high: 2 * scale_ns },
        2 => Amount::Exponential { mean: scale_ns },
        _ => Amount::Normal { mean: scale_ns, deviation: scale_ns / 3 },
    }
}

/// One thing that never waits for another task.
fn alone(dice: &mut Dice, code: &mut Code, lines: ObjectId) {
    if dice.chance(5) {
        code.op(Op::SetAffinity { to: dice.below(SETS) as u32 });
    }
    let scale_ns = dice.pick(&[500, 20_000, 300_000, 3_000_000]);
    match dice.below(9) {
        0..=2 => _ = code.op(Op::Run(amount(dice, scale_ns))),
        3 => _ = code.op(Op::Hold(amount(dice, scale_ns.min(100_000)))),
        4 | 5 => _ = code.op(Op::Sleep(amount(dice, scale_ns))),
        6 => _ = code.op(Op::Yield),
        7 => _ = code.op(Op::Exec),
        _ => {
            let access = dice.pick(&[Access::Read, Access::Write, Access::Atomic]);
            let count = dice.within(1, 4) as u32;
            let line = Which::Random { first: lines, count: 4 };
            code.op(Op::Touch { line, access, count });
        }
    }
}

fn some_cpus(dice: &mut Dice, cpus: u32) -> CpuSet {
    (0..dice.within(1, 4)).map(|_| CpuId(dice.below(u64::from(cpus)) as u32)).collect()
}

/// What the tasks of a program are like; so many percent of programs are real-time ones.
fn attributes(
    dice: &mut Dice,
    build: &mut Builder,
    program: ProgramId,
    (cpus, real_time): (u32, u64),
) {
    let attributes = build.attributes(program);
    if dice.chance(30) {
        attributes.nice = dice.within(0, 39) as i32 - 20;
    }
    attributes.policy =
        dice.pick(&[Policy::Normal, Policy::Normal, Policy::Normal, Policy::Batch, Policy::Idle]);
    if dice.chance(real_time) {
        // Few priorities, so that equals meet.
        let priority = dice.pick(&[1, 2, 50, 99]);
        let policies = [Policy::Fifo(priority), Policy::RoundRobin(priority)];
        attributes.policy = dice.pick(&policies);
    }
    if dice.chance(20) {
        attributes.slice_ns = Some(dice.within(100_000, 10_000_000));
    }
    if dice.chance(30) {
        attributes.affinity = Some(some_cpus(dice, cpus));
    }
    attributes.other_affinities = (0..SETS).map(|_| some_cpus(dice, cpus)).collect();
}

/// Sets of CPUs to which each program's tasks may change.
const SETS: u64 = 3;

const COUNT: Op = Op::Count { metric: MetricId(0), amount: 1 };

/// Tasks that need one another, so made that they can always go on.
fn team(dice: &mut Dice, build: &mut Builder, (cpus, real_time): (u32, u64), lines: ObjectId) {
    let members = dice.within(1, 2 * u64::from(cpus).min(8)) as u32;
    let rounds = dice.within(1, 60);
    let mut programs = Vec::new();
    match dice.below(8) {
        0 => {
            let program = build.program("alone", |code| {
                code.repeat(rounds, |code| {
                    for _ in 0..dice.within(1, 4) {
                        alone(dice, code, lines);
                    }
                    code.op(COUNT);
                });
            });
            programs.extend(vec![program; members as usize]);
        }
        1 => {
            let mutexes = dice.within(1, 3) as u32;
            let first = build.objects(ObjectKind::Mutex, mutexes);
            let program = build.program("lock", |code| {
                let slot = code.slot();
                code.repeat(rounds, |code| {
                    code.op(Op::Pick { slot, which: Which::Random { first, count: mutexes } });
                    code.op(Op::Lock(Which::Picked(slot)));
                    alone(dice, code, lines);
                    code.op(Op::Unlock(Which::Picked(slot))).op(COUNT);
                    alone(dice, code, lines);
                });
            });
            programs.extend(vec![program; members as usize]);
        }
        2 => {
            let gate = Which::One(build.object(ObjectKind::Barrier(members)));
            let program = build.program("barrier", |code| {
                code.repeat(rounds, |code| {
                    alone(dice, code, lines);
                    code.op(Op::Barrier(gate)).op(COUNT);
                });
            });
            programs.extend(vec![program; members as usize]);
        }
        3 => {
            let capacity_bytes = dice.within(1, 4096);
            let sync_wakeup = dice.chance(50);
            let pipe = build.object(ObjectKind::Channel { capacity_bytes, sync_wakeup });
            let pipe = Which::One(pipe);
            let (bytes, parts) = (dice.within(1, 3000), dice.within(1, 3));
            let write = build.program("write", |code| {
                code.repeat(rounds, |code| {
                    code.op(Op::Write { channel: pipe, bytes: bytes * parts });
                    alone(dice, code, lines);
                });
            });
            let read = build.program("read", |code| {
                code.repeat(rounds * parts, |code| {
                    code.op(Op::Read { channel: pipe, bytes }).op(COUNT);
                    alone(dice, code, lines);
                });
            });
            programs.extend([write, read]);
        }
        4 => {
            let deep = build.program("leaf", |code| alone(dice, code, lines));
            let thread = dice.chance(50);
            let count = dice.within(1, 6) as u32;
            let parent = build.program("parent", |code| {
                code.repeat(rounds.min(8), |code| {
                    code.op(Op::Fork { program: deep, count, thread });
                    alone(dice, code, lines);
                    code.op(Op::Join).op(COUNT);
                });
            });
            programs.extend(vec![parent; members.min(4) as usize]);
            attributes(dice, build, deep, (cpus, real_time));
        }
        5 => {
            let count = dice.within(1, 3) as u32;
            let semaphore = Which::One(build.object(ObjectKind::Semaphore(count)));
            let program = build.program("semaphore", |code| {
                code.repeat(rounds, |code| {
                    code.op(Op::Down(semaphore));
                    alone(dice, code, lines);
                    code.op(Op::Up(semaphore)).op(COUNT);
                });
            });
            programs.extend(vec![program; members as usize]);
        }
        6 => {
            let flag = Which::One(build.object(ObjectKind::Flag));
            let spin = build.program("spin", |code| {
                alone(dice, code, lines);
                code.op(Op::SpinUntil(flag)).op(COUNT);
            });
            let set = build.program("set", |code| {
                alone(dice, code, lines);
                code.op(Op::SetFlag(flag));
            });
            programs.extend(vec![spin; members as usize]);
            programs.push(set);
        }
        _ => {
            let period_ns = dice.within(50_000, 5_000_000);
            let restarts = dice.chance(50);
            let work = amount(dice, period_ns / 4);
            let program = build.program("timer", |code| {
                let slot = code.slot();
                code.repeat(rounds, |code| {
                    code.op(Op::Run(work)).op(if restarts {
                        Op::RestartingTimer { slot, period_ns }
                    } else {
                        Op::Timer { slot, period_ns }
                    });
                    code.op(COUNT).op(Op::Measure { metric: MetricId(1), since: Slot(15) });
                });
            });
            programs.extend(vec![program; members as usize]);
        }
    }
    let mut known = Vec::new();
    let crowd = dice.chance(20);
    for &program in &programs {
        if !known.contains(&program) {
            attributes(dice, build, program, (cpus, real_time));
            known.push(program);
        }
        let birth_cpu = if crowd { 0 } else { dice.below(u64::from(cpus)) as u32 };
        let start_ns = if dice.chance(50) { 0 } else { dice.below(10_000_000) };
        build.spawn(program, birth_cpu, start_ns);
    }
}

fn workload(dice: &mut Dice, cpus: u32) -> Workload {
    let mut build = Builder::new("swarm");
    build.metric("count", "1", Better::Higher, MetricKind::Total);
    build.metric("time", "us", Better::Lower, MetricKind::Mean);
    let lines = build.objects(ObjectKind::Line, 4);
    let real_time = dice.pick(&[0, 30, 100]);
    for _ in 0..dice.within(1, 4) {
        team(dice, &mut build, (cpus, real_time), lines);
    }
    let mut workload = build.finish().unwrap_or_else(|error| panic!("{error}"));
    if dice.chance(40) {
        deadlines(dice, &mut workload, cpus);
    }
    workload
}

/// Has some of the programs consist of deadline tasks, which never create tasks nor change their
/// CPUs. All together they reserve less than half of what there is, and none computes for long.
fn deadlines(dice: &mut Dice, workload: &mut Workload, cpus: u32) {
    for (index, program) in workload.programs.iter_mut().enumerate() {
        let mut ops = program.ops.iter();
        if ops.any(|op| matches!(op, Op::Fork { .. } | Op::SetAffinity { .. })) || dice.chance(40) {
            continue;
        }
        let own = |spawn: &&Spawn| spawn.program.0 as usize == index;
        let tasks = workload.spawns.iter().filter(own).count() as u64;
        if tasks == 0 {
            continue;
        }
        let period_ns = dice.within(200_000, 50_000_000);
        let share_ns = period_ns * u64::from(cpus) * 4 / (100 * tasks);
        let runtime_ns = share_ns.clamp(1_024, 2_000_000).min(period_ns / 2);
        let shorter_ns = dice.within(runtime_ns, period_ns);
        let deadline_ns = dice.pick(&[period_ns, shorter_ns]);
        program.attributes.policy = Policy::Deadline { runtime_ns, deadline_ns, period_ns };
        program.attributes.affinity = None;
    }
}

/// Has tasks of some programs stay on their CPU during one operation. The dice are others than those
/// of the rest, so that the rest of a seed's case stays what it was.
fn stay(dice: &mut Dice, workload: &mut Workload) {
    for program in &mut workload.programs {
        let ops = &mut program.ops;
        let at = dice.below(ops.len() as u64) as usize;
        let fits = !matches!(
            ops[at],
            Op::Repeat { .. }
                | Op::Jump { .. }
                | Op::Exec
                | Op::Exit
                | Op::ExitGroup
                | Op::SetAffinity { .. }
        );
        if !fits || dice.chance(60) {
            continue;
        }
        for op in ops.iter_mut() {
            if let Op::Repeat { to, .. } | Op::Jump { to } = op
                && *to as usize > at
            {
                *to += 2;
            }
        }
        ops.insert(at + 1, Op::MigrateEnable);
        ops.insert(at, Op::MigrateDisable);
    }
}

/// One machine, kernel and workload; what is wrong with it, if anything is.
fn case(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let machine = machine(&mut dice);
    let kernel = kernel(&mut dice);
    let mut workload = workload(&mut dice, machine.cpu_count() as u32);
    if kernel.rt.migrate_disable {
        stay(&mut Dice::new(!seed), &mut workload);
    }
    let duration_ns = dice.within(5_000_000, 300_000_000);
    let settings = Settings {
        shuffle_ties: dice.chance(30),
        explain: dice.chance(10),
        cpu_latency_ns: dice.pick(&[
            LATENCY_UNLIMITED_NS,
            LATENCY_UNLIMITED_NS,
            0,
            50_000,
            300_000,
        ]),
        ..Settings::new(&kernel, &machine, duration_ns, seed)
    };
    let every = dice.pick(&[1, 1, 7, 50]);
    check(&machine, &workload, &settings).map_err(|error| error.to_string())?;
    let domains = || build_domains(&machine, kernel.domains);
    let engine = Engine::new(&machine, domains(), &workload, &settings, Vec::new());
    let outcome = run_watched(&machine, engine, duration_ns, every)?;
    if let Ending::Stuck(who) = &outcome.ending {
        return Err(format!("it got stuck: {who:?}"));
    }
    let unseen = Settings { explain: false, ..settings };
    let again = Engine::new(&machine, domains(), &workload, &unseen, Nothing).run(duration_ns);
    if (again.digest, again.events, again.end_ns)
        != (outcome.digest, outcome.events, outcome.end_ns)
    {
        return Err("a second run differs".to_owned());
    }
    Ok(())
}

#[test]
fn random_runs_keep_every_promise() {
    try_seeds(300, case);
}

//! Any program that the validator accepts runs to an end, whatever it is.

use crate::support::{run, settings};
use proptest::prelude::*;
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_machine::{CpuId, CpuSet};
use schedlab_sim::{Ending, Nothing, Settings};
use schedlab_workload::WorkloadError;
use schedlab_workload::program::{
    Access, Amount, Attributes, Better, Block, Metric, MetricId, MetricKind, ObjectId, ObjectKind,
    Op, Pattern, Policy, Program, ProgramId, Slot, Spawn, Which, Workload,
};

const OBJECTS: u32 = 6;

fn object() -> impl Strategy<Value = ObjectKind> {
    prop_oneof![
        Just(ObjectKind::Mutex),
        (0..3_u32).prop_map(ObjectKind::Semaphore),
        Just(ObjectKind::Futex),
        Just(ObjectKind::Condition),
        (1..4_u32).prop_map(ObjectKind::Barrier),
        (1..200_u64, any::<bool>()).prop_map(|(capacity_bytes, sync_wakeup)| {
            ObjectKind::Channel { capacity_bytes, sync_wakeup }
        }),
        Just(ObjectKind::Flag),
        Just(ObjectKind::Counter),
        Just(ObjectKind::Line),
        Just(ObjectKind::Mailbox),
        (1..2048_u64, any::<bool>(), any::<bool>(), 1..u64::MAX).prop_map(
            |(words, private, writes, pass_ps)| {
                let pattern = if words % 2 == 0 { Pattern::Sequential } else { Pattern::Uniform };
                ObjectKind::Block(Block { bytes: 8 * words, private, writes, pattern, pass_ps })
            }
        ),
    ]
}

fn amount() -> impl Strategy<Value = Amount> {
    let ns = 0..3_000_000_u64;
    prop_oneof![
        ns.clone().prop_map(Amount::Fixed),
        Just(Amount::Fixed(u64::MAX)),
        (ns.clone(), ns.clone())
            .prop_map(|(a, b)| Amount::Uniform { low: a.min(b), high: a.max(b) }),
        ns.clone().prop_map(|mean| Amount::Exponential { mean }),
        ns.prop_map(|mean| Amount::Normal { mean, deviation: mean / 2 }),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    let id = || (0..OBJECTS).prop_map(ObjectId);
    prop_oneof![
        6 => id().prop_map(Which::One),
        1 => (id(), 1..3_u32).prop_map(|(first, count)| Which::Random { first, count }),
        1 => (id(), 1..3_u32, id())
            .prop_map(|(first, count, counter)| Which::Next { first, count, counter }),
        1 => id().prop_map(|first| Which::Own { first }),
        1 => (id(), 1..3_u32).prop_map(|(first, count)| Which::OfCpu { first, count }),
        1 => (0..4_u8).prop_map(|slot| Which::Picked(Slot(slot))),
    ]
}

fn op(programs: u32, ops: u32) -> impl Strategy<Value = Op> {
    let slot = || (0..17_u8).prop_map(Slot);
    let metric = || Just(MetricId(0));
    let bytes = 0..300_u64;
    let compute = prop_oneof![
        amount().prop_map(Op::Run),
        amount().prop_map(Op::System),
        amount().prop_map(Op::Hold),
        amount().prop_map(Op::Spin),
        amount().prop_map(Op::Sleep),
        Just(Op::Yield),
        Just(Op::Exec),
        (slot(), 1..5_000_000_u64).prop_map(|(slot, period_ns)| Op::Timer { slot, period_ns }),
        (which(), 1..5_000_000_u64, any::<bool>()).prop_map(|(timer, period_ns, restarts)| {
            Op::SharedTimer { timer, period_ns, restarts }
        }),
    ];
    let waits = prop_oneof![
        which().prop_map(Op::Lock),
        which().prop_map(Op::Unlock),
        which().prop_map(Op::Down),
        which().prop_map(Op::Up),
        (which(), which(), 0..3_u64).prop_map(|(semaphore, counter, every)| Op::UpEvery {
            semaphore,
            counter,
            every
        }),
        which().prop_map(Op::FutexWait),
        (which(), 0..3_u32).prop_map(|(futex, count)| Op::FutexWake { futex, count }),
        (which(), which()).prop_map(|(condition, mutex)| Op::CondWait { condition, mutex }),
        which().prop_map(Op::CondBroadcast),
        which().prop_map(Op::Barrier),
        (which(), bytes.clone()).prop_map(|(channel, bytes)| Op::Write { channel, bytes }),
        (which(), bytes).prop_map(|(channel, bytes)| Op::Read { channel, bytes }),
        which().prop_map(Op::Post),
        (which(), slot()).prop_map(|(mailbox, slot)| Op::AwaitServed { mailbox, slot }),
        which().prop_map(Op::AwaitPosted),
        which().prop_map(Op::Serve),
        which().prop_map(Op::SpinUntil),
        which().prop_map(Op::SetFlag),
        Just(Op::Join),
    ];
    let others = prop_oneof![
        (slot(), which()).prop_map(|(slot, which)| Op::Pick { slot, which }),
        (0..=programs, 0..3_u32, any::<bool>()).prop_map(|(program, count, thread)| {
            Op::Fork { program: ProgramId(program), count, thread }
        }),
        (which(), 0..4_u32).prop_map(|(line, count)| Op::Touch {
            line,
            access: Access::Atomic,
            count
        }),
        (which(), 0..u64::MAX, metric(), 0..u64::MAX).prop_map(
            |(block, passes, metric, amount)| Op::Stream { block, passes, metric, amount }
        ),
        (slot(), 0..=ops, 0..5_u64).prop_map(|(slot, to, times)| Op::Repeat { slot, to, times }),
        (0..=ops).prop_map(|to| Op::Jump { to }),
        slot().prop_map(Op::Mark),
        (metric(), slot()).prop_map(|(metric, since)| Op::Measure { metric, since }),
        (metric(), 0..u64::MAX).prop_map(|(metric, amount)| Op::Count { metric, amount }),
        Just(Op::Exit),
    ];
    prop_oneof![3 => compute, 6 => waits, 2 => others]
}

fn program(programs: u32) -> impl Strategy<Value = Program> {
    let ops = prop::collection::vec(op(programs, 8), 0..8);
    (ops, -20..20_i32, prop::option::of(0..8_u32)).prop_map(|(ops, nice, cpu)| Program {
        comm: "any".to_owned(),
        ops,
        attributes: Attributes {
            nice,
            policy: if nice % 3 == 0 { Policy::Batch } else { Policy::Normal },
            affinity: cpu.map(|cpu| CpuSet::of(CpuId(cpu))),
            ..Attributes::default()
        },
    })
}

fn workload() -> impl Strategy<Value = Workload> {
    let objects = prop::collection::vec(object(), OBJECTS as usize);
    let programs = prop::collection::vec(program(3), 3);
    let spawns = prop::collection::vec((0..3_u32, 0..8_u32, 0..1_000_000_u64), 1..5);
    (objects, programs, spawns).prop_map(|(objects, programs, spawns)| Workload {
        name: "any".to_owned(),
        objects,
        programs,
        spawns: spawns
            .into_iter()
            .map(|(program, birth_cpu, start_ns)| Spawn {
                program: ProgramId(program),
                birth_cpu,
                start_ns,
                asleep: false,
            })
            .collect(),
        interrupts: Vec::new(),
        metrics: vec![Metric {
            name: "any".to_owned(),
            unit: "1".to_owned(),
            better: Better::Higher,
            kind: MetricKind::Percentile(50.0),
            samples_of: None,
        }],
    })
}

/// Puts an object where each operation wants one, since few drawn programs would be accepted.
fn mend(mut workload: Workload) -> Workload {
    workload.objects = vec![
        workload.objects[0],
        ObjectKind::Mutex,
        ObjectKind::Condition,
        ObjectKind::Counter,
        ObjectKind::Barrier(1),
        workload.objects[5],
    ];
    // Operations that nothing can mend are left out one by one.
    let mut trial = workload.clone();
    for program in &mut workload.programs {
        loop {
            trial.programs = vec![program.clone(); 3];
            let Err(WorkloadError::Operation { at, .. }) = trial.validate() else { break };
            program.ops.remove(at);
        }
    }
    workload
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn accepted_programs_run_to_an_end(drawn in workload(), mended in any::<bool>(), seed in any::<u64>()) {
        let workload = if mended { mend(drawn) } else { drawn };
        prop_assume!(workload.validate().is_ok());
        let machine = schedlab_machine::Machine::preset("generic").expect("a preset");
        prop_assume!(workload.validate_on(&machine).is_ok());
        let settings = settings(IdlestTie::GroupUtil, NumaAllowance::ImbNumaNr);
        let settings = Settings { duration_ns: 2_000_000, seed, ..settings };
        let outcome = run("generic", &workload, &settings, Nothing);
        prop_assert!(outcome.end_ns <= 2_000_000 || outcome.ending != Ending::TimeUp);
        let again = run("generic", &workload, &settings, Nothing);
        prop_assert_eq!(outcome.digest, again.digest);
    }

    #[test]
    fn every_workload_can_be_told_in_words(drawn in workload()) {
        let workload = mend(drawn);
        prop_assume!(workload.validate().is_ok());
        let outline = workload.outline();
        prop_assert_eq!(outline["programs"].as_array().map(Vec::len), Some(3));
    }
}

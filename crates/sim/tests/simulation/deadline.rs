//! Deadline tasks, by scenarios whose course can be told in advance.

use crate::stage::{MS, PATHS_NS, Stints, at, course, play, play_on, share};
use schedlab_kernel::preset::Kernel;
use schedlab_machine::Machine;
use schedlab_sim::{Settings, SimError, check};
use schedlab_workload::build::{Builder, Code};
use schedlab_workload::program::{Op, Policy};
use std::path::Path;

fn kernel() -> Kernel {
    Kernel::preset("v6.12").expect("a preset")
}

/// A machine of one CPU, where nothing is pushed.
fn one() -> Machine {
    let text = Machine::preset_text("qemu4").expect("a preset");
    let text = text.replace("cores_per_llc = 4", "cores_per_llc = 1");
    // One CPU shares with nobody.
    let text =
        text.replace("shared_instruction_stream = true", "shared_instruction_stream = false");
    Machine::parse(&text, Path::new("one")).unwrap_or_else(|error| panic!("{error}"))
}

/// So many ms in every so many, by the period's end.
fn reserves(runtime_ms: u64, period_ms: u64) -> Policy {
    let period_ns = period_ms * MS;
    Policy::Deadline { runtime_ns: runtime_ms * MS, deadline_ns: period_ns, period_ns }
}

fn late(at_ms: u64, run_ms: u64) -> impl Fn(&mut Code) {
    move |code| {
        code.sleep(at_ms * MS).run(run_ms * MS);
    }
}

const ANY: &[u32] = &[0];

#[test]
fn the_earlier_deadline_goes_first() {
    let stints = play_on(
        &one(),
        &kernel(),
        &[
            at("fair", Policy::Normal, ANY, &late(0, 30)),
            at("fifo", Policy::Fifo(99), ANY, &late(5, 20)),
            at("long", reserves(10, 100), ANY, &late(10, 8)),
            at("short", reserves(5, 40), ANY, &late(12, 4)),
            at("later", reserves(5, 200), ANY, &late(11, 4)),
        ],
    );
    // Deadlines: long 110, short 52, later 211.
    let expected = [
        ("fair", 0),
        ("fifo", 5),
        ("long", 10),
        ("short", 12),
        ("long", 16),
        ("later", 22),
        ("fifo", 26),
        ("fair", 41),
    ];
    assert_eq!(course(&stints, 0), expected);
}

#[test]
fn who_wants_more_than_it_reserved_waits_for_its_next_period() {
    let stints = play_on(
        &one(),
        &kernel(),
        &[
            at("hog", reserves(20, 100), ANY, &late(10, 100)),
            at("fair", Policy::Normal, ANY, &late(0, 800)),
        ],
    );
    // Ticks see that the run time is used up, each 4 ms, and what was too much is paid off, so that
    // the whole is a fifth.
    let of_hog: Vec<_> = stints.iter().filter(|stint| stint.0 == "hog").collect();
    let long: Vec<_> = of_hog.iter().filter(|stint| stint.3 - stint.2 > PATHS_NS).collect();
    let first = long.first().expect("it ran");
    assert!((20 * MS..=24 * MS + PATHS_NS).contains(&(first.3 - first.2)), "{first:?}");
    let second = long[1];
    assert!(second.2.abs_diff(110 * MS) < PATHS_NS, "the next period begins: {second:?}");
    assert!((98..=102).contains(&share(&stints, "hog", 10, 520)), "{stints:?}");
    assert!((398..=402).contains(&share(&stints, "fair", 10, 510)), "{stints:?}");
}

#[test]
fn a_yield_gives_the_rest_of_the_period_away() {
    let yields = |code: &mut Code| {
        code.sleep(10 * MS).repeat(3, |code| {
            code.run(2 * MS).op(Op::Yield);
        });
    };
    let stints = play_on(&one(), &kernel(), &[at("yields", reserves(10, 50), ANY, &yields)]);
    assert_eq!(course(&stints, 0), [("yields", 10), ("yields", 60), ("yields", 110)]);
}

fn begins(stints: &Stints, comm: &str) -> (u32, u64) {
    let mut of = stints.iter().filter(|s| s.0 == comm && s.3 - s.2 > PATHS_NS);
    of.next().map(|stint| (stint.1, (stint.2 + MS / 2) / MS)).expect("it ran")
}

#[test]
fn tasks_spread_and_the_last_one_waits_for_the_latest_deadline() {
    let stints = play(
        &kernel(),
        &[
            at("a", reserves(60, 100), ANY, &late(10, 50)),
            at("b", reserves(60, 200), ANY, &late(10, 50)),
            at("c", reserves(60, 300), ANY, &late(10, 50)),
            at("d", reserves(60, 400), ANY, &late(10, 20)),
            at("last", reserves(60, 500), ANY, &late(12, 10)),
            at("urgent", reserves(20, 80), ANY, &late(14, 10)),
        ],
    );
    let cpus: std::collections::BTreeSet<u32> =
        ["a", "b", "c", "d"].iter().map(|comm| begins(&stints, comm).0).collect();
    assert_eq!(cpus.len(), 4, "one CPU for each: {stints:?}");
    // Its deadline is before all, so it stays where it wakes; who has to go goes on where the latest
    // deadline waits.
    assert_eq!(begins(&stints, "urgent").1, 14);
    assert_eq!(share(&stints, "d", 14, 24), 0, "{stints:?}");
    // At 24 d goes on, until 40; then the last one has its turn.
    assert_eq!(begins(&stints, "last").1, 40);
}

#[test]
fn a_real_time_task_goes_where_no_deadline_task_is() {
    let stints = play(
        &kernel(),
        &[
            at("fifo", Policy::Fifo(99), &[0, 1, 2, 3], &late(10, 50)),
            at("a", reserves(60, 100), ANY, &late(20, 30)),
            at("b", reserves(60, 100), ANY, &late(20, 30)),
            at("c", reserves(60, 100), ANY, &late(20, 30)),
        ],
    );
    // There are four CPUs for four tasks.
    assert_eq!(share(&stints, "fifo", 10, 60), 50, "{stints:?}");
    for comm in ["a", "b", "c"] {
        assert_eq!(share(&stints, comm, 20, 50), 30, "{comm}: {stints:?}");
    }
}

#[test]
fn a_starving_fair_task_is_served_by_deadline_too() {
    // The server's share, 50 ms of a second, comes before real-time tasks, and among deadline tasks
    // by its deadline.
    let stints = play_on(
        &one(),
        &kernel(),
        &[
            at("fifo", Policy::Fifo(50), ANY, &late(1, 3_000)),
            at("often", reserves(5, 10), ANY, &|code: &mut Code| {
                let slot = code.slot();
                code.repeat(200, |code| {
                    code.run(3 * MS).op(Op::Timer { slot, period_ns: 10 * MS });
                });
            }),
            at("fair", Policy::Normal, ANY, &late(0, 100)),
        ],
    );
    let [fair, often] = ["fair", "often"].map(|comm| share(&stints, comm, 5, 1_105));
    assert!((46..=54).contains(&fair), "{fair}");
    assert!((326..=334).contains(&often), "{often}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let machine = Machine::preset("qemu4").expect("a preset");
    let refused = |tasks: u32, kernel: &Kernel| {
        let mut build = Builder::new("w");
        let program = build.program("greedy", |code| {
            code.run(MS);
        });
        build.attributes(program).policy = reserves(96, 100);
        for _ in 0..tasks {
            build.spawn(program, 0, 0);
        }
        let workload = build.finish().expect("a workload");
        check(&machine, &workload, &Settings::new(kernel, &machine, MS, 1)).err()
    };
    assert!(refused(3, &kernel()).is_none());
    let error = refused(4, &kernel()).expect("3.84 CPUs of 3.8");
    assert!(matches!(error, SimError::Reserved { .. }));
    assert_eq!(
        error.to_string(),
        "deadline tasks reserve 3.84 CPUs, but of this machine no more than 3.80 can be reserved; \
         have fewer of them or let each reserve less"
    );
    let mut unlimited = kernel();
    unlimited.rt.limit = schedlab_kernel::rt::Limit::None;
    assert!(refused(4, &unlimited).is_none());
}

//! Real-time tasks, by scenarios whose course can be told in advance.

use crate::stage::{MS, PATHS_NS, at, course, play, play_on, share};
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::rt::{Limit, Pull};
use schedlab_machine::Machine;
use schedlab_workload::build::Code;
use schedlab_workload::program::{Op, Policy};

fn kernel() -> Kernel {
    Kernel::preset("v6.12").expect("a preset")
}

fn late(at_ms: u64, run_ms: u64) -> impl Fn(&mut Code) {
    move |code| {
        code.sleep(at_ms * MS).run(run_ms * MS);
    }
}

const ALL: &[u32] = &[0, 1, 2, 3];

#[test]
fn the_more_urgent_task_preempts_at_once_and_hands_back() {
    let stints = play(
        &kernel(),
        &[
            at("fair", Policy::Normal, &[0], &late(0, 50)),
            at("low", Policy::Fifo(10), &[0], &late(10, 20)),
            at("high", Policy::RoundRobin(11), &[0], &late(20, 5)),
        ],
    );
    // 10 to 20 low, 20 to 25 high, 25 to 35 low again, then what is left for the fair one.
    let expected = [("fair", 0), ("low", 10), ("high", 20), ("low", 25), ("fair", 35)];
    assert_eq!(course(&stints, 0), expected);
}

#[test]
fn equal_priorities_run_one_after_another_under_fifo_and_in_turns_under_rr() {
    let both = |policy| {
        let stints = play(
            &kernel(),
            &[at("a", policy, &[0], &late(0, 250)), at("b", policy, &[0], &late(0, 250))],
        );
        stints.iter().map(|(comm, _, from, to)| (comm.clone(), (to - from + 2 * MS) / MS)).fold(
            Vec::new(),
            |mut stints: Vec<(String, u64)>, (comm, ms)| {
                if ms > 4 {
                    stints.push((comm, ms / 4 * 4));
                }
                stints
            },
        )
    };
    let stint = |comm: &str, ms| (comm.to_owned(), ms);
    assert_eq!(both(Policy::Fifo(5)), [stint("a", 252), stint("b", 252)]);
    // A slice is 100 ms: 25 ticks of 4 ms.
    let turns = both(Policy::RoundRobin(5));
    assert_eq!(
        turns,
        [
            stint("a", 100),
            stint("b", 100),
            stint("a", 100),
            stint("b", 100),
            stint("a", 52),
            stint("b", 52)
        ]
    );
}

#[test]
fn yield_lets_equals_run_but_nobody_else() {
    let yields = |code: &mut Code| {
        code.sleep(MS).repeat(2, |code| {
            code.run(10 * MS).op(Op::Yield);
        });
    };
    let stints = play(
        &kernel(),
        &[
            at("a", Policy::Fifo(5), &[0], &yields),
            at("b", Policy::Fifo(5), &[0], &yields),
            at("low", Policy::Fifo(4), &[0], &late(1, 10)),
        ],
    );
    let expected = [("a", 1), ("b", 11), ("a", 21), ("b", 31), ("low", 41)];
    assert_eq!(course(&stints, 0), expected);
}

#[test]
fn a_woken_task_goes_to_the_cpu_of_lowest_priority() {
    let hog = late(0, 100);
    let stints = play(
        &kernel(),
        &[
            at("p50", Policy::Fifo(50), &[0], &hog),
            at("p10", Policy::Fifo(10), &[1], &hog),
            at("p30", Policy::Fifo(30), &[2], &hog),
            at("fair", Policy::Normal, &[3], &hog),
            at("first", Policy::Fifo(40), ALL, &late(20, 10)),
            at("second", Policy::Fifo(40), ALL, &late(25, 10)),
            at("third", Policy::Fifo(40), ALL, &late(26, 10)),
            at("fourth", Policy::Fifo(40), ALL, &late(27, 2)),
        ],
    );
    let place = |comm: &str| {
        let mut of = stints.iter().filter(|s| s.0 == comm && s.3 - s.2 > PATHS_NS);
        of.next().map(|stint| (stint.1, (stint.2 + MS / 2) / MS)).expect("it ran")
    };
    // First the fair task gives way, then the priorities in their order.
    assert_eq!(place("first"), (3, 20));
    assert_eq!(place("second"), (1, 25));
    assert_eq!(place("third"), (2, 26));
    // No CPU is left below 40: it waits until the first of them has ended, at 30.
    assert_eq!(place("fourth").1, 30);
}

#[test]
fn a_cpu_that_runs_out_of_urgent_tasks_gets_those_that_wait_elsewhere() {
    for pull in [Pull::Plain, Pull::PushIpi] {
        let mut kernel = kernel();
        kernel.rt.pull = pull;
        let stints = play(
            &kernel,
            &[
                at("p50", Policy::Fifo(50), &[0], &late(1, 100)),
                at("p45", Policy::Fifo(45), &[1], &late(1, 49)),
                at("fair", Policy::Normal, &[1], &late(0, 100)),
                at("waits", Policy::Fifo(40), &[0, 1], &late(20, 10)),
            ],
        );
        let expected = [("p45", 1), ("waits", 50)];
        let course = course(&stints, 1);
        assert_eq!(course.last().map(|stint| stint.0), Some("fair"), "{pull:?}");
        let rt: Vec<_> = course.iter().filter(|stint| stint.0 != "fair").copied().collect();
        assert_eq!(rt, expected, "{pull:?}");
    }
}

#[test]
fn an_equal_that_can_go_nowhere_else_makes_the_running_one_go() {
    let stints = play(
        &kernel(),
        &[
            at("roams", Policy::Fifo(50), ALL, &late(0, 100)),
            at("pinned", Policy::Fifo(50), &[0], &late(20, 10)),
        ],
    );
    assert_eq!(course(&stints, 0), [("roams", 0), ("pinned", 20)]);
    let went = stints.iter().find(|stint| stint.0 == "roams" && stint.1 != 0).expect("it went");
    assert!(went.2.abs_diff(20 * MS) < PATHS_NS, "{went:?}");
}

#[test]
fn a_task_that_may_not_stay_is_moved_by_the_stopper() {
    for policy in [Policy::Normal, Policy::Fifo(50)] {
        let moves = |code: &mut Code| {
            code.run(10 * MS).op(Op::SetAffinity { to: 0 }).run(10 * MS);
            code.op(Op::SetAffinity { to: 1 }).run(10 * MS);
        };
        let other = late(0, 15);
        let mut actors = [
            at("moves", policy, &[0], &moves),
            at("hog", Policy::Fifo(60), &[2], &other),
            at("fair", Policy::Normal, &[0], &other),
        ];
        actors[0].others = &[&[2, 3], &[3]];
        let stints = play(&kernel(), &actors);
        let of = stints.iter().filter(|stint| stint.0 == "moves" && stint.3 - stint.2 > PATHS_NS);
        let cpus: Vec<u32> = of.map(|stint| stint.1).collect();
        // CPU 2 is the first that is allowed. A real-time task would wait there for a more urgent
        // one, but the CPU that it leaves makes overloaded CPUs push.
        let (first, last) = (cpus.first(), cpus.last());
        assert_eq!((first, last), (Some(&0), Some(&3)), "{policy:?}: {stints:?}");
        assert_eq!(cpus.contains(&2), policy == Policy::Normal, "{policy:?}: {stints:?}");
        // What it leaves goes to whoever waits there.
        let ends = stints.iter().rfind(|stint| stint.0 == "moves" && stint.1 == 0);
        let left_ns = ends.expect("it ran on CPU 0").3;
        let follows = |stint: &&(String, u32, u64, u64)| {
            stint.0 == "fair" && (left_ns..left_ns + PATHS_NS).contains(&stint.2)
        };
        assert!(stints.iter().find(follows).is_some(), "{policy:?}: {stints:?}");
    }
}

#[test]
fn fair_tasks_get_their_share_of_a_cpu_that_urgent_ones_would_take() {
    let hog = late(1, 3_000);
    let fair = late(0, 400);
    let actors = [at("hog", Policy::Fifo(50), &[0], &hog), at("fair", Policy::Normal, &[0], &fair)];
    let shares = |limit: Limit| {
        let mut kernel = kernel();
        kernel.rt.limit = limit;
        let stints = play(&kernel, &actors);
        [(100, 1_100), (1_100, 2_100)].map(|(from, to)| share(&stints, "fair", from, to))
    };
    assert_eq!(shares(Limit::None), [0, 0]);
    // 50 ms of every second, to the granularity of the tick.
    for limit in [Limit::Throttling, Limit::FairServer] {
        let shares = shares(limit);
        assert!(shares.iter().all(|share| (46..=56).contains(share)), "{limit:?}: {shares:?}");
    }
    // The other CPUs have no real-time tasks, and lend what they do not need.
    assert_eq!(shares(Limit::ThrottlingShared), [0, 0]);
}

#[test]
fn throttled_tasks_leave_a_cpu_idle_that_has_nothing_else() {
    let mut kernel = Kernel::preset("v6.1").expect("a preset");
    assert_eq!(kernel.rt.limit, Limit::Throttling);
    let hog = late(0, 1_900);
    let stints = play(&kernel, &[at("hog", Policy::Fifo(50), &[0], &hog)]);
    assert!((1_900..=1_902).contains(&share(&stints, "hog", 0, 10_000)), "{stints:?}");
    let end_ns = stints.iter().map(|stint| stint.3).max().expect("it ran");
    // Throttled by the tick after 950 ms, released after 1,000.
    assert!((1_944..=1_952).contains(&(end_ns / MS)), "{end_ns}");
    // A server only serves where there is somebody to be served.
    kernel.rt.limit = Limit::FairServer;
    let stints = play(&kernel, &[at("hog", Policy::Fifo(50), &[0], &hog)]);
    let end_ns = stints.iter().map(|stint| stint.3).max().expect("it ran");
    assert!(end_ns / MS <= 1_902, "{end_ns}");
}

#[test]
fn where_cpus_differ_a_real_time_task_goes_to_a_big_one_unless_it_asks_for_less() {
    let juno = Machine::preset("juno-r0").expect("a preset");
    // CPUs 1 and 2 are the big ones.
    let all = &[0, 1, 2, 3, 4, 5];
    let where_it_ran = |clamps| {
        let work = late(10, 5);
        let mut actor = at("task", Policy::Fifo(50), all, &work);
        actor.clamps = clamps;
        let stints = play_on(&juno, &kernel(), &[actor]);
        stints.iter().find(|stint| stint.3 - stint.2 > PATHS_NS).expect("it ran").1
    };
    assert!([1, 2].contains(&where_it_ran(None)));
    assert_eq!(where_it_ran(Some((0, 1024))), 0, "it stays where it was");
    assert!([1, 2].contains(&where_it_ran(Some((600, 1024)))));
}

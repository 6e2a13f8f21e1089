//! Tasks that stay on their CPU for a while, by scenarios whose course can be told in advance.

use crate::stage::{MS, at, course, play, share};
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::rt::Pull;
use schedlab_machine::Machine;
use schedlab_sim::{Nothing, Settings, SimError, simulate};
use schedlab_workload::build::{Builder, Code};
use schedlab_workload::program::{Op, Policy};

fn kernel() -> Kernel {
    Kernel::preset("v6.12").expect("a preset")
}

fn late(at_ms: u64, run_ms: u64) -> impl Fn(&mut Code) {
    move |code| {
        code.sleep(at_ms * MS).run(run_ms * MS);
    }
}

/// Computes on CPU 0, in a section without migration or not.
fn section(stays: bool, run_ms: u64) -> impl Fn(&mut Code) {
    move |code| {
        if stays {
            code.op(Op::MigrateDisable).op(Op::MigrateDisable).op(Op::MigrateEnable);
        }
        code.run(run_ms * MS);
        if stays {
            code.op(Op::MigrateEnable);
        }
        code.run(10 * MS);
    }
}

#[test]
fn a_task_waits_where_it_stays_though_another_cpu_is_idle() {
    let stints = |stays| {
        let (task, high, blocker) = (section(stays, 20), late(10, 20), late(0, 5));
        play(
            &kernel(),
            &[
                at("blocker", Policy::Fifo(70), &[1], &blocker),
                at("task", Policy::Fifo(50), &[0, 1], &task),
                at("high", Policy::Fifo(60), &[0], &high),
            ],
        )
    };
    let goes = stints(false);
    assert_eq!(course(&goes, 0), [("task", 0), ("high", 10)]);
    assert_eq!(course(&goes, 1), [("blocker", 0), ("task", 10)]);
    let stays = stints(true);
    assert_eq!(course(&stays, 0), [("task", 0), ("high", 10), ("task", 30)]);
    assert_eq!(course(&stays, 1), [("blocker", 0)]);
}

#[test]
fn who_runs_in_the_place_of_a_task_that_stays_is_sent_away_instead() {
    for pull in [Pull::Plain, Pull::PushIpi] {
        let mut kernel = kernel();
        kernel.rt.pull = pull;
        let (stays, roams, blocker) = (section(true, 40), late(10, 20), late(0, 20));
        let stints = play(
            &kernel,
            &[
                at("stays", Policy::Fifo(50), &[0, 1], &stays),
                at("roams", Policy::Fifo(60), &[0, 1], &roams),
                at("blocker", Policy::Fifo(70), &[1], &blocker),
            ],
        );
        // CPU 1 gets free at 20, when "stays" would go there if it could.
        assert_eq!(course(&stints, 0), [("stays", 0), ("roams", 10), ("stays", 20)], "{pull:?}");
        assert_eq!(course(&stints, 1), [("blocker", 0), ("roams", 20)], "{pull:?}");
    }
}

#[test]
fn a_task_that_sleeps_while_it_stays_wakes_where_it_slept() {
    for policy in [Policy::Fifo(50), Policy::Normal] {
        let sleeper = |code: &mut Code| {
            code.run(4 * MS)
                .op(Op::MigrateDisable)
                .sleep(5 * MS)
                .run(10 * MS)
                .op(Op::MigrateEnable);
        };
        let (hog, blocker) = (late(6, 24), late(0, 5));
        let stints = play(
            &kernel(),
            &[
                at("blocker", Policy::Fifo(70), &[1], &blocker),
                at("sleeper", policy, &[0, 1], &sleeper),
                at("hog", Policy::Fifo(60), &[0], &hog),
            ],
        );
        assert_eq!(course(&stints, 0), [("sleeper", 0), ("hog", 6), ("sleeper", 30)]);
    }
}

#[test]
fn balancing_leaves_a_fair_task_where_it_stays() {
    let elsewhere = |stays| {
        let (task, hog) = (section(stays, 100), late(0, 300));
        let stints = play(
            &kernel(),
            &[
                at("task", Policy::Normal, &[0, 1], &task),
                at("hog", Policy::Normal, &[0], &hog),
                at("second", Policy::Normal, &[0], &hog),
            ],
        );
        let there: Vec<_> = stints.into_iter().filter(|stint| stint.1 == 1).collect();
        share(&there, "task", 0, 1_000)
    };
    assert!(elsewhere(false) > 50, "it may go to the idle CPU");
    // What follows the section it may compute elsewhere.
    assert!(elsewhere(true) <= 10, "it left within the section");
}

#[test]
fn a_kernel_before_5_11_is_refused() {
    let kernel = Kernel::preset("v5.9").expect("a preset");
    let machine = Machine::preset("generic").expect("a preset");
    let mut build = Builder::new("stays");
    let program = build.program("stays", |code| section(true, 1)(code));
    build.spawn(program, 0, 0);
    let workload = build.finish().expect("a workload");
    let settings = Settings::new(&kernel, &machine, 10 * MS, 1);
    let refused = simulate(&machine, kernel.domains, &workload, &settings, Nothing);
    assert!(matches!(refused, Err(SimError::NoMigrateDisable)));
}

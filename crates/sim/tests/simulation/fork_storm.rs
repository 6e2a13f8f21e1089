//! Where the threads of a fork storm are born (3edecfef0288): threads that sleep at once leave
//! their CPU idle again, so only their blocked utilisation tells that it was used.

use crate::support::{fork_storm, run, settings};
use schedlab_kernel::fair::slow_path::{IdlestTie, NumaAllowance};
use schedlab_machine::Machine;
use schedlab_sim::verify_outcome;
use schedlab_trace::{Event, EventKind};
use std::collections::BTreeSet;

fn birth_cpus(idlest_tie: IdlestTie) -> BTreeSet<u32> {
    let settings = settings(idlest_tie, NumaAllowance::LocalIdle);
    let outcome = run("kunpeng920-2s", &fork_storm(32), &settings, Vec::<Event>::new());
    let machine = Machine::preset("kunpeng920-2s").expect("a preset");
    verify_outcome(&machine, &outcome).unwrap_or_else(|what| panic!("{what}"));
    let born = outcome.observer.iter().filter_map(|event| match event.kind {
        EventKind::WakeupNew { task, target_cpu, .. } => Some((task.pid, target_cpu.0)),
        _ => None,
    });
    // The first birth is the main task's own.
    born.skip(1).map(|(_, cpu)| cpu).collect()
}

#[test]
fn the_old_rule_gives_every_thread_the_first_idle_cpu() {
    assert_eq!(birth_cpus(IdlestTie::First), BTreeSet::from([1]));
}

#[test]
fn group_util_spreads_threads_over_the_node() {
    let cpus = birth_cpus(IdlestTie::GroupUtil);
    assert_eq!(cpus, (1..32).collect());
}

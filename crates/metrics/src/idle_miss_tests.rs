use super::*;
use crate::testing::{at, enter, exit, switch};
use proptest::prelude::*;
use schedlab_trace::TaskState::{Preempted, Sleeping};

fn simidle() -> Machine {
    Machine::preset("simidle").expect("a built-in machine")
}

fn period(state: u32, duration_ns: u64) -> IdlePeriod {
    IdlePeriod { cpu: CpuId(0), state, enter_ns: 1_000, exit_ns: 1_000 + duration_ns }
}

#[test]
fn the_shallowest_state_is_never_too_deep_and_the_deepest_never_too_shallow() {
    let machine = simidle();
    let states = machine.idle_states(CpuId(0));
    assert_eq!(verdict(states, 0, 0), Some(Verdict::Fits));
    assert_eq!(verdict(states, 5, u64::MAX), Some(Verdict::Fits));
    assert_eq!(verdict(&[], 0, 5), None);
}

#[test]
fn disabled_states_do_not_count() {
    let mut states = simidle().idle_states(CpuId(0)).to_vec();
    // C6 (600 us) off: the next deeper of C3 is C8, 5000 us beyond 70 us of exit latency.
    states[4].disabled = true;
    assert_eq!(verdict(&states, 3, 5_069_999), Some(Verdict::Fits));
    assert_eq!(verdict(&states, 3, 5_070_000), Some(Verdict::TooShallow));
    states[..3].iter_mut().for_each(|state| state.disabled = true);
    assert_eq!(verdict(&states, 3, 1), Some(Verdict::Fits));
}

#[test]
fn a_too_deep_sleep_by_hand() {
    // 150 us in C6: C3 fits. 133 - 70 = 63 us of latency; (80 - 400) mW * 150 us = -48 uJ and
    // 150 - 30 = 120 uJ of transition: 72 uJ too much.
    let machine = simidle();
    let misses = Misses::of(machine.idle_states(CpuId(0)), &period(4, 150_000));
    assert_eq!((misses.too_deep, misses.too_shallow), (1, 0));
    assert_eq!(misses.extra_exit_latency_ns, 63_000);
    assert_eq!(misses.excess_energy_fj, 72_000_000_000);
}

#[test]
fn a_too_shallow_sleep_by_hand() {
    // 2 ms in C1 (exit 2 us): C6 would have paid. (1200 - 80) mW * 2 ms = 2240 uJ, less 150 uJ.
    let machine = simidle();
    let misses = Misses::of(machine.idle_states(CpuId(0)), &period(1, 2_000_000));
    assert_eq!((misses.too_deep, misses.too_shallow, misses.shallow_ns), (0, 1, 2_000_000));
    assert_eq!(misses.excess_energy_fj, 2_090_000_000_000);
}

#[test]
fn misses_belong_to_the_task_that_ran_next() {
    let machine = simidle();
    let mut collector = IdleMisses::new(Some(&machine));
    let miss = EventKind::IdleMiss { cpu: CpuId(0), state: 4, below: false };
    let events = [
        at(0, 0, enter(0, 4)),
        at(150_000, 0, exit(0)), // too deep, for task 7
        at(150_010, 0, miss),
        at(150_100, 0, switch(0, Preempted, 7)),
        at(160_000, 0, switch(7, Sleeping, 0)),
        at(170_000, 0, enter(0, 1)),
        at(2_170_000, 0, exit(0)), // too shallow, for nobody
        at(2_170_100, 0, enter(0, 9)),
        at(2_170_200, 0, exit(0)), // a state that no table has
    ];
    events.iter().for_each(|event| collector.push(event));
    let (states, tasks) = collector.finish();
    let of = |row: &StateRow| (row.state, row.misses.too_deep, row.misses.kernel_too_deep);
    assert_eq!(states.iter().map(of).collect::<Vec<_>>(), [(1, 0, 0), (4, 1, 1), (9, 0, 0)]);
    assert_eq!(states[2].misses.unknown_state, 1);
    assert_eq!((tasks[0].pid, tasks[0].misses.too_deep), (Some(Pid(7)), 1));
    assert_eq!(tasks[0].misses.kernel_too_deep, 1);
    assert_eq!((tasks[1].pid, tasks[1].misses.too_shallow, tasks[1].misses.periods), (None, 1, 1));
}

#[test]
fn without_a_machine_the_kernels_own_counts_remain() {
    let mut collector = IdleMisses::new(None);
    collector.push(&at(0, 0, enter(0, 4)));
    collector.push(&at(10, 0, exit(0)));
    collector.push(&at(11, 0, EventKind::IdleMiss { cpu: CpuId(0), state: 4, below: true }));
    let (states, _) = collector.finish();
    assert_eq!(states.len(), 1);
    let counted = Misses { kernel_too_shallow: 1, ..Misses::default() };
    assert_eq!(states[0].misses, counted);
}

proptest! {
    /// Rows by state and rows by task are two views of the same sleeps.
    #[test]
    fn states_and_tasks_sum_to_the_same(
        steps in prop::collection::vec(any::<(u8, u8, u8, u32)>(), 0..200)
    ) {
        let machine = simidle();
        let mut collector = IdleMisses::new(Some(&machine));
        let mut now_ns = 0;
        for (what, cpu, state, delay) in steps {
            now_ns += u64::from(delay % 10_000_000);
            let (cpu, state) = (u32::from(cpu % 6), u32::from(state % 8));
            let kind = match what % 5 {
                0 => enter(cpu, state),
                1 => exit(cpu),
                2 => EventKind::IdleMiss { cpu: CpuId(cpu), state, below: state % 2 == 0 },
                3 => switch(0, Preempted, state as i32),
                _ => EventKind::Lost { count: 1 },
            };
            collector.push(&at(now_ns, cpu, kind));
        }
        let (states, tasks) = collector.finish();
        let (mut by_state, mut by_task) = (Misses::default(), Misses::default());
        states.iter().for_each(|row| by_state.add(&row.misses));
        tasks.iter().for_each(|row| by_task.add(&row.misses));
        prop_assert_eq!(by_state, by_task);
    }
}

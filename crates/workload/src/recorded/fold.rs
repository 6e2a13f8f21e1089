//! Finds the loops in what tasks did.

use super::{Recording, Step};

/// Waits whose lengths differ by no more than this are alike, ns.
const WAIT_NS: u64 = 2_000;

/// Computations whose lengths differ by no more than this are alike, ns.
const RUN_NS: u64 = 5_000;

/// A loop goes over this many waits at most.
const WAITS_MAX: usize = 8;

/// Fewer rounds are no loop.
const ROUNDS_MIN: usize = 3;

/// A wait and what follows until the next one.
#[derive(Clone, Copy, Debug)]
struct Cycle<'a> {
    wait: Wait,
    steps: &'a [Step],
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    None,
    Await,
    Sleep(u64, u64),
    /// Until a time, so long after the last such time.
    Until {
        soft_ns: u64,
        slack_ns: u64,
        gap_ns: Option<u64>,
    },
}

impl Recording {
    /// The same tasks with loops where a task repeats itself. A computation of a loop takes the
    /// mean of what its rounds took. That wake-ups were held up is left out, and what they brought comes
    /// at its own time. `tolerance_pct` is how far times of one loop may be from those of its first
    /// round.
    #[must_use]
    pub fn folded(&self, tolerance_pct: u64) -> Recording {
        let mut folded = self.clone();
        let apart = !folded.brought.is_empty();
        folded.interrupts.append(&mut folded.brought);
        folded.interrupts.sort_by_key(|interrupt| interrupt.at_ns);
        for task in &mut folded.tasks {
            // That a wake-up was held up is the recorded machine's doing.
            task.steps.retain(|step| match step {
                Step::Late(_) => false,
                Step::Brings(_) => !apart,
                _ => true,
            });
            task.steps = fold(&task.steps, tolerance_pct);
        }
        folded
    }
}

fn fold(steps: &[Step], tolerance_pct: u64) -> Vec<Step> {
    let cycles = cycles(steps);
    let mut folded = Vec::new();
    let mut at = 0;
    while at < cycles.len() {
        let (length, rounds) = longest(&cycles[at..], tolerance_pct);
        if rounds >= ROUNDS_MIN {
            write_loop(&mut folded, &cycles[at..at + length * rounds], length);
            at += length * rounds;
        } else {
            write_plain(&mut folded, &cycles[at]);
            at += 1;
        }
    }
    folded
}

fn cycles(steps: &[Step]) -> Vec<Cycle<'_>> {
    let mut cycles = Vec::new();
    let (mut wait, mut from) = (Wait::None, 0);
    let mut last_ns = None;
    for (at, step) in steps.iter().enumerate() {
        let next = match *step {
            Step::Await => Wait::Await,
            Step::Sleep { ns, slack_ns } => Wait::Sleep(ns, slack_ns),
            Step::Until { soft_ns, slack_ns } => {
                let gap_ns = last_ns.map(|last_ns| soft_ns.saturating_sub(last_ns));
                last_ns = Some(soft_ns);
                Wait::Until { soft_ns, slack_ns, gap_ns }
            }
            _ => continue,
        };
        cycles.push(Cycle { wait, steps: &steps[from..at] });
        (wait, from) = (next, at + 1);
    }
    cycles.push(Cycle { wait, steps: &steps[from..] });
    cycles.retain(|cycle| !matches!(cycle.wait, Wait::None) || !cycle.steps.is_empty());
    cycles
}

/// How many cycles a loop from here has that covers most, and how many rounds.
fn longest(cycles: &[Cycle<'_>], tolerance_pct: u64) -> (usize, usize) {
    let mut best = (1, 1);
    for length in 1..=WAITS_MAX.min(cycles.len() / ROUNDS_MIN) {
        let mut rounds = 1;
        while (rounds + 1) * length <= cycles.len()
            && (0..length)
                .all(|at| alike(&cycles[at], &cycles[rounds * length + at], tolerance_pct))
        {
            rounds += 1;
        }
        if rounds >= ROUNDS_MIN && length * rounds > best.0 * best.1 {
            best = (length, rounds);
        }
    }
    best
}

fn near(one_ns: u64, other_ns: u64, floor_ns: u64, tolerance_pct: u64) -> bool {
    let allowed_ns = floor_ns.max(one_ns / 100 * tolerance_pct);
    one_ns.abs_diff(other_ns) <= allowed_ns
}

fn alike(one: &Cycle<'_>, other: &Cycle<'_>, tolerance_pct: u64) -> bool {
    let waits = match (one.wait, other.wait) {
        (Wait::Await, Wait::Await) => true,
        (Wait::Sleep(one, slack_ns), Wait::Sleep(other, other_slack_ns)) => {
            slack_ns == other_slack_ns && near(one, other, WAIT_NS, tolerance_pct)
        }
        // A grid has no tolerance but that of its clock.
        (Wait::Until { gap_ns: Some(one), .. }, Wait::Until { gap_ns: Some(other), .. }) => {
            near(one, other, WAIT_NS, 0)
        }
        _ => false,
    };
    waits
        && one.steps.len() == other.steps.len()
        && one.steps.iter().zip(other.steps).all(|pair| match pair {
            (Step::Run(one), Step::Run(other)) => near(*one, *other, RUN_NS, tolerance_pct),
            (one, other) => one == other,
        })
}

fn write_plain(folded: &mut Vec<Step>, cycle: &Cycle<'_>) {
    match cycle.wait {
        Wait::None => {}
        Wait::Await => folded.push(Step::Await),
        Wait::Sleep(ns, slack_ns) => folded.push(Step::Sleep { ns, slack_ns }),
        Wait::Until { soft_ns, slack_ns, .. } => folded.push(Step::Until { soft_ns, slack_ns }),
    }
    folded.extend_from_slice(cycle.steps);
}

/// The rounds as a loop. A grid is entered by its first time, which stands before the loop.
fn write_loop(folded: &mut Vec<Step>, cycles: &[Cycle<'_>], length: usize) {
    let round = &cycles[..length];
    let grid = round.iter().any(|cycle| matches!(cycle.wait, Wait::Until { .. }));
    let rounds = cycles.len() / length;
    let looped = if grid {
        round.iter().for_each(|cycle| write_plain(folded, cycle));
        &cycles[length..]
    } else {
        cycles
    };
    let times = (rounds - usize::from(grid)) as u64;
    let mean = |at: usize, step: usize| {
        let each = looped.iter().skip(at).step_by(length).map(|cycle| match cycle.steps[step] {
            Step::Run(ns) => u128::from(ns),
            _ => 0,
        });
        ((each.sum::<u128>() + u128::from(times) / 2) / u128::from(times)) as u64
    };
    let mut body = Vec::new();
    for (at, cycle) in looped[..length].iter().enumerate() {
        match cycle.wait {
            Wait::None => {}
            Wait::Await => body.push(Step::Await),
            Wait::Sleep(_, slack_ns) => {
                let lengths = looped.iter().skip(at).step_by(length);
                let sum: u128 = lengths
                    .map(|cycle| match cycle.wait {
                        Wait::Sleep(ns, _) => u128::from(ns),
                        _ => 0,
                    })
                    .sum();
                let ns = (sum / u128::from(times)) as u64;
                body.push(Step::Sleep { ns, slack_ns });
            }
            Wait::Until { gap_ns, .. } => body.push(Step::Timer(gap_ns.unwrap_or(1).max(1))),
        }
        for (step, did) in cycle.steps.iter().enumerate() {
            body.push(match did {
                Step::Run(_) => Step::Run(mean(at, step)),
                did => did.clone(),
            });
        }
    }
    folded.push(Step::Loop(times, body));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn periodic(count: u64, run_ns: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for round in 0..count {
            steps.push(Step::Until { soft_ns: 5_000_000 + round * 1_000_000, slack_ns: 50_000 });
            steps.push(Step::Run(run_ns + round % 3));
        }
        steps
    }

    /// Time computed, waits, wake-ups of others.
    fn totals(steps: &[Step]) -> (u64, u64, u64) {
        steps.iter().fold((0, 0, 0), |(run, waits, wakes), step| match step {
            Step::Run(ns) => (run + ns, waits, wakes),
            Step::Wake(_) => (run, waits, wakes + 1),
            Step::Loop(times, steps) => {
                let inner = totals(steps);
                (run + times * inner.0, waits + times * inner.1, wakes + times * inner.2)
            }
            Step::Fork(_) | Step::Late(_) | Step::Brings(_) | Step::Exec | Step::Yield => {
                (run, waits, wakes)
            }
            _ => (run, waits + 1, wakes),
        })
    }

    #[test]
    fn a_period_becomes_a_loop() {
        let folded = fold(&periodic(100, 44_000), 10);
        assert_eq!(
            folded,
            [
                Step::Until { soft_ns: 5_000_000, slack_ns: 50_000 },
                Step::Run(44_000),
                Step::Until { soft_ns: 6_000_000, slack_ns: 50_000 },
                Step::Run(44_001),
                Step::Loop(98, vec![Step::Timer(1_000_000), Step::Run(44_001)]),
            ]
        );
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..200_000_u64).prop_map(Step::Run),
            (1..3_u64).prop_map(|n| Step::Run(n * 1000)),
            (1..3_u64).prop_map(|n| Step::Sleep { ns: n * 100_000, slack_ns: 0 }),
            Just(Step::Await),
            (0..2_u32).prop_map(Step::Wake),
        ]
    }

    proptest! {
        #[test]
        fn folding_keeps_waits_and_wakeups_and_nearly_all_time(
            block in prop::collection::vec(step(), 1..6),
            rounds in 1..40_usize,
            tail in prop::collection::vec(step(), 0..10),
        ) {
            let mut steps: Vec<Step> =
                std::iter::repeat_n(block, rounds).flatten().collect();
            steps.extend(tail);
            let folded = fold(&steps, 10);
            let (before, after) = (totals(&steps), totals(&folded));
            prop_assert_eq!((before.1, before.2), (after.1, after.2));
            // A mean is rounded to a nanosecond in each round.
            prop_assert!(before.0.abs_diff(after.0) <= steps.len() as u64);
        }
    }
}

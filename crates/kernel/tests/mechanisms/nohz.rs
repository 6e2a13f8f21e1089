//! The older generations of idle balancing, branch by branch against cases that were worked out by
//! hand from the code of 2.6.32 and 2.6.36, and random histories of small machines.

use proptest::prelude::*;
use schedlab_kernel::fair::build::{DomainRules, build_domains};
use schedlab_kernel::fair::nohz::pull::{Nomination, Pull, TickOutcome};
use schedlab_kernel::fair::nohz::push::Push;
use schedlab_kernel::fair::topology::{DomainFlags, Domains};
use schedlab_machine::{CpuId, CpuSet, Machine};

const STOPS: Nomination = Nomination { keeps_tick: false, resched: None };
const KEEPS: Nomination = Nomination { keeps_tick: true, resched: None };
const NOTHING: TickOutcome = TickOutcome { resched: None, softirq: false };
const SOFTIRQ: TickOutcome = TickOutcome { resched: None, softirq: true };

fn cpu(number: u32) -> CpuId {
    CpuId(number)
}

fn cpus(numbers: &[u32]) -> CpuSet {
    numbers.iter().map(|&number| CpuId(number)).collect()
}

/// Four CPUs that are all busy, and were since long.
fn busy_pull() -> Pull {
    let mut pull = Pull::new(CpuSet::first_n(4), false);
    for number in 0..4 {
        pull.leave(cpu(number));
    }
    pull.in_nohz_recently = CpuSet::EMPTY;
    pull
}

/// Two packages of four CPUs, whose domains save power: 0 to 3 and 4 to 7.
fn saving_domains() -> Domains {
    let text = Machine::preset_text("generic").expect("a preset");
    let begin = text.find("[topology]").expect("a topology");
    let end = text.find("# The whole core's").expect("a comment after it");
    let topology = "[topology]\npackages = 2\ncores_per_llc = 4\nthreads_per_core = 1\n\n\
                    [numa]\ndistances = [[10, 20], [20, 10]]\n\n";
    let text = format!("{}{topology}{}", &text[..begin], &text[end..]);
    let text = text.replace("throughput = [1.0, 1.25]", "throughput = [1.0]");
    let text = text.replace("power = [1.0, 1.15]", "power = [1.0]");
    let machine = Machine::parse(&text, "test".as_ref()).unwrap_or_else(|e| panic!("{e}"));
    let mut domains = build_domains(&machine, DomainRules::CURRENT);
    for domain in domains.domains.iter_mut().filter(|domain| domain.weight == 8) {
        domain.flags.0 |= DomainFlags::POWERSAVINGS_BALANCE.0;
    }
    domains
}

#[test]
fn pull_the_first_idle_cpu_owns_balancing_and_keeps_its_tick() {
    let (mut pull, domains) = (busy_pull(), Domains::new(4));
    assert_eq!(pull.nominate(cpu(2), &domains), KEEPS);
    assert_eq!((pull.load_balancer, pull.cpu_mask), (Some(cpu(2)), cpus(&[2])));
    assert_eq!(pull.nominate(cpu(1), &domains), STOPS, "somebody owns it");
    assert_eq!(pull.nominate(cpu(2), &domains), KEEPS, "the owner goes round its idle loop");
    assert_eq!((pull.load_balancer, pull.cpu_mask), (Some(cpu(2)), cpus(&[1, 2])));
    assert_eq!(pull.in_nohz_recently, cpus(&[1, 2]));
}

#[test]
fn pull_nobody_balances_once_everybody_idles() {
    let (mut pull, domains) = (busy_pull(), Domains::new(4));
    for (number, expected) in [(0, KEEPS), (1, STOPS), (2, STOPS), (3, STOPS)] {
        assert_eq!(pull.nominate(cpu(number), &domains), expected, "CPU {number}");
    }
    // The last one could not tell the owner, who finds out by its tick.
    assert_eq!(pull.load_balancer, Some(cpu(0)));
    let round = TickOutcome { resched: Some(cpu(0)), softirq: false };
    assert_eq!(pull.tick(cpu(0), true, true, &domains), round, "even if it is due");
    assert_eq!(pull.nominate(cpu(0), &domains), STOPS);
    assert_eq!((pull.load_balancer, pull.cpu_mask), (None, CpuSet::first_n(4)));
}

#[test]
fn pull_leaving_the_mask_gives_ownership_up() {
    let (mut pull, domains) = (busy_pull(), Domains::new(4));
    _ = pull.nominate(cpu(1), &domains);
    _ = pull.nominate(cpu(3), &domains);
    pull.leave(cpu(0));
    assert_eq!((pull.load_balancer, pull.cpu_mask), (Some(cpu(1)), cpus(&[1, 3])), "was not in");
    pull.leave(cpu(3));
    assert_eq!((pull.load_balancer, pull.cpu_mask), (Some(cpu(1)), cpus(&[1])));
    pull.leave(cpu(1));
    assert_eq!((pull.load_balancer, pull.cpu_mask), (None, CpuSet::EMPTY));
}

#[test]
fn pull_the_first_busy_tick_finds_a_new_owner() {
    let (mut pull, domains) = (busy_pull(), Domains::new(4));
    _ = pull.nominate(cpu(1), &domains);
    _ = pull.nominate(cpu(2), &domains);
    _ = pull.nominate(cpu(3), &domains);
    // The owner has run a task since; its tick never stopped, so it is still in the mask.
    let found = TickOutcome { resched: Some(cpu(2)), softirq: true };
    assert_eq!(pull.tick(cpu(1), false, true, &domains), found);
    assert_eq!((pull.load_balancer, pull.cpu_mask), (None, cpus(&[2, 3])));
    // Only once.
    assert_eq!(pull.tick(cpu(1), false, false, &domains), NOTHING);
    assert_eq!(pull.tick(cpu(1), false, true, &domains), SOFTIRQ);
    // CPU 3 was tickless, too; CPU 2 has taken over meanwhile.
    assert_eq!(pull.nominate(cpu(2), &domains), KEEPS);
    pull.leave(cpu(3));
    assert_eq!(pull.tick(cpu(3), false, false, &domains), NOTHING);
    assert_eq!((pull.load_balancer, pull.cpu_mask), (Some(cpu(2)), cpus(&[2])));
    // Nobody idles: nobody can be asked.
    assert_eq!(pull.tick(cpu(2), false, false, &domains), NOTHING);
    assert_eq!((pull.load_balancer, pull.cpu_mask), (None, CpuSet::EMPTY));
}

#[test]
fn pull_only_the_owner_balances_while_idle() {
    let (mut pull, domains) = (busy_pull(), Domains::new(4));
    _ = pull.nominate(cpu(0), &domains);
    _ = pull.nominate(cpu(2), &domains);
    assert_eq!(pull.tick(cpu(0), true, true, &domains), SOFTIRQ);
    assert_eq!(pull.tick(cpu(0), true, false, &domains), NOTHING, "nothing is due");
    assert_eq!(pull.tick(cpu(2), true, true, &domains), NOTHING, "left to the owner");
    assert_eq!(pull.tick(cpu(3), true, true, &domains), SOFTIRQ, "idle, but not in the mask");
    assert_eq!(pull.others(cpu(0), true), cpus(&[2]));
    assert_eq!(pull.others(cpu(0), false), CpuSet::EMPTY, "its tick found it busy");
    assert_eq!(pull.others(cpu(2), true), CpuSet::EMPTY, "not the owner");
}

#[test]
fn pull_with_power_savings_lets_a_partly_busy_package_balance() {
    let domains = saving_domains();
    let mut pull = Pull::new(CpuSet::first_n(8), true);
    // CPU 6 is busy, all others idle: the first package could sleep.
    pull.leave(cpu(6));
    pull.load_balancer = Some(cpu(0));
    let better = Nomination { keeps_tick: false, resched: Some(cpu(4)) };
    assert_eq!(pull.nominate(cpu(0), &domains), better);
    assert_eq!(pull.load_balancer, None);
    assert_eq!(pull.nominate(cpu(4), &domains), KEEPS, "whoever comes first without an owner");
    assert_eq!(pull.nominate(cpu(4), &domains), KEEPS, "there is no better one");
    // A busy CPU asks the same.
    pull.load_balancer = None;
    pull.in_nohz_recently.insert(cpu(6));
    let found = TickOutcome { resched: Some(cpu(4)), softirq: false };
    assert_eq!(pull.tick(cpu(6), false, false, &domains), found);
    // With one idle CPU there is no choice.
    pull.cpu_mask = cpus(&[1]);
    pull.in_nohz_recently.insert(cpu(6));
    let found = TickOutcome { resched: Some(cpu(1)), softirq: false };
    assert_eq!(pull.tick(cpu(6), false, false, &domains), found);
}

/// Four CPUs, of which these idle.
fn push(idle: &[u32]) -> Push {
    let mut push = Push::new(false);
    for &number in idle {
        assert_eq!(push.enter(cpu(number), &Domains::new(4)), None);
    }
    push
}

#[test]
fn push_the_first_idle_cpu_is_kicked_first() {
    let mut push = push(&[3, 1]);
    assert_eq!((push.load_balancer, push.idle_cpus), (Some(cpu(3)), cpus(&[1, 3])));
    push.leave(cpu(3));
    assert_eq!((push.load_balancer, push.idle_cpus), (None, cpus(&[1])));
    // Without an owner, it is the first that idles.
    assert_eq!(push.kick(), Some(cpu(1)));
    push.leave(cpu(1));
    assert_eq!(push.kick(), None, "nobody idles");
    assert_eq!(push.next_balance, 2, "and yet time goes on");
}

#[test]
fn push_one_running_task_needs_no_kick_and_a_second_one_does() {
    let mut push = push(&[2, 3]);
    assert!(!push.kick_needed(cpu(0), false, 1, 10));
    assert_eq!((push.first_pick, push.second_pick), (Some(cpu(0)), None));
    assert!(push.kick_needed(cpu(0), false, 2, 10), "the first pick has two");
    assert!(push.kick_needed(cpu(1), false, 1, 10), "the second pick has any");
    assert_eq!((push.first_pick, push.second_pick), (Some(cpu(0)), Some(cpu(1))));
    assert!(!push.kick_needed(cpu(1), false, 0, 10), "but it must have one");
    assert!(!push.kick_needed(cpu(3), false, 5, 10), "both picks are taken");
    assert!(!push.kick_needed(cpu(0), true, 2, 10), "its tick found it idle");
    push.next_balance = 11;
    assert!(!push.kick_needed(cpu(0), false, 2, 10), "nothing is due");
    assert!(push.kick_needed(cpu(0), false, 2, 11));
}

#[test]
fn push_a_cpu_that_idles_is_no_pick_and_the_second_moves_up() {
    let mut push = push(&[2, 3]);
    _ = push.kick_needed(cpu(0), false, 1, 0);
    _ = push.kick_needed(cpu(1), false, 1, 0);
    _ = push.enter(cpu(0), &Domains::new(4));
    assert_eq!((push.first_pick, push.second_pick), (None, Some(cpu(1))));
    assert!(!push.kick_needed(cpu(1), false, 1, 0), "it is the only one now");
    assert_eq!((push.first_pick, push.second_pick), (Some(cpu(1)), None));
    _ = push.enter(cpu(1), &Domains::new(4));
    assert_eq!((push.first_pick, push.second_pick), (None, None));
}

#[test]
fn push_a_kicked_cpu_is_not_interrupted_again_before_it_answers() {
    let mut push = push(&[2, 3]);
    assert_eq!(push.kick(), Some(cpu(2)));
    assert_eq!(push.kick(), None);
    assert_eq!(push.others(cpu(2)), Some(cpus(&[3])));
    assert_eq!(push.others(cpu(3)), None, "nobody kicked it");
    push.answered(cpu(2), 77);
    assert_eq!((push.next_balance, push.kicked), (77, CpuSet::EMPTY));
    assert_eq!(push.kick(), Some(cpu(2)));
    assert_eq!(push.next_balance, 78);
}

#[test]
fn push_with_power_savings_prefers_a_partly_busy_package() {
    let domains = saving_domains();
    let mut push = Push::new(true);
    assert_eq!(push.enter(cpu(4), &domains), None);
    assert_eq!(push.load_balancer, Some(cpu(4)), "one idle CPU leaves no choice");
    push.load_balancer = None;
    for number in [0, 1, 2] {
        push.idle_cpus.insert(cpu(number));
    }
    // Now the first package idles: its last CPU sees that one of the other idles beside busy ones.
    assert_eq!(push.enter(cpu(3), &domains), Some(cpu(4)));
    assert_eq!(push.load_balancer, None);
}

/// What happens to one CPU of a random history.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A task comes, or comes in addition.
    Wake(u32),
    /// A task goes.
    Sleep(u32),
    /// A jiffy passes: whoever ticks does.
    Tick,
}

fn steps(cpus: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..cpus).prop_map(Step::Wake),
        2 => (0..cpus).prop_map(Step::Sleep),
        3 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..200)
}

/// A machine under `pull`.
struct PullMachine {
    pull: Pull,
    domains: Domains,
    tasks: Vec<u32>,
    ticks: Vec<bool>,
}

impl PullMachine {
    fn idle(&mut self, number: usize) {
        let nomination = self.pull.nominate(cpu(number as u32), &self.domains);
        assert_eq!(nomination.resched, None);
        self.ticks[number] = nomination.keeps_tick;
    }

    fn go_round(&mut self, number: usize) {
        if self.tasks[number] == 0 {
            if !self.ticks[number] {
                self.pull.leave(cpu(number as u32));
                self.ticks[number] = true;
            }
            self.idle(number);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wake(at) => {
                let at = at as usize;
                self.tasks[at] += 1;
                if !std::mem::replace(&mut self.ticks[at], true) {
                    self.pull.leave(cpu(at as u32));
                }
            }
            Step::Sleep(at) => {
                let at = at as usize;
                if self.tasks[at] > 0 {
                    self.tasks[at] -= 1;
                    if self.tasks[at] == 0 {
                        self.idle(at);
                    }
                }
            }
            Step::Tick => {
                for at in 0..self.tasks.len() {
                    if !self.ticks[at] {
                        continue;
                    }
                    let idle = self.tasks[at] == 0;
                    let outcome = self.pull.tick(cpu(at as u32), idle, false, &self.domains);
                    if let Some(resched) = outcome.resched {
                        self.go_round(resched.index());
                    }
                }
            }
        }
    }

    fn idle_tickers(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|&at| self.tasks[at] == 0 && self.ticks[at]).collect()
    }
}

proptest! {
    #[test]
    fn pull_has_one_owner_at_most_and_rests_when_all_idle(count in 1_u32..9, steps in steps(8)) {
        let mut machine = PullMachine {
            pull: Pull::new(CpuSet::first_n(count as usize), false),
            domains: Domains::new(count as usize),
            tasks: vec![0; count as usize],
            ticks: vec![false; count as usize],
        };
        for step in steps {
            match step {
                Step::Wake(at) | Step::Sleep(at) if at >= count => continue,
                _ => machine.step(step),
            }
            prop_assert_eq!(machine.pull.verify(), Ok(()));
            let tickers = machine.idle_tickers();
            prop_assert!(tickers.len() <= 1, "{:?} tick while idle", tickers);
            if let Some(&at) = tickers.first() {
                prop_assert_eq!(machine.pull.load_balancer, Some(cpu(at as u32)));
            }
        }
        // From here on everybody idles: with the next tick, nobody ticks any more.
        for at in 0..count {
            while machine.tasks[at as usize] > 0 {
                machine.step(Step::Sleep(at));
            }
        }
        machine.step(Step::Tick);
        prop_assert_eq!(machine.idle_tickers(), Vec::<usize>::new());
        prop_assert_eq!(machine.pull.load_balancer, None);
        // One task: its first busy tick finds an owner, who ticks on.
        if count > 1 {
            machine.step(Step::Wake(count - 1));
            machine.step(Step::Tick);
            prop_assert_eq!(machine.idle_tickers(), vec![0]);
        }
    }

    #[test]
    fn push_kicks_once_a_jiffy_at_most_and_never_for_one_task(
        count in 2_u32..9,
        steps in steps(8),
        waits in prop::collection::vec(1_u64..6, 200),
    ) {
        let domains = Domains::new(count as usize);
        let mut push = Push::new(false);
        let mut tasks = vec![0_u32; count as usize];
        for at in 0..count {
            _ = push.enter(cpu(at), &domains);
        }
        let mut waits = waits.into_iter().cycle();
        let mut jiffies = 0;
        for step in steps {
            match step {
                Step::Wake(at) | Step::Sleep(at) if at >= count => continue,
                Step::Wake(at) => {
                    if tasks[at as usize] == 0 {
                        push.leave(cpu(at));
                    }
                    tasks[at as usize] += 1;
                }
                Step::Sleep(at) => {
                    let tasks = &mut tasks[at as usize];
                    if *tasks == 1 {
                        _ = push.enter(cpu(at), &domains);
                    }
                    *tasks = tasks.saturating_sub(1);
                }
                Step::Tick => {
                    jiffies += 1;
                    let mut kicks = 0;
                    for at in 0..count {
                        let running = tasks[at as usize];
                        if running == 0 || !push.kick_needed(cpu(at), false, running, jiffies) {
                            continue;
                        }
                        let idle = push.idle_cpus;
                        let Some(target) = push.kick() else {
                            prop_assert!(idle.is_empty());
                            continue;
                        };
                        prop_assert!(idle.contains(target));
                        kicks += 1;
                        push.answered(target, jiffies + waits.next().unwrap_or(1));
                    }
                    prop_assert!(kicks <= 1, "{} kicks in jiffy {}", kicks, jiffies);
                    prop_assert!(kicks == 0 || tasks.iter().sum::<u32>() > 1);
                }
            }
            prop_assert_eq!(push.verify(), Ok(()));
        }
    }
}

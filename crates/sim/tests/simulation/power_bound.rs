//! Under `powersaving`, no task waits for long while its group has more than its threshold and another
//! group of the domain idles: on random machines, under random policies, when tasks come at once and
//! end at different times.
//! `SCHEDLAB_SWARM` says how many cases (40 by default), `SCHEDLAB_SWARM_SEED` where they begin.

use crate::draw::{Dice, kernel, machine, try_seeds};
use schedlab_kernel::fair::balance::BalanceMode;
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::nohz::NohzRules;
use schedlab_kernel::fair::power_aware::PowerRules;
use schedlab_kernel::fair::topology::{DomainFlags, Domains};
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::Scheduler;
use schedlab_machine::{CpuId, Machine};
use schedlab_sim::{Engine, Nothing, Settings};
use schedlab_workload::build::Builder;
use schedlab_workload::program::{Amount, Op, Workload};

const MS: u64 = 1_000_000;

/// The bound. An idle CPU balances a domain at the longest every `max_interval`, times `busy_factor`
/// if a tick found it busy just before. The average of 32 ms that a threshold is held against needs
/// three of them to grow from nothing, and 200 ms are for kicks, ticks and sleeping CPUs.
fn bound_ns(domains: &Domains, cpu: CpuId) -> u64 {
    let stack = domains.stack(cpu).iter().map(|&m| domains.get(m));
    let near = stack.filter(|domain| !domain.flags.has(DomainFlags::NUMA));
    let longest =
        near.map(|domain| 2 * u64::from(domain.busy_factor) * u64::from(domain.interval_max_ms));
    (longest.max().unwrap_or(0) + 3 * 32 + 200) * MS
}

/// Since when each CPU with a waiting task is seen in a group over its threshold beside an idle one:
/// that moment and the idle group's first CPU.
struct Watch {
    rules: PowerRules,
    beside: Vec<Option<(u64, CpuId)>>,
    bounds_ns: Vec<u64>,
    over: u64,
}

impl Watch {
    fn new(rules: PowerRules, domains: &Domains, cpus: usize) -> Watch {
        let bounds = (0..cpus).map(|cpu| bound_ns(domains, CpuId(cpu as u32)));
        Watch { rules, beside: vec![None; cpus], bounds_ns: bounds.collect(), over: 0 }
    }

    /// The first CPU of a group that idles as a whole in a domain where the group of `cpu` uses more
    /// than it is to.
    fn idle_group(&self, scheduler: &Scheduler, cpu: CpuId) -> Option<CpuId> {
        let (domains, views) = (scheduler.domains(), scheduler.classic_cpus());
        let stack = domains.stack(cpu).iter();
        let near = stack.filter(|&&m| !domains.get(m).flags.has(DomainFlags::NUMA));
        near.copied().find_map(|membership| {
            let flags = domains.get(membership).flags;
            let mut ring = domains.ring(membership);
            let own = ring.next()?;
            let used: u64 =
                own.span.iter().map(|at| self.rules.max_util(&views[at.index()], false)).sum();
            if used <= self.rules.room(own, flags) {
                return None;
            }
            let idles = |at: CpuId| scheduler.cpus()[at.index()].is_idle();
            ring.find(|group| group.span.iter().all(idles)).and_then(|group| group.span.first())
        })
    }

    fn look(&mut self, scheduler: &Scheduler, now_ns: u64) -> Result<(), String> {
        for index in 0..self.beside.len() {
            let waits = scheduler.cpus()[index].h_nr_queued >= 2;
            let idle = if waits { self.idle_group(scheduler, CpuId(index as u32)) } else { None };
            let Some(idle) = idle else {
                self.beside[index] = None;
                continue;
            };
            self.over += 1;
            let (since_ns, _) = *self.beside[index].get_or_insert((now_ns, idle));
            if now_ns.saturating_sub(since_ns) > self.bounds_ns[index] {
                return Err(format!(
                    "CPU {index} has a task that waits since {since_ns} ns in a group over its \
                     threshold, while the group of CPU {} idles at {now_ns} ns",
                    idle.0
                ));
            }
        }
        Ok(())
    }
}

/// Up to twice as many tasks as CPUs, all born at one of them, which run for different times.
fn workload(dice: &mut Dice, cpus: u32) -> Workload {
    let mut build = Builder::new("storm");
    let tasks = dice.within(2, 2 * u64::from(cpus)) as u32;
    let part = Amount::Uniform { low: MS, high: dice.within(2, 60) * MS };
    let parts = dice.within(10, 60);
    let sleeps = dice.chance(30);
    let program = build.program("hog", |code| {
        code.repeat(parts, |code| {
            code.op(Op::Run(part));
            if sleeps {
                code.op(Op::Sleep(Amount::Uniform { low: 10_000, high: 3 * MS }));
            }
        });
    });
    let parent = build.program("parent", |code| {
        code.op(Op::Fork { program, count: tasks, thread: true }).op(Op::Join);
    });
    build.spawn(parent, dice.below(u64::from(cpus)) as u32, 0);
    build.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// A kernel that packs tasks and whose idle CPUs are found.
fn packs(kernel: &Kernel) -> Option<PowerRules> {
    let classic = kernel.classic.filter(|classic| classic.mode == BalanceMode::Full)?;
    classic
        .power
        .filter(|power| power.saves() && kernel.nohz != (NohzRules::Push { stale_kick: true }))
}

/// How many looks saw a waiting task in a group over its threshold beside an idle one.
fn run(machine: &Machine, kernel: &Kernel, workload: &Workload, seed: u64) -> Result<u64, String> {
    let Some(rules) = kernel.classic.and_then(|classic| classic.power) else { return Ok(0) };
    let settings = Settings::new(kernel, machine, 2_000 * MS, seed);
    let domains = build_domains(machine, kernel.domains);
    let mut watch = Watch::new(rules, &domains, machine.cpu_count());
    let mut engine = Engine::new(machine, domains, workload, &settings, Nothing);
    while engine.advance(settings.duration_ns, 3).is_none() {
        let at = |what| format!("{rules:?} on {} CPUs: {what}", machine.cpu_count());
        watch.look(engine.scheduler(), engine.now_ns()).map_err(at)?;
    }
    Ok(watch.over)
}

/// One drawn case, if its kernel packs.
fn case(seed: u64) -> Result<Option<u64>, String> {
    let mut dice = Dice::new(seed);
    let machine = machine(&mut dice);
    // One kernel in a few packs; the dice go on until they show one.
    let kernel = (0..200).map(|_| kernel(&mut dice)).find(|kernel| packs(kernel).is_some());
    let Some(kernel) = kernel else { return Ok(None) };
    let workload = workload(&mut dice, machine.cpu_count() as u32);
    run(&machine, &kernel, &workload, seed).map(Some)
}

/// The watch can fail: where nothing balances, what fork stacked up stays so.
#[test]
fn without_balancing_tasks_wait_on() {
    let machine = Machine::preset("power7-2s").expect("a preset");
    let text = Kernel::preset_text("v3.9-power").expect("a preset");
    let text = text.replace("mode = \"full\"", "mode = \"none\"");
    let kernel = Kernel::from_toml("k.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let workload = workload(&mut Dice::new(1), 16);
    assert!(run(&machine, &kernel, &workload, 1).is_err());
}

#[test]
fn tasks_over_a_threshold_find_idle_groups() {
    let mut over = 0;
    let count = try_seeds(40, |seed| {
        over += u64::from(case(seed)?.is_some_and(|seen| seen > 0));
        Ok(())
    });
    assert!(count < 40 || over > count / 8, "{over} of {count} cases ever went over a threshold");
}

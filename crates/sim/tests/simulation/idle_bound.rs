//! No CPU idles for long while another one of its cache has two tasks: on random machines, under
//! random kernels, when tasks come at once and end at different times.
//! `SCHEDLAB_SWARM` says how many cases (100 by default), `SCHEDLAB_SWARM_SEED` where they begin.

use crate::draw::{Dice, kernel, machine, try_seeds};
use schedlab_kernel::fair::balance::BalanceMode;
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::nohz::NohzRules;
use schedlab_kernel::fair::topology::Domains;
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::Scheduler;
use schedlab_machine::{CpuId, Machine};
use schedlab_sim::{Engine, Nothing, Settings};
use schedlab_workload::build::Builder;
use schedlab_workload::program::{Amount, Op, Workload};

const MS: u64 = 1_000_000;

/// The bound. An idle CPU balances the domains of its cache at the longest every `max_interval`, and
/// moves a task that waits and is not cache-hot at the first attempt, any task after as many failures
/// as `cache_nice_tries` and four more allow. Up to 2.6.36, an idle thread beside a busy one counts
/// as busy where cores are balanced, so that it takes `busy_factor` times as long, and twice that if
/// load over time has yet to grow. 100 ms are for kicks, ticks and sleeping CPUs.
fn bound_ns(kernel: &Kernel, domains: &Domains, cpu: CpuId) -> u64 {
    let Some(llc) = domains.llc(cpu) else { return u64::MAX };
    let stack = domains.stack(cpu).iter().map(|&m| domains.get(m));
    let within = stack.take_while(|domain| domain.weight <= domains.get(llc).weight);
    let longest = within.map(|domain| {
        let interval_ms = u64::from(domain.interval_max_ms);
        match kernel.classic {
            Some(_) => 2 * u64::from(domain.busy_factor) * interval_ms,
            None => u64::from(domain.cache_nice_tries + 4) * interval_ms,
        }
    });
    (longest.max().unwrap_or(0) + 100) * MS
}

/// An idle CPU, since when it idles, and since when it was seen beside a crowded one.
#[derive(Clone, Copy)]
struct Beside {
    idle_cpu: CpuId,
    idle_stamp_ns: u64,
    since_ns: u64,
}

/// Each crowded CPU's idle neighbour.
struct Watch {
    beside: Vec<Option<Beside>>,
    bounds_ns: Vec<u64>,
}

impl Watch {
    fn look(&mut self, scheduler: &Scheduler, now_ns: u64) -> Result<(), String> {
        let (cpus, domains) = (scheduler.cpus(), scheduler.domains());
        for index in 0..cpus.len() {
            let state = &cpus[index];
            let runnable = state.h_nr_queued - state.h_nr_delayed;
            let known = &mut self.beside[index];
            if runnable < 2 {
                *known = None;
                continue;
            }
            let still = known.filter(|beside| {
                let idle = &cpus[beside.idle_cpu.index()];
                idle.is_idle() && idle.idle_stamp_ns == beside.idle_stamp_ns
            });
            let neighbour = || {
                let llc = domains.llc_id(CpuId(index as u32));
                (0..cpus.len()).map(|cpu| CpuId(cpu as u32)).find_map(|cpu| {
                    let idle = &cpus[cpu.index()];
                    (domains.llc_id(cpu) == llc && idle.is_idle()).then_some(Beside {
                        idle_cpu: cpu,
                        idle_stamp_ns: idle.idle_stamp_ns,
                        since_ns: now_ns,
                    })
                })
            };
            *known = still.or_else(neighbour);
            if let Some(beside) = *known
                && now_ns.saturating_sub(beside.since_ns) > self.bounds_ns[index]
            {
                return Err(format!(
                    "CPU {} idles since {} ns beside CPU {index}, which has {runnable} tasks at \
                     {now_ns} ns",
                    beside.idle_cpu.0, beside.since_ns
                ));
            }
        }
        Ok(())
    }
}

/// Up to twice as many tasks as CPUs, which run for different times.
fn workload(dice: &mut Dice, cpus: u32) -> Workload {
    let mut build = Builder::new("crowd");
    let tasks = dice.within(2, 2 * u64::from(cpus));
    for _ in 0..tasks {
        let parts = dice.within(1, 40);
        let part = Amount::Uniform { low: MS, high: dice.within(2, 60) * MS };
        let sleeps = dice.chance(30);
        let program = build.program("hog", |code| {
            code.repeat(parts, |code| {
                code.op(Op::Run(part));
                if sleeps {
                    code.op(Op::Sleep(Amount::Uniform { low: 10_000, high: 3 * MS }));
                }
            });
        });
        build.spawn(program, dice.below(u64::from(cpus)) as u32, dice.below(5 * MS));
    }
    build.finish().unwrap_or_else(|error| panic!("{error}"))
}

fn symmetric(machine: &Machine) -> bool {
    machine.cpu_ids().all(|cpu| machine.capacity(cpu) == 1024)
}

/// Kernels that balance fully. In 2.6.36, a kicked CPU may refuse for good.
fn balances(kernel: &Kernel) -> bool {
    let full = match kernel.classic {
        // To pack tasks is to leave CPUs idle.
        Some(classic) => {
            let packs = classic.saves_power() || classic.power.is_some_and(|power| power.saves());
            classic.mode == BalanceMode::Full && !packs
        }
        None => kernel.balance.mode == BalanceMode::Full,
    };
    full && kernel.nohz != (NohzRules::Push { stale_kick: true })
}

fn case(seed: u64) -> Result<bool, String> {
    let mut dice = Dice::new(seed);
    let machine = machine(&mut dice);
    let kernel = kernel(&mut dice);
    if !symmetric(&machine) || !balances(&kernel) {
        return Ok(false);
    }
    let workload = workload(&mut dice, machine.cpu_count() as u32);
    run(&machine, &kernel, &workload, seed)?;
    Ok(true)
}

/// Runs a case to its end, or to the first CPU that idles for too long.
fn run(machine: &Machine, kernel: &Kernel, workload: &Workload, seed: u64) -> Result<(), String> {
    let settings = Settings::new(kernel, machine, 1500 * MS, seed);
    let domains = build_domains(machine, kernel.domains);
    let bounds = machine.cpu_ids().map(|cpu| bound_ns(kernel, &domains, cpu));
    let mut watch = Watch { beside: vec![None; machine.cpu_count()], bounds_ns: bounds.collect() };
    let mut engine = Engine::new(machine, domains, workload, &settings, Nothing);
    while engine.advance(settings.duration_ns, 3).is_none() {
        let at = |what| format!("{} on {} CPUs: {what}", kernel.name, machine.cpu_count());
        watch.look(engine.scheduler(), engine.now_ns()).map_err(at)?;
    }
    Ok(())
}

/// The watch can fail: without balancing, CPUs idle beside crowded ones.
#[test]
fn without_balancing_cpus_idle_on() {
    let machine = Machine::preset("generic").expect("a preset");
    for (name, seeds) in [("v2.6.32", 1..20), ("v6.12", 1..20)] {
        let text = Kernel::preset_text(name).expect("a preset");
        let text = text.replace("mode = \"full\"", "mode = \"none\"");
        let kernel = Kernel::from_toml(name, &text).unwrap_or_else(|error| panic!("{error}"));
        let idles_on = |seed| {
            let workload = workload(&mut Dice::new(seed), 8);
            run(&machine, &kernel, &workload, seed).is_err()
        };
        assert!(seeds.into_iter().any(idles_on), "{name}");
    }
}

#[test]
fn idle_cpus_find_waiting_tasks() {
    let mut watched = 0;
    let count = try_seeds(100, |seed| {
        watched += u64::from(case(seed)?);
        Ok(())
    });
    assert!(count < 100 || watched > count / 2, "{watched} of {count} cases say anything");
}

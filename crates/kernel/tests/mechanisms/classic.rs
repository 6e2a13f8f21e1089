//! Classic placement and balancing against cases worked out by hand from the code of 2.6.32.

use schedlab_kernel::fair::balance::{BalanceMode, CpuIdle};
use schedlab_kernel::fair::build::{DomainRules, build_domains};
use schedlab_kernel::fair::classic::busiest::Busiest;
use schedlab_kernel::fair::classic::domains::ClassicDomains;
use schedlab_kernel::fair::classic::place::{Chosen, Place, Placed, Woken};
use schedlab_kernel::fair::classic::stats::Search;
use schedlab_kernel::fair::classic::{ClassicRules, CpuView};
use schedlab_kernel::fair::topology::{DomainFlags, Domains};
use schedlab_kernel::fair::wake::WakeRule;
use schedlab_machine::{CpuId, CpuSet, Machine};

const V2_6_32: ClassicRules = ClassicRules {
    mode: BalanceMode::Full,
    missed_ticks_decay: false,
    affine_by_power: false,
    small_capacity: false,
    newidle_counts: false,
    mc_power_savings: 0,
    smt_power_savings: 0,
    v3_9: None,
    power: None,
};

fn cpu(number: u32) -> CpuId {
    CpuId(number)
}

fn domains(topology: &str, savings: ClassicDomains) -> Domains {
    let text = Machine::preset_text("generic").expect("a preset");
    let begin = text.find("[topology]").expect("a topology");
    let end = text.find("# The whole core's").expect("a comment after it");
    let mut text = format!("{}[topology]\n{topology}\n\n{}", &text[..begin], &text[end..]);
    if !topology.contains("threads_per_core = 2") {
        text = text.replace("throughput = [1.0, 1.25]", "throughput = [1.0]");
        text = text.replace("power = [1.0, 1.15]", "power = [1.0]");
    }
    let machine = Machine::parse(&text, "test".as_ref()).unwrap_or_else(|e| panic!("{e}"));
    build_domains(&machine, DomainRules::classic(savings))
}

/// Four cores in one cache.
fn quad() -> Domains {
    domains("cores_per_llc = 4\nthreads_per_core = 1", ClassicDomains::default())
}

/// Two cores of two threads: 0 and 1, 2 and 3.
fn threaded() -> Domains {
    let topology = "cores_per_llc = 2\nthreads_per_core = 2\nnumbering = \"threads-adjacent\"";
    domains(topology, ClassicDomains::default())
}

/// CPUs with so many tasks of nice 0.
fn running(tasks: &[u32]) -> Vec<CpuView> {
    let view = |&tasks: &u32| CpuView {
        weight: 1024 * u64::from(tasks),
        nr_running: tasks,
        cfs_nr_running: tasks,
        idle: tasks == 0,
        ..CpuView::default()
    };
    tasks.iter().map(view).collect()
}

struct Case<'a> {
    domains: &'a Domains,
    cpus: Vec<CpuView>,
    rules: ClassicRules,
}

impl Case<'_> {
    /// First CPU of the busiest group, the load to move, the queue to take it from, and whether the
    /// CPUs of the domain all idle.
    fn busiest(
        &self,
        this_cpu: u32,
        level: usize,
        idle: CpuIdle,
    ) -> (Option<(u32, u64, Option<u32>)>, bool) {
        let candidates = CpuSet::first_n(self.cpus.len());
        let search = Search {
            domains: self.domains,
            cpus: &self.cpus,
            this_cpu: cpu(this_cpu),
            level,
            idle,
            candidates: &candidates,
            rules: self.rules,
        };
        let mut sd_idle = idle.is_idle() && search.minds_siblings();
        let found = match search.find_busiest_group(&mut sd_idle) {
            Busiest::NotOurs | Busiest::Balanced => None,
            Busiest::Group(group, amount) => {
                let queue = search.find_busiest_queue(group, amount, false);
                Some((group.span.first().map_or(0, |c| c.0), amount, queue.map(|queue| queue.0)))
            }
        };
        (found, sd_idle)
    }
}

#[test]
fn domains_have_the_values_of_that_time() {
    let machine = Machine::preset("nehalem-ep-2s").expect("a preset");
    let domains = build_domains(&machine, DomainRules::classic(ClassicDomains::default()));
    let seen: Vec<_> = domains
        .stack(cpu(0))
        .iter()
        .map(|&m| domains.get(m))
        .map(|d| {
            let intervals = (d.balance_interval_ms, d.interval_max_ms, d.busy_factor);
            (d.name, d.weight, intervals, d.imbalance_pct, d.cache_nice_tries, d.groups.len())
        })
        .collect();
    // The package is the cache, and one domain of two nodes lies above.
    let expected = [
        ("SIBLING", 2, (1, 2, 64), 110, 0, 2),
        ("MC", 8, (1, 4, 64), 125, 1, 4),
        ("NODE", 16, (8, 32, 32), 125, 2, 2),
    ];
    assert_eq!(seen, expected);
    let powers: Vec<u64> =
        domains.stack(cpu(0)).iter().map(|&m| domains.get(m).groups[0].capacity).collect();
    assert_eq!(powers, [589, 2 * 589, 8 * 589], "a core of two threads is worth 1.15 CPUs");
    let flags: Vec<_> = domains.stack(cpu(0)).iter().map(|&m| domains.get(m).flags).collect();
    assert!(
        !flags[0].has(DomainFlags::PREFER_SIBLING) && flags[1].has(DomainFlags::PREFER_SIBLING)
    );
    assert!(flags[2].has(DomainFlags::SERIALIZE) && !flags[2].has(DomainFlags::OVERLAP));
}

#[test]
fn a_level_stays_for_its_flags_alone() {
    let machine = Machine::preset("atom-netbook-ht").expect("a preset");
    let names = |savings| {
        let domains = build_domains(&machine, DomainRules::classic(savings));
        let stack = domains.stack(cpu(0)).iter();
        stack.map(|&m| (domains.get(m).name, domains.get(m).groups.len())).collect::<Vec<_>>()
    };
    // One core: PREFER_SIBLING is something that the threads' domain does not have.
    assert_eq!(names(ClassicDomains::default()), [("SIBLING", 2), ("MC", 1)]);
    // With sched_mc_power_savings, the cache's domain has nothing to add, but the package's has.
    let packing = ClassicDomains { mc_power_savings: true, ..ClassicDomains::default() };
    assert_eq!(names(packing), [("SIBLING", 2), ("CPU", 1)]);
}

#[test]
fn an_idle_cpu_takes_the_second_task_of_another() {
    let domains = quad();
    let case = Case { domains: &domains, cpus: running(&[2, 1, 1, 0]), rules: V2_6_32 };
    // On average, each CPU has one; CPU 0 has 1024 more than that, and than its power.
    assert_eq!(case.busiest(3, 0, CpuIdle::Idle).0, Some((0, 1024, Some(0))));
    assert_eq!(case.busiest(3, 0, CpuIdle::NewlyIdle).0, Some((0, 1024, Some(0))));
    // CPU 1 is at the average.
    assert_eq!(case.busiest(1, 0, CpuIdle::Busy).0, None);
    // One task each is no more than the power of anybody.
    let case = Case { domains: &domains, cpus: running(&[1, 1, 1, 0]), rules: V2_6_32 };
    assert_eq!(case.busiest(3, 0, CpuIdle::Idle).0, None);
}

#[test]
fn a_busy_cpu_looks_at_its_load_over_time() {
    let domains = quad();
    let mut case = Case { domains: &domains, cpus: running(&[3, 1, 1, 1]), rules: V2_6_32 };
    // busy_idx 2 is cpu_load[1]. CPU 0 got its tasks just now: guessed low, it has no load.
    assert_eq!(case.busiest(1, 0, CpuIdle::Busy).0, None);
    for _ in 0..20 {
        for view in &mut case.cpus {
            view.load.tick(view.weight);
        }
    }
    // 3 of 6 tasks: 1536 each. CPU 0 could give 1536 and CPU 1 take 512, which is less than a task.
    // A difference of two tasks is enough, though: 3072 - 1024 + 1024 >= 2 * 1024.
    assert_eq!(case.busiest(1, 0, CpuIdle::Busy).0, Some((0, 1024, Some(0))));
}

#[test]
fn two_busy_threads_of_a_core_are_one_too_many_beside_an_idle_core() {
    let domains = threaded();
    let case = Case { domains: &domains, cpus: running(&[1, 1, 0, 0]), rules: V2_6_32 };
    // The core's power of 1178 is room for one task. 2048 * 1024 / 1178 = 1780 on the core, 890 on
    // average; 890 * 1178 / 1024 = 1023 is less than the task, which moves all the same, as the
    // difference is more than two tasks: 1780 + 890 >= 2 * 890.
    assert_eq!(case.busiest(2, 1, CpuIdle::Idle).0, Some((0, 1024, Some(0))));
    // It is the first idle CPU of the group that balances.
    assert_eq!(case.busiest(3, 1, CpuIdle::Idle).0, None);
    // One task on each core is balance.
    let case = Case { domains: &domains, cpus: running(&[1, 0, 1, 0]), rules: V2_6_32 };
    assert_eq!(case.busiest(1, 1, CpuIdle::Idle).0, None);
}

#[test]
fn an_idle_thread_beside_a_busy_one_does_not_pass_for_idle() {
    let domains = threaded();
    let case = Case { domains: &domains, cpus: running(&[1, 0, 0, 0]), rules: V2_6_32 };
    assert_eq!(case.busiest(1, 0, CpuIdle::Idle), (None, false));
    assert_eq!(case.busiest(3, 0, CpuIdle::Idle), (None, true));
}

#[test]
fn an_imbalance_within_the_percentage_stays() {
    let domains = quad();
    // 5 against 4: 125 % and no more. CPU 1 is below the average of 4.25.
    let mut case = Case { domains: &domains, cpus: running(&[5, 4, 4, 4]), rules: V2_6_32 };
    for _ in 0..40 {
        for view in &mut case.cpus {
            view.load.tick(view.weight);
        }
    }
    assert_eq!(case.busiest(1, 0, CpuIdle::Busy).0, None);
    case.cpus[0].weight += 1024;
    case.cpus[0].nr_running += 1;
    for _ in 0..40 {
        let view = &mut case.cpus[0];
        view.load.tick(view.weight);
    }
    // 6 against 4 of 18 tasks, 4608 on average: CPU 1 is 512 below, CPU 0 1536 above it.
    assert_eq!(case.busiest(1, 0, CpuIdle::Busy).0, Some((0, 1024, Some(0))));
}

#[test]
fn packing_empties_the_emptiest_group_into_the_fullest_that_has_room() {
    let savings = ClassicDomains { mc_power_savings: true, ..ClassicDomains::default() };
    // Two packages of four cores on one node.
    let topology = "packages = 1\nllcs_per_node = 2\ncores_per_llc = 4\nthreads_per_core = 1";
    let domains = domains(topology, savings);
    assert_eq!(domains.stack(cpu(0)).len(), 2);
    let rules = ClassicRules { mc_power_savings: 1, ..V2_6_32 };
    let cpus = running(&[1, 1, 0, 0, 1, 0, 0, 0]);
    let case = Case { domains: &domains, cpus, rules };
    // Without an imbalance, the second package's task goes to the first one, which leads.
    assert_eq!(case.busiest(2, 1, CpuIdle::Idle).0, Some((4, 1024, Some(4))));
    assert_eq!(case.busiest(5, 1, CpuIdle::Idle).0, None, "not the other way round");
    assert_eq!(case.busiest(0, 1, CpuIdle::Busy).0, None, "nor for busy CPUs");
    let case = Case { rules: V2_6_32, cpus: running(&[1, 1, 1, 1, 1, 0, 0, 0]), ..case };
    assert_eq!(case.busiest(5, 1, CpuIdle::Idle).0, None, "the leader is full");
}

fn wake(domains: &Domains, tasks: &[u32], prev: u32, waker: u32, sync: bool) -> Chosen {
    let cpus = running(tasks);
    let allowed = CpuSet::first_n(cpus.len());
    let placed = Placed { prev_cpu: cpu(prev), weight: 1024, allowed: &allowed, util: 0 };
    let current_weight = if tasks[waker as usize] > 0 { 1024 } else { 0 };
    let woken = Woken { cpu: cpu(waker), sync, current_weight };
    Place { domains, cpus: &cpus, rules: V2_6_32 }.on_wake(&placed, &woken)
}

#[test]
fn a_task_wakes_near_its_waker_if_that_is_no_busier() {
    let quad = quad();
    let chosen = |cpu_at: u32, affine: Option<u32>, rule| Chosen {
        cpu: cpu(cpu_at),
        affine: affine.map(cpu),
        rule,
    };
    // An idle waker's CPU (an interrupt) has no load: it attracts, and is itself the idle one.
    let found = wake(&quad, &[0, 1, 1, 1], 1, 0, false);
    assert_eq!(found, chosen(0, Some(0), WakeRule::TargetFree));
    // 100 * (1024 + 1024) > 112 * 0: it stays where it was, which is free.
    let found = wake(&quad, &[1, 0, 1, 1], 1, 0, false);
    assert_eq!(found, chosen(1, Some(1), WakeRule::TargetFree));
    // A sync waker's own task does not count, so that nothing is left: near the waker, on the first
    // idle CPU of the cache.
    let found = wake(&quad, &[1, 1, 0, 0], 1, 0, true);
    assert_eq!(found, chosen(2, Some(0), WakeRule::FreeCpu));
    // Not sync: 204800 > 112 * 1024, and 1024 <= 1024, but 2048 > 1024: where it was, or idle there.
    let found = wake(&quad, &[1, 1, 0, 0], 1, 0, false);
    assert_eq!(found, chosen(2, Some(1), WakeRule::FreeCpu));
    let found = wake(&quad, &[1, 1, 1, 1], 1, 0, false);
    assert_eq!(found, chosen(1, Some(1), WakeRule::NothingFree));
    // Woken where it was: nothing to weigh.
    let found = wake(&quad, &[2, 1, 1, 0], 0, 0, false);
    assert_eq!(found, chosen(3, None, WakeRule::FreeCpu));
}

#[test]
fn forks_go_to_the_least_loaded_group_and_cpu() {
    let domains = threaded();
    let allowed = CpuSet::first_n(4);
    let fork = |tasks: &[u32], from: u32| {
        let cpus = running(tasks);
        let placed = Placed { prev_cpu: cpu(from), weight: 1024, allowed: &allowed, util: 0 };
        let place = Place { domains: &domains, cpus: &cpus, rules: V2_6_32 };
        let mut log = Vec::new();
        let to = place.slow(&placed, cpu(from), DomainFlags::BALANCE_FORK, Some(&mut log));
        (to.0, log.len())
    };
    // The other core is idle, and CPU 2 its first thread. Beside it, CPU 3 is no less loaded, but
    // 100 * 0 < 112 * 0 does not hold, so that the task goes there, as in the kernel.
    assert_eq!(fork(&[1, 0, 0, 0], 0), (3, 2));
    // Both cores are as busy: 100 * 1 < 112 * 1 stays, and the idle thread is taken.
    assert_eq!(fork(&[1, 0, 1, 0], 0), (1, 2));
    assert_eq!(fork(&[1, 1, 1, 1], 0), (0, 2));
    assert_eq!(fork(&[2, 1, 1, 1], 0), (2, 2), "3 against 2 is more than 12 %");
    assert_eq!(fork(&[0, 0, 0, 0], 0), (3, 2), "the same happens twice on an empty machine");
}

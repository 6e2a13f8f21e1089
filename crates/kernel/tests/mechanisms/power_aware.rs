//! Balancing of 3.9 and power-aware scheduling against cases worked out by hand from the code of that
//! release and of the series, on two POWER7 sockets: 16 cores of 4 threads, CPU number = 4 * core +
//! thread.

use schedlab_kernel::fair::balance::{BalanceMode, CpuIdle};
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::fair::classic::busiest::Busiest;
use schedlab_kernel::fair::classic::load::CpuLoad;
use schedlab_kernel::fair::classic::place::{Place, Placed, Woken};
use schedlab_kernel::fair::classic::stats::Search;
use schedlab_kernel::fair::classic::{ClassicRules, CpuView, V39Rules};
use schedlab_kernel::fair::power_aware::balance::{LazyHistory, Moment};
use schedlab_kernel::fair::power_aware::{PowerPolicy, PowerRules, Threshold, Utilisation};
use schedlab_kernel::fair::topology::{DomainFlags, Domains};
use schedlab_kernel::fair::wake::WakeRule;
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::TtwuQueue;
use schedlab_machine::{CpuId, CpuSet, Machine};

const V3_9: ClassicRules = ClassicRules {
    mode: BalanceMode::Full,
    missed_ticks_decay: true,
    affine_by_power: true,
    small_capacity: true,
    newidle_counts: true,
    mc_power_savings: 0,
    smt_power_savings: 0,
    v3_9: Some(V39Rules {
        ttwu_queue: TtwuQueue::OtherCache,
        smt_asym_packing: true,
        reclaim_distance: 30,
        smt_gain: 1178,
    }),
    power: None,
};

const SAVING: PowerRules = PowerRules {
    policy: PowerPolicy::Powersaving,
    threshold: Threshold::GroupWeight,
    utilisation: Utilisation::FairAlone,
    burst_threshold_ns: 100_000,
    thread_is_room: true,
    small_tasks: true,
    lazy: true,
};

fn with(power: PowerRules) -> ClassicRules {
    ClassicRules { power: Some(power), ..V3_9 }
}

fn domains() -> Domains {
    let machine = Machine::preset("power7-2s").expect("a preset");
    let text = Kernel::preset_text("v3.9").expect("a preset");
    let text = text.replace("smt_asym_packing = false", "smt_asym_packing = true");
    let kernel = Kernel::from_toml("k.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    build_domains(&machine, kernel.domains)
}

/// Busy CPUs, each with so many tasks of nice 0 and this utilisation; the others have idled for long.
fn running(tasks: &[(u32, u32, u64)]) -> Vec<CpuView> {
    let idle = CpuView { idle: true, avg_idle_ns: 1_000_000, ..CpuView::default() };
    let mut cpus = vec![idle; 64];
    for &(cpu, nr_running, util) in tasks {
        let weight = 1024 * u64::from(nr_running);
        let mut load = CpuLoad::default();
        (0..100).for_each(|_| load.tick(weight));
        let busy = CpuView { weight, nr_running, cfs_nr_running: nr_running, util, load, ..idle };
        cpus[cpu as usize] = CpuView { idle: false, ..busy };
    }
    cpus
}

/// Where a task that needs so much of a CPU is born if CPU `from` forks it.
fn born(rules: ClassicRules, cpus: &[CpuView], from: u32, util: u64) -> u32 {
    let domains = domains();
    let allowed = CpuSet::first_n(64);
    let task = Placed { prev_cpu: CpuId(from), weight: 1024, allowed: &allowed, util };
    let place = Place { domains: &domains, cpus, rules };
    place.slow(&task, CpuId(from), DomainFlags::BALANCE_FORK, None).0
}

fn wakes(rules: ClassicRules, cpus: &[CpuView], waker: u32, util: u64) -> (u32, WakeRule) {
    let domains = domains();
    let allowed = CpuSet::first_n(64);
    let task = Placed { prev_cpu: CpuId(20), weight: 1024, allowed: &allowed, util };
    let woken = Woken { cpu: CpuId(waker), sync: false, current_weight: 1024 };
    let chosen = Place { domains: &domains, cpus, rules }.on_wake(&task, &woken);
    (chosen.cpu.0, chosen.rule)
}

/// What an idle CPU would pull at a level: the first CPU of the group, how much, and whether that
/// group is being emptied.
fn pulls(
    rules: ClassicRules,
    cpus: &[CpuView],
    (cpu, level): (u32, usize),
    history: &mut LazyHistory,
) -> Option<(u32, u64, bool)> {
    let domains = domains();
    let candidates = CpuSet::first_n(64);
    let (this_cpu, idle) = (CpuId(cpu), CpuIdle::Idle);
    let search =
        Search { domains: &domains, cpus, this_cpu, level, idle, candidates: &candidates, rules };
    let moment = Moment { jiffies: 1000, last_balance: 1000, quiet_interval: 8 };
    let found = search.find_busiest_by_room(history, &moment);
    match found.busiest {
        Busiest::NotOurs | Busiest::Balanced => None,
        Busiest::Group(group, amount) => {
            Some((group.span.first().map_or(0, |first| first.0), amount, found.empties))
        }
    }
}

#[test]
fn domains_and_powers_are_those_of_power7() {
    let domains = domains();
    let stack: Vec<_> = domains.stack(CpuId(0)).iter().map(|&m| domains.get(m)).collect();
    let seen: Vec<_> = stack.iter().map(|d| (d.name, d.weight, d.groups[0].capacity)).collect();
    // smt_gain over four threads, truncated; so a core has 1176, which rounds to one task.
    assert_eq!(seen, [("SIBLING", 4, 294), ("CPU", 32, 1176), ("NUMA", 64, 9408)]);
    assert!(stack[0].flags.has(DomainFlags::ASYM_PACKING));
    assert!(stack[1].flags.has(DomainFlags::PREFER_SIBLING));
    assert!(stack[2].flags.has(DomainFlags::BALANCE_FORK));
    assert_eq!((stack[2].balance_interval_ms, stack[2].interval_max_ms), (64, 128));
}

#[test]
fn without_the_series_a_fork_leaves_for_an_idle_core_of_the_other_node() {
    let busy = running(&[(0, 1, 1024)]);
    // In the other node the search begins at CPU 32, whose core and thread it leaves for others that
    // are no worse.
    assert_eq!(born(V3_9, &busy, 0, 1024), 37);
    let performance = with(PowerRules { policy: PowerPolicy::Performance, ..SAVING });
    assert_eq!(born(performance, &busy, 0, 1024), 37);
}

#[test]
fn a_storm_of_forks_stacks_up_on_the_forking_thread() {
    // Averages have not seen the first new task yet: CPU 0 has the least room of all, and takes it.
    assert_eq!(born(with(SAVING), &running(&[(0, 1, 100)]), 0, 1024), 0);
    assert_eq!(born(with(SAVING), &running(&[(0, 8, 100)]), 0, 1024), 0);
    // 9 * 120 is more than one thread takes; the next one of the core has room.
    assert_eq!(born(with(SAVING), &running(&[(0, 9, 120)]), 0, 1024), 1);
    // The core is full at 3072, where the task's own 1024 come on top: the next one is tried.
    assert_eq!(born(with(SAVING), &running(&[(0, 3, 1023)]), 0, 1024), 1);
    assert_eq!(born(with(SAVING), &running(&[(0, 3, 1024)]), 0, 1024), 1);
    assert_eq!(born(with(SAVING), &running(&[(0, 4, 1024)]), 0, 1024), 4);
}

#[test]
fn thresholds_decide_how_much_a_core_takes() {
    // One full thread: 1024 of 4096, of one task's 1024, of 1176.
    let one = running(&[(0, 1, 1024)]);
    let born_with = |threshold, thread_is_room, cpus: &[CpuView]| {
        born(with(PowerRules { threshold, thread_is_room, ..SAVING }), cpus, 0, 1024)
    };
    assert_eq!(born_with(Threshold::GroupWeight, true, &one), 1);
    // Threads count as room, so the core takes three more...
    assert_eq!(born_with(Threshold::GroupCapacity, true, &one), 1);
    // ... or not, so that the core is full, and the next one takes it.
    assert_eq!(born_with(Threshold::GroupCapacity, false, &one), 4);
    // 294 of power are no room for a task of 1024 within the core; of the cores, this one has least.
    assert_eq!(born_with(Threshold::GroupPower, true, &one), 1);
}

#[test]
fn small_tasks_are_packed_and_bursts_count_in_full() {
    // The waker's CPU has room for four times 100, so it takes the task.
    let busy = running(&[(0, 1, 300)]);
    assert_eq!(wakes(with(SAVING), &busy, 0, 100), (0, WakeRule::Packed));
    let spread = PowerRules { small_tasks: false, ..SAVING };
    // Of core 0, whose threads but the waker's idle, the first has the least load.
    assert_eq!(wakes(with(spread), &busy, 0, 100), (1, WakeRule::Packed));
    // 300 for the task is too much for CPU 0: of the others, all of which have 1024, none has any
    // left, either, if it needs 256 or more.
    assert_eq!(wakes(with(SAVING), &busy, 0, 300), (1, WakeRule::Packed));
    // Woken in a burst, CPU 0 counts as full, and a neighbour takes it.
    let mut burst = running(&[(0, 1, 300)]);
    burst[0].avg_idle_ns = 50_000;
    assert_eq!(wakes(with(SAVING), &burst, 0, 100), (1, WakeRule::Packed));
    // Without the series, the task stays where it slept, which is idle.
    assert_eq!(wakes(V3_9, &busy, 0, 100).0, 20);
}

#[test]
fn a_full_core_is_relieved_and_one_that_is_not_is_left_alone() {
    let mut history = LazyHistory::default();
    // Four threads are never quite busy: 4 * 1023 is within 4096, so nobody takes from them.
    let packed = running(&[(0, 1, 1023), (1, 1, 1023), (2, 1, 1023), (3, 1, 1023)]);
    assert_eq!(pulls(with(SAVING), &packed, (4, 1), &mut history), None);
    assert_eq!(history.record, 0);
    let spreads = pulls(V3_9, &packed, (4, 1), &mut history);
    assert_eq!(spreads.map(|(group, ..)| group), Some(0));
    // A fifth task: balancing is for performance, and the history says so.
    let over = running(&[(0, 2, 1023), (1, 1, 1023), (2, 1, 1023), (3, 1, 1023)]);
    let pulled = pulls(with(SAVING), &over, (4, 1), &mut history);
    assert_eq!(pulled.map(|(group, _, empties)| (group, empties)), Some((0, false)));
    assert_eq!(history.record, 1);
}

#[test]
fn the_fullest_core_with_room_empties_the_least_used_one() {
    let cpus = running(&[(0, 1, 1023), (1, 1, 1023), (8, 1, 400)]);
    let mut history = LazyHistory::default();
    // CPU 2 is the first idle thread of core 0, which leads.
    let emptied = Some((8, 1024, true));
    assert_eq!(pulls(with(SAVING), &cpus, (2, 1), &mut history), emptied);
    // Core 1 idles as a whole, so it takes nothing; core 2 does not lead.
    assert_eq!(pulls(with(SAVING), &cpus, (4, 1), &mut history), None);
    assert_eq!(pulls(with(SAVING), &cpus, (9, 1), &mut history), None);
    // Balancing for performance not long ago defers it, unless it is not to be lazy.
    let mut lately = LazyHistory { record: 1 << 20 };
    assert_eq!(pulls(with(SAVING), &cpus, (2, 1), &mut lately), None);
    let eager = PowerRules { lazy: false, ..SAVING };
    assert_eq!(pulls(with(eager), &cpus, (2, 1), &mut lately), emptied);
    // More than four times in the 32 attempts before the last 32 is not rare.
    let mut often = LazyHistory { record: 0b11111 << 40 };
    assert_eq!(pulls(with(SAVING), &cpus, (2, 1), &mut often), None);
    let mut rarely = LazyHistory { record: 0b1111 << 40 };
    assert_eq!(pulls(with(SAVING), &cpus, (2, 1), &mut rarely), emptied);
}

#[test]
fn lower_threads_take_over_from_higher_ones() {
    let cpus = running(&[(3, 1, 1023)]);
    let mut history = LazyHistory::default();
    // Its whole load: 1024 over the power of the thread, times that power.
    let found = pulls(V3_9, &cpus, (0, 0), &mut history);
    assert_eq!(found.map(|(group, amount, _)| (group, amount)), Some((3, 1024)));
    let symmetric = ClassicRules { v3_9: None, ..V3_9 };
    assert!(symmetric.v3_9.is_none());
    let down = running(&[(0, 1, 1023)]);
    assert_eq!(pulls(V3_9, &down, (1, 0), &mut history), None);
}

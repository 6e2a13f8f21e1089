//! Every layout of the priority map answers what the plain map answers, over real atomics and over
//! traced cells, and touches the cache lines that it should.

use proptest::prelude::*;
use schedlab_kernel::rt::cpupri::memory::{Access, Atomics, Touch, Traced};
use schedlab_kernel::rt::cpupri::{
    Groups, Layout, Level, Memory, PlainMap, Plan, PriorityMap, RootDomain,
};
use schedlab_machine::{CpuId, CpuSet};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Debug)]
enum Step {
    Set { cpu: u32, prio: u8 },
    Find { this_cpu: u32, prio: u8, allowed: Vec<u32> },
}

/// Few priorities, so that levels hold several CPUs; 101 takes a CPU out.
fn prio() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(1), Just(50), Just(98), Just(99), Just(100), Just(101)]
}

fn step() -> impl Strategy<Value = Step> {
    let find = (any::<u32>(), prio(), prop::collection::vec(any::<u32>(), 0..12));
    prop_oneof![
        (any::<u32>(), prio()).prop_map(|(cpu, prio)| Step::Set { cpu, prio }),
        find.prop_map(|(this_cpu, prio, allowed)| Step::Find { this_cpu, prio, allowed }),
    ]
}

fn over<M: Memory>(layout: Layout, groups: &Groups, make: impl Fn(&Plan) -> M) -> RootDomain<M> {
    let plan = Plan::new(layout, groups);
    let memory = make(&plan);
    RootDomain::new(plan, memory)
}

/// Carries the steps out on the map and on the plain one.
fn agrees(mut map: impl PriorityMap, cpus: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut plain = PlainMap::new(cpus as usize);
    let active = CpuSet::first_n(cpus as usize) - CpuSet::of(CpuId(cpus / 2));
    for step in steps {
        match step {
            Step::Set { cpu, prio } => {
                let (cpu, level) = (CpuId(cpu % cpus), Level::of_prio(*prio));
                map.set(cpu, level);
                plain.set(cpu, level);
                prop_assert_eq!(map.level(cpu), level);
            }
            Step::Find { this_cpu, prio, allowed } => {
                let Some(level) = Level::of_prio(*prio) else { continue };
                let this = CpuId(this_cpu % cpus);
                let all = CpuSet::first_n(cpus as usize);
                let some: CpuSet = allowed.iter().map(|cpu| CpuId(cpu % cpus)).collect();
                let allowed = if allowed.len() % 4 == 3 { all } else { some };
                let found = map.find(this, level, &allowed, &active);
                prop_assert_eq!(found, plain.find(this, level, &allowed, &active));
                prop_assert!(found.is_subset(&(allowed & active)));
                let lower = map.any_lower(this, level, &allowed);
                prop_assert_eq!(lower, plain.any_lower(this, level, &allowed));
                let odd = |cpu: CpuId| cpu.0 % 2 == 1;
                let fitting = map.find_fitting(this, level, &allowed, &active, odd);
                let expected = plain.find_fitting(this, level, &allowed, &active, odd);
                prop_assert_eq!(fitting, expected);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    #[cfg_attr(miri, ignore = "it says nothing of memory, and takes hours")]
    fn every_layout_answers_the_same(
        cpus in prop_oneof![1_u32..20, 60_u32..70, 480_u32..=480, 2040_u32..=2048],
        per_llc in 1_usize..100,
        per_node in 1_usize..300,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let groups = Groups::even(cpus as usize, per_llc, per_node);
        for layout in Layout::ALL {
            agrees(over(layout, &groups, Atomics::new), cpus, &steps)?;
            agrees(over(layout, &groups, Traced::new), cpus, &steps)?;
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it says nothing of memory, and takes hours")]
    fn overloaded_cpus_are_counted_and_visited(
        layout in prop::sample::select(Layout::ALL.to_vec()),
        cpus in 1_u32..600,
        overloaded in prop::collection::btree_set(0_u32..600, 0..10),
    ) {
        let groups = Groups::even(cpus as usize, 16, 80);
        let map = over(layout, &groups, Atomics::new);
        let overloaded: BTreeSet<u32> = overloaded.iter().map(|cpu| cpu % cpus).collect();
        for &cpu in &overloaded {
            map.set_overload(CpuId(cpu));
        }
        let here = CpuId(cpus - 1);
        // Counts of nodes are added up only until there are two.
        prop_assert_eq!(map.overload_count(here).min(2), overloaded.len().min(2) as u32);
        prop_assert!((0..cpus).all(|cpu| map.is_overloaded(CpuId(cpu)) == overloaded.contains(&cpu)));
        let mut visited = Vec::new();
        let mut next = map.ask_to_push(here);
        while let Some(cpu) = next {
            visited.push(cpu.0);
            next = map.pass_on(cpu);
            // Who pushed away all that waited is overloaded no more.
            map.clear_overload(cpu);
            prop_assert!(visited.len() <= 2 * overloaded.len());
        }
        let others: Vec<u32> = overloaded.into_iter().filter(|&cpu| cpu != here.0).collect();
        prop_assert!(others.iter().all(|cpu| visited.contains(cpu)), "{visited:?}");
    }
}

fn touches(map: &RootDomain<Traced>) -> Vec<Touch> {
    let mut all = Vec::new();
    map.memory().drain(|touches| all = touches.to_vec());
    all
}

/// 480 CPUs, eight of which run a task of priority 99 each, and a search for such a task that may
/// use only these.
fn pinned(layout: Layout) -> (RootDomain<Traced>, CpuSet) {
    let map = over(layout, &Groups::even(480, 80, 80), Traced::new);
    let eight = CpuSet::first_n(8);
    for cpu in (0..480).map(CpuId) {
        let prio = if eight.contains(cpu) { 0 } else { 99 };
        map.set(cpu, Level::of_prio(prio));
    }
    touches(&map);
    (map, eight)
}

#[test]
fn a_search_in_vain_touches_as_many_lines_as_counted_by_hand() {
    // Of the vectors, and of masks and pointers to them beside.
    let expected = [
        (Layout::Global, 26, 1),
        // The array of pointers, and the masks of all six nodes: none has an allowed CPU.
        (Layout::PerNode, 26, 7),
        (Layout::PerLlc, 26, 7),
        // One leaf, that of the eight CPUs, and the array of pointers.
        (Layout::ScalableBitmap, 26, 2),
        (Layout::Padded, 100, 1),
        (Layout::Reordered, 25, 1),
        (Layout::OverloadPerNode, 26, 1),
        (Layout::Contiguous, 8, 1),
    ];
    for (layout, domain, beside) in expected {
        let (map, eight) = pinned(layout);
        let top = Level::of_prio(0).expect("a priority");
        assert!(map.find(CpuId(3), top, &eight, &CpuSet::first_n(480)).is_empty());
        let touched = touches(&map);
        assert!(touched.iter().all(|touch| touch.access == Access::Load));
        let lines: BTreeSet<u32> = touched.iter().map(Touch::line).collect();
        let in_domain = lines.iter().filter(|&&line| line < map.plan().domain_lines() as u32);
        let in_domain = in_domain.count();
        assert_eq!((in_domain, lines.len() - in_domain), (domain, beside), "{layout:?}");
    }
}

#[test]
fn going_real_time_takes_four_atomic_operations() {
    for layout in Layout::ALL {
        let (map, _) = pinned(layout);
        map.set(CpuId(9), Level::of_prio(0));
        let touched = touches(&map);
        let atomic = touched.iter().filter(|touch| touch.access == Access::Rmw).count();
        let stores = touched.iter().filter(|touch| touch.access == Access::Store).count();
        assert_eq!((atomic, stores), (4, 1), "{layout:?}");
        map.set(CpuId(9), Level::of_prio(0));
        assert!(touches(&map).iter().all(|touch| touch.access == Access::Load), "{layout:?}");
    }
}

/// CPUs that only rise are found by whoever searches meanwhile, and nothing is lost in the end.
#[test]
fn threads_lose_no_cpu() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for layout in Layout::ALL {
        let map = over(layout, &Groups::even(130, 16, 65), Atomics::new);
        let all = CpuSet::first_n(130);
        for cpu in &all {
            map.set(cpu, Some(Level::NORMAL));
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = [0_u32, 1, 129]
                .map(|cpu| {
                    let map = &map;
                    scope.spawn(move || {
                        for round in 0..rounds {
                            for level in (0..100).step_by(if cfg!(miri) { 25 } else { 7 }) {
                                map.set(CpuId(cpu), Level::at(level));
                            }
                            if round + 1 < rounds {
                                map.set(CpuId(cpu), Some(Level::NORMAL));
                            }
                        }
                    })
                })
                .into();
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let found = map.find(CpuId(5), Level::HIGHER, &all, &all);
                    assert!(!found.is_empty() && found.is_subset(&all));
                }
            });
            for writer in writers {
                writer.join().expect("a writer");
            }
            done.store(true, Ordering::Relaxed);
        });
        for cpu in &all {
            let level = map.level(cpu).expect("a level");
            let above = Level::at(level.index() + 1).expect("a level");
            let alone = CpuSet::of(cpu);
            assert!(map.find(cpu, level, &alone, &all).is_empty(), "{layout:?}");
            assert_eq!(map.find(cpu, above, &alone, &all), alone, "{layout:?}");
        }
    }
}

//! Every interleaving of threads on small priority maps, with every value that the memory model lets
//! a load return: `make loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use schedlab_kernel::rt::cpupri::memory::Symbol;
use schedlab_kernel::rt::cpupri::{Groups, Layout, Level, Memory, Plan, RootDomain};
use schedlab_machine::{CpuId, CpuSet};

/// Cells that loom watches. `relaxed` takes the order from loads of masks, as kernel code has none
/// between a mask and the next count.
struct Watched {
    narrow: Vec<AtomicU32>,
    wide: Vec<AtomicU64>,
    wide_from: u32,
    relaxed: bool,
}

impl Watched {
    fn new(plan: &Plan, relaxed: bool) -> Watched {
        let wide_from = plan.wide_from();
        Watched {
            narrow: (0..wide_from / 4).map(|_| AtomicU32::new(0)).collect(),
            wide: (0..(plan.bytes() - wide_from) / 8).map(|_| AtomicU64::new(0)).collect(),
            wide_from,
            relaxed,
        }
    }

    fn narrow(&self, at: u32) -> &AtomicU32 {
        &self.narrow[(at / 4) as usize]
    }

    fn wide(&self, at: u32) -> &AtomicU64 {
        &self.wide[((at - self.wide_from) / 8) as usize]
    }
}

impl Memory for Watched {
    fn load32(&self, at: u32, order: Ordering, _: Symbol) -> u32 {
        self.narrow(at).load(order)
    }
    fn store32(&self, at: u32, value: u32, order: Ordering, _: Symbol) {
        self.narrow(at).store(value, order);
    }
    fn add32(&self, at: u32, value: u32, order: Ordering, _: Symbol) -> u32 {
        self.narrow(at).fetch_add(value, order)
    }
    fn exchange32(&self, at: u32, from: u32, to: u32, order: Ordering, _: Symbol) -> bool {
        self.narrow(at).compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
    fn load64(&self, at: u32, order: Ordering, _: Symbol) -> u64 {
        self.wide(at).load(if self.relaxed { Ordering::Relaxed } else { order })
    }
    fn store64(&self, at: u32, value: u64, order: Ordering, _: Symbol) {
        self.wide(at).store(value, order);
    }
    fn or64(&self, at: u32, bits: u64, order: Ordering, _: Symbol) {
        self.wide(at).fetch_or(bits, order);
    }
    fn and64(&self, at: u32, bits: u64, order: Ordering, _: Symbol) {
        self.wide(at).fetch_and(bits, order);
    }
    fn lock(&self, at: u32, _: Symbol) {
        let cell = self.narrow(at);
        while cell.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            thread::yield_now();
        }
    }
    fn unlock(&self, at: u32, _: Symbol) {
        self.narrow(at).store(0, Ordering::Release);
    }
}

/// One of each way to split masks, and of each way to place counts.
const LAYOUTS: [Layout; 4] =
    [Layout::Global, Layout::PerNode, Layout::ScalableBitmap, Layout::Contiguous];

const CPUS: usize = 2;

/// Two CPUs, each its own node and cache, both at the lowest of `levels` levels.
fn map(layout: Layout, levels: usize, relaxed: bool) -> Arc<RootDomain<Watched>> {
    let plan = Plan::with_levels(layout, &Groups::even(CPUS, 1, 1), levels);
    let memory = Watched::new(&plan, relaxed);
    let map = RootDomain::new(plan, memory);
    map.set(CpuId(0), level(0));
    map.set(CpuId(1), level(0));
    Arc::new(map)
}

fn level(index: usize) -> Option<Level> {
    Level::at(index)
}

fn find(map: &RootDomain<Watched>, below: usize, allowed: &CpuSet) -> CpuSet {
    let all = CpuSet::first_n(CPUS);
    map.find(CpuId(1), Level::at(below).expect("a level"), allowed, &all)
}

/// CPU 0 rises while the other one stays, so that the old count does not become 0.
fn rising_cpu_is_found(layout: Layout, levels: usize, relaxed: bool) {
    loom::model(move || {
        let map = map(layout, levels, relaxed);
        let writer = {
            let map = Arc::clone(&map);
            thread::spawn(move || (1..levels).for_each(|to| map.set(CpuId(0), level(to))))
        };
        let first = CpuSet::of(CpuId(0));
        assert_eq!(find(&map, levels, &first), first, "{layout:?}");
        writer.join().expect("a writer");
    });
}

#[test]
fn a_cpu_that_rises_is_always_found() {
    for layout in LAYOUTS {
        rising_cpu_is_found(layout, 2, false);
    }
    rising_cpu_is_found(Layout::Global, 3, false);
}

/// The kernel's barriers do not suffice where loads are reordered.
#[test]
#[should_panic(expected = "Global")]
fn without_order_between_a_mask_and_the_next_count_it_is_missed() {
    rising_cpu_is_found(Layout::Global, 2, true);
}

#[test]
fn counts_are_not_torn_and_no_cpu_is_lost() {
    for layout in LAYOUTS {
        loom::model(move || {
            let map = map(layout, 2, false);
            let other = {
                let map = Arc::clone(&map);
                thread::spawn(move || map.set(CpuId(1), level(1)))
            };
            map.set(CpuId(0), level(1));
            other.join().expect("a writer");
            let all = CpuSet::first_n(CPUS);
            assert_eq!(find(&map, 2, &all), all, "{layout:?}");
            assert!(find(&map, 1, &all).is_empty(), "{layout:?}");
            // Both leave: counts of 0 hide what is left of a mask.
            map.set(CpuId(0), None);
            map.set(CpuId(1), None);
            assert!(find(&map, 2, &all).is_empty(), "{layout:?}");
        });
    }
}

#[test]
fn who_reads_the_count_of_overloaded_cpus_finds_them() {
    for layout in [Layout::Global, Layout::OverloadPerNode] {
        loom::model(move || {
            let map = map(layout, 1, false);
            let other = {
                let map = Arc::clone(&map);
                thread::spawn(move || map.set_overload(CpuId(1)))
            };
            if map.overload_count(CpuId(0)) > 0 {
                assert!(map.is_overloaded(CpuId(1)), "{layout:?}");
            }
            other.join().expect("a writer");
            assert_eq!(map.overload_count(CpuId(0)), 1);
            map.clear_overload(CpuId(1));
            assert_eq!((map.overload_count(CpuId(0)), map.next_overloaded(CpuId(0))), (0, None));
        });
    }
}

/// Two CPUs ask at once: one interrupt goes on its way, and it comes to the overloaded CPU.
#[test]
fn one_of_two_that_ask_sends_the_interrupt() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let groups = Groups::even(3, 3, 3);
        let plan = Plan::with_levels(Layout::Global, &groups, 1);
        let memory = Watched::new(&plan, false);
        let map = Arc::new(RootDomain::new(plan, memory));
        map.set_overload(CpuId(2));
        let other = {
            let map = Arc::clone(&map);
            thread::spawn(move || map.ask_to_push(CpuId(1)))
        };
        let asked = [map.ask_to_push(CpuId(0)), other.join().expect("a CPU")];
        assert_eq!(asked.iter().flatten().collect::<Vec<_>>(), [&CpuId(2)]);
        // It pushes in vain; every round that was asked for is gone through, then it ends.
        let mut hops = 0;
        let mut at = Some(CpuId(0));
        map.clear_overload(CpuId(2));
        while let Some(cpu) = at {
            at = map.pass_on(cpu);
            hops += 1;
        }
        assert_eq!(hops, 1);
    });
}

//! Carries out the commands of `cpupri.in`.

use schedlab_kernel::rt::cpupri::memory::{Atomics, Traced};
use schedlab_kernel::rt::cpupri::{Groups, Layout, Level, PlainMap, Plan, PriorityMap, RootDomain};
use schedlab_machine::{CpuId, CpuSet};

/// The map, made anew for each number of CPUs, and which CPUs are active.
pub struct Driver<M> {
    make: fn(usize) -> M,
    map: M,
    active: CpuSet,
}

/// The answers alone.
pub fn plain() -> Driver<PlainMap> {
    Driver::new(PlainMap::new)
}

/// The kernel's layout over real atomics.
pub fn global() -> Driver<RootDomain<Atomics>> {
    Driver::new(|cpus| {
        let plan = Plan::new(Layout::Global, &Groups::even(cpus, 8, 16));
        let memory = Atomics::new(&plan);
        RootDomain::new(plan, memory)
    })
}

/// Masks in two parts, over cells that tell of each access.
pub fn per_node() -> Driver<RootDomain<Traced>> {
    Driver::new(|cpus| {
        let plan = Plan::new(Layout::PerNode, &Groups::even(cpus, 8, cpus.div_ceil(2)));
        let memory = Traced::new(&plan);
        RootDomain::new(plan, memory)
    })
}

impl<M: PriorityMap> Driver<M> {
    fn new(make: fn(usize) -> M) -> Driver<M> {
        Driver { make, map: make(0), active: CpuSet::EMPTY }
    }

    pub fn command(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let mask = |at: usize| CpuSet::parse_mask(words[at]).expect("a mask");
        let level = |at: usize| Level::of_prio(u8::try_from(number(at)).unwrap_or(u8::MAX));
        match words[0] {
            "N" => {
                let cpus = number(1) as usize;
                (self.map, self.active) = ((self.make)(cpus), CpuSet::first_n(cpus));
            }
            "a" => self.active = mask(1),
            "s" => self.map.set(CpuId(number(1) as u32), level(2)),
            // A task without a level, such as a deadline task, finds nothing below it.
            "f" | "g" | "n" if level(1).is_none() => return Some("0 -".to_owned()),
            "n" => {
                let found =
                    level(1).is_some_and(|level| self.map.any_lower(CpuId(0), level, &mask(2)));
                return Some(format!("{} -", u8::from(found)));
            }
            word @ ("f" | "g") => {
                let (level, allowed) = (level(1)?, mask(2));
                let found = if word == "f" {
                    self.map.find(CpuId(0), level, &allowed, &self.active)
                } else {
                    let fitting = mask(3);
                    let fits = |cpu| fitting.contains(cpu);
                    self.map.find_fitting(CpuId(0), level, &allowed, &self.active, fits)
                };
                return Some(super::found(&found));
            }
            other => panic!("unknown command {other}"),
        }
        None
    }
}

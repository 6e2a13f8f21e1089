//! Carries out the commands of `cpupri.in`.

use schedlab_kernel::rt::cpupri::{GlobalMap, Level, PriorityMap};
use schedlab_machine::{CpuId, CpuSet};

/// The map and which CPUs are active.
pub struct Driver {
    map: GlobalMap,
    active: CpuSet,
}

impl Driver {
    pub fn new() -> Driver {
        Driver { map: GlobalMap::new(0), active: CpuSet::EMPTY }
    }

    pub fn command(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let mask = |at: usize| CpuSet::parse_mask(words[at]).expect("a mask");
        let level = |at: usize| Level::of_prio(u8::try_from(number(at)).unwrap_or(u8::MAX));
        match words[0] {
            "N" => {
                let cpus = number(1) as usize;
                *self = Driver { map: GlobalMap::new(cpus), active: CpuSet::first_n(cpus) };
            }
            "a" => self.active = mask(1),
            "s" => self.map.set(CpuId(number(1) as u32), level(2)),
            // A task without a level, such as a deadline task, finds nothing below it.
            "f" | "g" | "n" if level(1).is_none() => return Some("0 -".to_owned()),
            "n" => {
                let found = level(1).is_some_and(|level| self.map.any_lower(level, &mask(2)));
                return Some(format!("{} -", u8::from(found)));
            }
            word @ ("f" | "g") => {
                let (level, allowed) = (level(1)?, mask(2));
                let found = if word == "f" {
                    self.map.find(level, &allowed, &self.active)
                } else {
                    let fitting = mask(3);
                    let fits = |cpu| fitting.contains(cpu);
                    self.map.find_fitting(level, &allowed, &self.active, fits)
                };
                return Some(super::found(&found));
            }
            other => panic!("unknown command {other}"),
        }
        None
    }
}

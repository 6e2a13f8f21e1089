//! Carries out the commands of `cpudl.in`.

use schedlab_kernel::deadline::cpudl::{DeadlineMap, DeadlineTask};
use schedlab_machine::{CpuId, CpuSet};

/// The map and the CPUs' capacities.
pub struct Driver {
    map: DeadlineMap,
    capacities: Vec<u64>,
}

impl Driver {
    pub fn new() -> Driver {
        Driver { map: DeadlineMap::new(0), capacities: Vec::new() }
    }

    pub fn command(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let cpu = |at: usize| CpuId(number(at) as u32);
        match words[0] {
            "N" => {
                let cpus = number(1) as usize;
                *self = Driver { map: DeadlineMap::new(cpus), capacities: vec![1024; cpus] };
            }
            "C" => self.capacities = (1..words.len()).map(number).collect(),
            "s" => self.map.set(cpu(1), number(2)),
            "c" => self.map.clear(cpu(1), number(2) != 0),
            "f" => {
                let allowed = CpuSet::parse_mask(words[2]).expect("a mask");
                let task = DeadlineTask {
                    deadline_ns: number(1),
                    allowed: &allowed,
                    cpu: cpu(3),
                    density: number(4),
                };
                let differ = self.capacities.windows(2).any(|pair| pair[0] != pair[1]);
                let found = self.map.find(&task, differ.then_some(&*self.capacities));
                let latest = self.map.latest().map_or(-1, |cpu| i64::from(cpu.0));
                return Some(format!("{} {} {latest}", super::found(&found), self.map.len()));
            }
            other => panic!("unknown command {other}"),
        }
        None
    }
}

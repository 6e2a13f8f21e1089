//! Drives fork, exec and wake placement by the commands of the `placement` and `wake` vectors.

use super::fair_state::{State, mask, number};
use schedlab_kernel::fair::census::Census;
use schedlab_kernel::fair::slow_path::{GroupChoice, SlowPath, SlowPathRules};
use schedlab_kernel::fair::sums::Sums;
use schedlab_kernel::fair::topology::DomainFlags;
use schedlab_kernel::fair::view::TaskView;
use schedlab_kernel::fair::wake::{WakePath, WakeRules, Waker, select_on_wake};
use schedlab_machine::CpuId;

/// A machine's state and the release whose rules place.
pub struct Driver {
    state: State,
    rules: SlowPathRules,
}

impl Driver {
    /// Before the first line.
    pub fn new(rules: SlowPathRules) -> Driver {
        Driver { state: State::new(0), rules }
    }

    /// Carries out one line; what it prints, if it prints.
    pub fn command(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        if self.state.set(&words) {
            return None;
        }
        match words[0] {
            "P" => Some(self.place(&words[1..])),
            "W" => Some(self.wake(&words[1..])),
            _ => panic!("unknown command {line}"),
        }
    }

    fn place(&self, words: &[&str]) -> String {
        let State { domains, cpus, clamps, .. } = &self.state;
        let flag = DomainFlags(number(words[0]));
        let this_cpu = CpuId(number(words[1]));
        let allowed = mask(words[3]);
        let task = TaskView {
            cpu: CpuId(number(words[2])),
            allowed: &allowed,
            numa_preferred_node: words[4].parse().ok(),
            util: number(words[5]),
            load: number(words[6]),
            runnable: number(words[7]),
            util_est: number(words[8]),
            contributes: words[9] == "0",
            on_rq: words[10] != "0",
            is_current: words[11] != "0",
            clamps: *clamps,
        };
        let path = SlowPath { domains, cpus, sums: None, rules: self.rules };
        let mut log: Vec<GroupChoice> = Vec::new();
        let cpu = path.select(&task, this_cpu, flag, Some(&mut log));
        // Sums that are kept come to the same.
        let sums = Some(&Sums::new(domains, cpus, !domains.asym_cpucapacity_active()));
        let mut known: Vec<GroupChoice> = Vec::new();
        let same = SlowPath { sums, ..path }.select(&task, this_cpu, flag, Some(&mut known));
        assert_eq!((cpu, &log), (same, &known));
        let mut line = cpu.to_string();
        for choice in &log {
            let chosen = choice.chosen.map_or(-1, |cpu| i64::from(cpu.0));
            line += &format!(" {}:{}:{chosen}", choice.level, choice.from);
        }
        line
    }

    fn wake(&mut self, words: &[&str]) -> String {
        let State { domains, cpus, llcs, clamps } = &mut self.state;
        let sync: u32 = number(words[3]);
        let allowed = mask(words[2]);
        let waker = Waker {
            cpu: CpuId(number(words[0])),
            sync: sync & 1 != 0,
            current_cpu: sync & 2 != 0,
            wakee_flips: number(words[9]),
            load: number(words[10]),
            per_cpu_kthread: words[11] != "0",
            in_task: words[12] != "0",
            ..Waker::default()
        };
        let task = TaskView {
            cpu: CpuId(number(words[1])),
            allowed: &allowed,
            numa_preferred_node: None,
            util: number(words[4]),
            load: number(words[5]),
            runnable: 0,
            util_est: number(words[6]),
            contributes: true,
            on_rq: false,
            is_current: false,
            clamps: *clamps,
        };
        let mut recent = CpuId(number(words[7]));
        // A command changes nothing, so the hints that the search clears are restored.
        let saved = llcs.clone();
        let census = &Census::of(domains, cpus);
        let mut path = WakePath { domains, cpus, census, llcs, rules: WakeRules::V6_12 };
        let choice = select_on_wake(&mut path, &task, &waker, number(words[8]), &mut recent);
        let cleared = choice
            .cleared_idle_cores
            .filter(|cpu| saved[cpu.index()].has_idle_cores)
            .map_or(-1, |cpu| i64::from(cpu.0));
        *llcs = saved;
        let affine = choice.affine.map_or(-1, |cpu| i64::from(cpu.0));
        format!("{} {affine} {recent} {cleared}", choice.cpu)
    }
}

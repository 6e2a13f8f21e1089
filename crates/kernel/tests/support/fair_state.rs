//! The state lines that the placement, wake, balance and nohz vectors share.

use schedlab_kernel::fair::topology::{Domain, DomainFlags, Domains, Group};
use schedlab_kernel::fair::view::{Clamps, CpuState};
use schedlab_kernel::fair::wake::LlcShared;
use schedlab_machine::{CpuId, CpuSet};

/// Everything that state lines set.
pub struct State {
    pub domains: Domains,
    pub cpus: Vec<CpuState>,
    pub llcs: Vec<LlcShared>,
    pub clamps: Clamps,
}

/// A field as a decimal number.
pub fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

/// A field as a hexadecimal CPU mask.
pub fn mask(word: &str) -> CpuSet {
    CpuSet::parse_mask(word).expect("a CPU mask")
}

fn hex(word: &str) -> u32 {
    u32::from_str_radix(word, 16).expect("hexadecimal flags")
}

impl State {
    /// Before the first `T` line.
    pub fn new(cpu_count: usize) -> State {
        State {
            domains: Domains::new(cpu_count),
            cpus: (0..cpu_count).map(|cpu| CpuState::idle(CpuId(cpu as u32), 1024)).collect(),
            llcs: vec![LlcShared::default(); cpu_count],
            clamps: Clamps::default(),
        }
    }

    /// Carries out a state line; `false` if the line is a command instead.
    pub fn set(&mut self, words: &[&str]) -> bool {
        let rest = &words[1..];
        match words[0] {
            "T" => *self = State::new(number(rest[0])),
            "n" => {
                for (cpu, node) in rest.iter().enumerate() {
                    self.domains.set_node(CpuId(cpu as u32), number(node));
                }
            }
            "s" => rest.iter().for_each(|word| self.domains.set_siblings(mask(word))),
            "D" => self.push_domain(rest),
            "g" => self.set_group(rest),
            "L" => {
                self.llcs[number::<usize>(rest[0])] = LlcShared {
                    nr_idle_scan: number(rest[1]),
                    has_idle_cores: rest[2] != "0",
                    nr_busy_cpus: number(rest[3]),
                }
            }
            "c" => self.set_cpu(rest),
            "x" => self.set_cpu_rest(rest),
            "u" => {
                self.clamps =
                    Clamps { used: rest[0] != "0", min: number(rest[1]), max: number(rest[2]) }
            }
            _ => return false,
        }
        true
    }

    fn push_domain(&mut self, words: &[&str]) {
        let cpus = mask(words[0]);
        let span = mask(words[1]);
        let groups = words[6..].iter().map(|word| {
            let fields: Vec<&str> = word.split(':').collect();
            let span = mask(fields[0]);
            Group {
                span,
                balance_mask: span,
                weight: span.weight() as u32,
                capacity: number(fields[1]),
                min_capacity: number(fields[2]),
                max_capacity: number(fields[3]),
                imbalance: fields[4] != "0",
                flags: DomainFlags(hex(fields[5])),
                cores: number(fields[6]),
                asym_prefer_cpu: CpuId(number(fields[7])),
            }
        });
        let domain = Domain {
            name: "",
            span,
            weight: span.weight() as u32,
            flags: DomainFlags(hex(words[2])),
            imbalance_pct: number(words[3]),
            imb_numa_nr: number(words[4]),
            balance_interval_ms: number(words[5]),
            interval_max_ms: 0,
            busy_factor: 0,
            cache_nice_tries: 0,
            groups: groups.collect(),
        };
        self.domains.push(&cpus, domain);
    }

    fn set_group(&mut self, words: &[&str]) {
        let membership = self.domains.stack(CpuId(number(words[0])))[number::<usize>(words[1])];
        let domain = &mut self.domains.domains[membership.domain as usize];
        let group = &mut domain.groups[number::<usize>(words[2])];
        group.capacity = number(words[3]);
        group.min_capacity = number(words[4]);
        group.max_capacity = number(words[5]);
        group.imbalance = words[6] != "0";
    }

    fn set_cpu(&mut self, words: &[&str]) {
        let state = &mut self.cpus[number::<usize>(words[0])];
        *state = CpuState {
            curr_is_idle: words[1] == "0",
            nr_running: number(words[2]),
            h_nr_queued: number(words[3]),
            h_nr_delayed: 0,
            idle_h_nr_running: number(words[4]),
            load: number(words[5]),
            util: number(words[6]),
            runnable: number(words[7]),
            util_est: number(words[8]),
            capacity: number(words[9]),
            capacity_orig: number(words[10]),
            idle_exit_latency_us: words[11].parse().ok(),
            idle_stamp_ns: number(words[12]),
            ttwu_pending: words[13] != "0",
            ..*state
        };
    }

    fn set_cpu_rest(&mut self, words: &[&str]) {
        let state = &mut self.cpus[number::<usize>(words[0])];
        *state = CpuState {
            h_nr_delayed: number(words[1]),
            misfit_task_load: number(words[2]),
            nr_numa_running: number(words[3]),
            nr_preferred_running: number(words[4]),
            hw_pressure: number(words[5]),
            util_rt: number(words[6]),
            util_dl: number(words[7]),
            util_irq: number(words[8]),
            asym_priority: number(words[9]),
            ..*state
        };
    }
}

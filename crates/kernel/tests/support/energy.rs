//! Placement by energy.
//!
//! `D first count capacity khz power ...` is a performance domain and its operating points; three of
//! them describe a machine of 8 CPUs. `C cpu` gives a CPU's state: capacity left, pressure,
//! utilisation by interrupts, real-time and deadline tasks, whether real-time tasks run, then
//! `util_avg`, `runnable_avg` and `util_est` of its fair tasks, and its clamps: idle, minimum,
//! maximum. `T` places a task: CPU, `util_avg`, `runnable_avg`, `util_est`, allowed CPUs, whether
//! clamps are in use, minimum and maximum; the chosen CPU is printed.

use schedlab_kernel::fair::build::{DomainRules, build_domains};
use schedlab_kernel::fair::energy::{EnergyModel, EnergyPath, EnergyRelease, PerfDomain};
use schedlab_kernel::fair::topology::Domains;
use schedlab_kernel::fair::uclamp::QueueClamps;
use schedlab_kernel::fair::view::{Clamps, CpuState, TaskView};
use schedlab_machine::{CpuId, CpuSet, Machine};

pub struct Driver {
    release: EnergyRelease,
    /// Of a machine whose CPUs all share one domain of different capacities.
    domains: Domains,
    perf_domains: Vec<PerfDomain>,
    cpus: Vec<CpuState>,
}

impl Driver {
    pub fn new(release: EnergyRelease) -> Driver {
        let phone = Machine::preset("pixel6-gs101").expect("a preset");
        Driver {
            release,
            domains: build_domains(&phone, DomainRules::CURRENT),
            perf_domains: Vec::new(),
            cpus: phone.cpu_ids().map(|cpu| CpuState::idle(cpu, 1024)).collect(),
        }
    }

    pub fn command(&mut self, line: &str) -> Option<String> {
        let (command, rest) = line.split_once(' ').expect("a command");
        let words: Vec<u64> = rest.split(' ').map(|word| word.parse().expect("a number")).collect();
        match command {
            "D" => self.domain(&words),
            "C" => self.cpu(&words),
            "T" => return Some(self.place(&words)),
            other => panic!("{other}: no command"),
        }
        None
    }

    fn domain(&mut self, words: &[u64]) {
        let &[first, count, capacity, ref points @ ..] = words else { panic!("a domain") };
        if first == 0 {
            self.perf_domains.clear();
        }
        let cpus: CpuSet = (first..first + count).map(|cpu| CpuId(cpu as u32)).collect();
        for cpu in &cpus {
            self.cpus[cpu.index()] = CpuState::idle(cpu, capacity);
        }
        let points = points.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        self.perf_domains.push(PerfDomain::new(self.release, cpus, capacity, points));
    }

    fn cpu(&mut self, words: &[u64]) {
        let &[cpu, capacity, pressure, irq, rt, dl, runs_rt, util, runnable, est, idle, min, max] =
            words
        else {
            panic!("a CPU")
        };
        let state = &mut self.cpus[cpu as usize];
        (state.capacity, state.hw_pressure) = (capacity, pressure);
        (state.util_irq, state.util_rt, state.util_dl) = (irq, rt, dl);
        state.nr_running = runs_rt as u32;
        (state.util, state.runnable, state.util_est) = (util, runnable, est);
        state.clamps = QueueClamps::of(min as u16, max as u16, idle != 0);
    }

    fn place(&self, words: &[u64]) -> String {
        let &[cpu, util, runnable, util_est, allowed, used, min, max] = words else {
            panic!("a task")
        };
        let allowed: CpuSet = (0..8).filter(|cpu| allowed >> cpu & 1 != 0).map(CpuId).collect();
        let task = TaskView {
            cpu: CpuId(cpu as u32),
            allowed: &allowed,
            contributes: true,
            on_rq: false,
            is_current: false,
            util,
            load: util,
            runnable,
            util_est,
            clamps: Clamps { used: used != 0, min, max },
            numa_preferred_node: None,
        };
        let model = EnergyModel::of(self.release, self.perf_domains.clone());
        let path = EnergyPath { model: &model, domains: &self.domains, cpus: &self.cpus };
        let choice = path.find(&task, CpuId(0), None).expect("CPUs differ");
        choice.cpu.0.to_string()
    }
}

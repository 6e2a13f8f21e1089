//! Balancing at work on a machine that does nothing else: tasks that always want to run are put
//! somewhere, ticks fire, interrupts arrive, and tasks should come to lie as the kernel lays them.

use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::build::build_domains;
use schedlab_kernel::hardware::{Hardware, Path, TracePoint};
use schedlab_kernel::preset::Kernel;
use schedlab_kernel::sched::{NewTask, Scheduler};
use schedlab_machine::{CpuId, CpuSet, Machine};

/// Hardware on which every path takes no time, and that remembers what it was asked for.
#[derive(Default)]
struct Bench {
    now_ns: u64,
    tick_ns: u64,
    /// Interrupts on their way.
    ipis: Vec<CpuId>,
    /// Interrupts sent so far.
    sent: usize,
    softirqs: usize,
}

impl Hardware for Bench {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }
    fn jiffies(&self) -> u64 {
        self.now_ns / self.tick_ns
    }
    fn frequency_capacity(&self, _: CpuId) -> u64 {
        1024
    }
    fn take_irq_ns(&mut self, _: CpuId) -> u64 {
        0
    }
    fn polls_idle(&self, _: CpuId) -> bool {
        false
    }
    fn charge(&mut self, _: CpuId, path: Path) {
        self.softirqs += usize::from(path == Path::Softirq);
    }
    fn send_reschedule(&mut self, _: CpuId, to: CpuId) {
        self.sent += 1;
        self.ipis.push(to);
    }
    fn scan_ns(&self, _: CpuId, cpus: u32) -> u64 {
        u64::from(cpus) * 10
    }
    fn random(&mut self, _: CpuId) -> u32 {
        0
    }
    fn trace(&mut self, _: CpuId, _: TracePoint) {}
}

struct World {
    machine: Machine,
    sched: Scheduler,
    bench: Bench,
    tasks: Vec<TaskId>,
    /// CPUs whose tick runs.
    ticking: Vec<bool>,
}

impl World {
    fn new(machine: &str, kernel: &Kernel) -> World {
        let machine = Machine::preset(machine).expect("a preset");
        let capacities: Vec<u64> =
            machine.cpu_ids().map(|cpu| u64::from(machine.capacity(cpu))).collect();
        let config = kernel.config(machine.cpu_count());
        let domains = build_domains(&machine, kernel.domains);
        let sched = Scheduler::new(config, domains, &capacities, 0);
        let bench = Bench { tick_ns: config.tick_ns(), ..Bench::default() };
        let ticking = vec![false; machine.cpu_count()];
        let mut world = World { machine, sched, bench, tasks: Vec::new(), ticking };
        for cpu in world.machine.cpu_ids() {
            world.sched.start_tickless(cpu);
        }
        world
    }

    /// Tasks that run without end, all on `cpu`, whatever placement would have said.
    fn crowd(&mut self, cpu: CpuId, count: usize, allowed: Option<CpuSet>) {
        for _ in 0..count {
            let affinity = allowed.map_or_else(Default::default, |set| self.sched.affinity(set));
            let task = self.sched.create(NewTask { affinity, ..NewTask::default() }, cpu);
            self.sched.wake_new(task, cpu, &mut self.bench);
            if self.sched.task(task).cpu != cpu {
                self.sched.move_queued(task, cpu, cpu, &mut self.bench);
            }
            self.tasks.push(task);
        }
        self.bench.ipis.clear();
        self.settle(cpu);
        for cpu in self.machine.cpu_ids() {
            if self.sched.need_resched(cpu) {
                self.settle(cpu);
            }
        }
    }

    fn settle(&mut self, cpu: CpuId) {
        self.sched.softirq(cpu, &mut self.bench);
        while self.sched.need_resched(cpu) {
            let older = self.sched.stops_tick_first();
            if older && self.sched.current(cpu).is_none() && !self.ticking[cpu.index()] {
                self.sched.restart_tick(cpu);
            }
            self.ticking[cpu.index()] = true;
            self.sched.schedule(cpu, &mut self.bench);
        }
        if self.sched.current(cpu).is_none() && self.ticking[cpu.index()] {
            self.ticking[cpu.index()] = !self.sched.stop_tick(cpu, &mut self.bench);
        }
    }

    /// Time passes: busy CPUs tick, and idle ones, but for an owner of balancing, only hear
    /// interrupts.
    fn pass(&mut self, ms: u64) {
        let end_ns = self.bench.now_ns + ms * 1_000_000;
        while self.bench.now_ns < end_ns {
            self.bench.now_ns += self.bench.tick_ns;
            for cpu in self.machine.cpu_ids() {
                if self.ticking[cpu.index()] {
                    self.sched.tick(cpu, &mut self.bench);
                    self.settle(cpu);
                }
                while let Some(to) = self.bench.ipis.pop() {
                    self.sched.interrupt_from_cpu(to, &mut self.bench);
                    self.settle(to);
                }
            }
            self.sched.verify().unwrap_or_else(|what| panic!("{what}"));
        }
    }

    fn tasks_on(&self, cpus: &CpuSet) -> usize {
        self.tasks.iter().filter(|&&task| cpus.contains(self.sched.task(task).cpu)).count()
    }

    fn tasks_per_node(&self) -> Vec<usize> {
        self.machine.topology().nodes().groups().iter().map(|node| self.tasks_on(node)).collect()
    }

    fn is_first_thread(&self, cpu: CpuId) -> bool {
        self.machine.topology().cores().siblings(cpu).first() == Some(cpu)
    }

    fn most_on_a_cpu(&self) -> usize {
        self.machine.cpu_ids().map(|cpu| self.tasks_on(&CpuSet::of(cpu))).max().unwrap_or(0)
    }
}

fn kernel(name: &str) -> Kernel {
    Kernel::preset(name).expect("a preset")
}

#[test]
fn idle_cpus_are_kicked_and_an_overloaded_cpu_is_relieved() {
    for name in Kernel::preset_names() {
        let mut world = World::new("kunpeng920-2s", &kernel(name));
        world.crowd(CpuId(5), 8, None);
        assert_eq!(world.most_on_a_cpu(), 8);
        world.pass(200);
        assert!(world.bench.sent > 0 && world.bench.softirqs > 0, "{name}");
        assert_eq!(world.most_on_a_cpu(), 1, "{name}");
    }
}

#[test]
fn without_balancing_they_stay() {
    let text = Kernel::preset_text("v6.12").expect("a preset");
    let text = text.replace("mode = \"full\"", "mode = \"none\"");
    let none = Kernel::from_toml("none", &text).unwrap_or_else(|error| panic!("{error}"));
    let mut world = World::new("kunpeng920-2s", &none);
    world.crowd(CpuId(5), 8, None);
    world.pass(200);
    assert_eq!(world.most_on_a_cpu(), 8);
}

#[test]
fn a_cpu_that_runs_out_of_tasks_pulls_one_at_once() {
    let mut world = World::new("kunpeng920-2s", &kernel("v6.1"));
    world.crowd(CpuId(1), 3, None);
    world.crowd(CpuId(0), 1, None);
    // Long enough for the waiting tasks not to count as cache-hot, too short for a kick.
    world.bench.now_ns += 1_000_000;
    world.sched.block(CpuId(0), false, &mut world.bench);
    let next = world.sched.schedule(CpuId(0), &mut world.bench);
    let pulled = next.expect("a task of CPU 1");
    assert!(world.tasks[..3].contains(&pulled));
    assert_eq!(world.tasks_on(&CpuSet::of(CpuId(1))), 2);
}

#[test]
fn tasks_that_may_not_leave_stay() {
    let mut world = World::new("kunpeng920-2s", &kernel("v6.12"));
    let allowed = "4-5".parse().expect("a list");
    world.crowd(CpuId(5), 6, Some(allowed));
    world.pass(500);
    assert_eq!(world.tasks_on(&allowed), 6);
    assert_eq!(world.tasks_on(&CpuSet::of(CpuId(4))), 3);
}

/// Two tasks may stay on a node of their own (`NUMA_IMBALANCE_MIN`, and `imb_numa_nr` is 1); more
/// are drawn apart, though each has a core to itself.
#[test]
fn only_a_small_imbalance_between_nodes_may_stay() {
    for (tasks, stay) in [(2, true), (4, false)] {
        let mut world = World::new("nehalem-ep-2s", &kernel("v6.12"));
        let node = world.machine.topology().nodes().groups()[0];
        let cores: Vec<CpuId> = node.iter().filter(|&cpu| world.is_first_thread(cpu)).collect();
        for &cpu in &cores[..tasks] {
            world.crowd(cpu, 1, None);
        }
        assert_eq!(world.tasks_per_node(), [tasks, 0]);
        world.pass(3000);
        let nodes = world.tasks_per_node();
        assert_eq!(nodes == [tasks, 0], stay, "{nodes:?}");
        assert_eq!(world.most_on_a_cpu(), 1);
    }
}

#[test]
fn a_large_imbalance_between_nodes_is_made_up_for() {
    for name in Kernel::preset_names() {
        let mut world = World::new("nehalem-ep-2s", &kernel(name));
        world.crowd(CpuId(0), 16, None);
        world.pass(2000);
        let nodes = world.tasks_per_node();
        assert_eq!(nodes[0] + nodes[1], 16);
        // Two may stay where they are.
        assert!(nodes[0].abs_diff(nodes[1]) <= 2, "{name}: {nodes:?}");
        assert!(world.most_on_a_cpu() <= 2, "{name}: {nodes:?}");
    }
}

/// The stopper thread moves a task that runs on a CPU too small for it.
#[test]
fn a_task_that_does_not_fit_is_pushed_to_a_bigger_cpu() {
    let mut world = World::new("juno-r0", &kernel("v6.12"));
    let big: CpuSet = "1-2".parse().expect("a list");
    world.crowd(CpuId(0), 1, None);
    world.pass(500);
    assert_eq!(world.tasks_on(&big), 1);
}

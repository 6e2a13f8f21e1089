//! Tasks that go through memory as a rate: how fast each of them may, by what the others do.
//!
//! Three things slow a pass down. Stores into a block that all share wait for its cache lines: each
//! line is a station that serves one hand-over at a time, and the CPUs are the customers of a closed
//! network of them, whose throughput is that of mean value analysis (Reiser and Lavenberg, "Mean-Value
//! Analysis of Closed Multichain Queuing Networks", 1980). A block that fits no cache of its core is
//! bounded by the core's bandwidth to the last-level cache; one that fits no cache at all, by the
//! core's bandwidth to memory, which falls with the distance of the block's node, by that node's
//! memory, and by the link between packages, each shared evenly among those who could use more.
//!
//! Simplifications: all CPUs at one block proceed at one speed, whichever is nearer to its lines;
//! arrivals at lines are independent; what lies in a cache is decided by sizes alone.

use crate::cpu::FULL_SPEED;
use schedlab_machine::{CpuId, Machine};
use schedlab_workload::Bound;
use schedlab_workload::program::{Block, ObjectKind, Pattern, WORD_BYTES};

/// Where the words of sysbench's `special` distribution fall, in millionths, by eighths of 128
/// bytes, that is by 64 bytes, of a block of 1 KiB: three quarters of the draws on words 63 (33 %),
/// 64 (59 %) and 65 (8 %), the others the exact distribution of the mean of twelve even draws.
const SPECIAL_PPM: [u64; 16] =
    [0, 0, 11, 285, 2_958, 15_076, 42_194, 316_207, 569_215, 38_574, 12_915, 2_352, 207, 7, 0, 0];

/// Fixed-point one of queue lengths.
const ONE: u128 = 1 << 32;

/// A block and where its memory is.
#[derive(Clone, Copy, Debug)]
struct State {
    block: Block,
    bound: Bound,
    home: Option<usize>,
}

/// Who streams through what.
#[derive(Clone, Debug)]
pub struct Streams {
    blocks: Vec<Option<State>>,
    of_cpu: Vec<Option<u32>>,
    active: Vec<CpuId>,
}

impl Streams {
    /// The blocks among a workload's objects, at which nobody is.
    pub fn new(machine: &Machine, objects: &[ObjectKind]) -> Streams {
        let state = |kind: &ObjectKind| match *kind {
            ObjectKind::Block(block) => {
                Some(State { block, bound: block.bound(machine), home: None })
            }
            _ => None,
        };
        Streams {
            blocks: objects.iter().map(state).collect(),
            of_cpu: vec![None; machine.cpu_count()],
            active: Vec::with_capacity(machine.cpu_count()),
        }
    }

    /// The first CPU that touches a block gives it its home.
    pub fn touch(&mut self, machine: &Machine, object: usize, cpu: CpuId) {
        if let Some(state) = &mut self.blocks[object] {
            state.home.get_or_insert(machine.topology().nodes().of(cpu));
        }
    }

    /// `cpu` goes through this block from now on, or through none. Says whether that is news.
    pub fn set(&mut self, machine: &Machine, cpu: CpuId, object: Option<u32>) -> bool {
        if self.of_cpu[cpu.index()] == object {
            return false;
        }
        self.of_cpu[cpu.index()] = object;
        match (object, self.active.binary_search(&cpu)) {
            (Some(_), Err(at)) => self.active.insert(at, cpu),
            (None, Ok(at)) => {
                self.active.remove(at);
            }
            _ => {}
        }
        if let Some(object) = object {
            self.touch(machine, object as usize, cpu);
        }
        true
    }

    /// Some CPU goes through a block.
    pub fn any(&self) -> bool {
        !self.active.is_empty()
    }

    /// CPUs that go through a block, in the order of their numbers.
    pub fn active(&self) -> &[CpuId] {
        &self.active
    }

    /// How fast each of [`active`](Self::active) may be at most, in the units of [`FULL_SPEED`].
    pub fn paces(&self, machine: &Machine) -> Vec<u64> {
        let mut paces = vec![FULL_SPEED; self.active.len()];
        let mut objects: Vec<u32> =
            self.active.iter().filter_map(|cpu| self.object(*cpu)).collect();
        objects.sort_unstable();
        objects.dedup();
        let mut beyond_cache = Vec::new();
        for &object in &objects {
            let Some(state) = self.blocks[object as usize] else { continue };
            let at_it = |cpu: &CpuId| self.object(*cpu) == Some(object);
            match state.bound {
                Bound::Core => {}
                Bound::Lines => {
                    let cpus: Vec<CpuId> = self.active.iter().copied().filter(at_it).collect();
                    let pace = line_pace(machine, &state.block, &cpus);
                    for (cpu, own) in self.active.iter().zip(&mut paces) {
                        if at_it(cpu) {
                            *own = pace;
                        }
                    }
                }
                Bound::Bandwidth => {
                    for (index, cpu) in self.active.iter().enumerate() {
                        if at_it(cpu) {
                            let demand = demand_mb_per_s(&state.block);
                            let in_llc = self.fits_llc(machine, *cpu);
                            let home = state.home.unwrap_or(0);
                            beyond_cache.push(Flow { index, cpu: *cpu, demand, in_llc, home });
                        }
                    }
                }
            }
        }
        for (flow, granted) in beyond_cache.iter().zip(grants(machine, &beyond_cache)) {
            if granted < flow.demand {
                let pace = u128::from(FULL_SPEED) * u128::from(granted) / u128::from(flow.demand);
                paces[flow.index] = (pace as u64).max(1);
            }
        }
        paces
    }

    fn object(&self, cpu: CpuId) -> Option<u32> {
        self.of_cpu[cpu.index()]
    }

    /// All that CPUs of one last-level cache go through at present fits into it.
    fn fits_llc(&self, machine: &Machine, cpu: CpuId) -> bool {
        let llcs = machine.topology().llcs();
        let mut shared: Vec<u32> = Vec::new();
        let mut bytes = 0_u64;
        for other in self.active.iter().filter(|other| llcs.of(**other) == llcs.of(cpu)) {
            let Some(object) = self.object(*other) else { continue };
            let Some(state) = self.blocks[object as usize] else { continue };
            if state.block.private || !shared.contains(&object) {
                bytes = bytes.saturating_add(state.block.bytes);
                shared.push(object);
            }
        }
        bytes <= machine.memory_limits().llc_bytes.unwrap_or(0)
    }
}

/// What a block asks of memory at full speed, MB/s.
fn demand_mb_per_s(block: &Block) -> u64 {
    let per_s = u128::from(block.traffic_bytes()) * 1_000_000 / u128::from(block.pass_ps);
    u64::try_from(per_s).unwrap_or(u64::MAX).max(1)
}

/// A CPU that asks for bandwidth.
struct Flow {
    index: usize,
    cpu: CpuId,
    demand: u64,
    in_llc: bool,
    home: usize,
}

/// What each flow gets, MB/s: no more than it asks for, its core and its link carry, and of its
/// home's memory an even share of what those leave over who cannot use theirs.
fn grants(machine: &Machine, flows: &[Flow]) -> Vec<u64> {
    let limits = machine.memory_limits();
    let topology = machine.topology();
    let unlimited = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let package_of_node = |node: usize| {
        topology.nodes().groups()[node].first().map(|cpu| topology.packages().of(cpu))
    };
    let link = |flow: &Flow| {
        let (home, own) = (package_of_node(flow.home), topology.packages().of(flow.cpu));
        (!flow.in_llc && home != Some(own)).then_some((home, own))
    };
    let mut granted: Vec<u64> = flows
        .iter()
        .map(|flow| {
            if flow.in_llc {
                return flow.demand.min(unlimited(limits.llc_core_mb_per_s));
            }
            let core = remote_share(machine, flow, unlimited(limits.core_mb_per_s));
            let across = match link(flow) {
                None => u64::MAX,
                Some(own) => {
                    let sharers = flows.iter().filter(|other| link(other) == Some(own)).count();
                    unlimited(limits.package_link_mb_per_s) / sharers as u64
                }
            };
            flow.demand.min(core).min(across)
        })
        .collect();
    for home in 0..topology.nodes().len() {
        let mut there: Vec<usize> =
            (0..flows.len()).filter(|at| !flows[*at].in_llc && flows[*at].home == home).collect();
        // Who asks for least is served first, and leaves what it does not use to the others.
        there.sort_by_key(|at| granted[*at]);
        let mut left = unlimited(limits.node_mb_per_s);
        let mut waiting = there.len() as u64;
        for at in there {
            granted[at] = granted[at].min(left / waiting);
            left -= granted[at];
            waiting -= 1;
        }
    }
    granted
}

/// A core keeps so many lines in flight, so that what it moves falls as latency grows. Latencies
/// between those of the own node (distance 10) and of the farthest one follow the distance.
fn remote_share(machine: &Machine, flow: &Flow, local_mb_per_s: u64) -> u64 {
    let nodes = machine.topology().nodes();
    let own = nodes.of(flow.cpu);
    let distance = u64::from(machine.node_distance(own, flow.home)) - 10;
    let farthest = (0..nodes.len())
        .flat_map(|from| (0..nodes.len()).map(move |to| (from, to)))
        .map(|(from, to)| u64::from(machine.node_distance(from, to)) - 10)
        .max();
    let farthest = farthest.unwrap_or(0).max(1);
    let costs = machine.cache_costs();
    let local_ps = costs.memory_local_ps.max(1);
    let extra_ps = costs.memory_remote_ps.saturating_sub(local_ps) * distance / farthest;
    let share = u128::from(local_mb_per_s) * u128::from(local_ps) / u128::from(local_ps + extra_ps);
    share as u64
}

/// How fast CPUs are that store into the lines of one block.
fn line_pace(machine: &Machine, block: &Block, cpus: &[CpuId]) -> u64 {
    if cpus.len() < 2 {
        return FULL_SPEED;
    }
    let line_bytes = u64::from(machine.cache_costs().line_bytes);
    let words = block.bytes / WORD_BYTES;
    let lines = block.bytes.div_ceil(line_bytes);
    let even = vec![(1_000_000 / lines.max(1), lines)];
    // Stores that one hand-over serves, thousandths, and the lines by the share of hand-overs that
    // each takes (millionths), with how many lines have that share.
    let (stores_permille, shares) = match block.pattern {
        Pattern::Sequential => ((line_bytes / WORD_BYTES).min(words) * 1000, even),
        Pattern::Uniform => (stores_per_transfer(machine), even),
        Pattern::Special => {
            let per_line = (line_bytes / 64).max(1) as usize;
            let shares = SPECIAL_PPM.chunks(per_line).map(|line| (line.iter().sum(), 1));
            (stores_per_transfer(machine), shares.filter(|(ppm, _)| *ppm > 0).collect())
        }
    };
    // Between two hand-overs a CPU stores at full speed.
    let think_fs = u128::from(block.pass_ps) * u128::from(stores_permille) / u128::from(words);
    // Between two passes of one CPU over a line all others pass there, unless they go at random.
    let returns = block.pattern != Pattern::Sequential;
    let hand_over_ps = u128::from(mean_transfer_ps(machine, cpus, returns));
    let demands: Vec<(u128, u128)> = shares
        .iter()
        .map(|(ppm, lines)| (hand_over_ps * u128::from(*ppm) / 1000, u128::from(*lines)))
        .collect();
    let mut queues = vec![0_u128; demands.len()];
    let mut cycle_fs = think_fs;
    for customers in 1..=cpus.len() as u128 {
        let wait = |at: usize| demands[at].0 * (ONE + queues[at]) / ONE;
        let waits: Vec<u128> = (0..demands.len()).map(wait).collect();
        cycle_fs = think_fs
            + waits.iter().zip(&demands).map(|(wait, (_, lines))| wait * lines).sum::<u128>();
        for (queue, wait) in queues.iter_mut().zip(&waits) {
            *queue = customers * wait * ONE / cycle_fs.max(1);
        }
    }
    (u128::from(FULL_SPEED) * think_fs / cycle_fs.max(1)).max(1) as u64
}

fn stores_per_transfer(machine: &Machine) -> u64 {
    machine.memory_limits().stores_per_transfer_permille.unwrap_or(1000)
}

/// What the hand-over of a line costs on average between two of these CPUs, each as likely to have
/// had it last, itself included (at no cost) where a line `returns`.
fn mean_transfer_ps(machine: &Machine, cpus: &[CpuId], returns: bool) -> u64 {
    let topology = machine.topology();
    let costs = machine.cache_costs();
    let pairs = |group_of: &dyn Fn(CpuId) -> usize| {
        let mut counts = vec![0_u64; machine.cpu_count()];
        for cpu in cpus {
            counts[group_of(*cpu)] += 1;
        }
        counts.iter().map(|count| count * count).sum::<u64>()
    };
    let count = cpus.len() as u64;
    let all = count * count;
    let package = pairs(&|cpu| topology.packages().of(cpu));
    let llc = pairs(&|cpu| topology.llcs().of(cpu));
    let core = pairs(&|cpu| topology.cores().of(cpu));
    let cluster = topology.clusters().map_or(core, |level| pairs(&|cpu| level.of(cpu)));
    let sum_ps = (core - count) * costs.core_ps
        + (cluster - core) * costs.cluster_ps
        + (llc - cluster) * costs.llc_ps
        + (package - llc) * costs.package_ps
        + (all - package) * costs.machine_ps;
    sum_ps / if returns { all } else { all - count }
}

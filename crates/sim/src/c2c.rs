//! What `perf c2c` would tell of the kernel's shared lines: by line, offset and kernel function,
//! how often an access hit a line that another CPU had modified, and how long loads took.

use crate::coherence::hitm;
use crate::lines::{Served, Source};
use schedlab_kernel::hardware::{Symbol, Touch};
use schedlab_kernel::rt::cpupri::Plan;
use schedlab_kernel::rt::cpupri::memory::LINE_BYTES;
use schedlab_machine::{CpuId, CpuSet, Machine};
use schedlab_workload::program::Access;

/// The shortest load that the profiler samples, cycles (`--ldlat`'s default of `perf c2c`).
pub const LOAD_CYCLES_MIN: u64 = 30;

/// Buckets of a power of two: cycles are known within 6 %.
const SUB_BUCKETS_BITS: u32 = 4;
const BUCKETS: usize = (40 - SUB_BUCKETS_BITS as usize + 1) << SUB_BUCKETS_BITS;

/// Cycles of loads.
#[derive(Clone, Debug)]
struct Cycles {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
    sum: u64,
}

impl Cycles {
    fn new() -> Cycles {
        Cycles { counts: Box::new([0; BUCKETS]), count: 0, sum: 0 }
    }

    fn record(&mut self, cycles: u64) {
        let shift = (64 - cycles.leading_zeros()).saturating_sub(SUB_BUCKETS_BITS + 1);
        let bucket = ((shift as usize) << SUB_BUCKETS_BITS) + (cycles >> shift) as usize;
        let count = &mut self.counts[bucket.min(BUCKETS - 1)];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum += cycles;
    }

    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        });
        let at = at.unwrap_or(0);
        if at < 2 << SUB_BUCKETS_BITS {
            return at as u64;
        }
        let shift = (at >> SUB_BUCKETS_BITS) - 1;
        let low = ((at - (shift << SUB_BUCKETS_BITS)) as u64) << shift;
        low + ((1 << shift) - 1) / 2
    }
}

/// One place in memory, touched by one function.
#[derive(Clone, Debug)]
struct Entry {
    offset: u8,
    symbol: Symbol,
    next: u32,
    remote_hitm: u64,
    local_hitm: u64,
    stores: u64,
    stores_l1_hit: u64,
    loads: Cycles,
    records: u64,
    cpus: CpuSet,
}

const NONE: u32 = u32::MAX;

/// Takes accesses down. Places that were touched before need no memory.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// By line, its first entry.
    first: Vec<u32>,
    entries: Vec<Entry>,
}

impl Recorder {
    pub(crate) fn new(lines: usize) -> Recorder {
        Recorder { first: vec![NONE; lines], entries: Vec::with_capacity(4096) }
    }

    /// An access of `cpu` that began at `now_ps`.
    pub(crate) fn note(
        &mut self,
        machine: &Machine,
        cpu: CpuId,
        touch: &Touch,
        access: Access,
        now_ps: u64,
        served: Served,
    ) {
        let khz = u64::from(machine.max_khz(cpu));
        // ps times kHz is 10^-9 cycles.
        let cycles = (served.done_ps - now_ps).saturating_mul(khz) / 1_000_000_000;
        let loads = access != Access::Write;
        let sampled = loads && cycles >= LOAD_CYCLES_MIN && served.source != Source::Own;
        if access == Access::Read && !sampled {
            return;
        }
        let entry = self.entry(touch);
        entry.records += 1;
        entry.cpus.insert(cpu);
        if sampled {
            entry.loads.record(cycles);
            match hitm(machine, cpu, served) {
                Some(true) => entry.local_hitm += 1,
                Some(false) => entry.remote_hitm += 1,
                None => {}
            }
        }
        if access != Access::Read {
            entry.stores += 1;
            entry.stores_l1_hit += u64::from(served.source == Source::Own);
        }
    }

    fn entry(&mut self, touch: &Touch) -> &mut Entry {
        let line = touch.line() as usize;
        let offset = (touch.at % LINE_BYTES) as u8;
        let mut at = self.first[line];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.offset == offset && entry.symbol == touch.symbol {
                break;
            }
            at = entry.next;
        }
        if at == NONE {
            at = self.entries.len() as u32;
            self.entries.push(Entry {
                offset,
                symbol: touch.symbol,
                next: self.first[line],
                remote_hitm: 0,
                local_hitm: 0,
                stores: 0,
                stores_l1_hit: 0,
                loads: Cycles::new(),
                records: 0,
                cpus: CpuSet::EMPTY,
            });
            self.first[line] = at;
        }
        &mut self.entries[at as usize]
    }

    pub(crate) fn report(&self, plan: &Plan) -> C2cReport {
        let mut lines: Vec<C2cLine> = Vec::new();
        for (number, &first) in self.first.iter().enumerate() {
            if first == NONE {
                continue;
            }
            let (object, from) = plan.object(number as u32 * LINE_BYTES);
            let mut line = C2cLine {
                name: format!("{object}+{from:#x}"),
                remote_hitm: 0,
                local_hitm: 0,
                stores: 0,
                records: 0,
                places: Vec::new(),
            };
            let mut at = first;
            while at != NONE {
                let entry = &self.entries[at as usize];
                at = entry.next;
                line.remote_hitm += entry.remote_hitm;
                line.local_hitm += entry.local_hitm;
                line.stores += entry.stores;
                line.records += entry.records;
                let loads = &entry.loads;
                line.places.push(C2cPlace {
                    offset: entry.offset,
                    symbol: entry.symbol.name(),
                    remote_hitm: entry.remote_hitm,
                    local_hitm: entry.local_hitm,
                    stores_l1_hit: entry.stores_l1_hit,
                    stores_l1_miss: entry.stores - entry.stores_l1_hit,
                    loads: loads.count,
                    load_cycles_mean: loads.sum.checked_div(loads.count).unwrap_or(0),
                    load_cycles_p50: if loads.count > 0 { loads.percentile(50) } else { 0 },
                    load_cycles_p99: if loads.count > 0 { loads.percentile(99) } else { 0 },
                    records: entry.records,
                    cpus: entry.cpus.weight() as u32,
                });
            }
            let order = |place: &C2cPlace| {
                let hitm = place.remote_hitm + place.local_hitm;
                (place.offset, std::cmp::Reverse((hitm, place.records)), place.symbol)
            };
            line.places.sort_by_key(order);
            lines.push(line);
        }
        lines.sort_by_key(|line| {
            let hitm = (line.remote_hitm + line.local_hitm, line.remote_hitm, line.records);
            std::cmp::Reverse(hitm)
        });
        C2cReport { lines }
    }
}

/// The lines that were touched, those with the most modified hits first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct C2cReport {
    /// Them.
    pub lines: Vec<C2cLine>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct C2cLine {
    /// The kernel's object in it, and how far from that object's start the line begins.
    pub name: String,
    /// Loads that found it modified in the cache of another core of another NUMA node.
    pub remote_hitm: u64,
    /// The same of the own node.
    pub local_hitm: u64,
    /// Stores and atomic operations.
    pub stores: u64,
    /// Loads that left the core's caches, stores and atomic operations.
    pub records: u64,
    /// By offset and function.
    pub places: Vec<C2cPlace>,
}

/// One offset in a line, touched by one function. An atomic operation is a load and a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct C2cPlace {
    /// Bytes from the start of the line.
    pub offset: u8,
    /// The kernel function.
    pub symbol: &'static str,
    /// Loads that found the line modified on another node.
    pub remote_hitm: u64,
    /// On the same node.
    pub local_hitm: u64,
    /// Stores that owned the line already.
    pub stores_l1_hit: u64,
    /// Stores that had to fetch it.
    pub stores_l1_miss: u64,
    /// Loads of 30 cycles or more that left the core's caches, which are what the profiler samples.
    pub loads: u64,
    /// Their mean, cycles at the CPU's highest frequency.
    pub load_cycles_mean: u64,
    /// Their median, within 6 %.
    pub load_cycles_p50: u64,
    /// Their 99th percentile, within 6 %.
    pub load_cycles_p99: u64,
    /// All accesses taken down.
    pub records: u64,
    /// CPUs that came.
    pub cpus: u32,
}

//! Where each layout keeps what: the bytes of `struct root_domain`, of the vectors in it and of
//! the masks that they point to, so that what shares a cache line in the kernel shares one here.
//!
//! Source: `struct root_domain` and `struct cpupri` of Linux 6.12 on x86-64 with
//! `CONFIG_CPUMASK_OFFSTACK=y`, and the four patches and the two answers of the thread in which
//! per-node masks were proposed (March and April 2026).

use super::memory::LINE_BYTES;
use super::{Groups, LEVELS};
use schedlab_machine::{CpuId, CpuSet};
use serde::Deserialize;
use std::fmt;

/// How the priority map and what shares its cache lines are kept. Each differs from
/// [`Layout::Global`] in one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Linux 6.12: each level has a count and points to one mask of all CPUs; four levels share a
    /// line, the first of them with what counts overloaded CPUs.
    #[default]
    Global,
    /// A mask per level and NUMA node, of which the local one is looked at first.
    PerNode,
    /// A mask per level and last-level cache.
    PerLlc,
    /// A bitmap per level whose leaves are lines of their own, one for each last-level cache, with
    /// CPUs in the order of the tree; a search looks at the leaves that its task may use.
    ScalableBitmap,
    /// Each count and each pointer has a line of its own.
    Padded,
    /// The vectors begin a line of their own, and so does `overloaded`.
    Reordered,
    /// Overloaded CPUs are counted per NUMA node, each count in a line of its own.
    OverloadPerNode,
    /// All counts side by side, then all pointers.
    Contiguous,
}

impl Layout {
    /// Every layout, `global` first.
    pub const ALL: [Layout; 8] = [
        Layout::Global,
        Layout::PerNode,
        Layout::PerLlc,
        Layout::ScalableBitmap,
        Layout::Padded,
        Layout::Reordered,
        Layout::OverloadPerNode,
        Layout::Contiguous,
    ];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Global => "global",
            Layout::PerNode => "per-node",
            Layout::PerLlc => "per-llc",
            Layout::ScalableBitmap => "scalable-bitmap",
            Layout::Padded => "padded",
            Layout::Reordered => "reordered",
            Layout::OverloadPerNode => "overload-per-node",
            Layout::Contiguous => "contiguous",
        }
    }

    /// By its name in files.
    ///
    /// ```
    /// use schedlab_kernel::rt::cpupri::Layout;
    /// assert_eq!(Layout::by_name("per-node"), Some(Layout::PerNode));
    /// assert!(Layout::ALL.iter().all(|&layout| Layout::by_name(layout.name()) == Some(layout)));
    /// ```
    pub fn by_name(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.name() == name)
    }
}

/// How the masks of a level are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// One mask of all CPUs.
    Whole,
    /// A mask as wide as all CPUs for each part; bits of other parts are set.
    Masks,
    /// A leaf as wide as its part for each part.
    Leaves,
}

/// Equally spaced cells.
#[derive(Clone, Copy, Debug)]
struct Spaced {
    base: u32,
    stride: u32,
}

impl Spaced {
    #[inline]
    fn at(self, index: usize) -> u32 {
        self.base + self.stride * index as u32
    }
}

/// The addresses of one layout on one machine.
#[derive(Clone, Debug)]
pub struct Plan {
    layout: Layout,
    split: Split,
    levels: usize,
    cpus: usize,
    /// CPUs whose bits are in one mask or leaf.
    parts: Vec<CpuSet>,
    part_of: Vec<u32>,
    /// A CPU's bit in the leaf of its part, and by part the CPU of each bit.
    rank_of: Vec<u32>,
    ranked: Vec<Vec<CpuId>>,
    /// NUMA nodes, for layouts that count overloaded CPUs by them.
    node_of: Vec<u32>,
    nodes: usize,
    counts: Spaced,
    pointers: Spaced,
    /// A level's array of pointers, one to each part.
    arrays: Spaced,
    /// The masks of a level, and of these that of each part.
    masks: Spaced,
    mask_bytes: u32,
    rto_counts: Spaced,
    overloaded: u32,
    cpu_to_pri_pointer: u32,
    cpu_to_pri: u32,
    domain_bytes: u32,
    wide_from: u32,
    rto_mask: u32,
    bytes: u32,
}

/// Bytes from the start of `struct root_domain` that no layout moves.
pub(super) mod offset {
    pub const RTO_COUNT: u32 = 4;
    pub const OVERLOADED: u32 = 40;
    pub const RTO_PUSH_WORK: u32 = 128;
    pub const RTO_LOCK: u32 = 152;
    pub const RTO_LOOP: u32 = 156;
    pub const RTO_CPU: u32 = 160;
    pub const RTO_LOOP_NEXT: u32 = 164;
    pub const RTO_LOOP_START: u32 = 168;
    pub const RTO_MASK: u32 = 176;
    pub const CPUPRI: u32 = 184;
}

/// Where the vectors begin in layouts that give them lines of their own.
const CPUPRI_ALIGNED: u32 = 192;

/// From the pointer to `cpu_to_pri`, the first member behind the vectors, to the end of `pd`, the
/// last of the root domain.
const TAIL_BYTES: u32 = 24;

const fn lines(bytes: u32) -> u32 {
    bytes.next_multiple_of(LINE_BYTES)
}

/// What the allocator hands out for so many bytes: powers of two, side by side on fresh pages.
fn slab(bytes: usize) -> u32 {
    bytes.next_power_of_two().max(8) as u32
}

impl Plan {
    /// The layout for these CPUs, with all levels.
    pub fn new(layout: Layout, groups: &Groups) -> Plan {
        Plan::with_levels(layout, groups, LEVELS)
    }

    /// The same with the lowest `levels` levels alone, which is enough where every interleaving of
    /// threads is to be tried.
    pub fn with_levels(layout: Layout, groups: &Groups, levels: usize) -> Plan {
        let cpus = groups.cpus;
        let (split, parts) = match layout {
            Layout::PerNode => (Split::Masks, groups.nodes.clone()),
            Layout::PerLlc => (Split::Masks, groups.llcs.clone()),
            Layout::ScalableBitmap => (Split::Leaves, groups.llcs.clone()),
            _ => (Split::Whole, vec![CpuSet::first_n(cpus)]),
        };
        let count = levels as u32;
        let (counts, pointers, behind) = match layout {
            Layout::Padded => {
                let stride = 2 * LINE_BYTES;
                let pointers = Spaced { base: CPUPRI_ALIGNED + LINE_BYTES, stride };
                (Spaced { base: CPUPRI_ALIGNED, stride }, pointers, CPUPRI_ALIGNED + stride * count)
            }
            Layout::Contiguous => {
                let pointers = Spaced { base: lines(CPUPRI_ALIGNED + 4 * count), stride: 8 };
                (Spaced { base: CPUPRI_ALIGNED, stride: 4 }, pointers, pointers.base + 8 * count)
            }
            _ => {
                let aligned = layout == Layout::Reordered;
                let base = if aligned { CPUPRI_ALIGNED } else { offset::CPUPRI };
                let counts = Spaced { base, stride: 16 };
                (counts, Spaced { base: base + 8, stride: 16 }, base + 16 * count)
            }
        };
        let mut end = lines(behind + TAIL_BYTES);
        let mut take = |bytes: u32| {
            let at = end;
            end += lines(bytes);
            at
        };
        let overloaded = match layout {
            Layout::Reordered => {
                // `pd` has a line of its own, too.
                take(LINE_BYTES);
                take(LINE_BYTES)
            }
            _ => offset::OVERLOADED,
        };
        let domain_bytes = take(0);
        let rto_counts = match layout {
            Layout::OverloadPerNode => {
                Spaced { base: take(groups.nodes.len() as u32 * LINE_BYTES), stride: LINE_BYTES }
            }
            _ => Spaced { base: offset::RTO_COUNT, stride: 0 },
        };
        let cpu_to_pri = take(cpus as u32 * 4);
        let has_arrays = split == Split::Masks || (split == Split::Leaves && parts.len() > 1);
        let header = if split == Split::Leaves { 8 } else { 0 };
        let array_bytes = if has_arrays { slab(header + parts.len() * 8) } else { 0 };
        let arrays =
            Spaced { base: take(array_bytes * count) + header as u32, stride: array_bytes };
        let wide_from = take(0);
        let words = |cpus: usize| cpus.div_ceil(64).max(1);
        let rto_mask = take(slab(words(cpus) * 8));
        let widest = parts.iter().map(CpuSet::weight).max().unwrap_or(1);
        let mask_bytes = match split {
            Split::Leaves => lines(8 + words(widest) as u32 * 8),
            Split::Whole | Split::Masks => slab(words(cpus) * 8),
        };
        let stride = mask_bytes * parts.len() as u32;
        let masks = Spaced { base: take(stride * count), stride };
        let mut ranked = vec![Vec::new(); parts.len()];
        let (part_of, mut rank_of) = (numbers(&parts, cpus), vec![0; cpus]);
        for &cpu in &groups.order {
            let part = &mut ranked[part_of[cpu.index()] as usize];
            rank_of[cpu.index()] = part.len() as u32;
            part.push(cpu);
        }
        Plan {
            layout,
            split,
            levels,
            cpus,
            part_of,
            parts,
            rank_of,
            ranked,
            node_of: numbers(&groups.nodes, cpus),
            nodes: groups.nodes.len(),
            counts,
            pointers,
            arrays,
            masks,
            mask_bytes,
            rto_counts,
            overloaded,
            cpu_to_pri_pointer: behind.next_multiple_of(8),
            cpu_to_pri,
            domain_bytes,
            wide_from,
            rto_mask,
            bytes: end,
        }
    }

    /// Which layout it is.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How many levels it has.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// How many CPUs it is for.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Where 8-byte cells begin.
    pub fn wide_from(&self) -> u32 {
        self.wide_from
    }

    /// All of it.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Cache lines.
    pub fn lines(&self) -> usize {
        (self.bytes / LINE_BYTES) as usize
    }

    /// Cache lines of `struct root_domain` itself.
    pub fn domain_lines(&self) -> usize {
        (self.domain_bytes / LINE_BYTES) as usize
    }

    pub(super) fn split(&self) -> Split {
        self.split
    }

    pub(super) fn parts(&self) -> &[CpuSet] {
        &self.parts
    }

    #[inline]
    pub(super) fn part_of(&self, cpu: CpuId) -> usize {
        self.part_of[cpu.index()] as usize
    }

    /// The CPUs of a leaf's bits.
    #[inline]
    pub(super) fn ranked(&self, part: usize) -> &[CpuId] {
        &self.ranked[part]
    }

    /// Where in a mask, from its start, the word with the bit of `cpu` is, and the bit.
    #[inline]
    pub(super) fn bit(&self, cpu: CpuId) -> (u32, u64) {
        match self.split {
            Split::Leaves => {
                let rank = self.rank_of[cpu.index()];
                (8 + rank / 64 * 8, 1 << (rank % 64))
            }
            Split::Whole | Split::Masks => (cpu.0 / 64 * 8, 1 << (cpu.0 % 64)),
        }
    }

    /// Words of a mask of all CPUs.
    #[inline]
    pub(super) fn words(&self) -> usize {
        self.cpus.div_ceil(64).max(1)
    }

    #[inline]
    pub(super) fn count(&self, level: usize) -> u32 {
        self.counts.at(level)
    }

    #[inline]
    pub(super) fn pointer(&self, level: usize) -> u32 {
        self.pointers.at(level)
    }

    /// Between the pointer of a level and its masks there is an array of pointers.
    #[inline]
    pub(super) fn has_arrays(&self) -> bool {
        self.arrays.stride > 0
    }

    pub(super) fn array(&self, level: usize) -> u32 {
        self.arrays.at(level)
    }

    pub(super) fn mask(&self, level: usize, part: usize) -> u32 {
        self.masks.at(level) + self.mask_bytes * part as u32
    }

    #[inline]
    pub(super) fn cpu_to_pri_pointer(&self) -> u32 {
        self.cpu_to_pri_pointer
    }

    #[inline]
    pub(super) fn cpu_to_pri(&self, cpu: CpuId) -> u32 {
        self.cpu_to_pri + 4 * cpu.0
    }

    /// Counters of overloaded CPUs.
    #[inline]
    pub(super) fn rto_counters(&self) -> usize {
        if self.rto_counts.stride == 0 { 1 } else { self.nodes }
    }

    #[inline]
    pub(super) fn rto_count(&self, counter: usize) -> u32 {
        self.rto_counts.at(counter)
    }

    #[inline]
    pub(super) fn rto_counter_of(&self, cpu: CpuId) -> usize {
        if self.rto_counts.stride == 0 { 0 } else { self.node_of[cpu.index()] as usize }
    }

    #[inline]
    pub(super) fn overloaded(&self) -> u32 {
        self.overloaded
    }

    #[inline]
    pub(super) fn rto_mask(&self) -> u32 {
        self.rto_mask
    }

    /// What is at an address, and where in it.
    pub fn object(&self, at: u32) -> (Object, u32) {
        let spaced = |spaced: Spaced| {
            let from = at.checked_sub(spaced.base)?;
            let index = from.checked_div(spaced.stride)?;
            Some((index as usize, from - index * spaced.stride))
        };
        if at < self.domain_bytes {
            return (Object::RootDomain, at);
        }
        if at >= self.wide_from {
            return match spaced(self.masks).filter(|(level, _)| *level < self.levels) {
                Some((level, from)) => {
                    let part = (from / self.mask_bytes) as usize;
                    let part = (self.split != Split::Whole).then_some(part);
                    (Object::Mask { level, part }, from % self.mask_bytes)
                }
                None => (Object::RtoMask, at - self.rto_mask),
            };
        }
        if at < self.cpu_to_pri {
            let (node, from) = spaced(self.rto_counts).unwrap_or((0, 0));
            return (Object::RtoCount { node }, from);
        }
        match spaced(self.arrays).filter(|(level, _)| *level < self.levels) {
            Some((level, from)) => (Object::Pointers { level }, from),
            None => (Object::CpuToPri, at - self.cpu_to_pri),
        }
    }
}

/// The group of each CPU.
fn numbers(groups: &[CpuSet], cpus: usize) -> Vec<u32> {
    let mut of = vec![0; cpus];
    for (index, group) in groups.iter().enumerate() {
        for cpu in group.iter().filter(|cpu| cpu.index() < cpus) {
            of[cpu.index()] = index as u32;
        }
    }
    of
}

/// A piece of memory by the name that the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// `struct root_domain`, the vectors of `cpupri` in it.
    RootDomain,
    /// A node's count of overloaded CPUs, where nodes have one.
    RtoCount {
        /// Of this NUMA node.
        node: usize,
    },
    /// What each CPU runs, by CPU.
    CpuToPri,
    /// Pointers to the masks of a level.
    Pointers {
        /// That level.
        level: usize,
    },
    /// Overloaded CPUs.
    RtoMask,
    /// The CPUs of a level.
    Mask {
        /// That level.
        level: usize,
        /// The part of the machine, where masks are split.
        part: Option<usize>,
    },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::RootDomain => f.write_str("root_domain"),
            Object::RtoCount { node } => write!(f, "rto_count[{node}]"),
            Object::CpuToPri => f.write_str("cpu_to_pri"),
            Object::Pointers { level } => write!(f, "pri_to_cpu[{level}].masks"),
            Object::RtoMask => f.write_str("rto_mask"),
            Object::Mask { level, part: None } => write!(f, "pri_to_cpu[{level}].mask"),
            Object::Mask { level, part: Some(part) } => {
                write!(f, "pri_to_cpu[{level}].masks[{part}]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_domain_takes_as_many_lines_as_published() {
        let groups = Groups::even(480, 80, 80);
        let plan = |layout| Plan::new(layout, &groups);
        assert_eq!(plan(Layout::Global).domain_lines(), 29);
        assert_eq!(plan(Layout::Reordered).domain_lines(), 31);
        let global = plan(Layout::Global);
        assert_eq!((global.count(0), global.pointer(0), global.count(99)), (184, 192, 1768));
        // The vectors and the pointer behind them: 203 lines padded; with contiguous counts 20,
        // published as 21, as if the pointer had a line of its own.
        let span = |layout| {
            let plan = plan(layout);
            plan.cpu_to_pri_pointer() / LINE_BYTES - plan.count(0) / LINE_BYTES + 1
        };
        assert_eq!((span(Layout::Padded), span(Layout::Contiguous)), (203, 20));
        // A mask of 480 CPUs is a line.
        assert_eq!(global.mask(1, 0) - global.mask(0, 0), LINE_BYTES);
        assert_eq!(plan(Layout::PerNode).parts().len(), 6);
    }

    #[test]
    fn every_address_has_a_name() {
        let groups = Groups::even(480, 40, 80);
        for layout in Layout::ALL {
            let plan = Plan::new(layout, &groups);
            let name = |at| plan.object(at).0.to_string();
            assert_eq!(name(plan.count(0)), "root_domain", "{layout:?}");
            assert_eq!(plan.object(plan.cpu_to_pri(CpuId(9))), (Object::CpuToPri, 36));
            assert_eq!(plan.object(plan.rto_mask() + 8), (Object::RtoMask, 8));
            for level in [0, 99] {
                let part = plan.parts().len() - 1;
                let (object, from) = plan.object(plan.mask(level, part) + 8);
                let part = (plan.split() != Split::Whole).then_some(part);
                assert_eq!((object, from), (Object::Mask { level, part }, 8), "{layout:?}");
                if plan.has_arrays() {
                    assert_eq!(plan.object(plan.array(level)), (Object::Pointers { level }, 0));
                }
            }
        }
        let plan = Plan::new(Layout::OverloadPerNode, &groups);
        assert_eq!(plan.object(plan.rto_count(2)), (Object::RtoCount { node: 2 }, 0));
    }
}

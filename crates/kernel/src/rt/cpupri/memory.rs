//! The memory a map is kept in: real atomics, or cells that tell of each access.

use super::Plan;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a cache line.
pub const LINE_BYTES: u32 = 64;

/// How memory is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Load,
    /// Written without being read.
    Store,
    /// Read and written at once (`lock` on x86).
    Rmw,
    /// A spinlock is taken.
    Lock,
    /// It is given back.
    Unlock,
}

/// The kernel function that touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Symbol {
    /// Takes down what a CPU runs.
    CpupriSet,
    /// Looks at counts and pointers.
    CpupriFind,
    /// Looks for a CPU in a mask.
    FindFirstAnd,
    /// Cuts masks.
    BitmapAnd,
    /// A waiting task is offered to other CPUs.
    EnqueuePushable,
    /// It no longer is.
    DequeuePushable,
    /// Looks whether tasks wait elsewhere.
    PullRt,
    /// The interrupt that goes from one overloaded CPU to the next.
    RtoPush,
    /// A CPU has more tasks than one.
    Enqueue,
    /// A CPU that goes idle looks whether another has tasks to spare.
    Newidle,
}

impl Symbol {
    /// Every one.
    pub const ALL: [Symbol; 10] = [
        Symbol::CpupriSet,
        Symbol::CpupriFind,
        Symbol::FindFirstAnd,
        Symbol::BitmapAnd,
        Symbol::EnqueuePushable,
        Symbol::DequeuePushable,
        Symbol::PullRt,
        Symbol::RtoPush,
        Symbol::Enqueue,
        Symbol::Newidle,
    ];

    /// The kernel's own name, as profilers print it.
    pub const fn name(self) -> &'static str {
        match self {
            Symbol::CpupriSet => "cpupri_set",
            Symbol::CpupriFind => "cpupri_find_fitness",
            Symbol::FindFirstAnd => "_find_first_and_bit",
            Symbol::BitmapAnd => "__bitmap_and",
            Symbol::EnqueuePushable => "enqueue_pushable_task",
            Symbol::DequeuePushable => "dequeue_pushable_task",
            Symbol::PullRt => "pull_rt_task",
            Symbol::RtoPush => "rto_push_irq_work_func",
            Symbol::Enqueue => "enqueue_task",
            Symbol::Newidle => "sched_balance_newidle",
        }
    }
}

/// Memory of 4-byte cells from address 0 on and of 8-byte cells behind them, as [`Plan`] lays it
/// out. Addresses are in bytes.
pub trait Memory {
    /// Reads a 4-byte cell.
    fn load32(&self, at: u32, order: Ordering, symbol: Symbol) -> u32;
    /// Writes a 4-byte cell.
    fn store32(&self, at: u32, value: u32, order: Ordering, symbol: Symbol);
    /// Adds to a 4-byte cell, wrapping; returns what it was.
    fn add32(&self, at: u32, value: u32, order: Ordering, symbol: Symbol) -> u32;
    /// Writes a 4-byte cell if it is `from`; tells whether it was.
    fn exchange32(&self, at: u32, from: u32, to: u32, order: Ordering, symbol: Symbol) -> bool;
    /// Reads an 8-byte cell.
    fn load64(&self, at: u32, order: Ordering, symbol: Symbol) -> u64;
    /// Writes an 8-byte cell.
    fn store64(&self, at: u32, value: u64, order: Ordering, symbol: Symbol);
    /// Sets bits of an 8-byte cell.
    fn or64(&self, at: u32, bits: u64, order: Ordering, symbol: Symbol);
    /// Keeps only these bits of an 8-byte cell.
    fn and64(&self, at: u32, bits: u64, order: Ordering, symbol: Symbol);
    /// Spins until a 4-byte cell that is a lock is the caller's.
    fn lock(&self, at: u32, symbol: Symbol);
    /// Gives it back.
    fn unlock(&self, at: u32, symbol: Symbol);
}

#[derive(Debug)]
#[repr(align(64))]
struct Narrow([AtomicU32; 16]);

#[derive(Debug)]
#[repr(align(64))]
struct Wide([AtomicU64; 8]);

/// Real atomics, for threads.
#[derive(Debug)]
pub struct Atomics {
    narrow: Box<[Narrow]>,
    wide: Box<[Wide]>,
}

impl Atomics {
    /// Zeroed memory as large as the plan wants it.
    pub fn new(plan: &Plan) -> Atomics {
        let narrow = plan.wide_from() / LINE_BYTES;
        let wide = (plan.bytes() - plan.wide_from()) / LINE_BYTES;
        Atomics {
            narrow: (0..narrow).map(|_| Narrow(Default::default())).collect(),
            wide: (0..wide).map(|_| Wide(Default::default())).collect(),
        }
    }

    #[inline]
    fn narrow(&self, at: u32) -> &AtomicU32 {
        &self.narrow[(at / LINE_BYTES) as usize].0[(at % LINE_BYTES / 4) as usize]
    }

    #[inline]
    fn wide(&self, at: u32) -> &AtomicU64 {
        let line = (at / LINE_BYTES) as usize - self.narrow.len();
        &self.wide[line].0[(at % LINE_BYTES / 8) as usize]
    }
}

impl Memory for Atomics {
    #[inline]
    fn load32(&self, at: u32, order: Ordering, _: Symbol) -> u32 {
        self.narrow(at).load(order)
    }

    #[inline]
    fn store32(&self, at: u32, value: u32, order: Ordering, _: Symbol) {
        self.narrow(at).store(value, order);
    }

    #[inline]
    fn add32(&self, at: u32, value: u32, order: Ordering, _: Symbol) -> u32 {
        self.narrow(at).fetch_add(value, order)
    }

    #[inline]
    fn exchange32(&self, at: u32, from: u32, to: u32, order: Ordering, _: Symbol) -> bool {
        self.narrow(at).compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn load64(&self, at: u32, order: Ordering, _: Symbol) -> u64 {
        self.wide(at).load(order)
    }

    #[inline]
    fn store64(&self, at: u32, value: u64, order: Ordering, _: Symbol) {
        self.wide(at).store(value, order);
    }

    #[inline]
    fn or64(&self, at: u32, bits: u64, order: Ordering, _: Symbol) {
        self.wide(at).fetch_or(bits, order);
    }

    #[inline]
    fn and64(&self, at: u32, bits: u64, order: Ordering, _: Symbol) {
        self.wide(at).fetch_and(bits, order);
    }

    #[inline]
    fn lock(&self, at: u32, _: Symbol) {
        let cell = self.narrow(at);
        while cell.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // Only read while it is taken, so that waiting leaves the line with its owner.
            while cell.load(Ordering::Relaxed) != 0 {
                std::hint::spin_loop();
            }
        }
    }

    #[inline]
    fn unlock(&self, at: u32, _: Symbol) {
        self.narrow(at).store(0, Ordering::Release);
    }
}

/// One access, or several loads of one line in a row, which cost no more than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The first byte.
    pub at: u32,
    /// Loads in a row, 1 for other accesses.
    pub loads: u16,
    /// How.
    pub access: Access,
    /// By whom.
    pub symbol: Symbol,
}

impl Touch {
    /// The number of its cache line.
    #[inline]
    pub const fn line(&self) -> u32 {
        self.at / LINE_BYTES
    }
}

/// Memory for one thread that takes down each access, in order.
#[derive(Debug)]
pub struct Traced {
    narrow: Box<[Cell<u32>]>,
    wide: Box<[Cell<u64>]>,
    wide_from: u32,
    touches: RefCell<Vec<Touch>>,
}

/// Accesses for which there is room without allocating: more than a search makes.
const TOUCHES_ROOM: usize = 4096;

impl Traced {
    /// Zeroed memory as large as the plan wants it.
    pub fn new(plan: &Plan) -> Traced {
        let narrow = plan.wide_from() / 4;
        let wide = (plan.bytes() - plan.wide_from()) / 8;
        Traced {
            narrow: vec![Cell::new(0); narrow as usize].into(),
            wide: vec![Cell::new(0); wide as usize].into(),
            wide_from: plan.wide_from(),
            touches: RefCell::new(Vec::with_capacity(TOUCHES_ROOM)),
        }
    }

    /// Hands the accesses since the last call to `take`.
    #[inline]
    pub fn drain(&self, take: impl FnOnce(&[Touch])) {
        let mut touches = self.touches.borrow_mut();
        if !touches.is_empty() {
            take(&touches);
            touches.clear();
        }
    }

    /// Reads a 4-byte cell as nobody in the kernel does.
    pub fn peek32(&self, at: u32) -> u32 {
        self.narrow(at).get()
    }

    #[inline]
    fn note(&self, at: u32, access: Access, symbol: Symbol) {
        let mut touches = self.touches.borrow_mut();
        match touches.last_mut() {
            Some(last)
                if access == Access::Load
                    && last.access == Access::Load
                    && last.line() == at / LINE_BYTES
                    && last.symbol == symbol =>
            {
                last.loads = last.loads.saturating_add(1);
            }
            _ => touches.push(Touch { at, loads: 1, access, symbol }),
        }
    }

    #[inline]
    fn narrow(&self, at: u32) -> &Cell<u32> {
        &self.narrow[(at / 4) as usize]
    }

    #[inline]
    fn wide(&self, at: u32) -> &Cell<u64> {
        &self.wide[((at - self.wide_from) / 8) as usize]
    }
}

impl Memory for Traced {
    #[inline]
    fn load32(&self, at: u32, _: Ordering, symbol: Symbol) -> u32 {
        self.note(at, Access::Load, symbol);
        self.narrow(at).get()
    }

    #[inline]
    fn store32(&self, at: u32, value: u32, _: Ordering, symbol: Symbol) {
        self.note(at, Access::Store, symbol);
        self.narrow(at).set(value);
    }

    #[inline]
    fn add32(&self, at: u32, value: u32, _: Ordering, symbol: Symbol) -> u32 {
        self.note(at, Access::Rmw, symbol);
        let cell = self.narrow(at);
        cell.replace(cell.get().wrapping_add(value))
    }

    #[inline]
    fn exchange32(&self, at: u32, from: u32, to: u32, _: Ordering, symbol: Symbol) -> bool {
        self.note(at, Access::Rmw, symbol);
        let cell = self.narrow(at);
        let is = cell.get() == from;
        if is {
            cell.set(to);
        }
        is
    }

    #[inline]
    fn load64(&self, at: u32, _: Ordering, symbol: Symbol) -> u64 {
        self.note(at, Access::Load, symbol);
        self.wide(at).get()
    }

    #[inline]
    fn store64(&self, at: u32, value: u64, _: Ordering, symbol: Symbol) {
        self.note(at, Access::Store, symbol);
        self.wide(at).set(value);
    }

    #[inline]
    fn or64(&self, at: u32, bits: u64, _: Ordering, symbol: Symbol) {
        self.note(at, Access::Rmw, symbol);
        let cell = self.wide(at);
        cell.set(cell.get() | bits);
    }

    #[inline]
    fn and64(&self, at: u32, bits: u64, _: Ordering, symbol: Symbol) {
        self.note(at, Access::Rmw, symbol);
        let cell = self.wide(at);
        cell.set(cell.get() & bits);
    }

    #[inline]
    fn lock(&self, at: u32, symbol: Symbol) {
        self.note(at, Access::Lock, symbol);
    }

    #[inline]
    fn unlock(&self, at: u32, symbol: Symbol) {
        self.note(at, Access::Unlock, symbol);
    }
}

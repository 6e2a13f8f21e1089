//! Which CPUs hold real-time tasks for others, kept in the same cache lines as the priority map
//! (`rt_set_overload()` and what reads it in `kernel/sched/rt.c`, 6.12), and whether any CPU has
//! tasks to spare (`rd->overloaded`).

use super::RootDomain;
use super::memory::{Memory, Symbol};
use super::plan::offset;
use schedlab_machine::CpuId;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

impl<M: Memory> RootDomain<M> {
    /// `cpu` holds tasks for others from now on (`rt_set_overload()`). The bit is there before it
    /// counts, so that who has read the count finds it.
    pub fn set_overload(&self, cpu: CpuId) {
        let by = Symbol::EnqueuePushable;
        self.memory.load32(offset::RTO_MASK, Relaxed, by);
        let (from, bit) = (cpu.0 / 64 * 8, 1 << (cpu.0 % 64));
        self.memory.or64(self.plan.rto_mask() + from, bit, Relaxed, by);
        self.memory.add32(self.plan.rto_count(self.plan.rto_counter_of(cpu)), 1, Release, by);
    }

    /// It does no longer (`rt_clear_overload()`).
    pub fn clear_overload(&self, cpu: CpuId) {
        let by = Symbol::DequeuePushable;
        let count = self.plan.rto_count(self.plan.rto_counter_of(cpu));
        self.memory.add32(count, u32::MAX, Relaxed, by);
        self.memory.load32(offset::RTO_MASK, Relaxed, by);
        let (from, bit) = (cpu.0 / 64 * 8, 1_u64 << (cpu.0 % 64));
        self.memory.and64(self.plan.rto_mask() + from, !bit, Relaxed, by);
    }

    /// How many CPUs hold tasks for others (`rt_overloaded()`). Counts of nodes are added up from
    /// `this_cpu`'s on until there is more than one, which is all that is asked.
    pub fn overload_count(&self, this_cpu: CpuId) -> u32 {
        let (first, counters) = (self.plan.rto_counter_of(this_cpu), self.plan.rto_counters());
        let mut sum = 0;
        for counter in (first..counters).chain(0..first) {
            let count = self.plan.rto_count(counter);
            sum += self.memory.load32(count, Acquire, Symbol::PullRt);
            if sum > 1 {
                break;
            }
        }
        sum
    }

    /// True if `cpu` holds tasks for others.
    pub fn is_overloaded(&self, cpu: CpuId) -> bool {
        let by = Symbol::PullRt;
        self.memory.load32(offset::RTO_MASK, Relaxed, by);
        let at = self.plan.rto_mask() + cpu.0 / 64 * 8;
        self.memory.load64(at, Acquire, by) >> (cpu.0 % 64) & 1 != 0
    }

    /// The first CPU from `from` on that holds tasks for others (`cpumask_next()`).
    pub fn next_overloaded(&self, from: CpuId) -> Option<CpuId> {
        let by = Symbol::RtoPush;
        self.memory.load32(offset::RTO_MASK, Relaxed, by);
        for word in (from.index() / 64)..self.plan.words() {
            let mut bits = self.memory.load64(self.plan.rto_mask() + 8 * word as u32, Acquire, by);
            if word == from.index() / 64 {
                bits &= u64::MAX << (from.0 % 64);
            }
            if bits != 0 {
                return Some(CpuId(word as u32 * 64 + bits.trailing_zeros()));
            }
        }
        None
    }

    /// `this_cpu` wants overloaded CPUs to push: one more round is asked for. Returns the CPU to
    /// interrupt, unless an interrupt is on its way already (`tell_cpu_to_push()`).
    pub fn ask_to_push(&self, this_cpu: CpuId) -> Option<CpuId> {
        let by = Symbol::PullRt;
        self.memory.add32(offset::RTO_LOOP_NEXT, 1, AcqRel, by);
        if !self.memory.exchange32(offset::RTO_LOOP_START, 0, 1, Acquire, by) {
            return None;
        }
        self.memory.lock(offset::RTO_LOCK, by);
        let under_way = self.memory.load32(offset::RTO_CPU, Relaxed, by) != 0;
        let next = if under_way { None } else { self.next_to_push(this_cpu, by) };
        self.memory.unlock(offset::RTO_LOCK, by);
        self.memory.store32(offset::RTO_LOOP_START, 0, Release, by);
        self.queue_push(next, by);
        next
    }

    /// The interrupt has made `this_cpu` push. Returns the CPU that it goes on to
    /// (`rto_push_irq_work_func()`).
    pub fn pass_on(&self, this_cpu: CpuId) -> Option<CpuId> {
        let by = Symbol::RtoPush;
        self.memory.lock(offset::RTO_LOCK, by);
        let next = self.next_to_push(this_cpu, by);
        self.memory.unlock(offset::RTO_LOCK, by);
        self.queue_push(next, by);
        next
    }

    /// The next overloaded CPU on the way, but never the one that asks (`rto_next_cpu()`). The
    /// place is kept as the CPU's number plus 1.
    fn next_to_push(&self, this_cpu: CpuId, by: Symbol) -> Option<CpuId> {
        loop {
            let from = self.memory.load32(offset::RTO_CPU, Relaxed, by);
            let next = self.next_overloaded(CpuId(from));
            self.memory.store32(offset::RTO_CPU, next.map_or(0, |cpu| cpu.0 + 1), Relaxed, by);
            match next {
                Some(next) if next == this_cpu => {}
                Some(next) => return Some(next),
                None => {
                    let asked = self.memory.load32(offset::RTO_LOOP_NEXT, Acquire, by);
                    if self.memory.load32(offset::RTO_LOOP, Relaxed, by) == asked {
                        return None;
                    }
                    self.memory.store32(offset::RTO_LOOP, asked, Relaxed, by);
                }
            }
        }
    }

    /// The work that the interrupt carries is marked as pending (`irq_work_queue_on()`).
    fn queue_push(&self, next: Option<CpuId>, by: Symbol) {
        if next.is_some() {
            self.memory.add32(offset::RTO_PUSH_WORK, 1, AcqRel, by);
        }
    }

    /// Some CPU has tasks to spare, or none has (`set_rd_overloaded()`): written only if it
    /// changes.
    pub fn set_spare(&self, spare: bool) {
        let by = if spare { Symbol::Enqueue } else { Symbol::Newidle };
        let at = self.plan.overloaded();
        if self.memory.load32(at, Relaxed, by) != u32::from(spare) {
            self.memory.store32(at, u32::from(spare), Relaxed, by);
        }
    }

    /// True if some CPU has tasks to spare (`get_rd_overloaded()`).
    pub fn spare(&self) -> bool {
        self.memory.load32(self.plan.overloaded(), Relaxed, Symbol::Newidle) != 0
    }
}

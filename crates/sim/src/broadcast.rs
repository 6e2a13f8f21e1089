//! The broadcast timer: a CPU in an idle state that stops its own timer leaves its next event to a
//! device that never stops, whose interrupt wakes it (`kernel/time/tick-broadcast.c`, oneshot mode,
//! 2.6.32).
//!
//! Where the interrupt can be moved, the kernel moves it to the CPU whose event it is, which so
//! wakes as if its own timer had fired. The interrupt of the PC's HPET stays at the boot CPU, which
//! finds out whose events have come and sends those CPUs the interrupts that theirs would have
//! been. It is not called off when a CPU wakes up early, so that some interrupts find nothing.

use crate::cpu::Ipi;
use crate::observe::Observer;
use crate::platform::Platform;
use crate::queue::NEVER;
use schedlab_machine::{BroadcastIrq, CpuId, CpuSet, Machine};

/// The CPU that the interrupt of a device without affinity stays at.
const BOOT_CPU: CpuId = CpuId(0);

/// The device and who relies on it.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// Some CPU passes its interrupt on.
    fixed: bool,
    /// CPUs that sleep without a timer of their own (`tick_broadcast_oneshot_mask`).
    sleepers: CpuSet,
}

impl Broadcast {
    /// The machine's device, unused.
    pub fn new(machine: &Machine) -> Broadcast {
        let fixed = machine.broadcast_irq() == BroadcastIrq::BootCpu;
        Broadcast { fixed, sleepers: CpuSet::EMPTY }
    }
}

impl<O: Observer> Platform<'_, O> {
    /// `cpu` is about to enter idle state `state`: if that stops its timer, the device takes over.
    #[inline]
    pub fn enter_broadcast(&mut self, cpu: CpuId, state: usize) {
        if self.broadcast.fixed {
            self.hand_over_timer(cpu, state);
        }
    }

    fn hand_over_timer(&mut self, cpu: CpuId, state: usize) {
        let stops = self.machine.idle_states(cpu).get(state).is_some_and(|s| s.local_timer_stop);
        if !stops {
            return;
        }
        self.broadcast.sleepers.insert(cpu);
        self.cpus[cpu.index()].timer_stopped = true;
        let event_ns = self.local_event_ns(cpu.index());
        if event_ns < self.cpus[BOOT_CPU.index()].broadcast_ns {
            self.clock_ns += self.machine.path_costs().timer_program_ns;
            self.program_broadcast(event_ns);
            if cpu != BOOT_CPU {
                self.requeue(BOOT_CPU.index());
            }
        }
    }

    /// `cpu` is awake, and so is its timer.
    #[inline]
    pub fn leave_broadcast(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu.index()].timer_stopped) {
            self.broadcast.sleepers.remove(cpu);
        }
    }

    /// The device's interrupt, if it is due on `cpu`: whoever's event has come is sent an interrupt,
    /// and the next event is waited for (`tick_handle_oneshot_broadcast()`).
    #[inline]
    pub fn broadcast_interrupt(&mut self, cpu: CpuId) {
        if self.cpus[cpu.index()].broadcast_ns <= self.clock_ns {
            self.wake_sleepers(cpu);
        }
    }

    fn wake_sleepers(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[cpu.index()];
        state.broadcast_ns = NEVER;
        state.broadcasts += 1;
        self.clock_ns += self.machine.path_costs().irq_ns;
        let mut next_ns = NEVER;
        for sleeper in self.broadcast.sleepers {
            let event_ns = self.local_event_ns(sleeper.index());
            if event_ns > self.clock_ns {
                next_ns = next_ns.min(event_ns);
            } else {
                self.send_ipi(cpu, sleeper, Ipi::Timer);
            }
        }
        if next_ns != NEVER {
            self.clock_ns += self.machine.path_costs().timer_program_ns;
            self.program_broadcast(next_ns);
        }
    }

    fn program_broadcast(&mut self, event_ns: u64) {
        self.cpus[BOOT_CPU.index()].broadcast_ns = event_ns;
    }

    /// When the timer of a CPU would fire, ns.
    fn local_event_ns(&self, cpu: usize) -> u64 {
        let state = &self.cpus[cpu];
        let timer_ns = state.timers.next_ns();
        timer_ns.min(state.tick_ns)
    }

    /// Checks that no sleeper's event is forgotten.
    ///
    /// # Errors
    /// Whose is.
    pub fn verify_broadcast(&self) -> Result<(), String> {
        for sleeper in self.broadcast.sleepers {
            let state = &self.cpus[sleeper.index()];
            let event_ns = self.local_event_ns(sleeper.index());
            if state.ipi_ns == NEVER && event_ns < self.cpus[BOOT_CPU.index()].broadcast_ns {
                return Err(format!("CPU {} sleeps, and nothing will wake it", sleeper.0));
            }
        }
        Ok(())
    }
}

//! What must hold between any two events, as a check that tests run.

use crate::cpu::Doing;
use crate::engine::Engine;
use crate::observe::Observer;
use crate::queue::NEVER;
use schedlab_machine::CpuId;

impl<O: Observer> Engine<'_, O> {
    /// Checks what must hold between any two events: what [`Scheduler::verify`] checks, and that
    /// no CPU sleeps or computes on while work waits for it that nothing will tell it of.
    ///
    /// # Errors
    /// The first thing that does not hold, in one line.
    pub fn verify(&self) -> Result<(), String> {
        self.sched.verify()?;
        self.platform.verify_broadcast()?;
        for cpu in self.platform.machine.cpu_ids() {
            self.verify_cpu(cpu)?;
        }
        Ok(())
    }

    fn verify_cpu(&self, id: CpuId) -> Result<(), String> {
        let cpu = &self.platform.cpus[id.index()];
        let wrong = |what: &str| Err(format!("CPU {}: {what}", id.0));
        let told = cpu.ipi_ns != NEVER;
        // A sleep may be so long that its timer never fires.
        let timer_ns = cpu.timers.next_ns();
        if self.platform.queue.is_empty(id.index())
            && (told
                || cpu.done_ns != NEVER
                || (!cpu.timer_stopped && (cpu.tick_ns != NEVER || timer_ns != NEVER)))
        {
            return wrong("it has events, but is not queued");
        }
        match cpu.doing {
            Doing::Idle { .. } if told => Ok(()),
            Doing::Idle { .. } => {
                let state = &self.sched.cpus()[id.index()];
                if self.sched.current(id).is_some() {
                    return wrong("it sleeps, but a task runs on it");
                }
                if state.nr_running > 0 || state.ttwu_pending || self.sched.need_resched(id) {
                    return wrong("it sleeps although tasks wait on it");
                }
                Ok(())
            }
            Doing::Computing { .. } => {
                if self.sched.current(id).is_none() {
                    return wrong("it computes for no task");
                }
                if cpu.done_ns == NEVER {
                    return wrong("its computation never ends");
                }
                // Who is held up schedules later, when its host lets it.
                let later = self.is_held(id) && cpu.device_ns != NEVER;
                if self.sched.need_resched(id) && !told && !later {
                    return wrong("it should schedule, but nothing tells it");
                }
                Ok(())
            }
            Doing::Kernel if cpu.done_ns == NEVER => wrong("it never leaves the kernel"),
            Doing::Kernel => Ok(()),
        }
    }
}

//! What comes to a CPU from outside the tasks: interrupts of devices, by themselves and after
//! requests of tasks, and the time for which the host of a virtual machine holds a wake-up up.

use crate::cpu::{Doing, Ipi};
use crate::engine::Engine;
use crate::interpret::Step;
use crate::objects::Object;
use crate::observe::Observer;
use crate::queue::NEVER;
use crate::timer_queue::Timer;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::sched::{TaskState, WakeFlags};
use schedlab_machine::CpuId;
use schedlab_workload::program::{Amount, Interrupt, ObjectId, Op, SLOTS, Spawn, Which};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A run of no more than this is over before another virtual CPU gets the instruction stream, ns. An
/// ESTIMATE: the stream changes hands when a timer of any CPU fires, which may be at any time; the
/// threads that do softirqs take some 30 us at a time, and ticks are 4 ms apart.
const SHORT_NS: u64 = 100_000;

/// The interrupts that are yet to come to one CPU, in order.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    list: Box<[Interrupt]>,
    next: usize,
}

impl Arrivals {
    /// What comes to `cpu` of all interrupts.
    pub fn of(interrupts: &[Interrupt], cpu: CpuId) -> Arrivals {
        let own = interrupts.iter().filter(|interrupt| interrupt.cpu == cpu.0);
        Arrivals { list: own.copied().collect(), next: 0 }
    }

    /// When the next one comes, ns.
    pub fn next_ns(&self) -> u64 {
        self.list.get(self.next).map_or(NEVER, |interrupt| interrupt.at_ns)
    }

    /// The next one if it is due at `now_ns`.
    fn take(&mut self, now_ns: u64) -> Option<Interrupt> {
        let interrupt = *self.list.get(self.next)?;
        if interrupt.at_ns > now_ns {
            return None;
        }
        self.next += 1;
        Some(interrupt)
    }
}

/// What is yet to come to one CPU at times that the run finds: for a task, by its number, whose
/// request to a device is done, or for a semaphore that an interrupt adds to.
#[derive(Clone, Debug, Default)]
pub struct Requests(BinaryHeap<Reverse<(u64, u32)>>);

impl Requests {
    /// At `done_ns` something comes for whom this number names.
    fn add(&mut self, done_ns: u64, number: u32) {
        self.0.push(Reverse((done_ns, number)));
    }

    /// When the next comes, ns.
    fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER, |Reverse((done_ns, _))| *done_ns)
    }

    /// Whom the next is for, if it comes at `now_ns`.
    fn take(&mut self, now_ns: u64) -> Option<u32> {
        if self.next_ns() > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse((_, number))| number)
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Handles the interrupts of devices that are due.
    #[inline]
    pub(crate) fn device_interrupts(&mut self, cpu: CpuId) {
        if self.platform.cpus[cpu.index()].device_ns <= self.platform.clock_ns {
            self.serve_devices(cpu);
        }
    }

    fn serve_devices(&mut self, cpu: CpuId) {
        while self.platform.cpus[cpu.index()].device_ns <= self.platform.clock_ns {
            let now_ns = self.platform.clock_ns;
            let state = &mut self.platform.cpus[cpu.index()];
            let brought = state.brought.take(now_ns);
            let done = if brought.is_none() { state.requests.take(now_ns) } else { None };
            let nothing = brought.is_none() && done.is_none();
            let interrupt = if nothing { state.arrivals.take(now_ns) } else { None };
            let ahead = |ns: u64| if ns > now_ns { ns } else { NEVER };
            let held_ns = ahead(state.held_until_ns).min(ahead(state.held_urgent_until_ns));
            state.device_ns = state.arrivals.next_ns().min(held_ns).min(state.requests.next_ns());
            state.device_ns = state.device_ns.min(state.brought.next_ns());
            if let Some(object) = brought {
                self.timers_armed -= 1;
                self.add_from_interrupt(cpu, ObjectId(object));
                continue;
            }
            if let Some(task) = done.map(TaskId) {
                self.timers_armed -= 1;
                self.platform.tell_device(cpu);
                self.platform.clock_ns += self.platform.machine.path_costs().irq_ns;
                self.wake(cpu, task, WakeFlags::INTERRUPT);
                self.platform.tell_device_done(cpu);
                continue;
            }
            let Some(interrupt) = interrupt else { return };
            self.timers_armed -= 1;
            self.platform.tell_device(cpu);
            if let Some(object) = interrupt.raises {
                self.add_from_interrupt(cpu, object);
            }
            self.platform.clock_ns += interrupt.length_ns;
            self.platform.tell_device_done(cpu);
        }
    }

    /// Hands a request to a device and sleeps until it is done.
    pub(crate) fn request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        device: Which,
        service_ns: Amount,
    ) -> Step {
        if self.progress[task.index()].stage > 0 {
            self.sched.end_io(task);
            return Step::Done;
        }
        self.system_call();
        let object = self.choose(task, device, cpu);
        let service_ns = self.progress[task.index()].random.draw(service_ns);
        let now_ns = self.platform.clock_ns;
        let Object::Device { free_ns } = self.object(object) else { return Step::Done };
        let Some(server) = free_ns.iter_mut().min() else { return Step::Done };
        *server = (*server).max(now_ns).saturating_add(service_ns);
        let done_ns = *server;
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        progress.waits_for = Some(object);
        let state = &mut self.platform.cpus[cpu.index()];
        state.requests.add(done_ns, task.0);
        state.device_ns = state.device_ns.min(done_ns);
        self.timers_armed += 1;
        self.sched.block_for_io(cpu, &mut self.platform);
        Step::GivesUp
    }

    pub(crate) fn add_from_interrupt(&mut self, cpu: CpuId, object: ObjectId) {
        if let Object::Semaphore { count, waiters } = self.object(object) {
            *count += 1;
            if let Some(waiter) = waiters.pop_front() {
                let program = self.progress[waiter.index()].program;
                if self.workload.programs[program.0 as usize].attributes.follows_interrupts {
                    self.sched.bind_asleep(waiter, cpu);
                }
                self.wake(cpu, waiter, WakeFlags::INTERRUPT);
            }
        }
    }

    /// The CPU that `task` was woken on gets on with that as late as the task's program says. Who
    /// is urgent waits for nobody else's sake.
    pub(crate) fn hold_up(&mut self, cpu: CpuId, task: TaskId) {
        let workload = self.workload;
        let progress = &self.progress[task.index()];
        let program = &workload.programs[progress.program.0 as usize];
        let at = progress.at as usize + usize::from(progress.stage > 0);
        let late_ns = match program.ops.get(at) {
            Some(&Op::Late(late_ns)) => Some(late_ns),
            _ => None,
        };
        if let Some(&Op::Brings(which)) = program.ops.get(at + usize::from(late_ns.is_some())) {
            let object = self.choose(task, which, cpu);
            self.bring(cpu, task, object, late_ns.unwrap_or(0));
        }
        let urgent = self.platform.is_rt(task);
        let late_ns = match late_ns {
            Some(late_ns) => late_ns,
            None if urgent => 0,
            None => return self.free(task),
        };
        let target = self.sched.task(task).cpu;
        let now_ns = self.platform.clock_ns;
        let until_ns = now_ns.saturating_add(late_ns);
        let state = &mut self.platform.cpus[target.index()];
        let until = [state.held_until_ns, state.held_urgent_until_ns];
        let waits = state.doing == Doing::Kernel
            && state.busy_until_ns > now_ns
            && state.done_ns == state.busy_until_ns
            && until.contains(&state.busy_until_ns);
        if late_ns > 0 {
            state.held_until_ns = state.held_until_ns.max(until_ns);
            state.device_ns = state.device_ns.min(until_ns);
        } else if state.held_until_ns <= now_ns {
            return;
        }
        if urgent {
            state.held_urgent_until_ns = until_ns;
            state.device_ns = state.device_ns.min(until_ns);
        }
        if target != cpu && (state.doing != Doing::Kernel || waits) {
            if waits && urgent {
                let until_ns = until_ns.max(state.held_since_ns).min(state.busy_until_ns);
                (state.busy_until_ns, state.done_ns) = (until_ns, until_ns);
            }
            self.platform.requeue(target.index());
        }
    }

    /// `task`, which was not held up, finds its CPU idle and nobody waiting there: who was held up has
    /// gone elsewhere, and the CPU schedules.
    fn free(&mut self, task: TaskId) {
        let target = self.sched.task(task).cpu;
        let alone = self.sched.cpus()[target.index()].nr_running <= 1;
        if alone && self.sched.current(target).is_none() {
            let state = &mut self.platform.cpus[target.index()];
            state.held_until_ns = state.held_until_ns.min(self.platform.clock_ns);
        }
    }

    /// The interrupt for which `task` waits on its CPU adds one to the semaphore at its end, in so
    /// many ns.
    fn bring(&mut self, cpu: CpuId, task: TaskId, object: ObjectId, late_ns: u64) {
        self.progress[task.index()].brought = true;
        let target = self.sched.task(task).cpu;
        if late_ns == 0 && target == cpu {
            return self.add_from_interrupt(cpu, object);
        }
        let at_ns = self.platform.clock_ns.saturating_add(late_ns);
        let state = &mut self.platform.cpus[target.index()];
        state.brought.add(at_ns, object.0);
        state.device_ns = state.device_ns.min(at_ns);
        self.timers_armed += 1;
        if target != cpu {
            self.platform.requeue(target.index());
        }
    }

    /// An idle CPU of those that share one instruction stream ticks and balances when the others'
    /// kernel paths and short runs are over. True if it has to wait.
    pub(crate) fn waits_for_turn(&mut self, cpu: CpuId, time_ns: u64) -> bool {
        let until_ns = self.turn_until_ns;
        let state = &self.platform.cpus[cpu.index()];
        let timer_ns = state.timers.next_ns();
        let told = state.ipi_ns <= time_ns && state.ipi_kinds != Ipi::Kick as u8;
        let waits = until_ns > time_ns
            && matches!(state.doing, Doing::Idle { .. })
            && !told
            && timer_ns > time_ns
            && state.device_ns > time_ns;
        if waits {
            let next_ns = until_ns.min(timer_ns).min(state.device_ns);
            self.platform.queue.set(cpu.index(), next_ns);
        }
        waits
    }

    /// `cpu` handled an event: it keeps the stream until its kernel path, or a short run, is over.
    pub(crate) fn note_turn(&mut self, cpu: CpuId) {
        let now_ns = self.platform.clock_ns;
        let state = &self.platform.cpus[cpu.index()];
        let until_ns = match state.doing {
            Doing::Computing { .. } if state.done_ns.saturating_sub(now_ns) < SHORT_NS => {
                state.done_ns + self.platform.machine.path_costs().context_switch_ns
            }
            Doing::Idle { .. } => return,
            _ => now_ns,
        };
        self.turn_until_ns = self.turn_until_ns.max(until_ns);
    }

    /// Until when `cpu` is held up, ns.
    fn held_until_ns(&self, cpu: CpuId) -> u64 {
        let (state, queues) = (&self.platform.cpus[cpu.index()], &self.sched.cpus()[cpu.index()]);
        let urgent = queues.nr_running > queues.h_nr_queued;
        if urgent { state.held_urgent_until_ns } else { state.held_until_ns }
    }

    /// The CPU schedules later, since it is held up: the task that it runs goes on meanwhile. True
    /// if it runs none, and waits.
    pub(crate) fn waits_held(&mut self, cpu: CpuId) -> bool {
        let until_ns = self.held_until_ns(cpu);
        if self.sched.current(cpu).is_some() {
            return false;
        }
        let state = &mut self.platform.cpus[cpu.index()];
        state.held_since_ns = self.platform.clock_ns;
        state.doing = Doing::Kernel;
        state.done_ns = until_ns;
        state.busy_until_ns = until_ns;
        true
    }

    /// The CPU is held up, and its task, if it has one, can go on.
    pub(crate) fn is_held(&self, cpu: CpuId) -> bool {
        self.held_until_ns(cpu) > self.platform.clock_ns
            && self
                .sched
                .current(cpu)
                .is_none_or(|task| self.sched.task(task).state == TaskState::Runnable)
    }

    /// A task that is in the middle of its first operation, asleep.
    pub(crate) fn lay_asleep(&mut self, task: TaskId, spawn: &Spawn) {
        let cpu = CpuId(spawn.birth_cpu % self.platform.cpus.len() as u32);
        self.sched.lay_asleep(task);
        let program = &self.workload.programs[spawn.program.0 as usize];
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        match program.ops.first() {
            Some(&Op::Down(Which::One(object))) => {
                progress.waits_for = Some(object);
                if let Object::Semaphore { waiters, .. } = self.object(object) {
                    waiters.push_back(task);
                }
            }
            Some(&Op::SleepUntil { slot, soft_ns, hard_ns }) => {
                if let Some(slot) = slot {
                    progress.slots[usize::from(slot.0) % SLOTS] = soft_ns;
                }
                let timer = Timer { hard_ns, soft_ns, task: task.0 };
                self.platform.cpus[cpu.index()].timers.push(timer);
                self.timers_armed += 1;
            }
            _ => {}
        }
    }
}

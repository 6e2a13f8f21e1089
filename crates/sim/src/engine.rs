//! The event loop. Each CPU offers its next event; the earliest is handled, and the kernel paths
//! that it causes run to completion on that CPU's clock. State that they change is visible to
//! other CPUs from then on, so the order between CPUs is exact to the length of a kernel path.

use crate::cpu::{Doing, FULL_SPEED, Ipi, POLLED};
use crate::figures::Figures;
use crate::interpret::Step;
use crate::lifecycle::Progress;
use crate::objects::Object;
use crate::observe::Observer;
use crate::outcome::{Ending, Outcome};
use crate::platform::Platform;
use crate::queue::NEVER;
use crate::timer_queue::KERNEL_TIMER;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::sched::{Scheduler, TaskState, WakeFlags};
use schedlab_machine::CpuId;
use schedlab_trace::{StrId, Strings};
use schedlab_workload::TASKS_MAX;
use schedlab_workload::program::Workload;

/// A run in progress.
pub struct Engine<'a, O> {
    pub(crate) sched: Scheduler,
    pub(crate) platform: Platform<'a, O>,
    pub(crate) workload: &'a Workload,
    pub(crate) objects: Vec<Object>,
    pub(crate) progress: Vec<Progress<'a>>,
    pub(crate) figures: Figures,
    pub(crate) instances: Vec<u32>,
    pub(crate) program_names: Vec<StrId>,
    pub(crate) seed: u64,
    pub(crate) live: u64,
    pub(crate) timers_armed: u64,
    pub(crate) stopped: bool,
    /// Some wake-ups are held up.
    pub(crate) holds_up: bool,
    /// The CPUs share one instruction stream, and the workload was recorded there.
    pub(crate) takes_turns: bool,
    /// Until when the CPU that has it keeps it, ns.
    pub(crate) turn_until_ns: u64,
    pub(crate) idle_cpus: usize,
    pub(crate) operations: u64,
    pub(crate) end_ns: u64,
    pub(crate) expiries: u64,
    pub(crate) strings: Strings,
}

/// Operations without any time between them that a task may do before it is taken for stuck.
const STEPS_WITHOUT_TIME_MAX: u32 = 1_000;

impl<O: Observer> Engine<'_, O> {
    /// Runs until the time is up or nothing is left to do.
    pub fn run(mut self, duration_ns: u64) -> Outcome<O> {
        loop {
            if let Some(ending) = self.advance(duration_ns, u32::MAX) {
                return self.finish(ending, duration_ns);
            }
        }
    }

    /// Handles at most `events_max` events, and tells how the run ended if it did; between two
    /// calls a caller may look at the time or give up.
    pub fn advance(&mut self, duration_ns: u64, events_max: u32) -> Option<Ending> {
        self.end_ns = duration_ns;
        for _ in 0..events_max {
            if self.live == 0 || self.stopped {
                return Some(Ending::Finished);
            }
            if self.progress.len() as u64 > TASKS_MAX {
                return Some(Ending::TooManyTasks(self.progress.len() as u64));
            }
            let (cpu, time_ns) = self.platform.queue.earliest();
            if time_ns == NEVER || self.is_stuck() {
                return Some(Ending::Stuck(self.who_waits()));
            }
            if time_ns >= duration_ns {
                return Some(Ending::TimeUp);
            }
            if cpu < self.platform.cpus.len() {
                self.handle(CpuId(cpu as u32), time_ns);
            } else {
                self.change_frequencies(cpu, time_ns);
            }
        }
        None
    }

    /// The scheduler's state.
    pub fn scheduler(&self) -> &Scheduler {
        &self.sched
    }

    /// Virtual time so far, ns.
    pub fn now_ns(&self) -> u64 {
        self.platform.clock_ns
    }

    /// Events and remarks so far that an active observer was told of.
    pub fn told(&self) -> u64 {
        self.platform.events + self.platform.remarks
    }

    /// Only ticks are left, and nobody to be woken by them.
    fn is_stuck(&self) -> bool {
        self.timers_armed == 0
            && self.platform.kernel_timers == 0
            && self.idle_cpus == self.platform.cpus.len()
            && self.platform.cpus.iter().all(|cpu| cpu.ipi_ns == NEVER)
    }

    fn who_waits(&self) -> Vec<String> {
        let tasks = self.sched.tasks().iter().enumerate();
        tasks
            .filter(|(_, task)| task.state != TaskState::Dead)
            .map(|(index, _)| {
                let comm = self.strings.get(self.platform.comms[index]);
                match self.progress[index].waits_for {
                    Some(object) => {
                        let noun = self.objects[object.0 as usize].noun();
                        format!("{comm} (task {index}) waits for {noun} {}", object.0)
                    }
                    None => format!("{comm} (task {index}) waits for its children or a timer"),
                }
            })
            .collect()
    }

    fn handle(&mut self, cpu: CpuId, time_ns: u64) {
        let index = cpu.index();
        self.platform.queue.take(index);
        if self.takes_turns && self.waits_for_turn(cpu, time_ns) {
            return;
        }
        self.platform.clock_ns = time_ns;
        self.platform.horizon_ns = time_ns;
        if O::ACTIVE {
            self.platform.observer.horizon(time_ns);
        }
        let mut idled = false;
        let state = &mut self.platform.cpus[index];
        match state.doing {
            Doing::Idle { since_ns, state } => {
                idled = true;
                self.leave_idle(cpu, since_ns, state);
            }
            Doing::Computing { .. } => {
                state.progress(time_ns);
                self.pause(cpu);
            }
            Doing::Kernel => {}
        }
        let since_ns = self.platform.clock_ns;
        let state = &mut self.platform.cpus[index];
        state.doing = Doing::Kernel;
        state.done_ns = NEVER;
        state.ahead = false;
        if state.interrupt_ns() <= since_ns {
            self.interrupts(cpu);
        }
        if self.sched.softirq_pending(cpu) {
            self.softirqs(cpu);
        }
        self.settle(cpu);
        if self.platform.clock_ns != since_ns {
            self.platform.cpus[index].irq_ns += self.platform.clock_ns - since_ns;
        }
        if idled && self.sched.need_resched(cpu) {
            self.platform.clock_ns += self.platform.machine.path_costs().idle_resched_ns;
            self.device_interrupts(cpu);
        }
        self.continue_running(cpu);
        self.ask_for_frequencies();
        let state = &mut self.platform.cpus[index];
        // A CPU that is held up is busy for longer.
        state.busy_until_ns = state.busy_until_ns.max(self.platform.clock_ns);
        let next_ns = state.next_event_ns();
        self.platform.queue.set(index, next_ns);
        if self.takes_turns {
            self.note_turn(cpu);
        }
    }

    /// Notes how far the running task's computation has come, and what time that took it.
    pub(crate) fn pause(&mut self, cpu: CpuId) {
        let state = &mut self.platform.cpus[cpu.index()];
        if let Doing::Computing { work_left, .. } = state.doing
            && let Some(task) = self.sched.current(cpu)
        {
            let computed_ns = std::mem::take(&mut state.computed_ns);
            let progress = &mut self.progress[task.index()];
            progress.work_left = work_left;
            if !progress.in_kernel {
                progress.user_ns += computed_ns;
            }
        }
    }

    /// Handles every interrupt that is due.
    fn interrupts(&mut self, cpu: CpuId) {
        let index = cpu.index();
        let costs = self.platform.machine.path_costs();
        if self.platform.cpus[index].ipi_ns <= self.platform.clock_ns {
            self.answer(cpu);
        }
        let state = &self.platform.cpus[index];
        if state.broadcast_ns.min(state.device_ns) <= self.platform.clock_ns {
            self.platform.broadcast_interrupt(cpu);
            self.device_interrupts(cpu);
        }
        if self.platform.cpus[index].timers.next_ns() <= self.platform.clock_ns {
            let began_ns = self.platform.clock_ns;
            self.platform.clock_ns += costs.irq_ns;
            // One interrupt serves every timer whose soft expiry has passed.
            while let Some(timer) = self.platform.cpus[index].timers.pop_due(self.platform.clock_ns)
            {
                self.platform.tell_expires(cpu, timer, began_ns);
                if timer.task == KERNEL_TIMER {
                    self.platform.kernel_timers -= 1;
                    self.sched.timer(cpu, &mut self.platform);
                } else {
                    self.timers_armed -= 1;
                    self.expiries += 1;
                    self.expire(cpu, TaskId(timer.task));
                }
                self.platform.tell_expired(cpu, timer);
            }
        }
        if self.platform.cpus[index].tick_ns <= self.platform.clock_ns {
            self.platform.cpus[index].ticks += 1;
            self.platform.cpus[index].idle_ticks += u64::from(self.sched.current(cpu).is_none());
            self.platform.tell_tick(cpu);
            self.arm_tick(cpu);
            self.sched.tick(cpu, &mut self.platform);
            self.platform.tell_ticked(cpu);
            self.platform.tell_tick_armed(cpu);
        }
    }

    /// Balances, as interrupts end with that.
    fn softirqs(&mut self, cpu: CpuId) {
        let since_ns = self.platform.clock_ns;
        self.platform.tell_balances(cpu);
        self.sched.softirq(cpu, &mut self.platform);
        self.platform.tell_balanced(cpu);
        self.platform.cpus[cpu.index()].softirq_ns += self.platform.clock_ns - since_ns;
    }

    /// Does what other CPUs interrupted this one for.
    fn answer(&mut self, cpu: CpuId) {
        let state = &mut self.platform.cpus[cpu.index()];
        state.ipi_ns = NEVER;
        let kinds = std::mem::take(&mut state.ipi_kinds);
        state.ipis += u64::from(kinds & !POLLED != 0);
        for (count, kind) in state.ipis_for.iter_mut().zip([Ipi::Reschedule, Ipi::Kick, Ipi::Timer])
        {
            *count += u64::from(kinds & kind as u8 != 0);
        }
        // An interrupt in place of the timer's is handled as the timer's.
        if kinds != Ipi::Timer as u8 {
            let interrupts = kinds != POLLED;
            if interrupts {
                self.platform.tell_reschedule(cpu);
            }
            self.platform.clock_ns += self.platform.machine.path_costs().ipi_handle_ns;
            self.sched.interrupt_from_cpu(cpu, &mut self.platform);
            if interrupts {
                self.platform.tell_rescheduled(cpu);
            }
        }
    }

    fn expire(&mut self, cpu: CpuId, task: TaskId) {
        if self.sched.task(task).state == TaskState::New {
            self.sched.wake_new(task, cpu, &mut self.platform);
            if self.holds_up {
                self.hold_up(cpu, task);
            }
        } else {
            self.wake(cpu, task, WakeFlags::INTERRUPT);
        }
    }

    /// The next tick: all CPUs tick at multiples of its length.
    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        let tick_ns = self.platform.tick_ns;
        let next_ns = (self.platform.clock_ns / tick_ns + 1) * tick_ns;
        self.platform.cpus[cpu.index()].tick_ns = next_ns;
    }

    /// Runs tasks until one computes, nothing is left to run, or another CPU's turn has come.
    fn continue_running(&mut self, cpu: CpuId) {
        loop {
            let held = self.holds_up && self.is_held(cpu);
            if held && self.waits_held(cpu) {
                return;
            }
            if self.sched.need_resched(cpu) && !held {
                self.reschedule(cpu);
            }
            let Some(task) = self.sched.current(cpu) else { return self.enter_idle(cpu) };
            let computing = self.progress[task.index()].computing;
            if (computing && self.computes(cpu, task)) || !self.operate(cpu, task, held) {
                return;
            }
        }
    }

    /// Picks what `cpu` runs.
    fn reschedule(&mut self, cpu: CpuId) {
        let prev = self.sched.current(cpu);
        if prev.is_none() && self.sched.stops_tick_first() {
            self.restart_tick(cpu);
        }
        let next = self.sched.schedule(cpu, &mut self.platform);
        self.settle(cpu);
        if prev.is_none() && next.is_some() && self.platform.cpus[cpu.index()].tick_ns == NEVER {
            self.arm_tick(cpu);
            self.platform.tell_tick_armed(cpu);
        }
    }

    /// Charges what the kernel touched of its cache lines, if those are modelled.
    #[inline]
    fn settle(&mut self, cpu: CpuId) {
        if self.platform.coherence.is_some() {
            self.sched.settle(cpu, &mut self.platform);
        }
    }

    /// Goes on with the computation of `task`, which runs on `cpu`. False if it is at its end.
    #[inline(always)]
    fn computes(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let progress = &mut self.progress[task.index()];
        if let Some(until_ns) = progress.spins_until_ns {
            let left_ns = until_ns.saturating_sub(self.platform.clock_ns);
            progress.work_left = left_ns.saturating_mul(FULL_SPEED);
        }
        if progress.work_left > 0 {
            let stream = progress.stream;
            self.platform.cpus[cpu.index()].doing = Doing::Computing {
                since_ns: self.platform.clock_ns,
                work_left: progress.work_left,
                wall: progress.wall,
            };
            self.platform.set_stream(cpu, stream);
            self.platform.cpus[cpu.index()].plan_end();
            return true;
        }
        progress.computing = false;
        progress.in_kernel = false;
        progress.spins_until_ns = None;
        if progress.stream.is_some() {
            // Its operation counts what was done.
            progress.stage = 1;
        } else {
            progress.at += 1;
            progress.stage = 0;
        }
        false
    }

    /// Carries out operations of `task`, which runs on `cpu` and does not compute. True if it is to
    /// be looked anew what the CPU runs, false if its turn is over.
    fn operate(&mut self, cpu: CpuId, task: TaskId, held: bool) -> bool {
        // As long as no time passes, nothing comes before the next operation either.
        let mut clear = false;
        loop {
            let before_ns = self.platform.clock_ns;
            if before_ns >= self.end_ns {
                // Nothing begins after the end.
                self.platform.cpus[cpu.index()].come_back(before_ns);
                return false;
            }
            self.operations += 1;
            let step = self.step(cpu, task);
            let goes_on = matches!(step, Step::Done | Step::Instant);
            if step != Step::Instant {
                self.settle(cpu);
            }
            let state = &mut self.platform.cpus[cpu.index()];
            if goes_on && self.platform.clock_ns == before_ns {
                state.steps_without_time = state.steps_without_time.saturating_add(1);
                if state.steps_without_time > STEPS_WITHOUT_TIME_MAX {
                    // A loop that takes no time would never let the others run: from here on it is
                    // charged a nanosecond per step.
                    self.platform.clock_ns += 1;
                } else if clear && step == Step::Instant {
                    continue;
                }
            } else {
                state.steps_without_time = 0;
            }
            if step == Step::Computes && !self.holds_up {
                // It begins at once, and nothing asked for another task meanwhile.
                if self.computes(cpu, task) {
                    return false;
                }
                continue;
            }
            if step == Step::Computes || (self.sched.need_resched(cpu) && !held) {
                return true;
            }
            // Another CPU's event, or an interrupt of this one, comes before the next operation.
            let now_ns = self.platform.clock_ns;
            let others_first = self.platform.queue.is_due(now_ns);
            let state = &mut self.platform.cpus[cpu.index()];
            let interrupted = state.interrupt_ns() <= now_ns;
            clear = !others_first && !interrupted;
            state.ahead = false;
            if !clear {
                let ahead = !interrupted && self.computes_next(task);
                let state = &mut self.platform.cpus[cpu.index()];
                state.ahead = ahead;
                if !ahead {
                    state.come_back(now_ns);
                    return false;
                }
            }
            if !goes_on || self.holds_up {
                return true;
            }
        }
    }
}

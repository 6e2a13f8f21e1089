//! The idle loop: which state a CPU enters, and what happens when it leaves it.

use crate::cpu::{Cpu, Doing};
use crate::energy::Activity;
use crate::engine::Engine;
use crate::observe::Observer;
use crate::platform::Platform;
use crate::queue::NEVER;
use schedlab_kernel::cpuidle::{
    AnyGovernor, Config, Governor, IdleHardware, OwnKind, Served, SleepLength, State,
};
use schedlab_kernel::pelt::{CpuUtilization, sched_cpu_util};
use schedlab_kernel::sched::Scheduler;
use schedlab_machine::{CpuId, Verdict};
use schedlab_trace::EventKind;

impl<O: Observer> Engine<'_, O> {
    /// Lets a user's own governor serve every CPU, before the run begins. Whoever drives the run
    /// asks [`OwnKind::failure`] now and then, and when the run has ended.
    ///
    /// # Errors
    /// Why it cannot be made, in words for the user.
    pub fn take_governor(&mut self, kind: &dyn OwnKind) -> Result<(), String> {
        let (tick_ns, cpus) = (self.platform.tick_ns, &mut self.platform.cpus);
        let machine = self.platform.machine;
        let configs = machine.cpu_ids().map(|cpu| {
            let capacity = u64::from(machine.capacity(cpu));
            (cpu.0, Config::new(tick_ns, capacity))
        });
        let served = configs.zip(cpus.iter());
        let served =
            served.map(|((cpu, config), Cpu { states, .. })| Served { cpu, config, states });
        let made = kind.make(&served.collect::<Vec<_>>())?;
        for (cpu, governor) in cpus.iter_mut().zip(made) {
            cpu.governor = AnyGovernor::Own(governor);
        }
        Ok(())
    }

    /// The idle loop: the governor chooses a state, and the CPU enters it.
    pub(crate) fn enter_idle(&mut self, cpu: CpuId) {
        let index = cpu.index();
        self.platform.set_stream(cpu, None);
        self.sched.before_idle(cpu, &mut self.platform);
        let stops_tick_first = self.sched.stops_tick_first();
        if stops_tick_first {
            self.try_to_stop_tick(cpu);
        }
        self.platform.clock_ns += self.platform.machine.path_costs().idle_entry_ns;
        let now_ns = self.platform.clock_ns;
        let (mut choice, mut stop_tick) = (0, true);
        if !self.platform.cpus[index].states.is_empty() {
            let own = &mut self.platform.cpus[index];
            let mut view = IdleView::new(&self.sched, own, cpu, now_ns);
            let answer = own.governor.select(&own.states, &mut view);
            choice = answer.index;
            stop_tick = answer.stop_tick;
        }
        if stop_tick && !stops_tick_first {
            self.try_to_stop_tick(cpu);
        }
        self.platform.enter_broadcast(cpu, choice);
        let now_ns = self.platform.clock_ns;
        if self.platform.entry_ns(cpu, choice) > 0 && self.platform.is_interrupted(cpu) {
            return self.abort_entry(cpu, choice);
        }
        let state = &mut self.platform.cpus[index];
        state.doing = Doing::Idle { since_ns: now_ns, state: choice as u32 };
        let polls = state.states.get(choice).is_some_and(|state| state.polling);
        // A poll gives up after a time, and the governor is asked again.
        state.done_ns = if polls { now_ns + state.poll_time_ns() } else { NEVER };
        self.idle_cpus += 1;
        self.note_idle_state(cpu, choice as u32);
        self.platform.set_activity(cpu, Activity::Idle(choice as u32));
    }

    /// An interrupt is pending as the CPU is about to enter a state that takes its time to enter:
    /// firmware notices before it goes on (TF-A, `psci_cpu_suspend_start()`) and returns at once, which
    /// the kernel takes for a very short sleep, or the driver refuses, which it counts as rejected.
    fn abort_entry(&mut self, cpu: CpuId, choice: usize) {
        self.platform.leave_broadcast(cpu);
        self.platform.emit(cpu, EventKind::IdleEnter { cpu, state: choice as u32 });
        self.note_abort(cpu, choice);
        // What interrupted it is next.
        self.platform.cpus[cpu.index()].done_ns = self.platform.clock_ns;
    }

    /// The same, found out when the CPU has its next turn: another one sent the interrupt while this
    /// one was on its way to the idle state.
    fn retract_entry(&mut self, cpu: CpuId, state: u32) {
        self.idle_cpus -= 1;
        self.platform.leave_broadcast(cpu);
        let now_ns = self.platform.horizon_ns;
        self.platform.energy.retract_entry(self.platform.machine, cpu, state, now_ns);
        self.platform.set_activity(cpu, Activity::Busy);
        self.sched.set_idle_state(cpu, None);
        self.note_abort(cpu, state as usize);
    }

    fn note_abort(&mut self, cpu: CpuId, choice: usize) {
        let index = cpu.index();
        let now_ns = self.platform.clock_ns;
        self.platform.emit(cpu, EventKind::IdleExit { cpu });
        let rejects = self.platform.machine.idle_states(cpu)[choice].rejects_pending;
        if !rejects {
            self.judge(cpu, now_ns, choice as u32);
        }
        let own = &mut self.platform.cpus[index];
        own.doing = Doing::Kernel;
        own.got_tick = own.tick_ns <= now_ns;
        let mut view = IdleView::new(&self.sched, own, cpu, now_ns);
        let Cpu { governor, states, sleeps, .. } = &mut self.platform.cpus[index];
        if rejects {
            sleeps[choice].counts.rejected += 1;
            governor.reject();
        } else {
            governor.reflect(states, choice, 0, &mut view);
        }
        self.platform.clock_ns += self.platform.machine.path_costs().idle_exit_ns;
    }

    /// The tick of `cpu`, which idles, stops, unless the balancer needs it. Sleeping tasks do not
    /// matter, however soon they wake: their timers are high-resolution ones, at which
    /// `get_next_timer_interrupt()` does not look.
    fn try_to_stop_tick(&mut self, cpu: CpuId) {
        let index = cpu.index();
        self.sched.count_idle_call(cpu);
        if self.platform.cpus[index].tick_ns != NEVER
            && self.sched.stop_tick(cpu, &mut self.platform)
        {
            self.platform.cpus[index].tick_ns = NEVER;
            self.platform.tell_tick_stopped(cpu);
        }
    }

    /// Older kernels start the tick again whenever a CPU leaves the idle loop, if only to enter it
    /// again (`tick_nohz_restart_sched_tick()`).
    pub(crate) fn restart_tick(&mut self, cpu: CpuId) {
        if self.platform.cpus[cpu.index()].tick_ns == NEVER {
            self.sched.restart_tick(cpu);
            self.arm_tick(cpu);
            self.platform.tell_tick_armed(cpu);
        }
    }

    pub(crate) fn note_idle_state(&mut self, cpu: CpuId, state: u32) {
        let hardware_state = self.platform.machine.idle_states(cpu).get(state as usize);
        let latency_us = hardware_state.map(|s| (s.governor_exit_latency_ns / 1000) as u32);
        self.sched.set_idle_state(cpu, latency_us);
        self.platform.emit(cpu, EventKind::IdleEnter { cpu, state });
    }

    /// Out of the idle loop, as an interrupt came.
    pub(crate) fn leave_idle(&mut self, cpu: CpuId, since_ns: u64, state: u32) {
        let index = cpu.index();
        let machine = self.platform.machine;
        let hardware_state = machine.idle_states(cpu).get(state as usize);
        let entry_ns = hardware_state.map_or(0, |state| state.entry_latency_ns);
        if since_ns > 0 && entry_ns > 0 && self.platform.clock_ns == since_ns {
            return self.retract_entry(cpu, state);
        }
        self.idle_cpus -= 1;
        self.platform.leave_broadcast(cpu);
        // Who entered it before the run has long arrived.
        if since_ns > 0 {
            // An entry that has begun runs to completion
            // (Documentation/devicetree/bindings/cpu/idle-states.yaml).
            self.platform.clock_ns = self.platform.clock_ns.max(since_ns + entry_ns);
        }
        let horizon_ns = self.platform.horizon_ns;
        let shared_ns = self.platform.energy.wake_groups(machine, cpu, horizon_ns);
        let now_ns = self.platform.clock_ns.max(shared_ns);
        self.platform.clock_ns = now_ns;
        let idle_ns = now_ns.saturating_sub(since_ns);
        let own = &mut self.platform.cpus[index];
        own.sleeps[state as usize].idle_ns += idle_ns;
        if self.sched.nr_iowait(cpu) > 0 {
            own.iowait_ns += idle_ns;
        }
        (own.last_state, own.woke_ns) = (state, now_ns);
        own.got_tick = own.tick_ns <= now_ns;
        self.platform.set_activity(cpu, Activity::Waking(state));
        let awake_ns = now_ns + hardware_state.map_or(0, |state| state.exit_latency_ns);
        self.platform.clock_ns = awake_ns;
        self.platform.energy.set(machine, cpu, Activity::Busy, (awake_ns, horizon_ns));
        self.sched.set_idle_state(cpu, None);
        self.platform.emit(cpu, EventKind::IdleExit { cpu });
        self.judge(cpu, since_ns, state);
        self.platform.clock_ns = awake_ns + machine.path_costs().idle_exit_ns;
        let residency_ns = (awake_ns - since_ns) as i64;
        let own = &mut self.platform.cpus[index];
        let mut view = IdleView::new(&self.sched, own, cpu, now_ns);
        own.governor.reflect(&own.states, state as usize, residency_ns, &mut view);
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Counts the sleep that ends now as the kernel does.
    fn judge(&mut self, cpu: CpuId, since_ns: u64, state: u32) {
        let platform = &mut self.platform;
        let duration_ns = platform.clock_ns - since_ns;
        let counts = &mut platform.cpus[cpu.index()].sleeps[state as usize].counts;
        let below = match counts.count(platform.machine.idle_states(cpu), state, duration_ns) {
            Verdict::Fits => return,
            Verdict::TooDeep => false,
            Verdict::TooShallow => true,
        };
        platform.remark(cpu, EventKind::IdleMiss { cpu, state, below });
    }
}

impl<O: Observer> Platform<'_, O> {
    /// How long `cpu` takes to enter an idle state, ns.
    fn entry_ns(&self, cpu: CpuId, state: usize) -> u64 {
        self.machine.idle_states(cpu).get(state).map_or(0, |state| state.entry_latency_ns)
    }

    /// An interrupt of `cpu`, which executes, is pending.
    fn is_interrupted(&self, cpu: CpuId) -> bool {
        let own = &self.cpus[cpu.index()];
        own.interrupt_ns() <= self.clock_ns
    }
}

/// The shortest and the longest time to poll (`CPUIDLE_POLL_MIN`, `CPUIDLE_POLL_MAX`): the longest is
/// a sixteenth of a tick.
const POLL_MIN_NS: u64 = 10_000;

impl Cpu {
    /// How long it polls before it asks its governor again, ns: as long as the governor says, else
    /// the residency of the first state that does not poll and is worth it (`cpuidle_poll_time()`).
    fn poll_time_ns(&self) -> u64 {
        match self.governor.poll_limit_ns() {
            0 => self.poll_limit_ns,
            own_ns => own_ns,
        }
    }
}

/// `cpuidle_poll_time()` for governors that leave it to the states, ns.
pub fn poll_limit_ns(states: &[State], tick_ns: u64) -> u64 {
    let worth = |state: &&State| !state.disabled && state.target_residency_ns >= POLL_MIN_NS;
    let first = states.iter().skip(1).find(worth);
    first.map_or(u64::MAX, |state| state.target_residency_ns).min(tick_ns / 16)
}

/// A CPU, as its idle governor sees it.
struct IdleView<'a> {
    sched: &'a Scheduler,
    id: CpuId,
    now_ns: u64,
    timer_ns: u64,
    tick_ns: u64,
    got_tick: bool,
    poll_limit: bool,
    latency_req_ns: i64,
}

impl IdleView<'_> {
    fn new<'a>(sched: &'a Scheduler, cpu: &Cpu, id: CpuId, now_ns: u64) -> IdleView<'a> {
        IdleView {
            sched,
            id,
            now_ns,
            timer_ns: cpu.timers.next_ns(),
            tick_ns: cpu.tick_ns,
            got_tick: cpu.got_tick,
            poll_limit: cpu.done_ns != NEVER && cpu.done_ns <= now_ns,
            latency_req_ns: cpu.latency_req_ns,
        }
    }
}

impl IdleHardware for IdleView<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }
    fn sleep_length(&mut self) -> SleepLength {
        let until = |time_ns: u64| {
            let time_ns = if time_ns == NEVER { i64::MAX } else { time_ns as i64 };
            time_ns.saturating_sub(self.now_ns as i64)
        };
        SleepLength {
            sleep_ns: until(self.timer_ns),
            delta_next_ns: until(self.timer_ns.min(self.tick_ns)),
        }
    }
    fn latency_req_ns(&self) -> i64 {
        self.latency_req_ns
    }
    fn tick_stopped(&self) -> bool {
        self.tick_ns == NEVER
    }
    fn got_tick(&self) -> bool {
        self.got_tick
    }
    fn nr_iowait(&self) -> u32 {
        self.sched.nr_iowait(self.id)
    }
    fn cpu_util(&self) -> u64 {
        let state = &self.sched.cpus()[self.id.index()];
        let utilization = CpuUtilization {
            cfs: state.util,
            cfs_estimated: state.util_est,
            rt: state.util_rt,
            dl: state.util_dl,
            irq: state.util_irq,
        };
        sched_cpu_util(&utilization, state.capacity_orig)
    }
    fn poll_time_limit(&self) -> bool {
        self.poll_limit
    }
}

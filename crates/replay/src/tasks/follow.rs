//! Follows every task of a trace through its switches and wake-ups.

use super::context::{Context, Contexts, Late, Silence};
use super::costs::{Calibration, PATH_MAX_NS, is_tick};
use super::guess::{Woken, guess_timers};
use super::stream::Stream;
use super::track::{Birth, Cause, Did, Kind, Sleep, State, Track};
use rustc_hash::FxHashMap;
use schedlab_machine::{CpuId, Machine, PathCosts};
use schedlab_trace::{Event, EventKind, Pid, Strings, Task, TaskState};
use schedlab_workload::recorded::RecordedInterrupt;

/// Work a nanosecond of the biggest CPU alone on its core.
const FULL: u128 = 1024 * 1000;

/// A task that runs so soon after the trace began, and that nobody was seen to wake, waited for its
/// CPU when the trace began.
const BEFORE_NS: u64 = 5_000_000;

/// The walk over a trace.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    machine: &'a Machine,
    pub(super) costs: PathCosts,
    has_hrtimers: bool,
    has_interrupts: bool,
    tick_ns: u64,
    pub(super) contexts: Contexts<'a>,
    /// Of virtual CPUs that share one.
    pub stream: Option<Stream>,
    /// Who was woken on each CPU, and has not been seen to run since.
    pub(super) waiting: Vec<Vec<u32>>,
    pub(super) lates: Vec<Late>,
    pub(super) places: FxHashMap<Pid, u32>,
    pub tracks: Vec<Track>,
    pub arrivals: Vec<RecordedInterrupt>,
    /// Who was woken with another's wait, where and when.
    pub brought: Vec<RecordedInterrupt>,
    pub late: u64,
    pub late_ns: u64,
    pub interrupts: u64,
    pub interrupted_ns: u64,
    /// The first event's time.
    pub begin_ns: Option<u64>,
    /// The last event's time.
    pub end_ns: u64,
}

impl<'a> Follower<'a> {
    pub fn new(calibration: &'a Calibration, tick_ns: u64) -> Follower<'a> {
        let machine = &calibration.machine;
        let shared = machine.shared_instruction_stream();
        let shows_interrupts = calibration.has_hrtimers && calibration.has_interrupts;
        let silence = Silence::of(machine, shows_interrupts);
        Follower {
            machine,
            costs: machine.path_costs().clone(),
            has_hrtimers: calibration.has_hrtimers,
            has_interrupts: calibration.has_interrupts,
            tick_ns,
            contexts: Contexts::new(machine, silence),
            stream: shared.then(|| Stream::new(machine.cpu_count())),
            waiting: vec![Vec::new(); machine.cpu_count()],
            lates: Vec::new(),
            places: FxHashMap::default(),
            tracks: Vec::new(),
            arrivals: Vec::new(),
            brought: Vec::new(),
            late: 0,
            late_ns: 0,
            interrupts: 0,
            interrupted_ns: 0,
            begin_ns: None,
            end_ns: 0,
        }
    }

    pub fn path_costs(&self) -> &PathCosts {
        &self.costs
    }

    fn seen(&mut self, task: Task) -> Option<usize> {
        if task.pid.0 <= 0 {
            return None;
        }
        let next = self.tracks.len() as u32;
        let place = *self.places.entry(task.pid).or_insert(next);
        if place == next {
            self.tracks.push(Track::new(task.pid, task.comm));
        }
        Some(place as usize)
    }

    fn named(&mut self, task: Task) -> Option<usize> {
        let place = self.seen(task)?;
        self.tracks[place].comm = task.comm;
        Some(place)
    }

    /// Notes what kind of task an event names.
    fn notice(&mut self, task: Task, strings: &Strings) {
        if let Some(place) = self.named(task) {
            self.tracks[place].kind = Kind::of(strings.get(task.comm));
        }
    }

    fn running(&self, cpu: CpuId) -> Option<usize> {
        let pid = self.contexts.cpus.get(cpu.index())?.running?;
        self.places.get(&pid).map(|place| *place as usize)
    }

    pub fn push(&mut self, event: &Event, strings: &Strings) {
        if event.cpu.index() >= self.machine.cpu_count() {
            return;
        }
        let (cpu, now_ns) = (event.cpu, event.timestamp_ns);
        self.begin_ns.get_or_insert(now_ns);
        self.end_ns = now_ns;
        if let Some(stream) = &mut self.stream {
            stream.push(event);
        }
        self.show_running(event);
        if let Some(late) = self.contexts.late(event) {
            self.late(late);
        }
        match event.kind {
            EventKind::Switch { prev, prev_state, prev_prio, next, next_prio } => {
                self.notice(next, strings);
                self.held_up(cpu, now_ns, next.pid);
                self.leaves(cpu, now_ns, prev, prev_state, prev_prio);
                self.comes(cpu, now_ns, next, next_prio);
            }
            EventKind::Waking { task, target_cpu, .. } => {
                self.notice(task, strings);
                self.waking(event, task, target_cpu);
            }
            EventKind::Wakeup { task, target_cpu, .. } => {
                self.woken(event, task, target_cpu);
            }
            EventKind::WakeupNew { task, prio, target_cpu } => {
                self.born(event, task, prio, target_cpu);
            }
            EventKind::Fork { parent, child } => self.forked(cpu, parent, child),
            EventKind::Migrate { task, from_cpu, to_cpu, .. } => {
                self.goes(task.pid, to_cpu);
                if let Some(since_ns) = self.contexts.gave_away(from_cpu, task.pid)
                    && now_ns.saturating_sub(since_ns) > PATH_MAX_NS
                {
                    let time_ns = now_ns - since_ns;
                    self.late(Late { task: task.pid, time_ns });
                }
            }
            EventKind::IpiSend { target_cpu: Some(target), .. } if target != cpu => {
                if let Some(task) = self.contexts.waking_on(cpu) {
                    self.contexts.told(target, now_ns, task);
                }
            }
            EventKind::HrtimerExpireEntry { function, .. }
                if self.untold_tick_ns() == 0 && is_tick(strings.get(function)) =>
            {
                let tick_ns = self.costs.tick_ns;
                self.charge(cpu, tick_ns);
            }
            _ => {}
        }
        if let Some((from_ns, to_ns)) = self.contexts.follow(event, strings) {
            self.interrupted(cpu, from_ns, to_ns);
        }
    }

    /// The simulated kernel charges so much of what `cpu` runs by itself.
    fn charge(&mut self, cpu: CpuId, ns: u64) {
        if let Some(place) = self.running(cpu) {
            self.tracks[place].charge(ns);
        }
    }

    /// A CPU's first event shows what it has been running, which counts from there.
    fn show_running(&mut self, event: &Event) {
        let Some(cpu) = self.contexts.cpu(event.cpu) else { return };
        if cpu.running.is_some() || event.pid == Pid::UNKNOWN {
            return;
        }
        cpu.running = Some(event.pid);
        let shown = Task { pid: event.pid, comm: schedlab_trace::StrId::EMPTY };
        let Some(place) = self.seen(shown) else { return };
        let track = &mut self.tracks[place];
        if track.state == State::Unseen {
            track.state = State::Running(event.cpu);
            track.since_ns = event.timestamp_ns;
            track.ran_first_ns = Some(event.timestamp_ns);
            track.seen_on(event.cpu);
        }
    }

    fn interrupted(&mut self, cpu: CpuId, from_ns: u64, to_ns: u64) {
        let ksoftirqd =
            self.running(cpu).is_some_and(|place| self.tracks[place].kind == Kind::Softirqd);
        if to_ns <= from_ns || ksoftirqd {
            return;
        }
        let since_ns = self.stream.as_ref().map_or(0, |stream| stream.since_ns(cpu));
        let length_ns = to_ns - from_ns.max(since_ns).min(to_ns);
        self.interrupts += 1;
        self.interrupted_ns += length_ns;
        self.charge(cpu, length_ns);
        self.arrives(cpu, from_ns, length_ns, None);
    }

    pub(super) fn arrives(&mut self, cpu: CpuId, at_ns: u64, length_ns: u64, wakes: Option<u32>) {
        self.arrivals.push(RecordedInterrupt { cpu: cpu.0, at_ns, length_ns, wakes });
    }

    /// Counts what the task on `cpu` computed up to now, and what the other threads of its core
    /// did, whose speed may be about to change.
    fn settle(&mut self, cpu: CpuId, now_ns: u64, core: bool) {
        let machine = self.machine;
        let threads = machine.topology().cores().siblings(cpu);
        let busy = threads.iter().filter(|thread| self.running(*thread).is_some()).count();
        let throughput = u128::from(machine.smt().throughput_permille(busy));
        // The simulated kernel ticks at every multiple of the tick's length.
        let (tick_ns, cost_ns) = (self.tick_ns, self.untold_tick_ns());
        for thread in threads.iter().filter(|thread| core || *thread == cpu) {
            let Some(place) = self.running(thread) else { continue };
            let track = &mut self.tracks[place];
            if track.state != State::Running(thread) {
                continue;
            }
            let ticks = (now_ns / tick_ns).saturating_sub(track.since_ns / tick_ns);
            track.charge(ticks * cost_ns);
            let wall_ns = now_ns.saturating_sub(track.since_ns);
            let speed = u128::from(machine.capacity(thread)) * throughput / busy as u128;
            track.work_ns += (u128::from(wall_ns) * speed / FULL) as i64;
            track.run_ns += wall_ns;
            track.since_ns = now_ns;
        }
    }

    /// What the task on `cpu` computed up to now becomes a step, after which it does `did`.
    fn does(&mut self, cpu: CpuId, now_ns: u64, place: usize, did: Did) -> u32 {
        self.settle(cpu, now_ns, false);
        let track = &mut self.tracks[place];
        track.flush();
        track.did.push(did);
        track.did.len() as u32 - 1
    }

    fn leaves(&mut self, cpu: CpuId, now_ns: u64, prev: Task, state: TaskState, prio: i32) {
        self.settle(cpu, now_ns, true);
        let Some(place) = self.named(prev) else { return };
        let switch_ns = self.costs.context_switch_ns;
        let track = &mut self.tracks[place];
        track.seen_on(cpu);
        track.prio = prio;
        track.charge(switch_ns);
        let early = track.early.take();
        match state {
            TaskState::Dead | TaskState::Zombie => {
                track.flush();
                track.state = State::Dead;
            }
            // A yield shows as a preemption on the way to user space does.
            state if state.is_runnable() => track.state = State::Runnable,
            _ => {
                track.flush();
                track.state = State::Asleep;
                track.left_ns = now_ns;
                track.device = state == TaskState::DiskSleep;
                if let Some(cause) = early {
                    self.wakes(place, cause);
                }
            }
        }
    }

    /// The cost of a tick that is not told by the trace: where this has no timers, or where virtual
    /// CPUs share one instruction stream, for a task that waits for the stream has its CPU, but gets
    /// no tick.
    fn untold_tick_ns(&self) -> u64 {
        if self.has_hrtimers && self.stream.is_none() { 0 } else { self.costs.tick_ns }
    }

    fn comes(&mut self, cpu: CpuId, now_ns: u64, next: Task, prio: i32) {
        let place = self.named(next);
        let Some(place) = place else { return };
        if self.tracks[place].state == State::Unseen || self.tracks[place].state == State::Asleep {
            // Its wake-up is not in the trace.
            self.tracks[place].first_cpu.get_or_insert(cpu);
            let paths_ns =
                self.costs.wakeup_ns + self.costs.idle_resched_ns + self.costs.context_switch_ns;
            let begin_ns = self.begin_ns.unwrap_or_default();
            let waited = now_ns - begin_ns < BEFORE_NS;
            let came_ns = (if waited { begin_ns } else { now_ns }).saturating_sub(paths_ns);
            self.wakes(place, Cause::Outside(cpu, came_ns));
        }
        self.waited(place, now_ns);
        let track = &mut self.tracks[place];
        track.seen_on(cpu);
        track.prio = prio;
        track.state = State::Running(cpu);
        track.since_ns = now_ns;
        track.woken = None;
        self.brings(place, cpu);
    }

    fn cause(&mut self, event: &Event, task: Pid, target_cpu: CpuId) -> Cause {
        let (cpu, now_ns) = (event.cpu, event.timestamp_ns);
        let context = self.contexts.cpu(cpu).map_or(Context::Task, |cpu| cpu.context);
        match context {
            Context::Sleeper(timer) => match self.contexts.take_armed(timer) {
                // One that its CPU did not get on with came as late as it did.
                Some(armed) if armed.pid == task => {
                    let paths_ns =
                        self.costs.irq_ns + PATH_MAX_NS + self.contexts.timer_late_ns(cpu);
                    let late = now_ns.saturating_sub(armed.hard_ns) > paths_ns;
                    let came_ns = now_ns.saturating_sub(self.costs.irq_ns);
                    Cause::Timer(armed.soft_ns, if late { came_ns } else { armed.hard_ns })
                }
                _ => Cause::Timer(now_ns, now_ns),
            },
            Context::Task => match self.running(cpu) {
                // The simulated kernel does what its stopper threads do by itself.
                Some(waker) if self.tracks[waker].kind == Kind::Stopper => {
                    Cause::Outside(cpu, now_ns)
                }
                // What an interrupt does not get done itself is not the interrupted task's doing.
                Some(_) if self.is_softirqd(task) && self.contexts.softirq_over(cpu) => {
                    Cause::Outside(cpu, now_ns)
                }
                Some(waker) => {
                    let at = self.does(cpu, now_ns, waker, Did::Nothing);
                    Cause::Task(waker as u32, at)
                }
                // Without events of timers and interrupts, a task that wakes where it slept is
                // taken for one whose timer expired.
                None if !self.has_hrtimers && !self.has_interrupts && target_cpu == cpu => {
                    Cause::Timer(now_ns, now_ns)
                }
                None => Cause::Outside(cpu, now_ns),
            },
            // A timer of the wheel expires where the task armed it before it slept.
            Context::Wheel(_)
                if target_cpu == cpu
                    && self
                        .running(cpu)
                        .is_none_or(|place| self.tracks[place].kind != Kind::Softirqd) =>
            {
                let came_ns = now_ns.saturating_sub(self.costs.irq_ns);
                Cause::Timer(came_ns, came_ns)
            }
            Context::Timer | Context::Interrupt(_) | Context::Wheel(_) => match self.running(cpu) {
                Some(waker) if self.tracks[waker].kind == Kind::Softirqd => {
                    let at = self.does(cpu, now_ns, waker, Did::Nothing);
                    Cause::Task(waker as u32, at)
                }
                _ => Cause::Outside(cpu, now_ns),
            },
        }
    }

    fn is_softirqd(&self, task: Pid) -> bool {
        let place = self.places.get(&task);
        place.is_some_and(|place| self.tracks[*place as usize].kind == Kind::Softirqd)
    }

    fn waking(&mut self, event: &Event, task: Task, target_cpu: CpuId) {
        let Some(place) = self.named(task) else { return };
        if self.tracks[place].kind == Kind::Stopper {
            return self.stops(event);
        }
        let cause = match self.kept_waiting(event, place, target_cpu) {
            Some(waiting) => Cause::With(waiting, event.timestamp_ns),
            None => self.cause(event, task.pid, target_cpu),
        };
        let track = &mut self.tracks[place];
        match track.state {
            State::Unseen | State::Asleep => {
                track.seen_on(target_cpu);
                track.waking_ns = Some(event.timestamp_ns);
                self.waits(place, event.timestamp_ns, target_cpu);
                self.pay_waking(event.cpu, cause);
                self.wakes(place, cause);
                if target_cpu == event.cpu && !self.has_hrtimers && !self.has_interrupts {
                    self.note_woken(place, event.timestamp_ns, cause);
                }
            }
            // It is on its way to sleep, or will see that it need not.
            State::Running(_) => track.early = Some(cause),
            State::Runnable | State::Dead => {}
        }
    }

    /// Notes a wake-up whose cause the trace does not show.
    fn note_woken(&mut self, place: usize, woken_ns: u64, cause: Cause) {
        let track = &mut self.tracks[place];
        let by = match cause {
            Cause::Task(waker, did) => Some((waker, did)),
            Cause::Timer(..) => None,
            Cause::Outside(..) | Cause::With(..) => return,
        };
        let at = track.did.len() as u32 - 1;
        track.woken_here.push(Woken { at, left_ns: track.left_ns, woken_ns, by });
    }

    /// A stopper thread is woken: if by a task that takes another program, to move that task.
    fn stops(&mut self, event: &Event) {
        let context = self.contexts.cpu(event.cpu).map(|cpu| cpu.context);
        let kernel = |kind| matches!(kind, Kind::Stopper | Kind::Softirqd);
        if let Some(place) = self.running(event.cpu)
            && context == Some(Context::Task)
            && !kernel(self.tracks[place].kind)
        {
            self.does(event.cpu, event.timestamp_ns, place, Did::Exec);
        }
    }

    /// What the simulated kernel charges the CPU that wakes.
    fn pay_waking(&mut self, cpu: CpuId, cause: Cause) {
        let irq_ns = if matches!(cause, Cause::Timer(..)) { self.costs.irq_ns } else { 0 };
        let ns = self.costs.wakeup_ns + irq_ns;
        self.charge(cpu, ns);
    }

    fn woken(&mut self, event: &Event, task: Task, target_cpu: CpuId) {
        let Some(place) = self.named(task) else { return };
        if target_cpu != event.cpu {
            self.contexts.told(target_cpu, event.timestamp_ns, task.pid);
        }
        let track = &mut self.tracks[place];
        match track.state {
            State::Running(_) => track.early = None,
            State::Runnable => {
                if let Some((since_ns, on)) = track.woken
                    && on != target_cpu
                {
                    self.waits(place, since_ns, target_cpu);
                }
            }
            // A trace that has no sched_waking.
            State::Unseen | State::Asleep => {
                track.seen_on(target_cpu);
                let cause = self.cause(event, task.pid, target_cpu);
                self.pay_waking(event.cpu, cause);
                self.wakes(place, cause);
            }
            State::Dead => {}
        }
        self.tracks[place].seen_on(target_cpu);
    }

    /// The task is awake, by this cause.
    fn wakes(&mut self, place: usize, cause: Cause) {
        let wait = match cause {
            Cause::Timer(soft_ns, hard_ns) => {
                let left_ns = self.tracks[place].left_ns;
                Did::Timer(Sleep { left_ns, soft_ns, hard_ns })
            }
            Cause::Task(waker, at) => {
                self.tracks[waker as usize].did[at as usize] = Did::Wake(place as u32);
                Did::Await
            }
            // A device answers to what the task did, however late that is.
            Cause::Outside(_, at_ns) if self.tracks[place].device => {
                Did::Device(at_ns.saturating_sub(self.tracks[place].left_ns))
            }
            Cause::Outside(cpu, at_ns) => {
                self.arrives(cpu, at_ns, 0, Some(place as u32));
                Did::Await
            }
            Cause::With(waiting, at_ns) => {
                self.tracks[waiting as usize].brings = Some((place as u32, at_ns));
                Did::Await
            }
        };
        let track = &mut self.tracks[place];
        track.did.push(wait);
        track.state = State::Runnable;
        track.wakeups += 1;
    }

    fn born(&mut self, event: &Event, task: Task, prio: i32, target_cpu: CpuId) {
        let Some(place) = self.named(task) else { return };
        let wakeup_ns = self.costs.wakeup_ns;
        self.charge(event.cpu, wakeup_ns);
        let track = &mut self.tracks[place];
        track.first_cpu.get_or_insert(event.cpu);
        track.born_prio = Some(prio);
        if track.state == State::Unseen && track.birth == Birth::Before {
            track.birth = Birth::At(event.timestamp_ns);
        }
        track.state = State::Runnable;
        track.wakeups += 1;
        track.waking_ns = Some(event.timestamp_ns);
        self.waits(place, event.timestamp_ns, target_cpu);
        if target_cpu != event.cpu {
            self.contexts.told(target_cpu, event.timestamp_ns, task.pid);
        }
    }

    fn forked(&mut self, cpu: CpuId, parent: Task, child: Task) {
        let (Some(parent), Some(child)) = (self.named(parent), self.named(child)) else { return };
        if self.running(cpu) != Some(parent) || self.tracks[child].state != State::Unseen {
            return;
        }
        self.tracks[child].birth = Birth::Forked;
        self.tracks[child].first_cpu.get_or_insert(cpu);
        let now_ns = self.end_ns;
        self.does(cpu, now_ns, parent, Did::Fork(child as u32));
    }

    /// Ends the walk: what runs or waits for a CPU is counted up to the end.
    pub fn finish(&mut self) {
        let end_ns = self.end_ns;
        for cpu in self.machine.cpu_ids() {
            self.settle(cpu, end_ns, false);
        }
        // Who waits for a CPU has computed since its last wait, too.
        self.tracks.iter_mut().for_each(Track::flush);
        for place in 0..self.tracks.len() {
            if let Some((_, cpu)) = self.tracks[place].woken {
                self.brings(place, cpu);
            }
        }
        guess_timers(&mut self.tracks);
        self.arrivals.sort_by_key(|interrupt| interrupt.at_ns);
        self.brought.sort_by_key(|interrupt| interrupt.at_ns);
    }
}

//! Steps a task through its program.

use crate::engine::Engine;
use crate::objects::Object;
use crate::observe::Observer;
use crate::platform::{FULL_SPEED, Timer, pid};
use crate::queue::NEVER;
use crate::random::Pcg;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::entity::FairPolicy;
use schedlab_kernel::sched::{NewTask, WakeFlags};
use schedlab_machine::CpuId;
use schedlab_trace::{EventKind, Task};
use schedlab_workload::program::{
    Access, MetricId, ObjectId, ObjectKind, Op, Policy, ProgramId, SLOTS, Slot, Which,
};
use std::cmp::Reverse;

/// `timer_slack_ns` of a normal task: a sleep may end this much late, so that interrupts can be
/// shared.
const TIMER_SLACK_NS: u64 = 50_000;

/// A stream through memory is counted at least this often of its own time, ns.
const STREAM_PART_NS: u64 = 1_000_000_000;

/// Where a task is in its program.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Its program.
    pub program: ProgramId,
    /// The operation it is at.
    pub at: u32,
    /// How far within the operation: 0 before its first sleep.
    pub stage: u32,
    /// What was done of an operation that is done in parts: bytes of a message, passes through a
    /// block.
    pub moved: u64,
    /// Work left of the present computation.
    pub work_left: u64,
    /// That work is wall time.
    pub wall: bool,
    /// It is in a computation.
    pub computing: bool,
    /// Slots.
    pub slots: [u64; SLOTS],
    /// Its computation is over at this time, however much of it it had the CPU.
    pub spins_until_ns: Option<u64>,
    /// It goes through this block of memory.
    pub stream: Option<ObjectId>,
    /// Its generator.
    pub random: Pcg,
    /// Its place among the tasks of its program.
    pub own_index: u32,
    /// Who created it.
    pub parent: Option<TaskId>,
    /// How many of those that it created live.
    pub children: u32,
    /// What it sleeps for, for messages.
    pub waits_for: Option<ObjectId>,
    /// When the server that served it began, if that happened since it posted itself.
    pub served_ns: Option<u64>,
}

/// What an operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// On to the next one.
    Done,
    /// The same operation goes on, once other CPUs had their turn.
    Again,
    /// The task computes.
    Computes,
    /// The task sleeps, yielded or ended: the CPU picks another.
    GivesUp,
}

impl<O: Observer> Engine<'_, O> {
    /// Carries out the present operation of `task`, which runs on `cpu`.
    pub(crate) fn step(&mut self, cpu: CpuId, task: TaskId) -> Step {
        let progress = &mut self.progress[task.index()];
        let program = &self.workload.programs[progress.program.0 as usize];
        let Some(&op) = program.ops.get(progress.at as usize) else {
            return self.exit(cpu, task);
        };
        let step = self.perform(cpu, task, op);
        let progress = &mut self.progress[task.index()];
        if step == Step::Done {
            // A jump to the first operation comes here from before it.
            progress.at = progress.at.wrapping_add(1);
            progress.stage = 0;
        }
        step
    }

    /// The next operation of `task`, which runs, is to compute without going through memory. Nobody
    /// else sees it begin, so it is planned at once although other CPUs have their turn before.
    pub(crate) fn computes_next(&self, task: TaskId) -> bool {
        let progress = &self.progress[task.index()];
        let program = &self.workload.programs[progress.program.0 as usize];
        progress.stage == 0
            && !self.platform.streams.any()
            && matches!(program.ops.get(progress.at as usize), Some(Op::Run(_) | Op::Hold(_)))
    }

    fn perform(&mut self, cpu: CpuId, task: TaskId, op: Op) -> Step {
        let index = task.index();
        match op {
            Op::Run(amount) => {
                let work_ns = self.progress[index].random.draw(amount);
                self.compute(task, work_ns, false)
            }
            Op::Hold(amount) => {
                let wall_ns = self.progress[index].random.draw(amount);
                self.compute(task, wall_ns, true)
            }
            Op::Spin(amount) => {
                let spin_ns = self.progress[index].random.draw(amount);
                let until_ns = self.platform.clock_ns.saturating_add(spin_ns);
                self.progress[index].spins_until_ns = Some(until_ns);
                self.compute(task, spin_ns, true)
            }
            Op::Sleep(amount) => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                let sleep_ns = self.progress[index].random.draw(amount);
                self.system_call();
                let soft_ns = self.platform.clock_ns.saturating_add(sleep_ns);
                self.sleep_until(cpu, task, soft_ns)
            }
            Op::Timer { slot, period_ns } => self.periodic(cpu, task, slot, period_ns, false),
            Op::RestartingTimer { slot, period_ns } => {
                self.periodic(cpu, task, slot, period_ns, true)
            }
            Op::SharedTimer { timer, period_ns, restarts } => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                let object = self.choose(task, timer, cpu);
                let Object::Counter { value } = *self.object(object) else { return Step::Done };
                let (next_ns, sleeps) = self.next_expiry(value, period_ns, restarts);
                if let Object::Counter { value } = self.object(object) {
                    *value = next_ns;
                }
                if sleeps { self.sleep_until(cpu, task, next_ns) } else { Step::Done }
            }
            Op::Pick { slot, which } => {
                let object = self.choose(task, which, cpu);
                self.progress[index].slots[usize::from(slot.0) % SLOTS] = u64::from(object.0);
                Step::Done
            }
            Op::Lock(which) => {
                let object = self.choose(task, which, cpu);
                self.lock(cpu, task, object)
            }
            Op::Unlock(which) => {
                let object = self.choose(task, which, cpu);
                self.unlock(cpu, object);
                Step::Done
            }
            Op::Down(which) => self.down(cpu, task, which),
            Op::Up(which) => self.up(cpu, task, which),
            Op::FutexWait(which) => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                let object = self.choose(task, which, cpu);
                self.system_call();
                self.sleep_on(cpu, task, object)
            }
            Op::FutexWake { futex, count } => {
                let object = self.choose(task, futex, cpu);
                self.system_call();
                self.wake_waiters(cpu, object, count);
                Step::Done
            }
            Op::CondWait { condition, mutex } => {
                let mutex = self.choose(task, mutex, cpu);
                if self.progress[index].stage > 0 {
                    return self.lock(cpu, task, mutex);
                }
                let condition = self.choose(task, condition, cpu);
                self.system_call();
                self.unlock(cpu, mutex);
                self.sleep_on(cpu, task, condition)
            }
            Op::CondSignal(which) => {
                let object = self.choose(task, which, cpu);
                self.system_call();
                self.wake_waiters(cpu, object, 1);
                Step::Done
            }
            Op::CondBroadcast(which) => {
                let object = self.choose(task, which, cpu);
                self.system_call();
                self.wake_waiters(cpu, object, u32::MAX);
                Step::Done
            }
            Op::Barrier(which) => self.barrier(cpu, task, which),
            Op::Write { channel, bytes } => self.transfer(cpu, task, channel, bytes, true),
            Op::Read { channel, bytes } => self.transfer(cpu, task, channel, bytes, false),
            Op::SpinUntil(which) => self.spin_until(cpu, task, which),
            Op::Post(which) => self.post(cpu, task, which),
            Op::AwaitServed { mailbox, slot } => self.await_served(cpu, task, mailbox, slot),
            Op::AwaitPosted(which) => self.await_posted(cpu, task, which),
            Op::Serve(which) => self.serve(cpu, task, which),
            Op::SetFlag(which) => {
                let object = self.choose(task, which, cpu);
                self.touch(cpu, object, Access::Write, 1);
                self.set_flag(cpu, object);
                Step::Done
            }
            Op::Yield => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                self.progress[index].stage = 1;
                self.system_call();
                self.sched.yield_current(cpu, &mut self.platform);
                Step::GivesUp
            }
            Op::Fork { program, count, thread } => {
                // Creation takes long enough for other CPUs to act before the new task is placed,
                // so its time and the placement are turns of their own.
                let stage = self.progress[index].stage;
                if stage / 2 >= count {
                    return Step::Done;
                }
                self.progress[index].stage += 1;
                if stage.is_multiple_of(2) {
                    let costs = self.platform.machine.path_costs();
                    self.platform.clock_ns +=
                        if thread { costs.thread_create_ns } else { costs.fork_ns };
                } else {
                    self.fork(cpu, task, program);
                }
                Step::GivesUp
            }
            Op::Exec => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                self.progress[index].stage = 1;
                self.system_call();
                self.sched.exec(cpu, &mut self.platform);
                Step::GivesUp
            }
            Op::Join => {
                if self.progress[index].children == 0 {
                    return Step::Done;
                }
                self.progress[index].stage = 1;
                self.progress[index].waits_for = None;
                self.system_call();
                self.sleep(cpu)
            }
            Op::Exit => self.exit(cpu, task),
            Op::ExitGroup => {
                self.stopped = true;
                self.exit(cpu, task)
            }
            Op::Touch { line, access, count } => {
                let object = self.choose(task, line, cpu);
                self.touch(cpu, object, access, count);
                Step::Done
            }
            Op::Stream { block, passes, metric, amount } => {
                self.stream(cpu, task, block, (passes, amount), metric)
            }
            Op::Repeat { slot, to, times } => {
                let done = &mut self.progress[index].slots[usize::from(slot.0) % SLOTS];
                *done += 1;
                if *done < times {
                    self.jump(task, to);
                } else {
                    *done = 0;
                }
                Step::Done
            }
            Op::Jump { to } => {
                self.jump(task, to);
                Step::Done
            }
            Op::Count { metric, amount } => {
                let now_ns = self.platform.clock_ns;
                self.figures.count(metric, amount, now_ns);
                Step::Done
            }
            Op::Mark(slot) => {
                let now_ns = self.platform.clock_ns;
                self.progress[index].slots[usize::from(slot.0) % SLOTS] = now_ns;
                Step::Done
            }
            Op::Measure { metric, since } => {
                let since_ns = self.progress[index].slots[usize::from(since.0) % SLOTS];
                self.measure(metric, since_ns);
                Step::Done
            }
            Op::MeasureBeyond { metric, since, allowance_ns, least_ns } => {
                let since_ns = self.progress[index].slots[usize::from(since.0) % SLOTS];
                let passed_ns = self.platform.clock_ns.saturating_sub(since_ns);
                let beyond_ns = passed_ns.checked_sub(allowance_ns).filter(|ns| *ns > 0);
                let now_ns = self.platform.clock_ns;
                self.figures.measure(metric, beyond_ns.unwrap_or(least_ns), now_ns);
                Step::Done
            }
            Op::MarkShared(which) => {
                let object = self.choose(task, which, cpu);
                let now_ns = self.platform.clock_ns;
                if let Object::Counter { value } = self.object(object) {
                    *value = now_ns;
                }
                Step::Done
            }
            Op::MeasureShared { metric, since } => {
                let object = self.choose(task, since, cpu);
                if let Object::Counter { value } = *self.object(object) {
                    self.measure(metric, value);
                }
                Step::Done
            }
        }
    }

    /// The next operation will be `to`; the caller adds one.
    fn jump(&mut self, task: TaskId, to: u32) {
        self.progress[task.index()].at = to.wrapping_sub(1);
    }

    fn measure(&mut self, metric: MetricId, since_ns: u64) {
        let now_ns = self.platform.clock_ns;
        self.figures.measure(metric, now_ns.saturating_sub(since_ns), now_ns);
    }

    pub(crate) fn object(&mut self, id: ObjectId) -> &mut Object {
        &mut self.objects[id.0 as usize]
    }

    pub(crate) fn choose(&mut self, task: TaskId, which: Which, cpu: CpuId) -> ObjectId {
        // An operation that sleeps goes on with the object that it slept for.
        let progress = &mut self.progress[task.index()];
        if progress.stage > 0
            && let Some(object) = progress.waits_for
            && matches!(which, Which::Random { .. } | Which::Next { .. } | Which::OfCpu { .. })
        {
            return object;
        }
        match which {
            Which::One(object) => object,
            Which::Random { first, count } => {
                ObjectId(first.0 + progress.random.below(u64::from(count)) as u32)
            }
            Which::Own { first } => ObjectId(first.0 + progress.own_index),
            Which::OfCpu { first, count } => ObjectId(first.0 + cpu.0 % count.max(1)),
            Which::Picked(slot) => ObjectId(progress.slots[usize::from(slot.0) % SLOTS] as u32),
            Which::Next { first, count, counter } => match self.object(counter) {
                Object::Counter { value } => {
                    let turn = *value % u64::from(count.max(1));
                    *value += 1;
                    ObjectId(first.0 + turn as u32)
                }
                _ => first,
            },
        }
    }

    pub(crate) fn system_call(&mut self) {
        self.platform.clock_ns += self.platform.machine.path_costs().syscall_ns;
    }

    pub(crate) fn touch(&mut self, cpu: CpuId, object: ObjectId, access: Access, count: u32) {
        let mut now_ps = self.platform.clock_ns * 1000;
        self.platform.streams.touch(self.platform.machine, object.0 as usize, cpu);
        for _ in 0..count {
            let machine = self.platform.machine;
            let line = object.0 as usize;
            now_ps = self.platform.lines.access(machine, line, cpu, access, now_ps);
        }
        self.platform.clock_ns = now_ps.div_ceil(1000);
    }

    /// Goes through a block. What is long is done, and counted, in parts.
    fn stream(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        block: Which,
        (passes, amount): (u64, u64),
        metric: MetricId,
    ) -> Step {
        let now_ns = self.platform.clock_ns;
        let object = match self.progress[task.index()].stream.take() {
            Some(object) => object,
            None => self.choose(task, block, cpu),
        };
        let mut done = self.progress[task.index()].moved;
        let mut part = self.stream_part(object, passes - done);
        if self.progress[task.index()].stage > 0 {
            done += part.0;
            self.figures.count(metric, part.0.saturating_mul(amount), now_ns);
            part = self.stream_part(object, passes - done);
        } else {
            self.figures.count(metric, 0, now_ns);
        }
        let progress = &mut self.progress[task.index()];
        if done == passes {
            progress.moved = 0;
            return Step::Done;
        }
        progress.moved = done;
        progress.stream = Some(object);
        self.compute(task, part.1, false)
    }

    /// How many of these passes are done in one go, and what they take while nothing slows them
    /// down, ns.
    fn stream_part(&self, block: ObjectId, passes: u64) -> (u64, u64) {
        let pass_ps = match self.workload.objects[block.0 as usize] {
            ObjectKind::Block(block) => block.pass_ps.max(1),
            _ => 1,
        };
        let part = passes.min((STREAM_PART_NS * 1000 / pass_ps).max(1));
        let work_ns = u128::from(pass_ps) * u128::from(part) / 1000;
        (part, work_ns.clamp(1, u128::from(u64::MAX / FULL_SPEED)) as u64)
    }

    /// Counts the passes of those whom the end of the run cuts short.
    pub(crate) fn count_streams(&mut self, end_ns: u64) {
        for cpu in self.platform.machine.cpu_ids() {
            self.platform.progress(cpu.index(), end_ns);
            self.pause(cpu);
        }
        for index in 0..self.progress.len() {
            let progress = &self.progress[index];
            let (Some(object), true) = (progress.stream, progress.computing) else { continue };
            let program = &self.workload.programs[progress.program.0 as usize];
            let Some(&Op::Stream { passes, metric, amount, .. }) =
                program.ops.get(progress.at as usize)
            else {
                continue;
            };
            let (part, work_ns) = self.stream_part(object, passes - progress.moved);
            let work = u128::from(work_ns) * u128::from(FULL_SPEED);
            let done = work.saturating_sub(u128::from(progress.work_left));
            // A pass that is not complete counts, too, as far as it went.
            let counted = u128::from(part) * u128::from(amount) * done / work;
            self.figures.count(metric, u64::try_from(counted).unwrap_or(u64::MAX), end_ns);
        }
    }

    fn compute(&mut self, task: TaskId, work_ns: u64, wall: bool) -> Step {
        if work_ns == 0 {
            return Step::Done;
        }
        let progress = &mut self.progress[task.index()];
        progress.work_left = work_ns.saturating_mul(FULL_SPEED);
        progress.wall = wall;
        progress.computing = true;
        Step::Computes
    }

    /// The task goes to sleep; its operation goes on when it is woken.
    pub(crate) fn sleep(&mut self, cpu: CpuId) -> Step {
        self.sched.block(cpu, false, &mut self.platform);
        Step::GivesUp
    }

    pub(crate) fn sleep_on(&mut self, cpu: CpuId, task: TaskId, object: ObjectId) -> Step {
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        progress.waits_for = Some(object);
        match self.object(object) {
            Object::Queue { waiters }
            | Object::Mutex { waiters, .. }
            | Object::Semaphore { waiters, .. }
            | Object::Barrier { waiters, .. }
            | Object::Mailbox { servers: waiters, .. } => waiters.push_back(task),
            _ => {}
        }
        self.sleep(cpu)
    }

    fn sleep_until(&mut self, cpu: CpuId, task: TaskId, soft_ns: u64) -> Step {
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        progress.waits_for = None;
        let timer =
            Timer { hard_ns: soft_ns.saturating_add(TIMER_SLACK_NS), soft_ns, task: task.0 };
        self.platform.cpus[cpu.index()].timers.push(Reverse(timer));
        self.timers_armed += 1;
        self.platform.clock_ns += self.platform.machine.path_costs().timer_program_ns;
        self.sleep(cpu)
    }

    fn periodic(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        slot: Slot,
        period_ns: u64,
        restarts: bool,
    ) -> Step {
        if self.progress[task.index()].stage > 0 {
            return Step::Done;
        }
        let slot = usize::from(slot.0) % SLOTS;
        let last_ns = self.progress[task.index()].slots[slot];
        let (next_ns, sleeps) = self.next_expiry(last_ns, period_ns, restarts);
        self.progress[task.index()].slots[slot] = next_ns;
        if sleeps { self.sleep_until(cpu, task, next_ns) } else { Step::Done }
    }

    /// The expiry of a periodic timer after that at `last_ns` (0: never used), and whether it is
    /// yet to come.
    fn next_expiry(&mut self, last_ns: u64, period_ns: u64, restarts: bool) -> (u64, bool) {
        let now_ns = self.platform.clock_ns;
        self.system_call();
        let from_ns = if last_ns == 0 { now_ns } else { last_ns };
        let next_ns = from_ns.saturating_add(period_ns);
        let late = next_ns <= now_ns;
        (if late && restarts { now_ns } else { next_ns }, !late)
    }

    pub(crate) fn wake(&mut self, cpu: CpuId, task: TaskId, flags: WakeFlags) {
        self.sched.wake(task, cpu, flags, &mut self.platform);
    }

    fn fork(&mut self, cpu: CpuId, parent: TaskId, program: ProgramId) {
        let child = self.create(program, Some(parent), cpu);
        self.progress[parent.index()].children += 1;
        let name = |task: TaskId| Task { pid: pid(task), comm: self.platform.comms[task.index()] };
        let kind = EventKind::Fork { parent: name(parent), child: name(child) };
        self.platform.emit(cpu, kind);
        self.sched.wake_new(child, cpu, &mut self.platform);
    }

    /// Creates a task of a program; it runs once it is woken.
    pub(crate) fn create(
        &mut self,
        program: ProgramId,
        parent: Option<TaskId>,
        cpu: CpuId,
    ) -> TaskId {
        let attributes = &self.workload.programs[program.0 as usize].attributes;
        let new = NewTask {
            nice: attributes.nice,
            policy: match attributes.policy {
                Policy::Normal => FairPolicy::Normal,
                Policy::Batch => FairPolicy::Batch,
                Policy::Idle => FairPolicy::Idle,
            },
            slice_ns: attributes.slice_ns,
            affinity: attributes.affinity.map_or_else(Default::default, |allowed| {
                self.sched.affinity(allowed & *self.platform.machine.cpus())
            }),
            per_cpu_kthread: false,
        };
        let task = self.sched.create(new, cpu);
        let own_index = &mut self.instances[program.0 as usize];
        self.progress.push(Progress {
            program,
            at: 0,
            stage: 0,
            moved: 0,
            work_left: 0,
            wall: false,
            computing: false,
            spins_until_ns: None,
            stream: None,
            slots: [0; SLOTS],
            random: Pcg::new(self.seed, u64::from(task.0)),
            own_index: *own_index,
            parent,
            children: 0,
            waits_for: None,
            served_ns: None,
        });
        *own_index += 1;
        self.platform.comms.push(self.program_names[program.0 as usize]);
        self.platform.prios.push(120 + attributes.nice);
        self.platform.touched.push((self.platform.clock_ns, cpu));
        self.live += 1;
        task
    }

    fn exit(&mut self, cpu: CpuId, task: TaskId) -> Step {
        let name = Task { pid: pid(task), comm: self.platform.comms[task.index()] };
        self.platform.emit(cpu, EventKind::Exit { task: name });
        self.live -= 1;
        if let Some(parent) = self.progress[task.index()].parent {
            let progress = &mut self.progress[parent.index()];
            progress.children -= 1;
            let program = &self.workload.programs[progress.program.0 as usize];
            let joins = progress.stage > 0
                && matches!(program.ops.get(progress.at as usize), Some(Op::Join));
            if progress.children == 0 && joins {
                self.wake(cpu, parent, WakeFlags::TASK);
            }
        }
        self.sched.exit(cpu, &mut self.platform);
        debug_assert_ne!(self.platform.clock_ns, NEVER);
        Step::GivesUp
    }
}

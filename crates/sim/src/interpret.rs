//! Steps a task through its program.

use crate::engine::Engine;
use crate::objects::Object;
use crate::observe::Observer;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::sched::WakeFlags;
use schedlab_machine::CpuId;
use schedlab_workload::program::{Access, MetricId, ObjectId, Op, SLOTS, Which};

/// What an operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// On to the next one.
    Done,
    /// On to the next one. It took no time, and nobody but the task and the figures was concerned.
    Instant,
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
        let progress = &self.progress[task.index()];
        let Some(op) = progress.ops.get(progress.at as usize) else {
            return self.exit(cpu, task);
        };
        let step = self.perform(cpu, task, op);
        let progress = &mut self.progress[task.index()];
        if matches!(step, Step::Done | Step::Instant) {
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
        progress.stage == 0
            && !self.platform.streams.any()
            && matches!(progress.ops.get(progress.at as usize), Some(Op::Run(_) | Op::Hold(_)))
    }

    fn perform(&mut self, cpu: CpuId, task: TaskId, op: &Op) -> Step {
        let index = task.index();
        let progress = &mut self.progress[index];
        match *op {
            Op::Run(amount) => {
                let work_ns = progress.random.draw(amount);
                progress.compute(work_ns, false)
            }
            Op::System(amount) => {
                let work_ns = progress.random.draw(amount);
                progress.in_kernel = true;
                progress.compute(work_ns, false)
            }
            Op::Hold(amount) => {
                let wall_ns = progress.random.draw(amount);
                progress.compute(wall_ns, true)
            }
            Op::Spin(amount) => {
                let spin_ns = progress.random.draw(amount);
                let until_ns = self.platform.clock_ns.saturating_add(spin_ns);
                progress.spins_until_ns = Some(until_ns);
                progress.compute(spin_ns, true)
            }
            Op::Sleep(amount) => {
                if progress.stage > 0 {
                    return Step::Done;
                }
                let sleep_ns = progress.random.draw(amount);
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
            Op::SleepFor { soft_ns, hard_ns } => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                self.system_call();
                let now_ns = self.platform.clock_ns;
                let times_ns = (now_ns.saturating_add(soft_ns), now_ns.saturating_add(hard_ns));
                self.arm(cpu, task, times_ns)
            }
            Op::SleepUntil { slot, soft_ns, hard_ns } => {
                self.until(cpu, task, slot, (soft_ns, hard_ns))
            }
            Op::Late(_) => Step::Instant,
            Op::Brings(which) => {
                // Of a wake-up that was not needed, nobody was brought along yet.
                if !std::mem::take(&mut self.progress[index].brought) {
                    let object = self.choose(task, which, cpu);
                    self.add_from_interrupt(cpu, object);
                }
                Step::Done
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
            Op::UpEvery { semaphore, counter, every } => {
                let object = self.choose(task, counter, cpu);
                self.touch(cpu, object, Access::Atomic, 1);
                let Object::Counter { value } = self.object(object) else { return Step::Done };
                *value += 1;
                if value.is_multiple_of(every.max(1)) {
                    return self.up(cpu, task, semaphore);
                }
                Step::Done
            }
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
            Op::Io { device, service_ns } => self.request(cpu, task, device, service_ns),
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
            Op::SetAffinity { to } => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                self.progress[index].stage = 1;
                self.system_call();
                let program = self.progress[index].program;
                let attributes = &self.workload.programs[program.0 as usize].attributes;
                let allowed = attributes.other_affinities[to as usize];
                let affinity = self.sched.affinity(allowed & *self.platform.machine.cpus());
                self.sched.set_affinity(cpu, affinity, &mut self.platform);
                Step::GivesUp
            }
            Op::MigrateDisable => {
                self.sched.disable_migration(cpu);
                Step::Done
            }
            Op::MigrateEnable => {
                if self.progress[index].stage > 0 {
                    return Step::Done;
                }
                self.progress[index].stage = 1;
                self.sched.enable_migration(cpu, &mut self.platform);
                Step::GivesUp
            }
            Op::SystemCalls(count) => {
                let call_ns = self.platform.machine.path_costs().syscall_ns;
                self.compute(task, count.saturating_mul(call_ns), true)
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
                let done = &mut progress.slots[usize::from(slot.0) % SLOTS];
                *done += 1;
                if *done < times {
                    progress.jump(to);
                } else {
                    *done = 0;
                }
                Step::Instant
            }
            Op::Jump { to } => {
                progress.jump(to);
                Step::Instant
            }
            Op::Count { metric, amount } => {
                let now_ns = self.platform.clock_ns;
                self.figures.count(metric, amount, now_ns);
                Step::Instant
            }
            Op::Mark(slot) => {
                progress.slots[usize::from(slot.0) % SLOTS] = self.platform.clock_ns;
                Step::Instant
            }
            Op::Measure { metric, since } => {
                let since_ns = progress.slots[usize::from(since.0) % SLOTS];
                self.measure(metric, since_ns);
                Step::Instant
            }
            Op::MeasureBeyond { metric, since, allowance_ns, least_ns } => {
                let since_ns = progress.slots[usize::from(since.0) % SLOTS];
                let passed_ns = self.platform.clock_ns.saturating_sub(since_ns);
                let beyond_ns = passed_ns.checked_sub(allowance_ns).filter(|ns| *ns > 0);
                let now_ns = self.platform.clock_ns;
                self.figures.measure(metric, beyond_ns.unwrap_or(least_ns), now_ns);
                Step::Instant
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

    pub(crate) fn compute(&mut self, task: TaskId, work_ns: u64, wall: bool) -> Step {
        self.progress[task.index()].compute(work_ns, wall)
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
        let rt = self.platform.is_rt(task);
        match &mut self.objects[object.0 as usize] {
            Object::Queue { waiters }
            | Object::Mutex { waiters, .. }
            | Object::Semaphore { waiters, .. }
            | Object::Barrier { waiters, .. }
                if rt =>
            {
                // A futex wakes real-time tasks first, the most urgent before others.
                let prios = &self.platform.prios;
                let prio = prios[task.index()];
                let place = waiters.partition_point(|other| prios[other.index()] <= prio);
                waiters.insert(place, task);
            }
            Object::Queue { waiters }
            | Object::Mutex { waiters, .. }
            | Object::Semaphore { waiters, .. }
            | Object::Barrier { waiters, .. }
            | Object::Mailbox { servers: waiters, .. } => waiters.push_back(task),
            _ => {}
        }
        self.sleep(cpu)
    }

    pub(crate) fn wake(&mut self, cpu: CpuId, task: TaskId, flags: WakeFlags) {
        if self.sched.wake(task, cpu, flags, &mut self.platform) && self.holds_up {
            self.hold_up(cpu, task);
        }
    }
}

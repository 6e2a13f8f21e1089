//! Locks, semaphores, barriers, channels, flags and mailboxes: who sleeps, who is woken, and which
//! cache lines are touched on the way.

use crate::engine::Engine;
use crate::interpret::Step;
use crate::objects::Object;
use crate::observe::Observer;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::sched::WakeFlags;
use schedlab_machine::CpuId;
use schedlab_workload::program::{Access, ObjectId, Op, SLOTS, Slot, Which};

/// The stage of a task that is in the system call that would put it to sleep.
const LOOKED_AGAIN: u32 = 2;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn wake_waiters(&mut self, cpu: CpuId, object: ObjectId, count: u32) {
        for _ in 0..count {
            let waiter = match self.object(object) {
                Object::Queue { waiters } => waiters.pop_front(),
                _ => None,
            };
            let Some(waiter) = waiter else { break };
            self.wake(cpu, waiter, WakeFlags::TASK);
        }
    }

    pub(crate) fn lock(&mut self, cpu: CpuId, task: TaskId, object: ObjectId) -> Step {
        self.touch(cpu, object, Access::Atomic, 1);
        if let Object::Mutex { holder, .. } = self.object(object) {
            if holder.is_none() {
                *holder = Some(task);
                return Step::Done;
            }
            // On its way to sleep, a task looks once more (the value that futex_wait() compares):
            // a lock that is held for less than a system call hardly ever puts anyone to sleep.
            let progress = &mut self.progress[task.index()];
            if progress.stage != LOOKED_AGAIN {
                progress.stage = LOOKED_AGAIN;
                self.system_call();
                return Step::Again;
            }
            return self.sleep_on(cpu, task, object);
        }
        Step::Done
    }

    pub(crate) fn unlock(&mut self, cpu: CpuId, object: ObjectId) {
        self.touch(cpu, object, Access::Atomic, 1);
        if let Object::Mutex { holder, waiters } = self.object(object) {
            *holder = None;
            if let Some(waiter) = waiters.pop_front() {
                self.system_call();
                self.wake(cpu, waiter, WakeFlags::TASK);
            }
        }
    }

    pub(crate) fn down(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Atomic, 1);
        if let Object::Semaphore { count, .. } = self.object(object) {
            if *count == 0 {
                self.system_call();
                return self.sleep_on(cpu, task, object);
            }
            *count -= 1;
        }
        Step::Done
    }

    pub(crate) fn up(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Atomic, 1);
        if let Object::Semaphore { count, waiters } = self.object(object) {
            *count += 1;
            if let Some(waiter) = waiters.pop_front() {
                self.system_call();
                self.wake(cpu, waiter, WakeFlags::TASK);
            }
        }
        Step::Done
    }

    pub(crate) fn barrier(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        if self.progress[task.index()].stage > 0 {
            return Step::Done;
        }
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Atomic, 1);
        self.system_call();
        let others = match self.object(object) {
            Object::Barrier { parties, waiters } if waiters.len() as u32 + 1 >= *parties => {
                waiters.len()
            }
            _ => return self.sleep_on(cpu, task, object),
        };
        // Those who come meanwhile belong to the next round.
        for _ in 0..others {
            let other = match self.object(object) {
                Object::Barrier { waiters, .. } => waiters.pop_front(),
                _ => None,
            };
            if let Some(other) = other {
                self.wake(cpu, other, WakeFlags::TASK);
            }
        }
        Step::Done
    }

    /// Moves a message into or out of a channel, sleeping while it is full or empty.
    pub(crate) fn transfer(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        which: Which,
        bytes: u64,
        writes: bool,
    ) -> Step {
        let object = self.choose(task, which, cpu);
        self.system_call();
        self.touch(cpu, object, Access::Atomic, 1);
        let moved_bytes = self.progress[task.index()].moved;
        let Object::Channel { capacity_bytes, filled_bytes, sync_wakeup, readers, writers } =
            &mut self.objects[object.0 as usize]
        else {
            return Step::Done;
        };
        let possible = if writes { *capacity_bytes - *filled_bytes } else { *filled_bytes };
        let part = possible.min(bytes - moved_bytes);
        if writes {
            *filled_bytes += part;
        } else {
            *filled_bytes -= part;
        }
        let complete = moved_bytes + part >= bytes;
        let (own, others) = if writes { (writers, readers) } else { (readers, writers) };
        if !complete {
            own.push_back(task);
        }
        let other = if part > 0 { others.pop_front() } else { None };
        // Only a writer hands its CPU over: a reader goes on with what it read.
        let flags = if *sync_wakeup && writes { WakeFlags::SYNC } else { WakeFlags::TASK };
        if let Some(other) = other {
            self.wake(cpu, other, flags);
        }
        let progress = &mut self.progress[task.index()];
        if complete {
            progress.moved = 0;
            return Step::Done;
        }
        progress.moved = moved_bytes + part;
        progress.stage = 1;
        progress.waits_for = Some(object);
        self.sleep(cpu)
    }

    pub(crate) fn spin_until(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Read, 1);
        match self.object(object) {
            Object::Flag { set: false, spinners } => {
                spinners.push_back(task);
                let progress = &mut self.progress[task.index()];
                progress.waits_for = Some(object);
                progress.work_left = u64::MAX;
                progress.wall = true;
                progress.computing = true;
                Step::Computes
            }
            _ => Step::Done,
        }
    }

    pub(crate) fn set_flag(&mut self, cpu: CpuId, object: ObjectId) {
        if let Object::Flag { set, .. } = self.object(object) {
            *set = true;
        }
        while let Object::Flag { spinners, .. } = self.object(object)
            && let Some(spinner) = spinners.pop_front()
        {
            self.progress[spinner.index()].work_left = 1;
            self.progress[spinner.index()].waits_for = None;
            let its_cpu = self.sched.task(spinner).cpu;
            if its_cpu != cpu && self.sched.current(its_cpu) == Some(spinner) {
                self.platform.shorten(its_cpu.index());
            }
        }
    }

    pub(crate) fn post(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Atomic, 1);
        self.progress[task.index()].served_ns = None;
        let server = match self.object(object) {
            Object::Mailbox { posted, servers } => {
                posted.push(task);
                servers.pop_front()
            }
            _ => None,
        };
        if let Some(server) = server {
            self.system_call();
            self.wake(cpu, server, WakeFlags::TASK);
        }
        Step::Done
    }

    pub(crate) fn await_served(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        which: Which,
        slot: Slot,
    ) -> Step {
        let progress = &mut self.progress[task.index()];
        if let Some(served_ns) = progress.served_ns.take() {
            progress.slots[usize::from(slot.0) % SLOTS] = served_ns;
            return Step::Done;
        }
        let object = self.choose(task, which, cpu);
        self.system_call();
        let progress = &mut self.progress[task.index()];
        progress.stage = 1;
        progress.waits_for = Some(object);
        self.sleep(cpu)
    }

    pub(crate) fn await_posted(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Read, 1);
        match self.object(object) {
            Object::Mailbox { posted, .. } if posted.is_empty() => {
                self.system_call();
                self.sleep_on(cpu, task, object)
            }
            _ => Step::Done,
        }
    }

    pub(crate) fn serve(&mut self, cpu: CpuId, task: TaskId, which: Which) -> Step {
        let object = self.choose(task, which, cpu);
        self.touch(cpu, object, Access::Atomic, 1);
        let Object::Mailbox { posted, .. } = self.object(object) else { return Step::Done };
        let mut posted = std::mem::take(posted);
        let began_ns = self.platform.clock_ns;
        for &client in posted.iter().rev() {
            self.system_call();
            let progress = &mut self.progress[client.index()];
            progress.served_ns = Some(began_ns);
            let program = &self.workload.programs[progress.program.0 as usize];
            let op = program.ops.get(progress.at as usize);
            // One that is still on its way to sleep will see that it was served.
            if progress.stage > 0 && matches!(op, Some(Op::AwaitServed { .. })) {
                self.wake(cpu, client, WakeFlags::TASK);
            }
        }
        // The list goes back, so that the next round need not allocate.
        posted.clear();
        if let Object::Mailbox { posted: list, .. } = self.object(object)
            && list.is_empty()
        {
            *list = posted;
        }
        Step::Done
    }
}

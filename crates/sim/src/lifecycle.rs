//! How tasks come into being and end.

use crate::cpu::FULL_SPEED;
use crate::engine::Engine;
use crate::interpret::Step;
use crate::observe::Observer;
use crate::platform::pid;
use crate::queue::NEVER;
use crate::random::Pcg;
use schedlab_kernel::deadline::entity::Reservation;
use schedlab_kernel::fair::TaskId;
use schedlab_kernel::fair::entity::FairPolicy;
use schedlab_kernel::fair::uclamp::TaskClamps;
use schedlab_kernel::rt::{RealTime, RtPolicy, RtPriority};
use schedlab_kernel::sched::{NewTask, WakeFlags};
use schedlab_machine::CpuId;
use schedlab_trace::{EventKind, Task};
use schedlab_workload::program::{ObjectId, Op, Policy, ProgramId, SLOTS};

/// Where a task is in its program. What every operation needs comes first, in one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Progress<'a> {
    /// The operations of its program.
    pub ops: &'a [Op],
    /// The operation it is at.
    pub at: u32,
    /// How far within the operation: 0 before its first sleep.
    pub stage: u32,
    /// It is in a computation.
    pub computing: bool,
    /// The computation's work is wall time.
    pub wall: bool,
    /// The computation is a system call's.
    pub in_kernel: bool,
    /// What [`Op::Brings`] says was done as it was woken.
    pub brought: bool,
    /// Its place among the tasks of its program.
    pub own_index: u32,
    /// Work left of the present computation.
    pub work_left: u64,
    /// Time it computed outside the kernel, ns.
    pub user_ns: u64,
    /// It goes through this block of memory.
    pub stream: Option<ObjectId>,
    /// What it sleeps for, for messages.
    pub waits_for: Option<ObjectId>,
    /// Its computation is over at this time, however much of it it had the CPU.
    pub spins_until_ns: Option<u64>,
    /// What was done of an operation that is done in parts: bytes of a message, passes through a
    /// block.
    pub moved: u64,
    /// Its generator.
    pub random: Pcg,
    /// Slots.
    pub slots: [u64; SLOTS],
    /// When the server that served it began, if that happened since it posted itself.
    pub served_ns: Option<u64>,
    /// Its program.
    pub program: ProgramId,
    /// Who created it.
    pub parent: Option<TaskId>,
    /// How many of those that it created live.
    pub children: u32,
}

impl Progress<'_> {
    /// A computation of so much work begins, or of so much wall time.
    #[inline]
    pub fn compute(&mut self, work_ns: u64, wall: bool) -> Step {
        if work_ns == 0 {
            return Step::Done;
        }
        self.work_left = work_ns.saturating_mul(FULL_SPEED);
        self.wall = wall;
        self.computing = true;
        Step::Computes
    }

    /// The next operation will be `to`; who carries operations out adds one.
    #[inline]
    pub fn jump(&mut self, to: u32) {
        self.at = to.wrapping_sub(1);
    }
}

/// Priority of deadline tasks in events (`MAX_DL_PRIO - 1`).
const DEADLINE_PRIO: i32 = -1;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn fork(&mut self, cpu: CpuId, parent: TaskId, program: ProgramId) {
        let child = self.create(program, Some(parent), cpu);
        self.progress[parent.index()].children += 1;
        let name = |task: TaskId| Task { pid: pid(task), comm: self.platform.comms[task.index()] };
        let kind = EventKind::Fork { parent: name(parent), child: name(child) };
        self.platform.emit(cpu, kind);
        if self.workload.programs[program.0 as usize].attributes.born_fair {
            self.sched.wake_new_fair(child, cpu, &mut self.platform);
        } else {
            self.sched.wake_new(child, cpu, &mut self.platform);
        }
        if self.holds_up {
            self.hold_up(cpu, child);
        }
    }

    /// Creates a task of a program; it runs once it is woken.
    pub(crate) fn create(
        &mut self,
        program: ProgramId,
        parent: Option<TaskId>,
        cpu: CpuId,
    ) -> TaskId {
        let attributes = &self.workload.programs[program.0 as usize].attributes;
        let real_time = |policy, priority| {
            RtPriority::new(priority).map(|priority| RealTime { policy, priority })
        };
        let new = NewTask {
            nice: attributes.nice,
            policy: match attributes.policy {
                Policy::Batch => FairPolicy::Batch,
                Policy::Idle => FairPolicy::Idle,
                _ => FairPolicy::Normal,
            },
            real_time: match attributes.policy {
                Policy::Fifo(priority) => real_time(RtPolicy::Fifo, priority),
                Policy::RoundRobin(priority) => real_time(RtPolicy::RoundRobin, priority),
                _ => None,
            },
            deadline: match attributes.policy {
                Policy::Deadline { runtime_ns, deadline_ns, period_ns } => {
                    Reservation::new(runtime_ns, deadline_ns, period_ns)
                }
                _ => None,
            },
            slice_ns: attributes.slice_ns,
            affinity: attributes.affinity.map_or_else(Default::default, |allowed| {
                self.sched.affinity(allowed & *self.platform.machine.cpus())
            }),
            per_cpu_kthread: false,
            clamps: attributes.clamps.map(|(min, max)| TaskClamps { min, max }),
        };
        let task = self.sched.create(new, cpu);
        let own_index = &mut self.instances[program.0 as usize];
        self.progress.push(Progress {
            ops: &self.workload.programs[program.0 as usize].ops,
            program,
            at: 0,
            stage: 0,
            moved: 0,
            work_left: 0,
            wall: false,
            computing: false,
            in_kernel: false,
            user_ns: 0,
            spins_until_ns: None,
            stream: None,
            slots: [0; SLOTS],
            random: Pcg::new(self.seed, u64::from(task.0)),
            own_index: *own_index,
            parent,
            children: 0,
            brought: false,
            waits_for: None,
            served_ns: None,
        });
        *own_index += 1;
        self.platform.comms.push(self.program_names[program.0 as usize]);
        let prio = |real_time: RealTime| i32::from(real_time.priority.prio());
        let fair = 120 + attributes.nice;
        let prio = new.real_time.map_or(fair, prio);
        self.platform.prios.push(if new.deadline.is_some() { DEADLINE_PRIO } else { prio });
        self.platform.touched.push((self.platform.clock_ns, cpu));
        self.live += 1;
        task
    }

    pub(crate) fn exit(&mut self, cpu: CpuId, task: TaskId) -> Step {
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

//! Tasks as they were recorded: what each did step by step, as text in a workload file
//! (`model = "recorded"`) and as a workload.
//!
//! A task is a list of steps: compute, sleep until a time or for a while, wait to be woken, wake
//! another task, create one. What woke a task that no task woke is an interrupt at the recorded
//! time. Every task has a semaphore of its own: `wake` adds one, `await` takes one, so that a
//! wake-up which comes before its task waits is not lost.

mod fold;
mod read;
mod rt_app;
mod text;
mod write;

pub use read::Options;

use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{
    Attributes, Interrupt, ObjectId, ObjectKind, Op, ProgramId, Slot, Which, Workload,
};

/// What recorded tasks did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The tasks; steps name them by their place here.
    pub tasks: Vec<RecordedTask>,
    /// Interrupts, by time.
    pub interrupts: Vec<RecordedInterrupt>,
    /// Those at which the recorded machine did what [`Step::Brings`] says, by time; files do not have
    /// them.
    pub brought: Vec<RecordedInterrupt>,
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTask {
    /// Its name in the file, which no other task has.
    pub name: String,
    /// Its name in traces.
    pub comm: String,
    /// Nice level, policy and CPUs.
    pub attributes: Attributes,
    /// Where it sleeps or is created.
    pub cpu: u32,
    /// How it begins.
    pub start: Start,
    /// What it does.
    pub steps: Vec<Step>,
}

/// How a task begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It sleeps from the start, in its first step, which is [`Step::Until`] or [`Step::Await`].
    Asleep,
    /// It is created at this time, ns from the start.
    At(u64),
    /// Another task creates it by [`Step::Fork`].
    Forked,
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Compute for so long on the biggest CPU alone, ns.
    Run(u64),
    /// Sleep for so long.
    Sleep {
        /// The time, ns.
        ns: u64,
        /// The timer's interrupt may come so much later, ns.
        slack_ns: u64,
    },
    /// Sleep until a time, unless it is past.
    Until {
        /// The time, ns from the start.
        soft_ns: u64,
        /// The timer's interrupt may come so much later, ns.
        slack_ns: u64,
    },
    /// Sleep until so long after the last [`Step::Until`] or [`Step::Timer`], unless that is past,
    /// ns.
    Timer(u64),
    /// The wake-up before, or the task's birth, was held up for so long, ns.
    Late(u64),
    /// The interrupt that the wake-up before, or the task's birth, waited for woke this task at its
    /// end, too. It stands behind [`Step::Late`] if there is one.
    Brings(u32),
    /// Sleep until woken.
    Await,
    /// Wake this task.
    Wake(u32),
    /// Create this task.
    Fork(u32),
    /// Take another program, which is a chance to move to another CPU.
    Exec,
    /// `sched_yield()`.
    Yield,
    /// Do these steps so many times.
    Loop(u64, Vec<Step>),
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedInterrupt {
    /// On this CPU.
    pub cpu: u32,
    /// At this time, ns from the start.
    pub at_ns: u64,
    /// For so long, ns.
    pub length_ns: u64,
    /// It woke this task.
    pub wakes: Option<u32>,
}

impl Recording {
    /// The workload: a program and a semaphore for each task, in order.
    ///
    /// # Errors
    /// As [`Workload::validate`], and for tasks that never begin or that two tasks create.
    pub fn workload(&self, name: &str) -> Result<Workload, WorkloadError> {
        self.check_births().map_err(|what| WorkloadError::whole(name, what))?;
        let mut build = Builder::new(name);
        build.objects(ObjectKind::Semaphore(0), self.tasks.len() as u32);
        for task in &self.tasks {
            let program = build.declare(&task.comm);
            *build.attributes(program) = task.attributes.clone();
        }
        for (index, task) in self.tasks.iter().enumerate() {
            let program = ProgramId(index as u32);
            build.define(program, |code| {
                let timer = task.steps.iter().any(Step::has_timer).then(|| code.slot());
                write(code, &task.steps, index as u32, timer);
            });
            match task.start {
                Start::Asleep => build.asleep(program, task.cpu),
                Start::At(start_ns) => build.spawn(program, task.cpu, start_ns),
                Start::Forked => {}
            }
        }
        for interrupt in &self.interrupts {
            let RecordedInterrupt { cpu, at_ns, length_ns, wakes } = *interrupt;
            build.interrupt(Interrupt { cpu, at_ns, length_ns, raises: wakes.map(ObjectId) });
        }
        build.finish()
    }

    fn check_births(&self) -> Result<(), String> {
        let mut births = vec![0_u64; self.tasks.len()];
        let named = self.tasks.len() as u32;
        for task in &self.tasks {
            count_forks(&task.steps, 1, &mut births, named)?;
        }
        for (task, births) in self.tasks.iter().zip(births) {
            let name = &task.name;
            match (task.start, births) {
                (Start::Forked, 0) => {
                    return Err(format!(
                        "task {name} never begins; fork it, or say start or asleep"
                    ));
                }
                (Start::Forked, 1) | (Start::Asleep | Start::At(_), 0) => {}
                _ => {
                    return Err(format!(
                        "task {name} begins more than once; make it several tasks"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn count_forks(steps: &[Step], rounds: u64, births: &mut [u64], named: u32) -> Result<(), String> {
    for step in steps {
        match step {
            Step::Fork(task) | Step::Wake(task) | Step::Brings(task) if *task >= named => {
                return Err(format!("task {task} does not exist; there are {named}"));
            }
            Step::Fork(task) => births[*task as usize] += rounds,
            Step::Loop(times, steps) => {
                count_forks(steps, rounds.saturating_mul(*times), births, named)?;
            }
            _ => {}
        }
    }
    Ok(())
}

impl RecordedTask {
    /// How many steps are written for it, loops once.
    pub fn step_count(&self) -> u64 {
        self.steps.iter().map(Step::count).sum()
    }
}

impl Step {
    fn count(&self) -> u64 {
        match self {
            Step::Loop(_, steps) => 1 + steps.iter().map(Step::count).sum::<u64>(),
            _ => 1,
        }
    }

    fn has_timer(&self) -> bool {
        match self {
            Step::Timer(_) => true,
            Step::Loop(_, steps) => steps.iter().any(Step::has_timer),
            _ => false,
        }
    }
}

/// Writes the operations of steps of the task at `own`.
fn write(code: &mut Code, steps: &[Step], own: u32, timer: Option<Slot>) {
    for step in steps {
        match *step {
            Step::Run(work_ns) => code.run(work_ns),
            Step::Sleep { ns, slack_ns } => {
                code.op(Op::SleepFor { soft_ns: ns, hard_ns: ns.saturating_add(slack_ns) })
            }
            Step::Until { soft_ns, slack_ns } => {
                let hard_ns = soft_ns.saturating_add(slack_ns);
                code.op(Op::SleepUntil { slot: timer, soft_ns, hard_ns })
            }
            Step::Timer(period_ns) => match timer {
                Some(slot) => code.op(Op::Timer { slot, period_ns }),
                None => code,
            },
            Step::Late(ns) => code.op(Op::Late(ns)),
            Step::Brings(task) => code.op(Op::Brings(Which::One(ObjectId(task)))),
            Step::Await => code.op(Op::Down(Which::One(ObjectId(own)))),
            Step::Wake(task) => code.op(Op::Up(Which::One(ObjectId(task)))),
            Step::Fork(task) => {
                code.op(Op::Fork { program: ProgramId(task), count: 1, thread: false })
            }
            Step::Exec => code.op(Op::Exec),
            Step::Yield => code.op(Op::Yield),
            Step::Loop(times, ref steps) => {
                code.repeat(times, |code| write(code, steps, own, timer))
            }
        };
    }
}

//! Writes workloads with loops instead of jumps, and names instead of indices.
//!
//! ```
//! use schedlab_workload::build::Builder;
//! use schedlab_workload::program::{ObjectKind, Op, Which};
//!
//! let mut build = Builder::new("two that meet");
//! let gate = Which::One(build.object(ObjectKind::Barrier(2)));
//! let worker = build.program("worker", |code| {
//!     code.repeat(10, |round| {
//!         round.run(1_000_000).op(Op::Barrier(gate));
//!     });
//! });
//! build.spawn(worker, 0, 0);
//! build.spawn(worker, 0, 0);
//! let workload = build.finish()?;
//! assert_eq!(workload.programs[0].ops.len(), 3);
//! # Ok::<(), schedlab_workload::WorkloadError>(())
//! ```

use crate::error::WorkloadError;
use crate::program::{
    Amount, Attributes, Better, Interrupt, Metric, MetricId, MetricKind, ObjectId, ObjectKind, Op,
    Program, ProgramId, Slot, Spawn, Workload,
};

/// A workload that is being written.
#[derive(Clone, Debug)]
pub struct Builder {
    workload: Workload,
}

impl Builder {
    /// A workload without any content.
    pub fn new(name: impl Into<String>) -> Builder {
        Builder {
            workload: Workload {
                name: name.into(),
                objects: Vec::new(),
                programs: Vec::new(),
                spawns: Vec::new(),
                interrupts: Vec::new(),
                metrics: Vec::new(),
            },
        }
    }

    /// Adds a shared object.
    pub fn object(&mut self, kind: ObjectKind) -> ObjectId {
        self.objects(kind, 1)
    }

    /// Adds `count` shared objects of one kind, and returns the first.
    pub fn objects(&mut self, kind: ObjectKind, count: u32) -> ObjectId {
        let first = ObjectId(self.workload.objects.len() as u32);
        self.workload.objects.extend(std::iter::repeat_n(kind, count as usize));
        first
    }

    /// Adds a figure.
    pub fn metric(&mut self, name: &str, unit: &str, better: Better, kind: MetricKind) -> MetricId {
        self.add_metric(name, unit, better, kind, None)
    }

    /// Adds another figure of the same samples.
    pub fn figure_of(&mut self, samples: MetricId, name: &str, unit: &str, kind: MetricKind) {
        let better = self.workload.metrics[samples.0 as usize].better;
        self.add_metric(name, unit, better, kind, Some(samples));
    }

    fn add_metric(
        &mut self,
        name: &str,
        unit: &str,
        better: Better,
        kind: MetricKind,
        samples_of: Option<MetricId>,
    ) -> MetricId {
        let id = MetricId(self.workload.metrics.len() as u32);
        let (name, unit) = (name.to_owned(), unit.to_owned());
        self.workload.metrics.push(Metric { name, unit, better, kind, samples_of });
        id
    }

    /// Names a program whose operations follow, so that others can create its tasks.
    pub fn declare(&mut self, comm: impl Into<String>) -> ProgramId {
        let id = ProgramId(self.workload.programs.len() as u32);
        self.workload.programs.push(Program {
            comm: comm.into(),
            ops: Vec::new(),
            attributes: Attributes::default(),
        });
        id
    }

    /// Writes the operations of a declared program.
    pub fn define(&mut self, program: ProgramId, write: impl FnOnce(&mut Code)) {
        let mut code = Code::default();
        write(&mut code);
        self.workload.programs[program.0 as usize].ops = code.ops;
    }

    /// Adds a program.
    pub fn program(&mut self, comm: impl Into<String>, write: impl FnOnce(&mut Code)) -> ProgramId {
        let id = self.declare(comm);
        self.define(id, write);
        id
    }

    /// What a program's tasks are like, to be changed.
    pub fn attributes(&mut self, program: ProgramId) -> &mut Attributes {
        &mut self.workload.programs[program.0 as usize].attributes
    }

    /// Adds a task that exists from `start_ns` on, created on `birth_cpu`.
    pub fn spawn(&mut self, program: ProgramId, birth_cpu: u32, start_ns: u64) {
        self.workload.spawns.push(Spawn { program, birth_cpu, start_ns, asleep: false });
    }

    /// Adds a task that is asleep on `cpu` from the start, in its first operation.
    pub fn asleep(&mut self, program: ProgramId, cpu: u32) {
        let spawn = Spawn { program, birth_cpu: cpu, start_ns: 0, asleep: true };
        self.workload.spawns.push(spawn);
    }

    /// Adds an interrupt of a device; what is added later comes no earlier.
    pub fn interrupt(&mut self, interrupt: Interrupt) {
        self.workload.interrupts.push(interrupt);
    }

    /// The workload, once [`Workload::validate`] finds nothing wrong with it.
    pub fn finish(self) -> Result<Workload, WorkloadError> {
        self.workload.validate()?;
        Ok(self.workload)
    }
}

/// The operations of one program.
#[derive(Clone, Debug, Default)]
pub struct Code {
    ops: Vec<Op>,
    slots: u8,
    /// Slots of loops that are over. A counter is 0 again after its loop, so that another loop may
    /// use it, but nothing else.
    free_counters: Vec<Slot>,
}

impl Code {
    /// One operation.
    pub fn op(&mut self, op: Op) -> &mut Code {
        self.ops.push(op);
        self
    }

    /// Compute for `work_ns` of the biggest CPU alone; nothing if it is 0.
    pub fn run(&mut self, work_ns: u64) -> &mut Code {
        if work_ns > 0 { self.op(Op::Run(Amount::Fixed(work_ns))) } else { self }
    }

    /// Compute in the kernel for `work_ns` of the biggest CPU alone; nothing if it is 0.
    pub fn system(&mut self, work_ns: u64) -> &mut Code {
        if work_ns > 0 { self.op(Op::System(Amount::Fixed(work_ns))) } else { self }
    }

    /// Sleep.
    pub fn sleep(&mut self, time_ns: u64) -> &mut Code {
        self.op(Op::Sleep(Amount::Fixed(time_ns)))
    }

    /// A slot that nothing else in this program uses. A program that takes more than there are is
    /// refused by [`Workload::validate`].
    pub fn slot(&mut self) -> Slot {
        self.slots = self.slots.saturating_add(1);
        Slot(self.slots - 1)
    }

    /// The body, `times` times.
    pub fn repeat(&mut self, times: u64, body: impl FnOnce(&mut Code)) -> &mut Code {
        if times == 0 {
            return self;
        }
        let to = self.ops.len() as u32;
        if times == 1 {
            body(self);
            return self;
        }
        let slot = self.free_counters.pop().unwrap_or_else(|| self.slot());
        body(self);
        self.ops.push(Op::Repeat { slot, to, times });
        self.free_counters.push(slot);
        self
    }

    /// The body, for ever.
    pub fn forever(&mut self, body: impl FnOnce(&mut Code)) {
        let to = self.ops.len() as u32;
        body(self);
        self.ops.push(Op::Jump { to });
    }
}

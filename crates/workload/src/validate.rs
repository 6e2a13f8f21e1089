//! Refuses workloads that cannot run: what the engine relies on is checked once, here.

use crate::error::WorkloadError;
use crate::program::{Amount, MetricId, MetricKind, ObjectKind, Op, Which, Workload};
use crate::sections::check_sections;
use schedlab_machine::Machine;

/// Tasks that a workload may create, as far as it can be told in advance.
pub const TASKS_MAX: u64 = 100_000;

/// What an operation needs its object to be.
pub(crate) type Kind = (&'static str, fn(&ObjectKind) -> bool);

const MUTEX: Kind = ("mutex", |kind| matches!(kind, ObjectKind::Mutex));
const SEMAPHORE: Kind = ("semaphore", |kind| matches!(kind, ObjectKind::Semaphore(_)));
const FUTEX: Kind = ("futex", |kind| matches!(kind, ObjectKind::Futex));
const CONDITION: Kind = ("condition", |kind| matches!(kind, ObjectKind::Condition));
const BARRIER: Kind = ("barrier", |kind| matches!(kind, ObjectKind::Barrier(_)));
const CHANNEL: Kind = ("channel", |kind| matches!(kind, ObjectKind::Channel { .. }));
const FLAG: Kind = ("flag", |kind| matches!(kind, ObjectKind::Flag));
const COUNTER: Kind = ("counter", |kind| matches!(kind, ObjectKind::Counter));
const MAILBOX: Kind = ("mailbox", |kind| matches!(kind, ObjectKind::Mailbox));
const DEVICE: Kind = ("device", |kind| matches!(kind, ObjectKind::Device(_)));
const BLOCK: Kind = ("block of memory", |kind| matches!(kind, ObjectKind::Block(_)));
const ANY: Kind = ("object", |_| true);

impl Op {
    /// The objects that it uses, with what they must be.
    pub(crate) fn objects(&self) -> Vec<(Which, Kind)> {
        match *self {
            Op::Lock(which) | Op::Unlock(which) => vec![(which, MUTEX)],
            Op::Down(which) | Op::Up(which) | Op::Brings(which) => vec![(which, SEMAPHORE)],
            Op::UpEvery { semaphore, counter, .. } => {
                vec![(semaphore, SEMAPHORE), (counter, COUNTER)]
            }
            Op::FutexWait(which) | Op::FutexWake { futex: which, .. } => vec![(which, FUTEX)],
            Op::CondWait { condition, mutex } => vec![(condition, CONDITION), (mutex, MUTEX)],
            Op::CondSignal(which) | Op::CondBroadcast(which) => vec![(which, CONDITION)],
            Op::Barrier(which) => vec![(which, BARRIER)],
            Op::Write { channel, .. } | Op::Read { channel, .. } => vec![(channel, CHANNEL)],
            Op::SpinUntil(which) | Op::SetFlag(which) => vec![(which, FLAG)],
            Op::Post(which)
            | Op::AwaitPosted(which)
            | Op::Serve(which)
            | Op::AwaitServed { mailbox: which, .. } => vec![(which, MAILBOX)],
            Op::MarkShared(which)
            | Op::MeasureShared { since: which, .. }
            | Op::SharedTimer { timer: which, .. } => vec![(which, COUNTER)],
            Op::Io { device, .. } => vec![(device, DEVICE)],
            Op::Stream { block: which, .. } => vec![(which, BLOCK)],
            Op::Touch { line: which, .. } | Op::Pick { which, .. } => vec![(which, ANY)],
            _ => Vec::new(),
        }
    }

    fn metric(&self) -> Option<MetricId> {
        match *self {
            Op::Count { metric, .. }
            | Op::Stream { metric, .. }
            | Op::Measure { metric, .. }
            | Op::MeasureBeyond { metric, .. }
            | Op::MeasureShared { metric, .. } => Some(metric),
            _ => None,
        }
    }

    fn amount(&self) -> Option<Amount> {
        match *self {
            Op::Run(amount)
            | Op::System(amount)
            | Op::Hold(amount)
            | Op::Spin(amount)
            | Op::Sleep(amount)
            | Op::Io { service_ns: amount, .. } => Some(amount),
            _ => None,
        }
    }

    /// It may take time.
    fn lasts(&self) -> bool {
        !matches!(
            self,
            Op::Repeat { .. }
                | Op::Jump { .. }
                | Op::Pick { .. }
                | Op::Late(_)
                | Op::MigrateDisable
                | Op::MigrateEnable
                | Op::Count { .. }
                | Op::Mark(_)
                | Op::Measure { .. }
                | Op::MeasureBeyond { .. }
                | Op::MarkShared(_)
                | Op::MeasureShared { .. }
        )
    }

    /// Its name, for messages.
    fn name(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        text[..end].to_owned()
    }
}

impl Workload {
    /// Checks everything that does not depend on the machine.
    ///
    /// # Errors
    /// The first thing found that could not run, with program, operation and mend.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        let whole = |what: String| Err(WorkloadError::whole(&self.name, what));
        if self.spawns.is_empty() {
            return whole("no task exists from the start; spawn one".into());
        }
        for (index, kind) in self.objects.iter().enumerate() {
            match kind {
                ObjectKind::Barrier(0) => {
                    return whole(format!("barrier {index} is for no task; give it 1 or more"));
                }
                ObjectKind::Device(0) => {
                    return whole(format!("device {index} serves no request; give it 1 or more"));
                }
                ObjectKind::Channel { capacity_bytes: 0, .. } => {
                    return whole(format!("channel {index} holds no byte; give it a capacity"));
                }
                ObjectKind::Block(block) => {
                    block.check().map_err(|what| {
                        WorkloadError::whole(&self.name, format!("block {index}: {what}"))
                    })?;
                }
                _ => {}
            }
        }
        for metric in &self.metrics {
            if metric.samples_of.is_some_and(|of| of.0 as usize >= self.metrics.len()) {
                return whole(format!("metric {} takes samples of none that exists", metric.name));
            }
            if let MetricKind::Percentile(percent) = metric.kind
                && !(0.0..=100.0).contains(&percent)
            {
                let name = &metric.name;
                return whole(format!("metric {name}: percentile {percent} is not in 0 to 100"));
            }
        }
        for spawn in &self.spawns {
            if spawn.program.0 as usize >= self.programs.len() {
                return whole(format!("a first task runs program {}, of {}", spawn.program.0, {
                    self.programs.len()
                }));
            }
        }
        self.check_starts().map_err(|what| WorkloadError::whole(&self.name, what))?;
        for program in &self.programs {
            let nice = program.attributes.nice;
            if !(-20..=19).contains(&nice) {
                let comm = &program.comm;
                return whole(format!("program {comm}: nice {nice} is not in -20 to 19"));
            }
            if let Some(priority) = program.attributes.policy.priority()
                && !(1..=99).contains(&priority)
            {
                let comm = &program.comm;
                return whole(format!("program {comm}: priority {priority} is not in 1 to 99"));
            }
            if let Some((min, max)) = program.attributes.clamps
                && (min > max || max > 1024)
            {
                let comm = &program.comm;
                return whole(format!(
                    "program {comm}: utilisation clamps {min} to {max} are not in 0 to 1024, the \
                     lower one first"
                ));
            }
            if program.attributes.affinities().any(|cpus| cpus.is_empty()) {
                let comm = &program.comm;
                return whole(format!("program {comm} is allowed on no CPU; name one"));
            }
            let fault = |at: usize, what| WorkloadError::Operation {
                workload: self.name.clone(),
                program: program.comm.clone(),
                at,
                op: program.ops[at].name(),
                what,
            };
            for (at, op) in program.ops.iter().enumerate() {
                let sets = program.attributes.other_affinities.len();
                self.check(op, at, &program.ops, sets).map_err(|what| fault(at, what))?;
            }
            check_sections(&program.ops).map_err(|(at, what)| fault(at, what))?;
        }
        self.check_deadlines()?;
        self.check_counts()
    }

    /// Some wake-up is held up ([`Op::Late`]), or brings another ([`Op::Brings`]).
    pub fn holds_up(&self) -> bool {
        let mut ops = self.programs.iter().flat_map(|program| &program.ops);
        ops.any(|op| matches!(op, Op::Late(_) | Op::Brings(_)))
    }

    /// Checks that every task may run somewhere on a machine, and that all is known of the machine
    /// that the workload asks for.
    ///
    /// # Errors
    /// Names the program that is allowed on no CPU, the birth CPU that is not there, or what the
    /// machine's file lacks.
    pub fn validate_on(&self, machine: &Machine) -> Result<(), WorkloadError> {
        let cpus = machine.cpus();
        for program in &self.programs {
            if program.attributes.affinities().any(|allowed| !allowed.intersects(cpus)) {
                let what = format!(
                    "program {} is allowed on no CPU of this machine, which has {} CPUs; change \
                     its affinity",
                    program.comm,
                    cpus.weight()
                );
                return Err(match &program.attributes.affinity_from {
                    Some((path, line)) => WorkloadError::line(path, *line, what),
                    None => WorkloadError::whole(&self.name, what),
                });
            }
        }
        self.check_deadlines_on(machine)?;
        for spawn in &self.spawns {
            if !cpus.iter().any(|cpu| cpu.0 == spawn.birth_cpu) {
                let what = format!(
                    "a task is created on CPU {}, which this machine does not have",
                    spawn.birth_cpu
                );
                return Err(WorkloadError::whole(&self.name, what));
            }
        }
        let there = |cpu: u32| cpus.iter().any(|own| own.0 == cpu);
        if let Some(interrupt) = self.interrupts.iter().find(|interrupt| !there(interrupt.cpu)) {
            let what = format!(
                "an interrupt comes to CPU {}, which this machine does not have",
                interrupt.cpu
            );
            return Err(WorkloadError::whole(&self.name, what));
        }
        for kind in &self.objects {
            if let ObjectKind::Block(block) = kind {
                block.check_on(machine).map_err(|what| WorkloadError::whole(&self.name, what))?;
            }
        }
        Ok(())
    }

    /// Tasks that sleep from the start do so in an operation that can, and interrupts come in order
    /// and add to semaphores.
    fn check_starts(&self) -> Result<(), String> {
        for spawn in self.spawns.iter().filter(|spawn| spawn.asleep) {
            let program = &self.programs[spawn.program.0 as usize];
            if !matches!(program.ops.first(), Some(Op::Down(Which::One(_)) | Op::SleepUntil { .. }))
            {
                return Err(format!(
                    "a task of program {} sleeps from the start, but its first operation is \
                     neither Down of one semaphore nor SleepUntil",
                    program.comm
                ));
            }
        }
        for pair in self.interrupts.windows(2) {
            if pair[0].at_ns > pair[1].at_ns {
                return Err(format!(
                    "the interrupt at {} ns stands before the one at {} ns; sort them",
                    pair[0].at_ns, pair[1].at_ns
                ));
            }
        }
        for interrupt in &self.interrupts {
            if let Some(id) = interrupt.raises
                && !matches!(self.objects.get(id.0 as usize), Some(ObjectKind::Semaphore(_)))
            {
                return Err(format!("an interrupt adds to object {}, which is no semaphore", id.0));
            }
        }
        Ok(())
    }

    fn check(&self, op: &Op, at: usize, ops: &[Op], sets: usize) -> Result<(), String> {
        for (which, (noun, fits)) in op.objects() {
            if matches!(op, Op::Lock(_) | Op::Unlock(_))
                && matches!(which, Which::Random { .. } | Which::Next { .. } | Which::OfCpu { .. })
            {
                return Err("lock and unlock would choose different mutexes; Pick one first, and \
                            use it as Picked"
                    .into());
            }
            for id in self.range(which)? {
                let kind = &self.objects[id as usize];
                if !fits(kind) {
                    return Err(format!("object {id} is {kind:?}; it must be a {noun}"));
                }
            }
            if let Which::Next { counter, .. } = which
                && !matches!(self.objects.get(counter.0 as usize), Some(ObjectKind::Counter))
            {
                return Err(format!("object {} must be a counter", counter.0));
            }
        }
        self.check_slots(at, ops)?;
        if let Op::SetAffinity { to } = *op
            && to as usize >= sets
        {
            return Err(format!("set {to} of CPUs does not exist; the program has {sets}"));
        }
        if let Some(MetricId(id)) = op.metric()
            && id as usize >= self.metrics.len()
        {
            return Err(format!("metric {id} does not exist; there are {}", self.metrics.len()));
        }
        if let Some(Amount::Uniform { low, high }) = op.amount()
            && low > high
        {
            return Err(format!("{low} to {high} is no range; exchange its ends"));
        }
        match *op {
            Op::Fork { program, .. } if program.0 as usize >= self.programs.len() => {
                Err(format!("program {} does not exist; there are {}", program.0, {
                    self.programs.len()
                }))
            }
            Op::Repeat { to, .. } if to as usize > at => {
                Err(format!("the loop begins at operation {to}, after its end"))
            }
            Op::Repeat { times: 0, .. } => Err("a loop of no round runs once; leave it out".into()),
            Op::Jump { to } if to as usize > ops.len() => {
                Err(format!("operation {to} does not exist; there are {}", ops.len()))
            }
            Op::Jump { to }
                if to as usize <= at && !ops[to as usize..=at].iter().any(Op::lasts) =>
            {
                Err("the loop never lets time pass; let it compute, sleep or wait".into())
            }
            Op::Timer { period_ns: 0, .. }
            | Op::RestartingTimer { period_ns: 0, .. }
            | Op::SharedTimer { period_ns: 0, .. } => {
                Err("a period of 0 never lets time pass; give it 1 ns or more".into())
            }
            _ => Ok(()),
        }
    }

    /// The ids that a choice can lead to, as far as the operation tells.
    pub(crate) fn range(&self, which: Which) -> Result<std::ops::Range<u32>, String> {
        let (first, count) = match which {
            Which::One(id) | Which::Own { first: id } => (id.0, 1),
            Which::Random { first, count }
            | Which::Next { first, count, .. }
            | Which::OfCpu { first, count } => (first.0, count),
            Which::Picked(_) => return Ok(0..0),
        };
        if count == 0 {
            return Err("a choice among no object; give it 1 or more".into());
        }
        match first.checked_add(count) {
            Some(end) if end as usize <= self.objects.len() => Ok(first..end),
            _ => Err(format!(
                "object {} does not exist; there are {}",
                first.max(self.objects.len() as u32),
                self.objects.len()
            )),
        }
    }

    /// Tasks, own objects and barriers, as far as the number of tasks can be told in advance.
    fn check_counts(&self) -> Result<(), WorkloadError> {
        let created = self.tasks_created();
        let known: u64 = created.iter().flatten().sum();
        if known > TASKS_MAX {
            let what = format!("{known} tasks are created; at most {TASKS_MAX} are simulated");
            return Err(WorkloadError::whole(&self.name, what));
        }
        let mut parties: Vec<Option<u64>> = vec![Some(0); self.objects.len()];
        for (program, &tasks) in self.programs.iter().zip(&created) {
            let mut meets = vec![false; self.objects.len()];
            for op in &program.ops {
                for (which, _) in op.objects() {
                    self.check_own(which, tasks).map_err(|what| {
                        WorkloadError::whole(
                            &self.name,
                            format!("program {}: {what}", program.comm),
                        )
                    })?;
                }
                let Op::Barrier(which) = *op else { continue };
                let all = 0..self.objects.len() as u32;
                let ids = match (which, tasks) {
                    (Which::Own { first }, Some(tasks)) => first.0..first.0 + tasks as u32,
                    (Which::Own { .. } | Which::Picked(_), _) => all,
                    _ => self.range(which).unwrap_or(all),
                };
                for id in ids {
                    meets[id as usize] = true;
                }
            }
            for (sum, _) in parties.iter_mut().zip(&meets).filter(|(_, meets)| **meets) {
                *sum = sum.zip(tasks).map(|(sum, tasks)| sum.saturating_add(tasks));
            }
        }
        for (id, (kind, come)) in self.objects.iter().zip(parties).enumerate() {
            if let (ObjectKind::Barrier(wanted), Some(come)) = (kind, come)
                && (1..u64::from(*wanted)).contains(&come)
            {
                let what = format!(
                    "barrier {id} waits for {wanted} tasks, but only {come} ever come; it can \
                     never fill"
                );
                return Err(WorkloadError::whole(&self.name, what));
            }
        }
        Ok(())
    }

    /// A program's tasks each have an object of their own, all of one kind.
    fn check_own(&self, which: Which, tasks: Option<u64>) -> Result<(), String> {
        let Which::Own { first } = which else { return Ok(()) };
        let Some(tasks) = tasks else {
            return Err(
                "tasks without a known number cannot each have an object of their own; share \
                        it, or create them outside endless loops"
                    .into(),
            );
        };
        let from = first.0 as usize;
        let own = from.checked_add(tasks as usize).and_then(|end| self.objects.get(from..end));
        let Some(own) = own else {
            return Err(format!(
                "{tasks} tasks use an object of their own from {from} on, but there are {} objects",
                self.objects.len()
            ));
        };
        let kind = std::mem::discriminant;
        match own.iter().position(|object| kind(object) != kind(&own[0])) {
            Some(at) => Err(format!("object {} is not of the kind of object {from}", from + at)),
            None => Ok(()),
        }
    }

    /// How many tasks of each program come to be; `None` where it depends on the run.
    pub(crate) fn tasks_created(&self) -> Vec<Option<u64>> {
        let mut created = vec![Some(0_u64); self.programs.len()];
        for spawn in &self.spawns {
            created[spawn.program.0 as usize] = created[spawn.program.0 as usize].map(|n| n + 1);
        }
        let first = created.clone();
        // A chain of creations is at most as long as there are programs; one that still grows
        // then goes round in a circle.
        for round in 0..=self.programs.len() {
            let mut next = first.clone();
            for (program, tasks) in self.programs.iter().zip(&created) {
                for (at, op) in program.ops.iter().enumerate() {
                    let Op::Fork { program: child, count, .. } = *op else { continue };
                    let each = times(&program.ops, at);
                    let children = tasks.zip(each).and_then(|(tasks, each)| {
                        tasks.checked_mul(each)?.checked_mul(u64::from(count))
                    });
                    let sum = &mut next[child.0 as usize];
                    *sum = sum.zip(children).and_then(|(sum, more)| sum.checked_add(more));
                }
            }
            if next == created {
                break;
            }
            if round == self.programs.len() {
                for (sum, before) in next.iter_mut().zip(&created) {
                    if sum != before {
                        *sum = None;
                    }
                }
            }
            created = next;
        }
        created
    }
}

/// How often a task does the operation at `at`; `None` if for ever or unknown.
fn times(ops: &[Op], at: usize) -> Option<u64> {
    let mut product = 1_u64;
    for (end, op) in ops.iter().enumerate() {
        match *op {
            Op::Repeat { to, times, .. } if (to as usize..=end).contains(&at) => {
                product = product.checked_mul(times)?;
            }
            Op::Jump { to } if (to as usize..=end).contains(&at) => return None,
            // What a jump leaves out is done at most once more, which is no harm here.
            _ => {}
        }
    }
    Some(product)
}

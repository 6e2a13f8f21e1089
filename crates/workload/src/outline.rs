//! A workload in words: its tasks, and what each does, loop by loop.

use crate::program::{
    Access, Amount, Block, ObjectId, ObjectKind, Op, Pattern, Program, Which, Workload,
};
use serde_json::{Value, json};

/// One line of a program.
struct Step {
    depth: usize,
    op: String,
    what: String,
}

impl Workload {
    /// Tasks, phases and figures as one JSON object. Each program has the number of its tasks
    /// (null where that depends on the run) and its `steps`, each as deep as the loops around it.
    ///
    /// ```
    /// let workload = schedlab_workload::load("periodic", 8)?;
    /// let outline = workload.outline();
    /// assert_eq!(outline["programs"][0]["tasks"], 32);
    /// assert_eq!(outline["programs"][0]["steps"][1]["op"], "for ever");
    /// # Ok::<(), schedlab_workload::WorkloadError>(())
    /// ```
    pub fn outline(&self) -> Value {
        let counts = self.tasks_created();
        let programs = self.programs.iter().zip(counts).map(|(program, tasks)| {
            let attributes = &program.attributes;
            let steps = self.steps(program);
            json!({
                "comm": program.comm,
                "tasks": tasks,
                "policy": attributes.policy.name(),
                "priority": attributes.policy.priority(),
                "nice": attributes.nice,
                "slice_ns": attributes.slice_ns,
                "cpus": attributes.affinity.map(|cpus| cpus.to_string()),
                "steps": steps.iter().map(|step| json!({
                    "depth": step.depth,
                    "op": step.op,
                    "what": step.what,
                })).collect::<Vec<_>>(),
            })
        });
        json!({
            "name": self.name,
            "programs": programs.collect::<Vec<_>>(),
            "figures": self.metrics.iter().map(|metric| json!({
                "name": metric.name,
                "unit": metric.unit,
            })).collect::<Vec<_>>(),
        })
    }

    /// Loops end with their count in the program; here they begin with it.
    fn steps(&self, program: &Program) -> Vec<Step> {
        let ops = &program.ops;
        let mut steps = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            // Of the loops that begin here, the one that ends last is the outermost.
            for end in (at..ops.len()).rev() {
                let op = match ops[end] {
                    Op::Repeat { to, times, .. } if to as usize == at => format!("{times} times"),
                    Op::Jump { to } if to as usize == at && end >= at => "for ever".to_owned(),
                    _ => continue,
                };
                steps.push(Step { depth: ends.len(), op, what: String::new() });
                ends.push(end);
            }
            let closes = matches!(*op, Op::Repeat { .. })
                || matches!(*op, Op::Jump { to } if to as usize <= at);
            if !closes {
                let (op, what) = self.words(program, op);
                steps.push(Step { depth: ends.len(), op: op.to_owned(), what });
            }
            ends.retain(|end| *end != at);
        }
        steps
    }

    fn words(&self, program: &Program, op: &Op) -> (&'static str, String) {
        let which = |which: Which| self.which(which);
        match *op {
            Op::Run(time) => ("run", amount(time)),
            Op::System(time) => ("run in the kernel", amount(time)),
            Op::Hold(time) => ("hold the CPU", amount(time)),
            Op::Spin(time) => ("spin", amount(time)),
            Op::Sleep(time) => ("sleep", amount(time)),
            Op::Timer { period_ns, .. } => ("timer", format!("every {}", time(period_ns))),
            Op::RestartingTimer { period_ns, .. } => {
                ("timer", format!("every {}, anew when late", time(period_ns)))
            }
            Op::SharedTimer { timer, period_ns, .. } => {
                ("timer", format!("{}, every {}", which(timer), time(period_ns)))
            }
            Op::SleepFor { soft_ns, .. } => ("sleep", time(soft_ns)),
            Op::SleepUntil { soft_ns, .. } => ("sleep", format!("until {}", time(soft_ns))),
            Op::Late(ns) => ("held up", time(ns)),
            Op::Brings(object) => ("brings", which(object)),
            Op::Pick { which: choice, .. } => ("pick", which(choice)),
            Op::Lock(object) => ("lock", which(object)),
            Op::Unlock(object) => ("unlock", which(object)),
            Op::Down(object) => ("down", which(object)),
            Op::Up(object) => ("up", which(object)),
            Op::UpEvery { semaphore, every, .. } => {
                ("up", format!("{} at every {every}th use", which(semaphore)))
            }
            Op::FutexWait(object) => ("futex wait", which(object)),
            Op::FutexWake { futex, count } => {
                ("futex wake", format!("{}, at most {count}", which(futex)))
            }
            Op::CondWait { condition, mutex } => {
                ("wait", format!("{} with {}", which(condition), which(mutex)))
            }
            Op::CondSignal(object) => ("signal", which(object)),
            Op::CondBroadcast(object) => ("broadcast", which(object)),
            Op::Barrier(object) => ("barrier", which(object)),
            Op::Write { channel, bytes } => ("write", format!("{bytes} B to {}", which(channel))),
            Op::Read { channel, bytes } => ("read", format!("{bytes} B from {}", which(channel))),
            Op::Io { device, service_ns } => {
                ("wait for I/O", format!("{}, {}", which(device), amount(service_ns)))
            }
            Op::Post(object) => ("post", which(object)),
            Op::AwaitServed { mailbox, .. } => ("await service", which(mailbox)),
            Op::AwaitPosted(object) => ("await posts", which(object)),
            Op::Serve(object) => ("serve all", which(object)),
            Op::SpinUntil(object) => ("spin until set", which(object)),
            Op::SetFlag(object) => ("set", which(object)),
            Op::Yield => ("yield", String::new()),
            Op::SetAffinity { to } => {
                let cpus = program.attributes.other_affinities.get(to as usize);
                ("change CPUs", cpus.map_or_else(String::new, |cpus| format!("to {cpus}")))
            }
            Op::MigrateDisable => ("stay on this CPU", String::new()),
            Op::MigrateEnable => ("stay no longer", String::new()),
            Op::SystemCalls(count) => ("system calls", format!("{count} x")),
            Op::Fork { program, count, thread } => {
                let comm = self.programs.get(program.0 as usize).map_or("?", |p| p.comm.as_str());
                let noun = if thread { "thread" } else { "process" };
                ("fork", format!("{count} x {comm} ({noun}, program {})", program.0))
            }
            Op::Exec => ("exec", String::new()),
            Op::Join => ("join", "all that it created".to_owned()),
            Op::Exit => ("exit", String::new()),
            Op::ExitGroup => ("exit", "with all tasks".to_owned()),
            Op::Touch { line, access, count } => {
                let how = match access {
                    Access::Read => "load",
                    Access::Write => "store",
                    Access::Atomic => "atomic",
                };
                ("touch", format!("{}, {how}, {count} x", which(line)))
            }
            Op::Stream { block, passes, .. } => {
                ("stream", format!("{}, {passes} passes", which(block)))
            }
            Op::Jump { to } => ("go on", format!("at operation {to}")),
            Op::Repeat { times, .. } => ("repeat", format!("{times} times")),
            Op::Count { metric, amount } => {
                ("count", format!("{amount}: {}", self.figure(metric.0)))
            }
            Op::Mark(_) | Op::MarkShared(_) => ("mark", "the time".to_owned()),
            Op::Measure { metric, .. } | Op::MeasureShared { metric, .. } => {
                ("measure", self.figure(metric.0))
            }
            Op::MeasureBeyond { metric, allowance_ns, .. } => {
                ("measure", format!("{}, less {}", self.figure(metric.0), time(allowance_ns)))
            }
        }
    }

    fn figure(&self, metric: u32) -> String {
        self.metrics.get(metric as usize).map_or_else(String::new, |metric| metric.name.clone())
    }

    fn which(&self, which: Which) -> String {
        let noun = |ObjectId(id): ObjectId| match self.objects.get(id as usize) {
            Some(ObjectKind::Mutex) => "mutex".to_owned(),
            Some(ObjectKind::Semaphore(count)) => format!("semaphore of {count}"),
            Some(ObjectKind::Futex) => "futex".to_owned(),
            Some(ObjectKind::Condition) => "condition".to_owned(),
            Some(ObjectKind::Barrier(parties)) => format!("barrier for {parties}"),
            Some(ObjectKind::Channel { capacity_bytes, .. }) => {
                format!("channel of {capacity_bytes} B")
            }
            Some(ObjectKind::Flag) => "flag".to_owned(),
            Some(ObjectKind::Counter) => "counter".to_owned(),
            Some(ObjectKind::Line) => "cache line".to_owned(),
            Some(ObjectKind::Mailbox) => "mailbox".to_owned(),
            Some(ObjectKind::Device(at_once)) => format!("device of {at_once} at once"),
            Some(ObjectKind::Block(block)) => block_words(block),
            None => "nothing".to_owned(),
        };
        match which {
            Which::One(id) => format!("{} (#{})", noun(id), id.0),
            Which::Random { first, count: 1 } | Which::Next { first, count: 1, .. } => {
                format!("{} (#{})", noun(first), first.0)
            }
            Which::Random { first, count } => format!("{}, one of {count} at random", noun(first)),
            Which::Next { first, count, .. } => format!("{}, {count} in turn", noun(first)),
            Which::Own { first } => format!("its own {}", noun(first)),
            Which::OfCpu { first, .. } => format!("{} of its CPU", noun(first)),
            Which::Picked(_) => "the picked one".to_owned(),
        }
    }
}

fn block_words(block: &Block) -> String {
    let whose = if block.private { "own" } else { "shared" };
    let how = if block.writes { "stores" } else { "loads" };
    let order = match block.pattern {
        Pattern::Sequential => "in order",
        Pattern::Uniform => "at random",
        Pattern::Special => "at random (special)",
    };
    format!("{whose} block of {} B, {how} {order}", block.bytes)
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Fixed(ns) => time(ns),
        Amount::Uniform { low, high } => format!("{} to {}", time(low), time(high)),
        Amount::Exponential { mean } => format!("{} on average (exponential)", time(mean)),
        Amount::Normal { mean, deviation } => {
            format!("{} +- {} (normal)", time(mean), time(deviation))
        }
    }
}

/// A time in the unit that suits it.
fn time(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let thousandths = u128::from(ns % unit_ns) * 1000 / u128::from(unit_ns);
    let fraction = format!("{thousandths:03}");
    match fraction.trim_end_matches('0') {
        "" => format!("{} {unit}", ns / unit_ns),
        digits => format!("{}.{digits} {unit}", ns / unit_ns),
    }
}

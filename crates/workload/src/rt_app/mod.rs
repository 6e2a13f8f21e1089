//! rt-app JSON, as it is written for rt-app (and, with repeated keys, for its `workgen`).
//!
//! Main creates the threads in the file's order, sleeps for the global `duration` and ends all of
//! them; with a duration of -1 it waits for them. What is not modelled is refused by name:
//! deadline policies, task groups, memory binding, devices that do more than swallow what is written
//! to them, and properties other than `cpus` that change between phases.

mod json;
mod thread;

use crate::build::{Builder, Code};
use crate::error::WorkloadError;
use crate::program::{
    Amount, Attributes, ObjectId, ObjectKind, Op, ProgramId, Slot, Which, Workload,
};
use crate::validate::TASKS_MAX;
use schedlab_machine::{CPUS_MAX, CpuSet};
use std::collections::BTreeMap;
use std::path::Path;
use thread::{Event, PolicyName, Reader, Thread};

/// Bytes that `mem` writes per ns; an estimate of `memset()` into a buffer of 4 MiB.
const MEMORY_BYTES_PER_NS: u64 = 10;

/// Global keys that configure how rt-app itself runs or what it logs, not what its threads do.
/// Work is given in time on the biggest CPU, so there is nothing to calibrate either.
const GLOBAL_WITHOUT_EFFECT: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "frag",
    "cumulative_slack",
];

/// A workload from the text of an rt-app file. `path` serves messages and gives the name.
///
/// ```
/// use schedlab_workload::rt_app;
/// use std::path::Path;
///
/// let text = r#"{ "tasks": { "beat": {
///     "run": 2000, "timer": { "ref": "unique", "period": 10000 } } } }"#;
/// let workload = rt_app::parse(text, Path::new("beat.json"))?;
/// assert_eq!(workload.programs[1].comm, "beat");
/// # Ok::<(), schedlab_workload::WorkloadError>(())
/// ```
///
/// # Errors
/// Names the line of what is wrong or not modelled.
pub fn parse(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    let reader = Reader { path };
    let root = json::parse(text, path)?;
    let (mut tasks, mut global) = (None, Global::default());
    let mut piece = None;
    for member in reader.object("the file", &root)? {
        match member.key.as_str() {
            "tasks" => tasks = Some(member),
            "global" => {
                global = Global::read(&reader, member)?;
                piece = Some(member);
            }
            // Kept for older files: what tasks name comes into being by that.
            "resources" => {
                reader.object("resources", &member.value)?;
                piece = Some(member);
            }
            other => {
                let what = format!("{other} is not modelled; a file has tasks and global");
                return Err(reader.error(member.line, what));
            }
        }
    }
    let Some(tasks) = tasks else {
        return Err(match piece {
            None => reader.error(root.line, "tasks are missing; add them"),
            Some(piece) => {
                let key = &piece.key;
                let what = format!(
                    "{key} without tasks: a piece to be merged with files of tasks, not runnable \
                     by itself"
                );
                reader.error(piece.line, what)
            }
        });
    };
    let members = reader.object("tasks", &tasks.value)?;
    let threads = members.iter().map(|member| reader.thread(member, global.policy));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let count: u64 = threads.iter().map(|thread| u64::from(thread.instances)).sum();
    if count > TASKS_MAX {
        let what = format!(
            "{count} threads are created; at most {TASKS_MAX} are simulated: lower instance"
        );
        return Err(reader.error(tasks.line, what));
    }
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    let workload = Translation::new(reader, &name, &threads, &global)?.workload();
    workload.map_err(|error| at_thread(error, path, members))
}

/// The file has threads and lines where a workload has programs and operations.
fn at_thread(error: WorkloadError, path: &Path, threads: &[json::Member]) -> WorkloadError {
    if let WorkloadError::Operation { program, what, .. } = &error
        && let Some(thread) = threads.iter().find(|thread| thread.key == *program)
    {
        return WorkloadError::line(path, thread.line, format!("{program}: {what}"));
    }
    error
}

/// What the whole file says.
struct Global {
    duration_ns: Option<u64>,
    policy: PolicyName,
    /// Bytes that one `write()` of `iorun` takes at most.
    buffer_bytes: u64,
    /// The line that names a device for `iorun` whose time is not known.
    device_line: Option<usize>,
}

impl Default for Global {
    fn default() -> Global {
        Global {
            duration_ns: None,
            policy: PolicyName::Other,
            buffer_bytes: 4 << 20,
            device_line: None,
        }
    }
}

/// The device of `iorun` that swallows everything at once, rt-app's default.
const NULL_DEVICE: &str = "/dev/null";

impl Global {
    fn read(reader: &Reader<'_>, member: &json::Member) -> Result<Global, WorkloadError> {
        let mut global = Global::default();
        for member in reader.object("global", &member.value)? {
            match member.key.as_str() {
                "duration" => {
                    let s = reader.integer(member, (-1, 1_000_000))?;
                    global.duration_ns = u64::try_from(s).ok().map(|s| s * 1_000_000_000);
                }
                "mem_buffer_size" => {
                    let bytes = reader.integer(member, (1, i64::from(i32::MAX)))?;
                    global.buffer_bytes = bytes as u64;
                }
                "io_device" => {
                    let swallows = reader.text(member)? == NULL_DEVICE;
                    global.device_line = (!swallows).then_some(member.line);
                }
                "default_policy" => global.policy = reader.policy(member)?,
                "pi_enabled" if member.value.kind == json::Kind::Bool(false) => {}
                "pi_enabled" => {
                    let what = "pi_enabled: priority inheritance is not modelled; set it to false";
                    return Err(reader.error(member.line, what));
                }
                key if GLOBAL_WITHOUT_EFFECT.contains(&key) => {}
                other => {
                    return Err(reader.error(member.line, format!("unknown global key {other}")));
                }
            }
        }
        Ok(global)
    }
}

/// What a name stands for: names of different sorts do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Mutex,
    Condition,
    Barrier,
    SuspendMutex,
    SuspendCondition,
    Timer,
}

struct Translation<'a> {
    reader: Reader<'a>,
    build: Builder,
    threads: &'a [Thread],
    global: &'a Global,
    programs: Vec<ProgramId>,
    objects: BTreeMap<(Sort, &'a str), ObjectId>,
}

impl<'a> Translation<'a> {
    fn new(
        reader: Reader<'a>,
        name: &str,
        threads: &'a [Thread],
        global: &'a Global,
    ) -> Result<Translation<'a>, WorkloadError> {
        let mut build = Builder::new(name);
        build.declare("rt-app");
        let programs = threads.iter().map(|thread| build.declare(&thread.name)).collect();
        let objects = BTreeMap::new();
        let mut this = Translation { reader, build, threads, global, programs, objects };
        this.barriers()?;
        this.shared_timers();
        Ok(this)
    }

    fn workload(mut self) -> Result<Workload, WorkloadError> {
        let main = ProgramId(0);
        for (thread, program) in self.threads.iter().zip(self.programs.clone()) {
            let mut affinities = Affinities::new(thread);
            let mut code = Code::default();
            self.thread(thread, &mut affinities, &mut code)?;
            *self.build.attributes(program) = Attributes {
                affinity: affinities.first,
                other_affinities: affinities.others,
                ..thread.attributes.clone()
            };
            self.build.define(program, |defined| *defined = code);
        }
        self.build.define(main, |code| {
            for (thread, &program) in self.threads.iter().zip(&self.programs) {
                if thread.instances > 0 {
                    code.op(Op::Fork { program, count: thread.instances, thread: true });
                }
            }
            match self.global.duration_ns {
                Some(duration_ns) => code.sleep(duration_ns).op(Op::ExitGroup),
                None => code.op(Op::Join),
            };
        });
        self.build.spawn(main, 0, 0);
        self.build.finish()
    }

    /// A barrier waits for as many threads as name it.
    fn barriers(&mut self) -> Result<(), WorkloadError> {
        let forked = self.forked();
        let mut parties: BTreeMap<&str, u32> = BTreeMap::new();
        for thread in self.threads {
            for (line, event) in thread.phases.iter().flat_map(|phase| &phase.events) {
                let Event::Barrier(name) = event else { continue };
                if forked.contains(&thread.name.as_str()) {
                    let what = format!(
                        "thread {} is forked, so that nobody knows how many meet at barrier \
                         {name}; use wait and broad instead",
                        thread.name
                    );
                    return Err(self.reader.error(*line, what));
                }
                *parties.entry(name).or_default() += thread.instances;
            }
        }
        for (name, parties) in parties {
            let object = self.build.object(ObjectKind::Barrier(parties));
            self.objects.insert((Sort::Barrier, name), object);
        }
        Ok(())
    }

    /// Names of threads that other threads create.
    fn forked(&self) -> Vec<&'a str> {
        let phases = self.threads.iter().flat_map(|thread| &thread.phases);
        let events = phases.flat_map(|phase| &phase.events);
        let names = events.filter_map(|(_, event)| match event {
            Event::Fork(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// A timer whose name does not begin with `unique` belongs to all threads that use it; one
    /// that only a single thread uses is kept by that thread.
    fn shared_timers(&mut self) {
        let forked = self.forked();
        let mut users: BTreeMap<&str, u32> = BTreeMap::new();
        for thread in self.threads {
            for name in timer_names(thread).filter(|name| !name.starts_with("unique")) {
                let forks = u32::from(forked.contains(&thread.name.as_str()));
                *users.entry(name).or_default() += thread.instances + forks;
            }
        }
        for (name, _) in users.into_iter().filter(|&(_, count)| count > 1) {
            let object = self.build.object(ObjectKind::Counter);
            self.objects.insert((Sort::Timer, name), object);
        }
    }

    fn object(&mut self, sort: Sort, name: &'a str) -> Which {
        let kind = match sort {
            Sort::Mutex | Sort::SuspendMutex => ObjectKind::Mutex,
            _ => ObjectKind::Condition,
        };
        let build = &mut self.build;
        Which::One(*self.objects.entry((sort, name)).or_insert_with(|| build.object(kind)))
    }

    fn thread(
        &mut self,
        thread: &'a Thread,
        affinities: &mut Affinities,
        code: &mut Code,
    ) -> Result<(), WorkloadError> {
        let names =
            timer_names(thread).filter(|name| !self.objects.contains_key(&(Sort::Timer, name)));
        let timers: BTreeMap<&str, Slot> = names.map(|name| (name, code.slot())).collect();
        if thread.delay_ns > 0 {
            code.sleep(thread.delay_ns);
        }
        let mut error = None;
        rounds(code, thread.loops, |code| {
            for (index, phase) in thread.phases.iter().enumerate() {
                if let Some(to) = affinities.change(thread, index) {
                    code.op(Op::SetAffinity { to });
                }
                rounds(code, phase.loops, |code| {
                    for (line, event) in &phase.events {
                        if let Err(new) = self.event(code, *line, event, &timers) {
                            error.get_or_insert(new);
                        }
                    }
                });
            }
        });
        error.map_or(Ok(()), Err)
    }

    fn event(
        &mut self,
        code: &mut Code,
        line: usize,
        event: &'a Event,
        timers: &BTreeMap<&str, Slot>,
    ) -> Result<(), WorkloadError> {
        match event {
            Event::Run(work_ns) => code.run(*work_ns),
            Event::Runtime(0) | Event::Sleep(0) | Event::Timer { period_ns: 0, .. } => code,
            Event::Runtime(wall_ns) => code.op(Op::Hold(Amount::Fixed(*wall_ns))),
            Event::Sleep(time_ns) => code.sleep(*time_ns),
            &Event::Timer { ref name, period_ns, restarts } => {
                code.op(match timers.get(name.as_str()) {
                    Some(&slot) if restarts => Op::RestartingTimer { slot, period_ns },
                    Some(&slot) => Op::Timer { slot, period_ns },
                    None => {
                        let timer = self.object(Sort::Timer, name);
                        Op::SharedTimer { timer, period_ns, restarts }
                    }
                })
            }
            Event::Lock(name) => code.op(Op::Lock(self.object(Sort::Mutex, name))),
            Event::Unlock(name) => code.op(Op::Unlock(self.object(Sort::Mutex, name))),
            Event::Signal(name) => code.op(Op::CondSignal(self.object(Sort::Condition, name))),
            Event::Broadcast(name) => {
                code.op(Op::CondBroadcast(self.object(Sort::Condition, name)))
            }
            Event::Wait { condition, mutex } => {
                let condition = self.object(Sort::Condition, condition);
                code.op(Op::CondWait { condition, mutex: self.object(Sort::Mutex, mutex) })
            }
            Event::Sync { condition, mutex } => {
                let condition = self.object(Sort::Condition, condition);
                let mutex = self.object(Sort::Mutex, mutex);
                code.op(Op::CondSignal(condition)).op(Op::CondWait { condition, mutex })
            }
            Event::Barrier(name) => code.op(Op::Barrier(self.object(Sort::Barrier, name))),
            Event::Suspend(name) => {
                let mutex = self.object(Sort::SuspendMutex, name);
                let condition = self.object(Sort::SuspendCondition, name);
                code.op(Op::Lock(mutex));
                code.op(Op::CondWait { condition, mutex }).op(Op::Unlock(mutex))
            }
            Event::Resume(name) => {
                let mutex = self.object(Sort::SuspendMutex, name);
                let condition = self.object(Sort::SuspendCondition, name);
                code.op(Op::Lock(mutex)).op(Op::CondBroadcast(condition)).op(Op::Unlock(mutex))
            }
            Event::Memory { bytes } => code.run(bytes / MEMORY_BYTES_PER_NS),
            &Event::InputOutput { bytes } => {
                if let Some(line) = self.global.device_line {
                    let what = format!(
                        "io_device: how long its writes take is not known; only {NULL_DEVICE} is \
                         modelled"
                    );
                    return Err(self.reader.error(line, what));
                }
                code.op(Op::SystemCalls(bytes.div_ceil(self.global.buffer_bytes)))
            }
            Event::Yield => code.op(Op::Yield),
            Event::Fork(name) => {
                let Some(child) = self.threads.iter().position(|thread| thread.name == *name)
                else {
                    let what = format!("fork: no thread is called {name}");
                    return Err(self.reader.error(line, what));
                };
                code.op(Op::Fork { program: self.programs[child], count: 1, thread: true })
            }
        };
        Ok(())
    }
}

/// The sets of CPUs that a thread changes between.
struct Affinities {
    /// That of its first phase.
    first: Option<CpuSet>,
    others: Vec<CpuSet>,
}

impl Affinities {
    fn new(thread: &Thread) -> Affinities {
        let first = thread.phases.first().and_then(|phase| phase.cpus).or(thread.cpus);
        Affinities { first, others: Vec::new() }
    }

    /// What a thread changes to when this phase begins, unless that is so already: a phase without
    /// CPUs of its own has the thread's, and the first phase comes after the last one.
    fn change(&mut self, thread: &Thread, index: usize) -> Option<u32> {
        let cpus = |index: usize| thread.phases[index].cpus.or(thread.cpus);
        let before = index.checked_sub(1).unwrap_or(thread.phases.len() - 1);
        if cpus(before) == cpus(index) {
            return None;
        }
        let set = cpus(index).unwrap_or(CpuSet::first_n(CPUS_MAX));
        let known = self.others.iter().position(|&other| other == set);
        Some(known.unwrap_or_else(|| {
            self.others.push(set);
            self.others.len() - 1
        }) as u32)
    }
}

/// The names of the timers that a thread uses.
fn timer_names(thread: &Thread) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, event) in thread.phases.iter().flat_map(|phase| &phase.events) {
        if let Event::Timer { name, period_ns: 1.., .. } = event
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    names.into_iter()
}

/// The body, so many times; below 0: for ever.
fn rounds(code: &mut Code, loops: i64, body: impl FnOnce(&mut Code)) {
    match u64::try_from(loops) {
        Ok(times) => {
            code.repeat(times, body);
        }
        Err(_) => code.forever(body),
    }
}

//! Simulated runs for Python. The interpreter is free meanwhile, progress is told now and then, and
//! an interrupt from the keyboard ends the run.

use crate::cpupri::c2c_table;
use crate::kernels::{Kernel, KernelError};
use crate::machine::{Machine, MachineError};
use crate::own::{Chosen, GovernorError};
use crate::reading::{self, Pulse};
use crate::table::{Columns, Table};
use crate::trace::Trace;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlab_kernel::cpufreq::CpufreqGovernor;
use schedlab_kernel::cpuidle::Candidate;
use schedlab_kernel::fair::build::build_domains;
use schedlab_machine::Machine as ModelMachine;
use schedlab_sim::{
    Ending, Energy, Engine, FIRST_PID, KernelLines, Observer, Outcome, Settings, WakeLatencies,
    check, default_duration_ns,
};
use schedlab_trace::{Event, EventKind};
use schedlab_workload::program::{Better, Workload};
use schedlab_workload::{WorkloadError as Error, preset_names, preset_text, rt_app};
use std::path::{Path, PathBuf};

create_exception!(schedlab, WorkloadError, PyValueError, "A workload cannot be run.");

/// Events between two looks at the clock: a few milliseconds' worth.
const CHUNK: u32 = 1 << 13;

fn refusal(error: Error) -> PyErr {
    WorkloadError::new_err(reading::told(&error))
}

/// What is noted of every run.
#[derive(Default)]
struct Notes {
    /// Where each task was born, by its number.
    births: Vec<Option<u32>>,
    latencies: WakeLatencies,
}

impl Observer for Notes {
    const ACTIVE: bool = true;
    fn event(&mut self, event: &Event) {
        self.latencies.event(event);
        if let EventKind::WakeupNew { task, target_cpu, .. } = event.kind {
            let number = (task.pid.0 - FIRST_PID) as usize;
            self.births.resize(self.births.len().max(number + 1), None);
            self.births[number] = Some(target_cpu.0);
        }
    }
}

fn parse(text: &str, path: &Path, cpus: u32) -> Result<Workload, Error> {
    if path.extension().is_some_and(|extension| extension == "json") {
        rt_app::parse(text, path)
    } else {
        Workload::from_toml(text, path, cpus)
    }
}

/// Events that are kept at most: 4 GB of them.
pub(crate) const EVENTS_MAX: u64 = 100_000_000;

/// Advances a run to its end, or until Python raises.
pub(crate) fn drive<O: Observer>(
    mut engine: Engine<'_, O>,
    duration_ns: u64,
    events_max: u64,
    progress: Option<&Py<PyAny>>,
    governor: Option<&Chosen>,
) -> PyResult<Outcome<O>> {
    let mut pulse = Pulse::new(progress);
    loop {
        let ended = engine.advance(duration_ns, CHUNK);
        if let Some(failure) = governor.and_then(Chosen::failure) {
            return Err(failure);
        }
        if let Some(ending) = ended {
            return match ending {
                Ending::TooManyTasks(count) => Err(WorkloadError::new_err(format!(
                    "{count} tasks are more than can be simulated; create fewer"
                ))),
                ending => Ok(engine.finish(ending, duration_ns)),
            };
        }
        if engine.told() > events_max {
            return Err(WorkloadError::new_err(format!(
                "more than {events_max} events by {:.3} s, which is too many to keep; shorten the \
                 duration, or keep none",
                engine.now_ns() as f64 / 1e9
            )));
        }
        if !pulse.beat(engine.now_ns(), duration_ns) {
            pulse.end()?;
            return Err(PyKeyboardInterrupt::new_err(()));
        }
    }
}

/// What is to be kept of a run beside its figures.
#[derive(Clone, Copy)]
struct Keep {
    events: bool,
    decisions: bool,
}

/// A run's parts for Python: facts, figures, CPUs, packages, tasks, decisions and trace.
type Parts<'py> = (Bound<'py, PyDict>, Tables, Option<Table>, Option<Trace>);

/// Figures, CPUs, idle states, frequencies, rails, packages and tasks.
type Tables = (Table, Table, Table, Table, Table, Table, Table);

/// The machine with kinds of cores that heat limits, each to so many kHz.
fn limited(machine: &ModelMachine, limits: &[(String, u32)]) -> PyResult<ModelMachine> {
    let mut machine = machine.clone();
    for (kind, khz) in limits {
        let name = machine.name().to_owned();
        machine = machine.with_thermal_limit(kind, *khz).ok_or_else(|| {
            MachineError::new_err(format!(
                "{name} has no kind of core {kind} that runs at {khz} kHz or less; see \
                 `schedlab machine show {name}`"
            ))
        })?;
    }
    Ok(machine)
}

/// Runs a workload, given as the text of its file, on a machine under a kernel. Its first tasks
/// start `start_ns` later than the file says.
#[pyfunction]
#[pyo3(signature = (machine, kernel, text, path, *, duration_ns, seed, start_ns, shuffle_ties, keep_events, keep_decisions, keep_c2c=false, keep_interrupts=false, governor=None, cpufreq=None, cpu_latency_ns=None, thermal_limits=Vec::new(), progress=None))]
#[expect(clippy::too_many_arguments, reason = "each is one part of what determines a run")]
fn simulate<'py>(
    py: Python<'py>,
    machine: &Machine,
    kernel: &Kernel,
    text: &str,
    path: PathBuf,
    duration_ns: Option<u64>,
    seed: u64,
    start_ns: u64,
    shuffle_ties: bool,
    keep_events: bool,
    keep_decisions: bool,
    keep_c2c: bool,
    keep_interrupts: bool,
    governor: Option<Bound<'py, PyAny>>,
    cpufreq: Option<&str>,
    cpu_latency_ns: Option<i64>,
    thermal_limits: Vec<(String, u32)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Parts<'py>> {
    let kernel = &kernel.inner;
    let machine = &limited(&machine.inner, &thermal_limits)?;
    let mut workload = parse(text, &path, machine.cpu_count() as u32).map_err(refusal)?;
    for spawn in &mut workload.spawns {
        spawn.start_ns = spawn.start_ns.saturating_add(start_ns);
    }
    let duration_ns = duration_ns.unwrap_or_else(|| default_duration_ns(&workload));
    let mut settings = Settings::new(kernel, machine, duration_ns, seed);
    (settings.shuffle_ties, settings.explain) = (shuffle_ties, keep_decisions);
    settings.interrupts = keep_events && keep_interrupts;
    if keep_c2c {
        settings.kernel_lines = KernelLines::Recorded;
    }
    if let Some(name) = cpufreq {
        let governor = name.parse::<CpufreqGovernor>();
        let governor = governor.map_err(|error| KernelError::new_err(error.to_string()))?;
        settings.cpufreq.governor = Some(governor);
    }
    settings.cpu_latency_ns = cpu_latency_ns.unwrap_or(settings.cpu_latency_ns);
    check(machine, &workload, &settings)
        .map_err(|error| WorkloadError::new_err(error.to_string()))?;
    let chosen = governor.as_ref().map(Chosen::read).transpose()?;
    if let Some(Chosen::Known(kind)) = &chosen {
        settings.governor = *kind;
    }
    let (chosen, governor_name) = (chosen.as_ref(), governor_name(chosen.as_ref(), &settings));
    let keep = Keep { events: keep_events, decisions: keep_decisions };
    let progress = progress.as_ref();
    if keep.events {
        let (mut outcome, notes) = py.detach(|| {
            let domains = build_domains(machine, kernel.domains);
            let mut engine = Engine::new(machine, domains, &workload, &settings, Vec::new());
            take_governor(&mut engine, chosen)?;
            let outcome = drive(engine, duration_ns, EVENTS_MAX, progress, chosen)?;
            let mut notes = Notes::default();
            outcome.observer.iter().for_each(|event| notes.event(event));
            Ok::<_, PyErr>((outcome, notes))
        })?;
        let name = format!("{} on {}", workload.name, machine.name());
        let trace = Trace::recorded(PathBuf::from(name), outcome.take_trace(&kernel.name));
        let trace = Some(trace.map_err(reading::refusal)?);
        parts(py, machine, &workload, &outcome, &notes, keep, trace, &governor_name)
    } else {
        let outcome = py.detach(|| {
            let domains = build_domains(machine, kernel.domains);
            let mut engine = Engine::new(machine, domains, &workload, &settings, Notes::default());
            take_governor(&mut engine, chosen)?;
            drive(engine, duration_ns, u64::MAX, progress, chosen)
        })?;
        parts(py, machine, &workload, &outcome, &outcome.observer, keep, None, &governor_name)
    }
}

/// What the run's idle governor is called; a file of C by its name and its digest.
fn governor_name(chosen: Option<&Chosen>, settings: &Settings) -> String {
    chosen.map_or(settings.governor.name(), |chosen| chosen.candidate().name()).to_owned()
}

/// Lets a user's own governor serve all CPUs, if there is one.
fn take_governor<O: Observer>(engine: &mut Engine<'_, O>, chosen: Option<&Chosen>) -> PyResult<()> {
    let Some(chosen) = chosen else { return Ok(()) };
    let Candidate::Own(own) = chosen.candidate() else { return Ok(()) };
    let refusal = |message| chosen.failure().unwrap_or_else(|| GovernorError::new_err(message));
    engine.take_governor(own).map_err(refusal)
}

#[expect(clippy::too_many_arguments, reason = "each is one part of a run")]
fn parts<'py, O>(
    py: Python<'py>,
    machine: &ModelMachine,
    workload: &Workload,
    outcome: &Outcome<O>,
    notes: &Notes,
    keep: Keep,
    trace: Option<Trace>,
    governor: &str,
) -> PyResult<Parts<'py>> {
    let decisions = keep.decisions.then(|| decision_table(outcome)).transpose()?;
    let facts = facts(py, workload, outcome, governor)?;
    facts.set_item("latencies", latency_table(outcome, notes)?)?;
    facts.set_item("c2c", outcome.c2c.as_ref().map(c2c_table).transpose()?)?;
    Ok((
        facts,
        (
            figures(outcome)?,
            cpu_table(outcome)?,
            idle_state_table(machine, outcome)?,
            frequency_table(outcome)?,
            rail_table(machine, outcome)?,
            package_table(outcome)?,
            task_table(outcome, &notes.births)?,
        ),
        decisions,
        trace,
    ))
}

/// What concerns the whole run.
fn facts<'py, O>(
    py: Python<'py>,
    workload: &Workload,
    outcome: &Outcome<O>,
    governor: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    let (ending, waiting) = match &outcome.ending {
        Ending::Finished => ("finished", &[][..]),
        Ending::TimeUp => ("time up", &[][..]),
        Ending::TooManyTasks(_) => ("too many tasks", &[][..]),
        Ending::Stuck(who) => ("stuck", &who[..]),
    };
    facts.set_item("ending", ending)?;
    facts.set_item("first_tasks", workload.spawns.len())?;
    facts.set_item("waiting", waiting)?;
    facts.set_item("governor", governor)?;
    facts.set_item("end_ns", outcome.end_ns)?;
    facts.set_item("events", outcome.events)?;
    facts.set_item("decisions_left_out", outcome.decisions_left_out)?;
    facts.set_item("digest", format!("{:016x}", outcome.digest))?;
    let groups = outcome.groups.iter().map(|part| {
        (part.name.as_str(), part.cpus.to_string(), part.asleep_ns, part.entries, part.energy_j)
    });
    facts.set_item("groups", groups.collect::<Vec<_>>())?;
    facts.set_item("energy", energy_dict(py, &outcome.energy)?)?;
    Ok(facts)
}

/// Energy by rail.
pub(crate) fn energy_dict<'py>(py: Python<'py>, energy: &Energy) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("cores_j", energy.cores_j.iter().sum::<f64>())?;
    dict.set_item("packages_j", energy.packages_j.iter().sum::<f64>())?;
    dict.set_item("machine_j", energy.machine_j)?;
    dict.set_item("transitions_j", energy.transitions_j)?;
    dict.set_item("groups_j", energy.groups_j)?;
    dict.set_item("total_j", energy.total_j())?;
    Ok(dict)
}

fn figures<O>(outcome: &Outcome<O>) -> PyResult<Table> {
    let figures = || outcome.figures.iter();
    let better = |better| match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    Columns::default()
        .text("name", figures().map(|figure| figure.name.as_str()))
        .text("unit", figures().map(|figure| figure.unit.as_str()))
        .text("better", figures().map(|figure| better(figure.better)))
        .f64("value", figures().map(|figure| figure.value))
        .u64("samples", figures().map(|figure| figure.samples))
        .table()
}

fn cpu_table<O>(outcome: &Outcome<O>) -> PyResult<Table> {
    let cpus = || outcome.cpus.iter();
    Columns::default()
        .u32("cpu", 0..outcome.cpus.len() as u32)
        .u64("busy_ns", cpus().map(|cpu| cpu.busy_ns))
        .u64("idle_ns", cpus().map(|cpu| cpu.idle_ns.iter().sum::<u64>()))
        .u64("iowait_ns", cpus().map(|cpu| cpu.iowait_ns))
        .u64("irq_ns", cpus().map(|cpu| cpu.irq_ns))
        .u64("softirq_ns", cpus().map(|cpu| cpu.softirq_ns))
        .u64("ticks", cpus().map(|cpu| cpu.ticks))
        .u64("idle_ticks", cpus().map(|cpu| cpu.idle_ticks))
        .u64("ipis", cpus().map(|cpu| cpu.ipis))
        .u64("ipis_reschedule", cpus().map(|cpu| cpu.ipis_reschedule))
        .u64("ipis_kick", cpus().map(|cpu| cpu.ipis_kick))
        .u64("ipis_timer", cpus().map(|cpu| cpu.ipis_timer))
        .u64("broadcasts", cpus().map(|cpu| cpu.broadcasts))
        .u64("balance_softirqs", cpus().map(|cpu| cpu.balance.softirqs))
        .u64("kicks_sent", cpus().map(|cpu| cpu.balance.kicks_sent))
        .u64("kicks_answered", cpus().map(|cpu| cpu.balance.kicks_answered))
        .u64("kicks_refused", cpus().map(|cpu| cpu.balance.kicks_refused))
        .table()
}

/// A row per CPU and idle state, with what the kernel counts, and the time that it took of the run.
fn idle_state_table<O>(machine: &ModelMachine, outcome: &Outcome<O>) -> PyResult<Table> {
    let rows = || {
        machine.cpu_ids().zip(&outcome.cpus).flat_map(|(cpu, times)| {
            let states = machine.idle_states(cpu).iter().zip(0_u32..);
            let counts = times.idle_counts.iter().zip(&times.idle_ns);
            states.zip(counts).map(move |((state, index), counts)| (cpu, index, state, counts))
        })
    };
    Columns::default()
        .u32("cpu", rows().map(|(cpu, ..)| cpu.0))
        .u32("state", rows().map(|(_, index, ..)| index))
        .text("name", rows().map(|(_, _, state, _)| state.name.as_str()))
        .u64("usage", rows().map(|(.., (counts, _))| counts.usage))
        .u64("time_ns", rows().map(|(.., (counts, _))| counts.time_ns))
        .u64("above", rows().map(|(.., (counts, _))| counts.above))
        .u64("below", rows().map(|(.., (counts, _))| counts.below))
        .u64("rejected", rows().map(|(.., (counts, _))| counts.rejected))
        .u64("residency_ns", rows().map(|(.., (_, &idle_ns))| idle_ns))
        .table()
}

/// A row per frequency domain and operating point.
fn frequency_table<O>(outcome: &Outcome<O>) -> PyResult<Table> {
    let rows = || {
        outcome.frequencies.iter().zip(0_u32..).flat_map(|(domain, index)| {
            domain.points.iter().map(move |&(khz, time_ns)| (index, domain, khz, time_ns))
        })
    };
    let cpus: Vec<String> = rows().map(|(_, domain, ..)| domain.cpus.to_string()).collect();
    Columns::default()
        .u32("domain", rows().map(|(index, ..)| index))
        .text("cpus", cpus.iter().map(String::as_str))
        .u32("khz", rows().map(|(_, _, khz, _)| khz))
        .u64("time_ns", rows().map(|(.., time_ns)| time_ns))
        .u64("changes", rows().map(|(_, domain, ..)| domain.changes))
        .table()
}

/// A row per rail of the machine.
fn rail_table<O>(machine: &ModelMachine, outcome: &Outcome<O>) -> PyResult<Table> {
    let rows = || machine.rails().iter().zip(&outcome.energy.rails_j);
    let cpus: Vec<String> = rows().map(|(rail, _)| rail.cpus.to_string()).collect();
    let second = outcome.end_ns.max(1) as f64 / 1e9;
    Columns::default()
        .text("rail", rows().map(|(rail, _)| rail.name.as_str()))
        .text("cpus", cpus.iter().map(String::as_str))
        .f64("energy_mj", rows().map(|(_, j)| j * 1e3))
        .f64("power_mw", rows().map(|(_, j)| j * 1e3 / second))
        .table()
}

/// A row per package and what it did: `null` is the state of one that was in use.
fn package_table<O>(outcome: &Outcome<O>) -> PyResult<Table> {
    let rows = || {
        outcome.packages.iter().zip(0_u32..).flat_map(|(times, package)| {
            let active = std::iter::once((package, None, times.active_ns));
            let idle = times.idle_ns.iter().zip(0_u32..);
            active.chain(idle.map(move |(&time_ns, state)| (package, Some(state), time_ns)))
        })
    };
    Columns::default()
        .u32("package", rows().map(|(package, _, _)| package))
        .u32("state", rows().map(|(_, state, _)| state))
        .u64("time_ns", rows().map(|(_, _, time_ns)| time_ns))
        .table()
}

fn task_table<O>(outcome: &Outcome<O>, births: &[Option<u32>]) -> PyResult<Table> {
    let tasks = || outcome.tasks.iter();
    let policies: Vec<String> = tasks().map(|task| task.policy.to_string()).collect();
    let births = (0..outcome.tasks.len()).map(|task| births.get(task).copied().flatten());
    Columns::default()
        .u32("task", 0..outcome.tasks.len() as u32)
        .text("comm", tasks().map(|task| task.comm.as_str()))
        .text("policy", policies.iter().map(String::as_str))
        .u32("birth_cpu", births)
        .u32("cpu", tasks().map(|task| task.cpu.0))
        .u64("runtime_ns", tasks().map(|task| task.runtime_ns))
        .u64("user_ns", tasks().map(|task| task.user_ns))
        .u64("switches", tasks().map(|task| task.switches))
        .u64("migrations", tasks().map(|task| task.migrations))
        .table()
}

/// A row per task name.
fn latency_table<O>(outcome: &Outcome<O>, notes: &Notes) -> PyResult<Table> {
    let rows = || notes.latencies.by_name();
    let us = |ns: Option<f64>| ns.map(|ns| ns / 1e3);
    Columns::default()
        .text("comm", rows().map(|(name, _)| outcome.strings.get(name)))
        .u64("wakeups", rows().map(|(_, latency)| latency.wakeups))
        .f64("mean_us", rows().map(|(_, latency)| us(latency.mean_ns())))
        .f64("geometric_mean_us", rows().map(|(_, latency)| us(latency.geometric_mean_ns())))
        .f64("max_us", rows().map(|(_, latency)| Some(latency.max_ns as f64 / 1e3)))
        .table()
}

fn decision_table<O>(outcome: &Outcome<O>) -> PyResult<Table> {
    let decisions = || outcome.decisions.iter();
    let reasons: Vec<String> = decisions().map(|(_, _, decision)| decision.reason()).collect();
    let texts: Vec<String> = decisions().map(|(_, _, decision)| decision.to_string()).collect();
    Columns::default()
        .u64("time_ns", decisions().map(|(time_ns, _, _)| *time_ns))
        .u32("task", decisions().map(|(_, _, decision)| decision.task().0))
        .text("occasion", decisions().map(|(_, _, decision)| decision.occasion()))
        .u32("from_cpu", decisions().map(|(_, cpu, _)| cpu.0))
        .u32("cpu", decisions().map(|(_, _, decision)| decision.cpu().0))
        .text("reason", reasons.iter().map(String::as_str))
        .text("text", texts.iter().map(String::as_str))
        .table()
}

/// The names of the built-in workloads.
#[pyfunction]
fn workload_names() -> Vec<&'static str> {
    preset_names().collect()
}

/// The file of a built-in workload, comments and all.
#[pyfunction]
fn workload_text(name: &str) -> Option<&'static str> {
    preset_text(name)
}

/// Adds this module's functions.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(workload_names, module)?)?;
    module.add_function(wrap_pyfunction!(workload_text, module)?)?;
    module.add("WorkloadError", module.py().get_type::<WorkloadError>())
}

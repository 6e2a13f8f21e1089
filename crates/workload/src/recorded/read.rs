//! The model `recorded` of workload files.

use super::text::{Find, interrupt, step};
use super::{RecordedTask, Recording, Start, Step};
use crate::error::WorkloadError;
use crate::models::Model;
use crate::program::{Attributes, Policy, Workload};
use schedlab_machine::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Options: the tasks and interrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The tasks.
    pub tasks: Vec<TaskText>,
    /// Lines `cpu N at TIME for TIME [wakes TASK]`, by time.
    pub interrupts: Vec<String>,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskText {
    /// Its name in the file.
    pub name: String,
    /// Its name in traces, if that differs.
    pub comm: Option<String>,
    /// Nice level.
    pub nice: i32,
    /// `normal`, `batch`, `idle`, or `fifo` or `rr` with a priority, such as `fifo 50`.
    pub policy: Option<String>,
    /// It is created by a fair task, and asks for its real-time policy once it is there.
    pub born_fair: bool,
    /// Whatever CPU's interrupt wakes it, it is bound to that one from there on.
    pub follows_interrupts: bool,
    /// CPUs that it may use, as `0-3,6`; left out: all.
    pub cpus: Option<String>,
    /// Where it sleeps or is created.
    pub cpu: u32,
    /// It sleeps from the start.
    pub asleep: bool,
    /// When it is created, if no task creates it and it does not sleep from the start.
    pub start: Option<String>,
    /// What it does.
    pub steps: Vec<StepText>,
}

/// A step or a loop.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum StepText {
    /// A step.
    Line(String),
    /// Steps that are done several times.
    Loop {
        /// How often.
        times: u64,
        /// The steps.
        steps: Vec<StepText>,
    },
}

/// Loops within loops, at most: each holds a slot of its task.
const DEPTH_MAX: usize = 8;

impl Options {
    /// The recording that the file says.
    ///
    /// # Errors
    /// Names the task and the line that cannot be.
    pub fn recording(&self) -> Result<Recording, String> {
        let mut names = BTreeMap::new();
        for (index, task) in self.tasks.iter().enumerate() {
            if task.name.is_empty() || task.name.contains(char::is_whitespace) {
                return Err(format!("{:?} is no name for a task; use one word", task.name));
            }
            if names.insert(task.name.as_str(), index as u32).is_some() {
                return Err(format!("two tasks are called {}; rename one", task.name));
            }
        }
        let find = |name: &str| {
            names.get(name).copied().ok_or_else(|| format!("there is no task called {name}"))
        };
        let tasks = self.tasks.iter().map(|task| task.task(&find));
        let tasks = tasks.collect::<Result<_, _>>()?;
        let interrupts = self.interrupts.iter().map(|line| interrupt(line, &find));
        let interrupts = interrupts.collect::<Result<_, _>>()?;
        Ok(Recording { tasks, interrupts, ..Recording::default() })
    }
}

/// The policy that a text says.
fn policy(text: &str) -> Result<Policy, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let priority = |word: &str| word.parse().ok().filter(|priority| (1..=99).contains(priority));
    let policy = match words[..] {
        ["normal"] => Some(Policy::Normal),
        ["batch"] => Some(Policy::Batch),
        ["idle"] => Some(Policy::Idle),
        ["fifo", word] => priority(word).map(Policy::Fifo),
        ["rr", word] => priority(word).map(Policy::RoundRobin),
        ["deadline", runtime, deadline, period] => {
            match [runtime, deadline, period].map(super::text::time_ns) {
                [Ok(runtime_ns), Ok(deadline_ns), Ok(period_ns)] => {
                    Some(Policy::Deadline { runtime_ns, deadline_ns, period_ns })
                }
                _ => None,
            }
        }
        _ => None,
    };
    policy.ok_or_else(|| {
        format!(
            "policy {text} is none; there are normal, batch, idle, fifo 1-99, rr 1-99, and \
             deadline with run time, deadline and period, such as deadline 2ms 8ms 10ms"
        )
    })
}

impl TaskText {
    fn task(&self, find: &Find<'_>) -> Result<RecordedTask, String> {
        let named = |what: String| format!("task {}: {what}", self.name);
        let policy = self.policy.as_deref().map_or(Ok(Policy::Normal), policy).map_err(named)?;
        let affinity = match &self.cpus {
            Some(list) => Some(
                list.parse::<CpuSet>().map_err(|error| named(format!("cpus {list}: {error}")))?,
            ),
            None => None,
        };
        let start = match (self.asleep, &self.start) {
            (true, None) => Start::Asleep,
            (false, Some(time)) => Start::At(super::text::time_ns(time).map_err(named)?),
            (false, None) => Start::Forked,
            (true, Some(_)) => {
                return Err(named("asleep and start exclude each other; leave one out".into()));
            }
        };
        Ok(RecordedTask {
            name: self.name.clone(),
            comm: self.comm.clone().unwrap_or_else(|| self.name.clone()),
            attributes: Attributes {
                nice: self.nice,
                policy,
                born_fair: self.born_fair,
                follows_interrupts: self.follows_interrupts,
                affinity,
                ..Attributes::default()
            },
            cpu: self.cpu,
            start,
            steps: steps(&self.steps, find, DEPTH_MAX).map_err(named)?,
        })
    }
}

fn steps(texts: &[StepText], find: &Find<'_>, depth: usize) -> Result<Vec<Step>, String> {
    let read = |text: &StepText| match text {
        StepText::Line(line) => step(line, find),
        StepText::Loop { .. } if depth == 0 => {
            Err(format!("loops are nested more than {DEPTH_MAX} deep; unroll one"))
        }
        StepText::Loop { times, steps: body } => {
            Ok(Step::Loop(*times, steps(body, find, depth - 1)?))
        }
    };
    texts.iter().map(read).collect()
}

impl Model for Options {
    fn workload(&self, name: &str, _: u32) -> Result<Workload, WorkloadError> {
        let recording = self.recording().map_err(|what| WorkloadError::whole(name, what))?;
        recording.workload(name)
    }
}

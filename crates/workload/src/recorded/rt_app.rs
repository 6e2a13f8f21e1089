//! A recording as rt-app JSON.
//!
//! rt-app has no absolute times, so a task that sleeps until a time gets a timer with the gap since
//! its last one as its period; a wake-up from outside, which rt-app cannot make, becomes such a
//! timer, too; and one by another task is `resume` and `suspend`, which forget a wake-up that comes
//! before its sleep. Times are whole microseconds.

use super::{Recording, Start, Step};
use crate::program::Policy;
use serde_json::Value;
use std::fmt::Write;

/// The longest sleep that is written; longer ones only keep a task from ending.
const SLEEP_MAX_NS: u64 = 1_000_000_000_000;

impl Recording {
    /// The rt-app file, for a run of `duration_s`.
    pub fn to_rt_app(&self, duration_s: u64, tolerance_pct: u64) -> String {
        let folded = self.timed().folded(tolerance_pct);
        let mut out = String::from("{\n");
        let _ = writeln!(
            out,
            "    \"global\": {{\n        \"duration\": {},\n        \"default_policy\": \
             \"SCHED_OTHER\"\n    }},\n    \"tasks\": {{",
            duration_s.max(1)
        );
        let count = folded.tasks.len();
        for (index, task) in folded.tasks.iter().enumerate() {
            let mut head = Vec::new();
            if task.start == Start::Forked {
                head.push("\"instance\": 0".to_owned());
            }
            match task.attributes.policy {
                // rt-app has no SCHED_BATCH.
                Policy::Normal | Policy::Batch => {}
                Policy::Fifo(priority) | Policy::RoundRobin(priority) => {
                    let name = task.attributes.policy.name();
                    head.push(format!("\"policy\": \"{name}\", \"priority\": {priority}"));
                }
                Policy::Deadline { runtime_ns, deadline_ns, period_ns } => head.push(format!(
                    "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": {}, \"dl-deadline\": {}, \
                     \"dl-period\": {}",
                    us(runtime_ns),
                    us(deadline_ns),
                    us(period_ns)
                )),
                Policy::Idle => head.push("\"policy\": \"SCHED_IDLE\"".to_owned()),
            }
            if task.attributes.nice != 0 && task.attributes.policy.priority().is_none() {
                head.push(format!("\"priority\": {}", task.attributes.nice));
            }
            if let Some(cpus) = task.attributes.affinity {
                let cpus: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
                head.push(format!("\"cpus\": [{}]", cpus.join(", ")));
            }
            let mut phases =
                Phases { recording: &folded, last_ns: 0, open: None, done: Vec::new() };
            let mut steps = &task.steps[..];
            match (task.start, steps) {
                (Start::At(ns), _) => head.push(format!("\"delay\": {}", us(ns))),
                (Start::Asleep, [Step::Until { soft_ns, .. }, rest @ ..]) => {
                    head.push(format!("\"delay\": {}", us(*soft_ns)));
                    phases.last_ns = *soft_ns;
                    steps = rest;
                }
                _ => {}
            }
            head.push("\"loop\": 1".to_owned());
            phases.steps(steps);
            let (name, comma) = (quoted(&task.name), if index + 1 < count { "," } else { "" });
            let body = phases.done.join(",\n                ");
            let _ = writeln!(
                out,
                "        {name}: {{\n            {},\n            \"phases\": {{\n                \
                 {body}\n            }}\n        }}{comma}",
                head.join(", ")
            );
        }
        out.push_str("    }\n}\n");
        out
    }

    /// The same tasks, whose wake-ups from outside are timers if nothing else wakes them.
    fn timed(&self) -> Recording {
        let mut timed = self.clone();
        for (index, task) in timed.tasks.iter_mut().enumerate() {
            let own = Some(index as u32);
            let times = self.interrupts.iter().filter(|interrupt| interrupt.wakes == own);
            let times: Vec<u64> = times.map(|interrupt| interrupt.at_ns).collect();
            let awaits = task.steps.iter().filter(|step| **step == Step::Await).count();
            if awaits != times.len() {
                continue;
            }
            let mut times = times.into_iter();
            for step in task.steps.iter_mut().filter(|step| **step == Step::Await) {
                let soft_ns = times.next().unwrap_or_default();
                *step = Step::Until { soft_ns, slack_ns: 0 };
            }
        }
        timed.interrupts.clear();
        timed
    }
}

/// Microseconds, rounded.
fn us(ns: u64) -> u64 {
    (ns + 500) / 1000
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The phases of one task.
struct Phases<'a> {
    recording: &'a Recording,
    /// When the last timer expired.
    last_ns: u64,
    /// Events outside loops that are no phase yet.
    open: Option<Vec<String>>,
    done: Vec<String>,
}

impl Phases<'_> {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            if let Step::Loop(times, body) = step {
                self.close();
                let mut events = Vec::new();
                for step in body {
                    let number = events.len();
                    events.extend(self.event(step, number));
                }
                let gap_ns: u64 =
                    body.iter().map(|step| if let Step::Timer(ns) = step { *ns } else { 0 }).sum();
                self.last_ns += gap_ns * times;
                self.phase(*times, &events);
            } else {
                let number = self.open.as_ref().map_or(0, Vec::len);
                if let Some(event) = self.event(step, number) {
                    self.open.get_or_insert_with(Vec::new).push(event);
                }
            }
        }
        self.close();
        if self.done.is_empty() {
            self.phase(1, &["\"run\": 0".to_owned()]);
        }
    }

    fn close(&mut self) {
        if let Some(events) = self.open.take() {
            self.phase(1, &events);
        }
    }

    fn phase(&mut self, times: u64, events: &[String]) {
        let name = format!("p{}", self.done.len());
        let events = events.join(", ");
        self.done.push(format!("\"{name}\": {{ \"loop\": {times}, {events} }}"));
    }

    fn event(&mut self, step: &Step, number: usize) -> Option<String> {
        let name = |task: u32| quoted(&self.recording.tasks[task as usize].name);
        let timer = |period_ns: u64| {
            format!(
                "\"timer{number}\": {{ \"ref\": \"unique\", \"period\": {}, \"mode\": \"absolute\" }}",
                us(period_ns).max(1)
            )
        };
        Some(match *step {
            Step::Run(ns) if us(ns) == 0 => return None,
            Step::Run(ns) => format!("\"run{number}\": {}", us(ns)),
            Step::Sleep { ns, .. } if ns > SLEEP_MAX_NS => return None,
            Step::Sleep { ns, .. } => format!("\"sleep{number}\": {}", us(ns)),
            Step::Until { soft_ns, .. } => {
                let gap_ns = soft_ns.saturating_sub(self.last_ns);
                self.last_ns = soft_ns;
                timer(gap_ns)
            }
            Step::Timer(period_ns) => timer(period_ns),
            Step::Await => format!("\"suspend{number}\": \"\""),
            Step::Wake(task) | Step::Brings(task) => format!("\"resume{number}\": {}", name(task)),
            Step::Fork(task) => format!("\"fork{number}\": {}", name(task)),
            Step::Yield => format!("\"yield{number}\": \"\""),
            Step::Late(_) | Step::Exec | Step::Loop(..) => return None,
        })
    }
}

//! A recording as a workload file.

use super::text::time_text;
use super::{Recording, Start, Step};
use crate::program::Policy;
use std::fmt::Write;

/// Columns of a line of steps.
const WIDTH: usize = 96;

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Recording {
    /// The workload file: `comment` stands on top, line by line.
    pub fn to_toml(&self, name: &str, comment: &str) -> String {
        let mut out = String::new();
        for line in comment.lines() {
            let _ = writeln!(out, "{}", format!("# {line}").trim_end());
        }
        let _ = writeln!(out, "name = {}\nmodel = \"recorded\"\n\n[options]", quoted(name));
        let interrupts = self.interrupts.iter();
        let interrupts = interrupts.map(|interrupt| quoted(&self.interrupt_text(interrupt)));
        self.list(&mut out, "interrupts", interrupts);
        for task in &self.tasks {
            let _ = writeln!(out, "\n[[options.tasks]]\nname = {}", quoted(&task.name));
            if task.comm != task.name {
                let _ = writeln!(out, "comm = {}", quoted(&task.comm));
            }
            let attributes = &task.attributes;
            if attributes.nice != 0 {
                let _ = writeln!(out, "nice = {}", attributes.nice);
            }
            let policy = match attributes.policy {
                Policy::Normal => None,
                Policy::Batch => Some("batch".to_owned()),
                Policy::Idle => Some("idle".to_owned()),
                Policy::Fifo(priority) => Some(format!("fifo {priority}")),
                Policy::RoundRobin(priority) => Some(format!("rr {priority}")),
                Policy::Deadline { runtime_ns, deadline_ns, period_ns } => {
                    let times = [runtime_ns, deadline_ns, period_ns].map(time_text);
                    Some(format!("deadline {}", times.join(" ")))
                }
            };
            if let Some(policy) = policy {
                let _ = writeln!(out, "policy = \"{policy}\"");
            }
            if attributes.born_fair {
                out.push_str("born_fair = true\n");
            }
            if attributes.follows_interrupts {
                out.push_str("follows_interrupts = true\n");
            }
            if let Some(cpus) = attributes.affinity {
                let _ = writeln!(out, "cpus = \"{cpus}\"");
            }
            let _ = writeln!(out, "cpu = {}", task.cpu);
            match task.start {
                Start::Asleep => out.push_str("asleep = true\n"),
                Start::At(ns) => {
                    let _ = writeln!(out, "start = \"{}\"", time_text(ns));
                }
                Start::Forked => {}
            }
            self.list(&mut out, "steps", task.steps.iter().map(|step| self.item(step)));
        }
        out
    }

    fn item(&self, step: &Step) -> String {
        match step {
            Step::Loop(times, steps) => {
                let steps: Vec<String> = steps.iter().map(|step| self.item(step)).collect();
                format!("{{ times = {times}, steps = [{}] }}", steps.join(", "))
            }
            step => quoted(&self.step_text(step)),
        }
    }

    /// A list with as many items in a line as have room.
    fn list(&self, out: &mut String, key: &str, items: impl Iterator<Item = String>) {
        let mut line = String::from("   ");
        let mut lines = String::new();
        for item in items {
            if line.len() + item.len() + 2 > WIDTH && !line.trim().is_empty() {
                let _ = writeln!(lines, "{line}");
                line = String::from("   ");
            }
            let _ = write!(line, " {item},");
        }
        if line.trim().is_empty() {
            let _ = writeln!(out, "{key} = []");
        } else {
            let _ = writeln!(out, "{key} = [\n{lines}{line}\n]");
        }
    }
}

//! The threads of an rt-app file: what they do, and what they are like.

use super::json::{Kind, Member, Value};
use crate::error::WorkloadError;
use crate::program::{Attributes, Policy};
use schedlab_machine::{CPUS_MAX, CpuId, CpuSet};
use std::path::Path;

/// One event. Times are ns.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Run(u64),
    Runtime(u64),
    Sleep(u64),
    Timer { name: String, period_ns: u64, restarts: bool },
    Lock(String),
    Unlock(String),
    Wait { condition: String, mutex: String },
    Signal(String),
    Broadcast(String),
    Sync { condition: String, mutex: String },
    Barrier(String),
    Suspend(String),
    Resume(String),
    Memory { bytes: u64 },
    InputOutput { bytes: u64 },
    Yield,
    Fork(String),
}

/// Events that are done several times before the next phase; below 0: for ever.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub loops: i64,
    /// CPUs of its own.
    pub cpus: Option<CpuSet>,
    pub events: Vec<(usize, Event)>,
}

/// One kind of thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub name: String,
    pub instances: u32,
    pub delay_ns: u64,
    pub loops: i64,
    pub phases: Vec<Phase>,
    /// CPUs of phases without any of their own.
    pub cpus: Option<CpuSet>,
    pub attributes: Attributes,
}

/// The scheduling policies by their names in files, without a priority yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyName {
    Other,
    Idle,
    Fifo,
    RoundRobin,
    Deadline,
}

/// Priority of real-time threads that name none.
const PRIORITY_DEFAULT: i64 = 10;

/// How a thread is scheduled, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheduling {
    policy: PolicyName,
    /// A nice level or a real-time priority, and its line.
    priority: Option<(i64, usize)>,
    /// `dl-runtime`, `dl-deadline` and `dl-period`, us.
    reservation: [Option<i64>; 3],
    /// The line that says the policy or the reservation.
    line: usize,
}

/// The keys of a reservation.
const RESERVATION: [&str; 3] = ["dl-runtime", "dl-deadline", "dl-period"];

/// The names of events. A key may go on after the name, as rt-app allows in order to make keys
/// unique, so a name that begins another one stands after it.
const EVENTS: &[&str] = &[
    "runtime", "run", "sleep", "timer", "lock", "unlock", "wait", "signal", "broad", "sync",
    "barrier", "suspend", "resume", "mem", "yield", "fork", "iorun",
];

/// What threads consist of in files for rt-app before phases and events.
const OLD_KEYS: &[&str] = &["exec", "lock_order", "resources"];

/// Times of a longer file would not fit the simulator's clock, us.
const TIME_MAX_US: i64 = 1_000_000_000_000;

/// Reads values, with the file for messages.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub path: &'a Path,
}

impl Reader<'_> {
    pub fn error(&self, line: usize, what: impl Into<String>) -> WorkloadError {
        WorkloadError::line(self.path, line, what)
    }

    pub fn object<'v>(&self, key: &str, value: &'v Value) -> Result<&'v [Member], WorkloadError> {
        match &value.kind {
            Kind::Object(members) => Ok(members),
            _ => Err(self.error(value.line, format!("{key} must be an object {{...}}"))),
        }
    }

    pub fn integer(&self, member: &Member, (min, max): (i64, i64)) -> Result<i64, WorkloadError> {
        match member.value.kind {
            Kind::Integer(number) if (min..=max).contains(&number) => Ok(number),
            _ => {
                let what = format!("{} must be a whole number in {min} to {max}", member.key);
                Err(self.error(member.line, what))
            }
        }
    }

    fn time_ns(&self, member: &Member) -> Result<u64, WorkloadError> {
        Ok(self.integer(member, (0, TIME_MAX_US))? as u64 * 1000)
    }

    pub fn text<'v>(&self, member: &'v Member) -> Result<&'v str, WorkloadError> {
        match &member.value.kind {
            Kind::Text(text) => Ok(text),
            _ => Err(self.error(member.line, format!("{} must be a text", member.key))),
        }
    }

    pub fn policy(&self, member: &Member) -> Result<PolicyName, WorkloadError> {
        match self.text(member)? {
            "SCHED_OTHER" => Ok(PolicyName::Other),
            "SCHED_IDLE" => Ok(PolicyName::Idle),
            "SCHED_FIFO" => Ok(PolicyName::Fifo),
            "SCHED_RR" => Ok(PolicyName::RoundRobin),
            "SCHED_DEADLINE" => Ok(PolicyName::Deadline),
            other => Err(self.error(
                member.line,
                format!(
                    "policy {other} is not modelled; SCHED_OTHER, SCHED_IDLE, SCHED_FIFO, SCHED_RR \
                     and SCHED_DEADLINE are"
                ),
            )),
        }
    }

    pub fn thread(
        &self,
        member: &Member,
        default_policy: PolicyName,
    ) -> Result<Thread, WorkloadError> {
        let mut thread = Thread {
            name: member.key.clone(),
            instances: 1,
            delay_ns: 0,
            loops: -1,
            phases: Vec::new(),
            cpus: None,
            attributes: Attributes::default(),
        };
        let mut scheduling = Scheduling {
            policy: default_policy,
            priority: None,
            reservation: [None; 3],
            line: member.line,
        };
        let mut own = Phase { loops: 1, cpus: None, events: Vec::new() };
        let mut phases = None;
        for member in self.object(&member.key, &member.value)? {
            match member.key.as_str() {
                "instance" => thread.instances = self.integer(member, (0, 1_000_000))? as u32,
                "delay" => thread.delay_ns = self.time_ns(member)?,
                "loop" => thread.loops = self.integer(member, (-1, i64::MAX))?,
                "phases" => phases = Some(member),
                _ => self.member(member, &mut thread, &mut scheduling, &mut own)?,
            }
        }
        thread.cpus = own.cpus.take();
        match phases {
            None => thread.phases.push(own),
            Some(_) if !own.events.is_empty() => {
                let what = "events stand in the thread beside its phases; move them into a phase";
                return Err(self.error(own.events[0].0, what));
            }
            Some(phases) => self.phases(phases, &mut thread, &mut scheduling)?,
        }
        self.schedule(&mut thread.attributes, scheduling)?;
        Ok(thread)
    }

    fn phases(
        &self,
        phases: &Member,
        thread: &mut Thread,
        scheduling: &mut Scheduling,
    ) -> Result<(), WorkloadError> {
        let members = self.object("phases", &phases.value)?;
        for member in members {
            let mut phase = Phase { loops: 1, cpus: None, events: Vec::new() };
            let common = (thread.attributes.clone(), *scheduling);
            for member in self.object(&member.key, &member.value)? {
                match member.key.as_str() {
                    "loop" => phase.loops = self.integer(member, (-1, i64::MAX))?,
                    _ => self.member(member, thread, scheduling, &mut phase)?,
                }
                let from = common.0.affinity_from.clone();
                let now = Attributes { affinity_from: from, ..thread.attributes.clone() };
                if members.len() > 1 && (&now, *scheduling) != (&common.0, common.1) {
                    let what = format!(
                        "{} changes between phases, which is not modelled; set it for the thread",
                        member.key
                    );
                    return Err(self.error(member.line, what));
                }
            }
            thread.phases.push(phase);
        }
        Ok(())
    }

    /// Policy and priority together: the priority of a fair thread is its nice level.
    fn schedule(
        &self,
        attributes: &mut Attributes,
        Scheduling { policy, priority, reservation, line }: Scheduling,
    ) -> Result<(), WorkloadError> {
        let within = |low: i64, high: i64, default: i64| match priority {
            None => Ok(default),
            Some((priority, _)) if (low..=high).contains(&priority) => Ok(priority),
            Some((_, line)) => {
                let what = format!("priority must be a whole number in {low} to {high}");
                Err(self.error(line, format!("{what} under this policy")))
            }
        };
        attributes.policy = match policy {
            PolicyName::Fifo => Policy::Fifo(within(1, 99, PRIORITY_DEFAULT)? as u8),
            PolicyName::RoundRobin => Policy::RoundRobin(within(1, 99, PRIORITY_DEFAULT)? as u8),
            PolicyName::Deadline => self.reserve(reservation, line)?,
            PolicyName::Other | PolicyName::Idle => {
                // For a fair task, the runtime is the slice that it asks for (sched_setattr()).
                attributes.slice_ns = match reservation[0] {
                    Some(slice_us) if (100..=100_000).contains(&slice_us) => {
                        Some(slice_us as u64 * 1000)
                    }
                    Some(_) => {
                        let what = "dl-runtime must be a whole number in 100 to 100000, the \
                                    slice of a thread that is no deadline one";
                        return Err(self.error(line, what));
                    }
                    None => None,
                };
                attributes.nice = within(-20, 19, 0)? as i32;
                if policy == PolicyName::Idle { Policy::Idle } else { Policy::Normal }
            }
        };
        Ok(())
    }

    /// A deadline thread: what it leaves out of deadline and period is as the other one, and the
    /// period without any is the run time (rt-app's defaults).
    fn reserve(
        &self,
        [runtime, deadline, period]: [Option<i64>; 3],
        line: usize,
    ) -> Result<Policy, WorkloadError> {
        let Some(runtime_us) = runtime else {
            return Err(self.error(line, "SCHED_DEADLINE needs a dl-runtime, us; give one"));
        };
        let period_us = period.unwrap_or(runtime_us);
        let deadline_us = deadline.unwrap_or(period_us);
        let [runtime_ns, deadline_ns, period_ns] =
            [runtime_us, deadline_us, period_us].map(|us| us as u64 * 1000);
        Ok(Policy::Deadline { runtime_ns, deadline_ns, period_ns })
    }

    /// A property, or else an event.
    fn member(
        &self,
        member: &Member,
        thread: &mut Thread,
        scheduling: &mut Scheduling,
        phase: &mut Phase,
    ) -> Result<(), WorkloadError> {
        let attributes = &mut thread.attributes;
        match member.key.as_str() {
            "policy" => {
                let policy = self.policy(member)?;
                if std::mem::replace(&mut scheduling.policy, policy) != policy {
                    scheduling.line = member.line;
                }
            }
            key if RESERVATION.contains(&key) => {
                let place = RESERVATION.iter().position(|name| *name == key).unwrap_or(0);
                let time_us = Some(self.integer(member, (1, TIME_MAX_US))?);
                let known = &mut scheduling.reservation[place];
                if std::mem::replace(known, time_us) != time_us {
                    scheduling.line = member.line;
                }
            }
            "priority" => {
                let priority = self.integer(member, (-20, 99))?;
                // A phase that says the same again changes nothing.
                if scheduling.priority.is_none_or(|(before, _)| before != priority) {
                    scheduling.priority = Some((priority, member.line));
                }
            }
            "cpus" => {
                phase.cpus = Some(self.cpus(member)?);
                attributes.affinity_from = Some((self.path.to_owned(), member.line));
            }
            "util_min" | "util_max" => {
                let value = self.integer(member, (0, 1024))? as u16;
                let (min, max) = attributes.clamps.unwrap_or((0, 1024));
                let lower = member.key == "util_min";
                attributes.clamps = Some(if lower { (value, max) } else { (min, value) });
            }
            "taskgroup" if !matches!(self.text(member), Ok("")) => {
                let what = "taskgroup: task groups are not modelled; remove it";
                return Err(self.error(member.line, what));
            }
            "taskgroup" => {}
            key if OLD_KEYS.contains(&key) => {
                let what = format!(
                    "{key}: {} is a piece to be merged with others for an rt-app before phases and \
                     events, not runnable by itself; write it as run, timer, lock and unlock",
                    thread.name
                );
                return Err(self.error(member.line, what));
            }
            _ => {
                let event = self.event(member, &thread.name)?;
                phase.events.push((member.line, event));
            }
        }
        Ok(())
    }

    fn cpus(&self, member: &Member) -> Result<CpuSet, WorkloadError> {
        let mut cpus = CpuSet::EMPTY;
        let Kind::Array(values) = &member.value.kind else {
            return Err(self.error(member.line, "cpus must be a list of CPU numbers"));
        };
        for value in values {
            match value.kind {
                Kind::Integer(cpu) if (0..CPUS_MAX as i64).contains(&cpu) => {
                    cpus.insert(CpuId(cpu as u32));
                }
                _ => return Err(self.error(value.line, "cpus must be a list of CPU numbers")),
            }
        }
        if cpus.is_empty() {
            return Err(self.error(member.line, "cpus allows no CPU; name one"));
        }
        Ok(cpus)
    }

    fn event(&self, member: &Member, thread: &str) -> Result<Event, WorkloadError> {
        let key = &member.key;
        let name = EVENTS.iter().find(|name| {
            let rest = key.strip_prefix(**name);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        });
        let text = || Ok::<_, WorkloadError>(self.text(member)?.to_owned());
        Ok(match name.copied() {
            Some("run") => Event::Run(self.time_ns(member)?),
            Some("runtime") => Event::Runtime(self.time_ns(member)?),
            Some("sleep") => Event::Sleep(self.time_ns(member)?),
            Some("timer") => self.timer(member)?,
            Some("lock") => Event::Lock(text()?),
            Some("unlock") => Event::Unlock(text()?),
            Some("signal") => Event::Signal(text()?),
            Some("broad") => Event::Broadcast(text()?),
            Some("barrier") => Event::Barrier(text()?),
            Some("resume") => Event::Resume(text()?),
            Some("fork") => Event::Fork(text()?),
            Some("yield") => Event::Yield,
            Some("mem") => {
                Event::Memory { bytes: self.integer(member, (0, i64::from(i32::MAX)))? as u64 }
            }
            Some("iorun") => {
                Event::InputOutput { bytes: self.integer(member, (0, i64::from(i32::MAX)))? as u64 }
            }
            // Without a name it is the thread's own, as workgen fills it in.
            Some("suspend") => Event::Suspend(match &member.value.kind {
                Kind::Null => thread.to_owned(),
                Kind::Text(text) if text.is_empty() => thread.to_owned(),
                _ => text()?,
            }),
            Some("wait") => {
                let (condition, mutex) = self.condition(member)?;
                Event::Wait { condition, mutex }
            }
            Some("sync") => {
                let (condition, mutex) = self.condition(member)?;
                Event::Sync { condition, mutex }
            }
            Some(_) | None => {
                let what = format!(
                    "unknown key {key} in thread {thread}; events are {}",
                    EVENTS.join(", ")
                );
                return Err(self.error(member.line, what));
            }
        })
    }

    fn condition(&self, member: &Member) -> Result<(String, String), WorkloadError> {
        let (mut condition, mut mutex) = (None, None);
        for part in self.object(&member.key, &member.value)? {
            match part.key.as_str() {
                "ref" => condition = Some(self.text(part)?.to_owned()),
                "mutex" => mutex = Some(self.text(part)?.to_owned()),
                other => return Err(self.error(part.line, format!("unknown key {other}"))),
            }
        }
        condition.zip(mutex).ok_or_else(|| {
            self.error(member.line, format!("{} needs a ref and a mutex", member.key))
        })
    }

    fn timer(&self, member: &Member) -> Result<Event, WorkloadError> {
        let (mut name, mut period_ns, mut restarts) = (None, None, true);
        for part in self.object(&member.key, &member.value)? {
            match part.key.as_str() {
                "ref" => name = Some(self.text(part)?.to_owned()),
                "period" => period_ns = Some(self.time_ns(part)?),
                "mode" => {
                    restarts = match self.text(part)? {
                        "relative" => true,
                        "absolute" => false,
                        other => {
                            let what = format!("mode {other} is neither relative nor absolute");
                            return Err(self.error(part.line, what));
                        }
                    }
                }
                other => return Err(self.error(part.line, format!("unknown key {other}"))),
            }
        }
        match name.zip(period_ns) {
            Some((name, period_ns)) => Ok(Event::Timer { name, period_ns, restarts }),
            None => Err(self.error(member.line, "timer needs a ref and a period")),
        }
    }
}

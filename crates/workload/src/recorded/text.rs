//! Steps and times as words.

use super::{RecordedInterrupt, Recording, Step};

/// A time in the unit that shows it exactly.
pub(super) fn time_text(ns: u64) -> String {
    let scaled = |unit_ns: u64, digits: usize, unit: &str| {
        let fraction = format!("{:0digits$}", ns % unit_ns);
        match fraction.trim_end_matches('0') {
            "" => format!("{}{unit}", ns / unit_ns),
            fraction => format!("{}.{fraction}{unit}", ns / unit_ns),
        }
    };
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => scaled(1_000, 3, "us"),
        1_000_000..1_000_000_000 => scaled(1_000_000, 6, "ms"),
        _ => scaled(1_000_000_000, 9, "s"),
    }
}

/// The time that a word such as `12.5us` says, ns.
pub(super) fn time_ns(word: &str) -> Result<u64, String> {
    let wrong = || format!("{word} is no time; write one such as 12.5us, with ns, us, ms or s");
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit_ns) = units
        .iter()
        .find_map(|(unit, ns)| Some((word.strip_suffix(unit)?, *ns)))
        .ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !(fraction.is_empty() || digits(fraction)) || number.ends_with('.') {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut ns = whole.checked_mul(unit_ns).ok_or_else(wrong)?;
    let mut digit_ns = unit_ns;
    for digit in fraction.bytes() {
        digit_ns /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * digit_ns).ok_or_else(wrong)?;
    }
    Ok(ns)
}

/// Where the names of tasks lead.
pub(super) type Find<'a> = dyn Fn(&str) -> Result<u32, String> + 'a;

/// The step that a line says.
pub(super) fn step(line: &str, find: &Find<'_>) -> Result<Step, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(match words[..] {
        ["run", time] => Step::Run(time_ns(time)?),
        ["sleep", time] => Step::Sleep { ns: time_ns(time)?, slack_ns: 0 },
        ["sleep", time, "slack", slack] => {
            Step::Sleep { ns: time_ns(time)?, slack_ns: time_ns(slack)? }
        }
        ["until", time] => Step::Until { soft_ns: time_ns(time)?, slack_ns: 0 },
        ["until", time, "slack", slack] => {
            Step::Until { soft_ns: time_ns(time)?, slack_ns: time_ns(slack)? }
        }
        ["timer", period] => Step::Timer(time_ns(period)?),
        ["late", time] => Step::Late(time_ns(time)?),
        ["brings", task] => Step::Brings(find(task)?),
        ["await"] => Step::Await,
        ["wake", task] => Step::Wake(find(task)?),
        ["fork", task] => Step::Fork(find(task)?),
        ["exec"] => Step::Exec,
        ["yield"] => Step::Yield,
        _ => {
            return Err(format!(
                "{line:?} is no step; there are run TIME, sleep TIME [slack TIME], until TIME [slack TIME], \
                 timer TIME, late TIME, brings TASK, await, wake TASK, fork TASK, exec and yield"
            ));
        }
    })
}

/// The interrupt that a line says.
pub(super) fn interrupt(line: &str, find: &Find<'_>) -> Result<RecordedInterrupt, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let wrong = || format!("{line:?} is no interrupt; write cpu N at TIME for TIME [wakes TASK]");
    let ["cpu", cpu, "at", at, "for", length, ref rest @ ..] = words[..] else {
        return Err(wrong());
    };
    let wakes = match rest[..] {
        [] => None,
        ["wakes", task] => Some(find(task)?),
        _ => return Err(wrong()),
    };
    Ok(RecordedInterrupt {
        cpu: cpu.parse().map_err(|_| wrong())?,
        at_ns: time_ns(at)?,
        length_ns: time_ns(length)?,
        wakes,
    })
}

impl Recording {
    fn name(&self, task: u32) -> &str {
        self.tasks.get(task as usize).map_or("?", |task| &task.name)
    }

    /// A step as a line; loops have none.
    pub(super) fn step_text(&self, step: &Step) -> String {
        match *step {
            Step::Run(ns) => format!("run {}", time_text(ns)),
            Step::Sleep { ns, slack_ns: 0 } => format!("sleep {}", time_text(ns)),
            Step::Sleep { ns, slack_ns } => {
                format!("sleep {} slack {}", time_text(ns), time_text(slack_ns))
            }
            Step::Until { soft_ns, slack_ns: 0 } => format!("until {}", time_text(soft_ns)),
            Step::Until { soft_ns, slack_ns } => {
                format!("until {} slack {}", time_text(soft_ns), time_text(slack_ns))
            }
            Step::Timer(ns) => format!("timer {}", time_text(ns)),
            Step::Late(ns) => format!("late {}", time_text(ns)),
            Step::Brings(task) => format!("brings {}", self.name(task)),
            Step::Await => "await".to_owned(),
            Step::Wake(task) => format!("wake {}", self.name(task)),
            Step::Fork(task) => format!("fork {}", self.name(task)),
            Step::Exec => "exec".to_owned(),
            Step::Yield => "yield".to_owned(),
            Step::Loop(times, _) => format!("{times} times"),
        }
    }

    /// An interrupt as a line.
    pub(super) fn interrupt_text(&self, interrupt: &RecordedInterrupt) -> String {
        let RecordedInterrupt { cpu, at_ns, length_ns, wakes } = *interrupt;
        let line = format!("cpu {cpu} at {} for {}", time_text(at_ns), time_text(length_ns));
        wakes.map_or(line.clone(), |task| format!("{line} wakes {}", self.name(task)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_reads_as_it_was_written(ns in any::<u64>()) {
            prop_assert_eq!(time_ns(&time_text(ns)), Ok(ns));
        }

        #[test]
        fn no_word_is_taken_for_another(word in "[0-9.a-z]{0,8}") {
            if let Ok(ns) = time_ns(&word) {
                prop_assert_eq!(time_ns(&time_text(ns)), Ok(ns));
            }
        }
    }
}

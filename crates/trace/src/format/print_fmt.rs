//! The parts of a `print fmt` that give numbers their meaning. The bits behind `prev_state`'s
//! letters moved between releases (`X` was 32, then 16; `P` 512, then 64), but each trace carries
//! the table that its own kernel printed by.

use crate::event::TaskState;

/// `prev_state` of `sched_switch` to [`TaskState`], by the trace's own print format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateMap {
    /// The bits that the letters cover.
    mask: u64,
    /// Bits and what they mean, in the order of printing: the first that is set is the first
    /// letter, which decides.
    flags: Vec<(u64, TaskState)>,
    /// The bit that prints `+`: the task was preempted.
    preempted: u64,
}

impl Default for StateMap {
    /// The table of Linux 4.14 to 6.12 (`include/trace/events/sched.h`).
    fn default() -> Self {
        let letters = ["S", "D", "T", "t", "X", "Z", "P", "I"];
        let flags = letters.iter().enumerate();
        Self {
            mask: 0xff,
            flags: flags.map(|(bit, letter)| (1 << bit, TaskState::from_letters(letter))).collect(),
            preempted: 0x100,
        }
    }
}

impl StateMap {
    /// Reads the table out of a print format; the modern one where the format has none.
    pub fn parse(print_fmt: &str) -> StateMap {
        let Some(call) = flag_call(print_fmt, "prev_state") else {
            return StateMap::default();
        };
        let mask = call.argument.split_once('&').and_then(|(_, mask)| evaluate(mask));
        let flags = call.pairs.iter().map(|(bits, text)| (*bits, TaskState::from_letters(text)));
        StateMap {
            mask: mask.unwrap_or(u64::MAX),
            flags: flags.filter(|(bits, _)| *bits != 0).collect(),
            preempted: preempted_bit(print_fmt).unwrap_or(0),
        }
    }

    /// What `prev_state` means.
    #[inline]
    pub fn state(&self, prev_state: u64) -> TaskState {
        let bits = prev_state & self.mask;
        if bits == 0 {
            return if prev_state & self.preempted != 0 {
                TaskState::Preempted
            } else {
                TaskState::Running
            };
        }
        let first = self.flags.iter().find(|(flag, _)| bits & flag == *flag);
        first.map_or(TaskState::Other, |(_, state)| *state)
    }
}

/// The bit that a print format shows as `text` in the flags of `field`.
pub(super) fn flag_bit(print_fmt: &str, field: &str, text: &str) -> Option<u64> {
    let call = flag_call(print_fmt, field)?;
    call.pairs.iter().find(|(_, shown)| *shown == text).map(|(bits, _)| *bits)
}

/// `__print_flags(ARGUMENT, "|", { BITS, "TEXT" }, ...)`.
struct FlagCall<'a> {
    argument: &'a str,
    pairs: Vec<(u64, &'a str)>,
}

/// The first `__print_flags` or `__print_symbolic` whose argument names `field`.
fn flag_call<'a>(print_fmt: &'a str, field: &str) -> Option<FlagCall<'a>> {
    let member = format!("REC->{field}");
    let mut rest = print_fmt;
    while let Some(start) = rest.find("__print_") {
        rest = &rest[start + "__print_".len()..];
        let Some(open) = rest.find('(') else { break };
        if !matches!(&rest[..open], "flags" | "symbolic") {
            continue;
        }
        let body = balanced(&rest[open + 1..]);
        let argument = until_comma(body);
        if argument.contains(&member) {
            return Some(FlagCall { argument, pairs: pairs(&body[argument.len()..]) });
        }
    }
    None
}

/// The text up to the parenthesis that closes an already opened one.
fn balanced(text: &str) -> &str {
    let mut depth = 1_u32;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..index];
        }
    }
    text
}

/// The text up to the first comma outside parentheses.
fn until_comma(text: &str) -> &str {
    let mut depth = 0_i64;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => return &text[..index],
            _ => {}
        }
    }
    text
}

/// All `{ expression, "text" }` whose expression is a constant.
fn pairs(text: &str) -> Vec<(u64, &str)> {
    let groups = text.split('{').skip(1).filter_map(|group| group.split('}').next());
    groups
        .filter_map(|group| {
            let (bits, shown) = group.split_once(',')?;
            Some((evaluate(bits)?, shown.trim().trim_matches('"')))
        })
        .collect()
}

/// `REC->prev_state & EXPRESSION ? "+" : ""`.
fn preempted_bit(print_fmt: &str) -> Option<u64> {
    let before = print_fmt.split("? \"+\"").next().filter(|part| part.len() < print_fmt.len())?;
    let (_, condition) = before.rsplit_once("REC->prev_state")?;
    evaluate(condition.trim().strip_prefix('&')?)
}

/// The value of a C constant expression of numbers and `| & + - << >> ~ ( )`.
fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Expression { rest: text.trim(), depth: 0 };
    let value = parser.or()?;
    parser.rest.trim_start().is_empty().then_some(value)
}

struct Expression<'a> {
    rest: &'a str,
    depth: u32,
}

impl Expression<'_> {
    /// Deeper nesting is no print format but an attack on the stack.
    const DEPTH_MAX: u32 = 64;

    fn eat(&mut self, token: &str) -> bool {
        let trimmed = self.rest.trim_start();
        let found = trimmed.strip_prefix(token);
        self.rest = found.unwrap_or(trimmed);
        found.is_some()
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.and()?;
        while self.eat("|") {
            value |= self.and()?;
        }
        Some(value)
    }

    fn and(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.eat("&") {
            value &= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        loop {
            if self.eat("<<") {
                value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
            } else if self.eat(">>") {
                value = value.checked_shr(u32::try_from(self.sum()?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.atom()?;
        loop {
            if self.eat("+") {
                value = value.wrapping_add(self.atom()?);
            } else if self.eat("-") {
                value = value.wrapping_sub(self.atom()?);
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<u64> {
        if self.depth >= Self::DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let value = if self.eat("(") {
            let inner = self.or()?;
            if !self.eat(")") {
                return None;
            }
            inner
        } else if self.eat("~") {
            !self.atom()?
        } else {
            self.number()?
        };
        self.depth -= 1;
        Some(value)
    }

    fn number(&mut self) -> Option<u64> {
        let text = self.rest.trim_start();
        let length = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        self.rest = rest;
        let word = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => word.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX_6_12: &str = r#""prev_comm=%s prev_state=%s%s", REC->prev_comm, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm"#;
    const LINUX_4_9: &str = r#""x", REC->prev_state & (4096-1) ? __print_flags(REC->prev_state & (4096-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 4096 ? "+" : "", REC->next_comm"#;

    #[test]
    fn modern_states() {
        let map = StateMap::parse(LINUX_6_12);
        assert_eq!(map, StateMap::default());
        assert_eq!(map.state(0), TaskState::Running);
        assert_eq!(map.state(0x100), TaskState::Preempted);
        assert_eq!(map.state(0x80), TaskState::Idle);
        assert_eq!(map.state(0x10), TaskState::Dead);
    }

    #[test]
    fn old_states_by_their_own_table() {
        let map = StateMap::parse(LINUX_4_9);
        assert_eq!(map.state(16), TaskState::Zombie);
        assert_eq!(map.state(64), TaskState::Dead);
        assert_eq!(map.state(512), TaskState::Parked);
        assert_eq!(map.state(4096), TaskState::Preempted);
        assert_eq!(map.state(2 | 1024), TaskState::DiskSleep);
        assert_eq!(map.state(256), TaskState::Other);
    }

    #[test]
    fn expressions() {
        assert_eq!(evaluate("((1 | 2) + 1) << 1"), Some(8));
        assert_eq!(evaluate("0x10UL - 1"), Some(15));
        assert_eq!(evaluate("~0 & 0xff"), Some(255));
        assert_eq!(evaluate("TASK_STATE_MAX"), None);
        assert_eq!(evaluate("1 << 64"), None);
        assert_eq!(evaluate(&"(".repeat(10_000)), None);
        assert_eq!(evaluate(&"~".repeat(10_000)), None);
    }

    #[test]
    fn deferrable_bit() {
        let fmt = r#""flags=%s", REC->flags & 3, __print_flags(REC->flags & (0x00040000 | 0x00080000), "|", { 0x00040000, "M" }, { 0x00080000, "D" })"#;
        assert_eq!(flag_bit(fmt, "flags", "D"), Some(0x0008_0000));
        assert_eq!(flag_bit(fmt, "flags", "Q"), None);
        assert_eq!(flag_bit("__print_flags(", "flags", "D"), None);
    }
}

//! The part that every event line begins with: who ran, where and when, and the event's name.
//!
//! | printed by | example |
//! | --- | --- |
//! | `trace`, `trace_pipe` | `<idle>-0     [003] d..2   17.123456: sched_switch: ...` |
//! | with thread groups | `sh-12   (   10) [003] d..2. 17.123456: ...` |
//! | `trace-cmd report` | `<idle>-0     [003]    17.123456: sched_switch:      ...` |
//! | `trace-cmd report -l` | `<idle>-0       3d..2.    17.123456: sched_switch:  ...` |
//! | `latency-format` | `<idle>-0       3d..2.  123us+: sched_switch: ...` |
//! | `perf script` | `swapper     0/0     [003]    17.123456789:   1 sched:sched_switch: ...` |
//!
//! A task's name may hold anything, brackets and colons included, and trace-cmd writes a buffer's
//! name before it. So the line is anchored at the CPU's brackets instead: the first ones that
//! have a thread id before them and a time after them.

use super::fields::decimal;
use crate::event::Pid;
use memchr::memchr;
use schedlab_machine::{CPUS_MAX, CpuId};

/// How far into a line the CPU may stand: a buffer's name, a task's name and ids end well before.
const ANCHOR_BYTES_MAX: usize = 256;

/// `preempt-depth` and `migrate-disable` included, no release prints more flags than this.
const FLAGS_BYTES_MAX: usize = 12;

/// What a printed time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds, with nine digits or more after the point.
    Nanosecond,
    /// Seconds with fewer digits, or a number of microseconds.
    Coarse,
    /// A number without unit: the trace clock is a counter.
    Tick,
}

/// Who prints the event's name how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// ftrace and trace-cmd.
    Ftrace,
    /// `perf script`, whose names carry the system.
    Perf,
}

/// The taken-apart line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    pub(super) pid: Pid,
    pub(super) cpu: CpuId,
    pub(super) timestamp_ns: u64,
    pub(super) unit: Unit,
    pub(super) style: Style,
    /// What follows the time and its colon, without leading blanks.
    pub(super) rest: &'a [u8],
}

/// Takes an event line apart; `None` for every other line.
#[inline]
pub(super) fn parse(line: &[u8]) -> Option<Header<'_>> {
    let reach = line.len().min(ANCHOR_BYTES_MAX);
    let mut from = 0;
    while let Some(offset) = memchr(b'[', &line[from..reach]) {
        let open = from + offset;
        if let Some(header) = at_bracket(line, open) {
            return Some(header);
        }
        from = open + 1;
    }
    latency_format(line)
}

/// Reads outwards from a bracket that may hold the CPU's number.
fn at_bracket(line: &[u8], open: usize) -> Option<Header<'_>> {
    let (cpu, rest) = decimal(line.get(open + 1..)?)?;
    let cpu = cpu_id(cpu)?;
    let rest = rest.strip_prefix(b"]")?;
    let before = skip_thread_group_backwards(trim_end(&line[..open]));
    let (pid, style) = thread_id(before)?;
    let mut rest = trim_start(rest);
    if rest.first() == Some(&b'(') {
        rest = trim_start(skip_thread_group(rest)?);
    }
    if !rest.first()?.is_ascii_digit() {
        let flags = memchr(b' ', &rest[..rest.len().min(FLAGS_BYTES_MAX + 1)])?;
        rest = trim_start(&rest[flags..]);
    }
    let (timestamp_ns, unit, rest) = time(rest)?;
    Some(Header { pid, cpu, timestamp_ns, unit, style, rest })
}

/// `comm-pid   3d..2.  time: ...`, where the CPU's number and the flags are one word.
fn latency_format(line: &[u8]) -> Option<Header<'_>> {
    let reach = line.len().min(ANCHOR_BYTES_MAX);
    let mut from = 0;
    while let Some(offset) = memchr(b'-', &line[from..reach]) {
        from += offset + 1;
        let Some((pid, rest)) = decimal(&line[from..]) else { continue };
        let word = trim_start(rest);
        if word.len() == rest.len() {
            continue;
        }
        let Some((cpu, flags)) = decimal(word) else { continue };
        let Some(flags_bytes) = memchr(b' ', &flags[..flags.len().min(FLAGS_BYTES_MAX + 1)]) else {
            continue;
        };
        // Without flags this would be any number behind a dash.
        if flags_bytes < 3 {
            continue;
        }
        let Some((timestamp_ns, unit, rest)) = time(trim_start(&flags[flags_bytes..])) else {
            continue;
        };
        let pid = Pid(i32::try_from(pid).ok()?);
        let cpu = cpu_id(cpu)?;
        return Some(Header { pid, cpu, timestamp_ns, unit, style: Style::Ftrace, rest });
    }
    None
}

fn cpu_id(number: u64) -> Option<CpuId> {
    (number < CPUS_MAX as u64).then_some(CpuId(number as u32))
}

/// Whose id the text before the CPU ends in: `comm-pid`, `comm pid` or `comm pid/tid`.
fn thread_id(before: &[u8]) -> Option<(Pid, Style)> {
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = before.split_at(before.len() - digits);
    let (pid, _) = decimal(digits)?;
    let pid = Pid(i32::try_from(pid).ok()?);
    match before {
        // An unknown task is -1; any other number behind a dash follows a name.
        [.., b' ' | b'\t' | b'/', b'-'] | [b'-'] if pid == Pid(1) => {
            Some((Pid::UNKNOWN, Style::Perf))
        }
        [.., b'-', b'-'] if pid == Pid(1) => Some((Pid::UNKNOWN, Style::Ftrace)),
        [.., b'-'] => Some((pid, Style::Ftrace)),
        [] | [.., b' ' | b'\t' | b'/'] => Some((pid, Style::Perf)),
        _ => None,
    }
}

/// Removes `( 1234)` or `(-----)` from the end.
fn skip_thread_group_backwards(text: &[u8]) -> &[u8] {
    let [inner @ .., b')'] = text else { return text };
    match inner.iter().rposition(|byte| !is_thread_group(*byte)) {
        Some(open) if inner[open] == b'(' => trim_end(&inner[..open]),
        _ => text,
    }
}

/// Removes `( 1234)` or `(-----)` from the start.
fn skip_thread_group(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"(")?;
    let close = inner.iter().position(|byte| !is_thread_group(*byte))?;
    inner[close..].strip_prefix(b")")
}

fn is_thread_group(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b' ' || byte == b'-'
}

/// A time and its colon: `17.123456:`, `17.123456789:`, `123us+:` or `8812345:`.
#[inline]
fn time(text: &[u8]) -> Option<(u64, Unit, &[u8])> {
    let (whole, rest) = decimal(text)?;
    let (timestamp_ns, unit, rest) = match rest {
        [b'.', fraction @ ..] => {
            let (value, rest) = decimal(fraction)?;
            let digits = fraction.len() - rest.len();
            let scale = 10u64.pow(9u32.checked_sub(u32::try_from(digits).ok()?)?);
            let unit = if digits == 9 { Unit::Nanosecond } else { Unit::Coarse };
            (whole.checked_mul(1_000_000_000)?.checked_add(value * scale)?, unit, rest)
        }
        // A mark for a long delay may follow the unit.
        [b'u', b's', b':', ..] => (whole.checked_mul(1000)?, Unit::Coarse, &rest[2..]),
        [b'u', b's', _, b':', ..] => (whole.checked_mul(1000)?, Unit::Coarse, &rest[3..]),
        _ => (whole, Unit::Tick, rest),
    };
    match rest {
        [b':'] => Some((timestamp_ns, unit, &[])),
        [b':', b' ', rest @ ..] => Some((timestamp_ns, unit, trim_start(rest))),
        _ => None,
    }
}

#[inline]
pub(super) fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

#[inline]
pub(super) fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[..text.len() - blanks]
}

/// Splits what follows the time into the event's name and its body.
///
/// The name is the word before the first colon that a blank follows. perf puts the sample's period
/// before it and the system into it; the kernel's function and syscall lines have no colon, and
/// are named as trace-cmd names them.
#[inline]
pub(super) fn name_and_body<'name, 'line: 'name>(
    header: &Header<'line>,
    scratch: &'name mut Vec<u8>,
) -> (&'name [u8], &'line [u8]) {
    let mut rest = header.rest;
    if header.style == Style::Perf
        && let Some((_, [b' ', after @ ..])) = decimal(rest)
    {
        rest = trim_start(after);
    }
    // `trace-cmd report --ts-diff` prints the distance to the event before.
    if let Some(difference) = rest.strip_prefix(b"(+")
        && let Some(close) = memchr(b')', difference)
    {
        rest = trim_start(&difference[close + 1..]);
    }
    let word_bytes = memchr(b' ', rest).unwrap_or(rest.len());
    let (word, body) = rest.split_at(word_bytes);
    let body = trim_start(body);
    if word.starts_with(b"sys_")
        && let Some(name) = syscall_name(word, body, scratch)
    {
        return (name, body);
    }
    if let Some(name) = word.strip_suffix(b":") {
        return (without_system(name), body);
    }
    if body.starts_with(b"<-") {
        return (b"function", rest);
    }
    match rest {
        [b'<', b's', b't', b'a', b'c', b'k', ..] => (b"kernel_stack", b""),
        [b'<', b'u', b's', b'e', b'r', ..] => (b"user_stack", b""),
        _ => (b"(unnamed)", rest),
    }
}

/// `sched:sched_switch` is `sched_switch`; `cycles:u` stays, for `u` is perf's modifier.
fn without_system(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b':') {
        Some(colon) => {
            let event = &name[colon + 1..];
            let is_modifier = event.iter().all(|byte| b"ukhGHpPSDIWeb".contains(byte));
            if is_modifier { name } else { event }
        }
        None => name,
    }
}

/// `sys_read(fd: 3, ...)` is the event `sys_enter_read`, `sys_read -> 0x1` is `sys_exit_read`.
fn syscall_name<'a>(word: &[u8], body: &[u8], scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let (call, prefix): (&[u8], &[u8]) = match memchr(b'(', word) {
        Some(parenthesis) => (&word[..parenthesis], b"sys_enter_"),
        None if body.starts_with(b"->") => (word, b"sys_exit_"),
        None => return None,
    };
    scratch.clear();
    scratch.extend_from_slice(prefix);
    scratch.extend_from_slice(call.strip_prefix(b"sys_")?);
    Some(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(i32, u32, u64, String, String)> {
        let header = parse(line.as_bytes())?;
        let mut scratch = Vec::new();
        let (name, body) = name_and_body(&header, &mut scratch);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((header.pid.0, header.cpu.0, header.timestamp_ns, text(name), text(body)))
    }

    fn switch(pid: i32, cpu: u32, timestamp_ns: u64) -> Option<(i32, u32, u64, String, String)> {
        Some((pid, cpu, timestamp_ns, "sched_switch".into(), "x=1 y".into()))
    }

    #[test]
    fn every_layout_of_the_kernel_is_read() {
        for line in [
            "          <idle>-0     [003] d..2    17.123456: sched_switch: x=1 y",
            "          <idle>-0       [003] d..2.    17.123456: sched_switch: x=1 y",
            "          <idle>-0     [003] 17.123456: sched_switch: x=1 y",
            "          <idle>-0     (-----) [003] d..2    17.123456: sched_switch: x=1 y",
            "<idle>-0     (  959) [003] dNh3.   17.123456: sched_switch: x=1 y",
            "          <idle>-0     [003] (  959) d..2    17.123456: sched_switch: x=1 y",
            "  <idle>-0       3d..2.    17.123456: sched_switch: x=1 y",
            "  <idle>-0       3d..2. 17123456us+: sched_switch: x=1 y",
            "  <idle>-0       3d..2 17123456us : sched_switch: x=1 y",
            "\t  <idle>-0     [003]    17.123456: sched_switch:          x=1 y",
            "  second:           <idle>-0     [003]    17.123456: sched_switch:          x=1 y",
            "  <idle>-0     [003]    17.123456: (+12) sched_switch:          x=1 y",
        ] {
            assert_eq!(parsed(line), switch(0, 3, 17_123_456_000), "{line}");
        }
    }

    #[test]
    fn every_layout_of_perf_is_read() {
        for line in [
            "         swapper     0 [003]    17.123456789:       sched:sched_switch: x=1 y",
            "         swapper     0/0     [003]    17.123456789: sched:sched_switch: x=1 y",
            "         swapper     0 [003]    17.123456789:          1 sched:sched_switch: x=1 y",
            "   my 7 [0] task     0 [003]    17.123456789:          1 sched:sched_switch: x=1 y",
        ] {
            assert_eq!(parsed(line), switch(0, 3, 17_123_456_789), "{line}");
        }
        let unknown = "  :-1    -1 [003]    17.123456789: sched:sched_switch: x=1 y";
        assert_eq!(parsed(unknown), switch(-1, 3, 17_123_456_789));
    }

    #[test]
    fn task_names_may_hold_anything() {
        for comm in
            ["a b", "rs:main Q:Reg", "x-3 [001]", "a-1 [000] 5.0", "[kthread]", "<...>", "-"]
        {
            let line = format!("{comm}-77 [002] .... 5.000001: sched_switch: x=1 y");
            assert_eq!(parsed(&line), switch(77, 2, 5_000_001_000), "{line}");
        }
    }

    #[test]
    fn names_follow_the_printer() {
        let name = |rest: &str| parsed(&format!("a-1 [000] d... 1.0: {rest}")).map(|seen| seen.3);
        assert_eq!(name("0: B|124|x").as_deref(), Some("0"));
        assert_eq!(name("do_idle <-cpu_startup_entry").as_deref(), Some("function"));
        assert_eq!(name("sys_read(fd: 3, buf: 0)").as_deref(), Some("sys_enter_read"));
        assert_eq!(name("sys_read -> 0x1").as_deref(), Some("sys_exit_read"));
        assert_eq!(name("<stack trace>").as_deref(), Some("kernel_stack"));
        assert_eq!(name("what is this").as_deref(), Some("(unnamed)"));
        let perf = parsed("a 1 [000] 1.0: 250000 cycles:u:  ffffffff81 f ([k])");
        assert_eq!(perf.map(|seen| seen.3).as_deref(), Some("cycles:u"));
    }

    #[test]
    fn units_are_told_apart() {
        let unit = |time: &str| {
            parse(format!("a-1 [000] {time}: x: y").as_bytes()).map(|h| (h.timestamp_ns, h.unit))
        };
        assert_eq!(unit("1.5"), Some((1_500_000_000, Unit::Coarse)));
        assert_eq!(unit("1.000000005"), Some((1_000_000_005, Unit::Nanosecond)));
        assert_eq!(unit("15"), Some((15, Unit::Tick)));
        assert_eq!(unit("1.0000000005"), None);
        assert_eq!(unit("99999999999999.0"), None);
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "[",
            "# tracer: nop",
            "cpus=4",
            "CPU:3 [LOST 12 EVENTS]",
            " gid=4",
            "\tffffffff81000000 do_idle+0x10 ([kernel.kallsyms])",
            "a-1 [99999] 1.0: x: y",
            "a-1 [000] 1.0 x y",
            "a [000] 1.0: x: y",
            "a-99999999999 [000] 1.0: x: y",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}

//! Lines that are not events: headers, marks of lost events, stacks.

use super::fields::decimal;
use super::header::trim_start;
use schedlab_machine::{CPUS_MAX, CpuId};

/// What a line that is no event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special<'a> {
    /// The printer's name.
    Printer(Printer),
    /// The machine has this many CPUs, numbered from 0.
    Cpus(u32),
    /// The kernel release.
    Release(&'a [u8]),
    /// The trace clock.
    Clock(&'a [u8]),
    /// So many events were overwritten before the first one of the text.
    Overwritten(u64),
    /// The CPU lost so many events here (0: not told).
    Lost(CpuId, u64),
    /// Nothing to learn, and nothing lost.
    Ignored,
    /// No trace has such a line.
    Foreign,
}

/// Which tool printed a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printer {
    /// `trace-cmd report`.
    TraceCmd,
    /// The kernel's `trace` file.
    Ftrace,
    /// `perf script`.
    Perf,
}

/// Understands a line that [`super::header::parse`] refused.
pub(super) fn parse(line: &[u8]) -> Special<'_> {
    let text = trim_start(line);
    match text {
        [] => Special::Ignored,
        [b'#', comment @ ..] => self::comment(trim_start(comment)),
        [b'=', b'>', ..] => Special::Ignored,
        _ => plain(text, line.len() != text.len()),
    }
}

fn comment(text: &[u8]) -> Special<'_> {
    if text.starts_with(b"tracer: ") {
        return Special::Printer(Printer::Ftrace);
    }
    if text.starts_with(b"captured on") {
        return Special::Printer(Printer::Perf);
    }
    if let Some(counts) = text.strip_prefix(b"entries-in-buffer/entries-written: ")
        && let Some((kept, rest)) = decimal(counts)
        && let Some((written, rest)) = rest.strip_prefix(b"/").and_then(decimal)
    {
        let cpus = trim_start(rest).strip_prefix(b"#P:").and_then(cpus);
        return match (written.saturating_sub(kept), cpus) {
            (0, Some(cpus)) => Special::Cpus(cpus),
            (0, None) => Special::Ignored,
            (overwritten, _) => Special::Overwritten(overwritten),
        };
    }
    // perf pads the keys of its header, so the value is behind the colon.
    for (key, meaning) in [
        (&b"os release"[..], Special::Release as fn(_) -> _),
        (b"clockid: ", Special::Clock),
        (b"nrcpus avail", |text| cpus(text).map_or(Special::Ignored, Special::Cpus)),
    ] {
        if let Some(value) = text.strip_prefix(key) {
            let value = trim_start(value);
            return meaning(value.strip_prefix(b":").map_or(value, trim_start));
        }
    }
    Special::Ignored
}

fn plain(text: &[u8], indented: bool) -> Special<'_> {
    if let Some(cpus) = text.strip_prefix(b"cpus=").and_then(cpus) {
        return if cpus == 0 { Special::Ignored } else { Special::Cpus(cpus) };
    }
    if text.starts_with(b"version = ") {
        return Special::Printer(Printer::TraceCmd);
    }
    if let Some(lost) = lost(text) {
        return lost;
    }
    // What Android's atrace says before the text.
    if text == b"TRACE:" {
        return Special::Ignored;
    }
    if let Some(rest) = text.strip_prefix(b"CPU ").and_then(decimal).map(|(_, rest)| rest)
        && rest == b" is empty"
    {
        return Special::Ignored;
    }
    // A frame of a call chain: an address and a symbol.
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if indented && (6..=16).contains(&digits) && matches!(text.get(digits), None | Some(b' ')) {
        return Special::Ignored;
    }
    Special::Foreign
}

fn cpus(text: &[u8]) -> Option<u32> {
    let (cpus, _) = decimal(text)?;
    (cpus <= CPUS_MAX as u64).then_some(cpus as u32)
}

/// `CPU:3 [LOST 12 EVENTS]` of the kernel, `CPU:3 [12 EVENTS DROPPED]` of trace-cmd; both without
/// the number where it is unknown. trace-cmd may put a buffer's name before it.
fn lost(text: &[u8]) -> Option<Special<'_>> {
    let inner = text.strip_suffix(b"]")?;
    let open = inner.iter().rposition(|&byte| byte == b'[')?;
    let mut words = inner[open + 1..].split(|&byte| byte == b' ');
    let count = match (words.next(), words.next(), words.next(), words.next()) {
        (Some(b"LOST"), Some(b"EVENTS"), None, None) => 0,
        (Some(b"EVENTS"), Some(b"DROPPED"), None, None) => 0,
        (Some(b"LOST"), Some(count), Some(b"EVENTS"), None)
        | (Some(count), Some(b"EVENTS"), Some(b"DROPPED"), None) => decimal(count)?.0,
        _ => return None,
    };
    let before = &inner[..open];
    let at = memchr::memmem::rfind(before, b"CPU:")?;
    let (cpu, rest) = decimal(&before[at + b"CPU:".len()..])?;
    let known = cpu < CPUS_MAX as u64 && trim_start(rest).is_empty();
    known.then_some(Special::Lost(CpuId(cpu as u32), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_understood() {
        for (line, expected) in [
            ("version = 6", Special::Printer(Printer::TraceCmd)),
            ("cpus=4", Special::Cpus(4)),
            ("# tracer: nop", Special::Printer(Printer::Ftrace)),
            ("# entries-in-buffer/entries-written: 7/7   #P:8", Special::Cpus(8)),
            ("# entries-in-buffer/entries-written: 7/9   #P:8", Special::Overwritten(2)),
            ("# captured on    : Sat Nov 21", Special::Printer(Printer::Perf)),
            ("# os release : 6.12.117", Special::Release(b"6.12.117")),
            ("# nrcpus avail : 8", Special::Cpus(8)),
            ("# clockid: monotonic (1)", Special::Clock(b"monotonic (1)")),
            ("#           TASK-PID    CPU#    TIMESTAMP  FUNCTION", Special::Ignored),
            ("CPU 3 is empty", Special::Ignored),
            ("TRACE:", Special::Ignored),
            ("", Special::Ignored),
            ("cpus=99999", Special::Foreign),
            ("what", Special::Foreign),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn losses_are_understood_in_every_spelling() {
        for (line, cpu, count) in [
            ("CPU:3 [LOST 12 EVENTS]", 3, 12),
            ("CPU:3 [LOST EVENTS]", 3, 0),
            ("CPU:0 [12 EVENTS DROPPED]", 0, 12),
            ("CPU:0 [EVENTS DROPPED]", 0, 0),
            ("   second: CPU:7 [12 EVENTS DROPPED]", 7, 12),
        ] {
            assert_eq!(parse(line.as_bytes()), Special::Lost(CpuId(cpu), count), "{line}");
        }
        assert_eq!(parse(b"CPU:x [LOST 12 EVENTS]"), Special::Foreign);
    }

    #[test]
    fn call_chains_are_no_damage() {
        for line in [
            "\tffffffff81000000 do_idle+0x10 ([kernel.kallsyms])",
            "            7f1234 [unknown] (/usr/lib/libc.so)",
            " => do_idle",
            "=> do_idle (ffffffff81000000)",
        ] {
            assert_eq!(parse(line.as_bytes()), Special::Ignored, "{line}");
        }
        assert_eq!(parse(b"ffffffff81000000 at the margin"), Special::Foreign);
    }
}

//! Traces as text: the kernel's `trace` and `trace_pipe` files, `trace-cmd report`, `perf script`,
//! Android's systrace as text and as HTML.
//!
//! Text is read line by line through one buffer, so memory does not grow with the file. What text
//! cannot tell becomes a row of [`crate::Summary::quality`]: microseconds instead of nanoseconds, lines
//! that no trace has, events whose fields are missing, losses. Lines may be out of time order by
//! up to 4,096 events; later ones are left out, with a row that says so.
//!
//! Events of one printed time keep the order of their lines, across CPUs too: whoever printed them
//! had sorted them by a clock finer than the printed one.

mod body;
mod fields;
mod header;
mod lines;
mod markup;
mod order;
mod source;
mod special;
mod state;
mod tally;

use crate::error::TraceError;
use crate::input::Input;
use crate::source::EventSource;

pub use source::TextSource;

/// Whether the event schema has a place for events of this tracepoint.
pub(crate) fn is_in_schema(name: &str) -> bool {
    body::decoder(name.as_bytes()).is_some()
}

/// True when `head`, the beginning of a file, is a textual trace: it has an event line, or a
/// comment that only trace printers write, or is an HTML page (whose trace comes later).
///
/// ```
/// use schedlab_trace::text::sniff;
/// assert!(sniff(b"# tracer: nop\n#\n"));
/// assert!(sniff(b"  sh-12  [003]  17.123456: cpu_idle: state=1 cpu_id=3\n"));
/// assert!(!sniff(b"Architecture: x86_64\nCPU(s): 4\n"));
/// ```
pub fn sniff(head: &[u8]) -> bool {
    if markup::sniff(head) {
        return true;
    }
    head.split(|&byte| byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        header::parse(line).is_some_and(|header| !header.rest.is_empty())
            || matches!(special::parse(line), special::Special::Printer(_))
    })
}

/// Starts reading a textual trace, for the registry.
pub(crate) fn open(input: Input) -> Result<Box<dyn EventSource>, TraceError> {
    let is_html = markup::sniff(&input.bytes_at(0, HEAD_BYTES)?);
    let source = TextSource::new(input.reader(), input.path(), input.length(), is_html);
    Ok(Box::new(source))
}

/// Enough to see past a byte order mark and blanks.
const HEAD_BYTES: usize = 1024;

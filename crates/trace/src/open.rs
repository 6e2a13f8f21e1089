//! The registry of readers. Content decides which one reads a file; nobody names a format.

use crate::error::TraceError;
use crate::input::Input;
use crate::source::EventSource;
use std::path::Path;

/// One trace format.
struct Reader {
    /// Whether the first bytes of a file are of this format.
    knows: fn(&[u8]) -> bool,
    /// Starts reading.
    open: fn(Input) -> Result<Box<dyn EventSource>, TraceError>,
}

/// Asked in this order; binary magics first, so that the laxer text rules come last.
const READERS: &[Reader] = &[
    Reader { knows: crate::dat::knows, open: crate::dat::open },
    Reader { knows: crate::perf::knows, open: crate::perf::open },
    Reader { knows: crate::perfetto::knows, open: crate::perfetto::open },
    Reader { knows: crate::text::sniff, open: crate::text::open },
];

/// How much of a file's beginning the readers are shown. Systrace HTML puts a viewer of several
/// hundred kilobytes before the data, but says what it is in its first lines.
const HEAD_BYTES: usize = 64 << 10;

/// Opens a trace of whatever known format.
///
/// ```no_run
/// let mut source = schedlab_trace::open("trace.dat".as_ref())?;
/// let mut events = Vec::new();
/// while source.read_batch(&mut events)? {
///     events.clear();
/// }
/// println!("{:?}", source.summary().event_counts);
/// # Ok::<(), schedlab_trace::TraceError>(())
/// ```
///
/// # Errors
/// [`TraceError::UnknownFormat`] when no reader knows the content, and what that reader says when
/// nothing in it can be read.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, TraceError> {
    open_input(Input::open(path)?)
}

/// As [`open`], of bytes in memory, which messages call `name`.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(name: &str, bytes: &[u8]) -> Result<Box<dyn EventSource>, TraceError> {
    open_input(Input::from_bytes(name, bytes))
}

fn open_input(input: Input) -> Result<Box<dyn EventSource>, TraceError> {
    let head = input.bytes_at(0, HEAD_BYTES)?;
    match READERS.iter().find(|reader| (reader.knows)(&head)) {
        Some(reader) => (reader.open)(input),
        None => Err(TraceError::UnknownFormat {
            path: input.path().to_path_buf(),
            first: printable(&head),
        }),
    }
}

/// The first bytes as a message shows them.
fn printable(head: &[u8]) -> String {
    if head.is_empty() {
        return "none, the file is empty".to_owned();
    }
    head.iter()
        .take(16)
        .flat_map(|&byte| std::ascii::escape_default(byte))
        .map(char::from)
        .collect()
}

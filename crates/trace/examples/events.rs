//! Prints a trace's events, one a line, then its summary: for comparing with other tools.
//!
//! ```sh
//! cargo run --release -p schedlab-trace --example events -- trace.dat
//! ```

use schedlab_trace::{EventSource, TraceError};
use std::io::{self, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().ok_or("name a trace file")?;
    let quiet = arguments.next().is_some_and(|argument| argument == "--summary");
    let mut source = schedlab_trace::open(path.as_ref())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    print_events(&mut *source, quiet, &mut out)??;
    let (summary, _) = source.finish();
    writeln!(out, "{summary:#?}")?;
    Ok(())
}

fn print_events(
    source: &mut dyn EventSource,
    quiet: bool,
    out: &mut impl Write,
) -> Result<io::Result<()>, TraceError> {
    let mut events = Vec::new();
    let mut written = Ok(());
    while written.is_ok() && source.read_batch(&mut events)? {
        if !quiet {
            written = events.iter().try_for_each(|event| {
                let (nanoseconds, cpu) = (event.timestamp_ns, event.cpu);
                writeln!(out, "{nanoseconds} {cpu} {} {:?}", event.pid.0, event.kind)
            });
        }
        events.clear();
    }
    Ok(written)
}

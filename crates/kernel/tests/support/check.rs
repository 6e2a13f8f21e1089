//! Reads vectors and compares.

use std::fs;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lzma_rust2::XzReader;

use super::Set;

/// Mismatches that are shown in full; the rest are counted.
const SHOWN_MAX: usize = 5;

/// A line that differs.
pub struct Mismatch {
    /// Of the input, from 1.
    pub line: usize,
    pub command: String,
    pub expected: String,
    pub got: String,
}

/// What the comparison of one set found.
pub struct Report {
    /// Output lines compared.
    pub lines: usize,
    /// How many of them differ.
    pub mismatches: usize,
    /// The first few of these.
    pub shown: Vec<Mismatch>,
}

/// The text of `name` in `directory`, plain or as `name.xz`; none if there is neither.
fn read(directory: &Path, name: &str) -> io::Result<Option<String>> {
    let plain = directory.join(name);
    if plain.exists() {
        return fs::read_to_string(plain).map(Some);
    }
    let packed = directory.join(format!("{name}.xz"));
    if !packed.exists() {
        return Ok(None);
    }
    let mut text = String::new();
    XzReader::new(fs::File::open(packed)?, true).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn is_command(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// Compares one set in `directory`; none if its output is not there.
pub fn check(set: &Set, directory: &Path) -> Result<Option<Report>, String> {
    let load = |name: &str| {
        read(directory, name).map_err(|error| format!("{name} cannot be read: {error}"))
    };
    let Some(output) = load(set.output)? else { return Ok(None) };
    let input = load(set.input)?
        .ok_or_else(|| format!("its input {} is not in {}", set.input, directory.display()))?;
    catch_unwind(AssertUnwindSafe(|| compare(set, &input, &output))).map(Some).map_err(|panic| {
        let reason = panic.downcast_ref::<String>().map_or("no reason given", String::as_str);
        format!("its driver gave up: {reason}")
    })
}

fn compare(set: &Set, input: &str, output: &str) -> Report {
    let mut command = (set.driver)();
    let mut expected = output.lines().filter(|line| is_command(line));
    let mut report = Report { lines: 0, mismatches: 0, shown: Vec::new() };
    let mut last_line = 0;
    for (index, text) in input.lines().enumerate().filter(|(_, line)| is_command(line)) {
        let Some(got) = command(text) else { continue };
        last_line = index + 1;
        let expected = expected.next().unwrap_or("(no more lines)");
        report.note(last_line, text, expected, &got);
    }
    for unclaimed in expected {
        report.note(last_line, "(end of input)", unclaimed, "(nothing)");
    }
    report
}

impl Report {
    fn note(&mut self, line: usize, command: &str, expected: &str, got: &str) {
        self.lines += 1;
        if expected == got {
            return;
        }
        self.mismatches += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(Mismatch {
                line,
                command: command.to_owned(),
                expected: expected.to_owned(),
                got: got.to_owned(),
            });
        }
    }
}

//! Any text as a table of `perf c2c`: no panic, and no more rows than lines.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let table = schedlab_trace::c2c::parse(&text);
    let rows: usize = table.lines.iter().map(|line| 1 + line.places.len()).sum();
    assert!(rows + table.unread.len() <= text.lines().count());
});

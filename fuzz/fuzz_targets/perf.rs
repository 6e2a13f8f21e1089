//! `perf.data` as a file or a stream, of any byte order, compressed or not.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| schedlab_fuzz::read("fuzz.data", bytes));

//! `trace.dat` of any version, byte order and compression.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| schedlab_fuzz::read("fuzz.dat", bytes));

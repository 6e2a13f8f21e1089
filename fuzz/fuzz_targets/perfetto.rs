//! Perfetto protobuf traces, compressed or not.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| schedlab_fuzz::read("fuzz.pftrace", bytes));

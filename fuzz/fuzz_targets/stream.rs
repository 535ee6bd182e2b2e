//! Any bytes as a stream that arrives in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_stream(bytes));

//! Any bytes as the lines of a recording.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_recorded_lines(bytes));

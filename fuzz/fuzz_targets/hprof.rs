//! Any bytes, as a Java heap dump.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_hprof(bytes));

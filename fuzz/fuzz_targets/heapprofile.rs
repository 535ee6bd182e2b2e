//! Any bytes as a profile of V8's sampling heap profiler.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_profile("v8-sampling", bytes));

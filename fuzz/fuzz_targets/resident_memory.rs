//! Any bytes as the texts, pages and blocks of a process.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_resident(bytes));

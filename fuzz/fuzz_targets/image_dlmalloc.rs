//! A real image with any changes, through the lens for dlmalloc heaps.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::examine_dlmalloc(bytes));

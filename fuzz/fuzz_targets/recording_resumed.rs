//! Going on with any bytes as a recording whose checksums all hold.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| highwater_fuzz::go_on_with_recording(&highwater_fuzz::reseal(bytes)));

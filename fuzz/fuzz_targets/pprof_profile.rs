//! Any bytes as a pprof profile. Compressed ones are left out: what they hold is in no proportion to their length.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        highwater_fuzz::examine_profile("pprof", bytes);
    }
});

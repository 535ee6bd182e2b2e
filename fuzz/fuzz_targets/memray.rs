//! Any bytes as a capture of memray. Compressed ones are left out: what they hold is in no proportion to their length.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if !bytes.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
        highwater_fuzz::examine_history("memray", bytes);
    }
});

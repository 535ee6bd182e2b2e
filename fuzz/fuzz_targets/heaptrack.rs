//! Any bytes as a file of heaptrack. Compressed ones are left out: what they hold is in no proportion to their length.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let is_compressed = bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || bytes.starts_with(&[0x1f, 0x8b]);
    if !is_compressed {
        highwater_fuzz::examine_history("heaptrack", bytes);
    }
});

//! Any bytes as a WASM module, up to where it would be run.
#![no_main]

use highwater_host::module::Module;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Module::new("fuzzed", bytes);
});

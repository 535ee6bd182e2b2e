//! Any bytes as a WASM module: the facts that lenses and the host read, up to where it would be run.
#![no_main]

use highwater_host::module::HostModule;
use highwater_image::WasmModule;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = HostModule::new("fuzzed", bytes);
    if let Ok(module) = WasmModule::parse(bytes) {
        for (_, function) in module.functions_in_table() {
            let _ = module.instructions_in(function).map(Iterator::count);
        }
    }
});

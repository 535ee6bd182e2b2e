//! The types of any WASM module or ELF file, from its DWARF or the names of its functions: no panic, and a result as small as the file.
#![no_main]

use highwater_symbols::types::{ProgramTypes, types_in};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(found) = ProgramTypes::of(bytes) {
        assert!(found.types.iter().all(|each| each.is_dropped || each.is_held));
        assert!(found.types.is_sorted_by(|a, b| a.size >= b.size), "largest first");
    }
    // Names of types in logs are hostile, too.
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(types_in(text).all(|path| !path.is_empty()));
    }
});

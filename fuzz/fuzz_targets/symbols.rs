//! Any bytes as a program with debug information, and as a mangled name.
#![no_main]

use highwater_symbols::{ModuleMapping, Symbolizer, demangle};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    std::hint::black_box(demangle(&String::from_utf8_lossy(&bytes[..bytes.len().min(512)])));
    let path = std::env::temp_dir().join(format!("highwater-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    let mapping = ModuleMapping { path: &path, build_id: "", start: 0x10_0000, file_offset: 0 };
    if let Ok(module) = Symbolizer::new().module(&mapping) {
        for offset in [0, 0x1000, 0x1139, 0x2000, u64::MAX / 2] {
            std::hint::black_box(module.lookup(0x10_0000 + offset));
        }
    }
});

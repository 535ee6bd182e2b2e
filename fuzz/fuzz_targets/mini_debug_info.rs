//! Any bytes as the compressed symbol table of a stripped program.
#![no_main]

use highwater_symbols::{ModuleMapping, Symbolizer};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 64;
const NAMES: &[u8] = b"\0.gnu_debugdata\0.shstrtab\0";

/// An ELF file with nothing but this section, and a segment so that addresses belong to it.
fn program(content: &[u8]) -> Vec<u8> {
    let (segment_at, content_at) = (HEADER as u64, HEADER as u64 + 56);
    let names_at = content_at + content.len() as u64;
    let sections_at = names_at + NAMES.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    // A shared object for x86-64.
    put(&[3, 0, 62, 0, 1, 0, 0, 0]);
    [0, segment_at, sections_at].iter().for_each(|number: &u64| put(&number.to_le_bytes()));
    put(&[0; 4]);
    [64u16, 56, 1, 64, 3, 2].iter().for_each(|number| put(&number.to_le_bytes()));
    put(&[1, 0, 0, 0, 5, 0, 0, 0]);
    [0u64, 0, 0, 0x10_0000, 0x10_0000, 0x1000].iter().for_each(|number| put(&number.to_le_bytes()));
    put(content);
    put(NAMES);
    put(&[0; 64]);
    for (name, kind, at, size) in [(1u32, 1u32, content_at, content.len()), (16, 3, names_at, NAMES.len())] {
        put(&name.to_le_bytes());
        put(&kind.to_le_bytes());
        [0, 0, at, size as u64, 0, 1, 0].iter().for_each(|number: &u64| put(&number.to_le_bytes()));
    }
    file
}

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("highwater-fuzz-mini-{}", std::process::id()));
    std::fs::write(&path, program(bytes)).expect("a temporary file can be written");
    let mapping = ModuleMapping { path: &path, build_id: "", start: 0x10_0000, file_offset: 0 };
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.module(&mapping).expect("the outer file is sound");
    for offset in [0, 0x1000, 0x1139, 0x2000] {
        std::hint::black_box(module.lookup(0x10_0000 + offset));
    }
});

//! Programs and libraries that print where they are mapped.

mod workshop;

use std::path::{Path, PathBuf};

use highwater_symbols::{ModuleMapping, SymbolError, Symbolizer};
use workshop::{BASE, Workshop, at_base};

/// One line of `/proc/self/maps`.
struct MappedPart {
    start: u64,
    file_offset: u64,
    path: PathBuf,
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn mapped_parts(output: &str) -> Vec<MappedPart> {
    let parts = output.lines().filter_map(|line| {
        let [range, _, offset, _, _, path] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let start = hexadecimal(range.split_once('-')?.0);
        Some(MappedPart { start, file_offset: hexadecimal(offset), path: path.into() })
    });
    parts.collect()
}

fn printed_address(output: &str, function: &str) -> u64 {
    let line = output.lines().find(|line| line.starts_with(function)).unwrap();
    hexadecimal(line.split_whitespace().nth(1).unwrap())
}

/// The function must be found from each of the file's mappings, except mappings with the same offset as an earlier one.
fn assert_found_from_every_mapping(output: &str, file: &Path, function: &str) {
    let address = printed_address(output, function);
    let mut parts: Vec<_> = mapped_parts(output).into_iter().filter(|part| part.path == file).collect();
    parts.sort_by_key(|part| (part.file_offset, part.start));
    parts.dedup_by_key(|part| part.file_offset);
    assert!(parts.len() > 1, "{output}");
    let mut symbolizer = Symbolizer::new();
    for part in parts {
        let mapping = ModuleMapping { path: file, build_id: "", start: part.start, file_offset: part.file_offset };
        let frames = symbolizer.module(&mapping).unwrap().lookup(address);
        assert_eq!(frames.len(), 1, "mapping at {:#x}", part.start);
        assert_eq!((frames[0].function.as_ref(), frames[0].inlined), (function, false));
    }
}

#[test]
fn functions_of_fixed_and_movable_programs_and_libraries_are_found() {
    let workshop = Workshop::new("mappings");
    let library = workshop.compile("cc -g -O2 -shared -fPIC -Wl,-soname,library.so", "library.c", "library.so");
    let link = "-Wl,--no-as-needed library.so -Wl,-rpath,$ORIGIN";
    for (name, flags) in [
        ("movable", "-fpie -pie"),
        ("fixed", "-fno-pie -no-pie"),
        ("fixed-elsewhere", "-fno-pie -no-pie -Wl,-Ttext-segment=0x10000000"),
        ("few-segments", "-fpie -pie -Wl,-z,noseparate-code"),
    ] {
        let program = workshop.compile(&format!("cc -g -O2 {flags} {link}"), "whereabouts.c", name);
        let output = workshop.run(&format!("./{name}"));
        assert_found_from_every_mapping(&output, &program, "function_of_program");
        assert_found_from_every_mapping(&output, &library, "function_of_library");
    }
}

#[test]
fn one_file_can_be_mapped_twice() {
    let workshop = Workshop::new("mapped_twice");
    let program = workshop.compile("cc -g -O2 -fpie -pie", "plain.c", "plain");
    let outer = workshop.function(&program, "outer").start;
    let mut symbolizer = Symbolizer::new();
    for start in [BASE, BASE + 0x100_0000] {
        let mapping = ModuleMapping { start, ..at_base(&program, "") };
        let module = symbolizer.module(&mapping).unwrap();
        assert_eq!(module.lookup(start + outer).last().unwrap().function.as_ref(), "outer");
        assert!(module.lookup(start + 0x100_0000 + outer).is_empty());
        assert!(module.lookup(u64::MAX).is_empty());
        assert!(module.lookup(0).is_empty());
    }
}

#[test]
fn what_has_no_symbols_says_why() {
    let workshop = Workshop::new("reasons");
    let program = workshop.compile("cc -O2", "plain.c", "plain");
    let missing = workshop.path("missing");
    let text = workshop::programs().join("plain.c");
    let mut symbolizer = Symbolizer::new();
    let mut reason = |path: &Path, file_offset| {
        let mapping = ModuleMapping { path, build_id: "", start: BASE, file_offset };
        symbolizer.module(&mapping).err().unwrap()
    };
    for path in ["[vdso]", "[heap]", ""] {
        assert_eq!(reason(Path::new(path), 0), SymbolError::NotAFile { path: path.into() });
    }
    assert_eq!(reason(&missing, 0), SymbolError::Missing { path: missing.clone() });
    let deleted = PathBuf::from(format!("{} (deleted)", program.display()));
    assert_eq!(reason(&deleted, 0), SymbolError::Missing { path: deleted.clone() });
    let expected = SymbolError::Unreadable { path: text.clone(), reason: "not an ELF file".to_owned() };
    assert_eq!(reason(&text, 0), expected);
    assert!(matches!(reason(&workshop.path(""), 0), SymbolError::Unreadable { .. }));
    let file_offset = 1 << 30;
    assert_eq!(reason(&program, file_offset), SymbolError::Unplaced { path: program.clone(), file_offset });
}

//! The types of programs that print the sizes of their own types: DWARF must agree with the program.

mod workshop;

use std::fs;
use std::path::{Path, PathBuf};

use highwater_symbols::types::{ProgramType, ProgramTypes, TypesError};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use workshop::Workshop;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/types").join(name);
    zstd::decode_all(fs::File::open(path).unwrap()).unwrap()
}

fn types_of(file: &[u8]) -> Vec<ProgramType> {
    ProgramTypes::of(file).unwrap().types
}

/// Each line of a program: the name of a type, and its size.
fn printed(shop: &Workshop, program: &Path) -> Vec<(String, u64)> {
    let mut types: Vec<(String, u64)> = shop
        .run(program.to_str().unwrap())
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, size)| (name.to_owned(), size.parse().unwrap()))
        .collect();
    types.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    types
}

fn sizes(types: &[ProgramType]) -> Vec<(String, u64)> {
    types.iter().map(|each| (each.name.clone(), each.size.unwrap_or(0))).collect()
}

fn compiled(shop: &Workshop, compiler: &str, source: &str) -> (PathBuf, Vec<u8>) {
    let program = shop.compile(compiler, source, "owners");
    let bytes = fs::read(&program).unwrap();
    (program, bytes)
}

#[test]
fn types_of_rust_have_the_sizes_that_the_program_prints() {
    let shop = Workshop::new("types-rust");
    for options in ["", "-O"] {
        let (program, bytes) = compiled(&shop, &format!("rustc --edition 2024 -g {options}"), "owners.rs");
        let types = types_of(&bytes);
        assert_eq!(sizes(&types), printed(&shop, &program));
        let dropped: Vec<&str> = types.iter().filter(|each| !each.is_dropped).map(|each| each.name.as_str()).collect();
        assert_eq!(dropped, ["owners::prover::Point"], "all others own memory");
        let table = types.iter().find(|each| each.name.ends_with("Table")).unwrap();
        assert_eq!(table.variants, Some(2));
    }
}

#[test]
fn classes_and_structs_have_the_sizes_that_the_program_prints() {
    let shop = Workshop::new("types-c");
    for (compiler, source) in [("g++ -g", "owners.cpp"), ("g++ -g -gz", "owners.cpp"), ("gcc -g", "owners.c")] {
        let (program, bytes) = compiled(&shop, compiler, source);
        assert_eq!(sizes(&types_of(&bytes)), printed(&shop, &program), "{compiler} {source}");
    }
}

#[test]
fn without_dwarf_the_names_of_functions_show_the_same_types() {
    let shop = Workshop::new("types-names");
    let (_, bytes) = compiled(&shop, "g++", "owners.cpp");
    let found = ProgramTypes::of(&bytes).unwrap();
    assert!(!found.has_sizes && found.functions > 10);
    let mut names: Vec<&str> = found.types.iter().map(|each| each.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["demo::Buffer", "demo::Item", "demo::Stack"]);
    assert!(found.types.iter().all(|each| each.size.is_none() && each.functions > 0));
}

#[test]
fn a_module_has_its_types_in_dwarf_or_in_names() {
    let types = types_of(&fixture("owners.wasm.zst"));
    let own = |name: &str, size| (format!("owners::prover::{name}"), size);
    // Vectors have 12 bytes there, texts too.
    assert_eq!(
        sizes(&types),
        [own("Proof", 176), own("Point", 64), own("Table", 24), own("Message", 16), own("Guard", 4)]
    );
    let found = ProgramTypes::of(&fixture("names.wasm.zst")).unwrap();
    assert!(!found.has_sizes);
    let mut names: Vec<&str> = found.types.iter().map(|each| each.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["Guard", "Message", "Point", "Proof", "Table"].map(|name| format!("owners::prover::{name}")));
    let dropped = |name: &str| found.types.iter().any(|each| each.name.ends_with(name) && each.is_dropped);
    assert!(dropped("Proof") && dropped("Table") && dropped("Guard") && dropped("Message") && !dropped("Point"));
}

#[test]
fn an_object_file_is_not_taken_for_a_program() {
    let shop = Workshop::new("types-object");
    let (_, bytes) = compiled(&shop, "gcc -g -c", "owners.c");
    assert_eq!(ProgramTypes::of(&bytes).unwrap_err(), TypesError::Unlinked);
}

#[test]
fn other_files_are_an_error_that_says_where() {
    assert_eq!(ProgramTypes::of(b"no module").unwrap_err(), TypesError::UnknownFile);
    assert_eq!(ProgramTypes::of(b"\0asm\x01\0\0\0").unwrap_err(), TypesError::NoNames);
    let whole = fixture("owners.wasm.zst");
    let TypesError::Malformed { offset, .. } = ProgramTypes::of(&whole[..whole.len() / 2]).unwrap_err() else {
        panic!("a module that is cut is malformed");
    };
    assert!(offset > 8 && offset <= whole.len());
    assert!(matches!(ProgramTypes::of(b"\x7fELF\x02\x01").unwrap_err(), TypesError::Malformed { .. }));
    // An abbreviation that does not exist.
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    let unit = [12u8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 4, 9, 9, 9, 9, 9];
    module.extend([0, (12 + unit.len()) as u8, 11]);
    module.extend(b".debug_info");
    module.extend(unit);
    let error = ProgramTypes::of(&module).unwrap_err();
    assert!(matches!(error, TypesError::Dwarf { offset: 0, .. }), "{error}");
    assert!(error.to_string().contains("at byte 0 of .debug_info"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn damaged_modules_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), cut in any::<prop::sample::Index>(), is_cut in any::<bool>()) {
        for name in ["owners.wasm.zst", "names.wasm.zst"] {
            let mut module = fixture(name);
            for (at, value) in &changes {
                let at = at.index(module.len());
                module[at] = *value;
            }
            if is_cut {
                module.truncate(cut.index(module.len()));
            }
            let _ = ProgramTypes::of(&module);
        }
    }
}

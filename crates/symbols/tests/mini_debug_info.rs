//! Compressed mini symbol tables, made as the manual of gdb says ("MiniDebugInfo").

mod workshop;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use highwater_symbols::Symbolizer;
use workshop::{Workshop, at_base, frames};

/// The names of a file's functions, according to `nm`.
fn names_by_nm(workshop: &Workshop, options: &str, file: &str) -> HashSet<String> {
    let listing = workshop.run(&format!("nm --format=posix --defined-only {options} {file}"));
    let fields = listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| ["T", "t", "D"].contains(&fields[1])).map(|fields| fields[0].to_owned()).collect()
}

/// A shared library without its symbol table, but with a compressed one inside.
fn library_with_mini_debug_info(workshop: &Workshop) -> (PathBuf, PathBuf) {
    let original = workshop.compile("cc -g -O2 -shared -fPIC", "plain.c", "original.so");
    let exported = names_by_nm(workshop, "-D", "original.so");
    let mut kept: Vec<String> = names_by_nm(workshop, "", "original.so").difference(&exported).cloned().collect();
    kept.sort();
    assert!(kept.contains(&"only_local".to_owned()) && !kept.contains(&"outer".to_owned()), "{kept:?}");
    fs::write(workshop.path("keep_symbols"), kept.join("\n")).unwrap();
    workshop.run("objcopy --only-keep-debug original.so debug");
    workshop
        .run("objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep_symbols debug mini");
    workshop.run("strip --strip-all -R .comment -o stripped.so original.so");
    workshop.run("xz --keep mini");
    workshop.run("objcopy --add-section .gnu_debugdata=mini.xz stripped.so library.so");
    (original, workshop.path("library.so"))
}

fn outermost_name(library: &Path, address: u64) -> Option<String> {
    let frames = frames(&mut Symbolizer::new(), &at_base(library, ""), address);
    frames.last().map(|frame| frame.function.to_string())
}

#[test]
fn functions_have_the_names_of_the_compressed_table_and_of_the_exported_ones() {
    let workshop = Workshop::new("mini_debug_info");
    let (original, library) = library_with_mini_debug_info(&workshop);
    for name in ["only_local", "outer", "main"] {
        let function = workshop.function(&original, name);
        for address in function.start..function.start + function.size {
            assert_eq!(outermost_name(&library, address).as_deref(), Some(name));
        }
    }
    let hidden = workshop.function(&original, "only_local").start;
    assert_eq!(outermost_name(&workshop.path("stripped.so"), hidden), None);
}

#[test]
fn a_damaged_table_is_not_used_and_harmless() {
    let workshop = Workshop::new("mini_damaged");
    let (original, _) = library_with_mini_debug_info(&workshop);
    let (hidden, exported) = (workshop.function(&original, "only_local"), workshop.function(&original, "outer"));
    let whole = fs::read(workshop.path("mini.xz")).unwrap();
    let cut = (0..whole.len()).step_by(31).map(|length| whole[..length].to_vec());
    let flipped = (0..whole.len()).step_by(31).map(|at| {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        damaged
    });
    for damaged in cut.chain(flipped) {
        fs::write(workshop.path("damaged.xz"), &damaged).unwrap();
        workshop.run("objcopy --add-section .gnu_debugdata=damaged.xz stripped.so damaged.so");
        let library = workshop.path("damaged.so");
        assert_eq!(outermost_name(&library, hidden.start), None);
        assert_eq!(outermost_name(&library, exported.start).as_deref(), Some("outer"));
    }
}

#[test]
fn a_table_that_would_fill_the_memory_is_not_used() {
    let workshop = Workshop::new("mini_bomb");
    let (original, _) = library_with_mini_debug_info(&workshop);
    let hidden = workshop.function(&original, "only_local").start;
    // The right table, followed by 512 MiB of zeros: less than 100 KB when it is compressed.
    fs::copy(workshop.path("mini"), workshop.path("bomb")).unwrap();
    fs::OpenOptions::new().write(true).open(workshop.path("bomb")).unwrap().set_len(512 << 20).unwrap();
    workshop.run("xz -1 bomb");
    workshop.run("objcopy --add-section .gnu_debugdata=bomb.xz stripped.so bomb.so");
    assert_eq!(outermost_name(&workshop.path("bomb.so"), hidden), None);
    // A dictionary of more than the decoder may use.
    workshop.run("xz --keep --force --lzma2=dict=1GiB mini");
    workshop.run("objcopy --add-section .gnu_debugdata=mini.xz stripped.so greedy.so");
    assert_eq!(outermost_name(&workshop.path("greedy.so"), hidden), None);
}

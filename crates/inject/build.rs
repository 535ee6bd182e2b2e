//! Builds the image, and turns it from an ELF file into the flat bytes that an attacher writes into a process.
//!
//! Like the preload library it is built by a cargo of its own, since it needs another profile, and the agent in another form. It is linked as a program that can
//! run at any address; this script copies its segments, and refuses it if anything but the table of entries would need to be relocated.

use std::collections::{HashMap, HashSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let script = root.join("crates/inject/src/image/image.ld");
    if env::var_os("CARGO_FEATURE_IMAGE").is_some() {
        println!("cargo::rerun-if-changed={}", script.display());
        for argument in
            ["-nostdlib", "-nostartfiles", "-Wl,--no-dynamic-linker", "-Wl,--build-id=none", "-Wl,--emit-relocs"]
        {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for part in ["crates/inject", "crates/agent", "crates/shm", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let target = out.join("image");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(&root)
        .args(["build", "--quiet", "--locked", "--profile", "image", "--package", "highwater-inject"])
        .args(["--features", "image", "--bin", "highwater-image", "--target-dir"])
        .arg(&target)
        // Addresses without a table that a loader would have to fill in.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Crelocation-model=pie\x1f-Crelro-level=off")
        // Those are for the command itself: a checker's wrapper, a coverage tool's flags, another target directory.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    let built = cargo.status().expect("cargo can be run");
    assert!(built.success(), "the image could not be built");
    let elf = std::fs::read(target.join("image/highwater-image")).expect("cargo has built it");
    std::fs::write(out.join("image.bin"), flatten(&elf)).expect("the output directory can be written");
    println!("cargo::rustc-env=HIGHWATER_IMAGE={}", out.join("image.bin").display());
}

/// The bytes of the image: its segments at their addresses, which begin at 0, with the table of entries filled in.
fn flatten(elf: &[u8]) -> Vec<u8> {
    let mut flat = Vec::new();
    let (headers, count) = (word(elf, 32) as usize, half(elf, 56) as usize);
    for header in (0..count).map(|index| &elf[headers + index * 56..]) {
        const LOAD: u32 = 1;
        if word(header, 0) as u32 == LOAD {
            let (offset, address, bytes) =
                (word(header, 8) as usize, word(header, 16) as usize, word(header, 32) as usize);
            flat.resize(flat.len().max(address + bytes), 0);
            flat[address..address + bytes].copy_from_slice(&elf[offset..offset + bytes]);
        }
    }
    let sections = sections(elf);
    let undefined = |section: &&Section| section.kind == Section::SYMBOLS && section.bytes.len() > 24;
    assert!(!sections.iter().any(|section| undefined(&section)), "the image needs symbols of others");
    let is_relative = |section: &Section| section.kind == Section::RELATIVE_RELOCATIONS;
    assert!(!sections.iter().any(is_relative), "relocations in another form");

    let by_loader = relocations(&sections, true);
    let pointers: HashMap<u64, u64> = by_loader.iter().map(|relocation| (relocation.place, relocation.value)).collect();
    let loads = relocations(&sections, false);
    // `R_X86_64_GOTPCREL` and its two later forms.
    let loads = loads.iter().filter(|load| matches!(load.kind, 9 | 41 | 42)).map(|load| load.place as usize);
    let loaded: HashSet<u64> = loads.map(|place| load_directly(&mut flat, place, &pointers)).collect();

    // See `ImageHead`: the third and fourth word.
    let entries = word(&flat, 16)..word(&flat, 16) + word(&flat, 24) * 8;
    for Relocation { place, kind, value } in by_loader {
        const RELATIVE: u32 = 8;
        let is_entry = entries.contains(&place);
        assert!(
            kind == RELATIVE && (is_entry || loaded.contains(&place)),
            "the image has a pointer at {place:#x} to {value:#x}, which would have to be relocated: avoid it"
        );
        let place = place as usize;
        flat[place..place + 8].copy_from_slice(&if is_entry { value } else { 0 }.to_le_bytes());
    }
    assert!(entries.step_by(8).all(|at| word(&flat, at as usize) != 0), "an entry has no address");
    flat
}

/// Makes an instruction that takes an address from the linker's table compute it: the table would have to be relocated. (Linkers do so by themselves where the
/// compiler has said that they may, which that of Rust's core library has not.) Returns the place in the table.
fn load_directly(flat: &mut [u8], place: usize, pointers: &HashMap<u64, u64>) -> u64 {
    let next = place as u64 + 4;
    let distance = i32::from_le_bytes(flat[place..place + 4].try_into().expect("four bytes"));
    let entry = next.wrapping_add_signed(distance.into());
    let target = *pointers.get(&entry).unwrap_or_else(|| panic!("no address for the instruction at {place:#x}"));
    match flat[place - 2..place] {
        // call [rip + x]: addr32 call
        [0xff, 0x15] => flat[place - 2..place].copy_from_slice(&[0x67, 0xe8]),
        // jmp [rip + x]: nop, jmp
        [0xff, 0x25] => flat[place - 2..place].copy_from_slice(&[0x90, 0xe9]),
        // mov r, [rip + x]: lea r, [rip + x]
        [0x8b, register] if register & 0xc7 == 5 => flat[place - 2] = 0x8d,
        ref other => panic!("an instruction {other:x?} at {place:#x} needs the linker's table of addresses: avoid it"),
    }
    let distance = i32::try_from(target as i64 - next as i64).expect("the image is small");
    flat[place..place + 4].copy_from_slice(&distance.to_le_bytes());
    entry
}

struct Section<'a> {
    kind: u32,
    is_loaded: bool,
    bytes: &'a [u8],
}

impl Section<'_> {
    const RELOCATIONS: u32 = 4;
    const NO_BYTES: u32 = 8;
    const SYMBOLS: u32 = 11;
    const RELATIVE_RELOCATIONS: u32 = 19;
}

fn sections(elf: &[u8]) -> Vec<Section<'_>> {
    const LOADED: u64 = 2;
    let (headers, count) = (word(elf, 40) as usize, half(elf, 60) as usize);
    let section = |header: &[u8]| {
        let (kind, start, length) = (word(header, 4) as u32, word(header, 24) as usize, word(header, 32) as usize);
        let bytes = if kind == Section::NO_BYTES { &[] } else { &elf[start..start + length] };
        Section { kind, is_loaded: word(header, 8) & LOADED != 0, bytes }
    };
    (0..count).map(|index| section(&elf[headers + index * 64..])).collect()
}

struct Relocation {
    place: u64,
    kind: u32,
    value: u64,
}

/// The relocations that a loader would do, or those that the linker has done.
fn relocations(sections: &[Section<'_>], by_loader: bool) -> Vec<Relocation> {
    let wanted = |section: &&Section<'_>| section.kind == Section::RELOCATIONS && section.is_loaded == by_loader;
    let each = sections.iter().filter(wanted).flat_map(|section| section.bytes.chunks_exact(24));
    each.map(|one| Relocation { place: word(one, 0), kind: word(one, 8) as u32, value: word(one, 16) }).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

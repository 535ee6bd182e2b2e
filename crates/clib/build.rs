//! Builds `libhighwater.a` and `libhighwater.so`: the preload library's code with other features, without the standard library, so that a program gets
//! nothing but the hooks and the agent.
//!
//! As for the preload library (crates/cli/build.rs), by a cargo of its own: another profile, and no dependency outside of this repository.

use highwater_packed::pack;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for part in ["crates/preload", "crates/agent", "crates/shm", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let soname = format!("libhighwater.so.{}", env!("CARGO_PKG_VERSION_MAJOR"));
    let shared = build(&root, &out, "cdylib", "linked", &[format!("-Clink-arg=-Wl,-soname,{soname}")]);
    // At once, since the next build may replace it.
    let shared = std::fs::read(shared.join("libhighwater_preload.so")).expect("the library was built");
    let archive = build(&root, &out, "staticlib", "static", &[]).join("libhighwater_preload.a");
    let archive = only_our_object(&std::fs::read(archive).expect("the archive was built"));
    for (name, content) in [("libhighwater.so.packed", shared), ("libhighwater.a.packed", archive)] {
        std::fs::write(out.join(name), pack(&content)).expect("the build's folder can be written");
    }
    println!("cargo::rustc-env=HIGHWATER_C_LIBRARIES={}", out.display());
    println!("cargo::rustc-env=HIGHWATER_SONAME={soname}");
}

/// Builds one kind of library; returns the folder that it is in.
fn build(root: &Path, out: &Path, kind: &str, feature: &str, flags: &[String]) -> PathBuf {
    let target = out.join("target");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(root)
        .args(["rustc", "--quiet", "--locked", "--lib", "--profile", "preload", "--package", "highwater-preload"])
        .args(["--config", "profile.preload.debug=false", "--crate-type", kind])
        .args(["--features", &format!("freestanding,{feature}"), "--target-dir"])
        .arg(&target)
        .arg("--")
        .args(flags)
        // Those are for the crate itself: a checker's wrapper, a coverage tool's flags, another target directory.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    let built = cargo.status().expect("cargo can be run");
    assert!(built.success(), "the C library could not be built ({kind})");
    target.join("preload")
}

/// An archive's parts, as every linker on Linux takes them.
const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

/// An archive with nothing but our one object, from one that also has hundreds of routines. Every C compiler has those too (`libgcc`), and a program that
/// calls one of them by accident, such as `fmod`, must not get Rust's.
fn only_our_object(archive: &[u8]) -> Vec<u8> {
    let mut ours = None;
    let (mut index, mut long_names): (&[u8], &[u8]) = (&[], &[]);
    let mut at = MAGIC.len();
    while at + HEADER_BYTES <= archive.len() {
        let header = &archive[at..at + HEADER_BYTES];
        let text =
            |from: usize, to: usize| str::from_utf8(&header[from..to]).expect("an archive's header is text").trim_end();
        let length: usize = text(48, 58).parse().expect("an archive's header has a length");
        let content = &archive[at + HEADER_BYTES..][..length];
        match text(0, 16) {
            "/" => index = content,
            "//" => long_names = content,
            name => {
                let long = name.strip_prefix('/').and_then(|offset| long_names.get(offset.parse::<usize>().ok()?..));
                if long.unwrap_or(name.as_bytes()).starts_with(b"highwater_preload-") {
                    assert!(ours.is_none(), "the archive has one object of ours");
                    ours = Some((at, content));
                }
            }
        }
        at += HEADER_BYTES + length.next_multiple_of(2);
    }
    let (offset, object) = ours.expect("the archive has an object of ours");
    one_object(object, &symbols_of(index, offset))
}

/// The names in an archive's index that belong to the member at an offset.
fn symbols_of(index: &[u8], member: usize) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_be_bytes(index[at * 4..][..4].try_into().expect("four bytes")) as usize;
    let count = word(0);
    let names = index[(count + 1) * 4..].split(|&byte| byte == 0);
    let all = names.take(count).enumerate();
    all.filter(|&(number, _)| word(number + 1) == member).map(|(_, name)| name.to_vec()).collect()
}

/// Writes an archive of one object, with its index.
fn one_object(object: &[u8], symbols: &[Vec<u8>]) -> Vec<u8> {
    assert!(symbols.iter().any(|name| name == b"__wrap_malloc"), "the archive's index has the hooks");
    let header = |name: &str, length: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`\n", 0, 0, 0, 644);
    let names: Vec<u8> = symbols.iter().flat_map(|name| name.iter().copied().chain([0])).collect();
    let index_bytes = ((symbols.len() + 1) * 4 + names.len()).next_multiple_of(2);
    let member = MAGIC.len() + HEADER_BYTES + index_bytes;
    let mut index: Vec<u8> = (symbols.len() as u32).to_be_bytes().to_vec();
    symbols.iter().for_each(|_| index.extend((member as u32).to_be_bytes()));
    index.extend(names);
    index.resize(index_bytes, 0);
    let mut padded = object.to_vec();
    padded.resize(object.len().next_multiple_of(2), b'\n');
    let (index_header, object_header) = (header("/", index_bytes), header("highwater.o/", object.len()));
    [MAGIC, index_header.as_bytes(), &index, object_header.as_bytes(), &padded].concat()
}

//! Builds the preload library, which travels inside the command: `highwater record` needs nothing beside the binary.
//!
//! It is built by a cargo of its own, since it needs another profile: no standard library, no unwinding. It has no
//! dependencies outside of this repository, so this takes about a second.
//!
//! It also finds the commit for `highwater --version`, and keeps what only makes the command larger out of it: debug tables, and addresses in full.

mod commit;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = &Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for part in ["crates/preload", "crates/agent", "crates/shm", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let target = out.join("preload");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(root)
        .args(["build", "--quiet", "--locked", "--profile", "preload", "--package", "highwater-preload"])
        .args(["--features", "freestanding", "--target-dir"])
        .arg(&target)
        // Those are for the command itself: a checker's wrapper, a coverage tool's flags, another target directory.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    let built = cargo.status().expect("cargo can be run");
    assert!(built.success(), "the preload library could not be built");
    let library = target.join("preload/libhighwater_preload.so");
    let packed = out.join("preload.packed");
    let library = std::fs::read(library).expect("cargo has built it");
    std::fs::write(&packed, highwater_packed::pack(&library)).expect("the build's folder can be written");
    println!("cargo::rustc-env=HIGHWATER_PRELOAD={}", packed.display());
    let commit = commit::of(root).unwrap_or_default();
    commit.changes_with.iter().for_each(|file| println!("cargo::rerun-if-changed={}", file.display()));
    println!("cargo::rustc-env=HIGHWATER_COMMIT={}", commit.text);
    // They are three quarters of the file. Symbols stay: a panic's backtrace names its functions. Not in the profile, since other programs of the workspace, the
    // examples among them, keep their lines.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-debug");
        if has_packed_relocations() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Whether the loader can fill in addresses from a table that takes a fortieth of the room: glibc's can since 2.36. Linkers that cannot write one ignore the flag.
fn has_packed_relocations() -> bool {
    let has_glibc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|library| library == "gnu");
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let answer = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = answer.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let version = version.and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    has_glibc && version.is_some_and(|version| version >= (2, 36))
}

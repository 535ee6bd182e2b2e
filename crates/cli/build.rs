//! Builds the preload library, which travels inside the command: `highwater record` needs nothing beside the binary.
//!
//! It is built by a cargo of its own, since it needs another profile: no standard library, no unwinding. It has no
//! dependencies outside of this repository, so this takes about a second.
//!
//! It also finds the commit for `highwater --version`, and keeps debug tables out of the command that people install.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for part in ["crates/preload", "crates/agent", "crates/shm", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let target = out.join("preload");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .current_dir(&root)
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
    println!("cargo::rustc-env=HIGHWATER_PRELOAD={}", library.display());
    println!("cargo::rustc-env=HIGHWATER_COMMIT={}", commit(&root).unwrap_or_default());
    // They are two thirds of the file. Symbols stay: a panic's backtrace names its functions. Not in the profile, since other programs of the workspace, the
    // examples among them, keep their lines.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-debug");
    }
}

/// The commit of the sources and its day: `5afd1a3567, 2026-11-19`. None outside of a checkout, as in an unpacked archive, or without git.
fn commit(root: &Path) -> Option<String> {
    let ask = |arguments: &[&str]| {
        let mut git = Command::new("git");
        // In a hook of git, the environment can name another repository.
        git.arg("-C").arg(root).args(arguments).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        let answer = git.output().ok().filter(|answer| answer.status.success())?;
        let text = String::from_utf8(answer.stdout).ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    // An archive can be unpacked in a checkout of something else.
    if !root.join(".git").exists() {
        return None;
    }
    // One of them changes with every commit and every checkout. A file that does not exist would run this script every time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = root.join(ask(&["rev-parse", "--git-path", file])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    ask(&["show", "--no-patch", "--abbrev=10", "--format=%h, %cs", "HEAD"])
}

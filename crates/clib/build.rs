//! Builds `libhighwater.a` and `libhighwater.so`: the preload library's code with other features, without the standard library, so that a program gets
//! nothing but the hooks and the agent.
//!
//! As for the preload library (crates/cli/build.rs), by a cargo of its own: another profile, and no dependency outside of this repository.

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
    // Copied, since the next build may replace it.
    std::fs::copy(shared.join("libhighwater_preload.so"), out.join("libhighwater.so")).expect("the library was built");
    let archive = build(&root, &out, "staticlib", "static", &[]).join("libhighwater_preload.a");
    std::fs::copy(&archive, out.join("libhighwater.a")).expect("the archive was built");
    leave_out_support_routines(&out.join("libhighwater.a"));
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

/// The archive is one object, and hundreds of routines that every C compiler has too (`libgcc`). Without `ar` they stay: larger, and as good.
fn leave_out_support_routines(archive: &Path) {
    let Ok(listed) = Command::new("ar").arg("t").arg(archive).output() else { return };
    let members = String::from_utf8_lossy(&listed.stdout).into_owned();
    let routines: Vec<&str> = members.lines().filter(|member| !member.starts_with("highwater_preload-")).collect();
    if listed.status.success() && !routines.is_empty() {
        let removed = Command::new("ar").arg("dD").arg(archive).args(routines).status();
        assert!(removed.is_ok_and(|status| status.success()), "ar could not change {}", archive.display());
    }
}

//! The test programs of `tests/programs`, compiled once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// A C program under its own name, built as most are: optimised, without frame pointers, with debug information.
pub fn c(name: &str) -> PathBuf {
    c_as(name, name, &[])
}

/// The same, built with other flags under another name.
pub fn c_as(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    let common = ["-O2", "-g", "-fno-builtin", "-fomit-frame-pointer", "-pthread"];
    build(&[&["cc"], &common[..]].concat(), &format!("{name}.c"), output, &[flags, &["-ldl"]].concat())
}

/// A library to be preloaded or opened.
pub fn library(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    c_as(name, &format!("{output}.so"), &[&["-shared", "-fPIC"], flags].concat())
}

/// A C++ program.
pub fn cpp(name: &str, flags: &[&str]) -> PathBuf {
    cpp_as(name, &format!("{name}-cpp"), flags)
}

/// The same under another name.
pub fn cpp_as(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    build(&["c++", "-std=c++17", "-O2", "-g", "-pthread"], &format!("{name}.cpp"), output, flags)
}

/// A Rust program.
pub fn rust(name: &str) -> PathBuf {
    build(&["rustc", "--edition=2024", "-O", "-g"], &format!("{name}.rs"), &format!("{name}-rs"), &[])
}

/// The example `service` of the crate `highwater`, which leaks sessions. It is compiled alone, as a program to be recorded.
pub fn service() -> PathBuf {
    let library = "--crate-type=rlib --crate-name=highwater";
    let flags: Vec<&str> = library.split(' ').collect();
    let stand_in = build(&["rustc", "--edition=2024", "-O"], "no_marks.rs", "libhighwater.rlib", &flags);
    let linked = format!("highwater={}", stand_in.display());
    build(&["rustc", "--edition=2024", "-O", "-g"], SERVICE, "service", &["--extern", &linked])
}

/// The source of the example, from the folder of our own programs.
const SERVICE: &str = "../../../highwater/examples/service.rs";

/// A Rust program, built with other flags under another name.
pub fn rust_as(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    build(&["rustc", "--edition=2024"], &format!("{name}.rs"), output, flags)
}

/// Builds the program, unless it was built with the same command line since the sources last changed.
fn build(compiler: &[&str], source: &str, output: &str, flags: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let (built, note) = (folder.join(output), folder.join(format!("{output}.line")));
    let line = format!("{compiler:?} {source} {flags:?} {:?}", newest_source());
    if built.exists() && std::fs::read_to_string(&note).is_ok_and(|old| old == line) {
        return built;
    }
    // Another test process may be building it, too: each writes a file of its own, and the last one stays.
    let fresh = folder.join(format!("{output}.{}", std::process::id()));
    let compiled = Command::new(compiler[0])
        .args(&compiler[1..])
        .arg(sources().join(source))
        .arg("-o")
        .arg(&fresh)
        .args(flags)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", compiler[0]));
    assert!(compiled.status.success(), "{source}: {}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::rename(&fresh, &built).unwrap();
    std::fs::write(&note, line).unwrap();
    built
}

fn newest_source() -> std::time::SystemTime {
    let modified = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap().modified().unwrap();
    let example = std::fs::metadata(sources().join(SERVICE)).unwrap().modified().unwrap();
    std::fs::read_dir(sources()).unwrap().map(modified).max().unwrap().max(example)
}

//! The program that runs scripts: where it is, and how it is built and installed.
//!
//! It is a program of its own because a script may need limits that only a process has. `cargo install` of this command does not bring it, so the command can
//! build it itself.

use crate::failure::{Failure, reason};
use crate::output::say;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program's name, and the variable that can name another one.
pub const PROGRAM: &str = "highwater-movm";
const VARIABLE: &str = "HIGHWATER_MOVM";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const INSTALL: &str = "'highwater image eval --install' builds it";

/// Finds the program of this version: the one that the variable names, else beside this command, else in the user's cache.
pub fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        if !named.is_file() {
            return Err(Failure::in_file(&named, format_args!("is no program, and {VARIABLE} names it")));
        }
        return has_version(&named).map(|()| named);
    }
    let beside = std::env::current_exe().ok().map(|command| command.with_file_name(PROGRAM));
    let installed = root().map(|root| root.join("bin").join(PROGRAM));
    let mut other = None;
    for program in beside.into_iter().chain(installed).filter(|program| program.is_file()) {
        match has_version(&program) {
            Ok(()) => return Ok(program),
            Err(problem) => other = other.or(Some(problem)),
        }
    }
    Err(other
        .unwrap_or_else(|| Failure::fault(format_args!("{PROGRAM}, which runs scripts, is not installed; {INSTALL}"))))
}

/// Builds the program from the sources in `from`, or from the checkout that is known, into the user's cache. Cargo's progress is shown.
pub fn install(from: Option<&Path>) -> Result<PathBuf, Failure> {
    let sources = sources(from)?;
    let root = root().ok_or_else(|| Failure::fault("neither XDG_CACHE_HOME nor HOME is an absolute path"))?;
    say(&format!("building {PROGRAM} {VERSION} from {} into {}", sources.display(), root.display()));
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--locked", "--force", "--path"]).arg(&sources).arg("--root").arg(&root);
    // Not the checkout's own folder: it can be read-only.
    cargo.arg("--target-dir").arg(root.join("build")).stdin(Stdio::null()).stdout(Stdio::null());
    // Otherwise cargo asks the user to add the folder to PATH, which nothing needs.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).chain([root.join("bin")]);
    if let Ok(path) = std::env::join_paths(folders) {
        cargo.env("PATH", path);
    }
    let ended = cargo.status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::fault(format_args!(
            "cargo is not installed, and it builds {PROGRAM}; get it at https://rustup.rs, or name a built program in {VARIABLE}"
        )),
        _ => Failure::fault(format_args!("cargo cannot be started: {}", reason(&error))),
    })?;
    let program = root.join("bin").join(PROGRAM);
    if !ended.success() || !program.is_file() {
        return Err(Failure::in_file(&sources, "cargo could not build it; its messages are above"));
    }
    let _ = std::fs::remove_dir_all(root.join("build"));
    has_version(&program).map(|()| program)
}

/// The folder of the user's cache that has the program of this version.
fn root() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(cache.join("highwater").join(format!("movm-{VERSION}")))
}

/// The program's sources: in the checkout that is named, around the current directory, or from which this command was built.
fn sources(from: Option<&Path>) -> Result<PathBuf, Failure> {
    let in_checkout = |folder: &Path| Some(folder.join("crates/movm")).filter(|path| path.join("Cargo.toml").is_file());
    if let Some(from) = from {
        let itself = Some(from.to_owned()).filter(|path| path.ends_with("movm") && path.join("Cargo.toml").is_file());
        return in_checkout(from)
            .or(itself)
            .ok_or_else(|| Failure::in_file(from, "is no checkout of Highwater: it has no crates/movm/Cargo.toml"));
    }
    let here = std::env::current_dir().ok();
    let around = here.as_deref().and_then(|here| here.ancestors().find_map(in_checkout));
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(in_checkout);
    around.or(built_from).ok_or_else(|| {
        Failure::fault(format_args!(
            "the sources of {PROGRAM} are not here; name a checkout of Highwater {VERSION} with --from DIR"
        ))
    })
}

/// Asks a program for its version.
fn has_version(program: &Path) -> Result<(), Failure> {
    let asked = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let asked =
        asked.map_err(|error| Failure::in_file(program, format_args!("cannot be started: {}", reason(&error))))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    match said.trim().strip_prefix(PROGRAM).map(str::trim) {
        Some(VERSION) => Ok(()),
        Some(other) => {
            Err(Failure::in_file(program, format_args!("is version {other}, and highwater is {VERSION}; {INSTALL}")))
        }
        None => Err(Failure::in_file(program, format_args!("is no {PROGRAM} {VERSION}; {INSTALL}"))),
    }
}

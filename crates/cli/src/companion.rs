//! Programs that work for this command: where they are, and how they are built and installed.
//!
//! Each is a program of its own because it needs limits that only a process has, or libraries that few users need. `cargo install` of this command does not bring them, so
//! the command can build them itself.

use crate::failure::{Failure, reason};
use crate::output::say;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A program that works for this command.
pub struct Companion {
    /// Its name.
    pub program: &'static str,
    /// The environment variable that can name another one.
    pub variable: &'static str,
    /// The folder of its sources in `crates`, and a part of the name of its folder in the user's cache.
    pub folder: &'static str,
    /// What it does: `which runs scripts`.
    pub purpose: &'static str,
    /// How it is installed: `'highwater image eval --install' builds it`.
    pub install: &'static str,
}

impl Companion {
    /// Finds the program of this version: the one that the variable names, else beside this command, else in the user's cache.
    pub fn find(&self) -> Result<PathBuf, Failure> {
        let Self { program, variable, purpose, install, .. } = self;
        if let Some(named) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
            let named = PathBuf::from(named);
            if !named.is_file() {
                return Err(Failure::in_file(&named, format_args!("is no program, and {variable} names it")));
            }
            return self.has_version(&named).map(|()| named);
        }
        let beside = std::env::current_exe().ok().map(|command| command.with_file_name(program));
        let installed = self.root().map(|root| root.join("bin").join(program));
        let mut other = None;
        for program in beside.into_iter().chain(installed).filter(|program| program.is_file()) {
            match self.has_version(&program) {
                Ok(()) => return Ok(program),
                Err(problem) => other = other.or(Some(problem)),
            }
        }
        Err(other.unwrap_or_else(|| Failure::fault(format_args!("{program}, {purpose}, is not installed; {install}"))))
    }

    /// Builds the program from the sources in `from`, or from the checkout that is known, into the user's cache. Cargo's progress is shown.
    pub fn install(&self, from: Option<&Path>) -> Result<PathBuf, Failure> {
        let Self { program, variable, .. } = self;
        let sources = self.sources(from)?;
        let root = self.root().ok_or_else(|| Failure::fault("neither XDG_CACHE_HOME nor HOME is an absolute path"))?;
        say(&format!("building {program} {VERSION} from {} into {}", sources.display(), root.display()));
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
                "cargo is not installed, and it builds {program}; get it at https://rustup.rs, or name a built program in {variable}"
            )),
            _ => Failure::fault(format_args!("cargo cannot be started: {}", reason(&error))),
        })?;
        let built = root.join("bin").join(program);
        if !ended.success() || !built.is_file() {
            return Err(Failure::in_file(&sources, "cargo could not build it; its messages are above"));
        }
        let _ = std::fs::remove_dir_all(root.join("build"));
        self.has_version(&built).map(|()| built)
    }

    /// The folder of the user's cache that has the program of this version.
    fn root(&self) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
        Some(cache.join("highwater").join(format!("{}-{VERSION}", self.folder)))
    }

    /// The program's sources: in the checkout that is named, around the current directory, or from which this command was built.
    fn sources(&self, from: Option<&Path>) -> Result<PathBuf, Failure> {
        let Self { program, folder, .. } = self;
        let has_sources = |path: &PathBuf| path.join("Cargo.toml").is_file();
        let in_checkout = |checkout: &Path| Some(checkout.join("crates").join(folder)).filter(has_sources);
        if let Some(from) = from {
            let itself = Some(from.to_owned()).filter(|path| path.ends_with(folder) && has_sources(path));
            return in_checkout(from).or(itself).ok_or_else(|| {
                let problem = format_args!("is no checkout of Highwater: it has no crates/{folder}/Cargo.toml");
                Failure::in_file(from, problem)
            });
        }
        let here = std::env::current_dir().ok();
        let around = here.as_deref().and_then(|here| here.ancestors().find_map(in_checkout));
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find_map(in_checkout);
        around.or(built_from).ok_or_else(|| {
            Failure::fault(format_args!(
                "the sources of {program} are not here; name a checkout of Highwater {VERSION} with --from DIR"
            ))
        })
    }

    /// Asks a program for its version.
    fn has_version(&self, path: &Path) -> Result<(), Failure> {
        let Self { program, install, .. } = self;
        let asked = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        let asked =
            asked.map_err(|error| Failure::in_file(path, format_args!("cannot be started: {}", reason(&error))))?;
        let said = String::from_utf8_lossy(&asked.stdout);
        match said.trim().strip_prefix(program).map(str::trim) {
            Some(VERSION) => Ok(()),
            Some(other) => {
                Err(Failure::in_file(path, format_args!("is version {other}, and highwater is {VERSION}; {install}")))
            }
            None => Err(Failure::in_file(path, format_args!("is no {program} {VERSION}; {install}"))),
        }
    }
}

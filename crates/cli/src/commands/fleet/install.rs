//! `highwater fleet install`: the engine's program, and DuckDB's library.
//!
//! The library comes from the registry of Node packages, because that has a build without Python or a compiler. Its hash is pinned: another file is not installed.

use crate::companion::Companion;
use crate::failure::{Failure, reason};
use crate::output::{Output, say};
use clap::Args;
use highwater_fleet::{DUCKDB_PROGRAM, LIBRARY_PACKAGE, LibraryFile, check_library, installed_library};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that answers questions.
pub const ENGINE: Companion = Companion {
    program: DUCKDB_PROGRAM,
    variable: "HIGHWATER_FLEET",
    folder: "duckdb",
    purpose: "which answers questions",
    install: "'highwater fleet install' builds it",
};

/// The arguments of `highwater fleet install`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet install                          fetches the library with npm
  highwater fleet install --from libduckdb.so      a file that was fetched before
  highwater fleet install --checkout ~/highwater   where the program's sources are

The library is DuckDB's own build of 1.5.6 (MIT licence, 71 MB), from the package @duckdb/node-bindings-linux-x64. Its SHA-256 is \
checked. It is put into the user's data folder; HIGHWATER_DUCKDB names another one. The program, highwater-fleet, lies beside \
highwater or in the user's cache; HIGHWATER_FLEET names another one. If it is missing, cargo builds it.")]
pub struct FleetInstall {
    /// The library, or the package (.tgz) that has it, as a file
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Also take a library with another hash: it must still be DuckDB 1.5
    #[arg(long, requires = "from")]
    any_build: bool,
    /// The checkout of Highwater to build the program from [default: the one around the current directory, or the one that highwater was built from]
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

impl FleetInstall {
    /// Installs what is missing.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let program = match ENGINE.find() {
            Ok(program) if self.checkout.is_none() => program,
            _ => ENGINE.install(self.checkout.as_deref())?,
        };
        let target =
            installed_library().ok_or_else(|| Failure::fault("neither XDG_DATA_HOME nor HOME is an absolute path"))?;
        let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
        std::fs::create_dir_all(&folder).map_err(|error| Failure::in_file(&folder, reason(&error)))?;
        let work = folder.join(format!("install-{}", std::process::id()));
        std::fs::create_dir(&work).map_err(|error| Failure::in_file(&work, reason(&error)))?;
        let done = self.put(&work, &target, &program);
        let _ = std::fs::remove_dir_all(&work);
        let about = done?;
        output.text(&format!("{} answers questions now, with {about}\n", program.display()))
    }

    /// Fetches, checks, tries and renames: an existing library stays as it is if anything goes wrong.
    fn put(&self, work: &Path, target: &Path, program: &Path) -> Result<String, Failure> {
        let given = match &self.from {
            Some(file) => file.clone(),
            None => fetched(work)?,
        };
        let library = match given.extension().is_some_and(|end| end == "tgz" || end == "gz") {
            true => unpacked(&given, work)?,
            false => given.clone(),
        };
        let file = work.join("libduckdb.so");
        if library != file {
            std::fs::copy(&library, &file).map_err(|error| Failure::in_file(&library, reason(&error)))?;
        }
        match check_library(&file).map_err(|error| Failure::in_file(&given, reason(&error)))? {
            LibraryFile::Known => {}
            LibraryFile::Other { found } if !self.any_build => {
                let problem = format_args!("is not the library that is expected: its SHA-256 is {found}");
                return Err(Failure::in_file(&given, problem));
            }
            LibraryFile::Other { .. } => say("the library has another hash than the expected one"),
        }
        let mut asked = Command::new(program);
        asked.arg("--library").env("HIGHWATER_DUCKDB", &file).stdin(Stdio::null());
        let asked = asked.output().map_err(|error| Failure::in_file(program, reason(&error)))?;
        if !asked.status.success() {
            let said = String::from_utf8_lossy(&asked.stderr);
            return Err(Failure::fault(said.lines().next().unwrap_or("the library cannot be loaded")));
        }
        std::fs::rename(&file, target).map_err(|error| Failure::in_file(target, reason(&error)))?;
        let said = String::from_utf8_lossy(&asked.stdout);
        let version = said.split_whitespace().nth(1).unwrap_or_default().to_owned();
        Ok(format!("DuckDB {version} in {}", target.display()))
    }
}

/// Fetches the package with npm.
fn fetched(work: &Path) -> Result<PathBuf, Failure> {
    say(&format!("fetching {LIBRARY_PACKAGE} with npm"));
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", LIBRARY_PACKAGE]).current_dir(work).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = npm.status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::fault(format_args!(
            "npm is not installed; fetch the package {LIBRARY_PACKAGE} from the registry of Node packages elsewhere, and name the file with --from"
        )),
        _ => Failure::fault(format_args!("npm cannot be started: {}", reason(&error))),
    })?;
    let listed = std::fs::read_dir(work).ok().into_iter().flatten().flatten();
    let package = listed.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "tgz"));
    match package.filter(|_| ended.success()) {
        Some(package) => Ok(package),
        None => Err(Failure::fault(format_args!("npm could not fetch {LIBRARY_PACKAGE}; its messages are above"))),
    }
}

/// Takes the library out of a package.
fn unpacked(package: &Path, work: &Path) -> Result<PathBuf, Failure> {
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(package).arg("-C").arg(work).args(["--strip-components=1", "package/libduckdb.so"]);
    let ended = tar.stdin(Stdio::null()).stderr(Stdio::null()).status();
    let ended = ended.map_err(|error| Failure::fault(format_args!("tar cannot be started: {}", reason(&error))))?;
    let library = work.join("libduckdb.so");
    match ended.success() && library.is_file() {
        true => Ok(library),
        false => Err(Failure::in_file(package, "has no package/libduckdb.so")),
    }
}

//! The program to record: finds it, checks whether it can be recorded, and starts it.

use crate::failure::{Failure, reason};
use crate::{inherited, permitted};
use highwater_agent::children::Reason;
use highwater_agent::executable::{self, ExecutableKind};
use highwater_session::reason_in_words;
use highwater_symbols::allocator_in;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The kind of a file, for recording.
enum Found {
    /// A program that the library can be loaded into, as far as the file shows.
    Fit,
    /// A program that contains the C library, so that no other has to be loaded into it.
    Linked,
    /// A script for this interpreter.
    Script(PathBuf),
    /// Cannot be recorded: the reason, and what to do.
    Unfit(String),
}

const STATIC: &str = "is statically linked, so no library can be loaded into it; link it with libhighwater.a ('highwater c-library \
     --help'), or let a Rust program use the crate's allocator: see docs/record.md";
const SETUID: &str = "runs with another user's rights (setuid or setgid), for which the system loads no library; \
     record it as that user, or a copy without those bits";
const OTHER_MACHINE: &str = "is not an x86-64 program; only those can be recorded";
const OTHER_LIBRARY: &str = "uses the musl C library; only programs for the GNU C library can be recorded";

fn sanitized(sanitizer: &str) -> String {
    format!("is built with {sanitizer}, which replaces the allocator itself; record a build without it")
}

fn with_allocator(allocator: &str) -> String {
    format!(
        "has {allocator} linked into it, so almost none of its blocks would be seen; build it with the C library's allocator or with a shared \
         library, or let a Rust program record itself with the crate's allocator: see docs/record.md"
    )
}

fn why_unfit(reason: Reason) -> String {
    match reason {
        Reason::Static => STATIC.to_owned(),
        Reason::OtherMachine => OTHER_MACHINE.to_owned(),
        Reason::OtherLibrary => OTHER_LIBRARY.to_owned(),
        Reason::MoreRights => SETUID.to_owned(),
        Reason::AddressSanitizer => sanitized("AddressSanitizer"),
        Reason::LeakSanitizer => sanitized("LeakSanitizer"),
        Reason::ThreadSanitizer => sanitized("ThreadSanitizer"),
        Reason::MemorySanitizer => sanitized("MemorySanitizer"),
        Reason::OwnAllocator => with_allocator("an allocator of its own"),
        Reason::OutOfReach | Reason::Filter => "cannot be recorded".to_owned(),
    }
}

/// A program that can be recorded.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// No library is to be loaded into it: it is statically linked, and contains the C library.
    is_linked: bool,
}

/// Finds a program as a shell would. Fails with the reason if the file shows that it cannot be recorded.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let path = look_up(name)?;
    let mut is_linked = false;
    let mut looked_at = path.clone();
    // A script's interpreter may be a script.
    for _ in 0..4 {
        match look_at(&looked_at)
            .map_err(|error| Failure::in_file(&looked_at, format_args!("cannot read: {}", reason(&error))))?
        {
            Found::Fit => break,
            Found::Linked => {
                is_linked = true;
                break;
            }
            Found::Unfit(why) => return Err(Failure::in_file(&looked_at, why)),
            Found::Script(interpreter) => looked_at = interpreter,
        }
    }
    Ok(Program { path, is_linked })
}

fn look_up(name: &OsStr) -> Result<PathBuf, Failure> {
    let named = Path::new(name);
    let is_executable =
        |path: &Path| fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0);
    if named.components().count() > 1 || named.is_absolute() || name.as_encoded_bytes().contains(&b'/') {
        return match fs::metadata(named) {
            Err(error) => Err(Failure::in_file(named, format_args!("cannot be run: {}", reason(&error)))),
            Ok(_) if is_executable(named) => Ok(named.to_owned()),
            Ok(_) => Err(Failure::in_file(named, "cannot be run: it is not an executable file")),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = std::env::split_paths(&search).map(|directory| directory.join(named)).find(|path| is_executable(path));
    found.ok_or_else(|| Failure::in_file(named, "no such program in PATH; give its path, such as ./program"))
}

fn look_at(path: &Path) -> io::Result<Found> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    let setuid = about.mode() & 0o4000 != 0 && about.uid() != rustix::process::geteuid().as_raw();
    let setgid = about.mode() & 0o2000 != 0 && about.gid() != rustix::process::getegid().as_raw();
    let kind = executable::look_at(&|offset, buffer| file.read_at(buffer, offset).unwrap_or(0));
    Ok(match kind {
        ExecutableKind::Script(interpreter, length) => Found::Script(OsStr::from_bytes(&interpreter[..length]).into()),
        _ if setuid || setgid => Found::Unfit(why_unfit(Reason::MoreRights)),
        ExecutableKind::Unfit(reason) => Found::Unfit(why_unfit(reason)),
        ExecutableKind::Linked { is_static } => match allocator_in(path).filter(|name| name.ends_with("Sanitizer")) {
            Some(sanitizer) => Found::Unfit(sanitized(sanitizer)),
            None if is_static => Found::Linked,
            None => Found::Fit,
        },
        ExecutableKind::Fit | ExecutableKind::OwnAllocator => match allocator_in(path) {
            Some(sanitizer) if sanitizer.ends_with("Sanitizer") => Found::Unfit(sanitized(sanitizer)),
            Some(allocator) => Found::Unfit(with_allocator(allocator)),
            None if kind == ExecutableKind::OwnAllocator => Found::Unfit(why_unfit(Reason::OwnAllocator)),
            None => Found::Fit,
        },
    })
}

/// Refuses a sanitizer's runtime in LD_PRELOAD: it must be the first library, and would not be.
fn check_preloaded(libraries: &OsStr) -> Result<(), Failure> {
    let mut names = libraries.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    match names.find_map(executable::sanitizer) {
        Some(reason) => Err(Failure::in_file(
            Path::new(libraries),
            format_args!(
                "LD_PRELOAD names the runtime of {}, which must be the first library; unset it to record the program",
                reason_in_words(reason)
            ),
        )),
        None => Ok(()),
    }
}

/// Starts the program with the library loaded first, unless it contains it, and the agent's configuration in its environment.
pub fn start(
    program: &Program,
    arguments: &[OsString],
    library: &Path,
    variable: (&str, &str),
) -> Result<Child, Failure> {
    let path = &program.path;
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        check_preloaded(&others)?;
        preload.push(":");
        preload.push(others);
    }
    let mut command = command(path, arguments)?;
    command.env(variable.0, variable.1);
    // It is for our own commands, and not for what they run.
    command.env_remove(permitted::ONLY_BELOW);
    if !program.is_linked {
        command.env("LD_PRELOAD", preload);
    }
    spawn(path, command)
}

/// Starts the program without the library.
pub fn start_unrecorded(path: &Path, arguments: &[OsString]) -> Result<Child, Failure> {
    spawn(path, command(path, arguments)?)
}

fn command(path: &Path, arguments: &[OsString]) -> Result<Command, Failure> {
    let (name, arguments) = arguments.split_first().ok_or_else(|| Failure::Usage("no program given".into()))?;
    let mut command = Command::new(path);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(arguments);
    Ok(command)
}

fn spawn(path: &Path, mut command: Command) -> Result<Child, Failure> {
    inherited::pass_on_to(&mut command);
    command.spawn().map_err(|error| Failure::in_file(path, format_args!("cannot be run: {}", reason(&error))))
}

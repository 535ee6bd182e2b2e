//! The program that a user wants recorded: whether that can be, and starting it.

use crate::failure::{Failure, reason};
use crate::inherited;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// What stands at the beginning of an executable.
enum Kind {
    /// Something we can be loaded into, as far as can be seen.
    Dynamic,
    /// A script for this interpreter.
    Script(PathBuf),
    /// It cannot be recorded: why, and what to do.
    Unfit(&'static str),
}

const STATIC: &str = "is statically linked, so no library can be loaded into it; a Rust program can record itself with \
     the crate's allocator: see docs/record.md";
const SETUID: &str = "runs with another user's rights (setuid or setgid), for which the system loads no library; \
     record it as that user, or a copy without those bits";
const OTHER_MACHINE: &str = "is not an x86-64 program; only those can be recorded";
const OTHER_LIBC: &str = "uses the musl C library; only programs for the GNU C library can be recorded";

/// Finds a program as a shell would, and says why it cannot be recorded if that can be seen.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = look_up(name)?;
    let mut looked_at = path.clone();
    // A script's interpreter may be a script.
    for _ in 0..4 {
        match kind_of(&looked_at)
            .map_err(|error| Failure::in_file(&looked_at, format_args!("cannot read: {}", reason(&error))))?
        {
            Kind::Dynamic => break,
            Kind::Unfit(why) => return Err(Failure::in_file(&looked_at, why)),
            Kind::Script(interpreter) => looked_at = interpreter,
        }
    }
    Ok(path)
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

fn kind_of(path: &Path) -> io::Result<Kind> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut start)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty()).unwrap_or_default();
        return Ok(Kind::Script(PathBuf::from(String::from_utf8_lossy(word).into_owned())));
    }
    let about = file.metadata()?;
    let setuid = about.mode() & 0o4000 != 0 && about.uid() != rustix::process::geteuid().as_raw();
    let setgid = about.mode() & 0o2000 != 0 && about.gid() != rustix::process::getegid().as_raw();
    if setuid || setgid {
        return Ok(Kind::Unfit(SETUID));
    }
    if !start.starts_with(b"\x7fELF") {
        // A script without a first line, perhaps: the shell's business.
        return Ok(Kind::Dynamic);
    }
    const X86_64: [u8; 2] = [62, 0];
    const SIXTY_FOUR_BIT: u8 = 2;
    if start.get(4) != Some(&SIXTY_FOUR_BIT) || start.get(18..20) != Some(&X86_64) {
        return Ok(Kind::Unfit(OTHER_MACHINE));
    }
    Ok(match interpreter(&mut file, &start)? {
        None => Kind::Unfit(STATIC),
        Some(path) if path.contains("musl") => Kind::Unfit(OTHER_LIBC),
        Some(_) => Kind::Dynamic,
    })
}

/// The loader that an ELF file asks for.
fn interpreter(file: &mut File, start: &[u8]) -> io::Result<Option<String>> {
    const INTERPRETER: [u8; 4] = [3, 0, 0, 0];
    const HEADER: usize = 56;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    let (Some(table), Some(count)) = (start.get(32..40), start.get(56..58)) else { return Ok(None) };
    let mut headers = vec![0; number(count) as usize * HEADER];
    file.seek(SeekFrom::Start(number(table)))?;
    file.read_exact(&mut headers)?;
    let Some(header) = headers.chunks_exact(HEADER).find(|header| header[..4] == INTERPRETER) else { return Ok(None) };
    let mut path = Vec::new();
    file.seek(SeekFrom::Start(number(&header[8..16])))?;
    file.take(number(&header[32..40]).min(4096)).read_to_end(&mut path)?;
    Ok(Some(String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned()))
}

/// Starts the program with the library loaded first and the agent told what to do.
pub fn start(path: &Path, arguments: &[OsString], library: &Path, variable: (&str, &str)) -> Result<Child, Failure> {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (name, arguments) = arguments.split_first().ok_or_else(|| Failure::Usage("no program given".into()))?;
    let mut command = Command::new(path);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(arguments).env("LD_PRELOAD", preload).env(variable.0, variable.1);
    inherited::pass_on_to(&mut command);
    command.spawn().map_err(|error| Failure::in_file(path, format_args!("cannot be run: {}", reason(&error))))
}

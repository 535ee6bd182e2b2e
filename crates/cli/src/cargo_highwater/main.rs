//! `cargo highwater`: builds with cargo, and records the program, the tests or the benchmarks.
//!
//! Cargo looks for a program of this name. It runs what cargo runs, in the same way: cargo itself starts the right executables, with their arguments, folders and variables, by way of
//! its *runner*, and the runner is this program, which starts `highwater record`. All else is `highwater`, beside this program or on the path.

mod elf;
mod judged;
mod options;

use highwater_model::without_cargo_hash;
use judged::JudgedPrograms;
use options::{Options, Task};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Also the manual page, which `highwater man` writes.
const HELP: &str = include_str!("help.txt");

/// Set by cargo's caller for the runner.
const PASSED_ON: &str = "HIGHWATER_CARGO_OPTIONS";
const VIEW: &str = "HIGHWATER_CARGO_VIEW";
const OUTPUT: &str = "HIGHWATER_CARGO_OUTPUT";
const RAN: &str = "HIGHWATER_CARGO_RAN";
/// The word that says that cargo runs us as its runner.
const RUNNER: &str = "--as-runner";
/// Between options in a variable: no option has it.
const SEPARATOR: &str = "\u{1f}";

fn main() -> ExitCode {
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    // 'cargo highwater run' starts 'cargo-highwater highwater run'.
    if words.first().is_some_and(|word| word == "highwater") {
        words.remove(0);
    }
    let first = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let done = match first.as_str() {
        RUNNER => run_recorded(&words[1..]),
        "" | "-h" | "--help" | "help" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        "-V" | "--version" => {
            let commit = match env!("HIGHWATER_COMMIT") {
                "" => String::new(),
                commit => format!(" ({commit})"),
            };
            println!("cargo-highwater {}{commit}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => Options::read(&words).and_then(|options| call_cargo(&options)),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("cargo highwater: {problem}");
        ExitCode::from(2)
    })
}

/// Lets cargo do the work.
fn call_cargo(options: &Options) -> Result<ExitCode, String> {
    let me = env::current_exe().map_err(|error| format!("its own path is not known: {error}"))?;
    let me = me
        .to_str()
        .filter(|path| !path.contains(' '))
        .ok_or("its own path has a space, which cargo's runner must not have")?;
    let task = match options.task {
        Task::Run => "run",
        Task::Test => "test",
        Task::Bench => "bench",
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(task).args(&options.cargo);
    let runner = format!("{me} {RUNNER}");
    for libc in ["GNU", "MUSL"] {
        cargo.env(format!("CARGO_TARGET_X86_64_UNKNOWN_LINUX_{libc}_RUNNER"), &runner);
    }
    cargo.env(PASSED_ON, options.record.join(OsStr::new(SEPARATOR)));
    set_or_remove(&mut cargo, VIEW, options.view.then(|| "1".into()));
    set_or_remove(&mut cargo, OUTPUT, options.output.clone().map(Into::into));
    let judged = match options.has_limits() && options.task != Task::Run {
        true => Some(JudgedPrograms::new()?),
        false => None,
    };
    set_or_remove(&mut cargo, RAN, judged.as_ref().map(|judged| judged.path().into()));
    let Some(judged) = judged else { return Err(format!("cargo cannot be run: {}", cargo.exec())) };
    // Ctrl-C ends cargo, and we end as it does.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    let status = cargo.status().map_err(|error| format!("cargo cannot be run: {error}"))?;
    let problems = judged.problems()?;
    problems.iter().for_each(|problem| eprintln!("cargo highwater: {problem}"));
    Ok(match exit_code(status) {
        0 if !problems.is_empty() => ExitCode::FAILURE,
        code => ExitCode::from(code),
    })
}

/// As a shell has it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn set_or_remove(command: &mut Command, name: &str, value: Option<OsString>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

/// Cargo's runner: an executable and its arguments.
fn run_recorded(words: &[OsString]) -> Result<ExitCode, String> {
    let program = words.first().map(PathBuf::from).ok_or("cargo named no program")?;
    let file = match env::var_os(OUTPUT) {
        Some(file) => file.into(),
        None => recording_of(&program)?,
    };
    say_what_names_lack(&program);
    let options = env::var_os(PASSED_ON).unwrap_or_default();
    let options = options.to_str().ok_or("an option is no text")?;
    let highwater = highwater();
    let mut record = Command::new(&highwater);
    record.args(["record", "--force", "-o"]).arg(&file);
    if let Some(ran) = env::var_os(RAN) {
        record.arg("--ran").arg(ran);
    }
    record.args(options.split(SEPARATOR).filter(|option| !option.is_empty())).arg("--").args(words);
    for name in [PASSED_ON, VIEW, OUTPUT, RAN] {
        record.env_remove(name);
    }
    let cannot = |error| {
        format!("{} cannot be run: {error}; 'cargo install' of highwater-cli installs both", highwater.display())
    };
    if env::var_os(VIEW).is_none() {
        return Err(cannot(record.exec()));
    }
    let status = record.status().map_err(cannot)?;
    if file.exists() {
        // Ctrl-C ends the viewer. The exit code is that of the program and its limits all the same.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
        Command::new(&highwater).arg("view").arg(&file).status().map_err(cannot)?;
    }
    Ok(ExitCode::from(exit_code(status)))
}

/// `highwater`, beside this program, or on the path.
fn highwater() -> PathBuf {
    let beside = env::current_exe().ok().map(|me| me.with_file_name("highwater"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| "highwater".into())
}

/// Where the recording of an executable goes: a folder beside those of cargo's profiles.
fn recording_of(program: &Path) -> Result<PathBuf, String> {
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    let name = without_cargo_hash(&stem);
    // Two packages of a workspace may have tests of one name.
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let name = match package.is_empty() || package == name || package.replace('-', "_") == name {
        true => name.to_owned(),
        false => format!("{package}-{name}"),
    };
    let kinds = ["deps", "examples"].map(OsStr::new);
    let mut folder = program.parent();
    while folder.and_then(Path::file_name).is_some_and(|name| kinds.contains(&name)) {
        folder = folder.and_then(Path::parent);
    }
    let of_profiles = folder.and_then(Path::parent).ok_or("cargo's target directory is not known")?;
    // With '--target' the folders of profiles are in one of that name. Cargo keeps this file in the directory itself.
    let is_target = |folder: &&Path| folder.join(".rustc_info.json").exists();
    let above = of_profiles.parent().filter(is_target).filter(|_| !is_target(&of_profiles));
    let target = above.unwrap_or(of_profiles);
    let folder = target.join("highwater");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder.join(format!("{name}.hw")))
}

/// Hints, if names or lines will be missing.
fn say_what_names_lack(program: &Path) {
    let Ok(sections) = elf::section_names(program) else { return };
    let has = |name: &str| sections.iter().any(|section| section == name);
    let profile = program.components().rev().skip(1).map(|part| part.as_os_str().to_string_lossy());
    let profile = profile.into_iter().find(|part| part != "deps" && part != "examples").unwrap_or_default();
    let profile = if profile == "debug" { "dev".into() } else { profile };
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if !has(".symtab") {
        eprintln!(
            "cargo highwater: {name} is stripped: functions will have no names. In Cargo.toml: [profile.{profile}] strip = false"
        );
    } else if !has(".debug_line") {
        eprintln!(
            "cargo highwater: {name} has no debug information: functions will have no lines, and inlined ones no names. \
             In Cargo.toml: [profile.{profile}] debug = \"line-tables-only\""
        );
    }
}

//! Records programs with the real command, and reads the recordings.

use super::{HIGHWATER, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

/// The result of a program, by itself or under the recorder.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        Self { status: output.status, stdout: output.stdout, stderr: output.stderr }
    }

    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The exit code, or the status that a shell gives for the signal.
    pub fn shell_status(&self) -> i32 {
        self.status.code().or(self.status.signal().map(|signal| 128 + signal)).unwrap()
    }

    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.shell_status(), 0, "{}{}", self.stdout_text(), self.stderr_text());
        self
    }

    pub fn json(&self) -> Value {
        let text = self.stdout_text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{}", self.stderr_text()))
    }
}

/// A program by itself, in the test's directory.
pub fn plain(place: &Place, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(place.path()).stdin(Stdio::null());
    command
}

/// `highwater record -o recording.hw OPTIONS -- PROGRAM`, to which arguments can be added.
pub fn record(place: &Place, options: &[&str], program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(HIGHWATER);
    let output = if options.contains(&"-o") { &[][..] } else { &["-o", "recording.hw"][..] };
    command.args(["record", "--force"]).args(output).args(options).arg("--").arg(program);
    command.current_dir(place.path()).stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub fn run(command: &mut Command) -> Ended {
    Ended::of(command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Counts of any owner of blocks, as they are in the JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
    pub reallocated_away: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub cross_thread_frees: u64,
    pub temporary_allocations: u64,
}

impl Counts {
    pub fn of(row: &Value) -> Self {
        let number = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("no {name} in {row}"));
        // Samples do not show which blocks were resized or temporary.
        let known = |name: &str| if row["live_samples"].is_null() { number(name) } else { 0 };
        let allocated = known("reallocations");
        Self {
            allocations: number("allocations"),
            frees: number("frees"),
            reallocations: allocated,
            // In total both numbers are equal, and the totals have only one of them.
            reallocated_away: row["reallocated_away"].as_u64().unwrap_or(allocated),
            allocated_bytes: number("allocated_bytes"),
            freed_bytes: number("freed_bytes"),
            live_blocks: number("live_blocks"),
            live_bytes: number("live_bytes"),
            cross_thread_frees: number("cross_thread_frees"),
            temporary_allocations: known("temporary_allocations"),
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.reallocations += other.reallocations;
        self.reallocated_away += other.reallocated_away;
        self.allocated_bytes += other.allocated_bytes;
        self.freed_bytes += other.freed_bytes;
        self.live_blocks += other.live_blocks;
        self.live_bytes += other.live_bytes;
        self.cross_thread_frees += other.cross_thread_frees;
        self.temporary_allocations += other.temporary_allocations;
    }
}

/// One frame of a recorded stack.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The name without parameters, template arguments and enclosing scopes.
    pub function: String,
    pub full_name: Option<String>,
    pub module: String,
    pub line: Option<u64>,
    pub inlined: bool,
    pub address: Option<u64>,
}

impl Frame {
    fn of(frame: &Value) -> Self {
        let text = |name: &str| frame[name].as_str().map(str::to_owned);
        let address = text("address").map(|hex| u64::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap());
        Self {
            function: last_name(frame["function"].as_str().unwrap_or_default()),
            full_name: text("function"),
            module: text("module").unwrap_or_default(),
            line: frame["line"].as_u64(),
            inlined: frame["inlined"] == true,
            address,
        }
    }
}

/// `counted::grow<int>(int)` is `grow`.
fn last_name(function: &str) -> String {
    let without_parameters = function.split('(').next().unwrap_or_default();
    let without_arguments = without_parameters.split('<').next().unwrap_or_default();
    without_arguments.rsplit("::").next().unwrap_or_default().to_owned()
}

/// A call site with its figures.
#[derive(Clone, Debug)]
pub struct Site {
    pub frames: Vec<Frame>,
    pub counts: Counts,
    pub peak_bytes: u64,
}

impl Site {
    /// The innermost function that has one of these names.
    pub fn owner<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        self.frames.iter().find_map(|frame| names.iter().find(|name| **name == frame.function).copied())
    }

    pub fn has(&self, function: &str) -> bool {
        self.frames.iter().any(|frame| frame.function == function)
    }

    /// Threads begin in the C library, the program in its own start code or the dynamic linker. In a static program all of it is in one module.
    pub fn is_on_another_thread(&self) -> bool {
        let begins_thread = |frame: &Frame| {
            frame.module.contains("libc.so") || frame.function.trim_start_matches('_').starts_with("clone")
        };
        self.frames.last().is_some_and(begins_thread)
    }
}

/// A recording that was checked, and its report.
pub struct Recording {
    pub path: PathBuf,
    pub report: Value,
    pub sites: Vec<Site>,
}

impl Recording {
    /// Reads the recording that [`record`] makes.
    pub fn read(place: &Place) -> Self {
        Self::read_file(place, "recording.hw")
    }

    /// Reads the recordings of children beside it.
    pub fn read_children(place: &Place) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(place.file("recording.children")) else { return Vec::new() };
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        entries.map(|entry| Self::read_file(place, &format!("recording.children/{}", name(entry)))).collect()
    }

    #[track_caller]
    pub fn read_file(place: &Place, name: &str) -> Self {
        Self::read_at(place, name, "end")
    }

    #[track_caller]
    pub fn read_at(place: &Place, name: &str, when: &str) -> Self {
        let check = place.run(["check", name]);
        assert_eq!(check.code, 0, "{name}: {}{}", check.stdout, check.stderr);
        let report = place.run(["report", name, "--json", "--at", when]);
        assert_eq!((report.code, report.stderr.as_str()), (0, ""), "{name}: {}", report.stdout);
        let report = super::document(&report.stdout);
        let site = |row: &Value| Site {
            frames: row["stack"].as_array().unwrap().iter().map(Frame::of).collect(),
            counts: Counts::of(row),
            peak_bytes: row["peak_bytes"].as_u64().unwrap(),
        };
        let sites = report["sites"].as_array().unwrap().iter().map(site).collect();
        Self { path: place.file(name), report, sites }
    }

    /// The row of one heap in `report --by heap`; zeros if there is none.
    pub fn heap(&self, place: &Place, name: &str) -> Value {
        let path = self.path.to_str().unwrap();
        let report: Value =
            serde_json::from_str(&place.run(["report", path, "--by", "heap", "--json"]).stdout).unwrap();
        let heaps = report["heaps"].as_array().unwrap();
        heaps.iter().find(|row| row["name"] == name).cloned().unwrap_or(Value::Null)
    }

    pub fn totals(&self) -> Counts {
        Counts::of(&self.report["totals"])
    }

    /// The figures of all sites whose innermost named function is `function`.
    pub fn of_function(&self, function: &str) -> Counts {
        let mut sum = Counts::default();
        for site in self.sites.iter().filter(|site| site.has(function)) {
            sum += site.counts;
        }
        sum
    }

    /// There are no anomalies: no unmatched free, no lost event, no truncated stack.
    #[track_caller]
    pub fn has_no_oddities(&self) {
        let odd: Vec<_> = self.report["anomalies"]
            .as_object()
            .unwrap()
            .iter()
            // Events of several threads arrive in pieces and are put in order: that is not a loss.
            .filter(|(name, count)| name.as_str() != "out_of_order_events" && **count != 0)
            .collect();
        assert!(odd.is_empty(), "{odd:?}");
    }
}

/// The counts of the second witness (`programs/counter.c`) in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    pub allocations: u64,
    pub frees: u64,
    pub reallocations: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
    pub peak_bytes: u64,
    pub peak_blocks: u64,
    pub unknown: u64,
}

impl Witness {
    /// The counts of each process that had the witness, by process id.
    pub fn read_all(folder: &Path) -> BTreeMap<u64, Self> {
        std::fs::read_dir(folder).unwrap().map(|entry| Self::read(&entry.unwrap().path())).collect()
    }

    fn read(path: &Path) -> (u64, Self) {
        let bytes = std::fs::read(path).unwrap();
        let words: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let [allocations, frees, reallocations, allocated_bytes, freed_bytes, peak_bytes, peak_blocks, unknown] =
            words.try_into().unwrap();
        let counts =
            Self { allocations, frees, reallocations, allocated_bytes, freed_bytes, peak_bytes, peak_blocks, unknown };
        (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), counts)
    }

    /// The same counts of a recording, without frees of blocks that are older than it.
    pub fn of(recording: &Recording) -> Self {
        let totals = &recording.report["totals"];
        let number = |name: &str| totals[name].as_u64().unwrap();
        Self {
            allocations: number("allocations"),
            frees: number("frees"),
            reallocations: number("reallocations"),
            allocated_bytes: number("allocated_bytes"),
            freed_bytes: number("freed_bytes"),
            peak_bytes: number("peak_bytes"),
            peak_blocks: number("peak_blocks"),
            unknown: recording.report["anomalies"]["unmatched_frees"].as_u64().unwrap(),
        }
    }

    /// Adds the second witness to a program that is about to be started, and returns the directory it writes to.
    pub fn join(command: &mut Command, place: &Place) -> PathBuf {
        let folder = place.file("witness");
        std::fs::create_dir_all(&folder).unwrap();
        let library = super::programs::library("counter", "counter", &[]);
        command.env("LD_PRELOAD", library).env("COUNTER_DIRECTORY", &folder);
        folder
    }
}

//! Files of DHAT: of valgrind's (`valgrind --tool=dhat`), and of the Rust crate `dhat`, which writes the same JSON.
//!
//! A program point is a call stack with figures: all that it ever allocated (`tb`, `tbk`), its own maximum (`mb`), what is live at the global maximum
//! (`gb`, `gbk`) and at the end (`eb`, `ebk`). The file therefore has two states: at the times `tg` and `te`.
//!
//! Valgrind updates `mb` only while the whole program reaches a new maximum. A site that grows later has too little there, often 0, so own peaks are read
//! from files of the crate alone.
//!
//! The program points stand before the table of frames that they refer to, so the file is held in memory: at most some 60 bytes for each of its bytes.

use crate::error::InputError;
use crate::format::{Format, Read};
use crate::profile::{Profile, ProfileSite, ProfileState};
use crate::stream::InputStream;
use crate::valgrind_frame::ValgrindFrame;
use highwater_model::{Catalog, Clock, KnownFigures, Nanos, Source, SourceKind, StackId, program_name};
use serde::de::{Deserialize, Deserializer, Error};
use std::io::BufReader;

/// The supported version of the format.
const VERSION: u16 = 2;
/// The text of the frame that stands for all others.
const ROOT: &str = "[root]";

/// A file of DHAT.
pub struct DhatFormat;

impl Format for DhatFormat {
    fn key(&self) -> &'static str {
        "dhat"
    }

    fn title(&self) -> &'static str {
        "DHAT profile"
    }

    fn source_title(&self) -> &'static str {
        "DHAT"
    }

    fn advice(&self) -> &'static str {
        "'highwater report --at peak' shows it"
    }

    fn recognizes(&self, start: &[u8]) -> bool {
        let inside = start.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
        inside.trim_ascii_start().starts_with(b"\"dhatFileVersion\"")
    }

    fn read(&self) -> Read {
        Read::Profile(read)
    }
}

/// The whole file.
#[derive(serde::Deserialize)]
struct DhatFile {
    #[serde(rename = "dhatFileVersion", deserialize_with = "known_version")]
    _version: u16,
    mode: Mode,
    /// Whether the lifetimes of blocks are known, and with them what is live.
    #[serde(rename = "bklt", deserialize_with = "known_lifetimes")]
    _lifetimes: bool,
    tu: TimeUnit,
    #[serde(default)]
    cmd: String,
    #[serde(default)]
    pid: u64,
    tg: u64,
    te: u64,
    pps: Vec<ProgramPoint>,
    ftbl: Vec<String>,
}

/// The origin of a file that is about memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Valgrind,
    RustCrate,
}

/// What the times of a file count.
#[derive(Clone, Copy)]
enum TimeUnit {
    Instructions,
    Microseconds,
}

/// A call stack and its figures.
#[derive(serde::Deserialize)]
struct ProgramPoint {
    tb: u64,
    tbk: u64,
    mb: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
    /// Its frames by number, innermost first.
    fs: Vec<u32>,
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    match u64::deserialize(deserializer)? {
        version if version == u64::from(VERSION) => Ok(VERSION),
        other => Err(D::Error::custom(format!("version {other} of the format is not known, only {VERSION}"))),
    }
}

fn known_lifetimes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match bool::deserialize(deserializer)? {
        true => Ok(true),
        false => Err(D::Error::custom("the profile does not say what is live (bklt is false)")),
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "heap" => Ok(Self::Valgrind),
            "rust-heap" => Ok(Self::RustCrate),
            other => Err(D::Error::custom(format!("the profile is not about memory that is held (mode {other:?})"))),
        }
    }
}

impl<'de> Deserialize<'de> for TimeUnit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "instrs" => Ok(Self::Instructions),
            "µs" => Ok(Self::Microseconds),
            other => Err(D::Error::custom(format!("the unit of time {other:?} is not known"))),
        }
    }
}

fn read(input: &mut InputStream<'_>) -> Result<Profile, InputError> {
    input.doing = "reading the DHAT profile";
    let path = input.path;
    let parsed = serde_json::from_reader(BufReader::with_capacity(1 << 16, input));
    let file: DhatFile = parsed.map_err(|error| match error.is_io() {
        true => InputError::unreadable(path, error.into()),
        false => InputError::unusable(path, error),
    })?;
    if file.tg > file.te {
        return Err(InputError::unusable(path, "the maximum is after the end (tg is more than te)"));
    }
    let mut catalog = Catalog::default();
    let stacks = stacks(&file, &mut catalog).map_err(|why| InputError::unusable(path, why))?;
    Ok(Profile {
        known: KnownFigures {
            live_blocks: true,
            allocated: true,
            own_peaks: file.mode == Mode::RustCrate,
            samples: false,
        },
        states: states(&file, &stacks),
        source: source(file),
        catalog,
        is_instant: false,
        version: VERSION,
        ..Profile::default()
    })
}

fn source(file: DhatFile) -> Source {
    let command: Vec<String> = file.cmd.split_whitespace().map(str::to_owned).collect();
    let clock = match file.tu {
        TimeUnit::Instructions => Clock::Instructions,
        TimeUnit::Microseconds => Clock::Time,
    };
    Source {
        kind: SourceKind::new("dhat"),
        program: program_name(command.first().map(String::as_str), ""),
        pid: file.pid,
        command,
        duration: instant(file.tu, file.te),
        clock,
        ..Source::default()
    }
}

fn instant(unit: TimeUnit, time: u64) -> Nanos {
    match unit {
        TimeUnit::Instructions => Nanos(time),
        TimeUnit::Microseconds => Nanos(time.saturating_mul(1000)),
    }
}

/// The stack of each program point.
fn stacks(file: &DhatFile, catalog: &mut Catalog) -> Result<Vec<StackId>, String> {
    let frames: Vec<Option<ValgrindFrame>> =
        file.ftbl.iter().map(|text| (text != ROOT).then(|| ValgrindFrame::intern(catalog, text))).collect();
    let mut innermost_first = Vec::new();
    let stack = |(number, point): (usize, &ProgramPoint)| {
        innermost_first.clear();
        for index in &point.fs {
            let frame = frames.get(*index as usize);
            let frame = frame.ok_or_else(|| format!("program point {number}: there is no frame {index} in ftbl"))?;
            innermost_first.extend(*frame);
        }
        Ok(ValgrindFrame::intern_stack(catalog, &innermost_first))
    };
    (1..).zip(&file.pps).map(stack).collect()
}

/// The state at the global maximum, and the one at the end; a single one if the maximum is the end.
fn states(file: &DhatFile, stacks: &[StackId]) -> Vec<ProfileState> {
    let points = || stacks.iter().zip(&file.pps);
    let end = points().map(|(stack, point)| ProfileSite {
        stack: *stack,
        live_bytes: point.eb,
        live_blocks: point.ebk,
        allocated_bytes: point.tb,
        allocations: point.tbk,
        own_peak_bytes: point.mb,
        ..ProfileSite::default()
    });
    let end = ProfileState { at: instant(file.tu, file.te), sites: end.collect() };
    if file.tg == file.te && file.pps.iter().all(|point| (point.gb, point.gbk) == (point.eb, point.ebk)) {
        return vec![end];
    }
    let maximum = points().filter(|(_, point)| point.gb > 0 || point.gbk > 0).map(|(stack, point)| ProfileSite {
        stack: *stack,
        live_bytes: point.gb,
        live_blocks: point.gbk,
        ..ProfileSite::default()
    });
    vec![ProfileState { at: instant(file.tu, file.tg), sites: maximum.collect() }, end]
}

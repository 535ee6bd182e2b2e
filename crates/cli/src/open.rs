//! Opening a file whatever it is: its kind is found by content, never by name.

use crate::event_lines;
use crate::failure::{Failure, reason};
use crate::image_file;
use crate::memtrace::{self, Trace};
use crate::object_log;
use crate::output::warn;
use crate::print::bytes::counted;
use crate::wanted::Wanted;
use highwater_formats::events::looks_like_events;
use highwater_formats::memtrace::looks_like_memtrace;
use highwater_formats::objlog::looks_like_object_log;
use highwater_model::{Catalog, GaugeReading, Heap, NamedInstant, Snapshot, Source, Timeline, Totals, When};
use highwater_store::{Damage, FileStats, OpenError, Recording, RecordingError, is_recording};
use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many bytes are looked at to find a file's kind: an object log may begin with noise.
pub const SNIFFED: u64 = 1 << 16;
/// Problems of one kind that are named one by one; those after them are counted.
pub const NAMED_PROBLEMS: usize = 10;

/// An opened file, with what the user wants done about damage.
///
/// A recording finds damage where it reads, so every answer is followed by a look at what has come to light.
pub struct Opened {
    /// What the user called it.
    pub path: PathBuf,
    /// What it turned out to be.
    pub kind: Kind,
    content: Content,
    /// Lines of events or of an object log that were skipped.
    pub bad_lines: u64,
    size: u64,
    on_damage: OnDamage,
    /// What was wrong before it became a recording.
    own_damage: Vec<Damage>,
    known_damage: RefCell<Vec<Damage>>,
}

/// What a file holds.
enum Content {
    Recording(Box<Recording>),
    Trace(Box<Trace>),
}

/// What is done about damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Warn, and use everything else.
    Warn,
    /// Give up.
    Fail,
    /// Leave it to the caller to tell.
    Collect,
}

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `.hw` file of events.
    Recording,
    /// A `.hw` file of one state.
    Snapshot,
    /// JSON lines.
    EventLines,
    /// An OCaml program's trace.
    Memtrace,
    /// Lines about objects on a console.
    ObjectLog,
    /// Every byte of a memory.
    Image,
}

impl Kind {
    /// Its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Snapshot => "snapshot",
            Self::EventLines => "event_lines",
            Self::Memtrace => "memtrace",
            Self::ObjectLog => "object_log",
            Self::Image => "image",
        }
    }
}

/// Opens a recording, a snapshot, a trace, a file of event lines or an object log.
pub fn open(path: &Path, on_damage: OnDamage) -> Result<Opened, Failure> {
    open_while(path, on_damage, &|| true)
}

/// The same, given up where reading goes on and nobody wants it any more.
pub fn open_while(path: &Path, on_damage: OnDamage, is_wanted: &dyn Fn() -> bool) -> Result<Opened, Failure> {
    let mut input = Wanted { input: open_input(path)?, is_wanted };
    let mut start = Vec::new();
    input.by_ref().take(SNIFFED).read_to_end(&mut start).map_err(|error| cannot_read(path, &error))?;
    if start.is_empty() {
        return Err(Failure::in_file(path, "the file is empty; nothing was recorded in it"));
    }
    let mut opened = if is_recording(&start) {
        let recording = read_recording(path, start, input)?;
        let kind = if recording.is_snapshot() { Kind::Snapshot } else { Kind::Recording };
        Opened::new(path, kind, Content::Recording(Box::new(recording)))
    } else if looks_like_memtrace(&start) {
        let trace = memtrace::load(start, input, path)?;
        Opened::new(path, Kind::Memtrace, Content::Trace(Box::new(trace)))
    } else if looks_like_events(&start) {
        let strict = on_damage == OnDamage::Fail;
        let loaded = event_lines::load(start.as_slice().chain(input), path, regular_size(path), strict)?;
        let (bad_lines, size) = (loaded.bad_lines, loaded.input_bytes);
        let recording = loaded.into_recording(path)?;
        Opened { bad_lines, size, ..Opened::new(path, Kind::EventLines, Content::Recording(Box::new(recording))) }
    } else if looks_like_object_log(&start) {
        let strict = on_damage == OnDamage::Fail;
        let (recording, bad_lines, size) = object_log::load(start.as_slice().chain(input), path, strict)?;
        Opened { bad_lines, size, ..Opened::new(path, Kind::ObjectLog, Content::Recording(Box::new(recording))) }
    } else {
        open_image(path)?
    };
    opened.on_damage = on_damage;
    opened.judge_damage()?;
    Ok(opened)
}

/// Opens a memory image: it has no mark at its beginning, so all else was tried before.
fn open_image(path: &Path) -> Result<Opened, Failure> {
    let image = match regular_size(path) {
        Some(_) => image_file::recording_of(path)?,
        None => None,
    };
    let Some((recording, damage)) = image else {
        let wanted = "neither a Highwater recording, a memtrace, event lines, an object log nor a memory image with a heap that is known; 'highwater import --help' tells what can be read";
        return Err(Failure::in_file(path, wanted));
    };
    let size = regular_size(path).unwrap_or(0);
    let opened = Opened::new(path, Kind::Image, Content::Recording(Box::new(recording)));
    Ok(Opened { size, own_damage: damage, ..opened })
}

/// The size of a regular file; `None` for pipes and the like.
pub fn regular_size(path: &Path) -> Option<u64> {
    if is_standard_input(path) {
        return None;
    }
    std::fs::metadata(path).ok().filter(Metadata::is_file).map(|about| about.len())
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file for reading; `-` is standard input.
pub fn open_input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if is_standard_input(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    match file.metadata() {
        Ok(about) if about.is_dir() => {
            Err(Failure::in_file(path, "is a directory; give a recording or an events file"))
        }
        _ => Ok(Box::new(file)),
    }
}

/// What is said when the system does not let us read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::in_file(path, format_args!("cannot read: {}", reason(error)))
}

fn read_recording(path: &Path, mut start: Vec<u8>, mut rest: impl Read) -> Result<Recording, Failure> {
    let opened = if regular_size(path).is_some() {
        Recording::open(path)
    } else {
        rest.read_to_end(&mut start).map_err(|error| cannot_read(path, &error))?;
        Recording::from_bytes(start)
    };
    opened.map_err(|error| match error {
        OpenError::Io(error) => cannot_read(path, &error),
        other => Failure::in_file(path, other),
    })
}

impl Opened {
    fn new(path: &Path, kind: Kind, content: Content) -> Self {
        let size = match &content {
            Content::Recording(recording) => recording.stats().file_bytes,
            Content::Trace(trace) => trace.stats.file_bytes,
        };
        let known_damage = RefCell::default();
        Self {
            path: path.to_owned(),
            kind,
            content,
            bad_lines: 0,
            size,
            on_damage: OnDamage::Warn,
            own_damage: Vec::new(),
            known_damage,
        }
    }

    /// Facts about the file, as it lies there.
    pub fn stats(&self) -> FileStats {
        match &self.content {
            Content::Recording(recording) => FileStats { file_bytes: self.size, ..recording.stats() },
            Content::Trace(trace) => trace.stats,
        }
    }

    /// Whose memory it is.
    pub fn source(&self) -> &Source {
        match &self.content {
            Content::Recording(recording) => recording.source(),
            Content::Trace(trace) => &trace.source,
        }
    }

    /// What the handles stand for.
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.content {
            Content::Recording(recording) => recording.catalog(),
            Content::Trace(trace) => &trace.catalog,
        }
    }

    /// What could not be used, as far as was read until now.
    pub fn damage(&self) -> Vec<Damage> {
        match &self.content {
            Content::Recording(recording) => self.own_damage.iter().cloned().chain(recording.damage()).collect(),
            Content::Trace(trace) => trace.damage.clone(),
        }
    }

    /// What it holds, for whoever keeps it, and what could not be used before it became a recording. Given up where nobody wants it any more.
    pub fn into_recording(self, is_wanted: &dyn Fn() -> bool) -> Result<(Recording, Vec<Damage>), Failure> {
        match self.content {
            Content::Recording(recording) => Ok((*recording, self.own_damage)),
            Content::Trace(trace) => {
                let damage = trace.damage.clone();
                Ok((trace.into_recording(is_wanted)?, damage))
            }
        }
    }

    /// What it holds, as a recording.
    pub fn recording(&self) -> Result<&Recording, Failure> {
        match &self.content {
            Content::Recording(recording) => Ok(recording),
            Content::Trace(trace) => trace.recording(),
        }
    }

    /// The marks, in order.
    pub fn marks(&self) -> Result<Vec<NamedInstant>, Failure> {
        match &self.content {
            Content::Recording(_) => self.ask(Recording::marks),
            Content::Trace(_) => Ok(Vec::new()),
        }
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<Vec<GaugeReading>, Failure> {
        match &self.content {
            Content::Recording(_) => self.ask(Recording::gauges),
            Content::Trace(_) => Ok(Vec::new()),
        }
    }

    /// Fails where a time is named and the file has none.
    pub fn must_know(&self, when: &When) -> Result<(), Failure> {
        if self.source().untimed && matches!(when, When::At(_)) {
            let why = "the log tells no times; an instant of it is a part (50%), line:N or mark:NAME";
            return Err(Failure::in_file(&self.path, why));
        }
        Ok(())
    }

    /// The state at an instant.
    pub fn snapshot(&self, when: &When) -> Result<Snapshot, Failure> {
        self.must_know(when)?;
        match &self.content {
            Content::Trace(trace) if *when == When::End => Ok(trace.end()),
            _ => self.ask(|recording| recording.snapshot(when)),
        }
    }

    /// The state at an instant, of one heap alone if one is given.
    pub fn snapshot_of(&self, when: &When, heap: Option<Heap>) -> Result<Snapshot, Failure> {
        self.must_know(when)?;
        match heap {
            Some(heap) => self.ask(|recording| recording.snapshot_of_heap(when, heap)),
            None => self.snapshot(when),
        }
    }

    /// The course of live memory.
    pub fn timeline(&self, points: usize) -> Result<Timeline, Failure> {
        self.ask(|recording| recording.timeline(points))
    }

    /// The totals at the end: the peak of the whole recording.
    pub fn final_totals(&self) -> Result<Totals, Failure> {
        match &self.content {
            Content::Recording(_) => self.ask(|recording| Ok(recording.final_totals()?)),
            Content::Trace(trace) => Ok(trace.totals()),
        }
    }

    /// Asks the recording something, then looks at the damage that came to light.
    pub fn ask<T>(&self, question: impl FnOnce(&Recording) -> Result<T, RecordingError>) -> Result<T, Failure> {
        let answer = question(self.recording()?).map_err(|error| match error {
            RecordingError::Io(error) => cannot_read(&self.path, &error),
            other => Failure::in_file(&self.path, other),
        })?;
        self.judge_damage()?;
        Ok(answer)
    }

    /// Warns of damage that was not known before; an error with `--strict`, or when nothing else was found.
    fn judge_damage(&self) -> Result<(), Failure> {
        let mut known = self.known_damage.borrow_mut();
        let new: Vec<Damage> = self.damage().into_iter().filter(|damage| !known.contains(damage)).collect();
        let Some(first) = new.first() else { return Ok(()) };
        if self.on_damage == OnDamage::Fail {
            return Err(Failure::in_file(&self.path, format_args!("damaged: {first}")));
        }
        if self.is_nothing_left() {
            return Err(Failure::in_file(&self.path, format_args!("nothing in it is usable: {first}")));
        }
        if self.on_damage == OnDamage::Warn {
            warn_of_damage(&self.path, &new, known.len());
        }
        known.extend(new);
        Ok(())
    }

    /// True when nothing can be told of what it holds.
    fn is_nothing_left(&self) -> bool {
        match self.kind {
            Kind::Snapshot | Kind::Image => {
                self.recording().is_ok_and(|recording| recording.snapshot(&When::End).is_err())
            }
            _ => self.stats().events == 0,
        }
    }
}

/// Warns of damage of which so much was named before.
pub fn warn_of_damage(path: &Path, new: &[Damage], known: usize) {
    let unnamed = (known + new.len()).saturating_sub(NAMED_PROBLEMS).min(new.len());
    let (named, rest) = new.split_at(new.len() - unnamed);
    for damage in named {
        warn(&format!("{}: {damage}; everything else is used", path.display()));
    }
    if !rest.is_empty() {
        warn(&format!("{}: {}", path.display(), counted(rest.len() as u64, "more damaged part")));
    }
}

//! Opening files for commands: problems of a file become warnings, or end the command.

use crate::failure::{Failure, reason};
use crate::output::warn;
use crate::print::bytes::counted;
use crate::print::progress::Progress;
use highwater_input::{Format, InputError, InputFile, Problems};
use highwater_model::{
    AddressSpace, Catalog, GaugeReading, Heap, NamedInstant, Snapshot, Source, SourceKind, Timeline, Totals, When,
    gauge,
};
use highwater_store::{Damage, FileStats, Recording, RecordingError};
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Problems of one kind that are named one by one; those after them are counted.
const NAMED_PROBLEMS: usize = 10;

/// An opened file, with what the user wants done about damage.
///
/// A recording finds damage where it reads, so every answer is followed by a look at what has come to light.
pub struct Opened {
    file: InputFile,
    on_damage: OnDamage,
    known_damage: RefCell<Vec<Damage>>,
}

/// What is done about damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Warn, and use everything else.
    Warn,
    /// Give up.
    Fail,
    /// Leave it to the caller to report.
    Collect,
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Self::fault(error)
    }
}

/// Opens a file of any format.
pub fn open(path: &Path, on_damage: OnDamage) -> Result<Opened, Failure> {
    let file = with_progress(|progress| highwater_input::open_while(path, progress))?;
    judge_lines(path, file.problems(), on_damage)?;
    let opened = Opened { file, on_damage, known_damage: RefCell::default() };
    opened.judge_damage()?;
    Ok(opened)
}

/// Does something that reports how far it is, and shows that.
pub fn with_progress<T>(work: impl FnOnce(&mut highwater_input::Progress<'_>) -> T) -> T {
    let mut shown = Progress::new("reading");
    work(&mut |doing, part| {
        shown.update_as(doing, part);
        true
    })
}

/// The error of a file that the system does not let us read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::in_file(path, format_args!("cannot read: {}", reason(error)))
}

impl Opened {
    /// What the user called it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What it turned out to be.
    pub fn format(&self) -> &'static dyn Format {
        self.file.format()
    }

    /// True for a `.hw` file of one state.
    pub fn is_snapshot(&self) -> bool {
        self.file.is_snapshot()
    }

    /// Its name in JSON documents.
    pub fn json_key(&self) -> &'static str {
        self.file.json_key()
    }

    /// Lines that were skipped.
    pub fn bad_lines(&self) -> u64 {
        self.file.problems().bad_lines
    }

    /// Facts about the file, as it lies there.
    pub fn stats(&self) -> FileStats {
        self.file.stats()
    }

    /// Whose memory it is.
    pub fn source(&self) -> &Source {
        self.file.source()
    }

    /// What the handles stand for.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.file.catalog()
    }

    /// What could not be used, as far as was read until now.
    pub fn damage(&self) -> Vec<Damage> {
        self.file.damage()
    }

    /// What it holds, as a recording.
    pub fn recording(&self) -> Result<&Recording, Failure> {
        Ok(with_progress(|progress| self.file.recording(progress))?)
    }

    /// The marks, in order.
    pub fn marks(&self) -> Result<Vec<NamedInstant>, Failure> {
        if self.file.may_have_remarks() { self.ask(Recording::marks) } else { Ok(Vec::new()) }
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<Vec<GaugeReading>, Failure> {
        if self.file.may_have_remarks() { self.ask(Recording::gauges) } else { Ok(Vec::new()) }
    }

    /// Fails where a time is named and the file has none.
    pub fn must_know(&self, when: &When) -> Result<(), Failure> {
        if self.source().untimed && matches!(when, When::At(_)) {
            let why = "the log tells no times; an instant of it is a part (50%), line:N or mark:NAME";
            return Err(Failure::in_file(self.path(), why));
        }
        Ok(())
    }

    /// The state at an instant.
    pub fn snapshot(&self, when: &When) -> Result<Snapshot, Failure> {
        self.must_know(when)?;
        match self.file.end() {
            Some(end) if *when == When::End => Ok(end),
            _ => self.ask(|recording| with_address_space(recording, recording.snapshot(when)?)),
        }
    }

    /// The state at an instant, of one heap alone if one is given.
    pub fn snapshot_of(&self, when: &When, heap: Option<Heap>) -> Result<Snapshot, Failure> {
        self.must_know(when)?;
        match heap {
            Some(heap) => self.ask(|recording| with_address_space(recording, recording.snapshot_of_heap(when, heap)?)),
            None => self.snapshot(when),
        }
    }

    /// The course of live memory.
    pub fn timeline(&self, points: usize) -> Result<Timeline, Failure> {
        self.ask(|recording| recording.timeline(points))
    }

    /// The totals at the end: the peak of the whole recording.
    pub fn final_totals(&self) -> Result<Totals, Failure> {
        match self.file.end_totals() {
            Some(totals) => Ok(totals),
            None => self.ask(|recording| Ok(recording.final_totals()?)),
        }
    }

    /// Asks the recording something, then looks at the damage that came to light.
    pub fn ask<T>(&self, question: impl FnOnce(&Recording) -> Result<T, RecordingError>) -> Result<T, Failure> {
        let answer = question(self.recording()?).map_err(|error| match error {
            RecordingError::Io(error) => cannot_read(self.path(), &error),
            other => Failure::in_file(self.path(), other),
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
            return Err(Failure::in_file(self.path(), format_args!("damaged: {first}")));
        }
        if self.is_nothing_left() {
            return Err(Failure::in_file(self.path(), format_args!("nothing in it is usable: {first}")));
        }
        if self.on_damage == OnDamage::Warn {
            warn_of_damage(self.path(), &new, known.len());
        }
        known.extend(new);
        Ok(())
    }

    /// True when nothing is known of what it holds.
    fn is_nothing_left(&self) -> bool {
        match self.source().snapshot {
            true => self.recording().is_ok_and(|recording| recording.snapshot(&When::End).is_err()),
            false => self.stats().events == 0,
        }
    }
}

/// Warns of lines that could not be used; an error where that is wanted.
pub fn judge_lines(path: &Path, problems: &Problems, on_damage: OnDamage) -> Result<(), Failure> {
    let Some(first) = problems.first_bad_lines.first() else { return Ok(()) };
    if on_damage == OnDamage::Fail {
        return Err(Failure::in_file(path, format_args!("{first}; nothing was done, as --strict was given")));
    }
    if on_damage == OnDamage::Collect {
        return Ok(());
    }
    for line in problems.first_bad_lines.iter().take(NAMED_PROBLEMS) {
        warn(&format!("{}: {line}; skipped", path.display()));
    }
    let unnamed = problems.bad_lines.saturating_sub(NAMED_PROBLEMS as u64);
    if unnamed > 0 {
        warn(&format!("{}: {} skipped", path.display(), counted(unnamed, "more bad line")));
    }
    Ok(())
}

/// Warns of damage, after as many warnings as are `known`.
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

/// A snapshot of a native recording knows what was mapped then and is in no figure: gauges say so.
fn with_address_space(recording: &Recording, mut snapshot: Snapshot) -> Result<Snapshot, RecordingError> {
    if snapshot.source.kind == SourceKind::NATIVE && !snapshot.source.snapshot {
        let gauges = recording.gauges_at(snapshot.at)?;
        let latest = |name| gauges.iter().find(|reading| reading.name == name).map_or(0, |reading| reading.value);
        snapshot.source.address_space =
            AddressSpace { reserved_bytes: latest(gauge::RESERVED), mapped_file_bytes: latest(gauge::FILES) };
    }
    Ok(snapshot)
}

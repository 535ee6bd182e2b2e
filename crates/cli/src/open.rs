//! Opens files for commands. Problems in a file become warnings, or end the command.

use crate::failure::{Failure, reason};
use crate::output::warn;
use crate::print::bytes::counted;
use crate::print::progress::Progress;
use highwater_input::{Format, InputError, InputFile, Problems};
use highwater_model::{Catalog, GaugeReading, NamedInstant, RssBreakdown, Snapshot, Source, Totals, When};
use highwater_query::{Filter, QueryError, filtered_snapshot, no_times};
use highwater_store::history::{History, Work};
use highwater_store::{Damage, FileStats, Recording, RecordingError};
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of problems of one kind that are named one by one; further ones are only counted.
const NAMED_PROBLEMS: usize = 10;

/// An opened file, with the user's choice of how to handle damage.
///
/// A recording finds damage only where it reads, so each question to it is followed by a check for newly found damage.
pub struct Opened {
    file: InputFile,
    on_damage: OnDamage,
    known_damage: RefCell<Vec<Damage>>,
}

/// How damage is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Warn, and use everything else.
    Warn,
    /// Give up.
    Fail,
    /// Collect it; the caller reports it.
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

/// Runs `work` and shows the progress that it reports.
pub fn with_progress<T>(work: impl FnOnce(&mut highwater_input::ProgressCallback<'_>) -> T) -> T {
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
    /// The path as the user gave it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The detected format.
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

    /// The number of skipped lines.
    pub fn bad_lines(&self) -> u64 {
        self.file.problems().bad_lines
    }

    /// Statistics of the file itself.
    pub fn stats(&self) -> FileStats {
        self.file.stats()
    }

    /// The number of events, or of states if only states are known.
    pub fn steps(&self) -> Result<u64, Failure> {
        match self.source().is_states() {
            true => Ok(self.recording()?.states().len() as u64),
            false => Ok(self.stats().events),
        }
    }

    /// The process that was recorded.
    pub fn source(&self) -> &Source {
        self.file.source()
    }

    /// The catalog that the handles refer to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.file.catalog()
    }

    /// The unusable parts found so far.
    pub fn damage(&self) -> Vec<Damage> {
        self.file.damage()
    }

    /// The contents as a recording.
    pub fn recording(&self) -> Result<&Recording, Failure> {
        Ok(with_progress(|progress| self.file.recording(progress))?)
    }

    /// The marks, in order.
    pub fn marks(&self) -> Result<Vec<NamedInstant>, Failure> {
        if self.file.may_have_remarks() { self.ask(Recording::marks) } else { Ok(Vec::new()) }
    }

    /// Where the resident memory was, at the instants at which that was recorded, in time order.
    pub fn breakdowns(&self) -> Result<Vec<RssBreakdown>, Failure> {
        if self.file.may_have_remarks() { self.ask(Recording::breakdowns) } else { Ok(Vec::new()) }
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<Vec<GaugeReading>, Failure> {
        if self.file.may_have_remarks() { self.ask(Recording::gauges) } else { Ok(Vec::new()) }
    }

    /// Fails if `when` is a time and the file has no times.
    pub fn must_know(&self, when: &When) -> Result<(), Failure> {
        if self.source().is_untimed() && matches!(when, When::At(_)) {
            return Err(Failure::in_file(self.path(), no_times(self.source())));
        }
        Ok(())
    }

    /// The engine that answers questions about instants and windows.
    pub fn history(&self) -> Result<&Arc<History>, Failure> {
        Ok(with_progress(|progress| self.file.history(progress))?)
    }

    /// The state at an instant.
    pub fn snapshot(&self, when: &When) -> Result<Arc<Snapshot>, Failure> {
        self.snapshot_of(when, &[])
    }

    /// The state at an instant of the blocks that the filters select.
    pub fn snapshot_of(&self, when: &When, filters: &[Filter]) -> Result<Arc<Snapshot>, Failure> {
        self.must_know(when)?;
        match self.file.end() {
            Some(end) if *when == When::End && filters.is_empty() => Ok(Arc::new(end)),
            _ => self.ask_history(|history, work| {
                let moment = history.moment_of(when)?;
                filtered_snapshot(history, moment, filters, work)
            }),
        }
    }

    /// Asks the engine a question, with a progress bar, then checks for damage that was found while answering.
    pub fn ask_history<T>(
        &self,
        question: impl FnOnce(&Arc<History>, &Work<'_>) -> Result<T, QueryError>,
    ) -> Result<T, Failure> {
        let history = self.history()?;
        let mut shown = Progress::new("reading");
        let mut show = |progress: Option<(f64, &str)>| {
            progress.into_iter().for_each(|(part, what)| shown.update_as(what, part));
            true
        };
        let answer = question(history, &Work::asked_by(&mut show)).map_err(|error| match error {
            QueryError::Bad(line) => Failure::Usage(line),
            other => Failure::in_file(self.path(), other),
        })?;
        self.judge_damage()?;
        Ok(answer)
    }

    /// The totals at the end: the peak of the whole recording.
    pub fn final_totals(&self) -> Result<Totals, Failure> {
        match self.file.end_totals() {
            Some(totals) => Ok(totals),
            None => self.ask(|recording| Ok(recording.final_totals()?)),
        }
    }

    /// Asks the recording a question, then checks for damage that was found while answering.
    pub fn ask<T>(&self, question: impl FnOnce(&Recording) -> Result<T, RecordingError>) -> Result<T, Failure> {
        let answer = question(self.recording()?).map_err(|error| match error {
            RecordingError::Io(error) => cannot_read(self.path(), &error),
            other => Failure::in_file(self.path(), other),
        })?;
        self.judge_damage()?;
        Ok(answer)
    }

    /// Warns of newly found damage. This is an error with `--strict`, or if nothing in the file is usable.
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

    /// True if nothing in the file is usable.
    fn is_nothing_left(&self) -> bool {
        match self.source().snapshot {
            true => self.recording().is_ok_and(|recording| recording.snapshot(&When::End).is_err()),
            false => self.steps().is_ok_and(|steps| steps == 0),
        }
    }
}

/// Warns of unusable lines. This is an error with [`OnDamage::Fail`].
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

/// Warns of the damage in `new`. The `known` parts, warned of before, count towards `NAMED_PROBLEMS`.
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

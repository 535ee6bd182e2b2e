//! Reads a log up to an instant. Some instants are known only when everything has been read; then the log is read twice.

use super::at::At;
use super::recorded;
use crate::error::QueryError;
use highwater_formats::objlog::{LogProgress, ObjectLogReader, ReadUntil};
use highwater_input::{
    InputError, ProgressCallback, Read as Reads, SNIFFED, cannot_write_temporary, input, recognize, regular_size,
    temporary_file,
};
use highwater_model::{Damage, Nanos, SourceKind, When};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// A log that was read up to an instant.
pub struct ObjectsRead {
    /// What was read.
    pub reader: ObjectLogReader,
    /// Parts of a recording that could not be used.
    pub damage: Vec<Damage>,
}

impl From<InputError> for QueryError {
    fn from(error: InputError) -> Self {
        Self::failed(error)
    }
}

pub(super) fn in_file(path: &Path, why: impl std::fmt::Display) -> QueryError {
    QueryError::Failed(format!("{}: {why}", path.display()))
}

pub(super) fn cannot_read(path: &Path, error: io::Error) -> QueryError {
    InputError::unreadable(path, error).into()
}

/// Reads a log, or a recording as if it were one, up to an instant.
pub fn read(path: &Path, at: &At, progress: &mut ProgressCallback<'_>) -> Result<ObjectsRead, QueryError> {
    let mut input = input(path)?;
    let mut start = Vec::new();
    input.by_ref().take(SNIFFED).read_to_end(&mut start).map_err(|error| cannot_read(path, error))?;
    // A file that no format recognises is a log, too: it may begin with any noise.
    let reads = recognize(&start).filter(|format| format.key() != SourceKind::OBJLOG.key()).map(|format| format.read());
    if let Some(reads @ (Reads::Recording | Reads::History(_) | Reads::Unordered(_))) = reads {
        if !matches!(reads, Reads::Recording) || regular_size(path).is_none() {
            let only = "only object logs and recordings in a file can be looked through; 'highwater import' makes one";
            return Err(in_file(path, only));
        }
        return recorded::read(path, at, progress);
    }
    let mut log = RereadableLog { path, input: start.as_slice().chain(input), copy: None };
    let until = match at {
        At::Line(line) => ReadUntil::Line(*line),
        At::When(When::End) => ReadUntil::End,
        At::When(When::Start) => return Ok(ObjectsRead { reader: ObjectLogReader::default(), damage: Vec::new() }),
        At::When(When::At(time)) => ReadUntil::Time(*time),
        At::When(When::Mark(name)) => ReadUntil::Mark(name.clone()),
        At::When(when) => {
            log.keep_copy()?;
            let whole = log.read(ReadUntil::End, progress)?;
            log.again()?;
            instant_in(&whole, when)
        }
    };
    let reader = log.read(until, progress)?;
    match at {
        At::When(When::Mark(name)) if !reader.is_over() => {
            Err(in_file(path, format_args!("no MEMORY line or mark is called '{name}'{}", marks_of(&reader))))
        }
        At::When(When::At(_)) if reader.span().is_none() => {
            Err(in_file(path, "the log has no times; an instant of it is a part (50%), line:N or mark:NAME"))
        }
        _ => Ok(ObjectsRead { reader, damage: Vec::new() }),
    }
}

/// Resolves a percentage or the peak in a log that was read completely.
fn instant_in(whole: &ObjectLogReader, when: &When) -> ReadUntil {
    match (when, whole.span()) {
        (When::Percent(part), Some((_, last))) => ReadUntil::Time(Nanos((last.0 as f64 * part / 100.0) as u64)),
        (When::Percent(part), None) => {
            ReadUntil::Events((whole.counts().object_lines as f64 * part / 100.0).round() as u64)
        }
        _ => ReadUntil::Steps(whole.matcher().peak_at),
    }
}

fn marks_of(reader: &ObjectLogReader) -> String {
    const NAMED: usize = 5;
    let labels = reader.matcher().memory.boundaries().iter().map(|boundary| boundary.label.as_str());
    let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).take(NAMED).collect();
    if labels.is_empty() { "; none has a name".to_owned() } else { format!("; there are: {}", labels.join(", ")) }
}

/// A log that can be read a second time, if that was requested before the first.
struct RereadableLog<'a, R> {
    path: &'a Path,
    input: R,
    /// A copy of input that cannot be read twice.
    copy: Option<File>,
}

impl<R: Read> RereadableLog<'_, R> {
    fn keep_copy(&mut self) -> Result<(), QueryError> {
        if regular_size(self.path).is_none() {
            let mut copy = temporary_file()?;
            io::copy(&mut self.input, &mut copy).map_err(cannot_write_temporary)?;
            self.copy = Some(copy);
            self.again()?;
        }
        Ok(())
    }

    /// Returns to the start.
    fn again(&mut self) -> Result<(), QueryError> {
        match &mut self.copy {
            Some(copy) => copy.seek(SeekFrom::Start(0)).map(drop).map_err(|error| cannot_write_temporary(error).into()),
            None => {
                self.copy = Some(File::open(self.path).map_err(|error| cannot_read(self.path, error))?);
                Ok(())
            }
        }
    }

    fn read(&mut self, until: ReadUntil, progress: &mut ProgressCallback<'_>) -> Result<ObjectLogReader, QueryError> {
        // Nothing needs to be read.
        if matches!(until, ReadUntil::Events(0) | ReadUntil::Steps(0) | ReadUntil::Line(0)) {
            return Ok(ObjectLogReader::default());
        }
        match &mut self.copy {
            Some(copy) => read_all(copy, until, self.path, progress),
            None => read_all(&mut self.input, until, self.path, progress),
        }
    }
}

fn read_all(
    input: &mut impl Read,
    until: ReadUntil,
    path: &Path,
    progress: &mut ProgressCallback<'_>,
) -> Result<ObjectLogReader, QueryError> {
    let size = regular_size(path).unwrap_or(u64::MAX).max(1);
    let mut reader = ObjectLogReader::until(until);
    loop {
        match reader.read(input, &mut ()) {
            Ok(LogProgress::More) => {
                if !progress("reading the log", reader.bytes() as f64 / size as f64) {
                    return Err(QueryError::Cancelled);
                }
            }
            Ok(_) => break,
            Err(error) => return Err(cannot_read(path, error)),
        }
    }
    reader.finish(&mut ());
    Ok(reader)
}

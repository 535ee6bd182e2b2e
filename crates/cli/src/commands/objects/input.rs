//! Reads a log up to an instant. Some instants are known only when everything has been read; then the log is read twice.

use super::at::At;
use super::recorded;
use crate::failure::Failure;
use crate::open::cannot_read;
use crate::print::progress::Progress;
use highwater_formats::objlog::{Progress as Reading, Reader, Until};
use highwater_input::{Read as Reads, SNIFFED, cannot_write_temporary, input, recognize, regular_size, temporary_file};
use highwater_model::{Nanos, SourceKind, When};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Reads a log up to an instant.
pub fn read(path: &Path, at: &At) -> Result<Reader, Failure> {
    let mut input = input(path)?;
    let mut start = Vec::new();
    input.by_ref().take(SNIFFED).read_to_end(&mut start).map_err(|error| cannot_read(path, &error))?;
    // A file that no format recognises is a log, too: it may begin with any noise.
    let reads = recognize(&start).filter(|format| format.key() != SourceKind::OBJLOG.key()).map(|format| format.read());
    if let Some(reads @ (Reads::Recording | Reads::History(_) | Reads::Unordered(_))) = reads {
        if !matches!(reads, Reads::Recording) || regular_size(path).is_none() {
            let only = "only object logs and recordings in a file can be looked through; 'highwater import' makes one";
            return Err(Failure::in_file(path, only));
        }
        return recorded::read(path, at);
    }
    let mut log = Log { path, input: start.as_slice().chain(input), copy: None };
    let until = match at {
        At::Line(line) => Until::Line(*line),
        At::When(When::End) => Until::End,
        At::When(When::Start) => return Ok(Reader::default()),
        At::When(When::At(time)) => Until::Time(*time),
        At::When(When::Mark(name)) => Until::Mark(name.clone()),
        At::When(when) => {
            log.keep_copy()?;
            let whole = log.read(Until::End)?;
            log.again()?;
            instant_in(&whole, when)
        }
    };
    let reader = log.read(until)?;
    match at {
        At::When(When::Mark(name)) if !reader.is_over() => {
            Err(Failure::in_file(path, format_args!("no MEMORY line or mark is called '{name}'{}", marks_of(&reader))))
        }
        At::When(When::At(_)) if reader.span().is_none() => {
            Err(Failure::in_file(path, "the log tells no times; an instant of it is a part (50%), line:N or mark:NAME"))
        }
        _ => Ok(reader),
    }
}

/// Resolves a percentage or the peak in a log that was read completely.
fn instant_in(whole: &Reader, when: &When) -> Until {
    match (when, whole.span()) {
        (When::Percent(part), Some((_, last))) => Until::Time(Nanos((last.0 as f64 * part / 100.0) as u64)),
        (When::Percent(part), None) => {
            Until::Events((whole.counts().object_lines as f64 * part / 100.0).round() as u64)
        }
        _ => Until::Steps(whole.matcher().peak_at),
    }
}

fn marks_of(reader: &Reader) -> String {
    const NAMED: usize = 5;
    let labels = reader.matcher().memory.boundaries().iter().map(|boundary| boundary.label.as_str());
    let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).take(NAMED).collect();
    if labels.is_empty() { "; none has a name".to_owned() } else { format!("; there are: {}", labels.join(", ")) }
}

/// A log that can be read a second time, if that was requested before the first.
struct Log<'a, R> {
    path: &'a Path,
    input: R,
    /// A copy of input that cannot be read twice.
    copy: Option<File>,
}

impl<R: Read> Log<'_, R> {
    fn keep_copy(&mut self) -> Result<(), Failure> {
        if regular_size(self.path).is_none() {
            let mut copy = temporary_file()?;
            io::copy(&mut self.input, &mut copy).map_err(cannot_write_temporary)?;
            self.copy = Some(copy);
            self.again()?;
        }
        Ok(())
    }

    /// Returns to the start.
    fn again(&mut self) -> Result<(), Failure> {
        match &mut self.copy {
            Some(copy) => copy.seek(SeekFrom::Start(0)).map(drop).map_err(|error| cannot_write_temporary(error).into()),
            None => {
                self.copy = Some(File::open(self.path).map_err(|error| cannot_read(self.path, &error))?);
                Ok(())
            }
        }
    }

    fn read(&mut self, until: Until) -> Result<Reader, Failure> {
        // Nothing needs to be read.
        if matches!(until, Until::Events(0) | Until::Steps(0) | Until::Line(0)) {
            return Ok(Reader::default());
        }
        match &mut self.copy {
            Some(copy) => read_all(copy, until, self.path),
            None => read_all(&mut self.input, until, self.path),
        }
    }
}

fn read_all(input: &mut impl Read, until: Until, path: &Path) -> Result<Reader, Failure> {
    let size = regular_size(path).unwrap_or(u64::MAX).max(1);
    let (mut reader, mut progress) = (Reader::until(until), Progress::new("reading the log"));
    loop {
        match reader.read(input, &mut ()) {
            Ok(Reading::More) => progress.update(reader.bytes() as f64 / size as f64),
            Ok(_) => break,
            Err(error) => return Err(cannot_read(path, &error)),
        }
    }
    reader.finish(&mut ());
    Ok(reader)
}

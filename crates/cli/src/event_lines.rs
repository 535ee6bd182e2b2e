//! Loading event lines: good lines become events, bad ones are named by number and skipped.

use crate::failure::Failure;
use crate::open::{NAMED_PROBLEMS, cannot_read};
use crate::output::warn;
use crate::print::bytes::counted;
use crate::print::progress::Progress;
use crate::temporary;
use highwater_formats::events::{BadLine, Line, ReadError, Reader};
use highwater_model::Source;
use highwater_store::{EventLog, LogError, Recording, Written};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

/// Events beyond this many bytes wait in a temporary file.
const MEMORY_LIMIT: u64 = 256 << 20;
/// How many lines are read between two looks at the progress bar.
const LINES_PER_UPDATE: u64 = 4096;

/// What was in the lines.
pub struct Loaded {
    log: EventLog,
    source: Source,
    /// Lines that were skipped.
    pub bad_lines: u64,
    /// How long all lines together are.
    pub input_bytes: u64,
}

impl Loaded {
    /// Writes a recording that the user knows as `shown_as`.
    pub fn save(&self, file: File, shown_as: &Path) -> Result<Written, Failure> {
        self.log.save_into(file, &self.source).map_err(|error| Failure::writing_file(shown_as, &error))
    }

    /// The same as a recording without a file.
    pub fn into_recording(self, path: &Path) -> Result<Recording, Failure> {
        self.log.to_recording(&self.source).map_err(|error| failure(path, error))
    }
}

fn failure(path: &Path, error: LogError) -> Failure {
    match error {
        LogError::File(_, error) => Failure::writing_file(path, &error),
        LogError::Spill(error) => temporary::cannot_write(&error),
        other => Failure::in_file(path, other),
    }
}

/// Reads all lines. `size` is that of the input, where it is known.
pub fn load(input: impl Read, path: &Path, size: Option<u64>, strict: bool) -> Result<Loaded, Failure> {
    let progress_made = Rc::new(Cell::new(0));
    let input = Counted { input, read: Rc::clone(&progress_made) };
    let mut progress = Progress::new("reading events");
    let mut reader = Reader::new(BufReader::with_capacity(1 << 16, input));
    let log = EventLog::with_limit(MEMORY_LIMIT);
    let mut loaded = Loaded { log, source: Source::default(), bad_lines: 0, input_bytes: 0 };
    for number in 0.. {
        if number % LINES_PER_UPDATE == 0 {
            let size = size.unwrap_or(u64::MAX).max(1);
            progress.update(progress_made.get() as f64 / size as f64);
        }
        match next_line(&mut reader, &loaded.log) {
            None => break,
            Some(Ok(Line::Event(event))) => loaded.log.record(event),
            Some(Ok(_)) => {}
            Some(Err(ReadError::Io(error))) => return Err(cannot_read(path, &error)),
            Some(Err(ReadError::Bad(line))) if strict => {
                return Err(Failure::in_file(path, format_args!("{line}; nothing was done, as --strict was given")));
            }
            Some(Err(ReadError::Bad(line))) => loaded.skip(path, &line),
        }
    }
    drop(progress);
    if let Some(why) = loaded.log.failure() {
        return Err(temporary::cannot_write_because(why));
    }
    loaded.source = reader.source().clone();
    loaded.input_bytes = progress_made.get();
    loaded.tell_of_unnamed_lines(path);
    if loaded.log.is_empty() {
        return Err(Failure::in_file(path, "no event in it; docs/events.md tells how event lines are written"));
    }
    Ok(loaded)
}

/// The catalog is locked only while a line is read: recording an event may need it.
fn next_line<R: BufRead>(reader: &mut Reader<R>, log: &EventLog) -> Option<Result<Line, ReadError>> {
    log.change_catalog(|catalog| reader.next(catalog))
}

impl Loaded {
    fn skip(&mut self, path: &Path, line: &BadLine) {
        self.bad_lines += 1;
        if self.bad_lines <= NAMED_PROBLEMS as u64 {
            warn(&format!("{}: {line}; skipped", path.display()));
        }
    }

    fn tell_of_unnamed_lines(&self, path: &Path) {
        let unnamed = self.bad_lines.saturating_sub(NAMED_PROBLEMS as u64);
        if unnamed > 0 {
            warn(&format!("{}: {} skipped", path.display(), counted(unnamed, "more bad line")));
        }
    }
}

/// An input that tells how much of it was read.
struct Counted<R> {
    input: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

//! Object logs as recordings.

use crate::failure::Failure;
use crate::open::{NAMED_PROBLEMS, cannot_read, regular_size};
use crate::output::warn;
use crate::print::bytes::counted;
use crate::print::progress::Progress;
use crate::temporary;
use highwater_formats::objlog::{LineCounts, Progress as Reading, Reader, Receive, Translator};
use highwater_model::{Anomaly, Catalog, Event, Nanos, Source};
use highwater_store::{Recording, Sink, Writer, Written};
use std::io::{self, Read};
use std::path::Path;

/// Events written at a time.
const BATCH: usize = 4096;

/// A log that became a recording.
pub struct Converted<S> {
    /// What was written.
    pub written: Written,
    /// Where it was written to.
    pub sink: S,
    /// Lines that could not be used.
    pub bad_lines: u64,
    /// How long the log is.
    pub input_bytes: u64,
}

/// Writes events.
struct Recorder<S: Sink> {
    writer: Writer<S>,
    batch: Vec<Event>,
    latest: Nanos,
    error: Option<io::Error>,
}

impl<S: Sink> Recorder<S> {
    fn write(&mut self, catalog: &Catalog) {
        if let Err(error) = self.writer.append(&self.batch, catalog) {
            self.error.get_or_insert(error);
        }
        self.batch.clear();
    }
}

impl<S: Sink> Receive for Recorder<S> {
    fn receive(&mut self, event: Event, catalog: &Catalog) {
        self.latest = self.latest.max(event.time);
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.write(catalog);
        }
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) {
        self.write(catalog);
        if let Err(error) = self.writer.note(anomaly, count, catalog) {
            self.error.get_or_insert(error);
        }
    }
}

/// Makes a recording of a log. What was written of one that could not be read or written completely is left to the caller.
pub fn convert<S: Sink>(
    mut input: impl Read,
    path: &Path,
    strict: bool,
    make: impl FnOnce(&Source) -> io::Result<Writer<S>>,
    cannot_write: &dyn Fn(&io::Error) -> Failure,
) -> Result<Converted<S>, Failure> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let source = Translator::<Recorder<S>>::source(if name == "-" { "" } else { &name });
    let writer = make(&source).map_err(|error| cannot_write(&error))?;
    let recorder = Recorder { writer, batch: Vec::with_capacity(BATCH), latest: Nanos(0), error: None };
    let (mut reader, mut translator) = (Reader::default(), Translator::new(recorder));
    let size = regular_size(path).unwrap_or(u64::MAX).max(1);
    let mut progress = Progress::new("reading the log");
    loop {
        match reader.read(&mut input, &mut translator) {
            Ok(Reading::More) => progress.update(reader.bytes() as f64 / size as f64),
            Ok(_) => break,
            Err(error) => return Err(cannot_read(path, &error)),
        }
    }
    drop(progress);
    reader.finish(&mut translator);
    judge_lines(reader.counts(), path, strict)?;
    let untimed = translator.is_untimed();
    let (mut recorder, catalog) = translator.finish(&reader);
    recorder.write(&catalog);
    if let Some(error) = recorder.error {
        return Err(cannot_write(&error));
    }
    let source = Source { duration: recorder.latest, untimed, ..source };
    let (written, sink) = recorder.writer.finish(&catalog, &source).map_err(|error| cannot_write(&error))?;
    Ok(Converted { written, sink, bad_lines: reader.counts().malformed, input_bytes: reader.bytes() })
}

/// Warns of lines that could not be used; fails if that is wanted.
pub fn judge_lines(counts: &LineCounts, path: &Path, strict: bool) -> Result<(), Failure> {
    let (path, bad) = (path.display(), counts.bad());
    if let (Some(first), true) = (bad.first(), strict) {
        let line =
            format_args!("{path}: line {}: {}; nothing was done, as --strict was given", first.number, first.fault);
        return Err(Failure::fault(line));
    }
    for line in bad.iter().take(NAMED_PROBLEMS) {
        warn(&format!("{path}: line {}: {}; skipped", line.number, line.fault));
    }
    let unnamed = counts.malformed.saturating_sub(NAMED_PROBLEMS as u64);
    if unnamed > 0 {
        warn(&format!("{path}: {} skipped", counted(unnamed, "more bad line")));
    }
    Ok(())
}

/// A log as a recording without a name.
pub fn load(input: impl Read, path: &Path, strict: bool) -> Result<(Recording, u64, u64), Failure> {
    let file = temporary::file()?;
    let converted = convert(input, path, strict, |source| Writer::new(file, source), &temporary::cannot_write)?;
    let recording = temporary::recording(converted.sink, path)?;
    Ok((recording, converted.bad_lines, converted.input_bytes))
}

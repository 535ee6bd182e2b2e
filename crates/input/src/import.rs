//! Converts files of other formats to recordings.

use crate::error::InputError;
use crate::file::{MEMORY_LIMIT, Sniffed, read_into, sniff, write_state};
use crate::format::{Format, Read, ReadHistory, ReadSteps, WrittenState};
use crate::problems::Problems;
use crate::stream::{InputStream, ProgressCallback};
use highwater_model::{Anomaly, Catalog, Event, EventSink, Source};
use highwater_store::{EventLog, Writer, Written};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The number of events written at a time.
const BATCH: usize = 4096;

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The recording that was written.
    pub written: Written,
    /// Problems found in the file.
    pub problems: Problems,
    /// What the recording holds.
    pub holds: ImportedContent,
}

/// What an imported recording holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedContent {
    /// Events.
    Events,
    /// The blocks of one state, which count as its events.
    Blocks,
    /// The figures of one instant.
    Figures,
    /// States at several instants, which count as its events.
    States,
}

/// Writes the recording of a file, `-` for standard input, into another file. After an error, the caller decides about the part that was already
/// written.
pub fn import(path: &Path, target: File, progress: &mut ProgressCallback<'_>) -> Result<Imported, InputError> {
    let Sniffed { format, start, rest } = sniff(path)?;
    let mut content = start.as_slice().chain(rest);
    match format.read() {
        Read::Recording => Err(InputError::unusable(path, "is a recording already")),
        Read::History(_) => {
            let mut input = InputStream::new(&mut content, path, progress);
            let WrittenHistory { written, problems, .. } = write_history(format, &mut input, target)?;
            Ok(Imported { written, problems, holds: ImportedContent::Events })
        }
        Read::Unordered(read) => {
            let log = EventLog::with_limit(MEMORY_LIMIT);
            let history = read(&mut InputStream::new(&mut content, path, progress), &log)?;
            let written = log.save_into(target, &history.source).map_err(InputError::Write)?;
            Ok(Imported { written, problems: history.problems, holds: ImportedContent::Events })
        }
        Read::Steps(read) => {
            let ReadSteps { written, problems, .. } =
                read(&mut InputStream::new(&mut content, path, progress), target)?;
            Ok(Imported { written, problems, holds: ImportedContent::Events })
        }
        Read::Profile(read) => {
            let mut profile = read(&mut InputStream::new(&mut content, path, progress))?;
            let problems = std::mem::take(&mut profile.problems);
            let holds = if profile.is_instant { ImportedContent::Figures } else { ImportedContent::States };
            let written = profile.write(path, target)?.written;
            Ok(Imported { written, problems, holds })
        }
        Read::State(read) => {
            let WrittenState { written, damage, .. } = write_state(read, path, target)?;
            let problems = Problems { damage, ..Problems::default() };
            Ok(Imported { written, problems, holds: ImportedContent::Blocks })
        }
    }
}

/// A history that was written as a recording.
pub(crate) struct WrittenHistory {
    pub written: Written,
    pub file: File,
    pub problems: Problems,
}

/// Writes the recording of an ordered history.
pub(crate) fn write_history(
    format: &dyn Format,
    input: &mut InputStream<'_>,
    target: File,
) -> Result<WrittenHistory, InputError> {
    let mut sink = RecordingSink { target: Some(target), writer: None, batch: Vec::with_capacity(BATCH), error: None };
    let ReadHistory { source, catalog, problems, .. } = read_into(format, input, &mut sink)?;
    let (written, file) = sink.finish(&source, &catalog).map_err(InputError::Write)?;
    Ok(WrittenHistory { written, file, problems })
}

/// Writes events as a recording, which begins when its source is known.
struct RecordingSink {
    target: Option<File>,
    writer: Option<Writer<File>>,
    batch: Vec<Event>,
    /// The first error. After it reading continues, but nothing more is written.
    error: Option<io::Error>,
}

impl RecordingSink {
    fn attempt(&mut self, write: impl FnOnce(&mut Writer<File>) -> io::Result<()>) {
        if let (Some(writer), None) = (&mut self.writer, &self.error) {
            self.error = write(writer).err();
        }
    }

    fn write_batch(&mut self, catalog: &Catalog) {
        if self.writer.is_none() {
            self.begin(&Source::default());
        }
        let batch = std::mem::take(&mut self.batch);
        self.attempt(|writer| writer.append(&batch, catalog));
        self.batch = batch;
        self.batch.clear();
    }

    fn finish(mut self, source: &Source, catalog: &Catalog) -> io::Result<(Written, File)> {
        self.write_batch(catalog);
        match (self.writer, self.error) {
            (_, Some(error)) => Err(error),
            (Some(writer), None) => writer.finish(catalog, source),
            (None, None) => Err(io::Error::other("nothing was begun")),
        }
    }
}

impl EventSink for RecordingSink {
    fn begin(&mut self, source: &Source) {
        if let Some(target) = self.target.take() {
            match Writer::new(target, source) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn event(&mut self, event: Event, catalog: &Catalog) {
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.write_batch(catalog);
        }
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, catalog: &Catalog) {
        self.write_batch(catalog);
        self.attempt(|writer| writer.note(anomaly, count, catalog));
    }
}

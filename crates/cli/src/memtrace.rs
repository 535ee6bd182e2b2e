//! Traces of OCaml programs: read once for what is asked most, and made into a recording where more is wanted.

use crate::failure::Failure;
use crate::open::{cannot_read, open_input, regular_size};
use crate::print::progress::Progress;
use crate::temporary;
use crate::wanted::Wanted;
use highwater_formats::memtrace::{Decoder, ReadError, Reader, Receive};
use highwater_model::{Accounts, AddressLedger, Catalog, Event, Snapshot, Source, Totals};
use highwater_store::{Damage, FileStats, Recording, Sink, Writer, Written};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Events written at a time.
const BATCH: usize = 4096;

/// A trace that was read to its end.
pub struct Trace {
    /// Whose it is.
    pub source: Source,
    /// What events refer to.
    pub catalog: Arc<Catalog>,
    /// What could not be used.
    pub damage: Vec<Damage>,
    /// Facts about it.
    pub stats: FileStats,
    /// The state at its end.
    accounts: Accounts,
    path: PathBuf,
    /// A copy of what cannot be read twice.
    copy: Option<File>,
    recording: OnceCell<Recording>,
}

/// Keeps account of events.
struct Accounting<'a>(&'a mut AddressLedger);

impl Receive for Accounting<'_> {
    #[inline]
    fn receive(&mut self, event: Event, _: &Catalog) {
        self.0.record(&event, &mut ());
    }
}

/// Reads a trace whose first bytes were read already.
pub fn load(start: Vec<u8>, rest: impl Read, path: &Path) -> Result<Trace, Failure> {
    let size = regular_size(path);
    let mut copy = match size {
        Some(_) => None,
        None => Some(temporary::file()?),
    };
    let input = start.as_slice().chain(rest);
    let (mut ledger, mut catalog) = (AddressLedger::default(), Catalog::default());
    let input = Copied { input, copy: copy.as_mut() };
    let decoder = read(input, path, size, &mut catalog, &mut Accounting(&mut ledger))?;
    for (anomaly, count) in decoder.oddities() {
        ledger.note(anomaly, count, &mut ());
    }
    let source = decoder.source().unwrap_or_default();
    let stats = FileStats {
        version: decoder.version(),
        file_bytes: decoder.bytes(),
        events: ledger.accounts().events(),
        event_blocks: decoder.packets(),
        event_bytes: decoder.bytes(),
        complete: true,
        ..FileStats::default()
    };
    Ok(Trace {
        source,
        catalog: Arc::new(catalog),
        damage: decoder.damage(),
        stats,
        accounts: ledger.into_accounts(),
        path: path.to_owned(),
        copy,
        recording: OnceCell::new(),
    })
}

/// Reads a trace to its end.
fn read(
    input: impl Read,
    path: &Path,
    size: Option<u64>,
    catalog: &mut Catalog,
    receiver: &mut impl Receive,
) -> Result<Decoder, Failure> {
    let mut progress = Progress::new("reading the trace");
    let mut reader = Reader::new(input);
    loop {
        match reader.step(catalog, receiver) {
            Ok(true) => progress.update(reader.decoder().bytes() as f64 / size.unwrap_or(u64::MAX).max(1) as f64),
            Ok(false) => return Ok(reader.decoder().clone()),
            Err(ReadError::Io(error)) => return Err(cannot_read(path, &error)),
            Err(ReadError::NotATrace(why)) => return Err(Failure::in_file(path, why)),
        }
    }
}

impl Trace {
    /// The state at its end.
    pub fn end(&self) -> Snapshot {
        Snapshot {
            source: self.source.clone(),
            at: self.source.duration,
            accounts: self.accounts.clone(),
            catalog: Arc::clone(&self.catalog),
        }
    }

    /// The totals at its end.
    pub fn totals(&self) -> Totals {
        *self.accounts.totals()
    }

    /// The same as a recording, for all that is not about its end.
    pub fn recording(&self) -> Result<&Recording, Failure> {
        if let Some(recording) = self.recording.get() {
            return Ok(recording);
        }
        let recording = self.converted(&|| true)?;
        Ok(self.recording.get_or_init(|| recording))
    }

    /// The recording alone, as long as somebody wants it.
    pub fn into_recording(mut self, is_wanted: &dyn Fn() -> bool) -> Result<Recording, Failure> {
        self.recording.take().map_or_else(|| self.converted(is_wanted), Ok)
    }

    fn converted(&self, is_wanted: &dyn Fn() -> bool) -> Result<Recording, Failure> {
        let file = temporary::file()?;
        let make = |source: &Source| Writer::new(file, source);
        let converted = match &self.copy {
            Some(copy) => {
                let mut copy = copy.try_clone().map_err(|error| temporary::cannot_write(&error))?;
                copy.seek(SeekFrom::Start(0)).map_err(|error| temporary::cannot_write(&error))?;
                convert(Wanted { input: copy, is_wanted }, &self.path, make, &temporary::cannot_write)?
            }
            None => {
                let input = Wanted { input: open_input(&self.path)?, is_wanted };
                convert(input, &self.path, make, &temporary::cannot_write)?
            }
        };
        temporary::recording(converted.sink, &self.path)
    }
}

/// An input that is copied while it is read.
struct Copied<'a, R> {
    input: R,
    copy: Option<&'a mut File>,
}

impl<R: Read> Read for Copied<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&buffer[..count])?;
        }
        Ok(count)
    }
}

/// A trace that became a recording.
pub struct Converted<S> {
    /// What was written.
    pub written: Written,
    /// Where it was written to.
    pub sink: S,
    /// What could not be used.
    pub damage: Vec<Damage>,
}

/// Writes events as a recording that is begun when it is known whose they are.
struct Recorder<S: Sink, M> {
    make: Option<M>,
    writer: Option<Writer<S>>,
    batch: Vec<Event>,
    error: Option<io::Error>,
}

impl<S: Sink, M: FnOnce(&Source) -> io::Result<Writer<S>>> Recorder<S, M> {
    fn write(&mut self, catalog: &Catalog) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.append(&self.batch, catalog)
        {
            self.error = Some(error);
        }
        self.batch.clear();
    }
}

impl<S: Sink, M: FnOnce(&Source) -> io::Result<Writer<S>>> Receive for Recorder<S, M> {
    fn begin(&mut self, source: &Source) {
        match self.make.take().map(|make| make(source)) {
            Some(Ok(writer)) => self.writer = Some(writer),
            Some(Err(error)) => self.error = Some(error),
            None => {}
        }
    }

    fn receive(&mut self, event: Event, catalog: &Catalog) {
        self.batch.push(event);
        if self.batch.len() == BATCH {
            self.write(catalog);
        }
    }
}

/// Makes a recording of a trace. What was written of one that could not be read or written completely is left to the caller.
pub fn convert<S: Sink>(
    input: impl Read,
    path: &Path,
    make: impl FnOnce(&Source) -> io::Result<Writer<S>>,
    cannot_write: &dyn Fn(&io::Error) -> Failure,
) -> Result<Converted<S>, Failure> {
    let mut catalog = Catalog::default();
    let mut recorder = Recorder { make: Some(make), writer: None, batch: Vec::with_capacity(BATCH), error: None };
    let decoder = read(input, path, regular_size(path), &mut catalog, &mut recorder)?;
    recorder.write(&catalog);
    let Recorder { writer, error, .. } = recorder;
    let (Some(mut writer), None) = (writer, &error) else {
        let error = error.unwrap_or_else(|| io::Error::other("the trace has no beginning"));
        return Err(cannot_write(&error));
    };
    let written = decoder.oddities().into_iter().try_for_each(|(anomaly, count)| writer.note(anomaly, count, &catalog));
    let source = decoder.source().unwrap_or_default();
    let (written, sink) =
        written.and_then(|()| writer.finish(&catalog, &source)).map_err(|error| cannot_write(&error))?;
    Ok(Converted { written, sink, damage: decoder.damage() })
}

//! An opened file of any format.

use crate::error::InputError;
use crate::format::{Format, Read, ReadHistory, SNIFFED, WrittenState, recognize};
use crate::growing::with_names;
use crate::image::{ImageFormat, write_state_with};
use crate::import::write_history;
use crate::problems::Problems;
use crate::stream::{InputStream, ProgressCallback, input, regular_size, stored_size};
use crate::temporary::{cannot_write_temporary, recording_in, temporary_file};
use highwater_model::{
    Accounts, AddressLedger, Anomaly, Catalog, Damage, Event, EventKind, EventSink, Snapshot, Source, Totals,
};
use highwater_store::history::History;
use highwater_store::{EventLog, FileStats, LogError, OpenError, Recording, RecordingError};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit for the bytes of events of an unordered history in memory. Further events go to a temporary file.
pub(crate) const MEMORY_LIMIT: u64 = 256 << 20;

/// An opened file. Its format was recognized by its content.
pub struct InputFile {
    path: PathBuf,
    format: &'static dyn Format,
    content: OpenedContent,
    size: u64,
    /// The version of the format, if it is not that of the recording.
    version: Option<u16>,
    problems: Problems,
    history: OnceCell<Arc<History>>,
}

/// The content of an opened file.
enum OpenedContent {
    Recording(Arc<Recording>),
    History(Box<ReadOnce>),
}

/// A history that was read to its end once. That is sufficient for the most frequent queries. For others it is converted to a recording.
struct ReadOnce {
    format: &'static dyn Format,
    source: Source,
    catalog: Arc<Catalog>,
    stats: FileStats,
    /// The state at its end.
    accounts: Accounts,
    /// Whether there are any marks or gauges.
    has_remarks: bool,
    path: PathBuf,
    /// A copy of an input that cannot be read twice.
    copy: Option<File>,
    recording: OnceCell<Arc<Recording>>,
}

/// Opens a file, `-` for standard input.
pub fn open(path: &Path) -> Result<InputFile, InputError> {
    open_while(path, &mut |_, _| true)
}

/// The same, with a progress callback.
pub fn open_while(path: &Path, progress: &mut ProgressCallback<'_>) -> Result<InputFile, InputError> {
    open_with_module(path, None, progress)
}

/// The same; a memory image has this module. For files of other kinds, it means nothing.
pub fn open_with_module(
    path: &Path,
    module: Option<&Path>,
    progress: &mut ProgressCallback<'_>,
) -> Result<InputFile, InputError> {
    let Sniffed { format, start, rest: content } = sniff(path)?;
    match format.read() {
        Read::Recording => {
            let recording = with_names(read_recording(path, start, content)?);
            Ok(InputFile::new(path, format, OpenedContent::Recording(Arc::new(recording)), Problems::default()))
        }
        Read::History(_) => {
            let (history, problems) = ReadOnce::read(format, start, content, path, progress)?;
            Ok(InputFile::new(path, format, OpenedContent::History(Box::new(history)), problems))
        }
        Read::Unordered(read) => {
            let mut content = start.as_slice().chain(content);
            let mut input = InputStream::new(&mut content, path, progress);
            let log = EventLog::with_limit(MEMORY_LIMIT);
            let history = read(&mut input, &log)?;
            let size = input.bytes_read();
            let recording = log.to_recording(&history.source).map_err(|error| log_error(path, error))?;
            let opened = InputFile::new(path, format, OpenedContent::Recording(Arc::new(recording)), history.problems);
            Ok(InputFile { size, ..opened })
        }
        Read::Steps(read) => {
            let mut content = start.as_slice().chain(content);
            let mut input = InputStream::new(&mut content, path, progress);
            let read = read(&mut input, temporary_file()?).map_err(|error| match error {
                InputError::Write(error) => cannot_write_temporary(error),
                other => other,
            })?;
            let size = input.bytes_read();
            let recording = recording_in(read.file, path)?;
            let opened = InputFile::new(path, format, OpenedContent::Recording(Arc::new(recording)), read.problems);
            Ok(InputFile { size, ..opened })
        }
        Read::Profile(read) => {
            let mut content = start.as_slice().chain(content);
            let mut input = InputStream::new(&mut content, path, progress);
            let mut profile = read(&mut input)?;
            let (size, version) = (input.bytes_read(), profile.version);
            let problems = std::mem::take(&mut profile.problems);
            let written = profile.write(path, temporary_file()?).map_err(|error| match error {
                InputError::Write(error) => cannot_write_temporary(error),
                other => other,
            })?;
            let recording = recording_in(written.file, path)?;
            let opened = InputFile::new(path, format, OpenedContent::Recording(Arc::new(recording)), problems);
            Ok(InputFile { size, version: Some(version), ..opened })
        }
        Read::State(read) => {
            let module = module.filter(|_| format.key() == ImageFormat.key());
            let write = |path: &Path, target: File| match module {
                Some(_) => write_state_with(path, module, target),
                None => read(path, target),
            };
            let WrittenState { file, damage, .. } = write_state(write, path, temporary_file()?)?;
            let recording = recording_in(file, path)?;
            let problems = Problems { damage, ..Problems::default() };
            let opened = InputFile::new(path, format, OpenedContent::Recording(Arc::new(recording)), problems);
            Ok(InputFile { size: stored_size(path).unwrap_or(0), ..opened })
        }
    }
}

/// A file of a known format, of which the beginning was read.
pub(crate) struct Sniffed {
    pub format: &'static dyn Format,
    pub start: Vec<u8>,
    pub rest: Box<dyn io::Read>,
}

/// Opens a file for reading and recognizes its format.
pub(crate) fn sniff(path: &Path) -> Result<Sniffed, InputError> {
    if path.is_dir() {
        // Only an image can be a folder.
        return Ok(Sniffed { format: &ImageFormat, start: Vec::new(), rest: Box::new(io::empty()) });
    }
    let mut rest = input(path)?;
    let mut start = Vec::new();
    let sniffed = rest.by_ref().take(SNIFFED).read_to_end(&mut start);
    sniffed.map_err(|error| InputError::unreadable(path, error))?;
    if start.is_empty() {
        return Err(InputError::unusable(path, "the file is empty; nothing was recorded in it"));
    }
    let format = recognize(&start).ok_or_else(|| not_recognized(path))?;
    Ok(Sniffed { format, start, rest })
}

/// The format of a file, by its content.
pub fn format_of_file(path: &Path) -> Result<&'static dyn Format, InputError> {
    Ok(sniff(path)?.format)
}

/// Writes the state in a file as a snapshot. A pipe has no state: it cannot be read at any place.
pub(crate) fn write_state(
    read: impl FnOnce(&Path, File) -> Result<Option<WrittenState>, InputError>,
    path: &Path,
    target: File,
) -> Result<WrittenState, InputError> {
    let written = match stored_size(path) {
        Some(_) => read(path, target)?,
        None => None,
    };
    written.ok_or_else(|| not_recognized(path))
}

/// The error for a file of an unknown format.
pub(crate) fn not_recognized(path: &Path) -> InputError {
    InputError::unusable(path, "of no known format; 'highwater import --help' lists those that are known")
}

fn log_error(path: &Path, error: LogError) -> InputError {
    match error {
        LogError::File(_, error) => InputError::Write(error),
        LogError::Spill(error) => cannot_write_temporary(error),
        other => InputError::unusable(path, other),
    }
}

fn read_recording(path: &Path, mut start: Vec<u8>, mut rest: impl io::Read) -> Result<Recording, InputError> {
    let opened = if regular_size(path).is_some() {
        Recording::open(path)
    } else {
        rest.read_to_end(&mut start).map_err(|error| InputError::unreadable(path, error))?;
        Recording::from_bytes(start)
    };
    opened.map_err(|error| match error {
        OpenError::Io(error) => InputError::unreadable(path, error),
        other => InputError::unusable(path, other),
    })
}

impl InputFile {
    fn new(path: &Path, format: &'static dyn Format, content: OpenedContent, problems: Problems) -> Self {
        let size = match &content {
            OpenedContent::Recording(recording) => recording.stats().file_bytes,
            OpenedContent::History(history) => history.stats.file_bytes,
        };
        Self { path: path.to_owned(), format, content, size, version: None, problems, history: OnceCell::new() }
    }

    /// The path as given by the user.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recognized format.
    pub fn format(&self) -> &'static dyn Format {
        self.format
    }

    /// True for a `.hw` file of one state.
    pub fn is_snapshot(&self) -> bool {
        matches!(self.format.read(), Read::Recording) && self.source().snapshot
    }

    /// Its name in JSON documents.
    pub fn json_key(&self) -> &'static str {
        match self.format.read() {
            Read::Recording if self.is_snapshot() => "snapshot",
            Read::Recording => "recording",
            _ => self.format.json_key(),
        }
    }

    /// Statistics of the file as it is on disk.
    pub fn stats(&self) -> FileStats {
        match &self.content {
            OpenedContent::Recording(recording) => {
                let stats = recording.stats();
                FileStats { file_bytes: self.size, version: self.version.unwrap_or(stats.version), ..stats }
            }
            OpenedContent::History(history) => history.stats,
        }
    }

    /// The process or file that the facts come from.
    pub fn source(&self) -> &Source {
        match &self.content {
            OpenedContent::Recording(recording) => recording.source(),
            OpenedContent::History(history) => &history.source,
        }
    }

    /// The catalog that handles refer to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.content {
            OpenedContent::Recording(recording) => recording.catalog(),
            OpenedContent::History(history) => &history.catalog,
        }
    }

    /// Problems found when the file was read.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Damaged parts of the file, as far as it was read until now.
    pub fn damage(&self) -> Vec<Damage> {
        let own = self.problems.damage.iter().cloned();
        match &self.content {
            OpenedContent::Recording(recording) => own.chain(recording.damage()).collect(),
            OpenedContent::History(_) => own.collect(),
        }
    }

    /// The state at the end, if it is known without a recording.
    pub fn end(&self) -> Option<Snapshot> {
        match &self.content {
            OpenedContent::Recording(_) => None,
            OpenedContent::History(history) => Some(history.end()),
        }
    }

    /// The totals at the end, if they are known without a recording.
    pub fn end_totals(&self) -> Option<Totals> {
        match &self.content {
            OpenedContent::Recording(_) => None,
            OpenedContent::History(history) => Some(*history.accounts.totals()),
        }
    }

    /// False if there are certainly neither marks nor gauges.
    pub fn may_have_remarks(&self) -> bool {
        match &self.content {
            OpenedContent::Recording(_) => true,
            OpenedContent::History(history) => history.has_remarks,
        }
    }

    /// The content as a recording. A history is converted at the first call.
    pub fn recording(&self, progress: &mut ProgressCallback<'_>) -> Result<&Arc<Recording>, InputError> {
        match &self.content {
            OpenedContent::Recording(recording) => Ok(recording),
            OpenedContent::History(history) => history.recording(progress),
        }
    }

    /// The engine that answers questions about instants and windows of the content.
    pub fn history(&self, progress: &mut ProgressCallback<'_>) -> Result<&Arc<History>, InputError> {
        if let Some(history) = self.history.get() {
            return Ok(history);
        }
        let history = History::of_recording(Arc::clone(self.recording(progress)?)).map_err(|error| match error {
            RecordingError::Io(error) => InputError::unreadable(&self.path, error),
            other => InputError::unusable(&self.path, other),
        })?;
        Ok(self.history.get_or_init(|| Arc::new(history)))
    }
}

/// Counts events in a ledger.
#[derive(Default)]
struct Accounting {
    ledger: AddressLedger,
    has_remarks: bool,
}

impl EventSink for Accounting {
    #[inline]
    fn event(&mut self, event: Event, _: &Catalog) {
        self.has_remarks |= matches!(event.kind, EventKind::Mark { .. } | EventKind::Gauge { .. });
        self.ledger.record(&event, &mut ());
    }

    fn note(&mut self, anomaly: Anomaly, count: u64, _: &Catalog) {
        self.ledger.note(anomaly, count, &mut ());
    }
}

impl ReadOnce {
    fn read(
        format: &'static dyn Format,
        start: Vec<u8>,
        rest: impl io::Read,
        path: &Path,
        progress: &mut ProgressCallback<'_>,
    ) -> Result<(Self, Problems), InputError> {
        let mut copy = match regular_size(path) {
            Some(_) => None,
            None => Some(temporary_file()?),
        };
        let mut content = Copied { input: start.as_slice().chain(rest), copy: copy.as_mut() };
        let mut input = InputStream::new(&mut content, path, progress);
        let mut sink = Accounting::default();
        let history = read_into(format, &mut input, &mut sink)?;
        let Accounting { ledger, has_remarks } = sink;
        let accounts = ledger.into_accounts();
        let file_bytes = input.bytes_read();
        let ReadHistory { source, catalog, version, parts, problems } = history;
        let stats = FileStats {
            version,
            file_bytes,
            events: accounts.events(),
            event_blocks: parts,
            event_bytes: file_bytes,
            complete: true,
            ..FileStats::default()
        };
        let (path, catalog) = (path.to_owned(), Arc::new(catalog));
        Ok((
            Self { format, source, catalog, stats, accounts, has_remarks, path, copy, recording: OnceCell::new() },
            problems,
        ))
    }

    fn end(&self) -> Snapshot {
        Snapshot {
            source: self.source.clone(),
            at: self.source.duration,
            accounts: self.accounts.clone(),
            catalog: Arc::clone(&self.catalog),
        }
    }

    fn recording(&self, progress: &mut ProgressCallback<'_>) -> Result<&Arc<Recording>, InputError> {
        if let Some(recording) = self.recording.get() {
            return Ok(recording);
        }
        let recording = Arc::new(self.converted(progress)?);
        Ok(self.recording.get_or_init(|| recording))
    }

    fn converted(&self, progress: &mut ProgressCallback<'_>) -> Result<Recording, InputError> {
        let mut content: Box<dyn io::Read> = match &self.copy {
            Some(copy) => {
                let mut copy = copy.try_clone().map_err(cannot_write_temporary)?;
                copy.seek(SeekFrom::Start(0)).map_err(cannot_write_temporary)?;
                Box::new(copy)
            }
            None => input(&self.path)?,
        };
        let mut input = InputStream::new(&mut content, &self.path, progress);
        let written = write_history(self.format, &mut input, temporary_file()?).map_err(|error| match error {
            InputError::Write(error) => cannot_write_temporary(error),
            other => other,
        })?;
        recording_in(written.file, &self.path)
    }
}

/// Reads an ordered history into a sink.
pub(crate) fn read_into(
    format: &dyn Format,
    input: &mut InputStream<'_>,
    sink: &mut dyn EventSink,
) -> Result<ReadHistory, InputError> {
    match format.read() {
        Read::History(read) => read(input, sink),
        _ => Err(not_recognized(input.path)),
    }
}

/// An input that is copied while it is read.
struct Copied<'a, R> {
    input: R,
    copy: Option<&'a mut File>,
}

impl<R: io::Read> io::Read for Copied<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&buffer[..count])?;
        }
        Ok(count)
    }
}

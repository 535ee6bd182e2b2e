//! A recording, or the state of one instant, with its caches and its index.

use super::build_once::BuildOnce;
use super::cache::Cache;
use super::index::HistoryIndex;
use super::work::{Cancelled, Work};
use crate::{Damage, Recording, RecordingError};
use highwater_model::{
    Catalog, GaugeReading, NamedInstant, Nanos, RssBreakdown, Snapshot, Source, Totals, When, Window,
};
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fmt, io};

/// The bytes that caches of one history take at most, unless its owner names another budget.
const DEFAULT_BUDGET: usize = 320 << 20;
/// The parts of the budget that checkpoints of replays and figure checkpoints of the index may take.
const CHECKPOINT_PART: usize = 4;
const FIGURES_PART: usize = 8;
/// The least number of events between two checkpoints, and the most checkpoints of a recording, whatever their size.
const CHECKPOINT_EVENTS: u64 = 1 << 20;
const MOST_CHECKPOINTS: u64 = 20;

/// The niceness of threads that no client waits for.
const NICENESS: i32 = 10;

/// Why a history has no answer.
#[derive(Debug)]
pub enum HistoryError {
    /// The recording has none.
    Recording(RecordingError),
    /// The index could not be written.
    TemporaryFile(io::Error),
    /// The client has disconnected.
    Cancelled,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording(RecordingError::Io(error)) => write!(f, "cannot read: {}", reason(error)),
            Self::Recording(error) => error.fmt(f),
            Self::TemporaryFile(error) => write!(
                f,
                "cannot write a temporary file: {}; set TMPDIR to a place with room for five times the recording",
                reason(error)
            ),
            Self::Cancelled => f.write_str("the client has disconnected"),
        }
    }
}

/// The message of an error, without the number that Rust appends.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl std::error::Error for HistoryError {}

impl From<RecordingError> for HistoryError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl From<Cancelled> for HistoryError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<io::Error> for HistoryError {
    /// An error that passed through a reader as an I/O error is returned unchanged.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(error) => Self::Recording(RecordingError::Io(error)),
        }
    }
}

impl From<HistoryError> for io::Error {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Recording(RecordingError::Io(error)) => error,
            other => Self::other(other),
        }
    }
}

/// What a history is made of.
pub(super) enum HistoryContent {
    /// A recording of events.
    Recording(Arc<Recording>),
    /// The state of one instant.
    Instant(Arc<Snapshot>),
}

/// A recording, or the state of one instant, with caches of its instants and windows and with its index.
///
/// All answers come from here, for the command line and for the viewer. Shared by several threads: what takes long is made once, and the others wait.
pub struct History {
    content: HistoryContent,
    budget: usize,
    cache: Cache,
    index: BuildOnce<HistoryIndex>,
    /// The same index, available from the start of its scan.
    begun_index: Mutex<Option<Arc<HistoryIndex>>>,
    totals: OnceLock<Totals>,
    marks: OnceLock<Vec<NamedInstant>>,
    gauges: OnceLock<Vec<GaugeReading>>,
    breakdowns: OnceLock<Vec<RssBreakdown>>,
}

impl History {
    /// A recording with more events is long: its index is built before it is needed, and a timeline of a window with more events comes from slices.
    pub const LONG: u64 = 4 << 20;

    /// The history of a recording. One that holds the state of a single instant becomes that state.
    pub fn of_recording(recording: Arc<Recording>) -> Result<Self, RecordingError> {
        if recording.is_snapshot() {
            let breakdowns = recording.breakdowns()?;
            return Ok(Self::of_snapshot(recording.snapshot(&When::End)?).with_breakdowns(breakdowns));
        }
        let budget = DEFAULT_BUDGET;
        let spacing = (recording.stats().events / MOST_CHECKPOINTS).max(CHECKPOINT_EVENTS);
        recording.keep_checkpoints(budget / CHECKPOINT_PART, spacing);
        Ok(Self::new(HistoryContent::Recording(recording), budget))
    }

    /// The history of a single instant.
    pub fn of_snapshot(snapshot: Snapshot) -> Self {
        Self::new(HistoryContent::Instant(Arc::new(snapshot)), DEFAULT_BUDGET)
    }

    /// The same history with these breakdowns, in time order. For one whose file is not at hand.
    pub fn with_breakdowns(self, breakdowns: Vec<RssBreakdown>) -> Self {
        Self { breakdowns: OnceLock::from(breakdowns), ..self }
    }

    fn new(content: HistoryContent, budget: usize) -> Self {
        Self {
            content,
            budget,
            cache: Cache::default(),
            index: BuildOnce::default(),
            begun_index: Mutex::default(),
            totals: OnceLock::new(),
            marks: OnceLock::new(),
            gauges: OnceLock::new(),
            breakdowns: OnceLock::new(),
        }
    }

    /// The recording, if there is more than one instant.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.content {
            HistoryContent::Recording(recording) => Some(recording),
            HistoryContent::Instant(_) => None,
        }
    }

    pub(super) fn content(&self) -> &HistoryContent {
        &self.content
    }

    /// The process that the memory belongs to.
    pub fn source(&self) -> &Source {
        match &self.content {
            HistoryContent::Recording(recording) => recording.source(),
            HistoryContent::Instant(snapshot) => &snapshot.source,
        }
    }

    /// The catalog that handles refer to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.content {
            HistoryContent::Recording(recording) => recording.catalog(),
            HistoryContent::Instant(snapshot) => &snapshot.catalog,
        }
    }

    /// Parts that could not be used, as far as the file has been read.
    pub fn damage(&self) -> Vec<Damage> {
        self.recording().map(Recording::damage).unwrap_or_default()
    }

    /// The whole time.
    pub fn whole(&self) -> Window {
        match &self.content {
            HistoryContent::Recording(recording) => {
                Window { from: recording.begins_at(), to: recording.source().duration }
            }
            HistoryContent::Instant(snapshot) => Window { from: Nanos(0), to: snapshot.at },
        }
    }

    /// The totals at the end.
    pub fn totals(&self) -> Result<Totals, HistoryError> {
        if let Some(totals) = self.totals.get() {
            return Ok(*totals);
        }
        let totals = match &self.content {
            HistoryContent::Recording(recording) => recording.final_totals()?,
            HistoryContent::Instant(snapshot) => *snapshot.accounts.totals(),
        };
        Ok(*self.totals.get_or_init(|| totals))
    }

    /// The marks, in order.
    pub fn marks(&self) -> Result<&[NamedInstant], HistoryError> {
        kept(&self.marks, || Ok(self.recording().map(Recording::marks).transpose()?.unwrap_or_default()))
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<&[GaugeReading], HistoryError> {
        kept(&self.gauges, || Ok(self.recording().map(Recording::gauges).transpose()?.unwrap_or_default()))
    }

    /// Where its resident memory was, at the instants at which that was recorded, in time order.
    pub fn breakdowns(&self) -> Result<&[RssBreakdown], HistoryError> {
        kept(&self.breakdowns, || Ok(self.recording().map(Recording::breakdowns).transpose()?.unwrap_or_default()))
    }

    /// A value that was derived from this history, made if it is not cached. Values of all types share the budget.
    pub fn cached<V: Any + Send + Sync, E>(
        &self,
        key: String,
        make: impl FnOnce() -> Result<V, E>,
        bytes: impl FnOnce(&V) -> usize,
    ) -> Result<Arc<V>, E> {
        let of_index = self.begun_index().map_or(0, |index| index.bytes());
        let of_replays = self.recording().map_or(0, Recording::checkpoint_bytes);
        self.cache.get(key, self.budget.saturating_sub(of_index + of_replays), make, bytes)
    }

    /// The index, as far as it is built.
    pub(super) fn begun_index(&self) -> Option<Arc<HistoryIndex>> {
        self.begun_index.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The index, if it is complete.
    pub fn known_index(&self) -> Option<Arc<HistoryIndex>> {
        self.index.known()
    }

    /// True for a recording whose index is built before it is needed.
    pub fn is_long(&self) -> bool {
        self.recording().is_some_and(|recording| recording.stats().events > Self::LONG)
    }

    /// True if it does not grow any more.
    pub fn is_complete(&self) -> bool {
        self.recording().is_none_or(|recording| recording.stats().complete)
    }

    /// The part of the recording that is indexed, from 0 to 1, while the index is built.
    pub fn indexing(&self) -> Option<f64> {
        self.index.progress()
    }

    /// Builds the index of a long recording, once, on a thread of its own. Later questions need it, and the scan keeps checkpoints.
    pub fn build_index(self: &Arc<Self>) {
        if self.is_long() && self.index.begins() {
            let own = Arc::clone(self);
            // If no thread can be started, the first question that needs the index builds it.
            let _ = std::thread::Builder::new().name("index".into()).spawn(move || {
                // Questions have priority meanwhile. Threads that this one starts inherit its niceness.
                let _ = rustix::process::setpriority_process(None, NICENESS);
                if let Some(recording) = own.recording() {
                    let mut note = |progress: Option<(f64, &str)>| {
                        own.index.is_at(progress.map_or(0.0, |(part, _)| part));
                        true
                    };
                    let _ = own.index(recording, &Work::asked_by(&mut note));
                }
            });
        }
    }

    /// The index. The first caller that needs it builds it; others wait.
    pub fn index(&self, recording: &Recording, work: &Work<'_>) -> Result<Arc<HistoryIndex>, HistoryError> {
        self.index.get(work, || {
            let index = Arc::new(HistoryIndex::new(recording, self.budget / FIGURES_PART)?);
            self.set_begun_index(Some(&index));
            // An unfinished index would keep its temporary file, perhaps the one that filled the disk.
            index.build(recording, work).inspect_err(|_| self.set_begun_index(None))?;
            Ok(index)
        })
    }

    fn set_begun_index(&self, index: Option<&Arc<HistoryIndex>>) {
        *self.begun_index.lock().unwrap_or_else(PoisonError::into_inner) = index.cloned();
    }
}

fn kept<T>(cell: &OnceLock<Vec<T>>, make: impl FnOnce() -> Result<Vec<T>, HistoryError>) -> Result<&[T], HistoryError> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_file_cannot_be_read_is_said_once() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(HistoryError::from(denied()).to_string(), "cannot read: permission denied");
        let through_a_reader = HistoryError::from(io::Error::from(HistoryError::from(denied())));
        assert_eq!(through_a_reader.to_string(), "cannot read: permission denied");
        assert!(matches!(HistoryError::from(io::Error::from(HistoryError::Cancelled)), HistoryError::Cancelled));
    }
}

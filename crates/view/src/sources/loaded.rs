//! A source that was read, with caches of its instants and windows.

use super::file::{FileKind, OpenedFile};
use super::instants::KeptInstants;
use super::made_once::MadeOnce;
use super::special::{Plain, Special};
use crate::course::Course;
use crate::measure::Measured;
use crate::memo::Memo;
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::{Catalog, GaugeReading, NamedInstant, Nanos, Snapshot, Source, Totals, When, Window};
use highwater_store::{Damage, Recording};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most bytes of checkpoints that replays store, and the least number of events between two of them.
const WAYPOINT_BYTES: usize = 144 << 20;
const WAYPOINT_EVENTS: u64 = 1 << 20;
/// The most checkpoints of a recording, whatever their size.
const MOST_WAYPOINTS: u64 = 20;
/// The most bytes of cached measurements.
const MEASURED_BYTES: usize = 64 << 20;

/// The niceness of threads that no client waits for.
const NICENESS: i32 = 10;

/// A recording with more events is long. For a timeline, a window with more events is not scanned.
pub const LONG: u64 = 4 << 20;

/// The content of a source.
pub enum Content {
    /// A history of events.
    Course(Box<Recording>),
    /// One instant.
    Instant(Arc<Snapshot>),
}

/// A source that was read: its content, caches of its instants, windows and measurements, and its index.
pub struct Loaded {
    /// The kind of the source.
    pub kind: FileKind,
    /// Its content.
    pub content: Content,
    /// Parts that could not be used before it became a recording.
    own_damage: Vec<Damage>,
    /// Answers that only this kind of source has.
    pub special: Box<dyn Special>,
    /// Cached instants and windows.
    pub(super) kept: KeptInstants,
    /// Cached measurements, by all parameters that they depend on.
    pub(crate) measured: Memo<String, Measured>,
    course: MadeOnce<Course>,
    /// The same index, available from the start of its scan.
    begun_course: Mutex<Option<Arc<Course>>>,
    totals: OnceLock<Totals>,
    marks: OnceLock<Vec<NamedInstant>>,
    gauges: OnceLock<Vec<GaugeReading>>,
}

impl Loaded {
    /// A recording or snapshot file.
    pub fn of_file(file: OpenedFile) -> Result<Self, Problem> {
        let OpenedFile { kind, recording, damage, special } = file;
        if !recording.is_snapshot() {
            let spacing = (recording.stats().events / MOST_WAYPOINTS).max(WAYPOINT_EVENTS);
            recording.leave_waypoints(WAYPOINT_BYTES, spacing);
            return Ok(Self::new(kind, Content::Course(Box::new(recording)), damage, special));
        }
        let snapshot = recording.snapshot(&When::End)?;
        let damage = damage.into_iter().chain(recording.damage()).collect();
        Ok(Self::new(kind, Content::Instant(Arc::new(snapshot)), damage, special))
    }

    /// The state of one instant.
    pub fn of_snapshot(kind: FileKind, snapshot: Snapshot) -> Self {
        Self::new(kind, Content::Instant(Arc::new(snapshot)), Vec::new(), Box::new(Plain))
    }

    fn new(kind: FileKind, content: Content, own_damage: Vec<Damage>, special: Box<dyn Special>) -> Self {
        Self {
            kind,
            content,
            own_damage,
            special,
            kept: KeptInstants::default(),
            measured: Memo::new(MEASURED_BYTES),
            course: MadeOnce::default(),
            begun_course: Mutex::default(),
            totals: OnceLock::new(),
            marks: OnceLock::new(),
            gauges: OnceLock::new(),
        }
    }

    /// The history of events, if the source has one.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.content {
            Content::Course(recording) => Some(recording),
            Content::Instant(_) => None,
        }
    }

    /// The process that the memory belongs to.
    pub fn source(&self) -> &Source {
        match &self.content {
            Content::Course(recording) => recording.source(),
            Content::Instant(snapshot) => &snapshot.source,
        }
    }

    /// The catalog that handles refer to.
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.content {
            Content::Course(recording) => recording.catalog(),
            Content::Instant(snapshot) => &snapshot.catalog,
        }
    }

    /// Parts that could not be used, as far as the file has been read.
    pub fn damage(&self) -> Vec<Damage> {
        let found = self.recording().map(Recording::damage).unwrap_or_default();
        self.own_damage.iter().cloned().chain(found).collect()
    }

    /// The whole time of the source.
    pub fn whole(&self) -> Window {
        match &self.content {
            Content::Course(recording) => Window { from: recording.begins_at(), to: recording.source().duration },
            Content::Instant(snapshot) => Window { from: Nanos(0), to: snapshot.at },
        }
    }

    /// The totals at the end.
    pub fn totals(&self) -> Result<Totals, Problem> {
        if let Some(totals) = self.totals.get() {
            return Ok(*totals);
        }
        let totals = match &self.content {
            Content::Course(recording) => recording.final_totals()?,
            Content::Instant(snapshot) => *snapshot.accounts.totals(),
        };
        Ok(*self.totals.get_or_init(|| totals))
    }

    /// The marks, in order.
    pub fn marks(&self) -> Result<&[NamedInstant], Problem> {
        kept(&self.marks, || Ok(self.recording().map(Recording::marks).transpose()?.unwrap_or_default()))
    }

    /// The gauges, in order.
    pub fn gauges(&self) -> Result<&[GaugeReading], Problem> {
        kept(&self.gauges, || Ok(self.recording().map(Recording::gauges).transpose()?.unwrap_or_default()))
    }

    /// The index, as far as it is built.
    pub(super) fn begun_course(&self) -> Option<Arc<Course>> {
        self.begun_course.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The index, if it is complete.
    pub fn known_course(&self) -> Option<Arc<Course>> {
        self.course.known()
    }

    /// True for a recording whose index is built when it is opened.
    pub fn is_long(&self) -> bool {
        self.recording().is_some_and(|recording| recording.stats().events > LONG)
    }

    /// True for a source that does not grow any more.
    pub fn is_complete(&self) -> bool {
        self.recording().is_none_or(|recording| recording.stats().complete)
    }

    /// The part of the recording that is scanned, from 0 to 1, while the scan runs.
    pub fn reading(&self) -> Option<f64> {
        self.course.reading()
    }

    /// Builds the index of a long recording, once, on a thread of its own. Requests will need it, and the scan stores checkpoints.
    pub fn make_course(self: &Arc<Self>) {
        if self.is_long() && self.course.begins() {
            let own = Arc::clone(self);
            // If no thread can be started, the first request that needs the index builds it.
            let _ = std::thread::Builder::new().name("course".into()).spawn(move || {
                // Requests have priority meanwhile. Threads that this one starts inherit its niceness.
                let _ = rustix::process::setpriority_process(None, NICENESS);
                if let Some(recording) = own.recording() {
                    let mut tell = |progress: Option<(f64, &str)>| {
                        own.course.is_at(progress.map_or(0.0, |(part, _)| part));
                        true
                    };
                    let _ = own.course(recording, &Work::asked_by(&mut tell));
                }
            });
        }
    }

    /// The index. The first caller that needs it builds it; others wait.
    pub fn course(&self, recording: &Recording, work: &Work<'_>) -> Result<Arc<Course>, Problem> {
        self.course.get(work, || {
            let course = Arc::new(Course::new(recording)?);
            self.set_begun_course(Some(&course));
            // An unfinished index would keep its temporary file, perhaps the one that filled the disk.
            course.go_through(recording, work).inspect_err(|_| self.set_begun_course(None))?;
            Ok(course)
        })
    }

    fn set_begun_course(&self, course: Option<&Arc<Course>>) {
        *self.begun_course.lock().unwrap_or_else(PoisonError::into_inner) = course.cloned();
    }
}

fn kept<T>(cell: &OnceLock<Vec<T>>, make: impl FnOnce() -> Result<Vec<T>, Problem>) -> Result<&[T], Problem> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

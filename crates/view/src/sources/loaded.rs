//! A source that was read: its instants and windows, of which the last ones are kept.

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

/// Bytes of states that replays leave behind, and how many events apart these are at the least.
const WAYPOINT_BYTES: usize = 144 << 20;
const WAYPOINT_EVENTS: u64 = 1 << 20;
/// How many waypoints a recording may have, whatever their size.
const MOST_WAYPOINTS: u64 = 20;
/// Bytes of what was measured that are kept.
const MEASURED_BYTES: usize = 64 << 20;

/// How patient a thread is that nobody waits for.
const NICENESS: i32 = 10;

/// Recordings with more events are long: windows of so many are not gone through for a timeline.
pub const LONG: u64 = 4 << 20;

/// What a source holds.
pub enum Content {
    /// A course in time.
    Course(Box<Recording>),
    /// One instant.
    Instant(Arc<Snapshot>),
}

/// See the module's text.
pub struct Loaded {
    /// What it is.
    pub kind: FileKind,
    /// What it holds.
    pub content: Content,
    /// What could not be used before it became a recording.
    own_damage: Vec<Damage>,
    /// What only its kind knows.
    pub special: Box<dyn Special>,
    /// Instants and windows that were asked for.
    pub(super) kept: KeptInstants,
    /// What was measured, by all that was asked.
    pub(crate) measured: Memo<String, Measured>,
    course: MadeOnce<Course>,
    /// The same from its beginning on.
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

    /// The course in time, where there is one.
    pub fn recording(&self) -> Option<&Recording> {
        match &self.content {
            Content::Course(recording) => Some(recording),
            Content::Instant(_) => None,
        }
    }

    /// Whose memory it is.
    pub fn source(&self) -> &Source {
        match &self.content {
            Content::Course(recording) => recording.source(),
            Content::Instant(snapshot) => &snapshot.source,
        }
    }

    /// What the handles stand for.
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.content {
            Content::Course(recording) => recording.catalog(),
            Content::Instant(snapshot) => &snapshot.catalog,
        }
    }

    /// What could not be used, as far as was read until now.
    pub fn damage(&self) -> Vec<Damage> {
        let found = self.recording().map(Recording::damage).unwrap_or_default();
        self.own_damage.iter().cloned().chain(found).collect()
    }

    /// All of its time.
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

    /// Its course, as far as it was made.
    pub(super) fn begun_course(&self) -> Option<Arc<Course>> {
        self.begun_course.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its course, if it was made already.
    pub fn known_course(&self) -> Option<Arc<Course>> {
        self.course.known()
    }

    /// True for a recording whose course is made when it is opened.
    pub fn is_long(&self) -> bool {
        self.recording().is_some_and(|recording| recording.stats().events > LONG)
    }

    /// True for what grows no more.
    pub fn is_complete(&self) -> bool {
        self.recording().is_none_or(|recording| recording.stats().complete)
    }

    /// How much of it was gone through, from 0 to 1, while that is being done.
    pub fn reading(&self) -> Option<f64> {
        self.course.reading()
    }

    /// Makes the course of a long recording, once, on a thread of its own: it will be asked for, and leaves waypoints.
    pub fn make_course(self: &Arc<Self>) {
        if self.is_long() && self.course.begins() {
            let own = Arc::clone(self);
            // Without a thread it is made when it is asked for.
            let _ = std::thread::Builder::new().name("course".into()).spawn(move || {
                // Whoever asks meanwhile goes before. The threads that this one starts are as patient.
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

    /// Its course: made once, by whoever needs it first. Others wait.
    pub fn course(&self, recording: &Recording, work: &Work<'_>) -> Result<Arc<Course>, Problem> {
        self.course.get(work, || {
            let course = Arc::new(Course::new(recording)?);
            self.set_begun_course(Some(&course));
            // What was not finished would keep its temporary file, perhaps the one that filled the disk.
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

//! A source that was read: its instants and windows, of which the last ones are kept.

use super::file::{FileKind, OpenedFile};
use super::made_once::MadeOnce;
use super::moment::Moment;
use super::special::{Plain, Special};
use crate::course::Course;
use crate::measure::Measured;
use crate::memo::Memo;
use crate::problem::Problem;
use crate::work::Work;
use highwater_model::{Accounts, Catalog, GaugeReading, NamedInstant, Nanos, Snapshot, Source, Totals, When, Window};
use highwater_store::{Damage, Highest, Recording, Until};
use std::sync::{Arc, OnceLock};

/// Bytes of snapshots that are kept.
const SNAPSHOT_BYTES: usize = 128 << 20;
/// Bytes of states that replays leave behind, and how many events apart these are at the least.
const WAYPOINT_BYTES: usize = 144 << 20;
const WAYPOINT_EVENTS: u64 = 1 << 20;
/// How many waypoints a recording may have, whatever their size.
const MOST_WAYPOINTS: u64 = 20;
/// Bytes of what was counted of windows.
const WINDOW_BYTES: usize = 64 << 20;

/// Recordings with more events are long: windows of so many are not gone through for a timeline.
pub const LONG: u64 = 4 << 20;

/// What a source holds.
pub enum Content {
    /// A course in time.
    Course(Box<Recording>),
    /// One instant.
    Instant(Arc<Snapshot>),
}

/// What happened in a window.
pub struct Between {
    /// The state before it.
    pub before: Arc<Snapshot>,
    /// The state at its end.
    pub after: Arc<Snapshot>,
    /// Counters of what happened in it.
    pub counters: Snapshot,
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
    snapshots: Memo<Moment, Snapshot>,
    /// The same without blocks: much smaller, so many more are kept.
    standings: Memo<Moment, Snapshot>,
    windows: Memo<Window, Between>,
    highest: Memo<Window, Highest>,
    /// What was measured, by all that was asked.
    pub(crate) measured: Memo<String, Measured>,
    course: MadeOnce<Course>,
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
            snapshots: Memo::new(SNAPSHOT_BYTES),
            standings: Memo::new(WINDOW_BYTES),
            windows: Memo::new(WINDOW_BYTES),
            highest: Memo::new(1 << 20),
            measured: Memo::new(WINDOW_BYTES),
            course: MadeOnce::default(),
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

    /// The state at an instant. Of one that is all there is, always that.
    pub fn snapshot(&self, moment: Moment) -> Result<Arc<Snapshot>, Problem> {
        let recording = match &self.content {
            Content::Course(recording) => recording,
            Content::Instant(snapshot) => return Ok(Arc::clone(snapshot)),
        };
        let make = || -> Result<Snapshot, Problem> {
            Ok(match moment {
                Moment::Start => recording.snapshot(&When::Start)?,
                Moment::At(time) => recording.snapshot(&When::At(time))?,
                Moment::Event(event) => recording.snapshot_after(event)?,
                Moment::End => recording.snapshot(&When::End)?,
            })
        };
        self.snapshots.get(&moment, make, size_of_snapshot)
    }

    /// The figures at an instant, without blocks.
    pub fn standing(&self, moment: Moment) -> Result<Arc<Snapshot>, Problem> {
        let make = || match self.figures_at(moment)? {
            Some(snapshot) => Ok(snapshot),
            None => Ok(self.snapshot(moment)?.figures_alone()),
        };
        self.standings.get(&moment, make, size_of_figures)
    }

    /// The same from the course, if it is known.
    fn figures_at(&self, moment: Moment) -> Result<Option<Snapshot>, Problem> {
        let Some((recording, course)) = self.recording().zip(self.known_course()) else { return Ok(None) };
        let until = match moment {
            Moment::Start => return Ok(None),
            Moment::At(time) => Until::Time(time),
            Moment::Event(event) => Until::Event(event),
            Moment::End => Until::End,
        };
        let Some(accounts) = course.figures_at(recording, until)? else { return Ok(None) };
        let at = match moment {
            Moment::At(time) => time,
            Moment::End => recording.source().duration,
            _ => accounts.last_time(),
        };
        let (source, catalog) = (recording.source().clone(), Arc::clone(recording.catalog()));
        Ok(Some(Snapshot { source, at, accounts, catalog }))
    }

    /// The instant that a time means: the last one that is not later.
    pub fn moment_at(&self, time: Nanos) -> Moment {
        let whole = self.whole();
        if time >= whole.to { Moment::End } else { Moment::At(time.max(whole.from)) }
    }

    /// The instant before a time.
    pub fn moment_before(&self, time: Nanos) -> Moment {
        if time <= self.whole().from { Moment::Start } else { self.moment_at(Nanos(time.0 - 1)) }
    }

    /// What happened in a window; of one instant, all that is known to have led to it.
    pub fn between(&self, window: Window) -> Result<Arc<Between>, Problem> {
        let make = || -> Result<Between, Problem> {
            let (before, after) = std::thread::scope(|scope| {
                let before = scope.spawn(|| self.state_before(window.from));
                let after = self.standing(self.moment_at(window.to));
                (before.join().unwrap_or_else(|_| Err(Problem::failed("a thread gave up"))), after)
            });
            let (before, after) = (before?, after?);
            let counters = after.since(&before);
            Ok(Between { before, after, counters })
        };
        // The two states count as well: they may have left the other memo.
        self.windows.get(&window, make, |between| 3 * size_of_figures(&between.counters))
    }

    fn state_before(&self, from: Nanos) -> Result<Arc<Snapshot>, Problem> {
        match &self.content {
            Content::Course(_) => self.standing(self.moment_before(from)),
            Content::Instant(snapshot) => {
                Ok(Arc::new(Snapshot { accounts: Accounts::default(), ..Snapshot::clone(snapshot) }))
            }
        }
    }

    /// Where the most bytes were live in a window.
    pub fn highest(&self, recording: &Recording, window: Window) -> Result<Highest, Problem> {
        let make = || -> Result<Highest, Problem> {
            let (from, to) = (window.from, window.to);
            let Some(course) = self.known_course() else { return Ok(recording.highest_between(from, to)?) };
            let state_before = |block: usize| match course.figures_before(recording, block) {
                Ok(Some(ledger)) => Ok(ledger),
                Ok(None) => recording.state_before_block(block),
                Err(problem) => Err(std::io::Error::other(problem.line().to_owned())),
            };
            Ok(recording.highest_between_with(from, to, state_before)?)
        };
        self.highest.get(&window, make, |_| 256).map(|highest| *highest)
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
        self.course.get(work, || Course::of(recording, work))
    }
}

fn kept<T>(cell: &OnceLock<Vec<T>>, make: impl FnOnce() -> Result<Vec<T>, Problem>) -> Result<&[T], Problem> {
    if let Some(known) = cell.get() {
        return Ok(known);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}

fn size_of_figures(snapshot: &Snapshot) -> usize {
    let accounts = &snapshot.accounts;
    let rows = accounts.sites().len() + accounts.tags().len() + accounts.threads().len();
    rows * size_of::<highwater_model::Figures>() + 1024
}

fn size_of_snapshot(snapshot: &Snapshot) -> usize {
    // A live block takes 48 bytes, and a place for its weight where they have any.
    let accounts = &snapshot.accounts;
    let weights = if accounts.totals().figures.is_estimate() { 16 } else { 0 };
    size_of_figures(snapshot) + accounts.blocks().count() * (48 + weights)
}

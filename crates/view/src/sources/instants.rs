//! The instants and windows of a source. The most recently used are cached.

use super::loaded::{Content, Loaded};
use super::moment::Moment;
use crate::memo::Memo;
use crate::problem::Problem;
use highwater_model::{Accounts, Nanos, Snapshot, When, Window};
use highwater_store::{Highest, Recording, Until};
use std::sync::Arc;

/// The most bytes of cached snapshots.
const SNAPSHOT_BYTES: usize = 128 << 20;
/// The most bytes of cached figures of instants, and of cached windows.
const FIGURES_BYTES: usize = 64 << 20;

/// The counters of a window, and the states at its ends.
pub struct Between {
    /// The state before it.
    pub before: Arc<Snapshot>,
    /// The state at its end.
    pub after: Arc<Snapshot>,
    /// The counters of the events in it.
    pub counters: Snapshot,
}

/// Caches of the most recently used instants and windows.
pub struct KeptInstants {
    snapshots: Memo<Moment, Snapshot>,
    /// The same without blocks: they are much smaller, so more of them fit.
    standings: Memo<Moment, Snapshot>,
    windows: Memo<Window, Between>,
    highest: Memo<Window, Highest>,
}

impl Default for KeptInstants {
    fn default() -> Self {
        Self {
            snapshots: Memo::new(SNAPSHOT_BYTES),
            standings: Memo::new(FIGURES_BYTES),
            windows: Memo::new(FIGURES_BYTES),
            highest: Memo::new(1 << 20),
        }
    }
}

impl Loaded {
    /// The state at an instant. A source with one instant always returns that.
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
        self.kept.snapshots.get(&moment, make, size_of_snapshot)
    }

    /// The figures at an instant, without blocks.
    pub fn standing(&self, moment: Moment) -> Result<Arc<Snapshot>, Problem> {
        let make = || match self.figures_at(moment)? {
            Some(snapshot) => Ok(snapshot),
            None => Ok(self.snapshot(moment)?.figures_alone()),
        };
        self.kept.standings.get(&moment, make, size_of_figures)
    }

    /// The same from the index, if it covers the instant yet.
    fn figures_at(&self, moment: Moment) -> Result<Option<Snapshot>, Problem> {
        let Some((recording, course)) = self.recording().zip(self.begun_course()) else { return Ok(None) };
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

    /// The instant of a time: after the last event that is not later.
    pub fn moment_at(&self, time: Nanos) -> Moment {
        let whole = self.whole();
        if time >= whole.to { Moment::End } else { Moment::At(time.max(whole.from)) }
    }

    /// The instant before a time.
    pub fn moment_before(&self, time: Nanos) -> Moment {
        if time <= self.whole().from { Moment::Start } else { self.moment_at(Nanos(time.0 - 1)) }
    }

    /// The counters of a window; for a source with one instant, all counters that it has.
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
        // The two states are counted too: the other cache may have dropped them.
        self.kept.windows.get(&window, make, |between| 3 * size_of_figures(&between.counters))
    }

    fn state_before(&self, from: Nanos) -> Result<Arc<Snapshot>, Problem> {
        match &self.content {
            Content::Course(_) => self.standing(self.moment_before(from)),
            Content::Instant(snapshot) => {
                Ok(Arc::new(Snapshot { accounts: Accounts::default(), ..Snapshot::clone(snapshot) }))
            }
        }
    }

    /// The instant with the most live bytes in a window.
    pub fn highest(&self, recording: &Recording, window: Window) -> Result<Highest, Problem> {
        let make = || -> Result<Highest, Problem> {
            let (from, to) = (window.from, window.to);
            let Some(course) = self.begun_course() else { return Ok(recording.highest_between(from, to)?) };
            let state_before = |block: usize| match course.figures_before(recording, block) {
                Ok(Some(ledger)) => Ok(ledger),
                Ok(None) => recording.state_before_block(block),
                Err(problem) => Err(problem.into()),
            };
            Ok(recording.highest_between_with(from, to, state_before)?)
        };
        self.kept.highest.get(&window, make, |_| 256).map(|highest| *highest)
    }
}

fn size_of_figures(snapshot: &Snapshot) -> usize {
    let accounts = &snapshot.accounts;
    let rows = accounts.sites().len() + accounts.tags().len() + accounts.threads().len();
    rows * size_of::<highwater_model::Figures>() + 1024
}

fn size_of_snapshot(snapshot: &Snapshot) -> usize {
    // A live block takes 48 bytes, and 16 more for its weight if blocks have weights.
    let accounts = &snapshot.accounts;
    let weights = if accounts.totals().figures.is_estimate() { 16 } else { 0 };
    size_of_figures(snapshot) + accounts.blocks().count() * (48 + weights)
}

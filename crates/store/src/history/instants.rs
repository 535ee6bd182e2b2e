//! The instants and windows of a history.

use super::history::{History, HistoryContent, HistoryError};
use crate::{Highest, Moment, Recording, RecordingError, ReplayUntil};
use highwater_model::{Accounts, Nanos, Snapshot, When, Window};
use std::sync::Arc;

/// The counters of a window, and the figures at its ends.
pub struct WindowFigures {
    /// The figures before it.
    pub before: Arc<Snapshot>,
    /// The figures at its end.
    pub after: Arc<Snapshot>,
    /// The counters of the events in it.
    pub counters: Snapshot,
}

/// Figures of an instant: a type of its own, so that the cache does not mistake them for a state with its blocks.
struct FiguresAlone(Arc<Snapshot>);

impl History {
    /// The state at an instant. A history of one instant always returns that.
    pub fn snapshot(&self, moment: Moment) -> Result<Arc<Snapshot>, HistoryError> {
        let recording = match self.content() {
            HistoryContent::Recording(recording) => recording,
            HistoryContent::Instant(snapshot) => return Ok(Arc::clone(snapshot)),
        };
        let make = || -> Result<Snapshot, HistoryError> {
            let mut snapshot = recording.snapshot_at(moment)?;
            recording.add_address_space(&mut snapshot)?;
            Ok(snapshot)
        };
        self.cached(format!("{moment:?}"), make, size_of_snapshot)
    }

    /// The figures at an instant, without blocks. More of them fit into the cache.
    pub fn figures(&self, moment: Moment) -> Result<Arc<Snapshot>, HistoryError> {
        let make = || {
            let figures = match self.indexed_figures(moment)? {
                Some(snapshot) => snapshot,
                None => self.snapshot(moment)?.figures_alone(),
            };
            Ok::<_, HistoryError>(FiguresAlone(Arc::new(figures)))
        };
        let figures = self.cached(format!("{moment:?}"), make, |figures| size_of_figures(&figures.0))?;
        Ok(Arc::clone(&figures.0))
    }

    /// The same from the index, if it covers the instant yet.
    fn indexed_figures(&self, moment: Moment) -> Result<Option<Snapshot>, HistoryError> {
        let Some((recording, index)) = self.recording().zip(self.begun_index()) else { return Ok(None) };
        let until = match moment {
            Moment::Start => return Ok(None),
            Moment::At(time) => ReplayUntil::Time(time),
            Moment::Event(event) => ReplayUntil::Event(event),
            Moment::End => ReplayUntil::End,
        };
        let Some(accounts) = index.figures_at(recording, until)? else { return Ok(None) };
        let at = match moment {
            Moment::At(time) => time,
            Moment::End => recording.source().duration,
            _ => accounts.last_time(),
        };
        let (source, catalog) = (recording.source().clone(), Arc::clone(recording.catalog()));
        Ok(Some(Snapshot { source, at, accounts, catalog }))
    }

    /// The instant that is named, if the history has it. A history of one instant has only its end.
    pub fn moment_of(&self, when: &When) -> Result<Moment, HistoryError> {
        match self.content() {
            HistoryContent::Recording(recording) => Ok(recording.moment(when)?),
            HistoryContent::Instant(snapshot) => {
                let is_end = match when {
                    When::End => true,
                    When::At(time) => *time == snapshot.at,
                    When::Percent(part) => *part >= 100.0,
                    When::Start | When::Peak | When::RssPeak | When::Mark(_) | When::Line(_) => false,
                };
                let error = || RecordingError::OneInstant { asked: when.clone(), at: snapshot.at };
                if is_end { Ok(Moment::End) } else { Err(error().into()) }
            }
        }
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

    /// The counters of a window; of a history of one instant, all counters that it has.
    pub fn window(&self, window: Window) -> Result<Arc<WindowFigures>, HistoryError> {
        let make = || -> Result<WindowFigures, HistoryError> {
            let (before, after) = std::thread::scope(|scope| {
                let before = scope.spawn(|| self.figures_before(window.from));
                let after = self.figures(self.moment_at(window.to));
                let panicked = |_| Err(std::io::Error::other("a thread panicked").into());
                (before.join().unwrap_or_else(panicked), after)
            });
            let (before, after) = (before?, after?);
            let counters = after.since(&before);
            Ok(WindowFigures { before, after, counters })
        };
        // The figures at both ends count as well: the cache may have dropped their own entries.
        self.cached(format!("{window:?}"), make, |window| 3 * size_of_figures(&window.counters))
    }

    fn figures_before(&self, from: Nanos) -> Result<Arc<Snapshot>, HistoryError> {
        match self.content() {
            // Of states without events, all counters are those of the end.
            HistoryContent::Recording(recording) if recording.source().is_states() => {
                let figures = self.figures(Moment::Start)?;
                Ok(Arc::new(Snapshot { accounts: Accounts::default(), ..Snapshot::clone(&figures) }))
            }
            HistoryContent::Recording(_) => self.figures(self.moment_before(from)),
            HistoryContent::Instant(snapshot) => {
                Ok(Arc::new(Snapshot { accounts: Accounts::default(), ..Snapshot::clone(snapshot) }))
            }
        }
    }

    /// The instant with the most live bytes in a window.
    pub fn peak(&self, recording: &Recording, window: Window) -> Result<Highest, HistoryError> {
        let make = || -> Result<Highest, HistoryError> {
            let (from, to) = (window.from, window.to);
            let Some(index) = self.begun_index() else { return Ok(recording.highest_between(from, to)?) };
            let state_before = |block: usize| match index.figures_before(recording, block) {
                Ok(Some(ledger)) => Ok(ledger),
                Ok(None) => recording.state_before_block(block),
                Err(error) => Err(error.into()),
            };
            Ok(recording.highest_between_with(from, to, state_before)?)
        };
        self.cached(format!("{window:?}"), make, |_| 0).map(|highest| *highest)
    }
}

fn size_of_figures(snapshot: &Snapshot) -> usize {
    let accounts = &snapshot.accounts;
    let rows = accounts.sites().len() + accounts.tags().len() + accounts.threads().len();
    rows * size_of::<highwater_model::Figures>()
}

fn size_of_snapshot(snapshot: &Snapshot) -> usize {
    // A live block takes 48 bytes, and 16 more for its weight if blocks have weights.
    let accounts = &snapshot.accounts;
    let weights = if accounts.totals().figures.is_estimate() { 16 } else { 0 };
    size_of_figures(snapshot) + accounts.blocks().count() * (48 + weights)
}

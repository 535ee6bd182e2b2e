//! The recordings of processes: facts that are read at once, and live memory over time, from a replay.

use super::ProcessFile;
use crate::error::QueryError;
use crate::processes::on_axis;
use highwater_model::{Accounts, Clock, Nanos, Op, Source, StringId, Totals, gauge};
use highwater_store::history::Work;
use highwater_store::{EventsSummary, Recording, WalkItem};
use std::ops::ControlFlow;

/// The longest command line of an answer, in characters.
const LONGEST_COMMAND: usize = 1000;
/// The steps between two checks whether the client still waits.
const STEPS_PER_LOOK: u64 = 1 << 16;

/// What is known of a recording without a replay. Its file is closed again: there may be more processes than a process may open files.
pub(super) struct RecordedFacts {
    pub file: ProcessFile,
    pub source: Source,
    pub totals: Totals,
    pub events: u64,
    pub is_complete: bool,
    /// When its time 0 was.
    pub start_unix_ns: u64,
    /// When the time 0 of all processes was.
    pub zero: u64,
    /// When its events begin: later than 0 if it was made of a stream that was joined.
    begins: Nanos,
    pub blocks: Vec<EventsSummary>,
}

impl RecordedFacts {
    /// Reads a file; a line with the reason if it is not the recording of a process.
    pub fn read(file: &ProcessFile) -> Result<Self, String> {
        let recording = Recording::open(&file.path).map_err(|error| error.to_string())?;
        let source = recording.source().clone();
        if recording.is_snapshot() || source.is_states() || source.aggregated {
            return Err("it has single instants only, and no history".to_owned());
        }
        if source.clock != Clock::Time || source.start_unix_ns == 0 {
            return Err("it does not say when it began".to_owned());
        }
        let totals = recording.final_totals().map_err(|error| error.to_string())?;
        let stats = recording.stats();
        Ok(Self {
            file: file.clone(),
            totals,
            events: stats.events,
            is_complete: stats.complete,
            start_unix_ns: source.start_unix_ns,
            zero: source.start_unix_ns,
            begins: recording.begins_at(),
            blocks: recording.summaries().copied().collect(),
            source,
        })
    }

    fn offset(&self) -> u64 {
        self.start_unix_ns.saturating_sub(self.zero)
    }

    /// A time of this recording on the common axis.
    pub fn common(&self, time: Nanos) -> u64 {
        on_axis(self.offset(), time)
    }

    /// A time of the common axis in this recording.
    pub fn own(&self, time: u64) -> Nanos {
        Nanos(time.saturating_sub(self.offset()))
    }

    /// When it began.
    pub fn start(&self) -> u64 {
        self.common(self.begins)
    }

    /// When it ended: it holds memory up to and including this instant.
    pub fn end(&self) -> u64 {
        self.common(self.source.duration.max(self.begins))
    }

    /// The number of events that a replay of a part of the axis reads, about.
    pub fn events_between(&self, from: u64, to: u64) -> u64 {
        let overlaps =
            |block: &&EventsSummary| self.common(block.last_time) >= from && self.common(block.first_time) <= to;
        self.blocks.iter().filter(overlaps).map(|block| block.events).sum()
    }

    /// The command line.
    pub fn command(&self) -> Option<String> {
        let text = self.source.command.join(" ");
        (!text.is_empty()).then(|| text.chars().take(LONGEST_COMMAND).collect())
    }
}

/// The live bytes after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// The time of the recording.
    pub at: Nanos,
    /// Bytes live from then on.
    pub bytes: u64,
    /// The RSS that was read then.
    pub rss: Option<u64>,
}

/// Replays a recording and visits its live bytes, whenever they change: from a state before `from` to the last event up to `to`, perhaps further.
pub(super) fn for_each_level(
    facts: &RecordedFacts,
    from: Nanos,
    to: Nanos,
    work: &Work<'_>,
    mut see: impl FnMut(Level),
) -> Result<(), QueryError> {
    let recording = Recording::open(&facts.file.path)
        .map_err(|error| QueryError::Failed(format!("{}: {error}", facts.file.path.display())))?;
    let last_event = facts.blocks.last().map_or(Nanos(0), |block| block.last_time);
    if from > last_event {
        // It is idle from then on, and holds what it holds at the end.
        see(Level { at: last_event, bytes: facts.totals.figures.live_bytes(), rss: None });
        return Ok(());
    }
    let rss_name = rss_name(&recording);
    let mut last: Option<(Nanos, u64)> = None;
    let mut step_count = 0u64;
    let mut is_cancelled = false;
    let mut see_state = |accounts: &Accounts, rss: Option<u64>| {
        let at = accounts.last_time().max(last.map_or(Nanos(0), |(at, _)| at));
        let bytes = accounts.totals().figures.live_bytes();
        if rss.is_some() || last.is_none_or(|(_, before)| before != bytes) {
            last = Some((at, bytes));
            see(Level { at, bytes, rss });
        }
    };
    for segment in recording.segments(from, to, u64::MAX) {
        let mut rss = None;
        let accounts = recording.walk_segment(&segment, |item| {
            match item {
                WalkItem::Block(..) => {}
                WalkItem::Stored(ledger) => see_state(ledger.accounts(), None),
                WalkItem::Step(ledger, step) => {
                    see_state(ledger.accounts(), rss.take());
                    if let Op::Gauge { name, value } = step.op
                        && Some(name) == rss_name
                    {
                        rss = Some(value);
                    }
                }
            }
            step_count += 1;
            if step_count.is_multiple_of(STEPS_PER_LOOK) && work.go_on().is_err() {
                is_cancelled = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        see_state(&accounts?, rss.take());
        if is_cancelled {
            return Err(QueryError::Cancelled);
        }
    }
    // After lost events, only the last keyframe knows what is live.
    let (end, bytes) = (facts.source.duration, facts.totals.figures.live_bytes());
    if to >= end && last.is_none_or(|(_, before)| before != bytes) {
        see(Level { at: end, bytes, rss: None });
    }
    Ok(())
}

/// The name of the gauge of the resident set in a recording's catalog.
fn rss_name(recording: &Recording) -> Option<StringId> {
    let strings = &recording.catalog().strings;
    (0..strings.len() as u32).map(StringId).find(|id| strings.get(*id) == gauge::RSS)
}

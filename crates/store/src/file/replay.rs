//! Time travel: the nearest keyframe, then a replay up to the instant.

use super::errors::RecordingError;
use super::events::EventsSummary;
use super::events_decoder::{EventsDecoder, Steps};
use super::index::{Content, Entry};
use super::keyframe::{self, KeyframeSummary};
use super::live_blocks;
use super::recording::Recording;
use super::walk::Seen;
use super::waypoints::Waypoint;
use highwater_model::{Accounts, AccountsState, AllocId, Heap, Nanos, NumberLedger, Snapshot, Totals, When};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How far a recording is replayed.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// To its end.
    End,
    /// After this number of events.
    Event(u64),
    /// After all events up to and including this time.
    Time(Nanos),
}

impl Until {
    /// True for a state from which this instant can be reached.
    fn is_behind(self, keyframe: &KeyframeSummary) -> bool {
        match self {
            Self::End => true,
            Self::Event(event) => keyframe.events <= event,
            Self::Time(time) => keyframe.time <= time,
        }
    }

    /// Whether the next step is still before this instant.
    #[inline]
    pub(super) fn flow(self, seen: Seen<'_>) -> ControlFlow<()> {
        let Seen::Step(ledger, step) = seen else { return ControlFlow::Continue(()) };
        let is_reached = match self {
            Self::End => false,
            Self::Event(event) => ledger.accounts().events() >= event,
            Self::Time(time) => step.time > time,
        };
        if is_reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Recording {
    fn keyframe_figures(&self, at: usize) -> io::Result<Option<AccountsState>> {
        let mut payload = Vec::new();
        let entry = &self.entries()[at];
        if !self.read_entry(entry, &mut payload)? {
            return Ok(None);
        }
        let believed = self.believed();
        let state = keyframe::decode_figures(&payload, believed.stacks, believed.tags);
        if state.is_none() {
            self.note_damage(entry, "a keyframe is malformed");
        }
        Ok(state.map(|(_, state)| state))
    }

    /// The ledger of a keyframe, from which a replay continues; `None` if it is damaged.
    pub(super) fn keyframe(&self, at: usize) -> io::Result<Option<NumberLedger>> {
        Ok(self.keyframe_accounts(at)?.map(NumberLedger::from_accounts))
    }

    /// The accounts of a keyframe; `None` if it is damaged.
    fn keyframe_accounts(&self, at: usize) -> io::Result<Option<Accounts>> {
        let Some(mut state) = self.keyframe_figures(at)? else { return Ok(None) };
        let Content::Keyframe(summary) = self.entries()[at].content else { return Ok(None) };
        let parts = usize::try_from(summary.parts).unwrap_or(usize::MAX);
        let following = self.entries()[at + 1..].iter().take(parts);
        let mut payload = Vec::new();
        let mut found = 0;
        let mut sequence = self.entries()[at].sequence;
        for entry in following {
            // A missing part shows as a gap in the sequence numbers.
            sequence = sequence.wrapping_add(1);
            if entry.content != Content::LiveBlocks || entry.sequence != sequence {
                break;
            }
            if !self.read_entry(entry, &mut payload)? {
                return Ok(None);
            }
            if live_blocks::decode(&payload, &mut state).is_none() {
                self.note_damage(entry, "live blocks are malformed");
                return Ok(None);
            }
            found += 1;
        }
        let accounts = Accounts::from_state(state);
        if found != parts || !keyframe::is_lawful(&accounts, self.source().aggregated) {
            self.note_damage(&self.entries()[at], "a keyframe's live blocks do not belong to it");
            return Ok(None);
        }
        Ok(Some(accounts))
    }

    /// The latest stored state that `reached` accepts, with the index of the entry from which to continue.
    fn nearest_state(&self, reached: impl Fn(&KeyframeSummary) -> bool) -> io::Result<(NumberLedger, usize)> {
        for (at, summary) in self.keyframes().rev() {
            if !reached(summary) {
                continue;
            }
            if let Some((entry, ledger)) = self.waypoint(usize::MAX, summary.events, &reached) {
                return Ok((ledger, entry));
            }
            if let Some(ledger) = self.keyframe(at)? {
                return Ok((ledger, at + 1));
            }
        }
        Ok(self
            .waypoint(usize::MAX, 0, &reached)
            .map_or((NumberLedger::default(), 0), |(entry, ledger)| (ledger, entry)))
    }

    /// The latest checkpoint at or before entry `until` that is after more than `events` events.
    fn waypoint(
        &self,
        until: usize,
        events: u64,
        reached: impl Fn(&KeyframeSummary) -> bool,
    ) -> Option<(usize, NumberLedger)> {
        let is_reached = |kept: &Waypoint| reached(&KeyframeSummary { events: kept.events, time: kept.time, parts: 0 });
        let found = self.waypoints().latest(until, is_reached);
        let (entry, kept) = found.filter(|(_, kept)| kept.events > events)?;
        Some((entry, NumberLedger::from_accounts(kept.accounts(self.believed())?)))
    }

    /// Keeps a checkpoint after an entry, if it is worth its memory. With damage, a state is only as good as the events before it, so none is kept.
    fn leave_waypoint(&self, entry: &Entry, ledger: &NumberLedger) -> io::Result<()> {
        let next = self.entries().partition_point(|known| known.offset <= entry.offset);
        let events = ledger.accounts().events();
        let stored = self.keyframes().rev().find(|(at, summary)| *at < next && summary.events <= events);
        let nearest = stored.map_or(0, |(_, summary)| summary.events);
        if self.waypoints().wants(next, events, nearest) && self.damage().is_empty() {
            let waypoint = Waypoint::of(&ledger.accounts().to_state())?;
            self.waypoints_mut().leave(next, waypoint);
        }
        Ok(())
    }

    /// Replays the event blocks among `entries`. `before` is called for each block, and for each step before it is applied, and may stop the replay.
    pub(super) fn replay(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        mut before: impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.replay_then(ledger, entries, &mut before, |entry, ledger| self.leave_waypoint(entry, ledger))
    }

    /// The same with accounts that lack some live blocks: no checkpoints are kept.
    pub(super) fn replay_figures(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        mut before: impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.replay_then(ledger, entries, &mut before, |_, _| Ok(()))
    }

    fn replay_then(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        before: &mut impl FnMut(Seen<'_>) -> ControlFlow<()>,
        then: impl Fn(&Entry, &NumberLedger) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut decoder = EventsDecoder::new()?;
        let mut payload = Vec::new();
        for entry in entries.iter().filter(|entry| matches!(entry.content, Content::Events(_))) {
            if self.replay_block(entry, ledger, &mut decoder, &mut payload, before)?.is_break() {
                break;
            }
            then(entry, ledger)?;
        }
        Ok(())
    }

    fn replay_block(
        &self,
        entry: &Entry,
        ledger: &mut NumberLedger,
        decoder: &mut EventsDecoder,
        payload: &mut Vec<u8>,
        before: &mut impl FnMut(Seen<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        if !self.read_entry(entry, payload)? {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(mut steps) = decoder.open(payload, self.known(), self.believed()) else {
            self.note_damage(entry, "a block of events is malformed");
            return Ok(ControlFlow::Continue(()));
        };
        let summary = steps.summary;
        let Some(lost) = summary.first_event.checked_sub(ledger.accounts().events()) else {
            self.note_damage(entry, "a block of events is out of place");
            return Ok(ControlFlow::Continue(()));
        };
        if summary.first_alloc < ledger.accounts().next_id().0 {
            self.note_damage(entry, "a block of events is out of place");
            return Ok(ControlFlow::Continue(()));
        }
        if lost > 0 {
            ledger.skip_to(AllocId(summary.first_alloc), lost);
        }
        if before(Seen::Block(ledger, &summary)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let flow = apply(&mut steps, ledger, before);
        if flow.is_continue() && !steps.is_done() {
            self.note_damage(entry, "a block of events is malformed");
        }
        if steps.unknown_handles > 0 {
            self.note_damage(entry, "events refer to stacks or types that were lost");
        }
        Ok(flow)
    }

    /// The state at an instant. A snapshot file has only one: its end.
    pub fn snapshot(&self, when: &When) -> Result<Snapshot, RecordingError> {
        if self.is_snapshot() {
            return self.only_snapshot(when);
        }
        let when = &self.as_time(when)?;
        self.snapshot_by(when, |until| self.accounts_until(until))
    }

    /// The state of one heap at an instant, as if there were no other heap; `peak` is still that of the whole memory.
    ///
    /// Keyframes have no figures by heap, so this replays the recording from its start, and every figure is exact. A snapshot has no events to replay;
    /// [`Snapshot::heap_alone`] uses its blocks.
    pub fn snapshot_of_heap(&self, when: &When, heap: Heap) -> Result<Snapshot, RecordingError> {
        if self.source().snapshot {
            return self.snapshot(when)?.heap_alone(heap).ok_or(RecordingError::NoHeapAlone);
        }
        let when = &self.as_time(when)?;
        self.snapshot_by(when, |until| self.accounts_of_heap(until, heap))
    }

    /// Converts a line to a time: a log without times uses line numbers as times.
    fn as_time(&self, when: &When) -> Result<When, RecordingError> {
        Ok(match when {
            When::Line(_) => When::At(self.time_of(when)?),
            other => other.clone(),
        })
    }

    /// The state of a snapshot file, if it is the requested one.
    fn only_snapshot(&self, when: &When) -> Result<Snapshot, RecordingError> {
        let at = self.source().duration;
        let is_end = match when {
            When::End => true,
            When::At(time) => *time == at,
            When::Percent(part) => *part >= 100.0,
            When::Start | When::Peak | When::Mark(_) | When::Line(_) => false,
        };
        if !is_end {
            return Err(RecordingError::OneInstant { asked: when.clone(), at });
        }
        for (keyframe, _) in self.keyframes().rev() {
            if let Some(accounts) = self.keyframe_accounts(keyframe)? {
                return Ok(self.snapshot_of(at, accounts));
            }
        }
        Err(RecordingError::NothingUsable)
    }

    fn snapshot_of(&self, at: Nanos, accounts: Accounts) -> Snapshot {
        Snapshot { source: self.source().clone(), at, accounts, catalog: Arc::clone(self.catalog()) }
    }

    fn snapshot_by(
        &self,
        when: &When,
        accounts: impl Fn(Until) -> io::Result<Accounts>,
    ) -> Result<Snapshot, RecordingError> {
        let duration = self.source().duration;
        let (at, accounts) = match when {
            When::Start => (self.begins_at(), self.first_accounts()?),
            When::End => (duration, accounts(Until::End)?),
            When::Peak => {
                let peak = self.final_totals()?;
                if !self.has_event(peak.peak_event) {
                    return Err(RecordingError::PeakOutside { at: peak.peak_at, begins_at: self.begins_at() });
                }
                (peak.peak_at, accounts(Until::Event(peak.peak_event))?)
            }
            When::At(time) if *time > duration && self.source().untimed => {
                return Err(RecordingError::LineOutside { asked: time.0, last: duration.0 });
            }
            When::At(time) if *time > duration => return Err(RecordingError::TimeOutside { asked: *time, duration }),
            When::At(time) if *time < self.begins_at() => {
                return Err(RecordingError::TimeBefore { asked: *time, begins_at: self.begins_at() });
            }
            When::At(time) => (*time, accounts(Until::Time(*time))?),
            When::Percent(_) | When::Line(_) => {
                let time = self.time_of(when)?;
                (time, accounts(Until::Time(time))?)
            }
            When::Mark(name) => {
                let marks = self.marks()?;
                let Some(mark) = marks.iter().find(|mark| mark.name == *name) else {
                    let mut known: Vec<String> = marks.into_iter().map(|mark| mark.name).collect();
                    known.dedup();
                    return Err(RecordingError::UnknownMark { name: name.clone(), known });
                };
                (mark.time, accounts(Until::Event(mark.event))?)
            }
        };
        if accounts.events() == 0 && *when == When::End && self.stats().events > 0 {
            return Err(RecordingError::NothingUsable);
        }
        Ok(self.snapshot_of(at, accounts))
    }

    /// The state before the first event.
    fn first_accounts(&self) -> io::Result<Accounts> {
        let stored = match self.beginning() {
            Some((at, _)) => self.keyframe_accounts(at)?,
            None => None,
        };
        Ok(stored.unwrap_or_default())
    }

    /// Whether the state after an event is available: not if the event is before the beginning, or was left out. If there is damage, the nearest known
    /// state is used instead.
    fn has_event(&self, event: u64) -> bool {
        let within =
            |summary: &EventsSummary| summary.first_event < event && event - summary.first_event <= summary.events;
        event == 0
            || self.event_blocks().any(|(_, summary)| within(summary))
            || self.keyframes().any(|(_, summary)| summary.events == event)
            || !self.damage().is_empty()
    }

    fn accounts_until(&self, until: Until) -> io::Result<Accounts> {
        let (mut ledger, first) = self.nearest_state(|keyframe| until.is_behind(keyframe))?;
        self.replay(&mut ledger, &self.entries()[first..], |seen| until.flow(seen))?;
        Ok(ledger.into_accounts())
    }

    pub(crate) fn accounts_at_event(&self, event: u64) -> io::Result<Accounts> {
        self.accounts_until(Until::Event(event))
    }

    fn accounts_of_heap(&self, until: Until, heap: Heap) -> io::Result<Accounts> {
        let catalog = self.catalog();
        let mut part = NumberLedger::default();
        self.walk(|seen| {
            match seen {
                Seen::Block(..) => {}
                Seen::Step(whole, step) => {
                    until.flow(seen)?;
                    // If blocks of the file are missing, the part continues after them like the whole.
                    let lost = whole.accounts().events() - part.accounts().events();
                    if lost > 0 {
                        part.skip_to(whole.accounts().next_id(), lost);
                    }
                    part.replay_part(step, whole, |tag| catalog.tag(tag).heap == heap);
                }
                Seen::Stored(whole) => {
                    let snapshot = self.snapshot_of(whole.accounts().last_time(), whole.accounts().clone());
                    let alone = snapshot.heap_alone(heap).map(|alone| alone.accounts).unwrap_or_default();
                    part = NumberLedger::from_accounts(alone);
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(part.into_accounts())
    }

    /// The totals at the end. For a complete file this reads one block.
    pub fn final_totals(&self) -> io::Result<Totals> {
        let events = self.event_blocks().next_back().map_or(0, |(_, summary)| summary.first_event + summary.events);
        if let Some((at, summary)) = self.keyframes().next_back()
            && summary.events >= events
            && let Some(state) = self.keyframe_figures(at)?
        {
            return Ok(state.totals);
        }
        Ok(*self.accounts_until(Until::End)?.totals())
    }

    /// The state before an entry.
    pub(super) fn state_before(&self, entry: usize) -> io::Result<NumberLedger> {
        for (at, summary) in self.keyframes().rev().filter(|(at, _)| *at <= entry) {
            if let Some((left, mut ledger)) = self.waypoint(entry, summary.events, |_| true) {
                self.replay(&mut ledger, &self.entries()[left..entry.max(left)], |_| ControlFlow::Continue(()))?;
                return Ok(ledger);
            }
            if let Some(mut ledger) = self.keyframe(at)? {
                self.replay(&mut ledger, &self.entries()[at + 1..entry.max(at + 1)], |_| ControlFlow::Continue(()))?;
                return Ok(ledger);
            }
        }
        let (left, mut ledger) = self.waypoint(entry, 0, |_| true).unwrap_or_default();
        self.replay(&mut ledger, &self.entries()[left..entry], |_| ControlFlow::Continue(()))?;
        Ok(ledger)
    }

    /// The state after this number of events.
    pub fn snapshot_after(&self, event: u64) -> Result<Snapshot, RecordingError> {
        let accounts = self.accounts_at_event(event)?;
        Ok(self.snapshot_of(accounts.last_time(), accounts))
    }
}

fn apply(
    steps: &mut Steps<'_>,
    ledger: &mut NumberLedger,
    before: &mut impl FnMut(Seen<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for step in steps {
        before(Seen::Step(ledger, &step))?;
        ledger.replay(&step);
    }
    ControlFlow::Continue(())
}

//! Time travel: the nearest keyframe, then a replay up to the instant.

use super::checkpoints::Checkpoint;
use super::errors::RecordingError;
use super::events::EventsSummary;
use super::events_decoder::{EventsDecoder, Steps};
use super::index::{Content, Entry};
use super::keyframe::{self, KeyframeSummary};
use super::live_blocks;
use super::moment::Moment;
use super::recording::Recording;
use super::walk::WalkItem;
use highwater_model::{
    Accounts, AccountsState, AllocId, Block, Heap, KnownFigures, Nanos, NumberLedger, Snapshot, ThreadId, Totals, When,
};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Selects blocks, in the state that they have, with their threads.
pub type Wanted<'a> = &'a dyn Fn(&Block, ThreadId) -> bool;

/// How far a recording is replayed.
#[derive(Clone, Copy, Debug)]
pub enum ReplayUntil {
    /// To its end.
    End,
    /// After this number of events.
    Event(u64),
    /// After all events up to and including this time.
    Time(Nanos),
}

impl ReplayUntil {
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
    pub(super) fn flow(self, seen: WalkItem<'_>) -> ControlFlow<()> {
        let WalkItem::Step(ledger, step) = seen else { return ControlFlow::Continue(()) };
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
            if let Some((entry, ledger)) = self.checkpoint(usize::MAX, summary.events, &reached) {
                return Ok((ledger, entry));
            }
            if let Some(ledger) = self.keyframe(at)? {
                return Ok((ledger, at + 1));
            }
        }
        Ok(self
            .checkpoint(usize::MAX, 0, &reached)
            .map_or((NumberLedger::default(), 0), |(entry, ledger)| (ledger, entry)))
    }

    /// The latest checkpoint at or before entry `until` that is after more than `events` events.
    fn checkpoint(
        &self,
        until: usize,
        events: u64,
        reached: impl Fn(&KeyframeSummary) -> bool,
    ) -> Option<(usize, NumberLedger)> {
        let is_reached =
            |kept: &Checkpoint| reached(&KeyframeSummary { events: kept.events, time: kept.time, parts: 0 });
        let found = self.checkpoints().latest(until, is_reached);
        let (entry, kept) = found.filter(|(_, kept)| kept.events > events)?;
        Some((entry, NumberLedger::from_accounts(kept.accounts(self.believed())?)))
    }

    /// Keeps a checkpoint after an entry, if it is worth its memory. With damage, a state is only as good as the events before it, so none is kept.
    fn keep_checkpoint(&self, entry: &Entry, ledger: &NumberLedger) -> io::Result<()> {
        let next = self.entries().partition_point(|known| known.offset <= entry.offset);
        let events = ledger.accounts().events();
        let stored = self.keyframes().rev().find(|(at, summary)| *at < next && summary.events <= events);
        let nearest = stored.map_or(0, |(_, summary)| summary.events);
        if self.checkpoints().wants(next, events, nearest) && self.damage().is_empty() {
            let checkpoint = Checkpoint::of(&ledger.accounts().to_state())?;
            self.checkpoints_mut().leave(next, checkpoint);
        }
        Ok(())
    }

    /// Replays the event blocks among `entries`. `before` is called for each block, and for each step before it is applied, and may stop the replay.
    pub(super) fn replay(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        mut before: impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.replay_then(ledger, entries, &mut before, |entry, ledger| self.keep_checkpoint(entry, ledger))
    }

    /// The same with accounts that lack some live blocks: no checkpoints are kept.
    pub(super) fn replay_figures(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        mut before: impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.replay_then(ledger, entries, &mut before, |_, _| Ok(()))
    }

    fn replay_then(
        &self,
        ledger: &mut NumberLedger,
        entries: &[Entry],
        before: &mut impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
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
        before: &mut impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
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
        if before(WalkItem::Block(ledger, &summary)).is_break() {
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
        self.snapshot_at(self.moment(when)?)
    }

    /// The same for an instant that is already known.
    pub fn snapshot_at(&self, moment: Moment) -> Result<Snapshot, RecordingError> {
        self.snapshot_by(moment, |until| self.accounts_until(until))
    }

    /// The state of one heap at an instant, as if there were no other heap.
    ///
    /// Keyframes have no figures by heap, so this replays the recording from its start, and every figure is exact. A snapshot has no events to replay;
    /// [`Snapshot::heap_alone`] uses its blocks.
    pub fn snapshot_of_heap(&self, moment: Moment, heap: Heap) -> Result<Snapshot, RecordingError> {
        if self.source().snapshot {
            return self.snapshot(&When::End)?.heap_alone(heap).ok_or(RecordingError::NoBlocks);
        }
        let catalog = self.catalog();
        let (wanted, alone) =
            (|block: &Block, _| catalog.tag(block.tag).heap == heap, |whole: &Snapshot| whole.heap_alone(heap));
        self.snapshot_by(moment, |until| self.accounts_of_part(until, &wanted, &alone))
    }

    /// The state at an instant of the blocks that `wanted` accepts, as if there were no others. A block that is resized or promoted enters and leaves the
    /// part with its state.
    ///
    /// Replays the recording from its start, and every figure is exact. For a snapshot, the figures are those of its live blocks.
    pub fn snapshot_of_part(&self, moment: Moment, wanted: Wanted<'_>) -> Result<Snapshot, RecordingError> {
        if self.source().snapshot {
            return self.snapshot(&When::End)?.part(wanted).ok_or(RecordingError::NoBlocks);
        }
        self.snapshot_by(moment, |until| self.accounts_of_part(until, wanted, &|whole| whole.part(wanted)))
    }

    /// The state of a snapshot file, if it is the requested one.
    fn only_snapshot(&self, when: &When) -> Result<Snapshot, RecordingError> {
        let at = self.source().duration;
        let is_end = match when {
            When::End => true,
            When::At(time) => *time == at,
            When::Percent(part) => *part >= 100.0,
            When::Start | When::Peak | When::RssPeak | When::Mark(_) | When::Line(_) => false,
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
        let mut source = self.source().clone();
        // Of the states of a profile, only the last one has counters.
        if source.is_states() && accounts.events() < self.states().len() as u64 {
            source.known = source.known.map(|known| KnownFigures { allocated: false, own_peaks: false, ..known });
        }
        Snapshot { source, at, accounts, catalog: Arc::clone(self.catalog()) }
    }

    /// The times of the states, in order, if only states are known and no events ([`highwater_model::Source::is_states`]). The state after `n` events is the `n`th of them.
    pub fn states(&self) -> Vec<Nanos> {
        if !self.source().is_states() {
            return Vec::new();
        }
        self.keyframes().map(|(_, summary)| summary.time).collect()
    }

    /// The instant that is named, if the recording has it.
    pub fn moment(&self, when: &When) -> Result<Moment, RecordingError> {
        let duration = self.source().duration;
        Ok(match when {
            When::Start => Moment::Start,
            When::End => Moment::End,
            When::Peak => {
                let peak = self.final_totals()?;
                if !self.has_event(peak.peak_event) {
                    return Err(RecordingError::PeakOutside { at: peak.peak_at, begins_at: self.begins_at() });
                }
                Moment::Event(peak.peak_event)
            }
            // A log without times uses line numbers as times.
            When::At(_) | When::Line(_) => {
                let time = self.time_of(when)?;
                if time > duration && self.source().is_untimed() {
                    return Err(RecordingError::LineOutside { asked: time.0, last: duration.0 });
                }
                if time > duration {
                    return Err(RecordingError::TimeOutside { asked: time, duration });
                }
                if time < self.begins_at() {
                    return Err(RecordingError::TimeBefore { asked: time, begins_at: self.begins_at() });
                }
                Moment::At(time)
            }
            When::Percent(_) | When::RssPeak => Moment::At(self.time_of(when)?),
            When::Mark(name) => {
                let marks = self.marks()?;
                let Some(mark) = marks.iter().find(|mark| mark.name == *name) else {
                    let mut known: Vec<String> = marks.into_iter().map(|mark| mark.name).collect();
                    known.dedup();
                    return Err(RecordingError::UnknownMark { name: name.clone(), known });
                };
                Moment::Event(mark.event)
            }
        })
    }

    fn snapshot_by(
        &self,
        moment: Moment,
        accounts: impl Fn(ReplayUntil) -> io::Result<Accounts>,
    ) -> Result<Snapshot, RecordingError> {
        let (at, accounts) = match moment {
            Moment::Start => (self.begins_at(), self.first_accounts()?),
            Moment::At(time) => (time, accounts(ReplayUntil::Time(time))?),
            Moment::Event(event) => {
                let accounts = accounts(ReplayUntil::Event(event))?;
                (accounts.last_time(), accounts)
            }
            Moment::End => (self.source().duration, accounts(ReplayUntil::End)?),
        };
        if accounts.events() == 0 && moment == Moment::End && self.stats().events > 0 {
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

    fn accounts_until(&self, until: ReplayUntil) -> io::Result<Accounts> {
        let (mut ledger, first) = self.nearest_state(|keyframe| until.is_behind(keyframe))?;
        self.replay(&mut ledger, &self.entries()[first..], |seen| until.flow(seen))?;
        Ok(ledger.into_accounts())
    }

    pub(crate) fn accounts_at_event(&self, event: u64) -> io::Result<Accounts> {
        self.accounts_until(ReplayUntil::Event(event))
    }

    /// `stored` gives the part of a stored state, from which the replay goes on.
    fn accounts_of_part(
        &self,
        until: ReplayUntil,
        wanted: Wanted<'_>,
        stored: &dyn Fn(&Snapshot) -> Option<Snapshot>,
    ) -> io::Result<Accounts> {
        let mut part = NumberLedger::default();
        self.walk(|seen| {
            match seen {
                WalkItem::Block(..) => {}
                WalkItem::Step(whole, step) => {
                    until.flow(seen)?;
                    // If blocks of the file are missing, the part continues after them like the whole.
                    let lost = whole.accounts().events() - part.accounts().events();
                    if lost > 0 {
                        part.skip_to(whole.accounts().next_id(), lost);
                    }
                    part.replay_part(step, whole, wanted);
                }
                WalkItem::Stored(whole) => {
                    let snapshot = self.snapshot_of(whole.accounts().last_time(), whole.accounts().clone());
                    let alone = stored(&snapshot).map(|alone| alone.accounts).unwrap_or_default();
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
        Ok(*self.accounts_until(ReplayUntil::End)?.totals())
    }

    /// The state before an entry.
    pub(super) fn state_before(&self, entry: usize) -> io::Result<NumberLedger> {
        for (at, summary) in self.keyframes().rev().filter(|(at, _)| *at <= entry) {
            if let Some((left, mut ledger)) = self.checkpoint(entry, summary.events, |_| true) {
                self.replay(&mut ledger, &self.entries()[left..entry.max(left)], |_| ControlFlow::Continue(()))?;
                return Ok(ledger);
            }
            if let Some(mut ledger) = self.keyframe(at)? {
                self.replay(&mut ledger, &self.entries()[at + 1..entry.max(at + 1)], |_| ControlFlow::Continue(()))?;
                return Ok(ledger);
            }
        }
        let (left, mut ledger) = self.checkpoint(entry, 0, |_| true).unwrap_or_default();
        self.replay(&mut ledger, &self.entries()[left..entry], |_| ControlFlow::Continue(()))?;
        Ok(ledger)
    }
}

fn apply(
    steps: &mut Steps<'_>,
    ledger: &mut NumberLedger,
    before: &mut impl FnMut(WalkItem<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for step in steps {
        before(WalkItem::Step(ledger, &step))?;
        ledger.replay(&step);
    }
    ControlFlow::Continue(())
}

//! The index of a recording, built in one scan on all cores, so that no question has to scan the recording again.

use super::bins::Bin;
use super::block_events::{BlockEvent, BlockEventBatch, BlockEvents, Buffers, ColumnSet, Side};
use super::block_facts::{BlockFacts, OwnedBlock};
use super::figure_checkpoints::FigureCheckpoints;
use super::history::HistoryError;
use super::owner_changes::{LiveChange, OwnerChanges, OwnerScan};
use super::parallel;
use super::work::Work;
use crate::{EventsSummary, FigureCheckpoint, Recording, ReplayUntil, WalkItem};
use highwater_model::{Accounts, Figures, Nanos, NumberLedger, Step};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// The number of events of a slice.
const EVENTS: u64 = 8192;

/// The summary of some thousand consecutive events.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The time of its first event.
    pub first: Nanos,
    /// The time of its last event.
    pub last: Nanos,
    /// What happened in it.
    pub bin: Bin,
}

/// The index of a recording: live bytes and blocks in slices of 8192 events, [block events](super::block_events), and figures from which a replay can start.
/// While the scan still runs, it answers for instants whose surroundings are already scanned.
#[derive(Debug)]
pub struct HistoryIndex {
    /// The slices, in order; not set before the scan is complete.
    slices: OnceLock<Vec<Slice>>,
    /// Births and deaths of blocks.
    pub block_events: BlockEvents,
    owner_changes: OwnerChanges,
    figure_checkpoints: FigureCheckpoints,
    /// The summary of each block of events.
    blocks: Vec<EventsSummary>,
}

/// The slices of one segment, as far as it is scanned.
#[derive(Default)]
struct Slicing {
    /// The number of events of a slice.
    length: u64,
    slices: Vec<Slice>,
    before: Figures,
    began: u64,
    is_begun: bool,
    /// The next step begins a new slice.
    is_full: bool,
}

impl Slicing {
    /// Notes the state after a step, which is the state before the next one.
    fn see(&mut self, accounts: &Accounts) {
        if !self.is_begun {
            self.go_on_from(accounts);
            return;
        }
        let (time, figures) = (accounts.last_time(), &accounts.totals().figures);
        if self.slices.is_empty() || self.is_full {
            self.slices.push(Slice { first: time, last: time, bin: Bin::default() });
            // The event that has just happened is the first one of the slice.
            self.began = accounts.events().saturating_sub(1);
            self.is_full = false;
        }
        if let Some(slice) = self.slices.last_mut() {
            slice.last = time;
            slice.bin.see(&self.before, figures);
        }
        self.before = *figures;
    }

    /// Ends a slice before a step, if it is long enough and all events of its last instant are in it: the state at its end is then the state at that instant.
    /// The first slice has the events of the first instant only, so that the state with which a recording begins is known.
    fn ends_before(&mut self, accounts: &Accounts, step: &Step) -> bool {
        let is_long = self.slices.len() == 1 || accounts.events().saturating_sub(self.began) >= self.length;
        self.is_full |= !self.slices.is_empty() && is_long && step.time > accounts.last_time();
        self.is_full
    }

    /// Continues from a state that no step led to.
    fn go_on_from(&mut self, accounts: &Accounts) {
        self.before = accounts.totals().figures;
        self.began = accounts.events();
        self.is_begun = true;
    }
}

/// One segment while it is scanned.
struct SegmentScan<'a> {
    slicing: Slicing,
    index: &'a HistoryIndex,
    /// The index of the current block of events; `events` are its births and deaths.
    block: Option<usize>,
    events: BlockEventBatch,
    owners: OwnerScan<'a>,
    /// The number of events before the last figures that were stored.
    stored_at: Option<u64>,
}

impl SegmentScan<'_> {
    fn begin_block(&mut self, ledger: &NumberLedger, summary: &EventsSummary) -> Result<(), HistoryError> {
        self.end_block()?;
        let HistoryIndex { blocks, figure_checkpoints, .. } = self.index;
        self.block = blocks.binary_search_by_key(&summary.first_event, |block| block.first_event).ok();
        if let Some(block) = self.block
            && figure_checkpoints.wants(blocks, block)
            && self.is_worth_storing(ledger.accounts())
        {
            figure_checkpoints.put(blocks, block, FigureCheckpoint::of(ledger.accounts())?);
            self.stored_at = Some(ledger.accounts().events());
        }
        Ok(())
    }

    /// Storing and reading figures takes time for each site, a replay takes time for each event: figures that spare the replay of few events are not worth it.
    fn is_worth_storing(&self, accounts: &Accounts) -> bool {
        let spared = |stored: u64| accounts.events().saturating_sub(stored);
        self.stored_at.is_none_or(|stored| spared(stored) * 2 >= accounts.sites().len() as u64)
    }

    fn step(&mut self, ledger: &NumberLedger, step: &Step) -> Result<(), HistoryError> {
        self.slicing.see(ledger.accounts());
        if self.slicing.ends_before(ledger.accounts(), step) {
            self.owners.end_list()?;
        }
        let died = BlockEvent::death(ledger, step);
        let born = BlockEvent::birth(step, died.as_ref(), ledger.accounts().next_id());
        self.owners.step(step.time, died.as_ref(), born.as_ref());
        died.into_iter().for_each(|died| self.events.add_death(died));
        born.into_iter().for_each(|born| self.events.add_birth(born));
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), HistoryError> {
        match self.block.take() {
            Some(block) => self.index.block_events.write(block, &mut self.events),
            None => Ok(()),
        }
    }
}

impl HistoryIndex {
    /// An empty index of a recording.
    pub fn new(recording: &Recording, most_bytes: usize) -> Result<Self, HistoryError> {
        let blocks: Vec<EventsSummary> = recording.summaries().copied().collect();
        let events = recording.stats().events;
        let (block_events, figure_checkpoints) =
            (BlockEvents::new(events, blocks.len())?, FigureCheckpoints::new(events, most_bytes));
        let owner_changes = OwnerChanges::default();
        Ok(Self { slices: OnceLock::new(), block_events, owner_changes, figure_checkpoints, blocks })
    }

    /// Scans a whole recording. The parts of the index that are done can be used meanwhile.
    pub fn build(&self, recording: &Recording, work: &Work<'_>) -> Result<(), HistoryError> {
        let begin = || SegmentScan {
            slicing: Slicing { length: EVENTS, ..Slicing::default() },
            index: self,
            block: None,
            events: BlockEventBatch::default(),
            owners: OwnerScan::new(&self.owner_changes, &self.block_events.tape),
            stored_at: None,
        };
        let parts = parallel::walk(
            recording,
            work,
            begin,
            |scan, item| {
                match item {
                    WalkItem::Block(ledger, summary) => scan.begin_block(ledger, summary)?,
                    WalkItem::Step(ledger, step) => scan.step(ledger, step)?,
                    WalkItem::Stored(ledger) => {
                        scan.slicing.go_on_from(ledger.accounts());
                        scan.owners.go_on_from(ledger.accounts())?;
                    }
                }
                Ok(())
            },
            |scan, accounts| {
                scan.slicing.see(accounts);
                scan.owners.end(accounts)?;
                scan.end_block()
            },
        )?;
        let (slices, owners): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|part| (part.slicing.slices, part.owners.into_lists())).unzip();
        let slices = joined(slices.into_iter().flatten());
        self.owner_changes.complete(owners);
        // If another thread has set the slices already, they are the same.
        let _ = self.slices.set(slices);
        Ok(())
    }

    /// Slices of `length` events each, without an index: one scan on all cores that keeps nothing else.
    pub fn slices_of(recording: &Recording, length: u64, work: &Work<'_>) -> Result<Vec<Slice>, HistoryError> {
        let parts = parallel::walk(
            recording,
            work,
            || Slicing { length, ..Slicing::default() },
            |slicing, item| {
                match item {
                    WalkItem::Block(..) => {}
                    WalkItem::Step(ledger, step) => {
                        slicing.see(ledger.accounts());
                        slicing.ends_before(ledger.accounts(), step);
                    }
                    WalkItem::Stored(ledger) => slicing.go_on_from(ledger.accounts()),
                }
                Ok(())
            },
            |slicing, accounts| {
                slicing.see(accounts);
                Ok(())
            },
        )?;
        Ok(joined(parts.into_iter().flat_map(|part| part.slices)))
    }

    /// The memory of its figure checkpoints and of its lists of owners, in bytes.
    pub fn bytes(&self) -> usize {
        self.figure_checkpoints.bytes() + self.owner_changes.bytes()
    }

    /// Passes the first lists of changes to `see`, as many as the second number says, from the last state at or before the first number; `enter` is called before each list.
    /// Each segment has a `T` of its own.
    pub fn each_owner_change<T: Send>(
        &self,
        lists: (usize, usize),
        work: &Work<'_>,
        begin: impl Fn() -> T + Sync,
        enter: impl Fn(&mut T, usize) + Sync,
        see: impl Fn(&mut T, u32, LiveChange) + Sync,
    ) -> Result<Vec<T>, HistoryError> {
        self.owner_changes.each(&self.block_events.tape, lists, work, begin, enter, see)
    }

    /// What each owner gained and lost in each slice; `None` before the scan is complete, or if there are too many owners.
    pub fn owner_changes(&self) -> Option<&OwnerChanges> {
        self.owner_changes.owners().map(|_| &self.owner_changes)
    }

    /// The slices, in order; empty before the scan is complete.
    pub fn slices(&self) -> &[Slice] {
        self.slices.get().map_or(&[], Vec::as_slice)
    }

    /// The accounts of an instant without their blocks; `None` if the index does not cover the instant.
    pub fn figures_at(&self, recording: &Recording, until: ReplayUntil) -> Result<Option<Accounts>, HistoryError> {
        let reached = |events: u64, time: Nanos| match until {
            ReplayUntil::End => true,
            ReplayUntil::Event(event) => events <= event,
            ReplayUntil::Time(at) => time <= at,
        };
        // The block of events that the instant lies in.
        let last = self.blocks.partition_point(|block| match until {
            ReplayUntil::End => true,
            ReplayUntil::Event(event) => block.first_event < event,
            ReplayUntil::Time(at) => block.first_time <= at,
        });
        let Some((first, ledger)) = self.resume(recording, last.saturating_sub(1), reached)? else { return Ok(None) };
        Ok(Some(recording.go_on(ledger, first, until)?.into_accounts().figures_alone()))
    }

    /// The accounts before a block of events, without live blocks that do not die in it; `None` if the index does not cover that block.
    pub fn figures_before(&self, recording: &Recording, block: usize) -> Result<Option<NumberLedger>, HistoryError> {
        let Some(first_event) = self.blocks.get(block).map(|block| block.first_event) else { return Ok(None) };
        let Some((first, ledger)) = self.resume(recording, block, |events, _| events <= first_event)? else {
            return Ok(None);
        };
        Ok(Some(recording.go_on(ledger, first, ReplayUntil::Event(first_event))?))
    }

    /// The latest stored figures at or before block `last` that `reached` accepts, with all blocks that die from there up to and including `last`; and
    /// the block of events at which the replay continues.
    fn resume(
        &self,
        recording: &Recording,
        last: usize,
        reached: impl Fn(u64, Nanos) -> bool,
    ) -> Result<Option<(usize, NumberLedger)>, HistoryError> {
        let Some((first, checkpoint)) =
            self.figure_checkpoints.latest(last, reached).filter(|_| self.block_events.has(last))
        else {
            return Ok(None);
        };
        let mut dying: FxHashMap<u64, OwnedBlock> = FxHashMap::default();
        let mut buffers = Buffers::default();
        for block in first..=last {
            let read = self.block_events.of_block(block, (Side::Deaths, ColumnSet::All), &mut buffers, |row| {
                // A block may leave more than one state. The first has its state at the start.
                if row.id() < checkpoint.next_id {
                    dying.entry(row.id().0).or_insert_with(|| row.owned());
                }
            })?;
            if read.is_none() {
                return Ok(None);
            }
        }
        let mut dying: Vec<OwnedBlock> = dying.into_values().collect();
        dying.sort_unstable_by_key(|owned| owned.block.id);
        let owned = dying.iter().map(|owned| (owned.block, owned.thread));
        Ok(recording.resume(&checkpoint, owned).map(|ledger| (first, ledger)))
    }
}

/// The slices of all segments, in order. Two segments may meet at an instant with events in both; their slices there become one.
fn joined(all: impl Iterator<Item = Slice>) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::new();
    for slice in all {
        match slices.last_mut().filter(|before| before.last >= slice.first) {
            Some(before) => {
                before.last = slice.last.max(before.last);
                before.bin.then(&slice.bin);
            }
            None => slices.push(slice),
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Moment, Spacing, Writer};
    use highwater_model::{Catalog, Event, EventKind, FrameText, Placement, Source, ThreadId};

    /// A recording of blocks that come and go at 60 addresses, with a keyframe after `every` events and event blocks of `flush` events.
    fn recording(events: u64, every: u64, flush: usize) -> Recording {
        let mut catalog = Catalog::default();
        let frame = |function| FrameText { function, ..FrameText::default() };
        let stacks = ["bake", "chop", "cook"].map(|function| catalog.intern_stack(&[frame(function), frame("main")]));
        let event = |number: u64| {
            let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
            let address = 0x7f00_0000_0000 + random % 60 * 48;
            let place = Placement {
                address,
                size: 24 + random % 500,
                stack: stacks[random as usize % 3],
                ..Placement::default()
            };
            let kind = match random % 5 {
                0 | 1 => EventKind::free(address, None),
                2 => EventKind::Reallocate { old_address: address, claimed_old_size: None, new: place },
                _ => EventKind::Allocate(place),
            };
            Event { time: Nanos(number * 50), thread: ThreadId(1 + random % 3), kind }
        };
        written(&catalog, &(0..events).map(event).collect::<Vec<_>>(), (every, flush))
    }

    fn written(catalog: &Catalog, events: &[Event], (every, flush): (u64, usize)) -> Recording {
        let mut writer = Writer::new(Vec::new(), &Source::default()).unwrap();
        writer.set_spacing(Spacing::every(every));
        for part in events.chunks(flush) {
            writer.append(part, catalog).unwrap();
            writer.flush(catalog).unwrap();
        }
        Recording::from_bytes(writer.finish(catalog, &Source::default()).unwrap().1).unwrap()
    }

    #[test]
    fn indexed_parts_answer_before_the_scan_ends() {
        let recording = recording(300_000, 30_000, 5_000);
        let index = HistoryIndex::new(&recording, 64 << 20).unwrap();
        // The first check of progress reports that no client waits.
        let mut nobody = |_: Option<(f64, &str)>| false;
        let given_up = index.build(&recording, &Work::asked_by(&mut nobody));
        assert!(matches!(given_up.unwrap_err(), HistoryError::Cancelled));
        assert!(index.slices().is_empty());
        let (mut known, mut unknown) = (0, 0);
        for event in (1..recording.stats().events).step_by(2_503) {
            let expected = recording.snapshot_at(Moment::Event(event)).unwrap().accounts.figures_alone().to_state();
            match index.figures_at(&recording, ReplayUntil::Event(event)).unwrap() {
                Some(found) => {
                    assert_eq!(found.to_state(), expected, "event {event}");
                    known += 1;
                }
                None => unknown += 1,
            }
        }
        assert!(known > 10 && unknown > 10, "{known} {unknown}");
    }

    #[test]
    fn figures_of_many_sites_are_stored_less_often_and_give_the_same_instants() {
        let mut catalog = Catalog::default();
        let names: Vec<String> = (0..6000).map(|number| format!("site {number}")).collect();
        let stacks: Vec<_> = names
            .iter()
            .map(|function| catalog.intern_stack(&[FrameText { function, ..FrameText::default() }]))
            .collect();
        let events: Vec<Event> = (0u64..)
            .zip(&stacks)
            .map(|(number, stack)| {
                let place = Placement { address: (1 + number) * 64, size: 10, stack: *stack, ..Placement::default() };
                Event { time: Nanos(number), thread: ThreadId(1), kind: EventKind::Allocate(place) }
            })
            .collect();
        let recording = written(&catalog, &events, (1 << 20, 50));
        let index = HistoryIndex::new(&recording, 64 << 20).unwrap();
        index.build(&recording, &Work::quiet()).unwrap();
        let blocks = recording.summaries().count();
        let is_stored =
            |block: &usize| index.figure_checkpoints.latest(*block, |_, _| true).is_some_and(|at| at.0 == *block);
        let stored = (0..blocks).filter(is_stored).count();
        assert!((2..=20).contains(&stored) && blocks > 100, "{stored} of {blocks}");
        for event in (1..6000).step_by(331) {
            let expected = recording.snapshot_at(Moment::Event(event)).unwrap().accounts.figures_alone().to_state();
            let found = index.figures_at(&recording, ReplayUntil::Event(event)).unwrap().unwrap();
            assert_eq!(found.to_state(), expected, "event {event}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_ends_the_scan() {
        let recording = recording(20_000, 100_000, 1_000);
        let blocks = recording.summaries().count();
        let index = HistoryIndex {
            block_events: BlockEvents::on_a_full_disk(blocks),
            ..HistoryIndex::new(&recording, 64 << 20).unwrap()
        };
        let line = index.build(&recording, &Work::quiet()).unwrap_err().to_string();
        assert!(line.starts_with("cannot write a temporary file: ") && line.contains("TMPDIR"), "{line}");
        // The scan ended with the first block of events, not only after the last.
        assert!(index.figure_checkpoints.latest(blocks, |_, _| true).is_some_and(|(block, _)| block <= 1));
    }
}

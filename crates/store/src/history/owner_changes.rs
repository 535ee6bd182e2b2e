//! What each owner of blocks gained and lost, slice by slice: live memory over time of every stack, tag and thread, without looking at single blocks.
//!
//! # Design
//!
//! * *An owner is a stack, a tag and a thread together*, so one list answers for every grouping, and for filters on any of the three.
//! * *A list has the owners whose live memory differs* before and after a slice. Memory that comes and goes within a slice is in no list, so the lists are
//!   shorter than the block events: 0.2 bytes for each event of a busy service, on the same tape.
//! * *Each segment begins with a whole state*, so cores can add up segments independently, and a gap in a damaged file does no harm to what follows it.

use super::block_events::{BlockEvent, Packed, Packing, Tape, pack};
use super::block_facts::{BlockFacts, OwnedBlock, Owners};
use super::history::HistoryError;
use super::parallel;
use super::work::Work;
use highwater_model::{Accounts, ByteSum, Nanos, ThreadId};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The most owners of one recording: some 40 MiB. Of a recording with more, no lists are kept.
const MOST_OWNERS: usize = 1 << 20;

/// Live memory, or a change of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveChange {
    /// Bytes, in the units of [`ByteSum`].
    pub units: i128,
    /// Blocks.
    pub blocks: i64,
}

impl LiveChange {
    /// The gain of a block's birth.
    pub fn of((bytes, blocks): (ByteSum, u64)) -> Self {
        Self { units: bytes.units().cast_signed(), blocks: blocks.cast_signed() }
    }

    /// The opposite.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { units: -self.units, blocks: self.blocks.wrapping_neg() }
    }

    /// Adds another change.
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.units += other.units;
        self.blocks = self.blocks.wrapping_add(other.blocks);
    }

    /// The bytes; zero where there are fewer.
    pub fn bytes(self) -> ByteSum {
        ByteSum::from_units(u128::try_from(self.units).unwrap_or(0))
    }
}

/// The lists of a recording. Several threads write them.
#[derive(Debug, Default)]
pub struct OwnerChanges {
    owners: Mutex<OwnerNumbers>,
    has_too_many: AtomicBool,
    /// Not set before the scan is complete, or if there are too many owners.
    complete: OnceLock<CompleteChanges>,
}

#[derive(Debug, Default)]
struct OwnerNumbers {
    all: Vec<Owners>,
    numbers: FxHashMap<Owners, u32>,
}

#[derive(Debug)]
struct CompleteChanges {
    owners: Vec<Owners>,
    lists: Vec<ChangeList>,
    /// The lists of each segment; the first of them is a state.
    segments: Vec<Range<usize>>,
}

/// The changes of one slice, or the state that a segment begins with.
#[derive(Clone, Copy, Debug)]
pub struct ChangeList {
    /// The time of the last event.
    pub last: Nanos,
    /// True for a state: it replaces everything before it.
    pub is_state: bool,
    /// True for a state that the events before it did not lead to: some were lost.
    pub is_jump: bool,
    at: u64,
    length: usize,
    count: usize,
    columns: [Packing; 4],
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

const FRACTION_BITS: u32 = 32;

impl ChangeList {
    fn write(
        (last, is_state): (Nanos, bool),
        entries: &[(u32, LiveChange)],
        buffer: &mut Vec<u8>,
        tape: &Tape,
    ) -> Result<Self, HistoryError> {
        buffer.clear();
        let whole = |change: &LiveChange| zigzag((change.units >> FRACTION_BITS) as i64);
        let columns = [
            pack(entries.iter().map(|(owner, _)| u64::from(*owner)), buffer),
            pack(entries.iter().map(|(_, change)| whole(change)), buffer),
            pack(entries.iter().map(|(_, change)| u64::from(change.units as u32)), buffer),
            pack(entries.iter().map(|(_, change)| zigzag(change.blocks)), buffer),
        ];
        let at = tape.append(buffer)?;
        Ok(Self { last, is_state, is_jump: false, at, length: buffer.len(), count: entries.len(), columns })
    }

    fn each(&self, tape: &Tape, buffer: &mut Vec<u8>, mut see: impl FnMut(u32, LiveChange)) -> io::Result<()> {
        let bytes = tape.read(self.at, self.length, buffer)?;
        let [owner, whole, fraction, blocks] = self.columns.map(|packing| Packed::new(packing, bytes));
        for at in 0..self.count {
            let units = (i128::from(unzigzag(whole.get(at))) << FRACTION_BITS) + i128::from(fraction.get(at));
            see(owner.get(at) as u32, LiveChange { units, blocks: unzigzag(blocks.get(at)) });
        }
        Ok(())
    }
}

/// The lists of one segment, while it is scanned.
pub struct OwnerScan<'a> {
    changes: &'a OwnerChanges,
    tape: &'a Tape,
    /// The owners that this segment met, in the order in which it met them; the numbers that all segments share are found when a list is written.
    met: FxHashMap<Owners, u32>,
    sums: Vec<(Owners, Option<u32>, LiveChange)>,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    lists: Vec<ChangeList>,
    /// The time of the last step.
    last: Nanos,
    /// The live memory when the lists ended, and that of the state with which they began.
    begins_with: (ByteSum, u64),
    ends_with: (ByteSum, u64),
    buffer: Vec<u8>,
    entries: Vec<(u32, LiveChange)>,
}

impl<'a> OwnerScan<'a> {
    pub fn new(changes: &'a OwnerChanges, tape: &'a Tape) -> Self {
        Self {
            changes,
            tape,
            met: FxHashMap::default(),
            sums: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            lists: Vec::new(),
            last: Nanos(0),
            begins_with: Default::default(),
            ends_with: Default::default(),
            buffer: Vec::new(),
            entries: Vec::new(),
        }
    }

    #[inline]
    fn add(&mut self, owners: Owners, change: LiveChange) {
        let next = self.sums.len() as u32;
        let number = *self.met.entry(owners).or_insert(next);
        if number == next {
            self.sums.push((owners, None, LiveChange::default()));
            self.is_touched.push(false);
        }
        let at = number as usize;
        self.sums[at].2.add(change);
        if !self.is_touched[at] {
            self.is_touched[at] = true;
            self.touched.push(number);
        }
    }

    /// Counts a step.
    #[inline]
    pub fn step(&mut self, time: Nanos, died: Option<&BlockEvent>, born: Option<&BlockEvent>) {
        self.last = time;
        if let Some(died) = died {
            self.add(died.owned.owners(), LiveChange::of(died.owned.amount()).negated());
        }
        if let Some(born) = born {
            self.add(born.owned.owners(), LiveChange::of(born.owned.amount()));
        }
    }

    /// Continues from a state that no step led to.
    pub fn go_on_from(&mut self, accounts: &Accounts) -> Result<(), HistoryError> {
        if self.changes.has_too_many.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.end_list()?;
        let threads = accounts.threads();
        for block in accounts.blocks() {
            let thread = threads.get(block.thread as usize).map_or(ThreadId(0), |thread| thread.id);
            let owned = OwnedBlock { block, thread };
            self.add(owned.owners(), LiveChange::of(owned.amount()));
        }
        let is_jump = !self.lists.is_empty();
        if !is_jump {
            self.begins_with = live(accounts);
        }
        self.last = accounts.last_time();
        self.write((self.last, true))?;
        self.lists.last_mut().into_iter().for_each(|state| state.is_jump = is_jump);
        Ok(())
    }

    /// Ends a slice with the last step.
    pub fn end_list(&mut self) -> Result<(), HistoryError> {
        if self.changes.has_too_many.load(Ordering::Relaxed) {
            self.touched.clear();
            return Ok(());
        }
        if self.lists.is_empty() {
            if self.touched.is_empty() {
                return Ok(());
            }
            // The recording begins with nothing.
            self.lists.push(ChangeList::write((Nanos(0), true), &[], &mut self.buffer, self.tape)?);
        }
        self.write((self.last, false))
    }

    fn write(&mut self, head: (Nanos, bool)) -> Result<(), HistoryError> {
        let Self { changes, sums, touched, is_touched, entries, .. } = self;
        entries.clear();
        for number in touched.drain(..) {
            let at = number as usize;
            is_touched[at] = false;
            let (owners, shared, sum) = &mut sums[at];
            let change = std::mem::take(sum);
            if change == LiveChange::default() {
                continue;
            }
            let Some(shared) = shared.or_else(|| changes.number(*owners)) else { break };
            sums[at].1 = Some(shared);
            entries.push((shared, change));
        }
        let list = ChangeList::write(head, &self.entries, &mut self.buffer, self.tape)?;
        self.lists.push(list);
        Ok(())
    }

    /// Ends the last slice, with the state after it.
    pub fn end(&mut self, accounts: &Accounts) -> Result<(), HistoryError> {
        self.ends_with = live(accounts);
        self.end_list()
    }

    /// The lists, with the live memory before and after them.
    pub fn into_lists(self) -> SegmentLists {
        SegmentLists { lists: self.lists, begins_with: self.begins_with, ends_with: self.ends_with }
    }
}

fn live(accounts: &Accounts) -> (ByteSum, u64) {
    let figures = &accounts.totals().figures;
    (figures.live(), figures.live_blocks())
}

/// The lists of one segment.
pub struct SegmentLists {
    lists: Vec<ChangeList>,
    begins_with: (ByteSum, u64),
    ends_with: (ByteSum, u64),
}

impl OwnerChanges {
    /// The number of an owner; `None` if there are too many.
    fn number(&self, owners: Owners) -> Option<u32> {
        let mut known = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.numbers.get(&owners) {
            return Some(*number);
        }
        if known.all.len() >= MOST_OWNERS {
            self.has_too_many.store(true, Ordering::Relaxed);
            *known = OwnerNumbers::default();
        }
        if self.has_too_many.load(Ordering::Relaxed) {
            return None;
        }
        let number = known.all.len() as u32;
        known.all.push(owners);
        known.numbers.insert(owners, number);
        Some(number)
    }

    /// Sets the lists of all segments, in order.
    pub fn complete(&self, parts: Vec<SegmentLists>) {
        if self.has_too_many.load(Ordering::Relaxed) {
            return;
        }
        let OwnerNumbers { all: owners, .. } =
            std::mem::take(&mut *self.owners.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut lists, mut segments) = (Vec::new(), Vec::new());
        let mut before: Option<(ByteSum, u64)> = None;
        for part in parts.into_iter().filter(|part| !part.lists.is_empty()) {
            let first = lists.len();
            lists.extend(part.lists);
            let is_jump = before.is_some_and(|before| before != part.begins_with);
            lists[first].is_jump = is_jump;
            before = Some(part.ends_with);
            segments.push(first..lists.len());
        }
        // If another thread has set them already, they are the same.
        let _ = self.complete.set(CompleteChanges { owners, lists, segments });
    }

    /// All owners, by their numbers; `None` if there are no lists.
    pub fn owners(&self) -> Option<&[Owners]> {
        self.complete.get().map(|complete| complete.owners.as_slice())
    }

    /// The memory that the lists take besides the tape, in bytes.
    pub fn bytes(&self) -> usize {
        let Some(complete) = self.complete.get() else { return 0 };
        complete.owners.len() * size_of::<Owners>() + complete.lists.len() * size_of::<ChangeList>()
    }

    /// All lists, in time order.
    pub fn lists(&self) -> &[ChangeList] {
        self.complete.get().map_or(&[], |complete| complete.lists.as_slice())
    }

    /// Passes the first `count` lists to `see`, from the last state at or before list `first`; `enter` is called before each list. Each segment has a `T` of its own, made by `begin`. The values are
    /// returned in order.
    pub(super) fn each<T: Send>(
        &self,
        tape: &Tape,
        (first, count): (usize, usize),
        work: &Work<'_>,
        begin: impl Fn() -> T + Sync,
        enter: impl Fn(&mut T, usize) + Sync,
        see: impl Fn(&mut T, u32, LiveChange) + Sync,
    ) -> Result<Vec<T>, HistoryError> {
        let Some(CompleteChanges { lists, segments, .. }) = self.complete.get() else { return Ok(Vec::new()) };
        let wanted = segments.iter().filter(|segment| segment.start < count && segment.end > first);
        let mut runs: Vec<Range<usize>> = wanted.map(|segment| segment.start..segment.end.min(count)).collect();
        if let Some(run) = runs.first_mut() {
            // After lost events there are states within a segment, too.
            run.start = (run.start..=first.min(run.end - 1)).rev().find(|at| lists[*at].is_state).unwrap_or(run.start);
        }
        parallel::each_part(
            &runs,
            |run| lists[run.clone()].iter().map(|list| list.count as u64).sum(),
            work,
            |run, steps| {
                let (mut own, mut buffer) = (begin(), Vec::new());
                for at in run.clone() {
                    enter(&mut own, at);
                    lists[at].each(tape, &mut buffer, |owner, change| see(&mut own, owner, change))?;
                    steps(lists[at].count as u64)?;
                }
                Ok(own)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_every_size_come_back() {
        let tape = Tape::new(true).unwrap();
        let (mut buffer, mut other) = (Vec::new(), Vec::new());
        let change = |units: i128, blocks: i64| LiveChange { units, blocks };
        let entries = [
            (7, change(1 << 32, 1)),
            (0, change(-(5 << 32), -1)),
            (900_000, change((1 << 90) + 12_345, i64::MAX)),
            (3, change(-(1 << 60) - 1, i64::MIN)),
            (4, change(-1, 0)),
        ];
        for count in 0..=entries.len() {
            let list = ChangeList::write((Nanos(5), false), &entries[..count], &mut buffer, &tape).unwrap();
            let mut found = Vec::new();
            list.each(&tape, &mut other, |owner, change| found.push((owner, change))).unwrap();
            assert_eq!(found, entries[..count]);
        }
    }
}

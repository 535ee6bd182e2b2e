//! The blocks that lay at an address before and after another one.
//!
//! Each state of a block ends with a row of the index: a death, or the old state of a resize. A row has the address, the size and the time of the block's
//! birth. So one pass over the rows finds the last state that ended before a time, and candidates for the first that began after another. When a candidate
//! began to lie there, its earlier rows say: a second pass.

use crate::error::QueryError;
use crate::lives::blocks_of;
use highwater_model::{AllocId, Catalog, Heap, Nanos, Snapshot};
use highwater_store::Recording;
use highwater_store::history::{
    BlockEventRow, BlockFacts, Cause, ColumnSet, History, Moment, OwnedBlock, Side, Work, block_events,
};
use rustc_hash::FxHashMap;

/// The most candidates for the next block that are looked at closely.
const MOST_CANDIDATES: usize = 256;

/// A range of addresses. Mappings and the blocks that an allocator places in them overlap, so each range names its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Its first byte.
    pub start: u64,
    /// The number of bytes; at least one.
    pub length: u64,
    /// It is about mappings; otherwise about blocks.
    pub is_mapping: bool,
}

impl AddressRange {
    /// The range of a block.
    pub fn of(catalog: &Catalog, owned: &OwnedBlock) -> Self {
        let heap = catalog.tag(owned.block.tag).heap;
        Self {
            start: heap.true_address(owned.block.address),
            length: owned.block.size.max(1),
            is_mapping: heap == Heap::Mapped,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let is_before = |a: &Self, b: &Self| b.start.checked_sub(a.start).is_some_and(|distance| distance >= a.length);
        self.is_mapping == other.is_mapping && !is_before(self, other) && !is_before(other, self)
    }

    /// Whether a row could overlap: decided by two columns, where the heap is not known yet. The address of a mapping is one too high.
    fn may_hold(&self, row: &BlockEventRow<'_>) -> bool {
        let (address, size) = (row.address(), row.size().max(1));
        address <= self.start.saturating_add(self.length) && address.saturating_add(size) > self.start
    }
}

/// A block at an address: in the state in which it lay there.
#[derive(Clone, Copy, Debug)]
pub struct Occupant {
    /// The block.
    pub owned: OwnedBlock,
    /// Since when it lay there.
    pub since: Nanos,
    /// When it left, and why; `None` if it never did.
    pub until: Option<(Nanos, Cause)>,
}

impl Occupant {
    fn id(&self) -> AllocId {
        self.owned.block.id
    }

    fn end(&self) -> Nanos {
        self.until.map_or(Nanos(u64::MAX), |(at, _)| at)
    }
}

/// The block that is asked about: its neighbours in time do not include it. Of two events at one time, the one of the smaller number came first.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Where it lay first, and since when; `None` if the one before is not wanted.
    pub first: Option<(AddressRange, Nanos)>,
    /// Where it lay last, and until when; `None` if the one after is not wanted.
    pub last: Option<(AddressRange, Nanos)>,
    /// Its number.
    pub id: Option<AllocId>,
}

/// The last block before and the first one after.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours {
    /// The one that left last.
    pub before: Option<Occupant>,
    /// The one that came first.
    pub after: Option<Occupant>,
}

/// What one part of the work found.
#[derive(Default)]
struct Candidates {
    before: Option<Occupant>,
    /// Born after the time, the earliest births first.
    born_later: Vec<Occupant>,
    /// Born before it, and perhaps moved here later; the earliest ends first.
    moved_here: Vec<Occupant>,
}

impl Candidates {
    fn see(&mut self, around: &Around, catalog: &Catalog, one: Occupant) {
        let range = AddressRange::of(catalog, &one.owned);
        if Some(one.id()) == around.id {
            return;
        }
        let is_at = |place: &AddressRange| place.overlaps(&range);
        if let Some((place, since)) = around.first
            && is_at(&place)
            && (one.end() < since || one.end() == since && around.id.is_none_or(|id| one.id() < id))
            && self.before.is_none_or(|best| (best.end(), best.id()) < (one.end(), one.id()))
        {
            self.before = Some(one);
        }
        if let Some((place, until)) = around.last
            && is_at(&place)
            && (one.end() > until || one.end() == until && around.id.is_none_or(|id| one.id() > id))
        {
            let birth = one.owned.block.time;
            match birth >= until {
                true => keep_first(&mut self.born_later, one, |one| (one.owned.block.time, one.id())),
                false => keep_first(&mut self.moved_here, one, |one| (one.end(), one.id())),
            }
        }
    }

    fn add(&mut self, other: Self) {
        if let Some(before) = other.before
            && self.before.is_none_or(|best| (best.end(), best.id()) < (before.end(), before.id()))
        {
            self.before = Some(before);
        }
        other.born_later.into_iter().for_each(|one| {
            keep_first(&mut self.born_later, one, |one| (one.owned.block.time, one.id()));
        });
        other.moved_here.into_iter().for_each(|one| keep_first(&mut self.moved_here, one, |one| (one.end(), one.id())));
    }
}

/// Keeps the candidates with the smallest keys.
fn keep_first(kept: &mut Vec<Occupant>, one: Occupant, key: impl Fn(&Occupant) -> (Nanos, AllocId)) {
    let at = kept.partition_point(|other| key(other) <= key(&one));
    if at < MOST_CANDIDATES {
        kept.insert(at, one);
        kept.truncate(MOST_CANDIDATES);
    }
}

/// The last block before and the first one after, at the places and times of `around`.
pub fn neighbours(
    history: &History,
    recording: &Recording,
    around: &Around,
    work: &Work<'_>,
) -> Result<Neighbours, QueryError> {
    let (index, catalog) = (history.index(recording, work)?, history.catalog());
    let places: Vec<AddressRange> = [around.first, around.last].into_iter().flatten().map(|(place, _)| place).collect();
    let parts = block_events(
        (recording, &index.block_events),
        (Nanos(0), Nanos(u64::MAX)),
        (Side::Deaths, ColumnSet::All),
        work,
        |_| Candidates::default(),
        |found: &mut Candidates, row| {
            if places.iter().any(|place| place.may_hold(&row)) {
                let owned = row.owned();
                let one = Occupant { owned, since: owned.block.time, until: Some((row.at(), row.cause())) };
                found.see(around, catalog, one);
            }
        },
    )?;
    let mut found = Candidates::default();
    parts.into_iter().for_each(|part| found.add(part));
    if around.last.is_some() {
        for owned in blocks_of(&*history.snapshot(Moment::End)?) {
            found.see(around, catalog, Occupant { owned, since: owned.block.time, until: None });
        }
    }
    let mut after: Vec<Occupant> = found.born_later.into_iter().chain(found.moved_here).collect();
    let mut before: Vec<Occupant> = found.before.into_iter().collect();
    find_beginnings((history, recording), &mut before, &mut after, work)?;
    let is_later = |one: &Occupant| around.last.is_some_and(|(_, until)| one.since >= until);
    let after = after.into_iter().filter(is_later).min_by_key(|one| (one.since, one.id()));
    Ok(Neighbours { before: before.pop(), after })
}

/// Corrects the times since which blocks lie where they do: a block that was resized has its state since then.
fn find_beginnings(
    (history, recording): (&History, &Recording),
    before: &mut [Occupant],
    after: &mut [Occupant],
    work: &Work<'_>,
) -> Result<(), QueryError> {
    let all = || before.iter().chain(after.iter());
    let Some(from) = all().map(|one| one.owned.block.time).min() else { return Ok(()) };
    let to = all().map(Occupant::end).max().unwrap_or(from);
    let mut resized: FxHashMap<AllocId, Vec<Nanos>> = all().map(|one| (one.id(), Vec::new())).collect();
    let index = history.index(recording, work)?;
    let parts = block_events(
        (recording, &index.block_events),
        (from, to),
        (Side::Deaths, ColumnSet::Figures),
        work,
        |_| Vec::new(),
        |found: &mut Vec<(AllocId, Nanos)>, row| {
            if !row.cause().is_death() && resized.contains_key(&row.id()) {
                found.push((row.id(), row.at()));
            }
        },
    )?;
    for (id, at) in parts.into_iter().flatten() {
        resized.entry(id).or_default().push(at);
    }
    for one in before.iter_mut().chain(after) {
        let times = resized.get(&one.id()).into_iter().flatten();
        let end = one.end();
        one.since = times.copied().filter(|at| *at < end).max().unwrap_or(one.since).max(one.since);
    }
    Ok(())
}

/// How a block that is named by an address and a time was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundWhen {
    /// It lay there at that time.
    Then,
    /// It was the last one before.
    Before,
    /// There was none before; it was the first one after.
    After,
}

/// The block that lay at an address at a time, or the last one before, or the first one after. A block is preferred to the mapping that it lies in.
pub fn at_address(
    history: &History,
    recording: &Recording,
    (address, at): (u64, Nanos),
    work: &Work<'_>,
) -> Result<Option<(AllocId, FoundWhen)>, QueryError> {
    if let Some(id) = lying_at(&*history.snapshot(history.moment_at(at))?, address) {
        return Ok(Some((id, FoundWhen::Then)));
    }
    let mut found = Vec::new();
    for is_mapping in [false, true] {
        let place = AddressRange { start: address, length: 1, is_mapping };
        let around = Around { first: Some((place, at)), last: Some((place, at)), id: None };
        found.push(neighbours(history, recording, &around, work)?);
    }
    let before = found.iter().filter_map(|found| found.before).max_by_key(Occupant::end);
    let after = || found.iter().filter_map(|found| found.after).min_by_key(|one| one.since);
    let named = |one: Option<Occupant>, when| one.map(|one| (one.id(), when));
    Ok(named(before, FoundWhen::Before).or_else(|| named(after(), FoundWhen::After)))
}

/// The block of a snapshot at an address.
pub fn lying_at(snapshot: &Snapshot, address: u64) -> Option<AllocId> {
    let find = |is_mapping| {
        let place = AddressRange { start: address, length: 1, is_mapping };
        blocks_of(snapshot).find(|owned| AddressRange::of(&snapshot.catalog, owned).overlaps(&place))
    };
    find(false).or_else(|| find(true)).map(|owned| owned.block.id)
}

//! The part of a snapshot that filters select, as a snapshot of its own: tables, comparisons and exports then need no filter.

use crate::compiled_filter::CompiledFilter;
use crate::error::QueryError;
use crate::filter::{BlockTest, Filter};
use crate::measure::NO_BLOCKS;
use highwater_model::{AllocId, Block, Heap, Naming, Nanos, Snapshot, ThreadId};
use highwater_store::Recording;
use highwater_store::history::{BlockLife, ColumnSet, History, Moment, OwnedBlock, Side, Work, block_events};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state at an instant of the blocks that pass the filters, as if there were no others. Every figure is exact: blocks that are resized or promoted enter
/// and leave the part with their states.
///
/// A recording is replayed from its start. For a snapshot, the figures are those of its live blocks: what died before is not known.
pub fn filtered_snapshot(
    history: &Arc<History>,
    moment: Moment,
    filters: &[Filter],
    work: &Work<'_>,
) -> Result<Arc<Snapshot>, QueryError> {
    if filters.is_empty() {
        return Ok(history.snapshot(moment)?);
    }
    let texts: Vec<String> = filters.iter().map(ToString::to_string).collect();
    let make = || part(history, moment, filters, work).map(|part| Filtered(Arc::new(part)));
    let blocks = |filtered: &Filtered| filtered.0.accounts.blocks().count() * 64;
    let filtered = history.cached(format!("{moment:?} {texts:?}"), make, blocks)?;
    Ok(Arc::clone(&filtered.0))
}

/// A part of a snapshot: a type of its own, so that the cache does not mistake it for the whole.
struct Filtered(Arc<Snapshot>);

fn part(history: &History, moment: Moment, filters: &[Filter], work: &Work<'_>) -> Result<Snapshot, QueryError> {
    let Some(recording) = history.recording() else {
        let snapshot = history.snapshot(moment)?;
        let filter = CompiledFilter::new(filters, &snapshot.catalog, &Naming::default());
        let part = match only_heap(filters) {
            Some(heap) => snapshot.heap_alone(heap),
            None => snapshot.part(|block, thread| {
                let owned = OwnedBlock { block: *block, thread };
                filter.passes_with(&owned, &BlockLife { birth: block.time, death: None })
            }),
        };
        return part.ok_or_else(|| QueryError::failed(NO_BLOCKS));
    };
    if recording.source().is_states() {
        return Err(QueryError::failed(NO_BLOCKS));
    }
    let filter = CompiledFilter::new(filters, recording.catalog(), &Naming::default());
    let lives = if filter.needs_deaths() { Some(LifeSet::new(history, recording, &filter, work)?) } else { None };
    let wanted = |block: &Block, thread: ThreadId| {
        lives.as_ref().is_none_or(|lives| lives.has(block.id)) && filter.passes(&OwnedBlock { block: *block, thread })
    };
    let mut part = match only_heap(filters) {
        Some(heap) => recording.snapshot_of_heap(moment, heap)?,
        None => recording.snapshot_of_part(moment, &wanted)?,
    };
    recording.add_address_space(&mut part)?;
    Ok(part)
}

/// The heap that the filters select, if they do nothing else: of heaps more is known where blocks died before the recording began.
fn only_heap(filters: &[Filter]) -> Option<Heap> {
    match filters {
        [Filter { test: BlockTest::Heap(heap), is_negated: false, .. }] => Some(*heap),
        _ => None,
    }
}

/// One bit for each allocation number: whether the life of that block passes the filters on deaths.
struct LifeSet(Vec<AtomicU64>);

impl LifeSet {
    fn new(
        history: &History,
        recording: &Recording,
        filter: &CompiledFilter,
        work: &Work<'_>,
    ) -> Result<Self, QueryError> {
        let last = history.snapshot(Moment::End)?;
        let words = last.accounts.next_id().0.div_ceil(64) as usize + 1;
        let set = Self((0..words).map(|_| AtomicU64::new(0)).collect());
        let index = history.index(recording, work)?;
        block_events(
            (recording, &index.block_events),
            (Nanos(0), Nanos(u64::MAX)),
            (Side::Deaths, ColumnSet::Figures),
            work,
            |_| (),
            |(), row| {
                if row.life().is_some_and(|life| filter.passes_death(&life)) {
                    set.add(row.id());
                }
            },
        )?;
        for block in last.accounts.blocks() {
            if filter.passes_death(&BlockLife { birth: block.time, death: None }) {
                set.add(block.id);
            }
        }
        Ok(set)
    }

    fn add(&self, id: AllocId) {
        if let Some(word) = self.0.get((id.0 / 64) as usize) {
            word.fetch_or(1 << (id.0 % 64), Ordering::Relaxed);
        }
    }

    fn has(&self, id: AllocId) -> bool {
        self.0.get((id.0 / 64) as usize).is_some_and(|word| word.load(Ordering::Relaxed) >> (id.0 % 64) & 1 == 1)
    }
}

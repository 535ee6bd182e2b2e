//! Memory freed before a snapshot: only its sums are known.

use crate::sums::{MOST_BLOCKS, Sum};
use crate::table::{CounterValues, count_of};
use highwater_model::Figures;
use highwater_shm::table_v1::Count;

/// Replaces the name of the function that allocated memory freed before the snapshot.
pub const FREED_BEFORE: &str = "[freed before the snapshot]";
/// The counts of blocks that samples stand for are in units of 1/`UNITS`.
const UNITS: u64 = 256;

/// The figures of all freed memory, limited so that they can be added to those of `live`.
pub fn figures_of_past(counts: &CounterValues, live: &Sum) -> Figures {
    let of = |count| count_of(counts, count);
    let room = MOST_BLOCKS.saturating_sub(live.blocks);
    let recorded = of(Count::Frees).min(room);
    let unrecorded = (of(Count::MoreFrees) / UNITS).min(room - recorded);
    let reallocations = of(Count::Reallocations).min(room - recorded - unrecorded);
    let bytes = of(Count::FreedBytes).saturating_add(of(Count::MoreFreedBytes));
    // One byte less, since the live bytes may be rounded up.
    let bytes = bytes.min((u64::MAX - live.bytes.rounded()).saturating_sub(1));
    come_and_gone(recorded + unrecorded, reallocations, bytes, unrecorded)
}

/// Limits `part` to `all`: a part cannot be larger than the whole.
pub fn part_of(all: &Figures, part: Figures) -> Figures {
    let blocks = part.allocations.min(all.allocations);
    let reallocations = part.reallocations.min(all.reallocations);
    let bytes = part.allocated_bytes.min(all.allocated_bytes);
    come_and_gone(blocks, reallocations, bytes, part.unrecorded.min(all.unrecorded).min(blocks))
}

/// Figures of an owner that freed everything. Without blocks there are no bytes either, whatever the process counted.
fn come_and_gone(blocks: u64, reallocations: u64, bytes: u64, unrecorded: u64) -> Figures {
    if blocks == 0 && reallocations == 0 {
        return Figures::default();
    }
    Figures {
        allocations: blocks,
        frees: blocks,
        reallocations,
        reallocated_away: reallocations,
        allocated_bytes: bytes,
        freed_bytes: bytes,
        unrecorded,
        unrecorded_gone: unrecorded,
        ..Figures::default()
    }
}

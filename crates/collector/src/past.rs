//! What was freed before a snapshot: only sums are known of it.

use crate::sums::{MOST_BLOCKS, Sum};
use crate::table::{Counted, count_of};
use highwater_model::Figures;
use highwater_shm::table_v1::Count;

/// Stands in place of the function that allocated what was freed before.
pub const FREED_BEFORE: &str = "[freed before the snapshot]";
/// Counts of blocks that others stand for are in units of one over this.
const UNITS: u64 = 256;

/// The figures of all that was freed, as far as they can be counted beside what is `live`.
pub fn figures_of_past(counts: &Counted, live: &Sum) -> Figures {
    let of = |count| count_of(counts, count);
    let room = MOST_BLOCKS.saturating_sub(live.blocks);
    let recorded = of(Count::Frees).min(room);
    let unrecorded = (of(Count::MoreFrees) / UNITS).min(room - recorded);
    let reallocations = of(Count::Reallocations).min(room - recorded - unrecorded);
    let bytes = of(Count::FreedBytes).saturating_add(of(Count::MoreFreedBytes));
    // One byte less: what is live may be rounded up.
    let bytes = bytes.min((u64::MAX - live.bytes.rounded()).saturating_sub(1));
    come_and_gone(recorded + unrecorded, reallocations, bytes, unrecorded)
}

/// What of `all` is `part`, which cannot be more.
pub fn part_of(all: &Figures, part: Figures) -> Figures {
    let blocks = part.allocations.min(all.allocations);
    let reallocations = part.reallocations.min(all.reallocations);
    let bytes = part.allocated_bytes.min(all.allocated_bytes);
    come_and_gone(blocks, reallocations, bytes, part.unrecorded.min(all.unrecorded).min(blocks))
}

/// Figures of an owner who gave back all it had. Without blocks there are no bytes either, whatever a process counts.
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

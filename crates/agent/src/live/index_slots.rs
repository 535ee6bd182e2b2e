//! The slots of all shards' indexes: one arena for each level, in which a shard has twice the slots of the level before.
//!
//! Shards begin with 16 to 31 slots, the first of them with the fewest. So they reach a new level roughly in the order of their numbers, an arena is
//! used from its beginning on, and the one before becomes free from its beginning on. Its pages go back to the system as shards leave them.

use crate::lock::Lock;
use crate::private_memory::{self, AreaUse};
use crate::{memory_source, sys};
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use highwater_shm::table_v1::BLOCK_SHARDS;

/// The number of levels: the last has slots for more records than a shard can have.
pub const LEVELS: u32 = 20;
const FEWEST: usize = 16;
/// Shards in a row that have the same number of slots.
const ALIKE: usize = BLOCK_SHARDS as usize / FEWEST;
/// Slots that follow those that a hash can name.
pub const TAIL: usize = 64;
const PAGE: usize = 4096;
/// Arenas of at least this size are in large pages. In smaller ones, the unused part of a large page would be a considerable share.
const LARGE: usize = 32 << 20;
/// From this level on, the slots of a shard are at least a page.
const PAGE_LEVEL: u32 = 6;

static ARENAS: [AtomicPtr<u8>; LEVELS as usize] = [const { AtomicPtr::new(core::ptr::null_mut()) }; LEVELS as usize];
/// For each level, the shards that need it no more, and the number of those that have given their pages back.
static LEFT: [[AtomicU64; BLOCK_SHARDS as usize / 64]; LEVELS as usize] =
    [const { [const { AtomicU64::new(0) }; BLOCK_SHARDS as usize / 64] }; LEVELS as usize];
static LEFT_COUNTS: [AtomicU32; LEVELS as usize] = [const { AtomicU32::new(0) }; LEVELS as usize];
/// For each shard the address of its slots, and their number. Used only for prefetching, so it may be out of date.
static HINTS: [[AtomicU64; 2]; BLOCK_SHARDS as usize] =
    [const { [const { AtomicU64::new(0) }; 2] }; BLOCK_SHARDS as usize];
static MAKING: Lock = Lock::new();

/// Slots of a shard at level 0.
fn first_slots(shard: usize) -> usize {
    FEWEST + shard / ALIKE
}

/// Slots before those of a shard at level 0: the sum of [`first_slots`] of the shards before it.
const fn slots_before(shard: usize) -> usize {
    let (steps, rest) = (shard / ALIKE, shard % ALIKE);
    let full = if steps > 0 { ALIKE * (steps * (steps - 1) / 2) } else { 0 };
    FEWEST * shard + full + steps * rest
}

/// Where the slots of a shard begin in the arena of a level.
fn offset(shard: usize, level: u32) -> usize {
    ((slots_before(shard) << level) + shard * TAIL) * size_of::<u32>()
}

fn arena_bytes(level: u32) -> usize {
    offset(BLOCK_SHARDS as usize, level).next_multiple_of(PAGE)
}

/// The slots of a shard at a level, which are zero, and the number of those that a hash can name; `None` if there is no memory.
pub fn slots_of(shard: u32, level: u32) -> Option<(*mut u32, u32)> {
    let arena = ARENAS.get(level as usize)?;
    if arena.load(Ordering::Acquire).is_null() {
        MAKING.with(|| {
            if arena.load(Ordering::Relaxed).is_null()
                && let Some(memory) = make_arena(level)
            {
                arena.store(memory, Ordering::Release);
            }
        });
    }
    let memory = arena.load(Ordering::Acquire);
    // SAFETY: within the arena.
    let slots = (!memory.is_null()).then(|| unsafe { memory.add(offset(shard as usize, level)).cast() })?;
    Some((slots, (first_slots(shard as usize) << level) as u32))
}

fn make_arena(level: u32) -> Option<*mut u8> {
    let bytes = arena_bytes(level);
    let memory = private_memory::take_area(bytes, AreaUse::BlockIndex)?;
    if bytes >= LARGE {
        sys::prefer_large_pages(memory, bytes);
    }
    Some(memory)
}

fn has_left(shard: usize, level: u32) -> bool {
    LEFT[level as usize][shard / 64].load(Ordering::SeqCst) >> (shard % 64) & 1 == 1
}

/// A shard needs its slots at this level no more, now or later.
pub fn leave(shard: u32, level: u32) {
    let (shard, last) = (shard as usize, BLOCK_SHARDS as usize - 1);
    LEFT[level as usize][shard / 64].fetch_or(1 << (shard % 64), Ordering::SeqCst);
    let arena = ARENAS[level as usize].load(Ordering::Acquire);
    if !arena.is_null() {
        // The pages at both ends belong to the neighbours as well. If two neighbours leave at the same time, at least one of them sees the other.
        let (start, end) = (offset(shard, level), offset(shard + 1, level));
        let before_left = level >= PAGE_LEVEL && shard > 0 && has_left(shard - 1, level);
        let after_left = level >= PAGE_LEVEL && (shard == last || has_left(shard + 1, level));
        let start = if before_left { start & !(PAGE - 1) } else { start };
        let end = if after_left { end.next_multiple_of(PAGE) } else { end };
        memory_source::give_back_pages(arena.wrapping_add(start), end - start);
    }
    // The last one of all: no other shard is still giving pages of this arena back.
    if LEFT_COUNTS[level as usize].fetch_add(1, Ordering::AcqRel) == BLOCK_SHARDS - 1 {
        forget(level);
    }
}

fn forget(level: u32) {
    let memory = ARENAS[level as usize].swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !memory.is_null() {
        // SAFETY: no shard uses it any more.
        unsafe { private_memory::give_back_area(memory, arena_bytes(level)) };
    }
}

/// Unmaps all arenas, in a process that begins a new session.
pub fn forget_all() {
    MAKING.reset();
    for level in 0..LEVELS {
        forget(level);
        LEFT[level as usize].iter().for_each(|shards| shards.store(0, Ordering::Relaxed));
        LEFT_COUNTS[level as usize].store(0, Ordering::Relaxed);
    }
}

/// Notes where a shard has its slots now.
pub fn hint(shard: u32, slots: *mut u32, count: u32) {
    let [address, number] = &HINTS[shard as usize];
    address.store(slots as u64, Ordering::Relaxed);
    number.store(count.into(), Ordering::Relaxed);
}

/// Prefetches a slot of a shard: `slot` computes which one from the number of slots.
#[inline(always)]
pub fn prefetch(shard: u32, slot: impl FnOnce(u64) -> u64) {
    let [address, number] = &HINTS[shard as usize];
    let slot = slot(number.load(Ordering::Relaxed)) * size_of::<u32>() as u64;
    let address = address.load(Ordering::Relaxed).wrapping_add(slot);
    // SAFETY: this instruction does nothing that a program could notice, wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_slots_of_their_own_side_by_side() {
        for level in [0, 5, 9] {
            for shard in 0..BLOCK_SHARDS as usize {
                let bytes = ((first_slots(shard) << level) + TAIL) * 4;
                assert_eq!(offset(shard, level) + bytes, offset(shard + 1, level));
            }
            assert!(arena_bytes(level) - offset(BLOCK_SHARDS as usize, level) < PAGE);
        }
    }
}

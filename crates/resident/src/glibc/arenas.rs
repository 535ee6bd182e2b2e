//! The arenas of glibc and their heaps.
//!
//! `main_arena` is the one place in the data of the C library (or of a program that is linked statically) where an array of 127 list heads points to itself: an empty
//! bin's two words hold the address 16 bytes before them. The arenas form a ring that must lead back to it. The offsets of other fields are the same relative to the
//! bins in all versions since 2.23; only what stands before them differs.

use super::{ALIGNMENT, is_c_library};
use crate::image::Heap;
use crate::mappings::{Mapping, PAGE, mapping_at};
use crate::memory::ReadMemory;
use highwater_model::AreaKind;

/// Where the bins begin in an arena: glibc 2.26 to 2.42, before 2.26, and without fast bins.
const BINS_OFFSETS: [u64; 3] = [0x70, 0x68, 0x18];
const BINS: usize = 127;
/// Empty bins that an arena has at least. Programs use few of the 127 at a time.
const LEAST_EMPTY: usize = 8;
/// Relative to the bins.
const TOP: u64 = 0x10;
const NEXT: u64 = 0x800;
const SYSTEM_BYTES: u64 = NEXT + 0x18;
const ARENA_END: u64 = NEXT + 0x28;
/// The arena's flag for memory that `brk` did not return in one piece.
const NOT_CONTIGUOUS: u64 = 2 << 32;

/// Heaps of other arenas begin at multiples of this, and are not larger.
const HEAP_BYTES: u64 = 64 << 20;
/// The header of a heap is not larger.
const HEAP_HEADER_LIMIT: u64 = 0x100;

/// The data of a file that is searched.
const SEARCH_BYTES: u64 = 16 << 20;
/// Arenas and heaps that are followed: more than the largest machines have.
const MOST_ARENAS: usize = 1 << 16;
const MOST_HEAPS: usize = 1 << 18;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arenas {
    /// Arenas that are in use.
    pub count: u64,
    /// Their heaps.
    pub heaps: Vec<Heap>,
}

/// Finds the arenas; `None` if there is no glibc, or one of an unknown layout.
pub fn find_arenas(mappings: &[Mapping], memory: &impl ReadMemory) -> Option<Arenas> {
    let of_library = data_ranges(mappings, is_c_library);
    let of_program = data_ranges(mappings, |mapping| !mapping.name.contains(".so"));
    let ranges = of_library.into_iter().chain(of_program);
    let ring = ranges.into_iter().find_map(|(start, end)| find_main(start, end, mappings, memory))?;
    let mut arenas = Arenas::default();
    for (index, &arena) in ring.arenas.iter().enumerate() {
        let before = arenas.heaps.len();
        match index {
            0 => arenas.heaps.extend(main_heap(arena, ring.bins, mappings, memory)),
            _ => other_heaps(arena, ring.bins, mappings, memory, &mut arenas.heaps),
        }
        arenas.count += u64::from(arenas.heaps.len() > before);
    }
    Some(arenas)
}

/// The writable data of files, each with the zeroed variables after it.
fn data_ranges(mappings: &[Mapping], is_wanted: impl Fn(&Mapping) -> bool) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    for (index, mapping) in mappings.iter().enumerate() {
        if !(mapping.writable && !mapping.shared && mapping.is_named_object() && is_wanted(mapping)) {
            continue;
        }
        let zeroed = mappings.get(index + 1).filter(|next| next.start == mapping.end && next.writable);
        let zeroed = zeroed.filter(|next| next.name.is_empty());
        let end = zeroed.map_or(mapping.end, |next| next.end);
        ranges.push((mapping.start, end.min(mapping.start + SEARCH_BYTES)));
    }
    ranges
}

/// All arenas, the main one first, and where their bins begin.
struct Ring {
    arenas: Vec<u64>,
    bins: u64,
}

fn find_main(start: u64, end: u64, mappings: &[Mapping], memory: &impl ReadMemory) -> Option<Ring> {
    let words = memory.words_or_zeros(start, end);
    let address = |index: usize| start + index as u64 * 8;
    let is_empty_bin =
        |index: usize| words[index] == address(index).wrapping_sub(16) && words.get(index + 1) == Some(&words[index]);
    let empty: Vec<usize> = (0..words.len()).filter(|&index| is_empty_bin(index)).collect();
    let mut tried_until = 0;
    for &index in &empty {
        if index < tried_until {
            continue;
        }
        // It may be any of the bins, as those before it may be in use.
        for bin in 0..BINS {
            let Some(first) = index.checked_sub(2 * bin) else { break };
            let Some(end) = words.get(first..first + 2 * BINS).map(|_| first + 2 * BINS) else { continue };
            let from = empty.partition_point(|&each| each < first);
            let to = empty.partition_point(|&each| each < end);
            let is_head = |&&each: &&usize| (each - first) % 2 == 0;
            if empty[from..to].iter().filter(is_head).count() < LEAST_EMPTY {
                continue;
            }
            if let Some(ring) = ring_at(address(first), mappings, memory) {
                return Some(ring);
            }
        }
        tried_until = index + 2 * BINS;
    }
    None
}

/// The arenas, if bins begin at this address.
fn ring_at(bins: u64, mappings: &[Mapping], memory: &impl ReadMemory) -> Option<Ring> {
    let top = memory.word(bins - TOP)?;
    let is_unused = top == bins - TOP;
    if !is_unused && (!top.is_multiple_of(ALIGNMENT) || mapping_at(mappings, top).is_none()) {
        return None;
    }
    BINS_OFFSETS.into_iter().find_map(|offset| {
        let main = bins.checked_sub(offset)?;
        let mut arenas = vec![main];
        let mut arena = main;
        while arenas.len() <= MOST_ARENAS {
            arena = memory.word(arena.checked_add(offset + NEXT)?)?;
            if arena == main {
                return Some(Ring { arenas, bins: offset });
            }
            arenas.push(arena);
        }
        None
    })
}

/// The heap that grows with `brk`. Its start is not stored in the arena; its size is.
fn main_heap(arena: u64, bins: u64, mappings: &[Mapping], memory: &impl ReadMemory) -> Option<Heap> {
    let (top, end) = top_of(arena, bins, mappings, memory)?;
    let mapping = mapping_at(mappings, top).filter(|mapping| mapping.is_anonymous())?;
    let flags = memory.word(arena)?;
    let bytes = memory.word(arena + bins + SYSTEM_BYTES)?;
    let is_inside = |start: &u64| flags & NOT_CONTIGUOUS == 0 && (mapping.start..=top).contains(start);
    let start = end.checked_sub(bytes).filter(is_inside).unwrap_or(mapping.start);
    let first_chunk = start.next_multiple_of(ALIGNMENT).min(top);
    Some(Heap { kind: AreaKind::Main, start, first_chunk, top: Some(top), end })
}

/// The top chunk of an arena: where it begins and ends.
fn top_of(arena: u64, bins: u64, mappings: &[Mapping], memory: &impl ReadMemory) -> Option<(u64, u64)> {
    let top = memory.word(arena.checked_add(bins - TOP)?)?;
    let mapping = mapping_at(mappings, top)?;
    let size = memory.word(top.checked_add(8)?)? & !7;
    let end = top.checked_add(size)?.min(mapping.end);
    (top.is_multiple_of(ALIGNMENT) && end > top).then_some((top, end))
}

/// The heaps of another arena: its last one holds the top, and leads to the others.
fn other_heaps(arena: u64, bins: u64, mappings: &[Mapping], memory: &impl ReadMemory, heaps: &mut Vec<Heap>) {
    let Some((top, top_end)) = top_of(arena, bins, mappings, memory) else { return };
    let header = arena % HEAP_BYTES;
    let mut start = top - top % HEAP_BYTES;
    while header < HEAP_HEADER_LIMIT && heaps.len() < MOST_HEAPS {
        let Some([owner, previous, size]) = memory.words(start) else { return };
        let is_sound = owner == arena && size <= HEAP_BYTES && size.is_multiple_of(PAGE) && size > header;
        if !is_sound || mapping_at(mappings, start).is_none() {
            return;
        }
        let is_first = start == arena - header;
        let first_chunk = if is_first { arena + bins + ARENA_END } else { start + header };
        let has_top = top - top % HEAP_BYTES == start;
        let end = start + size;
        heaps.push(Heap {
            kind: AreaKind::Arena,
            start,
            first_chunk: first_chunk.next_multiple_of(ALIGNMENT),
            top: has_top.then_some(top),
            end: if has_top { top_end.min(end) } else { end },
        });
        if is_first || previous == start || !previous.is_multiple_of(HEAP_BYTES) {
            return;
        }
        start = previous;
    }
}

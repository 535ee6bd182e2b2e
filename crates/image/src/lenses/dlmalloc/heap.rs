//! A dlmalloc heap: its start, its segments, its chunks.

use super::chunk::{self, HEADER, PAGE, SegmentItem};
use crate::damage::Damages;
use crate::image::Image;
use crate::lens::{HeapArea, Root};
use crate::sidecar::Sidecar;
use crate::wasm::WasmModule;
use std::ops::Range;

/// The kinds of areas in a dlmalloc heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DlmallocKind {
    Chunk,
    Free,
    Top,
    /// A chunk in which the allocator stores the description of a segment.
    SegmentRecord,
    /// The area at the end of a segment.
    Foot,
    /// Memory between segments that does not belong to the allocator.
    Foreign,
    Gap,
}

/// The names of all kinds.
pub const KIND_NAMES: [&str; 7] = ["Chunk", "Free", "Top", "SegmentRecord", "Foot", "Foreign", "Gap"];

/// The fewest sound chunks in a row that count as a heap, if its start is not known.
const FEWEST_CHUNKS: u64 = 4;
/// The number of sound chunks in a row with which the walk resumes after damage.
const SOUND_AGAIN: u64 = 3;
/// How far a heap is searched for if its start is not known.
const SEARCHED: u64 = 64 << 20;

/// The heap that dlmalloc keeps in a linear memory of 32 bits.
pub struct Dlmalloc<'a> {
    pub(super) image: &'a Image,
    /// The address at which it begins.
    pub(super) base: u64,
    /// The address at which it ends.
    pub(super) end: u64,
    /// The alignment of the addresses that the allocator returns to the program.
    pub(super) alignment: u64,
    pub(super) roots: Vec<Root>,
    /// For each page, the chunk that covers its first byte.
    pub(super) page_starts: Vec<u32>,
}

/// How a segment ended.
enum SegmentEnd {
    /// With the top, after which there is nothing.
    Top,
    /// It was closed, or the image ends: at this address.
    Closed(u64),
}

impl<'a> Dlmalloc<'a> {
    /// The heap of an image; `None` where none is found.
    pub fn find(image: &'a Image, module: Option<&WasmModule>, sidecar: &Sidecar) -> Option<Self> {
        if image.len() > 1 << 32 || module.is_some_and(|module| module.is_wide()) {
            return None;
        }
        let candidates = candidates(module, sidecar);
        let sound = candidates.iter().find(|(base, _)| reaches_end(image, *base, &mut effort(image)));
        let begun = || candidates.iter().find(|(base, _)| chunks_in_a_row(image, *base, true) >= FEWEST_CHUNKS);
        let (base, alignment) = match sound.or_else(begun) {
            Some(&candidate) => candidate,
            None => search(image, module)?,
        };
        let mut heap = Self { image, base, end: base, alignment, roots: Vec::new(), page_starts: Vec::new() };
        heap.measure();
        heap.roots = heap.find_roots();
        Some(heap)
    }

    /// The address at which it begins.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The address at which it ends.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The alignment of the addresses that the allocator returns: 8 with Rust's port, 16 with the C library's.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// True if it begins at an address that the module or the sidecar suggests.
    pub(crate) fn begins_at_candidate(&self, module: &WasmModule, sidecar: &Sidecar) -> bool {
        candidates(Some(module), sidecar).iter().any(|(base, _)| *base == self.base)
    }

    /// Finds the end of the heap, and the chunk in which each page begins.
    fn measure(&mut self) {
        let mut pages = Vec::new();
        let mut end = self.base;
        let mut damage = Damages::default();
        let base = self.base;
        self.walk_chunks(
            |area| {
                end = area.at + area.bytes;
                // A search for a chunk within a page ends at the chunk that covers the page's first byte.
                while (pages.len() as u64) * PAGE + base < end {
                    pages.push(((area.at - base) / 8) as u32);
                }
            },
            &mut damage,
        );
        (self.end, self.page_starts) = (end, pages);
    }

    /// Walks all chunks in order.
    pub(super) fn walk_chunks(&self, mut visit: impl FnMut(HeapArea), damage: &mut Damages) {
        let mut at = self.base;
        let mut effort = effort(self.image);
        loop {
            match self.walk_segment(at, &mut visit, damage) {
                SegmentEnd::Top => return,
                SegmentEnd::Closed(end) => {
                    if end >= self.image.len().saturating_sub(HEADER) {
                        if end < self.image.len() {
                            put(&mut visit, end, self.image.len() - end, DlmallocKind::Foot);
                        }
                        damage.note(self.image.len(), 0, "the image ends before the heap does");
                        return;
                    }
                    let Some(next) = self.next_segment(end, &mut effort) else { return };
                    put(&mut visit, end, next - end, DlmallocKind::Foreign);
                    at = next;
                }
            }
        }
    }

    /// Walks a segment, and records all damage in it.
    fn walk_segment(&self, start: u64, visit: &mut impl FnMut(HeapArea), damage: &mut Damages) -> SegmentEnd {
        let (mut at, mut previous_in_use) = (start, true);
        let mut pending: Option<(u64, u64)> = None;
        let flush = |pending: &mut Option<(u64, u64)>, kind: DlmallocKind, visit: &mut dyn FnMut(HeapArea)| {
            if let Some((at, bytes)) = pending.take() {
                visit(HeapArea { at, bytes, kind: kind as u8, is_object: kind == DlmallocKind::Chunk });
            }
        };
        while at + HEADER <= self.image.len() {
            match chunk::next(self.image, at, previous_in_use) {
                Some(SegmentItem::Used(chunk)) => {
                    flush(&mut pending, DlmallocKind::Chunk, visit);
                    // The next item shows whether this chunk is the program's or the segment's record.
                    pending = Some((at, chunk.size));
                    (at, previous_in_use) = (at + chunk.size, true);
                }
                Some(SegmentItem::Free(chunk)) => {
                    flush(&mut pending, DlmallocKind::Chunk, visit);
                    put(visit, at, chunk.size, DlmallocKind::Free);
                    (at, previous_in_use) = (at + chunk.size, false);
                }
                Some(SegmentItem::Top(chunk, foot)) => {
                    flush(&mut pending, DlmallocKind::Chunk, visit);
                    put(visit, at, chunk.size, DlmallocKind::Top);
                    put(visit, at + chunk.size, foot, DlmallocKind::Foot);
                    return SegmentEnd::Top;
                }
                Some(SegmentItem::Fence) => {
                    flush(&mut pending, DlmallocKind::SegmentRecord, visit);
                    let end = (at + 1).next_multiple_of(PAGE).min(self.image.len());
                    put(visit, at, end - at, DlmallocKind::Foot);
                    return SegmentEnd::Closed(end);
                }
                None => {
                    flush(&mut pending, DlmallocKind::Chunk, visit);
                    let (next, in_use) = self.sound_again(at);
                    damage.note(at, next - at, "no chunk begins here");
                    put(visit, at, next - at, DlmallocKind::Gap);
                    (at, previous_in_use) = (next, in_use);
                }
            }
        }
        flush(&mut pending, DlmallocKind::Chunk, visit);
        SegmentEnd::Closed(at)
    }

    /// The next address after damage from which chunks follow one another again, and whether the chunk before it counts as in use.
    fn sound_again(&self, damaged: u64) -> (u64, bool) {
        let mut at = damaged + 8;
        while at + HEADER <= self.image.len() {
            let is_aligned = (at + HEADER).is_multiple_of(self.alignment);
            for previous in [true, false] {
                if is_aligned && chunks_in_a_row(self.image, at, previous) >= SOUND_AGAIN {
                    return (at, previous);
                }
            }
            at += 8;
        }
        (self.image.len(), true)
    }

    /// The start of the allocator's next segment: the next page from which chunks follow one another to the end of a segment.
    fn next_segment(&self, from: u64, effort: &mut u64) -> Option<u64> {
        let mut at = from.next_multiple_of(PAGE);
        while at < self.image.len() && *effort > 0 {
            let base = first_chunk(at, self.alignment);
            if reaches_end(self.image, base, effort) {
                return Some(base);
            }
            at += PAGE;
        }
        None
    }

    /// All memory outside of the heap, which may contain references to it.
    pub(super) fn outside(&self) -> [Range<u64>; 2] {
        [0..self.base, self.end..self.image.len()]
    }
}

fn put(visit: &mut impl FnMut(HeapArea), at: u64, bytes: u64, kind: DlmallocKind) {
    visit(HeapArea { at, bytes, kind: kind as u8, is_object: false });
}

/// The first chunk of a segment that begins at an address.
fn first_chunk(base: u64, alignment: u64) -> u64 {
    (base + HEADER).next_multiple_of(alignment) - HEADER
}

/// Addresses at which a heap may begin, according to module and sidecar, each with its alignment.
fn candidates(module: Option<&WasmModule>, sidecar: &Sidecar) -> Vec<(u64, u64)> {
    let mut candidates = Vec::new();
    let mut both = |base: Option<u64>| {
        for alignment in [16, 8] {
            candidates.extend(base.map(|base| (first_chunk(base, alignment), alignment)));
        }
    };
    let address = |value: Option<i64>| value.map(|value| u64::from(value as u32));
    // Memories of 32-bit addresses end at 4 GiB.
    both(sidecar.heap_start.filter(|start| *start < 1 << 32));
    if let Some(module) = module {
        both(address(module.exported_global("__heap_base").and_then(|global| global.value)));
        // Rust's port begins at the first page that it requests.
        candidates.push((module.memory().map_or(0, |memory| memory.initial_pages) * PAGE, 8));
        let mut both = |base: Option<u64>| candidates.extend(base.map(|base| (first_chunk(base, 16), 16)));
        both(address(module.global(0)));
        both(Some(module.data_end.next_multiple_of(16)));
    }
    candidates
}

/// Searches for a heap whose start is not known: the first address from which chunks follow one another to the end of a segment.
fn search(image: &Image, module: Option<&WasmModule>) -> Option<(u64, u64)> {
    let start = module.map_or(0, |module| module.data_end);
    let mut effort = effort(image);
    for range in image.data_in(start..start.saturating_add(SEARCHED)) {
        for at in (range.start.next_multiple_of(8)..range.end).step_by(8) {
            let first = image.u32(at + 4);
            // The first chunk has no chunk before it, and is in use or the top.
            if first & 1 == 0 || first < 16 || image.u32(at) != 0 {
                continue;
            }
            if chunks_in_a_row(image, at, true) >= FEWEST_CHUNKS && reaches_end(image, at, &mut effort) {
                let alignment = if (at + HEADER).is_multiple_of(16) && all_aligned(image, at, 16) { 16 } else { 8 };
                return Some((at, alignment));
            }
        }
    }
    None
}

/// How many chunks a search may visit, in proportion to the size of the image. Without this limit, crafted bytes could lead the search through the same
/// chunks again and again.
fn effort(image: &Image) -> u64 {
    image.len() / 4 + 1024
}

/// Follows chunks until one breaks the rules, or `effort` is used up. Passes each to `visit`, until it returns false.
fn follow(
    image: &Image,
    start: u64,
    previous_in_use: bool,
    effort: &mut u64,
    mut visit: impl FnMut(u64, SegmentItem) -> bool,
) {
    let (mut at, mut previous) = (start, previous_in_use);
    while at + HEADER <= image.len() && *effort > 0 {
        *effort -= 1;
        let Some(next) = chunk::next(image, at, previous) else { return };
        if !visit(at, next) {
            return;
        }
        (at, previous) = match next {
            SegmentItem::Used(chunk) => (at + chunk.size, true),
            SegmentItem::Free(chunk) => (at + chunk.size, false),
            SegmentItem::Top(..) | SegmentItem::Fence => return,
        };
    }
}

fn chunks_in_a_row(image: &Image, start: u64, previous_in_use: bool) -> u64 {
    let mut count = 0;
    follow(image, start, previous_in_use, &mut FEWEST_CHUNKS.clone(), |_, next| {
        // The end of a segment counts as much as a full row of chunks.
        count += if matches!(next, SegmentItem::Top(..) | SegmentItem::Fence) { FEWEST_CHUNKS } else { 1 };
        count < FEWEST_CHUNKS
    });
    count
}

fn all_aligned(image: &Image, start: u64, alignment: u64) -> bool {
    let mut all = true;
    follow(image, start, true, &mut effort(image), |at, _| {
        all &= (at + HEADER).is_multiple_of(alignment);
        all
    });
    all
}

/// True if chunks follow one another to the end of a segment.
fn reaches_end(image: &Image, start: u64, effort: &mut u64) -> bool {
    let mut reached = false;
    follow(image, start, true, effort, |_, next| {
        reached = matches!(next, SegmentItem::Top(..) | SegmentItem::Fence);
        true
    });
    reached
}

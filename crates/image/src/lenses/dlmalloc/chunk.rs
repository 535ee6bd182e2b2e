//! Chunks, the parts of a dlmalloc heap, and the rules that they follow.

use crate::image::Image;

/// The header of a chunk: size and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Its length, header included.
    pub size: u64,
    /// True if the program uses it.
    pub in_use: bool,
    /// True if the program uses the chunk before it.
    pub previous_in_use: bool,
}

/// The offset of the program's data within a chunk.
pub const HEADER: u64 = 8;
/// The smallest chunk size.
const SMALLEST: u64 = 16;
/// The most bytes of a foot, at the end of a segment.
const LARGEST_FOOT: u64 = 96;
/// The size of a WASM page, the unit in which memory grows.
pub const PAGE: u64 = 65536;
/// The header word after the last chunk of a closed segment.
const FENCE: u32 = 7;

/// An item of a segment: a chunk, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentItem {
    /// A chunk in use.
    Used(ChunkHeader),
    /// A free chunk.
    Free(ChunkHeader),
    /// The last chunk, from which new ones are cut, and the bytes of the foot after it.
    Top(ChunkHeader, u64),
    /// The end of a closed segment.
    Fence,
}

impl ChunkHeader {
    fn at(image: &Image, at: u64) -> Self {
        let head = image.u32(at.wrapping_add(4));
        Self { size: u64::from(head & !7), in_use: head & 2 != 0, previous_in_use: head & 1 != 0 }
    }
}

/// The item at an address; `None` if the bytes there break the rules.
pub fn next(image: &Image, at: u64, previous_in_use: bool) -> Option<SegmentItem> {
    if image.u32(at + 4) == FENCE && previous_in_use {
        return Some(SegmentItem::Fence);
    }
    let chunk = ChunkHeader::at(image, at);
    let end = at + chunk.size;
    if chunk.size < SMALLEST || end + HEADER > image.len() || chunk.previous_in_use != previous_in_use {
        return None;
    }
    if chunk.in_use {
        return Some(SegmentItem::Used(chunk));
    }
    // dlmalloc would have joined two free neighbours.
    if !previous_in_use {
        return None;
    }
    let foot = u64::from(image.u32(end + 4));
    let is_foot = foot & 7 == 0 && (8..=LARGEST_FOOT).contains(&foot);
    if is_foot && ((end + foot).is_multiple_of(PAGE) || end + foot == image.len()) {
        return Some(SegmentItem::Top(chunk, foot));
    }
    let repeats_size = u64::from(image.u32(end)) == chunk.size;
    let after = ChunkHeader::at(image, end);
    (repeats_size && !after.previous_in_use && after.in_use).then_some(SegmentItem::Free(chunk))
}

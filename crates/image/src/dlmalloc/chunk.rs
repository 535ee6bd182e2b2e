//! Chunks, of which a dlmalloc heap consists, and the rules they keep.

use crate::image::Image;

/// A chunk's two words, size and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its length, header included.
    pub size: u64,
    /// True when a program has it.
    pub in_use: bool,
    /// True when a program has the one before it.
    pub previous_in_use: bool,
}

/// Where the words of a program's own begin.
pub const HEADER: u64 = 8;
/// The smallest there is.
const SMALLEST: u64 = 16;
/// The most that is kept at the end of a segment.
const LARGEST_FOOT: u64 = 96;
/// Memory grows by pages.
pub const PAGE: u64 = 65536;
/// What stands behind the last chunk of a segment that was closed.
const FENCE: u32 = 7;

/// What comes next in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A chunk that a program has.
    Used(Chunk),
    /// One that is free.
    Free(Chunk),
    /// The last one, from which new ones are cut, and what is kept behind it.
    Top(Chunk, u64),
    /// The end of a segment that was closed.
    Fence,
}

impl Chunk {
    fn at(image: &Image, at: u64) -> Self {
        let head = image.u32(at.wrapping_add(4));
        Self { size: u64::from(head & !7), in_use: head & 2 != 0, previous_in_use: head & 1 != 0 }
    }
}

/// What lies at an address; `None` where no rule allows it to.
pub fn next(image: &Image, at: u64, previous_in_use: bool) -> Option<Next> {
    if image.u32(at + 4) == FENCE && previous_in_use {
        return Some(Next::Fence);
    }
    let chunk = Chunk::at(image, at);
    let end = at + chunk.size;
    if chunk.size < SMALLEST || end + HEADER > image.len() || chunk.previous_in_use != previous_in_use {
        return None;
    }
    if chunk.in_use {
        return Some(Next::Used(chunk));
    }
    // Two free neighbours would have been joined.
    if !previous_in_use {
        return None;
    }
    let foot = u64::from(image.u32(end + 4));
    let is_foot = foot & 7 == 0 && (8..=LARGEST_FOOT).contains(&foot);
    if is_foot && ((end + foot).is_multiple_of(PAGE) || end + foot == image.len()) {
        return Some(Next::Top(chunk, foot));
    }
    let repeats_size = u64::from(image.u32(end)) == chunk.size;
    let after = Chunk::at(image, end);
    (repeats_size && !after.previous_in_use && after.in_use).then_some(Next::Free(chunk))
}

//! Which chunks touch each page of a heap.
//!
//! `malloc_trim` returns page P if all chunks that touch P, or the 48 bytes before it, are free: a free chunk keeps its header and its links, up to 48 bytes, and whole
//! pages begin after them. Pages beyond count from the start of the run of free chunks, so one rule holds for all pages.

use crate::mappings::{PAGE, page_floor};
use std::collections::VecDeque;

/// What keeps a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// No chunk.
    #[default]
    Nobody,
    /// Blocks of one owner.
    Owner(u32),
    /// Blocks of several owners.
    Several,
    /// The allocator, whether or not blocks are there.
    Allocator,
}

impl Holder {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nobody, other) | (other, Self::Nobody) => other,
            (Self::Allocator, _) | (_, Self::Allocator) => Self::Allocator,
            (Self::Owner(one), Self::Owner(other)) if one == other => self,
            _ => Self::Several,
        }
    }
}

/// Pages in a row with the same holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPages {
    /// The first address.
    pub start: u64,
    /// The address after the last byte.
    pub end: u64,
    /// What keeps them.
    pub holder: Holder,
    /// Live bytes on each of them.
    pub live: u16,
    /// No chunk comes after them in the zone: they are a part of the heap's top.
    pub is_tail: bool,
}

/// A chunk that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldChunk {
    /// Where it begins.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// The requested bytes in it.
    pub live: (u64, u64),
    /// Whose it is.
    pub holder: Holder,
}

/// Turns chunks, in order, into pages, in order. All pages of the zone are passed on, those without chunks too.
#[derive(Debug)]
pub struct PageHolders {
    /// Pages are passed on up to here.
    at: u64,
    end: u64,
    /// How far before a page a chunk still keeps it.
    margin: u64,
    /// Pages that further chunks may touch: the page, its holder, live bytes.
    open: VecDeque<(u64, Holder, u64)>,
}

impl PageHolders {
    /// For a zone.
    pub fn new(start: u64, end: u64, margin: u64) -> Self {
        Self { at: start, end, margin, open: VecDeque::new() }
    }

    /// Adds a chunk after all others.
    pub fn hold(&mut self, chunk: HeldChunk, each: &mut impl FnMut(HeldPages)) {
        // The process may claim blocks inside of others: what lies before such a block's end is held already.
        if chunk.start >= chunk.end || self.hold_in_open_page(&chunk) {
            return;
        }
        // In each of the two parts inner pages are alike: all live, or none.
        let border = chunk.live.1.clamp(chunk.start, chunk.end);
        self.hold_part(chunk.start, border, chunk.live, chunk.holder, each);
        self.hold_part(border, chunk.end, (0, 0), chunk.holder, each);
    }

    /// Small chunks, nearly all, touch only the page that the chunk before them touched.
    fn hold_in_open_page(&mut self, chunk: &HeldChunk) -> bool {
        let Some((page, holder, live)) = self.open.front_mut() else { return false };
        let is_inside = *page <= chunk.start && chunk.end.saturating_add(self.margin) <= *page + PAGE;
        if is_inside {
            *holder = holder.and(chunk.holder);
            *live += overlap((*page, *page + PAGE), chunk.live);
        }
        is_inside
    }

    fn hold_part(&mut self, start: u64, end: u64, live: (u64, u64), holder: Holder, each: &mut impl FnMut(HeldPages)) {
        let start = start.max(self.at);
        if start >= end.min(self.end) {
            return;
        }
        let first = page_floor(start);
        let last = page_floor((end - 1).saturating_add(self.margin)).min(self.end - PAGE);
        let inner_end = page_floor(end).min(self.end);
        let mut page = first;
        self.pass_on_to(first, each);
        while page <= last {
            // The first two pages may be touched by chunks before this one, the last two by those after it.
            if page > first + PAGE && page < inner_end {
                self.pass_on_to(page, each);
                let bytes = overlap((page, page + PAGE), live);
                self.pass_on(inner_end, holder, bytes, false, each);
                page = inner_end;
                continue;
            }
            let bytes = overlap((page, page + PAGE), live);
            match self.open.iter_mut().find(|open| open.0 == page) {
                Some(open) => (open.1, open.2) = (open.1.and(holder), open.2 + bytes),
                None => self.open.push_back((page, holder, bytes)),
            }
            page += PAGE;
        }
    }

    /// Passes on all pages before `to`.
    fn pass_on_to(&mut self, to: u64, each: &mut impl FnMut(HeldPages)) {
        while let Some((page, holder, live)) = self.open.front().copied().filter(|open| open.0 < to) {
            self.open.pop_front();
            self.pass_on(page, Holder::Nobody, 0, false, each);
            self.pass_on(page + PAGE, holder, live, false, each);
        }
        self.pass_on(to, Holder::Nobody, 0, false, each);
    }

    fn pass_on(&mut self, to: u64, holder: Holder, live: u64, is_tail: bool, each: &mut impl FnMut(HeldPages)) {
        if to > self.at {
            each(HeldPages { start: self.at, end: to, holder, live: live.min(PAGE) as u16, is_tail });
            self.at = to;
        }
    }

    /// Passes on the rest of the zone.
    pub fn finish(mut self, each: &mut impl FnMut(HeldPages)) {
        let last = self.open.back().map_or(self.at, |open| open.0 + PAGE);
        self.pass_on_to(last, each);
        self.pass_on(self.end, Holder::Nobody, 0, true, each);
    }
}

/// The bytes that two ranges share.
fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_ends_before_it_begins_holds_nothing() {
        let mut holders = PageHolders::new(0x1000, 0x3000, 0);
        let mut pages = Vec::new();
        let chunk = HeldChunk { start: 0x2000, end: 0x1800, live: (0x1700, 0x1800), holder: Holder::Owner(0) };
        holders.hold(chunk, &mut |held| pages.push((held.start, held.end, held.holder)));
        holders.finish(&mut |held| pages.push((held.start, held.end, held.holder)));
        assert!(pages.iter().all(|(.., holder)| *holder == Holder::Nobody), "{pages:?}");
    }
}

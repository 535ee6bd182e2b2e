//! Figures of a dlmalloc heap by chunk size.

use super::heap::{Dlmalloc, Kind};
use crate::damage::Damages;
use std::collections::BTreeMap;

/// Figures of a heap's chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkFigures {
    /// By size, smallest first.
    pub histogram: Vec<SizeClass>,
    /// The size of the largest free chunk.
    pub largest_free: u64,
    /// Free bytes between chunks in use.
    pub free_bytes: u64,
    /// Bytes that were never used, or were returned at the end of the heap.
    pub top_bytes: u64,
}

/// Chunks of similar sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// The smallest size of the class.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// Chunks in use.
    pub used: u64,
    /// Their bytes.
    pub used_bytes: u64,
    /// Free chunks.
    pub free: u64,
    /// Their bytes.
    pub free_bytes: u64,
}

impl ChunkFigures {
    /// The share of the free bytes that is not in the largest free chunk, from 0 to 1.
    pub fn fragmentation(&self) -> f64 {
        if self.free_bytes == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.free_bytes as f64 }
    }
}

impl Dlmalloc<'_> {
    /// Counts chunks by size.
    pub fn figures(&self) -> ChunkFigures {
        let mut classes: BTreeMap<u32, SizeClass> = BTreeMap::new();
        let mut figures = ChunkFigures::default();
        let count = |stretch: crate::lens::Stretch| {
            let bits = u64::BITS - stretch.bytes.leading_zeros();
            if stretch.kind == Kind::Chunk as u8 {
                let class = class_of(&mut classes, bits);
                (class.used, class.used_bytes) = (class.used + 1, class.used_bytes + stretch.bytes);
            } else if stretch.kind == Kind::Free as u8 {
                let class = class_of(&mut classes, bits);
                (class.free, class.free_bytes) = (class.free + 1, class.free_bytes + stretch.bytes);
                figures.free_bytes += stretch.bytes;
                figures.largest_free = figures.largest_free.max(stretch.bytes);
            } else if stretch.kind == Kind::Top as u8 {
                figures.top_bytes += stretch.bytes;
            }
        };
        self.walk_chunks(count, &mut Damages::default());
        figures.histogram = classes.into_values().collect();
        figures
    }
}

fn class_of(classes: &mut BTreeMap<u32, SizeClass>, bits: u32) -> &mut SizeClass {
    let from = 1u64 << (bits.max(1) - 1);
    classes.entry(bits).or_insert(SizeClass { from, to: from * 2 - 1, ..SizeClass::default() })
}

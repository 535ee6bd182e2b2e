//! Figures of chunks by size, for heaps of allocators that hand out chunks.

/// Figures of the chunks that an allocator hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkFigures {
    /// By size, smallest first.
    pub histogram: Vec<ChunkSizeClass>,
    /// The size of the largest free chunk.
    pub largest_free: u64,
    /// Free bytes between chunks in use.
    pub free_bytes: u64,
    /// Bytes that were never used, or were returned at the end of the heap.
    pub top_bytes: u64,
}

/// Chunks of similar sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkSizeClass {
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
    /// The number of chunks in use, and their bytes.
    pub fn used(&self) -> (u64, u64) {
        self.histogram.iter().fold((0, 0), |sum, class| (sum.0 + class.used, sum.1 + class.used_bytes))
    }

    /// The share of the free bytes that is not in the largest free chunk, from 0 to 1.
    pub fn fragmentation(&self) -> f64 {
        if self.free_bytes == 0 { 0.0 } else { 1.0 - self.largest_free as f64 / self.free_bytes as f64 }
    }
}

//! What was read of a process, as plain data: everything that a breakdown is computed from, besides live blocks.

use crate::mappings::Mapping;
use crate::regions::Regions;
use highwater_model::{AreaKind, ProcessMemory};

/// A heap of glibc: a part of an arena that is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// `Main` or `Arena`.
    pub kind: AreaKind,
    /// Its first address.
    pub start: u64,
    /// Where its first chunk begins. Before it is the allocator's own data.
    pub first_chunk: u64,
    /// The chunk after all others, which is free. Other heaps of an arena than its last have none: they end with a fence of [`FENCE`] bytes.
    pub top: Option<u64>,
    /// The address after its last byte.
    pub end: u64,
}

/// The bytes at the end of a heap without a top.
pub const FENCE: u64 = 32;

/// A chunk of glibc that is not free, and not a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownChunk {
    /// Where it begins: 16 bytes before the memory that `malloc` would return.
    pub start: u64,
    /// Where the next chunk begins.
    pub end: u64,
    /// In the cache of a thread; otherwise the allocator's own data.
    pub is_cached: bool,
}

/// The stack of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackRange {
    /// Its first address.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// The thread has ended, and the C library keeps its stack.
    pub is_cached: bool,
}

/// A process, as it was read. Tests make their own.
#[derive(Clone, Debug, Default)]
pub struct ProcessImage {
    /// Its mappings, in order.
    pub mappings: Vec<Mapping>,
    /// Its pages.
    pub regions: Regions,
    /// The heaps of glibc, in any order.
    pub heaps: Vec<Heap>,
    /// Chunks of glibc, in any order.
    pub chunks: Vec<KnownChunk>,
    /// Whether the caches of all threads are among them.
    pub knows_caches: bool,
    /// The stacks of threads, in any order.
    pub stacks: Vec<StackRange>,
    /// The arenas of glibc.
    pub arenas: u64,
    /// The version of glibc; empty if it is not known, `None` if it was not found.
    pub glibc: Option<String>,
    /// The kernel's figures.
    pub process: ProcessMemory,
    /// How far the sum may be off, in bytes.
    pub uncertain: u64,
}

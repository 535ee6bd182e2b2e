//! Allocates the memory that a program will write next, ahead of it.
//!
//! The kernel charges a page to the group of the process that touches it first. A program that runs close to the limit of its container must not be ended because
//! it is recorded from outside. If the recorder is in the same group, it makes no difference.

use highwater_shm::ring_v1::RingHeader;
use highwater_shm::session_v1::{Capacity, HEADER_BYTES, LARGEST_RING, MODULE_BYTES, ring_bytes};
use highwater_shm::stacks_v1::TrieNode;
use rustix::fs::FallocateFlags;
use std::os::fd::OwnedFd;

/// How far ahead of a thread its ring is provided, and ahead of all threads the stacks: the amount written until the next check.
const AHEAD: u64 = 128 << 10;
const PAGE: u64 = 4096;

/// How much the program has written of each part.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// Bytes ever written into each ring.
    pub rings: Vec<u64>,
    /// Nodes of stacks.
    pub nodes: u64,
    /// Bytes of the log of modules.
    pub modules: u64,
}

/// An agent's memory, and how much of each part was provided.
pub struct Provided {
    object: OwnedFd,
    /// Where the session begins in the object.
    start: u64,
    capacity: Capacity,
    /// Whether large rings are provided as a whole: a program that does not wait for memory loses what it writes beyond it.
    whole_rings: bool,
    rings: Vec<u64>,
    ring_headers: u64,
    nodes: u64,
    modules: u64,
}

impl Provided {
    /// For new memory, of which nothing was written yet.
    pub fn new(object: OwnedFd, capacity: Capacity) -> Self {
        Self::at(object, 0, capacity, false)
    }

    /// The same for a program that was attached to; its session begins at `start` in the object.
    pub fn attached(object: OwnedFd, start: u64, capacity: Capacity) -> Self {
        Self::at(object, start, capacity, true)
    }

    fn at(object: OwnedFd, start: u64, capacity: Capacity, whole_rings: bool) -> Self {
        let rings = Vec::new();
        let provided = Self { object, start, capacity, whole_rings, rings, ring_headers: 0, nodes: 0, modules: 0 };
        provided.take(0, HEADER_BYTES);
        provided
    }

    /// Allocates the memory that will be needed soon.
    pub fn keep_ahead(&mut self, used: &Used) {
        let capacity = self.capacity;
        let threads = (used.rings.len() as u64 + 1).min(capacity.rings.into());
        let header_bytes = (threads * size_of::<RingHeader>() as u64).next_multiple_of(PAGE);
        self.ring_headers = self.grow(capacity.ring_headers(), self.ring_headers, header_bytes);
        self.rings.resize(threads as usize, 0);
        for ring in 0..threads as usize {
            let written = used.rings.get(ring).copied().unwrap_or(0);
            let whole = ring_bytes(ring as u32);
            let wanted = match self.whole_rings && whole == LARGEST_RING {
                true => whole,
                false => (written.min(whole) + AHEAD).next_multiple_of(PAGE).min(whole),
            };
            self.rings[ring] = self.grow(capacity.ring_data(ring as u32), self.rings[ring], wanted);
        }
        let all_nodes = u64::from(capacity.nodes) * size_of::<TrieNode>() as u64;
        let wanted = (used.nodes * size_of::<TrieNode>() as u64 + AHEAD).next_multiple_of(PAGE).min(all_nodes);
        self.nodes = self.grow(capacity.stacks(), self.nodes, wanted);
        let wanted = (used.modules.min(MODULE_BYTES) + AHEAD).next_multiple_of(PAGE).min(MODULE_BYTES);
        self.modules = self.grow(capacity.modules(), self.modules, wanted);
    }

    /// The provided bytes of each ring.
    pub fn rings(&self) -> impl Iterator<Item = u64> {
        self.rings.iter().copied()
    }

    /// Extends a part from `had` bytes up to `wanted`; returns the new size.
    fn grow(&self, start: u64, had: u64, wanted: u64) -> u64 {
        if wanted > had {
            self.take(start + had, wanted - had);
        }
        wanted.max(had)
    }

    /// If that fails, the program takes the memory itself, as soon as it writes there.
    fn take(&self, start: u64, length: u64) {
        let _ = rustix::fs::fallocate(&self.object, FallocateFlags::empty(), self.start + start, length);
    }
}

//! A sorted list of address ranges, in memory of the agent's own.

use crate::private_memory::{self, AreaUse};

/// A mapped range of address space.
#[derive(Clone, Copy)]
pub struct LiveRange {
    pub start: u64,
    pub end: u64,
    /// The record of its block, or what it is instead.
    pub record: u32,
}

impl LiveRange {
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// The list: sorted by start. Its ranges are not empty and do not overlap.
pub struct LiveRanges {
    ranges: *mut LiveRange,
    capacity: usize,
    length: usize,
}

const FIRST: usize = 256;

impl LiveRanges {
    pub const fn new() -> Self {
        Self { ranges: core::ptr::null_mut(), capacity: 0, length: 0 }
    }

    /// Forgets all ranges.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn all(&self) -> &[LiveRange] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `length` ranges are there.
        unsafe { core::slice::from_raw_parts(self.ranges, self.length) }
    }

    /// The first range that ends after `address`.
    pub fn first_behind(&self, address: u64) -> usize {
        self.all().partition_point(|range| range.end <= address)
    }

    pub fn insert(&mut self, at: usize, range: LiveRange) -> bool {
        if self.length == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: there is room for one more.
        unsafe {
            let slot = self.ranges.add(at);
            core::ptr::copy(slot, slot.add(1), self.length - at);
            slot.write(range);
        }
        self.length += 1;
        true
    }

    pub fn remove(&mut self, at: usize) -> Option<LiveRange> {
        let range = *self.all().get(at)?;
        // SAFETY: the ranges after it move up.
        unsafe {
            let slot = self.ranges.add(at);
            core::ptr::copy(slot.add(1), slot, self.length - at - 1);
        }
        self.length -= 1;
        Some(range)
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).max(FIRST);
        let Some(memory) = private_memory::take(capacity * size_of::<LiveRange>(), AreaUse::Various) else {
            return false;
        };
        // SAFETY: room for more than there are; the old memory is not used any more.
        unsafe {
            core::ptr::copy_nonoverlapping(self.ranges, memory.cast(), self.length);
            if self.capacity > 0 {
                private_memory::give_back(self.ranges.cast(), self.capacity * size_of::<LiveRange>());
            }
        }
        (self.ranges, self.capacity) = (memory.cast(), capacity);
        true
    }
}

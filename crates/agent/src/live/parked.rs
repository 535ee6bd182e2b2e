//! Records of dead blocks that a snapshot still needs, in the order of death: a ring that grows.

use crate::private_memory::{self, AreaUse};

/// The maximum number of parked records in a shard: beyond it the snapshot is given up to save memory.
const MOST: u32 = 1 << 16;
const FIRST: u32 = 1 << 10;

/// The queue of a shard.
pub struct Parked {
    numbers: *mut u32,
    /// A power of two; 0 with no memory yet.
    capacity: u32,
    head: u32,
    length: u32,
}

impl Parked {
    /// Empty.
    pub const fn new() -> Self {
        Self { numbers: core::ptr::null_mut(), capacity: 0, head: 0, length: 0 }
    }

    /// The number of parked records.
    #[inline(always)]
    pub fn length(&self) -> u32 {
        self.length
    }

    #[inline(always)]
    fn slot(&self, at: u32) -> *mut u32 {
        // SAFETY: masked; the capacity is not 0 where this is asked.
        unsafe { self.numbers.add((self.head.wrapping_add(at) & (self.capacity - 1)) as usize) }
    }

    /// Appends; false if there is no room.
    pub fn push(&mut self, number: u32) -> bool {
        if self.length == self.capacity && !self.grow() {
            return false;
        }
        // SAFETY: a slot within the ring.
        unsafe { *self.slot(self.length) = number };
        self.length += 1;
        true
    }

    /// The oldest.
    pub fn first(&self) -> Option<u32> {
        // SAFETY: a slot within the ring.
        (self.length > 0).then(|| unsafe { *self.slot(0) })
    }

    /// Drops the oldest.
    pub fn pop(&mut self) {
        self.head = self.head.wrapping_add(1);
        self.length -= 1;
    }

    fn grow(&mut self) -> bool {
        let capacity = if self.capacity == 0 { FIRST } else { self.capacity * 2 };
        if capacity > MOST {
            return false;
        }
        let Some(memory) = private_memory::take(capacity as usize * 4, AreaUse::Various) else { return false };
        let mut larger = Self { numbers: memory.cast(), capacity, head: 0, length: self.length };
        for at in 0..self.length {
            // SAFETY: slots within the two rings.
            unsafe { *larger.slot(at) = *self.slot(at) };
        }
        core::mem::swap(self, &mut larger);
        larger.end();
        true
    }

    /// Unmaps its memory.
    pub fn end(&mut self) {
        if self.capacity != 0 {
            // SAFETY: a mapping of this size, which nothing refers to any more.
            unsafe { private_memory::give_back(self.numbers.cast(), self.capacity as usize * 4) };
        }
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out_up_to_the_most() {
        let mut parked = Parked::new();
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..100 {
            for _ in 0..round * 30 {
                assert!(parked.push(pushed));
                pushed += 1;
            }
            for _ in 0..round * 20 {
                assert_eq!(parked.first(), Some(popped));
                parked.pop();
                popped += 1;
            }
        }
        assert_eq!(parked.length(), pushed - popped);
        while parked.length() < MOST {
            assert!(parked.push(0));
        }
        assert!(!parked.push(0));
        parked.end();
    }
}

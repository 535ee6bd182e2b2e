//! The live blocks of all open measures, by address.
//!
//! A block has an entry for each measure that counts it: a measure within another one counts for both. So an entry needs no list, and a free or a
//! reallocation by any thread finds all measures that it concerns, in one place.
//!
//! A lookup holds the lock of one shard. The lock of a measure is taken within it, never the other way round.

use super::measure::{Measure, ThreadMark};
use super::private_array::PrivateArray;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A live block of one measure.
#[derive(Clone, Copy)]
pub(super) struct BlockEntry {
    /// Its address, or a number beyond all addresses while it is being reallocated. 0 in an empty slot.
    pub(super) key: u64,
    pub(super) measure: *const Measure,
    /// Measures are used again: the one for which the block counts had this number.
    pub(super) generation: u64,
    /// The bytes that count.
    pub(super) bytes: u64,
    /// What it had before the measure, if it is older. Then only what it grew counts.
    pub(super) older_bytes: Option<u64>,
    /// The number of its allocation, among those of all measures; 0 if it is older than the measure.
    pub(super) allocation: u64,
    /// The mark of the thread that it belongs to.
    pub(super) thread: *const ThreadMark,
    pub(super) site: u32,
}

const EMPTY: BlockEntry = BlockEntry {
    key: 0,
    measure: std::ptr::null(),
    generation: 0,
    bytes: 0,
    older_bytes: None,
    allocation: 0,
    thread: std::ptr::null(),
    site: 0,
};

/// A part of the table: open addressing, in which equal keys follow each other.
pub(super) struct Shard {
    slots: PrivateArray<BlockEntry>,
    used: usize,
}

// SAFETY: measures and marks of threads are never unmapped, and any thread may use them.
unsafe impl Send for Shard {}

const SHARDS: usize = 64;
const FIRST_SLOTS: usize = 32;
static TABLE: [Mutex<Shard>; SHARDS] = [const { Mutex::new(Shard { slots: PrivateArray::new(), used: 0 }) }; SHARDS];

fn hash(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// The part of the table that has a key.
pub(super) fn shard_of(key: u64) -> MutexGuard<'static, Shard> {
    TABLE[hash(key) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn first_slot(&self, key: u64) -> usize {
        (hash(key) / SHARDS) & (self.slots.len() - 1)
    }

    /// Adds an entry; false if there is no memory.
    pub(super) fn insert(&mut self, entry: BlockEntry) -> bool {
        if self.used >= self.slots.len() / 4 * 3 && !self.grow() {
            return false;
        }
        self.put(entry);
        true
    }

    /// There is a free slot.
    fn put(&mut self, entry: BlockEntry) {
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(entry.key);
        while self.slots[at].key != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = entry;
        self.used += 1;
    }

    fn grow(&mut self) -> bool {
        let mut larger = PrivateArray::new();
        let length = (self.slots.len() * 2).max(FIRST_SLOTS);
        if !larger.reserve(length) || (0..length).any(|_| !larger.push(EMPTY)) {
            return false;
        }
        let old = std::mem::replace(&mut self.slots, larger);
        self.used = 0;
        old.iter().filter(|entry| entry.key != 0).for_each(|entry| self.put(*entry));
        true
    }

    /// Takes one entry with this key out.
    pub(super) fn take(&mut self, key: u64) -> Option<BlockEntry> {
        if self.used == 0 {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(key);
        while self.slots[at].key != key {
            if self.slots[at].key == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
        Some(self.take_slot(at))
    }

    /// Empties a slot, and moves later entries that could not be found any more.
    fn take_slot(&mut self, slot: usize) -> BlockEntry {
        let mask = self.slots.len() - 1;
        let taken = self.slots[slot];
        let (mut hole, mut at) = (slot, slot);
        loop {
            at = (at + 1) & mask;
            let entry = self.slots[at];
            if entry.key == 0 {
                break;
            }
            // Whether the hole lies between the entry's first slot and the entry.
            if at.wrapping_sub(self.first_slot(entry.key)) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = entry;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.used -= 1;
        taken
    }

    /// Whether a measure has an entry with this key.
    pub(super) fn has(&self, key: u64, measure: *const Measure) -> bool {
        if self.used == 0 {
            return false;
        }
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(key);
        while self.slots[at].key != 0 {
            if self.slots[at].key == key && std::ptr::eq(self.slots[at].measure, measure) {
                return true;
            }
            at = (at + 1) & mask;
        }
        false
    }

    fn forget(&mut self, measure: *const Measure) {
        let mut at = 0;
        while at < self.slots.len() {
            let is_of_measure = self.slots[at].key != 0 && std::ptr::eq(self.slots[at].measure, measure);
            if is_of_measure {
                // Another entry may have moved here.
                self.take_slot(at);
            } else {
                at += 1;
            }
        }
        if self.used == 0 {
            self.slots.clear();
        }
    }
}

/// Removes all blocks of a measure that has ended.
pub(super) fn forget(measure: *const Measure) {
    for shard in &TABLE {
        shard.lock().unwrap_or_else(PoisonError::into_inner).forget(measure);
    }
}

//! A hash index from a 64-bit key to a slot number, made for the ledger.
//!
//! Open addressing, linear probing, at most a quarter full, since an occupied home position is a branch that the processor cannot predict. An entry is
//! one word: 32 bits of the key's hash and the slot number plus one; zero is free. The home position depends on the hash alone, so that entries can be
//! moved (deletion by shifting back, growth) without their keys. Eight neighbouring keys have their homes in one cache line: allocations with
//! neighbouring numbers or addresses tend to be needed together. The keys are stored in the caller's blocks, which the caller reads anyway; a lookup
//! verifies a hash match by a closure.
//!
//! A general map is not used because this lookup is most of the cost of an event, and a general map neither keeps neighbours together nor leaves the
//! keys with the caller.

/// Hash index from keys to slots. The keys themselves are stored by the caller.
#[derive(Clone, Debug)]
pub struct SlotIndex {
    /// `hash32 << 32 | slot + 1`, or 0. The length is a power of two.
    entries: Vec<u64>,
    occupied: usize,
    /// 35 − log2(entries): shifts a 32-bit hash to the number of its home's line.
    shift: u32,
}

const SMALLEST_LOG2: u32 = 6;
/// Entries in a cache line, as a power of two.
const LINE_LOG2: u32 = 3;
const IN_LINE: u64 = (1 << LINE_LOG2) - 1;

/// The key's position in a line in the lowest bits; all other bits scattered.
#[inline]
fn hash(key: u64) -> u64 {
    let line = key >> LINE_LOG2;
    let scattered = (line ^ (line >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    scattered & !IN_LINE | key & IN_LINE
}

impl Default for SlotIndex {
    fn default() -> Self {
        Self::with_log2(SMALLEST_LOG2)
    }
}

impl SlotIndex {
    fn with_log2(log2: u32) -> Self {
        Self { entries: vec![0; 1 << log2], occupied: 0, shift: 32 + LINE_LOG2 - log2 }
    }

    /// An index with room for `count` slots.
    pub fn with_room_for(count: usize) -> Self {
        let needed = (count * 4 + 4).next_power_of_two();
        Self::with_log2(needed.trailing_zeros().clamp(SMALLEST_LOG2, 31))
    }

    #[inline]
    fn home(&self, hash32: u64) -> usize {
        ((hash32 >> self.shift) << LINE_LOG2 | hash32 & IN_LINE) as usize
    }

    #[inline]
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    #[inline]
    fn position(&self, key: u64, mut is_key: impl FnMut(u32) -> bool) -> Option<usize> {
        let hash32 = hash(key);
        let mut at = self.home(hash32) & self.mask();
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if entry >> 32 == hash32 && is_key(entry as u32 - 1) {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// The slot of `key`. `is_key` tests whether a slot holds that key.
    #[inline]
    pub fn find(&self, key: u64, is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(key, is_key).map(|at| self.entries[at] as u32 - 1)
    }

    /// Adds a key that must not be in the index.
    #[inline]
    pub fn insert(&mut self, key: u64, slot: u32) {
        self.make_room();
        self.place(hash(key) << 32 | u64::from(slot + 1));
        self.occupied += 1;
    }

    #[inline]
    fn make_room(&mut self) {
        if (self.occupied + 1) * 4 > self.entries.len() {
            self.grow();
        }
    }

    #[inline]
    fn place(&mut self, entry: u64) {
        let mut at = self.home(entry >> 32) & self.mask();
        while self.entries[at] != 0 {
            at = (at + 1) & self.mask();
        }
        self.entries[at] = entry;
    }

    /// Removes `key` and returns its slot.
    #[inline]
    pub fn remove(&mut self, key: u64, is_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut hole = self.position(key, is_key)?;
        let slot = self.entries[hole] as u32 - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            // The entry may fill the hole only if the hole lies between the entry's home and its present position.
            let home = self.home(entry >> 32) & self.mask();
            if (at.wrapping_sub(home) & self.mask()) >= (at.wrapping_sub(hole) & self.mask()) {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
        self.occupied -= 1;
        Some(slot)
    }

    #[cold]
    fn grow(&mut self) {
        // Beyond 2^31 entries the 32-bit hash no longer spreads; probing gets longer but stays right.
        let log2 = (32 + LINE_LOG2 - self.shift + 1).min(31);
        let old = std::mem::replace(self, Self::with_log2(log2));
        self.occupied = old.occupied;
        for entry in old.entries.into_iter().filter(|&entry| entry != 0) {
            self.place(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((0u64..300, any::<bool>()), 0..2000)) {
            let mut index = SlotIndex::default();
            let mut keys: Vec<u64> = Vec::new();
            let mut model: HashMap<u64, u32> = HashMap::new();
            for (number, insert) in steps {
                let key = number.wrapping_mul(0x10) << (number % 40);
                let known = model.get(&key).copied();
                prop_assert_eq!(index.find(key, |slot| keys[slot as usize] == key), known);
                if insert && known.is_none() {
                    keys.push(key);
                    let slot = keys.len() as u32 - 1;
                    index.insert(key, slot);
                    model.insert(key, slot);
                } else if !insert {
                    prop_assert_eq!(index.remove(key, |slot| keys[slot as usize] == key), model.remove(&key));
                }
            }
            for (key, slot) in model {
                prop_assert_eq!(index.find(key, |at| keys[at as usize] == key), Some(slot));
            }
        }
    }
}

//! Index from addresses to slots, built like page tables: no hashing, no probing, nothing to move when it grows.
//!
//! The address space is divided into regions of 1 KiB. A region in which a block begins has a table with a slot for each 16 bytes. Blocks that are
//! close together in the program are therefore close together here: a program that walks its memory in order makes the index walk in order. A hash
//! would access another cache line, and another page, each time.
//!
//! Small blocks cost 4 bytes for each 16 that they take. A lone block costs a table of 256 bytes and its part of a directory: with one block every 64
//! KiB, 512 bytes each. Larger regions would make the tables larger, smaller regions the directories.
//!
//! Addresses that are not multiples of 16, and addresses that no program can have, are rare. They are kept in a separate map.

use rustc_hash::FxHashMap;

const GRAIN_LOG2: u32 = 4;
const REGION_LOG2: u32 = 10;
const DIRECTORY_LOG2: u32 = 32;
const ADDRESS_BITS: u32 = 48;
const SLOTS: usize = 1 << (REGION_LOG2 - GRAIN_LOG2);
const REGIONS: usize = 1 << (DIRECTORY_LOG2 - REGION_LOG2);
const DIRECTORIES: usize = 1 << (ADDRESS_BITS - DIRECTORY_LOG2);

/// A table: the slot of each block plus one; 0 where none begins.
type RegionTable = [u32; SLOTS];

/// Index from addresses to slots: directories per 4 GiB, tables per 1 KiB, one entry per 16 bytes.
#[derive(Clone, Debug)]
pub struct AddressIndex {
    /// For each 4 GiB the number of its directory; 0 is the empty one.
    tops: Vec<u32>,
    /// For each region of 4 GiB the number of its table; 0 is the empty one.
    directories: Vec<Box<[u32]>>,
    tables: Vec<RegionTable>,
    odd: FxHashMap<u64, u32>,
}

impl Default for AddressIndex {
    fn default() -> Self {
        Self {
            tops: vec![0; DIRECTORIES],
            directories: vec![new_directory()],
            tables: vec![[0; SLOTS]],
            odd: FxHashMap::default(),
        }
    }
}

/// Zeroed memory of this size is not touched until it is used.
fn new_directory() -> Box<[u32]> {
    vec![0; REGIONS].into_boxed_slice()
}

#[inline(always)]
fn is_plain(address: u64) -> bool {
    address & 15 == 0 && address >> ADDRESS_BITS == 0
}

#[inline(always)]
fn region_of(address: u64) -> usize {
    (address >> REGION_LOG2) as usize % REGIONS
}

#[inline(always)]
fn slot_of(address: u64) -> usize {
    (address >> GRAIN_LOG2) as usize % SLOTS
}

impl AddressIndex {
    /// The number of the table of an address; 0 where there is none.
    #[inline(always)]
    fn table(&self, address: u64) -> usize {
        let directory = self.tops[(address >> DIRECTORY_LOG2) as usize % DIRECTORIES];
        self.directories[directory as usize][region_of(address)] as usize
    }

    /// The slot at an address.
    #[inline(always)]
    pub fn find(&self, address: u64) -> Option<u32> {
        let found =
            if is_plain(address) { self.tables[self.table(address)][slot_of(address)] } else { self.find_odd(address) };
        found.checked_sub(1)
    }

    #[cold]
    fn find_odd(&self, address: u64) -> u32 {
        self.odd.get(&address).copied().unwrap_or(0)
    }

    /// The entry of an address: its slot plus one, or 0 if there is none. `None` for odd addresses.
    #[inline(always)]
    pub fn cell(&mut self, address: u64) -> Option<&mut u32> {
        if !is_plain(address) {
            return None;
        }
        let mut table = self.table(address);
        if table == 0 {
            table = self.add_table(address);
        }
        Some(&mut self.tables[table][slot_of(address)])
    }

    /// Maps an address to a slot. Returns the slot that it was mapped to before, if any.
    #[inline(always)]
    pub fn replace(&mut self, address: u64, slot: u32) -> Option<u32> {
        if !is_plain(address) {
            return self.replace_odd(address, slot);
        }
        let mut table = self.table(address);
        if table == 0 {
            table = self.add_table(address);
        }
        std::mem::replace(&mut self.tables[table][slot_of(address)], slot + 1).checked_sub(1)
    }

    #[cold]
    fn replace_odd(&mut self, address: u64, slot: u32) -> Option<u32> {
        self.odd.insert(address, slot + 1).and_then(|found| found.checked_sub(1))
    }

    /// Removes an address. Returns its slot.
    #[inline(always)]
    pub fn remove(&mut self, address: u64) -> Option<u32> {
        if !is_plain(address) {
            return self.remove_odd(address);
        }
        let table = self.table(address);
        std::mem::take(&mut self.tables[table][slot_of(address)]).checked_sub(1)
    }

    #[cold]
    fn remove_odd(&mut self, address: u64) -> Option<u32> {
        self.odd.remove(&address).and_then(|found| found.checked_sub(1))
    }

    /// Adds a table for the region of an address, and returns its number.
    #[cold]
    fn add_table(&mut self, address: u64) -> usize {
        let number = self.tables.len();
        self.tables.push([0; SLOTS]);
        let directory = &mut self.tops[(address >> DIRECTORY_LOG2) as usize % DIRECTORIES];
        if *directory == 0 {
            *directory = self.directories.len() as u32;
            self.directories.push(new_directory());
        }
        self.directories[*directory as usize][region_of(address)] = number as u32;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Addresses that collide: neighbours in a table, in other tables and directories, odd ones and impossible ones.
    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => (0u64..200).prop_map(|at| 0x7f12_3456_7000 + at * 16),
            2 => (0u64..64).prop_map(|at| at << 28),
            1 => (0u64..64).prop_map(|at| 0x5555_0000_0000 + at * 4),
            1 => (0u64..8).prop_map(|at| u64::MAX - at * 16),
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((address(), 0u8..3), 0..1000)) {
            let mut index = AddressIndex::default();
            let mut model: HashMap<u64, u32> = HashMap::new();
            for (slot, (address, what)) in (0..).zip(steps) {
                match what {
                    0 => prop_assert_eq!(index.replace(address, slot), model.insert(address, slot)),
                    1 => prop_assert_eq!(index.remove(address), model.remove(&address)),
                    _ => prop_assert_eq!(index.find(address), model.get(&address).copied()),
                }
            }
            for (address, slot) in model {
                prop_assert_eq!(index.find(address), Some(slot));
            }
        }
    }
}

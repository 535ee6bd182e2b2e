//! From an address to its record, within one shard: open addressing, private to the process.
//!
//! A slot has 32 bits: the record's number, four bits of the address's hash (the *tag*), and how far the slot is from the one that the hash names (the
//! *distance*, plus one; 0 is a free slot). An address matches if distance and tag do, which is verified in the record: it is needed next in any case.
//!
//! Entries are in the order of the slots that their hashes name (Robin Hood hashing). So a lookup ends where an entry is closer to its own slot, and a removed
//! entry's place is taken by the following ones that are not in their own: no hash needs to be known for that.
//!
//! The tag consists of the bits of the hash that come after those that choose the slot. When the number of slots doubles, the first of these bits chooses between
//! the two new slots, and the tag is one bit shorter. When few bits are left, the addresses are read from the records.
//!
//! Shards begin with different numbers of slots, from one number to almost twice that: so they do not grow all at the same time, and the free slots of
//! all shards together are always about the same share.
//!
//! Invariants: slots are at most 8/9 full; from the slot that a hash names to its entry no slot is free, and distances never fall by
//! more than one slot gives; no distance is larger than `MOST_DISTANCE`.

use super::index_slots::{self, LEVELS, TAIL};
use highwater_shm::table_v1::TableCapacity;

/// 2^48 divided by the golden ratio: spreads neighbouring addresses.
const FACTOR: u64 = 0x9e37_79b9_7f4b;
const MASK_48: u64 = (1 << 48) - 1;
const REST_BITS: u32 = 40;

const NUMBER_BITS: u32 = 22;
const TAG_BITS: u32 = 4;
const DISTANCE_SHIFT: u32 = NUMBER_BITS + TAG_BITS;
const ONE_FURTHER: u32 = 1 << DISTANCE_SHIFT;
/// The distance, among the bits of an entry.
const DISTANCE: u32 = u32::MAX << DISTANCE_SHIFT;
/// The largest distance that a slot can express.
const MOST_DISTANCE: u32 = 62;
/// With fewer bits of the tag the number of slots is not doubled without reading the records.
const LEAST_KNOWN: u32 = 2;

const _: () = assert!(TableCapacity::LARGEST.shard_records as u64 <= 1 << NUMBER_BITS);
const _: () = assert!(TAIL as u32 > MOST_DISTANCE);

/// The shard of an address, and the rest of its hash: 40 bits.
#[inline(always)]
pub fn shard_and_rest(address: u64) -> (u32, u64) {
    let product = (address & MASK_48).wrapping_mul(FACTOR) & MASK_48;
    ((product >> REST_BITS) as u32, product & ((1 << REST_BITS) - 1))
}

/// Prefetches the slot of an address that will soon be looked up.
#[inline(always)]
pub fn expect(address: u64) {
    let (shard, rest) = shard_and_rest(address);
    index_slots::prefetch(shard, |slots| (rest * slots) >> REST_BITS);
}

/// The addresses of records, by their numbers.
pub trait Addresses {
    /// The address in the record of a live block.
    fn address(&self, number: u32) -> u64;
}

/// The index of a shard.
pub struct ShardIndex {
    slots: *mut u32,
    /// The number of slots that a hash can name. More follow, for entries that are not in their own.
    count: u32,
    used: u32,
    /// No more than this number of entries without growing.
    limit: u32,
    /// The shard it belongs to: selects its slots.
    shard: u16,
    level: u8,
    /// The number of bits that tags have.
    known: u8,
    /// The bits of an entry that are compared: its distance and those bits of its tag.
    compared: u32,
}

/// A hash in a table of some number of slots: the slot it names, and an entry there, without a number.
#[derive(Clone, Copy)]
struct Home {
    at: usize,
    entry: u32,
}

/// The number in an entry.
#[inline(always)]
fn number_in(entry: u32) -> u32 {
    entry & ((1 << NUMBER_BITS) - 1)
}

impl Default for ShardIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl ShardIndex {
    /// Without slots.
    pub const fn new() -> Self {
        Self { slots: core::ptr::null_mut(), count: 0, used: 0, limit: 0, shard: 0, level: 0, known: 0, compared: 0 }
    }

    /// Begins empty; false if there is no memory.
    pub fn begin(&mut self, shard: u32) -> bool {
        let Some(first) = Self::at_level(shard as u16, 0) else { return false };
        *self = first;
        index_slots::hint(shard, self.slots, self.count);
        true
    }

    /// An empty one with the slots of a level.
    fn at_level(shard: u16, level: u8) -> Option<Self> {
        let (slots, count) = index_slots::slots_of(shard.into(), level.into())?;
        let mut new = Self { slots, count, limit: count - count.div_ceil(9), shard, level, ..Self::new() };
        new.set_known(TAG_BITS as u8);
        Some(new)
    }

    #[inline(always)]
    fn home(&self, rest: u64) -> Home {
        let product = rest * u64::from(self.count);
        let tag = (product >> (REST_BITS - TAG_BITS)) as u32 & ((1 << TAG_BITS) - 1);
        Home { at: (product >> REST_BITS) as usize, entry: ONE_FURTHER | tag << NUMBER_BITS }
    }

    /// SAFETY: `at` is below the number of slots, with the tail.
    #[inline(always)]
    unsafe fn slot(&self, at: usize) -> *mut u32 {
        // SAFETY: the caller's.
        unsafe { self.slots.add(at) }
    }

    fn set_known(&mut self, known: u8) {
        self.known = known;
        self.compared = u32::MAX << (DISTANCE_SHIFT - u32::from(known));
    }

    /// Where the entry of an address is; or, as an error, where it would be, and what it would be there without its number. That is 0 if its distance would be
    /// too large.
    #[inline(always)]
    fn find(&self, rest: u64, address: u64, records: &impl Addresses) -> Result<usize, Home> {
        let address = address & MASK_48;
        let Home { mut at, mut entry } = self.home(rest);
        loop {
            // SAFETY: the tail has more slots than the largest distance.
            let found = unsafe { *self.slot(at) };
            if (found ^ entry) & self.compared == 0 && records.address(number_in(found)) == address {
                return Ok(at);
            }
            if found < entry & DISTANCE {
                return Err(Home { at, entry });
            }
            at += 1;
            entry = entry.wrapping_add(ONE_FURTHER);
            if entry < ONE_FURTHER {
                return Err(Home { at, entry: 0 });
            }
        }
    }

    /// Puts a record under its address. Returns the record that was there before, if any; an error if there is no memory.
    #[inline(always)]
    pub fn insert(
        &mut self,
        rest: u64,
        address: u64,
        number: u32,
        records: &impl Addresses,
    ) -> Result<Option<u32>, NoMemory> {
        if self.used >= self.limit && self.grow(records).is_err() && self.used >= self.count {
            return Err(NoMemory);
        }
        match self.find(rest, address, records) {
            Ok(at) => {
                // SAFETY: found there.
                let slot = unsafe { &mut *self.slot(at) };
                let before = number_in(*slot);
                *slot = *slot - before + number;
                Ok(Some(before))
            }
            Err(place) if self.put(place, number) => Ok(None),
            Err(_) => self.insert_after_growth(rest, number, records),
        }
    }

    /// Puts an entry where [`find`](Self::find) says. False, and nothing changed, if a distance would become too large.
    #[inline(always)]
    fn put(&mut self, place: Home, number: u32) -> bool {
        // SAFETY: distances bound the slots, see `find`.
        let is_free = place.entry != 0 && unsafe { *self.slot(place.at) } == 0;
        if !is_free && !self.make_room(place) {
            return false;
        }
        // SAFETY: likewise.
        unsafe { *self.slot(place.at) = place.entry + number };
        self.used += 1;
        true
    }

    /// Moves the entries from a place to the next free slot by one slot.
    #[inline(never)]
    fn make_room(&mut self, place: Home) -> bool {
        let mut free = place.at;
        let mut largest = 0;
        // SAFETY: distances bound the slots, see `find`.
        unsafe {
            while *self.slot(free) != 0 {
                largest = largest.max(*self.slot(free));
                free += 1;
            }
            if place.entry == 0 || largest >> DISTANCE_SHIFT > MOST_DISTANCE {
                return false;
            }
            while free > place.at {
                *self.slot(free) = *self.slot(free - 1) + ONE_FURTHER;
                free -= 1;
            }
        }
        true
    }

    /// Too many entries want the same few slots, which more slots separate.
    #[cold]
    #[inline(never)]
    fn insert_after_growth(
        &mut self,
        rest: u64,
        number: u32,
        records: &impl Addresses,
    ) -> Result<Option<u32>, NoMemory> {
        // An index that is nearly empty does not get better by growing.
        while self.used >= self.count / 16 {
            self.grow(records)?;
            let home = self.home(rest);
            if self.place(home, number) {
                return Ok(None);
            }
        }
        Err(NoMemory)
    }

    /// Puts an entry whose address is not in the index.
    fn place(&mut self, Home { mut at, mut entry }: Home, number: u32) -> bool {
        // SAFETY: distances bound the slots, see `find`.
        while entry != 0 && unsafe { *self.slot(at) } >= entry & DISTANCE {
            at += 1;
            entry = entry.checked_add(ONE_FURTHER).unwrap_or(0);
        }
        self.put(Home { at, entry }, number)
    }

    /// Removes the record under an address, and returns it.
    #[inline(always)]
    pub fn remove(&mut self, rest: u64, address: u64, records: &impl Addresses) -> Option<u32> {
        let mut at = self.find(rest, address, records).ok()?;
        // SAFETY: the slots of entries; the last one of the tail is always free.
        unsafe {
            let number = number_in(*self.slot(at));
            loop {
                let next = *self.slot(at + 1);
                if next >> DISTANCE_SHIFT <= 1 {
                    break;
                }
                *self.slot(at) = next - ONE_FURTHER;
                at += 1;
            }
            *self.slot(at) = 0;
            self.used -= 1;
            Some(number)
        }
    }

    /// Moves to twice as many slots, or more if entries are too crowded there.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, records: &impl Addresses) -> Result<(), NoMemory> {
        for level in u32::from(self.level) + 1..LEVELS {
            let Some(mut larger) = Self::at_level(self.shard, level as u8) else { break };
            let doubles = level == u32::from(self.level) + 1;
            if doubles && u32::from(self.known) > LEAST_KNOWN {
                larger.set_known(self.known - 1);
            }
            if !self.move_to(&mut larger, records) {
                larger.clear();
                continue;
            }
            index_slots::hint(self.shard.into(), larger.slots, larger.count);
            (u32::from(self.level)..level).for_each(|level| index_slots::leave(self.shard.into(), level));
            *self = larger;
            return Ok(());
        }
        Err(NoMemory)
    }

    /// Empties all slots.
    fn clear(&mut self) {
        // SAFETY: all slots.
        unsafe { self.slots.write_bytes(0, self.count as usize + TAIL) };
    }

    /// Copies all entries; false if a distance would become too large.
    fn move_to(&self, larger: &mut Self, records: &impl Addresses) -> bool {
        (0..self.count as usize + TAIL).all(|at| {
            // SAFETY: all slots.
            let entry = unsafe { *self.slot(at) };
            if entry == 0 {
                return true;
            }
            let home = if larger.known < self.known {
                let tag = entry << (32 - DISTANCE_SHIFT) >> (32 - TAG_BITS);
                let own = at + 1 - (entry >> DISTANCE_SHIFT) as usize;
                let (side, rest) = (tag >> (TAG_BITS - 1), tag << 1 & ((1 << TAG_BITS) - 1));
                Home { at: own * 2 + side as usize, entry: ONE_FURTHER | rest << NUMBER_BITS }
            } else {
                larger.home(shard_and_rest(records.address(number_in(entry))).1)
            };
            larger.place(home, number_in(entry))
        })
    }
}

/// There is no memory for more.
#[derive(Debug)]
pub struct NoMemory;

#[cfg(test)]
mod tests {
    use super::*;

    /// Records by number.
    struct Held<'a>(&'a [u64]);

    impl Addresses for Held<'_> {
        fn address(&self, number: u32) -> u64 {
            self.0[number as usize]
        }
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0 >> 33
        }
    }

    /// Inserts and removes at random among these addresses, which may be of any shard, and compares with what must be there.
    fn finds_what_was_put_and_nothing_else(index: &mut ShardIndex, addresses: &[u64], steps: u32) {
        const NONE: u32 = u32::MAX;
        assert!(addresses.len() <= 4096);
        // A record for each address: two in turn, so that a duplicate is another record.
        let (mut records, mut held) = ([0; 8192], [NONE; 4096]);
        for (at, address) in addresses.iter().enumerate() {
            records[at * 2..at * 2 + 2].fill(*address);
        }
        let (records, mut random) = (Held(&records), Random(1));
        let before = |held: u32| (held != NONE).then_some(held);
        for _ in 0..steps {
            let at = random.next() as usize % addresses.len();
            let (address, rest) = (addresses[at], shard_and_rest(addresses[at]).1);
            if random.next() % 5 < 3 {
                let number = at as u32 * 2 + random.next() as u32 % 2;
                assert_eq!(index.insert(rest, address, number, &records).unwrap(), before(held[at]));
                held[at] = number;
            } else {
                assert_eq!(index.remove(rest, address, &records), before(held[at]));
                held[at] = NONE;
            }
        }
        for (at, &address) in addresses.iter().enumerate() {
            assert_eq!(index.remove(shard_and_rest(address).1, address, &records), before(held[at]));
        }
        assert_eq!(index.used, 0);
        // SAFETY: all slots.
        assert!((0..index.count as usize + TAIL).all(|at| unsafe { *index.slot(at) } == 0));
    }

    #[test]
    fn finds_addresses_of_a_heap() {
        let mut index = ShardIndex::new();
        assert!(index.begin(7));
        let addresses: [u64; 4000] = core::array::from_fn(|at| 0x5555_0000_0000 + at as u64 * 64);
        finds_what_was_put_and_nothing_else(&mut index, &addresses, 200_000);
        assert!(index.level >= 7, "it grew by doubling and by reading records");
    }

    #[test]
    fn finds_addresses_that_crowd_around_few_slots() {
        // The inverse of the factor: addresses whose products are neighbours.
        let inverse =
            (0..6).fold(FACTOR, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(FACTOR.wrapping_mul(inverse))));
        let mut index = ShardIndex::new();
        assert!(index.begin(8));
        let addresses: [u64; 40] = core::array::from_fn(|at| (at as u64).wrapping_mul(inverse) & MASK_48);
        finds_what_was_put_and_nothing_else(&mut index, &addresses, 20_000);
        // More than a distance can express: refused, without growing for ever, and the others stay.
        let mut index = ShardIndex::new();
        assert!(index.begin(9));
        let addresses: [u64; 100] = core::array::from_fn(|at| (at as u64 + 1).wrapping_mul(inverse) & MASK_48);
        let records = Held(&addresses);
        let put = |index: &mut ShardIndex, at: usize| {
            index.insert(shard_and_rest(addresses[at]).1, addresses[at], at as u32, &records).is_ok()
        };
        let kept = (0..100).filter(|&at| put(&mut index, at)).count();
        assert!((MOST_DISTANCE as usize..100).contains(&kept), "{kept}");
        assert!(index.level < 10);
        let found = (0..100)
            .filter(|&at| index.remove(shard_and_rest(addresses[at]).1, addresses[at], &records) == Some(at as u32))
            .count();
        assert_eq!(found, kept);
    }

    #[test]
    fn neighbours_are_spread_over_the_shards() {
        let mut shards = [0; 256];
        (0..4096).for_each(|at| shards[shard_and_rest(0x7f00_0000_0000 + at * 16).0 as usize] += 1);
        assert!(shards.iter().all(|&addresses| addresses < 40));
    }
}

//! From an address to its record, within one shard: open addressing, private to the process.
//!
//! An address of 48 bits is multiplied by an odd number, modulo 2^48, which loses nothing. The upper 8 bits of the product are the shard, so
//! the other 40 (its *rest*) identify the address within the shard. An entry is the rest and the record's number plus one, 24 bits, in one
//! word; 0 is a free slot. So a lookup never touches a record that is not the right one.
//!
//! Invariants: slots are a power of two, at most three quarters are taken; from the slot that a rest's upper bits name to its entry no slot
//! is free.

use crate::lock::Lock;
use crate::sys;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use highwater_shm::table_v1::BLOCK_SHARDS;

/// 2^48 divided by the golden ratio: spreads neighbouring addresses.
const FACTOR: u64 = 0x9e37_79b9_7f4b;
const MASK_48: u64 = (1 << 48) - 1;
const REST_BITS: u32 = 40;
const NUMBER_BITS: u32 = 24;

/// The shard of an address, and its rest.
#[inline(always)]
pub fn shard_and_rest(address: u64) -> (u32, u64) {
    let product = (address & MASK_48).wrapping_mul(FACTOR) & MASK_48;
    ((product >> REST_BITS) as u32, product & ((1 << REST_BITS) - 1))
}

/// Prefetches the slot of an address that will soon be looked up.
#[inline(always)]
pub fn expect(address: u64) {
    let (shard, rest) = shard_and_rest(address);
    let hint = HINTS[shard as usize].load(Ordering::Relaxed);
    let slot = (hint & ((1 << HINT_SHIFT) - 1)) + (rest >> (REST_BITS - (hint >> HINT_SHIFT) as u32)) * 8;
    // SAFETY: this instruction does nothing that a program could notice, wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(slot as *const i8) };
}

/// The index of a shard.
pub struct ShardIndex {
    slots: *mut u64,
    /// The number of slots, as a power of two; 0 with no memory yet.
    bits: u32,
    used: u32,
    /// The shard it belongs to: selects its slots in the arenas.
    shard: u32,
}

/// The slots of all shards' indexes, one arena for each size that they can have: shards grow at about the same time, so their slots lie side by side,
/// in large pages.
static ARENAS: [AtomicPtr<u8>; MOST_BITS as usize + 1] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST_BITS as usize + 1];
/// For each shard the address of its slots, and above that their number as a power of two. Used only for prefetching, so it may be out of date.
static HINTS: [AtomicU64; BLOCK_SHARDS as usize] = [const { AtomicU64::new(0) }; BLOCK_SHARDS as usize];
const HINT_SHIFT: u32 = 56;
static MAKING: Lock = Lock::new();
/// Slots that a shard begins with, as a power of two: 32 kB for all.
const FIRST_BITS: u32 = 4;
/// The maximum number of slots of a shard, as a power of two.
const MOST_BITS: u32 = 23;

fn arena_bytes(bits: u32) -> usize {
    (BLOCK_SHARDS as usize * 8) << bits
}

/// The slots of a shard's index of this size, zero; `None` if there is no memory.
fn slots_of(shard: u32, bits: u32) -> Option<*mut u64> {
    let arena = ARENAS.get(bits as usize)?;
    if arena.load(Ordering::Acquire).is_null() {
        MAKING.with(|| {
            if arena.load(Ordering::Relaxed).is_null()
                && let Some(memory) = sys::map_private_in_large_pages(arena_bytes(bits))
            {
                arena.store(memory, Ordering::Release);
            }
        });
    }
    let memory = arena.load(Ordering::Acquire);
    // SAFETY: within the arena.
    (!memory.is_null()).then(|| unsafe { memory.cast::<u64>().add((shard as usize) << bits) })
}

/// Unmaps all arenas, in a process that begins a new session.
pub fn forget_all() {
    MAKING.reset();
    for (bits, arena) in (0..).zip(&ARENAS) {
        let memory = arena.swap(core::ptr::null_mut(), Ordering::Relaxed);
        if !memory.is_null() {
            // SAFETY: no thread uses an index any more.
            unsafe { sys::unmap(memory, arena_bytes(bits)) };
        }
    }
}

impl Default for ShardIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl ShardIndex {
    /// Without slots.
    pub const fn new() -> Self {
        Self { slots: core::ptr::null_mut(), bits: 0, used: 0, shard: 0 }
    }

    /// Begins empty; false if there is no memory.
    pub fn begin(&mut self, shard: u32) -> bool {
        let Some(slots) = slots_of(shard, FIRST_BITS) else { return false };
        *self = Self { slots, bits: FIRST_BITS, used: 0, shard };
        self.hint();
        true
    }

    fn hint(&self) {
        HINTS[self.shard as usize].store(self.slots as u64 | u64::from(self.bits) << HINT_SHIFT, Ordering::Relaxed);
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        (1 << self.bits) - 1
    }

    #[inline(always)]
    fn home(&self, rest: u64) -> usize {
        (rest >> (REST_BITS - self.bits)) as usize
    }

    #[inline(always)]
    fn slot(&self, at: usize) -> *mut u64 {
        // SAFETY: masked.
        unsafe { self.slots.add(at & self.mask()) }
    }

    /// Where the entry of `rest` is, or the free slot where it would be.
    #[inline(always)]
    fn find(&self, rest: u64) -> (*mut u64, usize) {
        let mut at = self.home(rest);
        loop {
            let slot = self.slot(at);
            // SAFETY: a slot.
            let entry = unsafe { *slot };
            if entry == 0 || entry >> NUMBER_BITS == rest {
                return (slot, at);
            }
            at += 1;
        }
    }

    /// Puts a record under `rest`. Returns the record that was there before, if any; an error if there is no memory.
    #[inline(always)]
    pub fn insert(&mut self, rest: u64, number: u32) -> Result<Option<u32>, NoMemory> {
        if self.used as usize >= (1usize << self.bits) / 4 * 3 {
            self.grow()?;
        }
        let (slot, _) = self.find(rest);
        // SAFETY: a slot.
        unsafe {
            let before = *slot;
            *slot = rest << NUMBER_BITS | u64::from(number + 1);
            if before == 0 {
                self.used += 1;
                return Ok(None);
            }
            Ok(Some((before & ((1 << NUMBER_BITS) - 1)) as u32 - 1))
        }
    }

    /// Removes the record under `rest`, and returns it.
    #[inline(always)]
    pub fn remove(&mut self, rest: u64) -> Option<u32> {
        let (slot, at) = self.find(rest);
        // SAFETY: a slot.
        let entry = unsafe { *slot };
        if entry == 0 {
            return None;
        }
        self.close_gap(at);
        self.used -= 1;
        Some((entry & ((1 << NUMBER_BITS) - 1)) as u32 - 1)
    }

    /// Frees the slot at `gap`; entries after it that would not be found any more move up.
    #[inline(always)]
    fn close_gap(&mut self, mut gap: usize) {
        let mut next = gap + 1;
        loop {
            // SAFETY: slots.
            unsafe {
                let entry = *self.slot(next);
                if entry == 0 {
                    *self.slot(gap) = 0;
                    return;
                }
                let way = next.wrapping_sub(self.home(entry >> NUMBER_BITS)) & self.mask();
                if way >= (next.wrapping_sub(gap) & self.mask()) {
                    *self.slot(gap) = entry;
                    gap = next;
                }
            }
            next += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let slots = 1usize << self.bits;
        let Some(memory) = slots_of(self.shard, self.bits + 1) else {
            // One slot must stay free.
            return if (self.used as usize) < slots - 1 { Ok(()) } else { Err(NoMemory) };
        };
        let larger = Self { slots: memory, bits: self.bits + 1, used: self.used, shard: self.shard };
        for at in 0..slots {
            // SAFETY: slots of the two.
            unsafe {
                let entry = *self.slot(at);
                if entry != 0 {
                    *larger.find(entry >> NUMBER_BITS).0 = entry;
                }
            }
        }
        sys::give_back_pages(self.slots.cast(), slots * 8);
        *self = larger;
        self.hint();
        Ok(())
    }
}

/// There is no memory for more.
#[derive(Debug)]
pub struct NoMemory;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_and_nothing_else() {
        let mut index = ShardIndex::new();
        assert!(index.begin(7));
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        // Rests that crowd around one slot, so that chains are long and wrap around.
        let rests: [u64; 3000] =
            core::array::from_fn(|at| ((1u64 << 40) - 1).wrapping_sub(at as u64 * 3) & ((1 << 40) - 1));
        let mut held = [None; 3000];
        for step in 0..60_000u32 {
            let at = next() as usize % rests.len();
            if next() % 5 < 3 {
                assert_eq!(index.insert(rests[at], step).unwrap(), held[at]);
                held[at] = Some(step);
            } else {
                assert_eq!(index.remove(rests[at]), held[at]);
                held[at] = None;
            }
        }
        for (rest, held) in rests.iter().zip(held) {
            assert_eq!(index.remove(*rest), held);
        }
        assert_eq!(index.used, 0);
    }

    #[test]
    fn no_two_addresses_have_the_same_shard_and_rest() {
        let mut parts = [(0, 0); 4096];
        for (at, part) in parts.iter_mut().enumerate() {
            *part = shard_and_rest(0x7f00_0000_0000 + at as u64 * 16);
        }
        parts.sort_unstable();
        assert!(parts.windows(2).all(|pair| pair[0] != pair[1]));
        // Neighbours are spread over the shards.
        assert!(parts.chunk_by(|a, b| a.0 == b.0).all(|shard| shard.len() < 40));
    }
}

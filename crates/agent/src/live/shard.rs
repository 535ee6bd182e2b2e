//! One shard of the live table, from the writer's side: its lock, its records, and data about them that is private to the process.

use super::index::{Addresses, NoMemory, ShardIndex};
use super::parked::Parked;
use super::{control, weight};
use crate::sys;
use core::sync::atomic::Ordering;
use highwater_shm::control_v1::Word;
use highwater_shm::table_v1::{Count, Fate, TableBlock, TableRecord, TableShard, position};

/// The number of parked records that a change frees once the snapshot is over: a few, so that no single change pays for all.
const RECLAIMED_AT_ONCE: u32 = 8;
/// The clock is read once per this number of parked records.
const PARKED_BETWEEN_LOOKS: u32 = 32;
/// The number of records whose birth epoch a change clears while a sweep is wanted.
const SWEPT_AT_ONCE: u32 = 16;
const SPINS: u32 = 200;
const NAP_NS: u64 = 500_000;
/// After this number of naps during which the lock did not change hands, the shard is given up.
const MOST_NAPS: u32 = 4000;

/// Data private to the process. Touched only under the shard's lock. Every change touches its first cache line.
#[repr(align(64))]
pub struct Private {
    /// Maps addresses of blocks to their records.
    pub index: ShardIndex,
    /// The first free record, plus one; the next one's number is in its word 3.
    free: u32,
    parked: Parked,
    /// The record at which the sweep continues.
    sweep: u32,
}

impl Private {
    /// Empty.
    pub const fn new() -> Self {
        Self { index: ShardIndex::new(), free: 0, parked: Parked::new(), sweep: 0 }
    }

    /// Forgets everything, in a process that begins a new session.
    pub fn end(&mut self) {
        self.index = ShardIndex::new();
        self.parked.end();
        self.free = 0;
    }
}

/// Takes the shard's lock; false if its holder will never release it.
#[inline(always)]
pub fn lock(shard: &TableShard) -> bool {
    shard.try_lock() || lock_slowly(shard)
}

#[cold]
#[inline(never)]
fn lock_slowly(shard: &TableShard) -> bool {
    for _ in 0..SPINS {
        core::hint::spin_loop();
        if shard.try_lock() {
            return true;
        }
    }
    let (mut last, mut naps) = (0, 0);
    while shard.abandoned.load(Ordering::Relaxed) == 0 {
        let lock = shard.lock.load(Ordering::Relaxed);
        if lock & 1 == 1 {
            shard.waiters.fetch_add(1, Ordering::SeqCst);
            sys::futex_wait(&shard.lock, lock, NAP_NS);
            shard.waiters.fetch_sub(1, Ordering::SeqCst);
            naps = if lock == last { naps + 1 } else { 0 };
            last = lock;
        }
        if shard.try_lock() {
            return true;
        }
        if naps > MOST_NAPS {
            // Its holder was stopped for good, or left by a jump out of a signal handler. If it does release the lock later, the shard is used again.
            shard.abandoned.store(1, Ordering::Relaxed);
            super::header().abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
    let is_back = shard.try_lock();
    if is_back {
        shard.abandoned.store(0, Ordering::Relaxed);
    }
    is_back
}

/// Releases the lock.
#[inline(always)]
pub fn unlock(shard: &TableShard) {
    shard.unlock();
    if shard.waiters.load(Ordering::Relaxed) != 0 {
        wake(shard);
    }
}

#[cold]
fn wake(shard: &TableShard) {
    sys::futex_wake(&shard.lock);
}

/// The records of a shard, for its index.
struct ShardRecords {
    records: *const TableRecord,
    shard: u32,
}

impl Addresses for ShardRecords {
    #[inline(always)]
    fn address(&self, number: u32) -> u64 {
        // SAFETY: numbers lie below the capacity.
        unsafe { (*self.records.add(position(self.shard, number))).address() }
    }
}

/// Whether a record that was never used may be: an injected agent uses only those that its reader has allocated, so that none is charged to the process.
#[inline(always)]
fn is_provided(number: u32) -> bool {
    #[cfg(feature = "injected")]
    {
        let provided = crate::injected::page().shard_records_provided.load(Ordering::Relaxed);
        provided == 0 || u64::from(number) < provided
    }
    #[cfg(not(feature = "injected"))]
    {
        let _ = number;
        true
    }
}

/// A shard whose lock the caller holds, and the control word that was loaded since.
pub struct Locked<'a> {
    number: u32,
    shard: &'a TableShard,
    records: *const TableRecord,
    capacity: u32,
    private: &'a mut Private,
    word: Word,
}

impl<'a> Locked<'a> {
    /// Begins a change.
    ///
    /// # Safety
    /// The caller holds the lock of `shard`, whose number is `number`. `private` belongs to the shard. `records` are those of the table, with room for
    /// `capacity` of each shard. `word` was loaded after locking.
    #[inline(always)]
    pub unsafe fn new(
        number: u32,
        shard: &'a TableShard,
        records: *const TableRecord,
        capacity: u32,
        private: &'a mut Private,
        word: Word,
    ) -> Self {
        shard.begin_change(word);
        if private.parked.length() > 0 || word.wants_sweep() {
            Locked { number, shard, records, capacity, private: &mut *private, word }.tidy();
        }
        // Made here and not before, so that its fields need no memory: copying them would cost as much as a lookup.
        Self { number, shard, records, capacity, private, word }
    }

    /// Does a part of the work that snapshots leave.
    #[cold]
    #[inline(never)]
    fn tidy(mut self) {
        if self.private.parked.length() > 0 {
            self.reclaim();
        }
        if self.word.wants_sweep() {
            self.sweep();
        }
    }

    #[inline(always)]
    fn record(&self, number: u32) -> &'a TableRecord {
        // SAFETY: numbers lie below the capacity.
        unsafe { &*self.records.add(position(self.number, number)) }
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn count(&self, count: Count, number: u64) {
        self.shard.counts.add(count, number);
    }

    /// Puts a record under the address of its block. Returns the record that was there before, if any.
    #[inline(always)]
    pub fn insert(&mut self, rest: u64, address: u64, number: u32) -> Result<Option<u32>, NoMemory> {
        let records = ShardRecords { records: self.records, shard: self.number };
        self.private.index.insert(rest, address, number, &records)
    }

    /// Removes the record under an address from the index, and returns it.
    #[inline(always)]
    pub fn remove(&mut self, rest: u64, address: u64) -> Option<u32> {
        let records = ShardRecords { records: self.records, shard: self.number };
        self.private.index.remove(rest, address, &records)
    }

    /// The block of a record.
    #[inline(always)]
    pub fn block(&self, number: u32) -> TableBlock {
        self.record(number).block()
    }

    /// A record for a new block: its number, or `None` if the table is full.
    #[inline(always)]
    pub fn birth(&mut self, block: &TableBlock) -> Option<u32> {
        let number = if self.private.free != 0 {
            let number = self.private.free - 1;
            self.private.free = self.record(number).words[3].load(Ordering::Relaxed) as u32;
            number
        } else {
            let used = self.shard.used.load(Ordering::Relaxed);
            if used >= self.capacity || !is_provided(used) {
                return None;
            }
            self.shard.used.store(used + 1, Ordering::Release);
            used
        };
        self.record(number).birth(block, self.word);
        Some(number)
    }

    /// The block of a record dies.
    #[inline(always)]
    pub fn death(&mut self, number: u32) {
        match self.record(number).death(self.word) {
            Fate::Free => self.give_back(number),
            Fate::Parked => self.park(number),
        }
    }

    #[inline(always)]
    fn give_back(&mut self, number: u32) {
        self.record(number).words[3].store(self.private.free.into(), Ordering::Relaxed);
        self.private.free = number + 1;
    }

    #[cold]
    #[inline(never)]
    fn park(&mut self, number: u32) {
        let parked = &mut self.private.parked;
        if !parked.push(number) {
            // Too many: the snapshot is given up. Its collector notices that by the control word.
            control().end(self.word);
            self.record(number).free();
            return self.give_back(number);
        }
        let length = parked.length();
        self.shard.parked.store(length, Ordering::Relaxed);
        if length.is_multiple_of(PARKED_BETWEEN_LOOKS) && sys::monotonic_ns() > control().lease.load(Ordering::Relaxed)
        {
            control().end(self.word);
        }
    }

    /// Frees some records that no snapshot needs any more.
    fn reclaim(&mut self) {
        for _ in 0..RECLAIMED_AT_ONCE {
            let Some(number) = self.private.parked.first() else { break };
            let record = self.record(number);
            let epoch = self.word.active_epoch();
            if epoch != 0 && record.death_epoch() == epoch {
                break;
            }
            self.private.parked.pop();
            record.free();
            self.give_back(number);
        }
        self.shard.parked.store(self.private.parked.length(), Ordering::Relaxed);
    }

    /// Clears the birth epochs of some records.
    fn sweep(&mut self) {
        let used = self.shard.used.load(Ordering::Relaxed).min(self.capacity);
        for _ in 0..SWEPT_AT_ONCE.min(used) {
            let number = if self.private.sweep < used { self.private.sweep } else { 0 };
            self.private.sweep = number + 1;
            self.record(number).forget_birth();
        }
    }

    /// Counts the birth of a block, and of the blocks that it stands for.
    #[inline(always)]
    pub fn count_birth(&self, block: &TableBlock) {
        self.count(Count::Allocations, 1);
        self.count(Count::AllocatedBytes, block.size);
        if block.rate != 0 {
            let (blocks, bytes) = weight::stands_for(block);
            self.count(Count::MoreAllocations, blocks);
            self.count(Count::MoreAllocatedBytes, bytes);
        }
    }

    /// Counts the death of a block.
    #[inline(always)]
    pub fn count_death(&self, block: &TableBlock) {
        self.count(Count::Frees, 1);
        self.count(Count::FreedBytes, block.size);
        if block.rate != 0 {
            let (blocks, bytes) = weight::stands_for(block);
            self.count(Count::MoreFrees, blocks);
            self.count(Count::MoreFreedBytes, bytes);
        }
    }
}

//! The live table: every live block of a process, as dense records.
//!
//! It follows the [session](crate::session_v1) in the same memory object, which is sealed: only the process itself can write it.
//!
//! ```text
//!  TableHeader (a page)  │ Shard × 257 │ ThreadEntry × n │ records 0–3 of shard 0 │ 0–3 of shard 1 │ … │ 4–7 of shard 0 │ …
//! ```
//!
//! Records of all shards lie in stripes of four each. The records of a small program lie close together, and a reader that scans memory in
//! order scans all shards at once.
//!
//! Blocks belong to one of 256 shards by their address; mappings all belong to the 257th, so that a change of several of them is one change.
//! Only the process knows where in its shard a block's record is (its index is private); a reader takes all records of a
//! shard up to the highest ever used.
//!
//! # The protocol
//! A **writer** locks the shard (its lock becomes odd), loads the [control word](crate::control_v1) once, changes records, unlocks
//! (the lock becomes even, and larger). A change of two shards locks both first.
//! * *Birth*: words 1 to 3, then word 0, which makes it a record. Stamped with the active epoch, 0 when no snapshot is taken.
//! * *Death*: word 0 becomes 0, and the record is free; unless a snapshot is active and the block was born before it: then the record
//!   gets the epoch as its death and stays until the snapshot is over.
//!
//! The **reader** stores a new epoch, waits until every shard's lock is even or has changed since (so that no change that read the old
//! word is under way), and takes the records that were not born in this epoch, and are not dead or died in it. It never locks
//! anything, so it cannot block any thread, even if it is stopped or killed. If it cannot wait, it still sees no torn record, since it
//! skips a record whose first words changed while it was read, but it may then see half of a change of two records.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::control_v1::Word;
use crate::session_v1::Capacity;

/// The first word of the table's header.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HWtbl_v1");
/// Alignment of the table's start.
pub const ALIGNMENT: u64 = 2 << 20;
/// Shards of blocks.
pub const BLOCK_SHARDS: u32 = 256;
/// The shard of mappings.
pub const MAPPINGS: u32 = BLOCK_SHARDS;
/// All shards.
pub const SHARDS: u32 = BLOCK_SHARDS + 1;
/// Records of a shard in a stripe.
pub const CHUNK: u32 = 4;
/// The table's header has pages of its own.
pub const HEADER_BYTES: u64 = 4096;
/// The maximum number of sample rates that a process may have had; the first is "every block".
pub const MOST_RATES: usize = 256;
/// Stamps of records are stamps of the session without this number of their lowest bits.
pub const STAMP_SHIFT: u32 = 6;
/// Bit of the flags: the program lets its blocks' contents be read.
pub const FLAG_CONTENTS: u32 = 1;
/// Bit of the flags: usable sizes are known.
pub const FLAG_USABLE_SIZES: u32 = 2;
/// Bit of the flags: forked from another live process; blocks that it inherited are not in the table.
pub const FLAG_FORKED: u32 = 4;

/// Bit of the flags: the program's arguments must not be read.
pub const FLAG_NO_ARGS: u32 = 8;

/// The header of the table.
#[repr(C, align(64))]
pub struct TableHeader {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// Room for records in each shard.
    pub shard_records: AtomicU32,
    /// Room for threads.
    pub thread_capacity: AtomicU32,
    /// Threads are numbered below this; number 0 stands for threads that found no room.
    pub threads: AtomicU32,
    /// `FLAG_…`.
    pub flags: AtomicU32,
    /// The maximum number of records in a shard, as configured.
    pub shard_limit: AtomicU32,
    /// The number of the settings that are in force.
    pub settings: AtomicU32,
    /// The number of rates in use: rates below this.
    pub rates: AtomicU32,
    /// The rate that is in force now.
    pub rate: AtomicU32,
    /// Shards that were given up because the holder of their lock never released it.
    pub abandoned: AtomicU32,
    padding: AtomicU32,
    /// The [mark](socket_mark) of the socket on which the process's collector listens; 0 for any.
    pub socket: AtomicU64,
    /// Mean bytes per sample by number; the first is 0: every block.
    pub rate_bytes: [AtomicU64; MOST_RATES],
    /// Address space that the program reserved and cannot touch. 0 as well where the process's agent is older than this field.
    pub reserved_bytes: AtomicU64,
    /// Mapped files, likewise.
    pub file_bytes: AtomicU64,
    /// Bytes of mappings that the program gave back and may touch again, likewise. They are in the table's blocks too.
    pub returned_bytes: AtomicU64,
}

/// A hash of a socket's path, so that a collector does not take over a process that belongs to another collector.
pub fn socket_mark(path: &[u8]) -> u64 {
    // FNV-1a
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    if path.is_empty() { 0 } else { path.iter().fold(0xcbf2_9ce4_8422_2325, mix) }
}

/// The counters of a shard. Sums over all shards are the process's.
#[repr(C)]
pub struct ShardCounts {
    /// One after the other, in the order of [`Count`].
    pub words: [AtomicU64; COUNTS],
}

/// A counter of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Blocks allocated.
    Allocations = 0,
    /// Bytes allocated, including growth by resizing.
    AllocatedBytes = 1,
    /// Blocks freed.
    Frees = 2,
    /// Bytes freed, including shrinking by resizing.
    FreedBytes = 3,
    /// Blocks that were resized.
    Reallocations = 4,
    /// Frees of blocks that were not in the table.
    UnknownFrees = 5,
    /// Blocks that were not put into the table because it was full.
    Untracked = 6,
    /// Blocks whose address was in the table already: their free was not seen.
    Duplicates = 7,
    /// Blocks that sampled blocks stand for besides themselves, counted at their birth: in units of 1/256.
    MoreAllocations = 8,
    /// Their bytes.
    MoreAllocatedBytes = 9,
    /// Blocks that sampled blocks stood for besides themselves, counted at their death: in units of 1/256.
    MoreFrees = 10,
    /// Their bytes.
    MoreFreedBytes = 11,
}

/// The number of counters.
pub const COUNTS: usize = 12;

impl ShardCounts {
    /// Adds to a counter; only the holder of the shard's lock may. A thread that sees the sum also sees the counters that were set aside before.
    #[inline(always)]
    pub fn add(&self, count: Count, number: u64) {
        let word = &self.words[count as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(number), Ordering::Release);
    }
}

/// A shard. The fields that every change touches lie on its first cache line.
#[repr(C, align(64))]
pub struct TableShard {
    /// Even: free. Odd: held. Grows with every locking and unlocking.
    pub lock: AtomicU32,
    /// The number of threads that sleep until it is free.
    pub waiters: AtomicU32,
    /// Records below this were used at some time.
    pub used: AtomicU32,
    /// The latest epoch in which anything was changed here: the counts before it are in `at_cut`.
    pub epoch: AtomicU32,
    /// Counts until now.
    pub counts: ShardCounts,
    /// Counts until the cut of `epoch`.
    pub at_cut: ShardCounts,
    /// Dead records that a snapshot keeps.
    pub parked: AtomicU32,
    /// Not 0: given up.
    pub abandoned: AtomicU32,
    rest: [AtomicU64; 5],
}

#[cfg(loom)]
impl Default for TableShard {
    fn default() -> Self {
        let counts = || ShardCounts { words: core::array::from_fn(|_| AtomicU64::new(0)) };
        let word = || AtomicU32::new(0);
        Self {
            lock: word(),
            waiters: word(),
            used: word(),
            epoch: word(),
            counts: counts(),
            at_cut: counts(),
            parked: word(),
            abandoned: word(),
            rest: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl TableShard {
    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        let lock = self.lock.load(Ordering::Relaxed);
        lock & 1 == 0
            && self.lock.compare_exchange(lock, lock.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Releases the lock; only its holder may.
    #[inline(always)]
    pub fn unlock(&self) {
        let lock = self.lock.load(Ordering::Relaxed);
        self.lock.store(lock.wrapping_add(1), Ordering::Release);
    }

    /// Called by the holder of the lock before it changes or counts anything. The first call after a cut sets the counts until then
    /// aside for the reader.
    #[inline(always)]
    pub fn begin_change(&self, word: Word) {
        let epoch = u32::from(word.active_epoch());
        if epoch != 0 && self.epoch.load(Ordering::Relaxed) != epoch {
            self.set_counts_aside(epoch);
        }
    }

    #[cold]
    fn set_counts_aside(&self, epoch: u32) {
        for (aside, count) in self.at_cut.words.iter().zip(&self.counts.words) {
            aside.store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.epoch.store(epoch, Ordering::Release);
    }

    /// For the reader, before anything else after the cut: the value of the lock.
    pub fn observe(&self) -> u32 {
        self.lock.load(Ordering::SeqCst)
    }

    /// For the reader: whether the change that was under way when it observed `lock` is over.
    pub fn is_settled(&self, lock: u32) -> bool {
        lock & 1 == 0 || self.lock.load(Ordering::SeqCst) != lock
    }

    /// For the reader: the counts at the cut, or now if there is no cut. Exact once the shard is settled.
    pub fn counts_at(&self, cut: Word) -> [u64; COUNTS] {
        let epoch = u32::from(cut.active_epoch());
        let read = |counts: &ShardCounts| core::array::from_fn(|at| counts.words[at].load(Ordering::Acquire));
        let now = read(&self.counts);
        if epoch != 0 && self.epoch.load(Ordering::Acquire) == epoch { read(&self.at_cut) } else { now }
    }
}

/// A thread that ever owned a block, by its number. Numbers are not used again.
#[repr(C)]
pub struct ThreadEntry {
    /// The kernel's number.
    pub id: AtomicU32,
    /// The length of the name.
    pub name_length: AtomicU32,
    /// The stamp of its first allocation.
    pub stamp: AtomicU64,
    /// Its name, as bytes of these words.
    pub name: [AtomicU64; 2],
}

/// A block, as a record describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableBlock {
    /// Its address, 48 bits. An odd address is that of a mapping plus one.
    pub address: u64,
    /// Its size: 48 bits; larger sizes are stored as the maximum.
    pub size: u64,
    /// Its stack: a [node](crate::stacks_v1).
    pub node: u32,
    /// Its thread's number: 20 bits.
    pub thread: u32,
    /// The number of the rate it was sampled with.
    pub rate: u8,
    /// When it was allocated: a stamp of the session, without its [lowest bits](STAMP_SHIFT).
    pub stamp: u64,
    /// Bytes that can be used beyond what is expected of its size; rounded if it is far beyond.
    pub surplus: i32,
}

/// The number of threads that can be distinguished.
pub const MOST_THREADS: u32 = 1 << 20;
const LOW_48: u64 = (1 << 48) - 1;
const LOW_52: u64 = (1 << 52) - 1;

/// A record: free, or a block with the epochs of its birth and death.
///
/// ```text
///  0: address (48) │ surplus (16)      1: birth (16) │ death (16) │ node (32)
///  2: size (48) │ thread (low 16)      3: stamp (52) │ thread (high 4) │ rate (8)
/// ```
/// Word 0 is 0 in a free record; word 3 of a free one is the process's own.
#[repr(C, align(32))]
pub struct TableRecord {
    /// See above.
    pub words: [AtomicU64; 4],
}

/// What becomes of the record of a block that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is free.
    Free,
    /// The snapshot that is being taken needs it.
    Parked,
}

impl TableRecord {
    /// A block is born. The record is free; the caller has locked its shard and loaded `word` after that.
    #[inline(always)]
    pub fn birth(&self, block: &TableBlock, word: Word) {
        let [address, fate, size, stamp] = &self.words;
        let thread = u64::from(block.thread);
        fate.store(u64::from(word.active_epoch()) | u64::from(block.node) << 32, Ordering::Relaxed);
        size.store(block.size.min(LOW_48) | (thread & 0xffff) << 48, Ordering::Relaxed);
        let rest = (thread >> 16 & 0xf) << 52 | u64::from(block.rate) << 56;
        stamp.store(block.stamp & LOW_52 | rest, Ordering::Relaxed);
        let surplus = u64::from(encode_surplus(block.surplus));
        address.store(block.address & LOW_48 | surplus << 48, Ordering::Release);
    }

    /// A block dies. The caller has locked its shard and loaded `word` after that.
    #[inline(always)]
    pub fn death(&self, word: Word) -> Fate {
        let epoch = u64::from(word.active_epoch());
        if epoch != 0 {
            let fate = self.words[1].load(Ordering::Relaxed);
            if fate & 0xffff != epoch {
                self.words[1].store(fate & !(0xffff << 16) | epoch << 16, Ordering::Release);
                return Fate::Parked;
            }
        }
        self.free();
        Fate::Free
    }

    /// Frees the record.
    #[inline(always)]
    pub fn free(&self) {
        self.words[0].store(0, Ordering::Release);
    }

    /// The block was born before any snapshot to come. For the holder of the lock, while no snapshot is active.
    #[inline(always)]
    pub fn forget_birth(&self) {
        let fate = self.words[1].load(Ordering::Relaxed);
        if fate & 0xffff != 0 {
            self.words[1].store(fate & !0xffff, Ordering::Release);
        }
    }

    /// The epoch in which the block of a parked record died.
    #[inline(always)]
    pub fn death_epoch(&self) -> u16 {
        (self.words[1].load(Ordering::Relaxed) >> 16) as u16
    }

    /// The address of the block, for the holder of the lock.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.words[0].load(Ordering::Relaxed) & LOW_48
    }

    /// The block, for the holder of the lock.
    #[inline(always)]
    pub fn block(&self) -> TableBlock {
        let [address, fate, size, stamp] = self.load();
        unpack(address, fate, size, stamp)
    }

    #[inline(always)]
    fn load(&self) -> [u64; 4] {
        core::array::from_fn(|at| self.words[at].load(Ordering::Relaxed))
    }

    /// For the reader: the block if it belongs to the cut. Calls `epochs` with the epochs of the record's birth and death.
    #[inline(always)]
    pub fn read(&self, cut: Word, mut epochs: impl FnMut(u16)) -> Option<TableBlock> {
        let address = self.words[0].load(Ordering::Acquire);
        if address == 0 {
            return None;
        }
        let fate = self.words[1].load(Ordering::Acquire);
        let (birth, death) = (fate as u16, (fate >> 16) as u16);
        epochs(birth);
        epochs(death);
        let epoch = cut.active_epoch();
        if epoch != 0 && birth == epoch || death != 0 && death != epoch {
            return None;
        }
        let (size, stamp) = (self.words[2].load(Ordering::Acquire), self.words[3].load(Ordering::Acquire));
        // A writer that changed it in between did so for another block.
        let same = self.words[0].load(Ordering::Acquire) == address
            && self.words[1].load(Ordering::Relaxed) & !(0xffff << 16) == fate & !(0xffff << 16);
        same.then(|| unpack(address, fate, size, stamp))
    }
}

#[inline(always)]
fn unpack(address: u64, fate: u64, size: u64, stamp: u64) -> TableBlock {
    TableBlock {
        address: address & LOW_48,
        size: size & LOW_48,
        node: (fate >> 32) as u32,
        thread: (size >> 48 | (stamp >> 52 & 0xf) << 16) as u32,
        rate: (stamp >> 56) as u8,
        stamp: stamp & LOW_52,
        surplus: decode_surplus((address >> 48) as u16),
    }
}

/// From this surplus on, it is stored in units of 4096 bytes.
const LARGE_SURPLUS: u32 = 1 << 14;

#[inline(always)]
fn encode_surplus(surplus: i32) -> u16 {
    let size = surplus.unsigned_abs();
    let code = if size < LARGE_SURPLUS { size } else { (LARGE_SURPLUS + (size >> 12)).min(0x7fff) };
    (code as i16 * if surplus < 0 { -1 } else { 1 }) as u16
}

fn decode_surplus(code: u16) -> i32 {
    let code = i32::from(code as i16);
    let (sign, size) = (code.signum(), code.abs());
    sign * if size < LARGE_SURPLUS as i32 { size } else { (size - LARGE_SURPLUS as i32) << 12 }
}

/// How large a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCapacity {
    /// Records in each shard.
    pub shard_records: u32,
    /// Threads.
    pub threads: u32,
}

impl TableCapacity {
    /// For programs that configure more blocks than the first of the choices has: a thousand million, in 34 GB of address space.
    pub const LARGEST: Self = Self { shard_records: 1 << 22, threads: MOST_THREADS };

    /// From generous, which is 134 million blocks in 4.3 GB of address space, to small: a program may limit its address space.
    pub const CHOICES: [Self; 3] = [
        Self { shard_records: 1 << 19, threads: MOST_THREADS },
        Self { shard_records: 1 << 16, threads: 1 << 14 },
        Self { shard_records: 1 << 12, threads: 1 << 12 },
    ];

    /// Whether a reader accepts it.
    pub fn is_sound(&self) -> bool {
        (1..=1 << 23).contains(&self.shard_records) && (2..=MOST_THREADS).contains(&self.threads)
    }

    /// Where the table begins in the memory of a live process: after the session.
    pub fn start_after(session: &Capacity) -> u64 {
        session.bytes().next_multiple_of(ALIGNMENT)
    }

    /// The number of blocks it can hold.
    pub fn blocks(&self) -> u64 {
        u64::from(self.shard_records) * u64::from(BLOCK_SHARDS)
    }

    /// Offset of a shard, from where the table begins.
    pub fn shard(&self, shard: u32) -> u64 {
        HEADER_BYTES + u64::from(shard) * size_of::<TableShard>() as u64
    }

    /// Offset of the threads.
    pub fn threads(&self) -> u64 {
        self.shard(SHARDS).next_multiple_of(4096)
    }

    /// Offset of the records.
    pub fn records(&self) -> u64 {
        (self.threads() + u64::from(self.threads) * size_of::<ThreadEntry>() as u64).next_multiple_of(4096)
    }

    /// Size of the table.
    pub fn bytes(&self) -> u64 {
        let records = u64::from(self.shard_records.next_multiple_of(CHUNK)) * u64::from(SHARDS);
        (self.records() + records * size_of::<TableRecord>() as u64).next_multiple_of(4096)
    }
}

/// The index of a shard's record among all records.
#[inline(always)]
pub fn position(shard: u32, number: u32) -> usize {
    (number / CHUNK) as usize * (SHARDS * CHUNK) as usize + (shard * CHUNK + number % CHUNK) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_returns_the_block_that_was_stored() {
        let record = TableRecord { words: [const { AtomicU64::new(0) }; 4] };
        let word = Word(0);
        for surplus in [0, 1, -17, 4080, 16383, -16383, 20480, 1 << 25, -8192 * 4] {
            let block = TableBlock {
                address: 0x7fff_1234_5670,
                size: (1 << 47) + 12345,
                node: 0xfedc_ba98,
                thread: 0xf_1234,
                rate: 200,
                stamp: (1 << 51) + 77,
                surplus,
            };
            record.birth(&block, word);
            assert_eq!(record.block(), block);
            assert_eq!(record.read(word, |_| ()), Some(block));
            assert_eq!(record.death(word), Fate::Free);
            assert_eq!(record.read(word, |_| ()), None);
        }
    }

    #[test]
    fn a_cut_has_what_was_born_before_and_died_after() {
        const CUT: Word = Word(7 | 1 << 16);
        const BEFORE: Word = Word(6);
        let records: [TableRecord; 4] =
            core::array::from_fn(|_| TableRecord { words: [const { AtomicU64::new(0) }; 4] });
        let block = |address| TableBlock { address, size: 8, ..TableBlock::default() };
        let [lives, dies, is_new, comes_and_goes] = &records;
        lives.birth(&block(16), BEFORE);
        dies.birth(&block(32), BEFORE);
        assert_eq!(dies.death(CUT), Fate::Parked);
        is_new.birth(&block(48), CUT);
        comes_and_goes.birth(&block(64), CUT);
        assert_eq!(comes_and_goes.death(CUT), Fate::Free);
        let seen =
            |cut: Word| records.each_ref().map(|record| record.read(cut, |_| ()).map_or(0, |block| block.address));
        assert_eq!(seen(CUT), [16, 32, 0, 0]);
        // The next one: that block is dead, though its record is still there.
        assert_eq!(seen(Word(8 | 1 << 16)), [16, 0, 48, 0]);
    }

    #[test]
    fn the_layout_is_what_version_1_is() {
        let capacity = TableCapacity { shard_records: 1 << 12, threads: 1 << 12 };
        assert_eq!((size_of::<TableRecord>(), size_of::<TableShard>(), size_of::<ThreadEntry>()), (32, 256, 32));
        assert_eq!(core::mem::offset_of!(TableHeader, reserved_bytes), 56 + 8 * MOST_RATES);
        assert_eq!(core::mem::offset_of!(TableHeader, returned_bytes), 72 + 8 * MOST_RATES);
        assert!(size_of::<TableHeader>() as u64 <= HEADER_BYTES);
        let at = [capacity.shard(1), capacity.threads(), capacity.records(), capacity.bytes()];
        assert_eq!(at, [4352, 73728, 204_800, 33_890_304]);
        assert_eq!(
            [(0, 0), (0, 3), (1, 0), (256, 3), (0, 4)].map(|(shard, number)| position(shard, number)),
            [0, 3, 4, 1027, 1028]
        );
    }
}

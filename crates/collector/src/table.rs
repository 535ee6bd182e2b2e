//! The memory of a live process. Nothing in it is trusted.
//!
//! Everything in it may change at any time and may be invalid: each number is loaded once, bounded, and only then used. The size of the object is
//! sealed, so all of it can always be read. Reading a page that was never written would make the system provide memory for it. So a table is
//! refused if it claims that more was written than the object holds.

use crate::cut::Cut;
use crate::epochs::Epochs;
use crate::mapping::SharedMapping;
use highwater_clock::Counter;
use highwater_model::AddressSpace;
use highwater_session::{Refused, SessionMemory, Stamps};
use highwater_shm::attach_v1::{AttachLayout, CONTROL, OBJECT_NAME, SESSION};
use highwater_shm::control_v1::{CONTROL_BYTES, ControlPage};
use highwater_shm::live_hello_v1::MEMORY_NAME;
use highwater_shm::session_v1::{Capacity, Header, MAGIC};
use highwater_shm::stacks_v1::TrieNode;
use highwater_shm::table_v1::{
    self, BLOCK_SHARDS, CHUNK, COUNTS, Count, HEADER_BYTES, MAPPINGS, MOST_RATES, SHARDS, TableCapacity, TableHeader,
    TableRecord, TableShard, ThreadEntry,
};
use rustix::fs::SealFlags;
use rustix::mm::ProtFlags;
use std::ffi::CStr;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much less than it claims a process may have written: it updates its counts before it writes, and memory is provided in whole pages.
const CREDIT: u64 = 4 << 20;

const PAGE: u64 = 4096;

/// The values of all counters, in the order of [`Count`].
pub type CounterValues = [u64; COUNTS];

/// The memory of a live process: its session and its table, and its control page.
pub struct LiveTable {
    /// Declared before the memory that it lies in, so that it is dropped first.
    session: SessionMemory,
    stamps: Stamps,
    memory: SharedMapping,
    control: SharedMapping,
    /// Kept open to ask how many bytes of it exist.
    object: OwnedFd,
    identity: (u64, u64),
    /// The object's name in the list of the process's mappings.
    name: &'static CStr,
    node_capacity: u32,
    capacity: TableCapacity,
    /// The offset of the table in the memory.
    start: u64,
    epochs: Mutex<Epochs>,
}

/// How far a table was filled at one moment, limited to its capacity.
#[derive(Clone, Debug)]
pub struct TableExtent {
    /// By shard: all its records have numbers below this.
    pub used: [u32; SHARDS as usize],
    /// All stack nodes have numbers below this.
    pub nodes: u32,
    /// All threads have numbers below this.
    pub threads: u32,
}

/// A thread, as its entry in the table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableThread {
    /// The kernel's thread id, as the process sees it.
    pub kernel_id: u32,
    /// Its name when it started.
    pub name: String,
}

/// The table claims more than its memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overclaimed;

impl fmt::Display for Overclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its table makes no sense: it claims to hold more than its memory does")
    }
}

impl std::error::Error for Overclaimed {}

impl LiveTable {
    /// Maps the shared objects of a process: its memory to read, its control page to write. `counter` converts stamps that are ticks.
    pub fn open(memory: OwnedFd, control: impl AsFd, counter: Option<Counter>) -> Result<Self, Refused> {
        let (bytes, identity) = sealed_size(&memory)?;
        let (control_bytes, _) = sealed_size(&control)?;
        if bytes < size_of::<Header>() as u64 || control_bytes != CONTROL_BYTES {
            return Err(Refused::NotOurs);
        }
        let control = SharedMapping::new(&control, 0, CONTROL_BYTES as usize, ProtFlags::READ | ProtFlags::WRITE)?;
        Self::open_part((memory, MEMORY_NAME), 0..bytes, identity, control, counter)
    }

    /// Maps the table that an injected agent keeps in the object that its attacher made. The attacher has written its header: it can be read before the agent begins.
    pub fn open_attached(object: OwnedFd, layout: &AttachLayout, counter: Option<Counter>) -> Result<Self, Refused> {
        let (bytes, identity) = sealed_size(&object)?;
        if bytes != layout.bytes() || layout.table_capacity.is_none() {
            return Err(Refused::NotOurs);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let control = SharedMapping::new(&object, CONTROL, CONTROL_BYTES as usize, protection)?;
        let table = Self::open_part((object, OBJECT_NAME), SESSION..layout.private, identity, control, counter)?;
        let is_as_said = Some(table.capacity) == layout.table_capacity && table.node_capacity == layout.capacity.nodes;
        if is_as_said { Ok(table) } else { Err(Refused::NotOurs) }
    }

    /// `part` of the object begins with a session.
    fn open_part(
        (memory, name): (OwnedFd, &'static CStr),
        part: Range<u64>,
        identity: (u64, u64),
        control: SharedMapping,
        counter: Option<Counter>,
    ) -> Result<Self, Refused> {
        let bytes = part.end - part.start;
        let length = usize::try_from(bytes).map_err(|_| Refused::NotOurs)?;
        let mapping = SharedMapping::new(&memory, part.start, length, ProtFlags::READ)?;
        // SAFETY: a header is atomics.
        let header = &unsafe { mapping.slice::<Header>(0, 1) }[0];
        let session_capacity = Capacity {
            rings: header.ring_capacity.load(Ordering::Relaxed),
            nodes: header.node_capacity.load(Ordering::Relaxed),
        };
        if header.magic.load(Ordering::Acquire) != MAGIC || !session_capacity.is_sound() {
            return Err(Refused::NotOurs);
        }
        let start = TableCapacity::start_after(&session_capacity);
        let capacity = table_capacity(&mapping, start, bytes).ok_or(Refused::NotOurs)?;
        // SAFETY: the memory stays mapped as long as the table that is made here owns both; no code stores through the session.
        let session = unsafe { SessionMemory::of_ourselves(mapping.base(), session_capacity.bytes()) };
        let session = session.ok_or(Refused::NotOurs)?;
        let stamps = Stamps::of(session.header(), counter).ok_or(Refused::NoClock)?;
        Ok(Self {
            session,
            stamps,
            memory: mapping,
            control,
            object: memory,
            identity,
            name,
            node_capacity: session_capacity.nodes,
            capacity,
            start,
            epochs: Mutex::default(),
        })
    }

    /// The shared session beside the table: stacks and modules. Nothing may be stored through it.
    pub fn session(&self) -> &SessionMemory {
        &self.session
    }

    /// Its clock.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// The device and inode number of the memory object. No other object has both.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// The name that the memory object has in the list of the process's mappings.
    pub fn object_name(&self) -> &'static CStr {
        self.name
    }

    /// Whether an agent keeps it that was injected while the process ran.
    pub fn is_attached(&self) -> bool {
        self.name == OBJECT_NAME
    }

    /// The control page.
    pub fn control(&self) -> &ControlPage {
        // SAFETY: a control page is atomics.
        let control = unsafe { self.control.slice(0, 1) };
        &control[0]
    }

    /// The table's header.
    pub fn header(&self) -> &TableHeader {
        // SAFETY: a header is atomics, and begins at a page.
        let header = unsafe { self.memory.slice(self.start, 1) };
        &header[0]
    }

    /// All shards.
    pub fn shards(&self) -> &[TableShard] {
        // SAFETY: shards are atomics, and lie after the header.
        unsafe { self.memory.slice(self.start + self.capacity.shard(0), SHARDS as usize) }
    }

    /// The records of all shards in a stripe: [`CHUNK`] of each.
    #[inline(always)]
    pub(crate) fn stripe(&self, stripe: u32) -> &[TableRecord] {
        const RECORDS: usize = (SHARDS * CHUNK) as usize;
        let offset = stripe as usize * RECORDS * size_of::<TableRecord>();
        // SAFETY: records are atomics, at multiples of their size.
        unsafe { self.memory.slice(self.start + self.capacity.records() + offset as u64, RECORDS) }
    }

    /// A record of a shard.
    pub fn record(&self, shard: u32, number: u32) -> &TableRecord {
        assert!(shard < SHARDS && number < self.capacity.shard_records);
        &self.stripe(number / CHUNK)[(shard * CHUNK + number % CHUNK) as usize]
    }

    /// The first `used` records of a shard.
    pub fn records(&self, shard: u32, used: u32) -> impl Iterator<Item = &TableRecord> {
        (0..used).map(move |number| self.record(shard, number))
    }

    /// The addresses of the blocks in the table, mappings left out: of one instant only while the process is stopped.
    pub fn addresses(&self) -> Result<impl Iterator<Item = u64>, Overclaimed> {
        let extent = self.extent()?;
        let blocks = (0..BLOCK_SHARDS).flat_map(move |shard| self.records(shard, extent.used[shard as usize]));
        let live = blocks.filter(|record| record.address() != 0 && record.death_epoch() == 0);
        Ok(live.map(TableRecord::address))
    }

    /// Whether a flag of the table is set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.header().flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Mean bytes per sample, by the number of the rate; 0 means every block.
    pub fn rates(&self) -> [u64; MOST_RATES] {
        std::array::from_fn(|rate| self.header().rate_bytes[rate].load(Ordering::Relaxed))
    }

    /// Mean bytes per sample now; 0 means every block.
    pub fn sample_bytes(&self) -> u64 {
        let rate = self.header().rate.load(Ordering::Acquire) as usize;
        self.header().rate_bytes.get(rate).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// Mapped memory of the process that is not in the table.
    pub fn address_space(&self) -> AddressSpace {
        let header = self.header();
        AddressSpace {
            reserved_bytes: header.reserved_bytes.load(Ordering::Relaxed),
            mapped_file_bytes: header.file_bytes.load(Ordering::Relaxed),
            returned_bytes: header.returned_bytes.load(Ordering::Relaxed),
        }
    }

    /// A thread by its number, below [`TableExtent::threads`].
    pub fn thread(&self, number: u32) -> TableThread {
        assert!(number < self.capacity.threads);
        let offset = self.start + self.capacity.threads() + u64::from(number) * size_of::<ThreadEntry>() as u64;
        // SAFETY: entries are atomics, at multiples of their size.
        let entry = &unsafe { self.memory.slice::<ThreadEntry>(offset, 1) }[0];
        let bytes: Vec<u8> = entry.name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let length = (entry.name_length.load(Ordering::Relaxed) as usize).min(bytes.len());
        let name = bytes[..length].split(|&byte| byte == 0).next().unwrap_or_default();
        TableThread { kernel_id: entry.id.load(Ordering::Relaxed), name: String::from_utf8_lossy(name).into_owned() }
    }

    /// How far the table is filled. An error if it claims more than its memory holds.
    pub fn extent(&self) -> Result<TableExtent, Overclaimed> {
        let shards = self.shards();
        let extent = TableExtent {
            used: std::array::from_fn(|shard| {
                shards[shard].used.load(Ordering::Acquire).min(self.capacity.shard_records)
            }),
            nodes: self.session.header().nodes.load(Ordering::Acquire).min(self.node_capacity),
            threads: self.header().threads.load(Ordering::Acquire).min(self.capacity.threads),
        };
        let others = u64::from(extent.nodes) * size_of::<TrieNode>() as u64
            + u64::from(extent.threads) * size_of::<ThreadEntry>() as u64;
        let held = self.held_bytes().saturating_add(CREDIT);
        let records = held.checked_sub(others).ok_or(Overclaimed)?;
        if touches_more(&extent.used, records / PAGE) { Err(Overclaimed) } else { Ok(extent) }
    }

    /// Bytes of memory that its records use.
    pub fn record_bytes(&self) -> u64 {
        let used = |shard: &TableShard| shard.used.load(Ordering::Relaxed).min(self.capacity.shard_records);
        record_bytes(&self.shards().iter().map(used).collect::<Vec<_>>())
    }

    /// Bytes of the object for which the system has provided memory.
    fn held_bytes(&self) -> u64 {
        // If the system does not answer, the process is trusted.
        rustix::fs::fstat(&self.object).map_or(u64::MAX, |stat| (stat.st_blocks as u64).saturating_mul(512))
    }

    /// The counters now. Exact for a process that is gone; for a running one they are not from one instant.
    pub fn counts(&self) -> CounterValues {
        self.shards().iter().fold([0; COUNTS], |sum, shard| added(sum, counts_now(shard)))
    }

    /// Makes a cut, after the previous one is over. See [`Cut`].
    pub fn cut(&self, lease: Duration) -> Result<Cut<'_>, Overclaimed> {
        Cut::make(self, self.epochs(), lease)
    }

    /// A cut of a process that is gone: its table no longer changes.
    pub fn last_cut(&self) -> Cut<'_> {
        Cut::of_the_dead(self, self.epochs())
    }

    /// Prevents other threads from making or ending a cut while `work` runs.
    pub fn between_cuts<T>(&self, work: impl FnOnce() -> T) -> T {
        let _cuts = self.epochs();
        work()
    }

    fn epochs(&self) -> MutexGuard<'_, Epochs> {
        // A thread that panicked has marked the set incomplete before.
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LiveTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTable").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The size of an object whose size is sealed, and its identity.
fn sealed_size(object: impl AsFd) -> Result<(u64, (u64, u64)), Refused> {
    if !rustix::fs::fcntl_get_seals(&object).is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::GROW)) {
        return Err(Refused::NotSealed);
    }
    let stat = rustix::fs::fstat(&object)?;
    let size = u64::try_from(stat.st_size).map_err(|_| Refused::NotOurs)?;
    Ok((size, (stat.st_dev, stat.st_ino)))
}

/// The capacity of the table at `start`, if there is one and it ends where the memory ends.
fn table_capacity(memory: &SharedMapping, start: u64, bytes: u64) -> Option<TableCapacity> {
    if start.checked_add(HEADER_BYTES)? > bytes {
        return None;
    }
    // SAFETY: a header is atomics; it begins at a page, and lies within the memory.
    let header = &unsafe { memory.slice::<TableHeader>(start, 1) }[0];
    let capacity = TableCapacity {
        shard_records: header.shard_records.load(Ordering::Relaxed),
        threads: header.thread_capacity.load(Ordering::Relaxed),
    };
    let ours = header.magic.load(Ordering::Acquire) == table_v1::MAGIC && capacity.is_sound();
    (ours && start + capacity.bytes() == bytes).then_some(capacity)
}

/// Whether reading the first `used` records of each shard touches more than `most` pages.
fn touches_more(used: &[u32; SHARDS as usize], most: u64) -> bool {
    const CHUNK_BYTES: u64 = CHUNK as u64 * size_of::<TableRecord>() as u64;
    let chunks = used.map(|used| used.div_ceil(CHUNK));
    let stripes = chunks.iter().copied().max().unwrap_or(0);
    // In the first `whole` stripes every block shard has a chunk, so all their pages count.
    let whole = chunks[..BLOCK_SHARDS as usize].iter().copied().min().unwrap_or(0);
    let mut pages = u64::from(whole) * u64::from(BLOCK_SHARDS) * CHUNK_BYTES / PAGE;
    let mut last_page = u64::MAX;
    for stripe in whole..stripes {
        for (shard, _) in (0..).zip(&chunks).filter(|(_, chunks)| stripe < **chunks) {
            let page = (u64::from(stripe) * u64::from(SHARDS) + shard) * CHUNK_BYTES / PAGE;
            pages += u64::from(page != last_page);
            last_page = page;
        }
        if pages > most {
            return true;
        }
    }
    pages > most
}

fn record_bytes(used: &[u32]) -> u64 {
    used.iter().map(|&used| u64::from(used) * size_of::<TableRecord>() as u64).sum()
}

/// The counters of a shard now.
pub(crate) fn counts_now(shard: &TableShard) -> CounterValues {
    std::array::from_fn(|at| shard.counts.words[at].load(Ordering::Acquire))
}

/// The sum of two, wrapping: a hostile process may store any numbers.
pub(crate) fn added(one: CounterValues, other: CounterValues) -> CounterValues {
    std::array::from_fn(|at| one[at].wrapping_add(other[at]))
}

/// One of the counters.
#[inline]
pub fn count_of(counts: &CounterValues, count: Count) -> u64 {
    counts[count as usize]
}

/// Whether a shard is the one of mappings.
#[inline(always)]
pub fn is_of_mappings(shard: u32) -> bool {
    shard == MAPPINGS
}

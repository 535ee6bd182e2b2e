//! The reader's end of the object that an attacher shares with an agent that it has injected.
//!
//! [`attach_v1`](highwater_shm::attach_v1) is the agreement. The attacher creates the object, gives it its size and seals that. This module writes what the agent finds
//! when it begins, keeps telling it that there is a reader, and allocates its memory ahead of it.

use crate::module_watch::program_range;
use crate::session_memory::{Refused, SessionMemory};
use crate::stamps::monotonic_ns;
use highwater_clock::Counter;
use highwater_shm::attach_v1::{
    AttachHeader, AttachLayout, AttachPage, ENDED_BY_FILTER, ENDED_BY_READER, ENDED_NO_READER, FLAG_CONTENTS,
    FLAG_COUNTER, FLAG_NO_ARGS, PAGE_MAGIC, SESSION, THREAD_SLOTS, UNKNOWN_FREES, UnknownFreeLog, VERSION,
};
use highwater_shm::session_v1::{AgentClock, Header, MAGIC};
use highwater_shm::table_v1::{self, CHUNK, SHARDS, TableCapacity, TableHeader, TableRecord};
use rustix::fs::{FallocateFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far ahead of the agent its private memory is allocated: more than a hundred threads that begin at once.
const PRIVATE_AHEAD: u64 = 16 << 20;
/// The memory for records that is allocated before the collector takes over.
const FIRST_RECORDS: u64 = 2 << 20;
/// The name in place of the stack of blocks that are older than an attach.
pub const BEFORE_ATTACH: &str = "[allocated before attach]";
/// The name in place of the thread that allocated them.
pub const BEFORE_ATTACH_THREAD: &str = "[before attach]";
/// How long an injected agent continues without a sign of its reader.
pub const READER_PATIENCE: Duration = Duration::from_secs(10);

/// The object, and a mapping of what lies before the session.
pub struct AttachedMemory {
    object: OwnedFd,
    base: *mut u8,
    layout: AttachLayout,
    /// Private memory below this offset was allocated.
    provided: AtomicU64,
    /// Private memory beyond this offset is not allocated here.
    limit: AtomicU64,
}

// SAFETY: everything in the mapping is reached through atomics.
unsafe impl Send for AttachedMemory {}
// SAFETY: likewise.
unsafe impl Sync for AttachedMemory {}

/// Why an injected agent has ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedEnd {
    /// It saw no sign of a reader for too long.
    NoReader,
    /// The reader asked for it.
    Asked,
    /// The program installed a seccomp filter, which may forbid what the agent does.
    Filter,
    /// Its memory has impossible values.
    Damaged,
}

/// What an injected agent counts beside its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachedCounts {
    /// Frees of blocks that are older than the live table.
    pub unknown_frees: u64,
    /// Their usable sizes.
    pub unknown_bytes: u64,
    /// Calls that were passed on unrecorded because there were too many threads.
    pub unslotted: u64,
    /// Bytes of private memory that the agent took before they were allocated, so that they are charged to its process.
    pub unprovided: u64,
}

impl AttachedCounts {
    /// What went wrong, in sentences; nothing if nothing did.
    pub fn in_words(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.unslotted > 0 {
            all.push(format!(
                "{} calls of malloc and free were not seen, because more than {THREAD_SLOTS} threads ran: blocks may be missing, and freed ones shown as live.",
                self.unslotted
            ));
        }
        if self.unprovided > 0 {
            all.push(format!(
                "{} bytes of the agent's memory were charged to the process's control group.",
                self.unprovided
            ));
        }
        all
    }
}

impl AttachedMemory {
    /// Maps the object, which has the size that the layout says and cannot change it.
    pub fn open(object: impl AsFd, layout: AttachLayout) -> Result<Self, Refused> {
        let object = object.as_fd().try_clone_to_owned().map_err(|_| Refused::NoDescriptors)?;
        let size = u64::try_from(rustix::fs::fstat(&object)?.st_size).map_err(|_| Refused::NotOurs)?;
        if !rustix::fs::fcntl_get_seals(&object)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(Refused::NotSealed);
        }
        if size != layout.bytes() {
            return Err(Refused::NotOurs);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of a part that the object has.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), SESSION as usize, protection, MapFlags::SHARED, &object, 0)?
        };
        Ok(Self { object, base: base.cast(), layout, provided: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) })
    }

    /// The page that reader and agent share.
    pub fn page(&self) -> &AttachPage {
        // SAFETY: the mapping begins with it; all fields are atomics.
        unsafe { &*self.base.cast() }
    }

    /// The frees of blocks that the live table does not have.
    pub fn unknown_frees(&self) -> &UnknownFreeLog {
        // SAFETY: the mapping has it whole, at a multiple of its alignment; all fields are atomics.
        unsafe { &*self.base.add(UNKNOWN_FREES as usize).cast() }
    }

    /// Writes what the agent finds when it begins: into the new, empty object, and into `header`, which the attacher then writes into the process. `pid` is the
    /// process as this one sees it. Stamps are ticks of the counter if there is one.
    pub fn prepare(&self, header: &mut AttachHeader, pid: u32, counter: Option<Counter>) -> Result<(), Refused> {
        self.layout.write_to(header);
        if header.program == [0; 2] {
            header.program = program_range(pid).unwrap_or_default();
        }
        header.flags = header.flags & !FLAG_COUNTER | if counter.is_some() { FLAG_COUNTER } else { 0 };
        self.allocate(0, if self.layout.table_capacity.is_some() { SESSION } else { UNKNOWN_FREES });
        self.keep_private_ahead();
        let page = self.page();
        let patience = READER_PATIENCE.as_nanos() as u64;
        page.patience.store(counter.map_or(patience, |counter| counter.ticks(patience)), Ordering::Relaxed);
        page.version.store(VERSION, Ordering::Relaxed);
        page.magic.store(PAGE_MAGIC, Ordering::Release);
        self.write_session_header(pid, counter)?;
        self.layout.table_capacity.map_or(Ok(()), |capacity| self.write_table_header(header, capacity))
    }

    fn write_session_header(&self, pid: u32, counter: Option<Counter>) -> Result<(), Refused> {
        self.allocate(SESSION, size_of::<Header>() as u64);
        let part = MappedPart::new(&self.object, SESSION, size_of::<Header>())?;
        // SAFETY: the mapping is that long; all fields are atomics.
        let session = unsafe { &*part.base.cast::<Header>() };
        let clock = if counter.is_some() { AgentClock::Counter } else { AgentClock::Monotonic };
        session.pid.store(pid, Ordering::Relaxed);
        session.clock.store(clock as u32, Ordering::Relaxed);
        session.start.store(counter.map_or_else(monotonic_ns, |counter| counter.read()), Ordering::Relaxed);
        session.start_monotonic.store(monotonic_ns(), Ordering::Relaxed);
        session.ring_capacity.store(self.layout.capacity.rings, Ordering::Relaxed);
        session.node_capacity.store(self.layout.capacity.nodes, Ordering::Relaxed);
        session.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// What the agent will write there too when it begins: only a call of the program makes it begin, and the table of one that sleeps can be read before.
    fn write_table_header(&self, header: &AttachHeader, capacity: TableCapacity) -> Result<(), Refused> {
        self.allocate(self.layout.table, capacity.threads());
        let part = MappedPart::new(&self.object, self.layout.table, size_of::<TableHeader>())?;
        // SAFETY: the mapping is that long; all fields are atomics.
        let table = unsafe { &*part.base.cast::<TableHeader>() };
        table.shard_records.store(capacity.shard_records, Ordering::Relaxed);
        table.thread_capacity.store(capacity.threads, Ordering::Relaxed);
        table.shard_limit.store(capacity.shard_records, Ordering::Relaxed);
        table.threads.store(1, Ordering::Relaxed);
        let flags = [(FLAG_CONTENTS, table_v1::FLAG_CONTENTS), (FLAG_NO_ARGS, table_v1::FLAG_NO_ARGS)];
        let flags = flags.iter().filter(|(wanted, _)| header.flags & wanted != 0).map(|(_, flag)| flag);
        table.flags.store(flags.sum(), Ordering::Relaxed);
        table.rates.store(1, Ordering::Relaxed);
        if header.sample_bytes != 0 {
            table.rate_bytes[1].store(header.sample_bytes, Ordering::Relaxed);
            table.rates.store(2, Ordering::Relaxed);
            table.rate.store(1, Ordering::Relaxed);
        }
        table.magic.store(table_v1::MAGIC, Ordering::Release);
        let records = FIRST_RECORDS.min(capacity.bytes() - capacity.records());
        let start = self.layout.table + capacity.records();
        if self.allocate(start, records) {
            self.provide_records(records);
        }
        Ok(())
    }

    /// Permits the agent to use the records of its table in these bytes, from the first on. They are allocated.
    pub fn provide_records(&self, bytes: u64) {
        let stripe = u64::from(SHARDS) * u64::from(CHUNK) * size_of::<TableRecord>() as u64;
        let provided = &self.page().shard_records_provided;
        provided.fetch_max(bytes / stripe * u64::from(CHUNK), Ordering::Release);
    }

    /// The session, for a recorder.
    pub fn session(&self) -> Result<SessionMemory, Refused> {
        SessionMemory::open_part(&self.object, SESSION, self.layout.capacity)
    }

    /// Tells the agent that there is a reader, and allocates memory ahead of it. To be called at least every second or so.
    pub fn keep_alive(&self) {
        self.page().heartbeat.fetch_add(1, Ordering::Relaxed);
        self.keep_private_ahead();
    }

    /// Limits the private memory that is allocated ahead. The process says how much it uses, and may say anything: what is beyond the limit it takes itself.
    pub fn limit_private(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Tells the agent that the process has unloaded a module.
    pub fn note_unload(&self) {
        self.page().unloads.fetch_add(1, Ordering::Release);
    }

    /// Where the parts of the object are.
    pub fn layout(&self) -> &AttachLayout {
        &self.layout
    }

    /// Whether the agent has begun: only a call of the program makes it begin.
    pub fn has_begun(&self) -> bool {
        self.page().begun.load(Ordering::Acquire) == 1
    }

    /// Why the agent has ended by itself, if it has.
    pub fn ended(&self) -> Option<AttachedEnd> {
        match self.page().ended.load(Ordering::Relaxed) {
            0 => None,
            ENDED_NO_READER => Some(AttachedEnd::NoReader),
            ENDED_BY_READER => Some(AttachedEnd::Asked),
            ENDED_BY_FILTER => Some(AttachedEnd::Filter),
            _ => Some(AttachedEnd::Damaged),
        }
    }

    /// The agent's counts.
    pub fn counts(&self) -> AttachedCounts {
        let page = self.page();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AttachedCounts {
            unknown_frees: load(&page.unknown_frees),
            unknown_bytes: load(&page.unknown_bytes),
            unslotted: load(&page.unslotted),
            unprovided: load(&page.private_unprovided),
        }
    }

    fn keep_private_ahead(&self) {
        let page = self.page();
        let used = page.private_used.load(Ordering::Relaxed).min(self.layout.private_bytes);
        let wanted = (used + PRIVATE_AHEAD).min(self.layout.private_bytes).min(self.limit.load(Ordering::Relaxed));
        let provided = self.provided.load(Ordering::Relaxed);
        if wanted > provided {
            self.allocate(self.layout.private + provided, wanted - provided);
            self.provided.store(wanted, Ordering::Relaxed);
            page.private_provided.store(wanted, Ordering::Release);
        }
    }

    /// Gives the agent's private memory back: the process is gone, and only its table is read any more.
    pub fn give_back_private(&self) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.object, flags, self.layout.private, self.layout.private_bytes);
    }

    /// Allocates a part of the object. Where that fails, the process takes the memory itself, as soon as the agent writes there.
    pub fn allocate(&self, start: u64, length: u64) -> bool {
        rustix::fs::fallocate(&self.object, FallocateFlags::empty(), start, length).is_ok()
    }
}

/// A part of the object, mapped for a moment.
struct MappedPart {
    base: *mut u8,
    bytes: usize,
}

impl MappedPart {
    fn new(object: &OwnedFd, offset: u64, bytes: usize) -> Result<Self, Refused> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes, of a part that the object has.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, object, offset)? };
        Ok(Self { base: base.cast(), bytes })
    }
}

impl Drop for MappedPart {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}

impl Drop for AttachedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), SESSION as usize) };
    }
}

//! The memory that an agent shares with us, read with suspicion.
//!
//! Everything in it may change at any time and may be invalid: each number is loaded once, checked, and only then used.
//! The object's size is sealed, so everything within it can always be read.

use crate::provided::{Provided, Used};
use highwater_shm::ring_v1::RingHeader;
use highwater_shm::session_v1::{Capacity, Header, MAGIC, MODULE_BYTES, PROVIDES_RINGS, READS_RETURNS, ring_bytes};
use highwater_shm::stacks_v1::TrieNode;
use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Why a shared memory was refused.
#[derive(Debug)]
pub enum Refused {
    /// The system could not map it or give its size.
    System(rustix::io::Errno),
    /// The program had none to share.
    NoMemory,
    /// It was sent, but this process could open no more descriptors.
    NoDescriptors,
    /// It could change its size while it is mapped.
    NotSealed,
    /// It has another version, or is not an agent's memory.
    NotOurs,
    /// Its stamps are ticks of the processor, which this process cannot read.
    NoClock,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(error) => write!(f, "its memory cannot be mapped: {error}"),
            Self::NoMemory => f.write_str(
                "it got no memory to share with us; is there a limit on the size of files or of its address space?",
            ),
            Self::NoDescriptors => {
                f.write_str("no descriptor is left for its memory here: raise the limit of open files ('ulimit -n')")
            }
            Self::NotSealed => f.write_str("its memory is not sealed"),
            Self::NotOurs => f.write_str("its memory is not that of an agent of this version"),
            Self::NoClock => f.write_str("it counts processor ticks, which this machine cannot"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error)
    }
}

/// A mapping of an agent's memory.
pub struct SessionMemory {
    base: *mut u8,
    bytes: usize,
    capacity: Capacity,
    is_mapped_by_us: bool,
    /// Only for an agent in another process.
    provided: Option<Box<Mutex<Provided>>>,
}

// SAFETY: everything in it is reached through atomics.
unsafe impl Send for SessionMemory {}
// SAFETY: likewise.
unsafe impl Sync for SessionMemory {}

impl SessionMemory {
    /// The agent's private memory in its process, as address ranges: ordered, and not overlapping, whatever the process has written there. Empty for an
    /// agent that is older than this list.
    pub fn agent_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self.header().agent_memory.areas().map(|area| area.range).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, before| {
            let touch = next.start <= before.end;
            if touch {
                before.end = before.end.max(next.end);
            }
            touch
        });
        ranges
    }

    /// Maps an object that an agent sent.
    pub fn open(object: impl AsFd) -> Result<Self, Refused> {
        let size = u64::try_from(rustix::fs::fstat(&object)?.st_size).map_err(|_| Refused::NotOurs)?;
        if !rustix::fs::fcntl_get_seals(&object)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(Refused::NotSealed);
        }
        let bytes = usize::try_from(size).map_err(|_| Refused::NotOurs)?;
        if bytes < size_of::<Header>() {
            return Err(Refused::NotOurs);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &object, 0)? };
        let mut shared = Self {
            base: base.cast(),
            bytes,
            capacity: Capacity { rings: 1, nodes: 2 },
            is_mapped_by_us: true,
            provided: None,
        };
        shared.capacity = shared.checked_capacity().ok_or(Refused::NotOurs)?;
        let object = object.as_fd().try_clone_to_owned().ok();
        shared.provided = object.map(|object| Box::new(Mutex::new(Provided::new(object, shared.capacity))));
        shared.keep_ahead();
        Ok(shared)
    }

    /// The memory of an agent that is mapped already: because the agent is in this process, or because the caller reads more of it.
    ///
    /// # Safety
    /// It stays mapped as long as this lives. It may be read-only if nothing is stored through [`header`](Self::header).
    pub unsafe fn of_ourselves(base: *mut u8, bytes: u64) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok()?;
        let mut shared =
            Self { base, bytes, capacity: Capacity { rings: 1, nodes: 2 }, is_mapped_by_us: false, provided: None };
        shared.capacity = shared.checked_capacity()?;
        Some(shared)
    }

    /// Maps the part of an attacher's object that is the session: at `offset`, and as long as the capacity says. The attacher, which is not the program, knows the
    /// capacity, and has seen that the object cannot change its size.
    pub fn open_part(object: impl AsFd, offset: u64, capacity: Capacity) -> Result<Self, Refused> {
        let size = u64::try_from(rustix::fs::fstat(&object)?.st_size).map_err(|_| Refused::NotOurs)?;
        if !rustix::fs::fcntl_get_seals(&object)?.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(Refused::NotSealed);
        }
        let bytes = usize::try_from(capacity.bytes()).map_err(|_| Refused::NotOurs)?;
        if offset.checked_add(capacity.bytes()).is_none_or(|end| end > size) {
            return Err(Refused::NotOurs);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the kernel likes.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &object, offset)? };
        let mut shared = Self { base: base.cast(), bytes, capacity, is_mapped_by_us: true, provided: None };
        if shared.checked_capacity() != Some(capacity) {
            return Err(Refused::NotOurs);
        }
        let object = object.as_fd().try_clone_to_owned().ok();
        shared.provided = object.map(|object| Box::new(Mutex::new(Provided::attached(object, offset, capacity))));
        shared.keep_ahead();
        Ok(shared)
    }

    fn checked_capacity(&self) -> Option<Capacity> {
        let header = self.header();
        let capacity = Capacity {
            rings: header.ring_capacity.load(Ordering::Relaxed),
            nodes: header.node_capacity.load(Ordering::Relaxed),
        };
        let ours = header.magic.load(Ordering::Acquire) == MAGIC && capacity.is_sound();
        (ours && capacity.bytes() == self.bytes as u64).then_some(capacity)
    }

    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.bytes as u64);
        // SAFETY: every caller's offset is checked against the capacity, which fits the mapping.
        unsafe { self.base.add(offset as usize) }
    }

    /// Allocates the memory that the program will write next.
    pub fn keep_ahead(&self) {
        let Some(provided) = &self.provided else { return };
        let header = self.header();
        let used = Used {
            rings: (0..self.rings()).map(|ring| self.ring(ring).tail.load(Ordering::Relaxed)).collect(),
            nodes: header.nodes.load(Ordering::Relaxed).into(),
            modules: header.module_bytes.load(Ordering::Relaxed).into(),
        };
        let mut provided = provided.lock().unwrap_or_else(PoisonError::into_inner);
        provided.keep_ahead(&used);
        for (ring, bytes) in (0..).zip(provided.rings()) {
            let header = self.ring(ring);
            let bytes = bytes.min(ring_bytes(ring)) as u32;
            if header.provided.load(Ordering::Relaxed) != bytes {
                header.provided.store(bytes, Ordering::Release);
                wake_writer(header);
            }
        }
        header.provides.store(PROVIDES_RINGS | READS_RETURNS, Ordering::Release);
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is at least that long; all fields are atomics.
        unsafe { &*self.base.cast() }
    }

    /// The number of rings in use.
    pub fn rings(&self) -> u32 {
        self.header().rings.load(Ordering::Acquire).min(self.capacity.rings)
    }

    /// The header of a ring below [`rings`](Self::rings).
    pub fn ring(&self, ring: u32) -> &RingHeader {
        assert!(ring < self.capacity.rings);
        // SAFETY: below the capacity.
        unsafe { &*self.at(self.capacity.ring_headers()).cast::<RingHeader>().add(ring as usize) }
    }

    /// The words of a ring below [`rings`](Self::rings): a power of two of them.
    #[inline]
    pub fn ring_words(&self, ring: u32) -> &[AtomicU64] {
        assert!(ring < self.capacity.rings);
        let words = self.at(self.capacity.ring_data(ring)).cast::<AtomicU64>();
        // SAFETY: below the capacity, which fits the mapping.
        unsafe { std::slice::from_raw_parts(words, ring_bytes(ring) as usize / 8) }
    }

    /// A stack node: its parent, its generation, its address. `None` for one that does not exist.
    pub fn node(&self, number: u32) -> Option<(u32, u32, u64)> {
        if number == 0 || number >= self.header().nodes.load(Ordering::Acquire).min(self.capacity.nodes) {
            return None;
        }
        // SAFETY: below the capacity.
        let node = unsafe { &*self.at(self.capacity.stacks()).cast::<TrieNode>().add(number as usize) };
        let parent = node.parent.load(Ordering::Relaxed);
        let (generation, pc) = (node.generation.load(Ordering::Relaxed), node.pc.load(Ordering::Relaxed));
        (parent < number).then_some((parent, generation, pc))
    }

    /// The log of modules from byte `from` on.
    pub fn modules(&self, from: usize) -> Vec<u64> {
        let length = u64::from(self.header().module_bytes.load(Ordering::Acquire)).min(MODULE_BYTES) as usize;
        let words = self.at(self.capacity.modules()).cast::<AtomicU64>();
        // SAFETY: within the log.
        (from / 8..length / 8).map(|index| unsafe { (*words.add(index)).load(Ordering::Relaxed) }).collect()
    }
}

/// Wakes a ring's writer if it waits for the room that was just given to it.
pub fn wake_writer(header: &RingHeader) {
    fence(Ordering::SeqCst);
    if header.writer_waits.load(Ordering::Relaxed) != 0 && header.writer_waits.swap(0, Ordering::SeqCst) != 0 {
        let flags = rustix::thread::futex::Flags::empty();
        let _ = rustix::thread::futex::wake(&header.writer_waits, flags, u32::MAX);
    }
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        if self.is_mapped_by_us {
            // SAFETY: mapped by `open`, and nothing borrows from it any more.
            let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
        }
    }
}

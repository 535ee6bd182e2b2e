//! Where the resident memory of a process is, at one instant: rows that add up to its RSS.
//!
//! Made from outside, by comparing the pages that the kernel has in RAM with the addresses of live blocks (crate `resident`). Every resident byte is in exactly
//! one row, so the rows add up to the pages that were found.

use crate::ids::{Nanos, StackId, TagId};

/// What a part of the resident memory is. Files store these numbers: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RssKind {
    /// Live blocks of the malloc family: the bytes that were requested.
    LiveBlocks = 0,
    /// Usable bytes of live blocks beyond those that were requested.
    Slack = 1,
    /// Free, after the last block of a heap.
    FreeTop = 2,
    /// Free, on pages without any live block.
    FreePages = 3,
    /// Free, on pages that live blocks pin.
    FreePinned = 4,
    /// Free blocks that threads keep for themselves.
    ThreadCaches = 5,
    /// The allocator's own data: headers of blocks, arenas.
    AllocatorOwn = 6,
    /// The allocator's, not known any closer: free or its own. In other allocators than glibc's, and where blocks are not known.
    AllocatorRest = 7,
    /// Memory that the program mapped by itself.
    Mappings = 8,
    /// Stacks of threads, the main thread's included.
    Stacks = 9,
    /// Stacks of ended threads that the C library keeps.
    CachedStacks = 10,
    /// Pages of files that the page cache shares: code, constants.
    FileShared = 11,
    /// Private pages of files: data, relocations, zeroed variables.
    FilePrivate = 12,
    /// Shared memory: memfd, /dev/shm, System V, shared anonymous mappings.
    SharedMemory = 13,
    /// The agent's: what the process would not have without Highwater.
    Agent = 14,
    /// The kernel's code in the process (`[vdso]`).
    Kernel = 15,
    /// Anonymous memory that nothing above explains.
    Other = 16,
}

impl RssKind {
    /// All kinds, in the order in which they are shown, which is that of their numbers.
    pub const ALL: [Self; 17] = [
        Self::LiveBlocks,
        Self::Slack,
        Self::FreeTop,
        Self::FreePages,
        Self::FreePinned,
        Self::ThreadCaches,
        Self::AllocatorOwn,
        Self::AllocatorRest,
        Self::Mappings,
        Self::Stacks,
        Self::CachedStacks,
        Self::FileShared,
        Self::FilePrivate,
        Self::SharedMemory,
        Self::Agent,
        Self::Kernel,
        Self::Other,
    ];

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::LiveBlocks => "live_blocks",
            Self::Slack => "slack",
            Self::FreeTop => "free_top",
            Self::FreePages => "free_pages",
            Self::FreePinned => "free_pinned",
            Self::ThreadCaches => "thread_caches",
            Self::AllocatorOwn => "allocator_own",
            Self::AllocatorRest => "allocator_rest",
            Self::Mappings => "mappings",
            Self::Stacks => "stacks",
            Self::CachedStacks => "cached_stacks",
            Self::FileShared => "file_shared",
            Self::FilePrivate => "file_private",
            Self::SharedMemory => "shared_memory",
            Self::Agent => "agent",
            Self::Kernel => "kernel",
            Self::Other => "other",
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::LiveBlocks => "live blocks",
            Self::Slack => "slack of live blocks",
            Self::FreeTop => "free: top of the heap",
            Self::FreePages => "free: whole pages",
            Self::FreePinned => "free: on pages with live blocks",
            Self::ThreadCaches => "free: thread caches",
            Self::AllocatorOwn => "allocator's own data",
            Self::AllocatorRest => "allocator: free or its own",
            Self::Mappings => "the program's mappings",
            Self::Stacks => "thread stacks",
            Self::CachedStacks => "stacks of ended threads",
            Self::FileShared => "files: page cache",
            Self::FilePrivate => "files: private pages",
            Self::SharedMemory => "shared memory",
            Self::Agent => "Highwater's agent",
            Self::Kernel => "kernel's code (vdso)",
            Self::Other => "not explained",
        }
    }

    /// The kind stored as `number`.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Whether it is free memory inside the allocator.
    pub fn is_free(self) -> bool {
        matches!(self, Self::FreeTop | Self::FreePages | Self::FreePinned | Self::ThreadCaches)
    }
}

/// A row of a [`RssBreakdown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssRow {
    /// What it is.
    pub kind: RssKind,
    /// Bytes in RAM.
    pub resident: u64,
    /// Bytes of address space, resident or not. Not less than `resident`.
    pub size: u64,
    /// Bytes that were swapped out.
    pub swapped: u64,
}

/// Why a breakdown was made. Files store these numbers: append only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum BreakdownReason {
    /// A user asked for it.
    #[default]
    Request = 0,
    /// RSS was the highest so far.
    RssPeak = 1,
    /// The program named this instant.
    Mark = 2,
    /// It is the last before the program's end.
    End = 3,
}

/// A breakdown of the resident memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssBreakdown {
    /// When, in the time of the recording or snapshot.
    pub at: Nanos,
    /// Why.
    pub reason: BreakdownReason,
    /// The rows, by kind. Kinds without bytes are left out.
    pub rows: Vec<RssRow>,
    /// The kernel's own figures.
    pub process: ProcessMemory,
    /// The allocator.
    pub allocator: AllocatorMemory,
    /// False if not every live block is known: figures were sampled, or the program began before its blocks were recorded. Then sites are a part, and free memory
    /// inside the allocator is not known.
    pub knows_every_block: bool,
    /// How far the sum may be off because the process changed while it was read, in bytes.
    pub uncertain: u64,
    /// Live blocks and mappings by site.
    pub sites: Vec<SitePages>,
    /// Files, the largest first.
    pub files: Vec<FilePages>,
    /// The address space of heaps, in order.
    pub areas: Vec<HeapArea>,
}

/// What the kernel reports of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// VmRSS before the pages were read.
    pub rss: u64,
    /// VmRSS afterwards.
    pub rss_after: u64,
    /// The highest VmRSS of the process so far (VmHWM).
    pub rss_peak: u64,
    /// Anonymous pages (RssAnon).
    pub anonymous: u64,
    /// Private writable address space (VmData).
    pub data: u64,
    /// The proportional set size; `None` if it was not read.
    pub pss: Option<u64>,
    /// Swapped out (VmSwap).
    pub swap: u64,
    /// Page tables (VmPTE), which are not part of RSS.
    pub page_tables: u64,
    /// Anonymous memory in transparent huge pages.
    pub huge: u64,
    /// Pages that the program offered to the kernel (`MADV_FREE`) and that are still in RAM; `None` if it was not read.
    pub lazily_free: Option<u64>,
    /// Threads.
    pub threads: u64,
    /// The memory limit that applies to the process, if there is one.
    pub limit: Option<MemoryLimit>,
}

/// The limit of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// What the group uses: all its processes, page cache and page tables included.
    pub used: u64,
}

/// The state of the allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocatorMemory {
    /// Its name with the version where that is known, such as `glibc 2.36` or `jemalloc`; empty if it was not recognized.
    pub name: String,
    /// The number of its arenas; 0 if not known.
    pub arenas: u64,
    /// What `malloc_trim(0)` would return to the kernel; `None` if that is not known.
    pub trim: Option<u64>,
    /// True if `trim` is an upper bound: caches of threads were not read.
    pub trim_is_upper_bound: bool,
    /// Free memory at the tops of other arenas than the main one, which `malloc_trim` does not return.
    pub other_tops: u64,
}

/// The pages of a site: of its malloc blocks, or of its mappings (by the heap of the tag).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SitePages {
    /// The stack.
    pub stack: StackId,
    /// The tag.
    pub tag: TagId,
    /// Live blocks.
    pub blocks: u64,
    /// Their requested bytes.
    pub live: u64,
    /// Their usable bytes.
    pub usable: u64,
    /// The requested bytes that are in RAM.
    pub resident: u64,
    /// Bytes of pages that could be returned to the kernel if only these blocks were freed.
    pub pinned: u64,
}

/// The resident pages of a file, or of a shared memory object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePages {
    /// Its path, as the kernel shows it.
    pub path: String,
    /// Pages of the page cache.
    pub shared: u64,
    /// Private pages.
    pub private: u64,
}

/// What a [`HeapArea`] is. Files store these numbers: append only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AreaKind {
    /// The heap that grows with `brk`.
    #[default]
    Main = 0,
    /// A heap of another arena.
    Arena = 1,
    /// A mapping of another allocator.
    Allocator = 2,
}

/// A range of address space in which an allocator places blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapArea {
    /// What it is.
    pub kind: AreaKind,
    /// Its first address, a multiple of the page size.
    pub start: u64,
    /// Its pages, in order.
    pub runs: Vec<PageRun>,
}

/// Pages in a row that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// How many. Not 0.
    pub pages: u32,
    /// Bytes of live blocks on each of them, from 0 to 4096.
    pub live: u16,
    /// Who keeps them.
    pub owner: PageOwner,
}

/// Who keeps a page of a heap in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOwner {
    /// It is not in RAM.
    Absent,
    /// Nobody: it could be returned to the kernel.
    Free,
    /// The blocks of one site: an index into [`RssBreakdown::sites`].
    Site(u32),
    /// Blocks of several sites.
    Several,
    /// The allocator: its own data, or the cache of a thread.
    Allocator,
}

impl RssBreakdown {
    /// The resident bytes of all rows.
    pub fn sum(&self) -> u64 {
        self.rows.iter().map(|row| row.resident).sum()
    }

    /// The resident bytes of a kind.
    pub fn resident(&self, kind: RssKind) -> u64 {
        self.rows.iter().filter(|row| row.kind == kind).map(|row| row.resident).sum()
    }

    /// Free memory inside the allocator that is in RAM.
    pub fn free(&self) -> u64 {
        self.rows.iter().filter(|row| row.kind.is_free()).map(|row| row.resident).sum()
    }
}

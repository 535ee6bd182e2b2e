//! What an attacher and the agent that it injects into a running process agree on.
//!
//! Three things carry the agreement. The attacher creates all of them from outside, and calls no function of the process:
//!
//! * the **image**: a flat file that can be mapped at any address that is a multiple of a page. It begins with an [`ImageHead`]. Below
//!   [`ImageHead::data`] the mapping is readable and executable, from there on private, anonymous and writable. No relocations, no imports, no
//!   thread-local storage.
//! * in its writable part, a [`SwitchPage`] and an [`AttachHeader`], which the attacher fills in;
//! * the **shared memory**: one memory object ([`OBJECT_NAME`]), whose size is [`AttachLayout::bytes`]. A later attacher finds it in the list of the process's
//!   mappings, and everything else through the [`AttachPage`] at its beginning.
//!
//! ```text
//!  image:   ImageHead │ code, tables ┊ SwitchPage │ AttachHeader │ other data            (┊ ImageHead::data)
//!
//!  object:  AttachPage │ control_v1 │ ThreadSlot × n │ ModuleTable │ UnknownFreeLog │ session_v1 │ table_v1 (live only) │ private memory
//!           0            CONTROL      THREADS          MODULES       UNKNOWN_FREES    SESSION      AttachLayout::table   AttachLayout::private
//! ```
//!
//! # Calls
//! A hooked function jumps to its *island*, which undoes what the moved first instruction did, sets `r11` to the address (in the process) of the
//! [`Implementation`] that the function belongs to, and jumps to the image's entry for that function. Stack pointer, `rbp`, arguments and return
//! address are those of the call. `rax`, `r10` and `r11` are free. Entries come in the order of [`FUNCTIONS`]: the entry's offset in the image is
//! the word at `ImageHead::entries + 8 * index`. The entry behaves as the function does.
//!
//! # Order
//! 1. The attacher maps image and object, writes the image, the [`AttachHeader`] (magic last), the header of the session, the [`AttachPage`].
//! 2. It patches functions. The switch is [`MODE_OFF`]: hooks pass calls on.
//! 3. It stores [`MODE_BEGIN`]. The first call that finds that begins the session, and stores [`MODE_EXACT`] or [`MODE_SAMPLED`].
//!    Calls of other threads meanwhile are passed on: their blocks count as older.
//! 4. While it records, a reader changes [`AttachPage::heartbeat`]. An agent that finds the same value for longer than [`AttachPage::patience`]
//!    stores [`MODE_OFF`] and [`ENDED_NO_READER`].
//! 5. To detach, the attacher stores [`MODE_OFF`], then restores the functions. The mappings stay.
//!
//! To begin once more in the same process, all threads are stopped and none is inside ([`ThreadSlot::depth`] is 0 for every thread that exists,
//! and no instruction pointer lies in the image or in an island). Then the attacher writes the image's data anew, makes the whole object zero
//! (`FALLOC_FL_PUNCH_HOLE`), and continues with step 1.
//!
//! A forked child finds [`MODE_OFF`]: the kernel wipes the switch page (`MADV_WIPEONFORK`). Its hooks read nothing but the switch and the
//! [`AttachHeader`], since the object is not there (`MADV_DONTFORK`).

use crate::control_v1::CONTROL_BYTES;
use crate::session_v1::Capacity;
use crate::table_v1::{ALIGNMENT, TableCapacity};
use core::sync::atomic::{AtomicU64, Ordering};

/// The version of everything here. An attacher that finds another one can still read [`AttachHeader::hooks`], if the magic is this one.
pub const VERSION: u64 = 1;
/// The first word of an image.
pub const IMAGE_MAGIC: u64 = u64::from_le_bytes(*b"HWimg_v1");
/// The first word of an [`AttachHeader`].
pub const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"HWatt_v1");
/// The first word of an [`AttachPage`].
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"HWapg_v1");
/// The name of the memory object, by which a later attacher finds it in the list of mappings.
pub const OBJECT_NAME: &core::ffi::CStr = c"highwater-attach-v1";

const PAGE: u64 = 4096;

/// The beginning of an image. Offsets count from here.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHead {
    /// [`IMAGE_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u64,
    /// Offset of a table with the offset of the entry of each of the [`FUNCTIONS`], in their order. 0 for a function that this image does not hook.
    pub entries: u64,
    /// The number of entries.
    pub entry_count: u64,
    /// Offset of the first writable page. Everything below is readable and executable.
    pub data: u64,
    /// Offset of the [`SwitchPage`]: a whole page, the first writable one.
    pub switch: u64,
    /// Offset of the [`AttachHeader`].
    pub header: u64,
    /// The end of the bytes that the file has. Bytes from here to [`end`](Self::end) are zero at first.
    pub file_end: u64,
    /// The end of the image: a multiple of a page.
    pub end: u64,
}

const _: () = assert!(size_of::<ImageHead>() == 72);

/// Hooks pass calls on. A forked child, and an image that was not switched on, has this.
pub const MODE_OFF: u64 = 0;
/// The next call begins the session.
pub const MODE_BEGIN: u64 = 1;
/// Every block is recorded.
pub const MODE_EXACT: u64 = 2;
/// Samples are recorded.
pub const MODE_SAMPLED: u64 = 3;

/// The page that the kernel wipes on fork.
#[repr(C, align(4096))]
pub struct SwitchPage {
    /// One of the modes. The attacher stores [`MODE_OFF`] and [`MODE_BEGIN`], the agent the others, and [`MODE_OFF`] if it ends by itself.
    pub mode: AtomicU64,
}

/// A function that can be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookableFunction {
    /// Its symbol.
    pub name: &'static str,
    /// The number of its arguments: the registers `rdi`, `rsi`, `rdx`, … up to this number have a meaning at its entry.
    pub arguments: u8,
}

/// The index of each function in [`FUNCTIONS`], in [`Implementation::real`] and among the image's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "each is the symbol in FUNCTIONS at the same place")]
pub enum FunctionIndex {
    Malloc,
    Free,
    Calloc,
    Realloc,
    Memalign,
    AlignedAlloc,
    PosixMemalign,
    Valloc,
    Pvalloc,
    FreeSized,
    FreeAlignedSized,
    New,
    NewArray,
    NewNothrow,
    NewArrayNothrow,
    NewAligned,
    NewArrayAligned,
    NewAlignedNothrow,
    NewArrayAlignedNothrow,
    Delete,
    DeleteArray,
    DeleteNothrow,
    DeleteArrayNothrow,
    DeleteSized,
    DeleteArraySized,
    DeleteAligned,
    DeleteArrayAligned,
    DeleteAlignedNothrow,
    DeleteArrayAlignedNothrow,
    DeleteSizedAligned,
    DeleteArraySizedAligned,
    Dlclose,
    Prctl,
    Syscall,
    Mallocx,
    Rallocx,
    Dallocx,
    Sdallocx,
}

const fn function(name: &'static str, arguments: u8) -> HookableFunction {
    HookableFunction { name, arguments }
}

/// The number of [`FUNCTIONS`].
pub const FUNCTION_COUNT: usize = 38;

/// All functions that can be hooked. `dlclose` is the C library's, whichever allocator there is; hooking it is optional, and lets the agent notice at once
/// that a library was unloaded. `prctl` and `syscall` are, too: the agent ends before the program installs a seccomp filter, which may forbid the agent's system calls.
/// The last ones are jemalloc's own interface, which folly and Rust's `tikv-jemallocator` call (without `xallocx`, which resizes a block where it is).
///
/// Functions are only appended: images with fewer entries have the same layout, and an attacher leaves out what its image does not hook.
pub const FUNCTIONS: [HookableFunction; FUNCTION_COUNT] = [
    function("malloc", 1),
    function("free", 1),
    function("calloc", 2),
    function("realloc", 2),
    function("memalign", 2),
    function("aligned_alloc", 2),
    function("posix_memalign", 3),
    function("valloc", 1),
    function("pvalloc", 1),
    function("free_sized", 2),
    function("free_aligned_sized", 3),
    function("_Znwm", 1),
    function("_Znam", 1),
    function("_ZnwmRKSt9nothrow_t", 2),
    function("_ZnamRKSt9nothrow_t", 2),
    function("_ZnwmSt11align_val_t", 2),
    function("_ZnamSt11align_val_t", 2),
    function("_ZnwmSt11align_val_tRKSt9nothrow_t", 3),
    function("_ZnamSt11align_val_tRKSt9nothrow_t", 3),
    function("_ZdlPv", 1),
    function("_ZdaPv", 1),
    function("_ZdlPvRKSt9nothrow_t", 2),
    function("_ZdaPvRKSt9nothrow_t", 2),
    function("_ZdlPvm", 2),
    function("_ZdaPvm", 2),
    function("_ZdlPvSt11align_val_t", 2),
    function("_ZdaPvSt11align_val_t", 2),
    function("_ZdlPvSt11align_val_tRKSt9nothrow_t", 3),
    function("_ZdaPvSt11align_val_tRKSt9nothrow_t", 3),
    function("_ZdlPvmSt11align_val_t", 3),
    function("_ZdaPvmSt11align_val_t", 3),
    function("dlclose", 1),
    function("prctl", 5),
    function("syscall", 6),
    function("mallocx", 2),
    function("rallocx", 3),
    function("dallocx", 2),
    function("sdallocx", 3),
];

/// Room for functions in an [`Implementation`]: later versions may have more.
pub const FUNCTION_ROOM: usize = 48;
/// The maximum number of allocators in one process.
pub const MOST_IMPLEMENTATIONS: usize = 8;
/// The maximum number of hooked functions.
pub const MOST_HOOKS: usize = 160;
/// The maximum number of islands.
pub const MOST_ISLANDS: usize = 16;

/// The first word of an island. After it comes the address of the [`AttachHeader`], so that a forked child, which does not have the object, can be found to have
/// hooks, through the jump at a patched function; then code.
pub const ISLAND_MAGIC: u64 = u64::from_le_bytes(*b"HWisl_v1");

/// One allocator of the process: glibc's, or one that is linked or loaded.
///
/// Its address is what islands pass in `r11`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Implementation {
    /// For each of the [`FUNCTIONS`] that the allocator has: where to call the real one. The trampoline if the function is hooked, the function itself if it is
    /// not; 0 if the allocator has no such function.
    ///
    /// The agent also calls functions that the program did not: `operator new` through the form that does not throw (no exception may pass the agent's frames).
    /// If that form is 0, calls are passed on and not recorded.
    pub real: [u64; FUNCTION_ROOM],
    /// Its `malloc_usable_size`, or 0.
    pub usable_size: u64,
    /// Bit [`EXACT_USABLE_SIZES`] if blocks have the sizes of glibc's, so that [`Implementation::usable_size`] is worth asking for each block.
    pub flags: u64,
}

/// Bit of [`Implementation::flags`]: this is glibc's allocator.
pub const EXACT_USABLE_SIZES: u64 = 1;

const _: () = assert!(size_of::<Implementation>() == 400);

/// A function entry that was changed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hook {
    /// Address of the first byte that was changed: after the function's first instruction, or its entry.
    pub address: u64,
    /// The number of bytes that were changed: at most 16.
    pub length: u64,
    /// What was there.
    pub original: [u8; 16],
    /// What is there now.
    pub patched: [u8; 16],
    /// The function's own address.
    pub entry: u64,
    /// The island's code for it.
    pub island: u64,
    /// The moved instructions, and the jump to the rest of the function.
    pub trampoline: u64,
    /// Index in [`AttachHeader::implementations`].
    pub implementation: u64,
    /// Index in [`FUNCTIONS`].
    pub function: u64,
    /// Bytes of whole instructions that were moved, counted from the function's entry.
    pub moved: u64,
}

const _: () = assert!(size_of::<Hook>() == 96);

/// Bit of [`AttachHeader::flags`]: keep a live table instead of recording events.
pub const FLAG_LIVE: u64 = 1;
/// Bit of [`AttachHeader::flags`]: stamps are ticks of the processor's counter.
pub const FLAG_COUNTER: u64 = 2;
/// Bit of [`AttachHeader::flags`]: record the stacks of frees.
pub const FLAG_FREE_STACKS: u64 = 4;
/// Bit of [`AttachHeader::flags`]: the collector may read the contents of blocks.
pub const FLAG_CONTENTS: u64 = 8;
/// Bit of [`AttachHeader::flags`]: the program's arguments are not to be read.
pub const FLAG_NO_ARGS: u64 = 16;

/// What the attacher writes into the image's data. All zero in the image's file.
///
/// Addresses are those of the process. The agent reads it only while the switch is not [`MODE_OFF`], except for [`implementations`](Self::implementations).
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct AttachHeader {
    /// [`HEADER_MAGIC`], written last.
    pub magic: u64,
    /// [`VERSION`].
    pub version: u64,

    /// Written by the script: 1 when the object is mapped and waits to be opened, 2 when its descriptor is closed.
    pub script_done: u64,
    /// Written by the attacher: 1 when it has opened the object.
    pub script_acknowledged: u64,
    unused: u64,
    /// Written by the script: the results of its system calls.
    pub script_results: [u64; 24],

    /// Where the image is.
    pub image: u64,
    /// Where the object is mapped.
    pub shared: u64,
    /// The size of that mapping: that of the object.
    pub shared_bytes: u64,
    /// [`AttachLayout::table`], 0 if there is no table.
    pub table: u64,
    /// [`AttachLayout::private`].
    pub private: u64,
    /// [`AttachLayout::private_bytes`].
    pub private_bytes: u64,
    /// [`Capacity::rings`].
    pub rings: u64,
    /// [`Capacity::nodes`].
    pub nodes: u64,
    /// [`TableCapacity::shard_records`], 0 if there is no table.
    pub shard_records: u64,
    /// [`TableCapacity::threads`], 0 if there is no table.
    pub table_threads: u64,

    /// The process, as it sees itself: its number in its own namespace.
    pub process: u64,
    /// [`FLAG_LIVE`] and others.
    pub flags: u64,
    /// Mean bytes per sample, 0 to record every block.
    pub sample_bytes: u64,
    /// The maximum number of blocks in the table, 0 for as many as there is room for.
    pub most_blocks: u64,

    /// Offset of the kernel's thread number (four bytes) from the thread pointer (`fs:0`), in the C library's block of a thread. 0 if it is not known: the agent
    /// then asks the kernel now and then, and a thread that takes over another's stack is recognised late.
    pub thread_id_offset: u64,
    /// Address of the C library's `_dl_find_object` (glibc 2.35 and later), or 0: then the agent uses the table of modules.
    pub find_object: u64,
    /// The lowest address of the program itself, and its end: from its first mapping to its last. Both 0 if they are not known.
    pub program: [u64; 2],
    /// The end of the main thread's stack: the value of `__libc_stack_end`, or the highest address of the mapping `[stack]`.
    pub stack_end: u64,
    /// Address of the vDSO's `__vdso_clock_gettime`, or 0: then the agent makes a system call for the time.
    pub clock_gettime: u64,

    /// The number of [`implementations`](Self::implementations).
    pub implementation_count: u64,
    /// The allocators.
    pub implementations: [Implementation; MOST_IMPLEMENTATIONS],
    /// The number of [`islands`](Self::islands).
    pub island_count: u64,
    /// The islands' addresses: a page each.
    pub islands: [u64; MOST_ISLANDS],
    /// The number of [`hooks`](Self::hooks).
    pub hook_count: u64,
    /// The functions that are changed, or are about to be: written before the first change.
    pub hooks: [Hook; MOST_HOOKS],
}

const _: () = {
    assert!(core::mem::offset_of!(AttachHeader, script_done) == 16);
    assert!(core::mem::offset_of!(AttachHeader, script_results) == 40);
    assert!(core::mem::offset_of!(AttachHeader, image) == 232);
    assert!(core::mem::offset_of!(AttachHeader, process) == 312);
    assert!(core::mem::offset_of!(AttachHeader, implementation_count) == 392);
    assert!(core::mem::offset_of!(AttachHeader, implementations) == 400);
    assert!(core::mem::offset_of!(AttachHeader, hooks) == 3744);
    assert!(size_of::<AttachHeader>() == 19136);
};

/// What a reader and the agent say to each other while it records. In the object, so both have it mapped.
#[repr(C, align(64))]
pub struct AttachPage {
    /// [`PAGE_MAGIC`], written last by the attacher.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// Changed by the reader at least every quarter of the patience. Its value means nothing: clocks of different namespaces need not agree.
    pub heartbeat: AtomicU64,
    /// How long the agent keeps recording while the heartbeat stays the same: in units of the session's clock (ticks of the counter, or nanoseconds). 0 for ever.
    pub patience: AtomicU64,
    /// Changed by the reader when it finds that the process has unloaded a module.
    pub unloads: AtomicU64,
    /// Private memory below this offset is allocated: the reader does that ahead of [`private_used`](Self::private_used).
    pub private_provided: AtomicU64,
    /// Where the image is in the process: written by the attacher.
    pub image: AtomicU64,
    /// Where the [`AttachHeader`] is in the process: written by the attacher.
    pub header: AtomicU64,

    /// Written by the agent: 1 when the session has begun, 2 when that failed.
    pub begun: AtomicU64,
    /// Written by the agent: why it ended by itself, or 0. [`ENDED_NO_READER`] …
    pub ended: AtomicU64,
    /// Private memory that is in use: offsets below this. Grows only.
    pub private_used: AtomicU64,
    /// Bytes of it that the agent took before the reader had allocated them, so that they are charged to the process.
    pub private_unprovided: AtomicU64,
    /// Frees of blocks that are older than the recording, as far as the agent can tell: those that the live table does not have. (In a recording, a reader
    /// sees them itself.)
    pub unknown_frees: AtomicU64,
    /// Their usable sizes.
    pub unknown_bytes: AtomicU64,
    /// Calls that were passed on because no [`ThreadSlot`] was free.
    pub unslotted: AtomicU64,
    /// The number of those calls that have not returned: frames of the image on stacks of threads without a slot.
    pub unslotted_frames: AtomicU64,

    /// Written by the reader of a live table: the number of records of each shard whose memory is allocated. The agent uses no others: a block that finds no record is
    /// counted as untracked. 0: all may be used.
    pub shard_records_provided: AtomicU64,
}

const _: () = {
    assert!(core::mem::offset_of!(AttachPage, begun) == 64);
    assert!(core::mem::offset_of!(AttachPage, shard_records_provided) == 128);
    assert!(size_of::<AttachPage>() == 192);
};

/// [`AttachPage::ended`]: the heartbeat stopped.
pub const ENDED_NO_READER: u64 = 1;
/// [`AttachPage::ended`]: the reader asked for it (the session's `stop`).
pub const ENDED_BY_READER: u64 = 2;
/// [`AttachPage::ended`]: the session's memory has impossible values.
pub const ENDED_DAMAGED: u64 = 3;
/// [`AttachPage::ended`]: the program installed a seccomp filter.
pub const ENDED_BY_FILTER: u64 = 4;

/// The number of thread slots: a power of two.
pub const THREAD_SLOTS: usize = 1 << 14;

/// The number of slots in a row in which a thread pointer can be.
pub const SLOT_PROBES: usize = 64;

/// The first slot in which a thread pointer can be.
#[inline(always)]
pub const fn slot_home(pointer: u64) -> usize {
    ((pointer >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - THREAD_SLOTS.ilog2())) as usize
}

/// What a thread has of its own, in place of thread-local storage. Found by the thread pointer, and claimed by storing that.
#[repr(C, align(64))]
pub struct ThreadSlot {
    /// The thread pointer, 0 in a free slot.
    pub pointer: AtomicU64,
    /// The kernel's number of the thread that used the slot last. Stacks, and thread pointers with them, are used again.
    pub id: AtomicU64,
    /// Not 0 while a frame of the image is on the thread's stack: from when an entry has found its slot until it returns, except in the last jump to a real function.
    /// [`RECORDING`], and [`PASSING`] for each frame under which the program's own calls are recorded: a real `dlclose` runs destructors.
    pub depth: AtomicU64,
    /// Hooked calls so far. The agent looks at the reader's words every so often.
    pub calls: AtomicU64,
    /// The agent's own words.
    pub words: [AtomicU64; 4],
}

const _: () = assert!(size_of::<ThreadSlot>() == 64);

/// Bits of [`ThreadSlot::depth`] that are not 0 while a call is recorded, or passed on with a frame of the image below it: calls that the real function makes are
/// passed on.
pub const RECORDING: u64 = 0xffff_ffff;
/// One frame in [`ThreadSlot::depth`] that does not record.
pub const PASSING: u64 = 1 << 32;

/// The maximum number of entries in the table of modules.
pub const MOST_MODULES: usize = 4096;

/// A loaded module, in a process without `_dl_find_object`. The table is ordered by address.
#[repr(C)]
pub struct ModuleEntry {
    /// The address of its first mapping.
    pub start: AtomicU64,
    /// The end of its last.
    pub end: AtomicU64,
    /// The difference between its addresses and those in its file.
    pub bias: AtomicU64,
    /// The address of its `.eh_frame_hdr`, 0 if it has none.
    pub unwind_tables: AtomicU64,
    /// The address of its path, a C string in the process's memory (the loader's own); 0 if there is none.
    pub path: AtomicU64,
    rest: [u64; 3],
}

/// The table of modules.
#[repr(C, align(64))]
pub struct ModuleTable {
    /// Odd while a reader changes the table.
    pub changes: AtomicU64,
    /// The number of entries.
    pub count: AtomicU64,
    rest: [u64; 6],
    /// The modules.
    pub modules: [ModuleEntry; MOST_MODULES],
}

/// Offset of the [control page](crate::control_v1) in the object. The [`AttachPage`] is at 0.
pub const CONTROL: u64 = PAGE;
/// Offset of the [`ThreadSlot`]s.
pub const THREADS: u64 = CONTROL + CONTROL_BYTES;
/// Offset of the [`ModuleTable`].
pub const MODULES: u64 = THREADS + (THREAD_SLOTS * size_of::<ThreadSlot>()) as u64;
/// Offset of the [`UnknownFreeLog`].
pub const UNKNOWN_FREES: u64 = 2 << 20;
/// Offset of the [session](crate::session_v1).
pub const SESSION: u64 = 4 << 20;

const _: () = {
    assert!(MODULES + size_of::<ModuleTable>() as u64 <= UNKNOWN_FREES);
    assert!(UNKNOWN_FREES + size_of::<UnknownFreeLog>() as u64 == SESSION && SESSION.is_multiple_of(ALIGNMENT));
};

/// The number of frees that an [`UnknownFreeLog`] has room for.
pub const LOGGED_FREES: usize = ((SESSION - UNKNOWN_FREES) as usize - 64) / 8;

/// The addresses of the blocks that were freed or resized last while the live table did not have them: a reader that has a list of older blocks takes them from it.
/// (A recording has every free.)
#[repr(C, align(64))]
pub struct UnknownFreeLog {
    /// The number of frees until now.
    pub written: AtomicU64,
    rest: [u64; 7],
    /// In a ring. Each has the address in its lower 48 bits, and above them the round of the ring, counted from 1, modulo 2¹⁶.
    entries: [AtomicU64; LOGGED_FREES],
}

/// What an [`UnknownFreeLog`] has at a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedFree {
    /// This address.
    Address(u64),
    /// Nothing yet.
    NotYet,
    /// A later one: the ring was too small.
    Overwritten,
}

impl UnknownFreeLog {
    const ADDRESS: u64 = (1 << 48) - 1;

    fn round(number: u64) -> u64 {
        (number / LOGGED_FREES as u64 + 1) & 0xffff
    }

    /// By the agent: an unknown block is about to be freed.
    pub fn append(&self, address: u64) {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let entry = address & Self::ADDRESS | Self::round(number) << 48;
        self.entries[(number % LOGGED_FREES as u64) as usize].store(entry, Ordering::Release);
    }

    /// By a reader, which asks for one after the other.
    pub fn at(&self, number: u64) -> LoggedFree {
        let entry = self.entries[(number % LOGGED_FREES as u64) as usize].load(Ordering::Acquire);
        match (entry >> 48).wrapping_sub(Self::round(number)) & 0xffff {
            0 if entry >> 48 == Self::round(number) => LoggedFree::Address(entry & Self::ADDRESS),
            later if later < 0x8000 && entry != 0 => LoggedFree::Overwritten,
            _ => LoggedFree::NotYet,
        }
    }
}

/// Where the parts of the object are whose place depends on the sizes. All offsets are multiples of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachLayout {
    /// Of the session, which begins at [`SESSION`].
    pub capacity: Capacity,
    /// Of the table, if there is one.
    pub table_capacity: Option<TableCapacity>,
    /// Offset of the table in the object, 0 if there is none.
    pub table: u64,
    /// Offset of the agent's private memory.
    pub private: u64,
    /// Bytes of it.
    pub private_bytes: u64,
}

impl AttachLayout {
    /// For recording.
    pub fn for_recording(capacity: Capacity) -> Self {
        Self::new(capacity, None, Self::private_bytes_beside(capacity))
    }

    /// For a live table.
    pub fn for_live(capacity: Capacity, table: TableCapacity) -> Self {
        // An index of blocks, and the smaller ones that it replaced.
        Self::new(capacity, Some(table), table.blocks() * 128 + Self::private_bytes_beside(capacity))
    }

    /// Address space for an index of stacks, and for the stack and the caches that each thread remembers.
    fn private_bytes_beside(capacity: Capacity) -> u64 {
        const THREAD_BYTES: u64 = 2 << 20;
        u64::from(capacity.nodes) * 64 + u64::from(capacity.rings) * THREAD_BYTES
    }

    fn new(capacity: Capacity, table_capacity: Option<TableCapacity>, private_bytes: u64) -> Self {
        let table = table_capacity.map_or(0, |_| SESSION + TableCapacity::start_after(&capacity));
        let end = table_capacity.map_or(SESSION + capacity.bytes(), |size| table + size.bytes());
        Self { capacity, table_capacity, table, private: end.next_multiple_of(PAGE), private_bytes }
    }

    /// The size of the object.
    pub fn bytes(&self) -> u64 {
        self.private + self.private_bytes
    }

    /// Writes the layout into a header.
    pub fn write_to(&self, header: &mut AttachHeader) {
        header.shared_bytes = self.bytes();
        header.table = self.table;
        header.private = self.private;
        header.private_bytes = self.private_bytes;
        header.rings = self.capacity.rings.into();
        header.nodes = self.capacity.nodes.into();
        header.shard_records = self.table_capacity.map_or(0, |table| table.shard_records.into());
        header.table_threads = self.table_capacity.map_or(0, |table| table.threads.into());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;
    use std::vec;

    #[test]
    fn functions_have_the_index_that_their_name_says() {
        for (index, name) in [
            (FunctionIndex::Malloc, "malloc"),
            (FunctionIndex::PosixMemalign, "posix_memalign"),
            (FunctionIndex::FreeAlignedSized, "free_aligned_sized"),
            (FunctionIndex::New, "_Znwm"),
            (FunctionIndex::NewArrayAlignedNothrow, "_ZnamSt11align_val_tRKSt9nothrow_t"),
            (FunctionIndex::Delete, "_ZdlPv"),
            (FunctionIndex::DeleteArraySized, "_ZdaPvm"),
            (FunctionIndex::DeleteArraySizedAligned, "_ZdaPvmSt11align_val_t"),
            (FunctionIndex::Dlclose, "dlclose"),
            (FunctionIndex::Syscall, "syscall"),
            (FunctionIndex::Sdallocx, "sdallocx"),
        ] {
            assert_eq!(FUNCTIONS[index as usize].name, name);
        }
    }

    #[test]
    fn parts_of_the_object_do_not_overlap() {
        let layouts = Capacity::CHOICES.map(AttachLayout::for_recording).into_iter().chain(
            Capacity::LIVE_CHOICES.into_iter().zip(TableCapacity::CHOICES).map(|(a, b)| AttachLayout::for_live(a, b)),
        );
        for layout in layouts {
            let mut starts = vec![0, CONTROL, THREADS, MODULES, SESSION];
            let mut ends = vec![size_of::<AttachPage>() as u64, CONTROL + CONTROL_BYTES, MODULES, SESSION];
            ends.push(SESSION + layout.capacity.bytes());
            if let Some(table) = layout.table_capacity {
                starts.push(layout.table);
                ends.push(layout.table + table.bytes());
            }
            starts.push(layout.private);
            ends.push(layout.private + layout.private_bytes);
            assert!(starts.iter().all(|start| start % PAGE == 0));
            assert!(starts[1..].iter().zip(&ends).all(|(start, end)| start >= end), "{layout:?}");
            assert_eq!(layout.bytes(), ends[ends.len() - 1]);
        }
    }
}

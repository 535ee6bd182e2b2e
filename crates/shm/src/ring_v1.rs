//! A ring of records with one writer, a thread of the program, and one reader, the recorder.
//!
//! `tail` and `head` count bytes ever written and read; a position in the ring is that count modulo its size. A record
//! is a whole number of 8-byte words and never wraps: where it does not fit before the ring's end, a [`kind::PAD`] word
//! says so. The first word of a record is `stamp << 8 | kind`; stamps never fall within a ring.
//!
//! | record | words after the first |
//! |---|---|
//! | allocate | address, size, node and surplus |
//! | free | address |
//! | reallocate | old address, new address, size, node and surplus |
//! | realloc-begin | old address: from here on another thread may be given it; an end follows |
//! | realloc-end | as reallocate; a new address of 0 means that it failed |
//! | map | address, length, node |
//! | unmap | address, length |
//! | remap-begin | old address, old length: from here on another thread may be given it; a remap follows |
//! | remap | old address, old length, new address, new length, node; a new address of 0 means that it failed |
//! | protect | address, length, node; the kind of the mapping as for map |
//! | return | address, length, 1 if the memory was given back to the kernel, 0 if the kernel was asked for it again |
//! | thread | kernel's thread id: what follows is this thread's |
//! | name | length in bytes, text: the name of the ring's thread |
//! | free-by | address, node: a free, with its stack |
//! | unmap-by | address, length, node: an unmap, with its stack |
//! | mark | length in bytes, text |
//! | rename | kernel's thread id, length in bytes, text: the name of another thread |
//!
//! "node and surplus" is the stack's node in the low half, the usable size beyond what is expected of the size in the
//! high half, signed.
//!
//! **No stamp is late.** The writer sets `busy` before it reads the clock and clears it after it has published. A reader
//! that takes the time, then finds `busy` clear, then reads `tail`, has everything that this thread stamped until some
//! microseconds before that time: see the recorder's merging.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The shared state of a ring. The writer's and the reader's words lie on different cache lines.
#[repr(C, align(64))]
pub struct RingHeader {
    /// The thread that owns the ring: its kernel id, 0 if none does.
    pub owner: AtomicU32,
    /// 1 while the owner is between taking a stamp and publishing it.
    pub busy: AtomicU32,
    /// Bytes ever written.
    pub tail: AtomicU64,
    /// Events dropped because the ring was full.
    pub dropped: AtomicU64,
    /// The latest stamp: no later record has a smaller one.
    pub stamp: AtomicU64,
    line: [u64; 4],
    /// Bytes ever read.
    pub head: AtomicU64,
    /// 1 while the writer waits for room.
    pub writer_waits: AtomicU32,
    /// How much of the ring has memory, in bytes from its start; at least [`PROVIDED_FIRST`]. Valid if the session's header says so.
    pub provided: AtomicU32,
    rest: [u32; 12],
}

/// How much of a ring its writer may take by itself.
pub const PROVIDED_FIRST: u64 = 64 << 10;

/// The kinds of records.
pub mod kind {
    /// The rest of the ring up to its end is not used.
    pub const PAD: u8 = 0;
    /// A block was allocated.
    pub const ALLOCATE: u8 = 1;
    /// A block is about to be freed.
    pub const FREE: u8 = 2;
    /// A block was resized; no other thread can have been given its old address in between.
    pub const REALLOCATE: u8 = 3;
    /// A block is about to be resized.
    pub const REALLOC_BEGIN: u8 = 4;
    /// That block was resized.
    pub const REALLOC_END: u8 = 5;
    /// Memory was mapped.
    pub const MAP: u8 = 6;
    /// Memory was unmapped.
    pub const UNMAP: u8 = 7;
    /// A mapping was moved or resized.
    pub const REMAP: u8 = 8;
    /// The ring has a new owner.
    pub const THREAD: u8 = 9;
    /// The owner's name.
    pub const NAME: u8 = 10;
    /// The program named this instant.
    pub const MARK: u8 = 11;
    /// Another thread's name.
    pub const RENAME: u8 = 12;
    /// A mapping is about to be moved or resized.
    pub const REMAP_BEGIN: u8 = 13;
    /// The protection of mapped memory was changed.
    pub const PROTECT: u8 = 14;
    /// The program gave memory back, or asked for it again, and keeps the mapping (`madvise`). A recorder that does not know this kind would skip records
    /// after it: see [`READS_RETURNS`](crate::session_v1::READS_RETURNS).
    pub const RETURN: u8 = 15;
    /// As [`FREE`], with the stack of the free. Written only if the recorder asked for it
    /// ([`FLAG_FREE_STACKS`](crate::hello_v1::FLAG_FREE_STACKS)), so it knows this kind and the next.
    pub const FREE_BY: u8 = 16;
    /// As [`UNMAP`], with the stack of the call.
    pub const UNMAP_BY: u8 = 17;
}

/// The kind of a mapping, in the upper half of the last word of [`kind::MAP`] and [`kind::PROTECT`].
pub mod mapping {
    /// Memory that the program can touch.
    pub const MEMORY: u32 = 0;
    /// Address space that it cannot touch (`PROT_NONE`).
    pub const RESERVATION: u32 = 1;
    /// A file.
    pub const FILE: u32 = 2;
}

/// Words of a record without text, its first one included; `None` for kinds with text and unknown ones.
pub fn fixed_words(kind: u8) -> Option<usize> {
    Some(match kind {
        kind::PAD => 1,
        kind::ALLOCATE => 4,
        kind::FREE | kind::REALLOC_BEGIN | kind::THREAD => 2,
        kind::REALLOCATE | kind::REALLOC_END => 5,
        kind::MAP | kind::PROTECT | kind::RETURN | kind::UNMAP_BY => 4,
        kind::UNMAP | kind::REMAP_BEGIN | kind::FREE_BY => 3,
        kind::REMAP => 6,
        _ => return None,
    })
}

/// The longest text of a record, in bytes.
pub const LONGEST_TEXT: usize = 1024;

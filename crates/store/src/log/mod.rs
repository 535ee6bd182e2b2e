//! The in-memory event log that programs record into.
//!
//! Each thread appends to its own [`shard`]; threads share nothing while they record, so recording scales with threads. A *cut* locks all shards for
//! the moment it takes to note the end of each: everything recorded before the cut is in it, nothing after, on all threads at once. The words before a
//! cut never change, so they are then read without locks and [merged](merge) by time.
//!
//! Over its limit the log moves its events, up to a cut, into an unnamed temporary file in the format of recordings (the *spill*). Reading, saving and
//! time travel then start from that file.
//!
//! # Design
//!
//! Each thread appends words to a shard of its own under the shard's own lock: no shared cache line, so two threads record twice as much as one. A
//! **cut** locks all shards for the moment it takes to note the end of each; this is a true instant across all threads. The words before a cut never
//! change again, so they are then read without locks and merged by time.
//!
//! The clock is `lfence; rdtsc`. Without the fence the processor may read the counter before the load that brought a pointer from another thread, and
//! the free of a block could then seem older than its allocation: a false leak. The fence costs ten nanoseconds, which correctness is worth. The
//! counter is used only if the kernel itself uses it as its clock.
//!
//! A program may record from inside its allocator, and the log itself allocates. A thread that is working on a log is therefore *quiet*
//! (`log/quiet.rs`): events that it records meanwhile are caused by the log itself. They are dropped and counted instead of waiting for a lock that
//! the thread holds. A test whose global allocator records everything checks this.
//!
//! Over its limit the log moves everything up to a cut into an unnamed temporary `.hw` file. Saving copies that file's blocks and appends the rest;
//! opening a recording makes such a log whose first part is the file.

mod event_log;
mod identity;
mod merge;
mod quiet;
mod shard;
mod shared_catalog;
mod words;

pub use event_log::{Cursor, EventLog, LogError};
pub use shared_catalog::SharedCatalog;

//! The in-memory event log: what programs record into.
//!
//! Each thread appends to its own [`shard`]; nothing is shared on the way, so recording scales with threads. A *cut*
//! locks all shards for the moment it takes to note how far each has got: everything recorded before the cut is in it, nothing after,
//! on all threads at once. What lies before a cut never changes, so it is then read without locks and
//! [merged](merge) by time.
//!
//! Over its limit the log moves what it holds, up to a cut, into an unnamed temporary file in the format of
//! recordings (the *spill*). Reading, saving and time travel then start from that file.

mod event_log;
mod merge;
mod quiet;
mod shard;
mod words;

pub use event_log::{Cursor, EventLog, LogError};

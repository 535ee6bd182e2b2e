//! The state of this thread while it works on logs. It prevents a thread from entering a log twice.
//!
//! A program may record from inside its allocator. The log allocates too, sometimes while it holds a lock; the allocator would record that, and wait
//! for the lock for ever. A thread that is working on a log is therefore *quiet*: events that it records meanwhile are caused by the log itself, and
//! are dropped and counted.

use super::shard::Shard;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A thread's shards, one for each log it wrote to, by the log's number; the latest first.
pub type Shards = Vec<(u64, Arc<Shard>)>;

thread_local! {
    /// True while the thread is quiet. It has no destructor, so that it exists until the very end of the thread.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SHARDS: RefCell<Shards> = const { RefCell::new(Vec::new()) };
}

/// Keeps the thread quiet until it is dropped.
struct Quiet;

impl Quiet {
    /// `None` if the thread is already quiet.
    #[inline(always)]
    fn begin() -> Option<Self> {
        // Created only if it is needed: dropping one ends the quiet state.
        (!QUIET.replace(true)).then(|| Self)
    }
}

impl Drop for Quiet {
    #[inline(always)]
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

/// The result of accessing a thread's shards.
pub enum LogAccess<T> {
    /// The result of the work.
    Done(T),
    /// No access: the thread is quiet.
    Quiet,
    /// No access: the thread is ending, and its shards are gone.
    Ending,
}

/// Calls `work` with this thread's shards; the thread is quiet meanwhile.
#[inline(always)]
pub fn with_shards<T>(work: impl FnOnce(&mut Shards) -> T) -> LogAccess<T> {
    let Some(_quiet) = Quiet::begin() else { return LogAccess::Quiet };
    match SHARDS.try_with(|shards| work(&mut shards.borrow_mut())) {
        Ok(done) => LogAccess::Done(done),
        Err(_) => LogAccess::Ending,
    }
}

/// Calls `work` while this thread is quiet.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let _quiet = Quiet::begin();
    work()
}

/// True while this thread is quiet.
pub fn is_quiet() -> bool {
    QUIET.get()
}

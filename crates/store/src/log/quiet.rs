//! What this thread is doing with logs, and keeping it from doing two things at once.
//!
//! A program may record from inside its allocator. The log allocates too, now and then while it holds a lock; the allocator
//! would record that, and wait for the lock for ever. So a thread that is at work on a log is *quiet*: what it
//! records meanwhile is the log's own doing, and is dropped and counted.

use super::shard::Shard;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A thread's shards, one for each log it wrote to, by the log's number; the latest first.
pub type Shards = Vec<(u64, Arc<Shard>)>;

thread_local! {
    /// True while the thread is quiet. Without a destructor, so that it is there until the thread's very end.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SHARDS: RefCell<Shards> = const { RefCell::new(Vec::new()) };
}

/// Keeps the thread quiet as long as it lives.
struct Quiet;

impl Quiet {
    /// `None` if the thread is quiet already.
    #[inline(always)]
    fn begin() -> Option<Self> {
        // Made only if it is needed: dropping one ends the quiet.
        (!QUIET.replace(true)).then(|| Self)
    }
}

impl Drop for Quiet {
    #[inline(always)]
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

/// What a thread can do with its shards.
pub enum Access<T> {
    /// This came out.
    Done(T),
    /// Nothing: it is quiet.
    Quiet,
    /// Nothing: it is ending, and they are gone.
    Ending,
}

/// Works with this thread's shards; the thread is quiet meanwhile.
#[inline(always)]
pub fn with_shards<T>(work: impl FnOnce(&mut Shards) -> T) -> Access<T> {
    let Some(_quiet) = Quiet::begin() else { return Access::Quiet };
    match SHARDS.try_with(|shards| work(&mut shards.borrow_mut())) {
        Ok(done) => Access::Done(done),
        Err(_) => Access::Ending,
    }
}

/// Does something while this thread is quiet.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let _quiet = Quiet::begin();
    work()
}

/// True while this thread is quiet.
pub fn is_quiet() -> bool {
    QUIET.get()
}

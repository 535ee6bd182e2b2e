//! A lock for rare operations: waiting threads sleep, none spins.

use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;
const PATIENCE_NS: u64 = 10_000_000;

/// The lock. Not fair, not recursive; a thread never takes it twice since the agent is never re-entered.
pub struct Lock(AtomicU32);

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Runs `work` while no other thread holds the lock.
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(WANTED, Ordering::Acquire) != FREE {
                sys::futex_wait(&self.0, WANTED, PATIENCE_NS);
            }
        }
        let done = work();
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            sys::futex_wake(&self.0);
        }
        done
    }

    /// Frees the lock in a forked child, where the thread that held it does not exist.
    pub fn reset(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

//! Atomics: the machine's, or those of the model checker when it examines the protocol (`--cfg loom`).

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Placed where sequentially consistent accesses before and after it must not be reordered. They are not; but the model checker takes
/// them for weaker than they are, and needs a fence to see it.
#[inline(always)]
pub fn in_total_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

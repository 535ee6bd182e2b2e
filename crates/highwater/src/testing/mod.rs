//! Limits on memory in tests: what a piece of work allocates, exactly, and where.
//!
//! [`measure()`] runs a closure and counts what it takes from the heap. The `assert_` functions fail with the call stacks that took too much, and
//! [`#[highwater::test]`](macro@crate::test) does so for a whole test. All of them need [`Alloc`](crate::Alloc) as the global allocator of the test program:
//! say so once, in `lib.rs` under `#[cfg(test)]`, and in each file of `tests/`.
//!
//! ```standalone_crate
//! use highwater::testing;
//!
//! #[global_allocator]
//! static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
//!
//! let used = testing::measure(|| (0..1000u64).collect::<Vec<u64>>());
//! assert_eq!((used.allocations, used.peak_bytes), (1, 8000));
//! assert_eq!((used.live_blocks, used.live_bytes), (1, 8000), "the vector that is returned");
//!
//! testing::assert_peak_at_most("64 KiB", || "text ".repeat(1000));
//! testing::assert_no_leaks(|| vec![String::from("dropped"); 10]);
//! testing::assert_no_allocations(|| [1, 2, 3].iter().sum::<i32>());
//! testing::assert_no_growth(32, || String::from("gone after each round"));
//! ```
//!
//! # What counts
//!
//! * What the calling thread allocates until the closure returns, and what the threads do that [`spawn`], [`scope`] or a [`Handle`] brought into the measure. Other threads, such
//!   as other tests of `cargo test`, do not count: tests run in parallel, and each has its own figures.
//! * A block belongs to the measure in which it was allocated. Its free counts there, whichever thread frees it, until the measure has ended.
//! * Measures nest: a block counts for the inner and for the outer one.
//! * A reallocation is neither an allocation nor a free. If the block is older than the measure, only what it grew counts, and in bytes only. Frees of older blocks do not count.
//! * The value that the closure returns is still live when the measure ends, so it is left over. [`assert_no_leaks`] and [`assert_no_growth`] drop it first.
//! * A thread that a library starts, or `std::thread::spawn`, does not count. [`Handle::run`] brings one in. On a thread of another measure, see [`Handle`].
//! * In the limits of tests, the buffer in which the test harness keeps the output of `println!` does not count, except for the peak; in [`measure()`] it does. What
//!   the printed values allocate for themselves counts.
//!
//! # Together with a recording
//!
//! A program can be measured and recorded at once, by `highwater record` or by itself; neither appears in the other. Here as there, only memory that comes from
//! Rust's global allocator counts, and no mapping or `malloc` of a C library.
//!
//! While nothing is measured, an allocation costs one more load and comparison. While anything is measured, the allocations of threads in a
//! measure cost some hundreds of nanoseconds, for the walk of their stacks, and frees on all threads some tens.
//!
//! The module needs the feature `record`, which is on by default, and Linux on x86-64.
#![allow(unsafe_code, reason = "memory of its own, since it runs inside the allocator")]

mod accounts;
mod block_table;
mod growth;
mod limits;
pub(crate) mod measure;
mod names;
mod private_array;
mod size;
mod threads;

pub use accounts::HeapUse;
pub use growth::assert_no_growth;
#[doc(hidden)]
pub use limits::{Limits, TestOutcome, run_test};
pub use measure::Handle;
pub use names::{Site, SiteFrame};
pub use size::Size;
#[doc(hidden)]
pub use size::size_in_attribute;
pub use threads::{Scope, ScopedThread, scope, spawn};

use measure::{Counted, OpenMeasure, uncounted};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`measure()`] returns: the closure's value and what it took. The figures of the whole are its fields, as in `used.peak_bytes`.
pub struct Measured<T> {
    /// What the closure returned.
    pub value: T,
    counted: Counted,
}

impl<T> Measured<T> {
    /// The sites that took it, with names and lines. This reads the debug information of the program, which may take a second.
    pub fn sites(&self) -> Vec<Site> {
        uncounted(|| names::named_sites(&self.counted.sites))
    }

    /// How many threads were still in the measure when it ended.
    pub fn running_threads(&self) -> usize {
        self.counted.threads
    }
}

impl<T> Deref for Measured<T> {
    type Target = HeapUse;

    fn deref(&self) -> &HeapUse {
        &self.counted.total
    }
}

impl<T> fmt::Debug for Measured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counted.total.fmt(f)
    }
}

impl<T> fmt::Display for Measured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&limits::summary(&self.counted.total))
    }
}

/// Runs `work` and counts what it takes from the heap. See [the module's page](self) for what counts.
///
/// If `work` panics, the measure ends and the panic goes on.
///
/// # Panics
/// If [`Alloc`](crate::Alloc) is not the global allocator, or there is no memory for the measure.
#[track_caller]
pub fn measure<T>(work: impl FnOnce() -> T) -> Measured<T> {
    let measure = limits::begin();
    let value = work();
    Measured { value, counted: limits::end(measure) }
}

/// Panics, with the sites, if blocks are left over that `work` allocated. What it returns is dropped first.
///
/// Memory that is allocated once and kept for good, such as a table that is filled at its first use, is left over too: use it once before.
///
/// # Panics
/// As said, and as [`measure()`].
///
/// ```should_panic,standalone_crate
/// # #[global_allocator]
/// # static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
/// highwater::testing::assert_no_leaks(|| std::mem::forget(Box::new(1)));
/// ```
#[track_caller]
pub fn assert_no_leaks<T>(work: impl FnOnce() -> T) {
    Limits { no_leaks: true, ..Limits::default() }.hold(|| drop(work()));
}

/// Panics, with the sites, if more bytes than the limit are live at once: `"1 MiB"`, or a number.
///
/// # Panics
/// As said, if the limit is no size, and as [`measure()`].
#[track_caller]
pub fn assert_peak_at_most<T>(limit: impl Size, work: impl FnOnce() -> T) -> T {
    Limits { max_peak: Some(limit.bytes()), ..Limits::default() }.hold(work)
}

/// Panics, with the sites, if the heap is asked for memory more often than this: allocations and reallocations.
///
/// # Panics
/// As said, and as [`measure()`].
#[track_caller]
pub fn assert_allocations_at_most<T>(limit: u64, work: impl FnOnce() -> T) -> T {
    Limits { max_allocations: Some(limit), ..Limits::default() }.hold(work)
}

/// Panics, with the sites, if `work` allocates or reallocates at all: for code that must not wait for an allocator.
///
/// # Panics
/// As said, and as [`measure()`].
///
/// ```should_panic,standalone_crate
/// # #[global_allocator]
/// # static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);
/// highwater::testing::assert_no_allocations(|| format!("{}", 1));
/// ```
#[track_caller]
pub fn assert_no_allocations<T>(work: impl FnOnce() -> T) -> T {
    assert_allocations_at_most(0, work)
}

/// Makes sure that an allocation is seen.
#[track_caller]
fn check_allocator() {
    static IS_SEEN: AtomicBool = AtomicBool::new(false);
    if IS_SEEN.load(Ordering::Relaxed) {
        return;
    }
    let probe = OpenMeasure::begin().expect("there is no memory for a measure");
    drop(std::hint::black_box(Box::new(1u8)));
    let is_seen = probe.end().total.allocations > 0;
    assert!(
        is_seen,
        "highwater::Alloc is not the global allocator of this program, so nothing can be measured. Add this to it once:\n\n    \
         #[global_allocator]\n    \
         static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);\n"
    );
    IS_SEEN.store(true, Ordering::Relaxed);
}

//! A global allocator that can record itself.
#![allow(unsafe_code, reason = "an allocator is unsafe by nature")]

use highwater_agent::here::{allocated_here, reallocated_here};
use highwater_agent::{self as agent, Mode};
use std::alloc::{GlobalAlloc, Layout};

/// An allocator that passes everything on to another one, and records it when asked to.
///
/// Any allocator will do: `System`, or those of the `mimalloc` and `jemalloc` crates. Works in statically linked programs, where
/// `highwater record` cannot. See the [crate's page](crate).
#[derive(Debug, Default)]
pub struct Alloc<A> {
    inner: A,
}

impl<A> Alloc<A> {
    /// Passes everything on to `inner`.
    pub const fn new(inner: A) -> Self {
        Self { inner }
    }
}

/// Whether blocks are recorded now.
#[inline(always)]
fn records() -> bool {
    agent::mode() == Mode::Exact
}

#[cold]
#[inline(never)]
fn report(block: *mut u8, size: usize) {
    if !block.is_null() {
        // SAFETY: called as declared.
        unsafe { allocated_here(block, size, agent::expected_usable(size)) };
    }
}

#[cold]
#[inline(never)]
fn report_free(block: *mut u8) {
    agent::freeing(block);
}

// SAFETY: the inner allocator's answers are passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        let block = unsafe { self.inner.alloc(layout) };
        if records() {
            report(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if records() {
            report_free(block);
        }
        // SAFETY: the caller's.
        unsafe { self.inner.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        if records() {
            report(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !records() {
            // SAFETY: the caller's.
            return unsafe { self.inner.realloc(block, layout, size) };
        }
        let begun = agent::reallocating(block);
        // SAFETY: the caller's.
        let new = unsafe { self.inner.realloc(block, layout, size) };
        if begun || !new.is_null() {
            // SAFETY: called as declared.
            unsafe { reallocated_here(block, new, size, begun.into()) };
        }
        new
    }
}

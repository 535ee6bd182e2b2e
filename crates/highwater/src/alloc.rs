//! A global allocator that can record itself.
#![allow(unsafe_code, reason = "an allocator is unsafe by nature")]

use crate::testing::measure;
use highwater_agent::here::{allocated_here, reallocated_here};
use highwater_agent::{self as agent, AgentMode, sampling};
use std::alloc::{GlobalAlloc, Layout};

/// An allocator that passes everything on to another one, and records it when asked to.
///
/// Works with any allocator: `System`, or those of the `mimalloc` and `jemalloc` crates. Also works in statically linked programs, where `highwater
/// record` cannot. See the [crate's page](crate).
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

/// Whether nothing has to be done for blocks now.
#[inline(always)]
fn is_off() -> bool {
    agent::mode() == AgentMode::Off
}

/// The agent's mode. It is still undecided at the program's first allocation, and in a forked child, which starts anew.
#[inline(always)]
fn mode() -> AgentMode {
    match agent::mode() {
        AgentMode::New if agent::is_forked() => agent::begin_or_not(),
        AgentMode::New => {
            agent::stay_off();
            agent::mode()
        }
        mode => mode,
    }
}

#[cold]
#[inline(never)]
fn report(block: *mut u8, size: usize) {
    let mode = mode();
    if block.is_null() || mode == AgentMode::Off {
        return;
    }
    if mode == AgentMode::Sampled {
        if !(agent::count_down(size) && agent::is_sample(size)) {
            return;
        }
        sampling::insert(block as u64);
    }
    // SAFETY: called as its contract requires.
    unsafe { allocated_here(block, size, agent::expected_usable(size)) };
}

#[cold]
#[inline(never)]
fn report_free(block: *mut u8) {
    match mode() {
        AgentMode::Exact => agent::freeing(block),
        AgentMode::Sampled if sampling::remove(block as u64) => agent::freeing(block),
        AgentMode::Sampled if agent::knows_older_blocks() => agent::freeing_older(block),
        _ => {}
    }
}

// SAFETY: the inner allocator's results are passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Alloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        let block = unsafe { self.inner.alloc(layout) };
        if !is_off() {
            report(block, layout.size());
        }
        if measure::is_on() {
            measure::allocated(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_off() {
            report_free(block);
        }
        if measure::is_on() {
            measure::freeing(block);
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.inner.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        if !is_off() {
            report(block, layout.size());
        }
        if measure::is_on() {
            measure::allocated(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if measure::is_on() {
            let transit = measure::reallocating(block);
            // SAFETY: the caller keeps the contract.
            let new = unsafe { self.realloc_recorded(block, layout, size) };
            measure::reallocated(transit, new, layout.size(), size);
            return new;
        }
        // SAFETY: the caller keeps the contract.
        unsafe { self.realloc_recorded(block, layout, size) }
    }
}

impl<A: GlobalAlloc> Alloc<A> {
    /// SAFETY: as for `realloc`.
    #[inline(always)]
    unsafe fn realloc_recorded(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_off() {
            // SAFETY: the caller keeps the contract.
            return unsafe { self.inner.realloc(block, layout, size) };
        }
        if mode() != AgentMode::Exact {
            // When sampling, a reallocation is a free and an allocation: the new size is sampled independently.
            report_free(block);
            // SAFETY: the caller keeps the contract.
            let new = unsafe { self.inner.realloc(block, layout, size) };
            report(new, size);
            return new;
        }
        let begun = agent::reallocating(block);
        // SAFETY: the caller keeps the contract.
        let new = unsafe { self.inner.realloc(block, layout, size) };
        if begun || !new.is_null() {
            // SAFETY: called as its contract requires.
            unsafe { reallocated_here(block, new, size, begun.into()) };
        }
        new
    }
}

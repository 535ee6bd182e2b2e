//! A program that records itself, compared with its own count. One test: a program can be recorded once.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater_model::When;
use highwater_store::Recording;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the calls of threads that ask for it.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
static REALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

fn count(counter: &AtomicU64, bytes: usize) {
    if COUNTS.get() {
        counter.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: passes every call on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&ALLOCATIONS, layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(&FREES, 0);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(&REALLOCATIONS, size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: highwater::Alloc<Counting> = highwater::Alloc::new(Counting);

#[inline(never)]
fn counted_work(worker: usize) {
    COUNTS.set(true);
    for round in 0..2_000 {
        let mut numbers = Vec::new();
        for number in 0..40 + worker {
            numbers.push(black_box(number));
        }
        let text = black_box(format!("{worker} {round}"));
        if round % 100 == 0 {
            std::mem::forget(black_box(text));
        }
        black_box(&numbers);
    }
    COUNTS.set(false);
}

#[test]
fn a_program_that_records_itself_agrees_with_its_own_count() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("itself.hw");
    highwater::record_to(&path).unwrap();
    assert!(highwater::record_to(&path).is_err(), "once is all it can be");
    highwater::mark("begun");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || counted_work(worker));
        }
    });
    highwater::mark("done");
    highwater::stop_recording().unwrap();

    let recording = Recording::open(&path).unwrap();
    assert_eq!(recording.check(&mut |_| ()).unwrap().violations, Vec::<String>::new());
    assert_eq!(recording.marks().unwrap().len(), 2);
    let snapshot = recording.snapshot(&When::End).unwrap();
    let (mut allocations, mut frees, mut reallocations, mut bytes) = (0, 0, 0, 0);
    for (stack, figures) in snapshot.accounts.sites().iter() {
        let ours = snapshot.catalog.frame_texts(stack).any(|frame| frame.function.contains("counted_work"));
        if ours {
            allocations += figures.allocations;
            frees += figures.frees;
            reallocations += figures.reallocations;
            bytes += figures.allocated_bytes;
        }
    }
    let own = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert!(own(&ALLOCATIONS) >= 16_000);
    assert_eq!(
        (allocations, frees, reallocations, bytes),
        (own(&ALLOCATIONS), own(&FREES), own(&REALLOCATIONS), own(&BYTES))
    );
}

//! What a measure counts, case by case.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing::{self, Handle};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;

#[global_allocator]
static ALLOCATOR: highwater::Alloc<std::alloc::System> = highwater::Alloc::new(std::alloc::System);

fn block(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

#[test]
fn blocks_bytes_peak_leftovers_and_temporary_ones_are_exact() {
    let used = testing::measure(|| {
        let first = block(1000);
        let second = block(500);
        drop(first);
        drop(block(300));
        let third = block(200);
        drop(second);
        third
    });
    assert_eq!((used.allocations, used.reallocations, used.frees), (4, 0, 3));
    assert_eq!((used.bytes, used.largest_block), (2000, 1000));
    assert_eq!((used.peak_bytes, used.peak_blocks), (1500, 2));
    assert_eq!((used.live_bytes, used.live_blocks), (200, 1));
    assert_eq!(used.temporary, 1, "the block of 300 bytes, freed before anything else was allocated");
    assert_eq!(used.value.capacity(), 200);
}

#[test]
fn a_reallocation_is_one_event() {
    let used = testing::measure(|| {
        let mut held = block(1000);
        held.extend([0; 1000]);
        held.reserve_exact(2000);
        held.shrink_to(1500);
        held
    });
    assert_eq!((used.allocations, used.reallocations, used.frees), (1, 2, 0));
    assert_eq!((used.bytes, used.peak_bytes, used.live_bytes), (1000 + 3000 + 1500, 3000, 1500));
    assert_eq!((used.live_blocks, used.largest_block, used.requests()), (1, 3000, 3));
}

#[test]
fn of_an_older_block_only_what_it_grows_counts() {
    let mut older = block(1000);
    let used = testing::measure(|| older.reserve_exact(1800));
    assert_eq!((used.allocations, used.reallocations), (0, 1));
    assert_eq!((used.bytes, used.live_bytes, used.live_blocks), (800, 800, 0));
    let used = testing::measure(|| {
        older.shrink_to(100);
        older.reserve_exact(2000);
        drop(older);
    });
    assert_eq!((used.reallocations, used.frees), (2, 0));
    assert_eq!((used.live_bytes, used.peak_bytes), (0, 200), "1,800 bytes were there before");
    let mut older = block(1000);
    testing::assert_no_leaks(|| older.shrink_to(10));
}

#[test]
fn a_free_on_a_thread_outside_of_the_measure_counts() {
    // No channel: a thread that waits at one allocates.
    let exchange = (Mutex::new(None::<Vec<u8>>), Condvar::new());
    let (slot, changed) = &exchange;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = changed.wait_while(slot.lock().unwrap(), |held| held.is_none()).unwrap();
            *held = None;
            drop(block(7777));
            changed.notify_all();
        });
        let used = testing::measure(|| {
            *slot.lock().unwrap() = Some(block(4000));
            changed.notify_all();
            drop(changed.wait_while(slot.lock().unwrap(), |held| held.is_some()).unwrap());
        });
        assert_eq!((used.bytes, used.live_bytes), (4000, 0));
        assert_eq!((used.allocations, used.frees), (1, 1));
    });
}

#[test]
fn a_block_that_outlives_its_measure_counts_no_more() {
    let first = testing::measure(|| block(100));
    let second = testing::measure(|| drop(first.value));
    assert_eq!((second.allocations, second.frees, second.live_bytes), (0, 0, 0));
    // Its address may be used again.
    for _ in 0..100 {
        let third = testing::measure(|| drop(block(100)));
        assert_eq!((third.allocations, third.frees, third.live_bytes), (1, 1, 0));
    }
}

#[test]
fn an_inner_measure_counts_for_the_outer_one_too() {
    let outer = testing::measure(|| {
        let mut held = block(1000);
        let inner = testing::measure(|| {
            held.reserve_exact(1500);
            block(100)
        });
        assert_eq!((inner.allocations, inner.reallocations, inner.live_bytes), (1, 1, 600));
        assert_eq!((inner.live_blocks, inner.peak_bytes), (1, 600));
        drop(inner.value);
        held
    });
    assert_eq!((outer.allocations, outer.reallocations, outer.frees), (2, 1, 1));
    assert_eq!((outer.live_bytes, outer.live_blocks, outer.peak_bytes), (1500, 1, 1600));
}

#[test]
fn a_panic_ends_the_measure_and_goes_on() {
    let outer = testing::measure(|| {
        let caught = catch_unwind(|| {
            testing::measure(|| {
                let _held = block(5000);
                std::panic::resume_unwind(Box::new("as planned"));
            })
        });
        assert_eq!(caught.err().unwrap().downcast_ref(), Some(&"as planned"));
        block(10)
    });
    assert_eq!((outer.largest_block, outer.live_bytes), (5000, 10));
    let later = testing::measure(|| ());
    assert_eq!((later.allocations, later.live_bytes), (0, 0));
}

#[test]
fn threads_count_if_they_were_brought_in() {
    let used = testing::measure(|| {
        let measure = Handle::current();
        let outside = thread::spawn(|| drop(block(40_000)));
        outside.join().unwrap();
        let inside = thread::spawn(move || measure.run(|| drop(block(50_000))));
        inside.join().unwrap();
        let spawned = testing::spawn(|| block(60_000));
        let kept = spawned.join().unwrap();
        testing::scope(|scope| {
            let first = scope.spawn(|| block(70_000));
            scope.spawn(|| drop(block(80_000)));
            drop(first.join().unwrap());
        });
        kept
    });
    let large: Vec<u64> = used.sites().iter().map(|site| site.used.bytes).filter(|bytes| *bytes >= 40_000).collect();
    assert_eq!(large.iter().sum::<u64>(), 260_000, "{large:?}");
    assert_eq!((used.live_blocks, used.live_bytes), (1, 60_000), "threads leave nothing once they are joined");
    assert_eq!(used.running_threads(), 0);
}

#[test]
fn a_thread_that_still_runs_is_noticed() {
    let (sender, receiver) = mpsc::channel::<()>();
    let used = testing::measure(|| {
        let (started, has_started) = mpsc::channel();
        let thread = testing::spawn(move || {
            started.send(()).unwrap();
            let _ = receiver.recv();
            drop(block(9000));
        });
        has_started.recv().unwrap();
        thread
    });
    assert_eq!(used.running_threads(), 1);
    let largest = used.largest_block;
    drop(sender);
    used.value.join().unwrap();
    assert!(largest < 9000, "allocated after the end: {largest}");
}

#[test]
fn a_handle_of_no_measure_or_of_one_that_has_ended_does_nothing() {
    let none = Handle::current();
    let ended = testing::measure(Handle::current).value;
    let used = testing::measure(|| {
        let other = thread::spawn(move || ended.run(|| drop(block(3000))));
        other.join().unwrap();
        none.run(|| drop(block(2000)));
    });
    assert_eq!(used.largest_block, 2000);
}

#[test]
fn a_handle_of_an_ended_measure_leaves_the_thread_in_its_own() {
    let ended = testing::measure(Handle::current).value;
    let used = testing::measure(|| ended.run(|| drop(block(3000))));
    assert_eq!((used.allocations, used.bytes), (1, 3000));
    let failed = catch_unwind(AssertUnwindSafe(|| testing::assert_no_allocations(|| ended.run(|| drop(block(3000))))));
    assert!(failed.is_err());

    let outer = testing::measure(|| {
        let ended = testing::measure(Handle::current).value;
        thread::scope(|scope| scope.spawn(|| ended.run(|| drop(block(70_000)))).join()).unwrap();
    });
    assert_eq!(outer.largest_block, 70_000, "the measure around the ended one is open");
    assert_eq!(outer.running_threads(), 0);
}

#[test]
fn a_handle_of_an_outer_measure_leaves_the_thread_in_the_inner_one() {
    let outer = testing::measure(|| {
        let handle = Handle::current();
        let inner = testing::measure(|| handle.run(|| drop(block(3000))));
        assert_eq!((inner.allocations, inner.bytes), (1, 3000));
    });
    assert_eq!((outer.allocations, outer.bytes), (1, 3000), "once");
}

#[test]
fn a_handle_of_another_open_measure_counts_there_alone() {
    let (sender, receiver) = mpsc::channel();
    let (ends, has_ended) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let used = testing::measure(|| {
            sender.send(Handle::current()).unwrap();
            has_ended.recv().unwrap();
        });
        used.largest_block
    });
    let handle = receiver.recv().unwrap();
    let used = testing::measure(|| {
        handle.run(|| drop(block(90_000)));
        drop(block(10));
    });
    ends.send(()).unwrap();
    assert_eq!((used.allocations, used.bytes), (1, 10));
    assert_eq!(other.join().unwrap(), 90_000);
}

#[test]
fn scoped_threads_start_threads_in_their_scope() {
    let used = testing::measure(|| {
        testing::scope(|scope| {
            scope.spawn(move || {
                let inner = scope.spawn(|| drop(block(70_000)));
                // Not joined by the one that began it, and begun when the scope's own work may be done.
                scope.spawn(move || scope.spawn(|| drop(block(80_000))));
                inner.join().unwrap();
            });
        });
    });
    let large: Vec<u64> = used.sites().iter().map(|site| site.used.bytes).filter(|bytes| *bytes >= 40_000).collect();
    assert_eq!(large.iter().sum::<u64>(), 150_000, "{large:?}");
    assert_eq!((used.live_blocks, used.running_threads()), (0, 0));
}

#[test]
fn a_panic_in_a_scoped_thread_is_passed_on() {
    let joined = testing::scope(|scope| {
        scope.spawn(|| -> u32 { std::panic::resume_unwind(Box::new("as planned")) }).join().map(drop)
    });
    assert_eq!(joined.err().unwrap().downcast_ref(), Some(&"as planned"));
    let unjoined = catch_unwind(|| {
        testing::scope(|scope| {
            scope.spawn(|| -> u32 { std::panic::resume_unwind(Box::new("as planned")) });
        });
    });
    assert_eq!(unjoined.err().unwrap().downcast_ref(), Some(&"a scoped thread panicked"));
}

#[inline(never)]
fn first_caller() -> Vec<u8> {
    block(1000)
}

#[inline(never)]
fn second_caller() -> Vec<u8> {
    let held = block(3000);
    drop(block(500));
    held
}

#[test]
fn sites_have_names_lines_and_their_part_of_every_figure() {
    let used = testing::measure(|| {
        let kept = first_caller();
        drop(second_caller());
        drop(first_caller());
        kept
    });
    let sites = used.sites();
    let has = |site: &testing::Site, name: &str| site.frames.iter().any(|frame| frame.function.contains(name));
    let of = |name: &str| {
        let sites: Vec<_> = sites.iter().filter(|site| has(site, name)).collect();
        let sum = |figure: fn(&testing::HeapUse) -> u64| sites.iter().map(|site| figure(&site.used)).sum::<u64>();
        [
            sum(|used| used.allocations),
            sum(|used| used.bytes),
            sum(|used| used.peak_bytes),
            sum(|used| used.live_bytes),
            sum(|used| used.temporary),
        ]
    };
    assert_eq!(of("first_caller"), [2, 2000, 1000, 1000, 1]);
    assert_eq!(of("second_caller"), [2, 3500, 3500, 0, 1]);
    assert_eq!(used.peak_bytes, 4500);
    for site in &sites {
        assert!(site.frames[0].file.ends_with("testing_figures.rs") && site.frames[0].line > 0, "{site:?}");
        let own = |frame: &testing::SiteFrame| {
            frame.function.contains("highwater::")
                || frame.function.contains("alloc::")
                || frame.file.contains("/src/testing/")
        };
        assert!(!site.frames.iter().any(own), "{site:?}");
        let outermost = &site.frames.last().unwrap().function;
        assert!(outermost.contains("{closure"), "the work that is measured: {outermost}");
    }
}

//! A program whose global allocator records everything into a store, the store's own allocations included: no call of the store may wait for
//! itself.

use highwater::FrameText;
use highwater::event_store::{EventStore, MemoryEvent};
use highwater::snapshot::SnapshotEngine;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Arc, OnceLock};

struct Recording;

static STORE: OnceLock<Arc<EventStore>> = OnceLock::new();

// SAFETY: every call is passed on unchanged to the system's allocator; recording does not touch the block.
unsafe impl GlobalAlloc for Recording {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if let Some(store) = STORE.get() {
            let event = MemoryEvent::allocate(block as usize, layout.size(), 1);
            // Sizes give many names, so that new names appear at any time.
            store.record(if layout.size().is_multiple_of(3) {
                event.with_type_name(SIZES[layout.size() % 64])
            } else {
                event
            });
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(store) = STORE.get() {
            store.record(MemoryEvent::deallocate(block as usize, layout.size(), 1));
        }
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Recording = Recording;

/// Sixty-four names.
static SIZES: [&str; 64] = {
    const DIGITS: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";
    let mut names = [""; 64];
    let mut at = 0;
    while at < 64 {
        names[at] = DIGITS.split_at(at).1;
        at += 1;
    }
    names
};

#[test]
fn a_store_fed_by_the_allocator_never_waits_for_itself() {
    let store = STORE.get_or_init(|| Arc::new(EventStore::with_limit(256 << 10)));
    let engine = SnapshotEngine::new(Arc::clone(store));
    let mut running = engine.build_snapshot();
    std::thread::scope(|scope| {
        for thread in 0..3usize {
            scope.spawn(move || {
                for round in 0..3_000usize {
                    let text = format!("{thread} {round}");
                    std::hint::black_box(vec![text; 1 + round % 50]);
                }
            });
        }
        for round in 0..20 {
            engine.update(&mut running);
            std::hint::black_box(engine.build_snapshot());
            std::hint::black_box(engine.snapshot_at(running.timestamp / 2));
            std::hint::black_box(engine.snapshot_at_peak());
            let name = format!("function {round}");
            std::hint::black_box(store.intern_stack(&[FrameText { function: &name, ..FrameText::default() }]));
            store.name_thread(round, &name);
            store.record(MemoryEvent::mark(name, 1));
            std::hint::black_box(store.len());
        }
    });
    let path = std::env::temp_dir().join(format!("highwater-test-{}-hooked.hw", std::process::id()));
    let written = store.save(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(written.events > 100_000, "{} events", written.events);
    store.clear();
}

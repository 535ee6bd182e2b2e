//! Building an event does not use the heap: it may happen inside an allocator.

use highwater::Name;
use highwater::event_store::MemoryEvent;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn building_an_event_touches_no_heap() {
    let shared: Arc<str> = Arc::from("Vec<Row>");
    let built = allocations_in(|| {
        let event = MemoryEvent::allocate(0x10, 100, 1)
            .at(7)
            .with_var_name("rows")
            .with_type_name(Name::from(Arc::clone(&shared)));
        std::hint::black_box(&event);
        std::hint::black_box(MemoryEvent::reallocate(0x20, 100, 200, 1).moved_from(0x10));
        std::hint::black_box(MemoryEvent::deallocate(0x20, 200, 1));
        std::hint::black_box(MemoryEvent::mark("loaded", 1));
        std::hint::black_box(MemoryEvent::gauge("rss", 4096, 1));
    });
    assert_eq!(built, 0);
    assert!(allocations_in(|| drop(std::hint::black_box(vec![1u8; 10]))) > 0, "the counter counts");
}

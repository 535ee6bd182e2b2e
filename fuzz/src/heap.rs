//! A heap that can be limited, so that a target which takes too much fails where it does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What may be taken for each byte of input. A state takes about 256 bytes for each byte of the worst file; a check
/// holds two of them and copies what it compares.
const BYTES_PER_INPUT_BYTE: usize = 768;
/// What may be taken for any input: buffers of fixed size, and tables that start out large.
const BYTES_FOR_ANY_INPUT: usize = 4 << 20;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's heap, which refuses what goes beyond [`LIMIT`]; the program then aborts with the stack that asked.
struct LimitedHeap;

// SAFETY: memory comes from and goes back to `System`, under the same layouts; refusing with null is allowed.
unsafe impl GlobalAlloc for LimitedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !admit(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !admit(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `block` came from `System.alloc` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Counts `size` as taken; false if that is too much.
fn admit(size: usize) -> bool {
    let taken = TAKEN.fetch_add(size, Relaxed).saturating_add(size);
    // A panic is a finding already, and must be able to say so.
    let admitted = taken <= LIMIT.load(Relaxed) || std::thread::panicking();
    if !admitted {
        LIMIT.store(usize::MAX, Relaxed);
    }
    admitted
}

#[global_allocator]
static HEAP: LimitedHeap = LimitedHeap;

/// Runs `work`, which may take as much memory as `input_length` bytes of input justify.
pub fn within_limit(input_length: usize, work: impl FnOnce()) {
    let allowance = input_length.saturating_mul(BYTES_PER_INPUT_BYTE).saturating_add(BYTES_FOR_ANY_INPUT);
    within_bytes(allowance, work);
}

/// Runs `work`, which may take so many bytes.
pub fn within_bytes(allowance: usize, work: impl FnOnce()) {
    LIMIT.store(TAKEN.load(Relaxed).saturating_add(allowance), Relaxed);
    work();
    LIMIT.store(usize::MAX, Relaxed);
}

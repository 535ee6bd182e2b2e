//! The limits of a script, and its position when it exceeds one.
//!
//! The step limit is checked between steps. Time and memory can run out within one step (a power of a large number), where the interpreter cannot be interrupted:
//! then the process ends, after it has printed the position in the script.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

static LINE: AtomicUsize = AtomicUsize::new(0);
static COLUMN: AtomicUsize = AtomicUsize::new(0);
static NAME: OnceLock<String> = OnceLock::new();
static USED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Records the position of the script.
pub fn note_position(line: usize, column: usize) {
    LINE.store(line, Ordering::Relaxed);
    COLUMN.store(column, Ordering::Relaxed);
}

/// The script's name and position: `script.mo:3:7`.
pub fn position() -> String {
    let name = NAME.get().map_or("script", String::as_str);
    match (LINE.load(Ordering::Relaxed), COLUMN.load(Ordering::Relaxed)) {
        (0, _) => name.to_owned(),
        (line, column) => format!("{name}:{line}:{column}"),
    }
}

/// Enforces limits from now on. `mapped` bytes are those of the image: they count as address space, but not as memory of the script.
pub fn enforce(name: &str, memory: usize, seconds: u64, mapped: u64) {
    let _ = NAME.set(name.to_owned());
    // A second limit besides our own count, for allocations that do not go through it.
    let room = (memory as u64).saturating_mul(2).saturating_add(mapped).saturating_add(2 << 30);
    let hard = getrlimit(Resource::As).maximum;
    let current = Some(hard.map_or(room, |hard| room.min(hard)));
    let _ = setrlimit(Resource::As, Rlimit { current, maximum: hard });
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum });
    LIMIT.store(USED.load(Ordering::Relaxed).saturating_add(memory), Ordering::Relaxed);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds));
        eprintln!("{}: did not end within {seconds} s", position());
        std::process::exit(1);
    });
}

/// The system's allocator, with a limit on the bytes in use.
pub struct LimitedAllocator;

impl LimitedAllocator {
    fn take(bytes: usize) {
        let used = USED.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let limit = LIMIT.load(Ordering::Relaxed);
        if used > limit {
            // Printing allocates, too, and only the first thread over the limit prints.
            LIMIT.store(usize::MAX, Ordering::Relaxed);
            if limit != usize::MAX {
                eprintln!("{}: needs more memory than it may have", position());
                std::process::exit(1);
            }
        }
    }
}

// SAFETY: all calls are passed to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::take(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::take(size);
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

//! Counts the requests of its allocator to the C library, by function and by thread, and prints them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

const NAMES: [&str; 7] =
    ["nobody", "grow_a_vector", "join_strings", "box_things", "fill_a_map", "align_things", "work_in_a_thread"];

/// The owner of the standard library's own allocations, which are not tallied.
const NOBODY: usize = 0;

/// The default alignment of malloc.
const MALLOC_ALIGNMENT: usize = 16;
const SLOTS: usize = 1 << 16;
const THREADS: usize = 16;

#[derive(Clone, Copy, Default)]
struct Figures {
    allocations: u64,
    frees: u64,
    reallocations: u64,
    reallocated_away: u64,
    allocated_bytes: u64,
    freed_bytes: u64,
    peak_bytes: u64,
    cross_thread_frees: u64,
    temporary_allocations: u64,
}

#[derive(Clone, Copy)]
struct Block {
    address: usize,
    size: usize,
    number: u64,
    function: usize,
    thread: usize,
}

struct Tally {
    functions: [Figures; NAMES.len()],
    shared: [bool; NAMES.len()],
    user: [usize; NAMES.len()],
    threads: [Figures; THREADS],
    ids: [i64; THREADS],
    latest: [u64; THREADS],
    thread_count: usize,
    total: Figures,
    next: u64,
    blocks: [Block; SLOTS],
}

const EMPTY: Figures = Figures {
    allocations: 0,
    frees: 0,
    reallocations: 0,
    reallocated_away: 0,
    allocated_bytes: 0,
    freed_bytes: 0,
    peak_bytes: 0,
    cross_thread_frees: 0,
    temporary_allocations: 0,
};

static mut TALLY: Tally = Tally {
    functions: [EMPTY; NAMES.len()],
    shared: [false; NAMES.len()],
    user: [usize::MAX; NAMES.len()],
    threads: [EMPTY; THREADS],
    ids: [0; THREADS],
    latest: [0; THREADS],
    thread_count: 0,
    total: EMPTY,
    next: 1,
    blocks: [Block { address: 0, size: 0, number: 0, function: 0, thread: 0 }; SLOTS],
};
static LOCKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static FUNCTION: Cell<usize> = const { Cell::new(NOBODY) };
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn with_tally<R>(work: impl FnOnce(&mut Tally) -> R) -> R {
    while LOCKED.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
    // SAFETY: the flag admits one thread at a time.
    let result = work(unsafe { &mut *(&raw mut TALLY) });
    LOCKED.store(false, Ordering::Release);
    result
}

unsafe extern "C" {
    fn gettid() -> i32;
}

impl Figures {
    fn arrive(&mut self, size: usize, by_reallocation: bool) {
        if by_reallocation {
            self.reallocations += 1;
        } else {
            self.allocations += 1;
        }
        self.allocated_bytes += size as u64;
        self.peak_bytes = self.peak_bytes.max(self.allocated_bytes - self.freed_bytes);
    }

    fn depart(&mut self, size: usize, by_reallocation: bool, crosses: bool, temporary: bool) {
        self.freed_bytes += size as u64;
        if by_reallocation {
            self.reallocated_away += 1;
        } else {
            self.frees += 1;
            self.cross_thread_frees += u64::from(crosses);
            self.temporary_allocations += u64::from(temporary);
        }
    }

    fn json(&self, peak_is_known: bool) -> String {
        let peak = if peak_is_known { self.peak_bytes.to_string() } else { "null".to_owned() };
        format!(
            r#""allocations":{},"frees":{},"reallocations":{},"reallocated_away":{},"allocated_bytes":{},"freed_bytes":{},"live_blocks":{},"live_bytes":{},"cross_thread_frees":{},"temporary_allocations":{},"peak_bytes":{peak}"#,
            self.allocations,
            self.frees,
            self.reallocations,
            self.reallocated_away,
            self.allocated_bytes,
            self.freed_bytes,
            self.allocations + self.reallocations - self.frees - self.reallocated_away,
            self.allocated_bytes - self.freed_bytes,
            self.cross_thread_frees,
            self.temporary_allocations,
        )
    }
}

fn home(address: usize) -> usize {
    ((address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 48
}

impl Tally {
    fn thread(&mut self) -> usize {
        if THREAD.get() == usize::MAX {
            THREAD.set(self.thread_count);
            // SAFETY: takes no arguments and cannot fail.
            self.ids[self.thread_count] = i64::from(unsafe { gettid() });
            self.thread_count += 1;
        }
        THREAD.get()
    }

    /// Adds a block: a new one, or one that a reallocation returns as `number`.
    fn enter(&mut self, address: usize, size: usize, number: Option<u64>) {
        let (function, thread) = (FUNCTION.get(), self.thread());
        self.shared[function] |= self.user[function] != usize::MAX && self.user[function] != thread;
        self.user[function] = thread;
        let by_reallocation = number.is_some();
        if function != NOBODY {
            for figures in [&mut self.functions[function], &mut self.threads[thread], &mut self.total] {
                figures.arrive(size, by_reallocation);
            }
        }
        let number = number.unwrap_or(self.next);
        self.next += u64::from(!by_reallocation);
        self.latest[thread] = number;
        let mut slot = home(address);
        while self.blocks[slot].address != 0 {
            slot = (slot + 1) % SLOTS;
        }
        self.blocks[slot] = Block { address, size, number, function, thread };
    }

    fn leave(&mut self, address: usize, by_reallocation: bool) -> u64 {
        let mut slot = home(address);
        while self.blocks[slot].address != address {
            if self.blocks[slot].address == 0 {
                std::process::abort();
            }
            slot = (slot + 1) % SLOTS;
        }
        let block = self.blocks[slot];
        let mut next = (slot + 1) % SLOTS;
        while self.blocks[next].address != 0 {
            let distance = |from: usize| next.wrapping_sub(from) % SLOTS;
            if distance(home(self.blocks[next].address)) >= distance(slot) {
                self.blocks[slot] = self.blocks[next];
                slot = next;
            }
            next = (next + 1) % SLOTS;
        }
        self.blocks[slot].address = 0;
        let crosses = block.thread != self.thread();
        let temporary = block.number == self.latest[block.thread];
        if block.function != NOBODY {
            for figures in [&mut self.functions[block.function], &mut self.threads[block.thread], &mut self.total] {
                figures.depart(block.size, by_reallocation, crosses, temporary);
            }
        }
        block.number
    }
}

// SAFETY: forwards everything to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { System.alloc(layout) };
        with_tally(|tally| tally.enter(block as usize, layout.size(), None));
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { System.alloc_zeroed(layout) };
        with_tally(|tally| tally.enter(block as usize, layout.size(), None));
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        with_tally(|tally| tally.leave(block as usize, false));
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() > MALLOC_ALIGNMENT || layout.align() > new_size {
            // The standard library has no aligned realloc and allocates a new block.
            let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
            let new = unsafe { self.alloc(new_layout) };
            unsafe { std::ptr::copy_nonoverlapping(block, new, layout.size().min(new_size)) };
            unsafe { self.dealloc(block, layout) };
            return new;
        }
        let number = with_tally(|tally| tally.leave(block as usize, true));
        let moved = unsafe { System.realloc(block, layout, new_size) };
        with_tally(|tally| tally.enter(moved as usize, new_size, Some(number)));
        moved
    }
}

/// Runs `work` under the name of one of the counted functions.
fn named<R>(function: &str, work: impl FnOnce() -> R) -> R {
    let before = FUNCTION.replace(NAMES.iter().position(|name| *name == function).unwrap());
    let result = work();
    FUNCTION.set(before);
    result
}

#[inline(never)]
fn grow_a_vector(count: u64) -> Vec<u64> {
    named("grow_a_vector", || {
        let mut numbers = Vec::new();
        for number in 0..count {
            numbers.push(black_box(number));
        }
        numbers
    })
}

#[inline(never)]
fn join_strings(count: usize) -> String {
    named("join_strings", || {
        let words: Vec<String> = (0..count).map(|i| format!("word {i} of many")).collect();
        words.join(", ")
    })
}

#[inline(never)]
fn box_things(count: usize) -> usize {
    named("box_things", || {
        let boxes: Vec<Box<[u8; 100]>> = (0..count).map(|i| Box::new([i as u8; 100])).collect();
        black_box(&boxes).iter().map(|thing| thing[0] as usize).sum()
    })
}

#[inline(never)]
fn fill_a_map(count: u64) -> HashMap<u64, String> {
    named("fill_a_map", || (0..count).map(|i| (i, i.to_string())).collect())
}

#[repr(align(128))]
struct Wide([u8; 256]);

#[inline(never)]
fn align_things(count: usize) -> usize {
    named("align_things", || {
        let mut things = Vec::new();
        for i in 0..count {
            things.push(Wide([i as u8; 256]));
        }
        let zeroed = vec![0u8; 5000];
        black_box(&things).len() + black_box(&zeroed).len() + things.iter().map(|thing| thing.0[0] as usize).sum::<usize>()
    })
}

#[inline(never)]
fn work_in_a_thread(number: usize) -> Vec<String> {
    named("work_in_a_thread", || (0..200 + number * 10).map(|i| "x".repeat(i + 1)).collect())
}

fn main() {
    let kept = grow_a_vector(50_000);
    let text = join_strings(500);
    let boxed = box_things(300);
    let map = fill_a_map(400);
    let aligned = align_things(60);
    let made_elsewhere: Vec<Vec<String>> = (0..4)
        .map(|number| std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || work_in_a_thread(number)))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|handle| handle.unwrap().join().unwrap())
        .collect();
    assert_eq!((boxed, map.len()), ((0..300usize).map(|i| i as u8 as usize).sum(), 400));
    assert_eq!(aligned, 60 + 5000 + (0..60).sum::<usize>());
    drop(made_elsewhere); // freed here, owned there
    std::mem::forget((kept, text, map));

    let (functions, shared, threads, ids, count, total) = with_tally(|tally| {
        (tally.functions, tally.shared, tally.threads, tally.ids, tally.thread_count, tally.total)
    });
    let functions: Vec<String> = NAMES
        .iter()
        .zip(functions)
        .zip(shared)
        .skip(1)
        .map(|((name, figures), shared)| format!(r#""{name}":{{{}}}"#, figures.json(!shared)))
        .collect();
    let threads: Vec<String> =
        (0..count).map(|i| format!(r#"{{"id":{},{}}}"#, ids[i], threads[i].json(true))).collect();
    println!(
        r#"{{"totals":{{{}}},"functions":{{{}}},"threads":[{}]}}"#,
        total.json(true),
        functions.join(","),
        threads.join(",")
    );
}

//! Measures against two independent counts: an allocator around ours that counts by itself, and a plain model of random programs.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater::testing::{self, HeapUse};
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::{Barrier, Mutex};

/// Counts the calling thread's requests and what they are for.
struct Counting(highwater::Alloc<System>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    allocations: u64,
    reallocations: u64,
    frees: u64,
    bytes: u64,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { allocations: 0, reallocations: 0, frees: 0, bytes: 0 }) };
}

fn count(change: impl FnOnce(&mut Count)) {
    let mut count = COUNT.get();
    change(&mut count);
    COUNT.set(count);
}

// SAFETY: every call is passed on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|count| (count.allocations, count.bytes) = (count.allocations + 1, count.bytes + layout.size() as u64));
        // SAFETY: the caller keeps the contract.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(|count| count.frees += 1);
        // SAFETY: the caller keeps the contract.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(|count| (count.reallocations, count.bytes) = (count.reallocations + 1, count.bytes + size as u64));
        // SAFETY: the caller keeps the contract.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(highwater::Alloc::new(System));

#[test]
fn a_real_program_is_counted_as_it_counts_itself() {
    // Once before, for what is allocated only once.
    testing::measure(|| ());
    let counted = Cell::new(Count::default());
    let used = testing::measure(|| {
        COUNT.set(Count::default());
        let mut words = BTreeMap::<String, Vec<usize>>::new();
        for number in 0..3000usize {
            let word = format!("{:b}", number.wrapping_mul(0x9e37_79b9) % 512);
            words.entry(word).or_default().push(number);
            if number % 7 == 0 {
                words.pop_first();
            }
        }
        let shared: HashMap<String, String> =
            words.iter().map(|(word, at)| (word.clone(), format!("{at:?}"))).collect();
        drop(words);
        drop(black_box(shared));
        counted.set(COUNT.get());
    });
    let counted = counted.get();
    assert!(counted.allocations > 5000 && counted.reallocations > 1000, "{counted:?}");
    let Count { allocations, reallocations, frees, bytes } = counted;
    assert_eq!(
        (used.allocations, used.reallocations, used.frees, used.bytes),
        (allocations, reallocations, frees, bytes)
    );
    assert_eq!((used.live_blocks, used.live_bytes), (0, 0));
}

#[test]
fn a_measure_takes_nothing_from_the_heap_while_it_counts() {
    testing::measure(|| drop(black_box(vec![0u8; 100])));
    let after = Cell::new(Count::default());
    testing::measure(|| {
        COUNT.set(Count::default());
        for size in 1..2000usize {
            std::mem::forget(black_box(Vec::<u8>::with_capacity(size)));
        }
        after.set(COUNT.get());
    });
    assert_eq!((after.get().allocations, after.get().frees), (1999, 0));
}

/// A step of a random program. Slots are shared by all threads.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Frees what is in the slot, then allocates.
    Allocate(usize, usize),
    Resize(usize, usize),
    Free(usize),
}

const SLOTS: usize = 12;
const THREADS: usize = 3;

fn step() -> impl Strategy<Value = (usize, Step)> {
    let slot = 0..SLOTS;
    let size = 1usize..5000;
    let step = prop_oneof![
        3 => (slot.clone(), size.clone()).prop_map(|(slot, size)| Step::Allocate(slot, size)),
        2 => (slot.clone(), size).prop_map(|(slot, size)| Step::Resize(slot, size)),
        2 => slot.prop_map(Step::Free),
    ];
    (0..THREADS, step)
}

/// A block of the model.
#[derive(Clone, Copy)]
struct ModelBlock {
    size: u64,
    older_bytes: Option<u64>,
    thread: usize,
    number: u64,
}

impl ModelBlock {
    fn counted(&self) -> u64 {
        self.size.saturating_sub(self.older_bytes.unwrap_or(0))
    }
}

/// The rules of measures, written down once more: the figures by summing over all blocks after each step.
fn model(steps: &[(usize, Step)], older: &[Option<usize>], measured: [bool; THREADS]) -> HeapUse {
    let mut used = HeapUse::default();
    // A block from before is none of the measure's until it is resized within.
    let mut slots: [Option<(u64, Option<ModelBlock>)>; SLOTS] = [None; SLOTS];
    for (slot, size) in older.iter().enumerate() {
        slots[slot] = size.map(|size| (size as u64, None));
    }
    let mut last = [0; THREADS];
    let mut number = 0;
    let free = |slot: &mut Option<(u64, Option<ModelBlock>)>, used: &mut HeapUse, last: &[u64; THREADS]| {
        if let Some((_, Some(block))) = slot.take() {
            used.frees += u64::from(block.older_bytes.is_none());
            used.temporary += u64::from(block.number != 0 && last[block.thread] == block.number);
        }
    };
    for &(thread, step) in steps {
        match step {
            Step::Allocate(slot, size) => {
                free(&mut slots[slot], &mut used, &last);
                let size = size as u64;
                let block = measured[thread].then(|| {
                    number += 1;
                    last[thread] = number;
                    used.allocations += 1;
                    used.bytes += size;
                    used.largest_block = used.largest_block.max(size);
                    ModelBlock { size, older_bytes: None, thread, number }
                });
                slots[slot] = Some((size, block));
            }
            Step::Resize(slot, size) => {
                let Some((old_size, block)) = slots[slot] else { continue };
                let size = size as u64;
                if old_size == size {
                    continue;
                }
                let block = match block {
                    Some(block) => Some(ModelBlock { size, thread, ..block }),
                    None if measured[thread] => {
                        Some(ModelBlock { size, older_bytes: Some(old_size), thread, number: 0 })
                    }
                    None => None,
                };
                if let Some(block) = block {
                    used.reallocations += 1;
                    used.bytes += block.counted();
                    used.largest_block = used.largest_block.max(size);
                }
                slots[slot] = Some((size, block));
            }
            Step::Free(slot) => free(&mut slots[slot], &mut used, &last),
        }
        let blocks = || slots.iter().flatten().filter_map(|(_, block)| block.as_ref());
        used.live_bytes = blocks().map(ModelBlock::counted).sum();
        used.live_blocks = blocks().filter(|block| block.older_bytes.is_none()).count() as u64;
        if used.live_bytes > used.peak_bytes {
            (used.peak_bytes, used.peak_blocks) = (used.live_bytes, used.live_blocks);
        }
    }
    used
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

/// A block and its size. Its address is kept as a number, which may go to other threads.
type Slot = Option<(usize, usize)>;

fn free(slot: &mut Slot) {
    if let Some((block, size)) = slot.take() {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(block as *mut u8, layout(size)) };
    }
}

fn perform(step: Step, slots: &mut [Slot; SLOTS]) {
    match step {
        Step::Allocate(slot, size) => {
            free(&mut slots[slot]);
            // SAFETY: the size is not 0.
            slots[slot] = Some((unsafe { std::alloc::alloc(layout(size)) } as usize, size));
        }
        Step::Resize(slot, size) => {
            let Some((block, old_size)) = slots[slot] else { return };
            if old_size != size {
                // SAFETY: allocated with this layout.
                let new = unsafe { std::alloc::realloc(block as *mut u8, layout(old_size), size) };
                slots[slot] = Some((new as usize, size));
            }
        }
        Step::Free(slot) => free(&mut slots[slot]),
    }
}

/// Runs the steps in their order, each on its thread: those that are measured belong to the measure, the others do not.
fn run(steps: &[(usize, Step)], older: &[Option<usize>], measured: [bool; THREADS]) -> testing::Measured<()> {
    let mut slots: [Slot; SLOTS] = [None; SLOTS];
    for (slot, size) in older.iter().enumerate() {
        if let Some(size) = size {
            perform(Step::Allocate(slot, *size), &mut slots);
        }
    }
    let slots = Mutex::new(slots);
    let (ready, measuring, done, end) =
        (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let turn = (Mutex::new(0), std::sync::Condvar::new());
    let measure = Mutex::new(None);
    let used = std::thread::scope(|scope| {
        for (thread, is_measured) in measured.into_iter().enumerate() {
            let (ready, measuring, done, end, turn, measure, slots) =
                (&ready, &measuring, &done, &end, &turn, &measure, &slots);
            scope.spawn(move || {
                ready.wait();
                measuring.wait();
                let handle: Option<testing::Handle> = measure.lock().unwrap().clone();
                let work = || {
                    for (at, &(of, step)) in steps.iter().enumerate() {
                        if of == thread {
                            let (now, changed) = turn;
                            let mut now = changed.wait_while(now.lock().unwrap(), |now| *now != at).unwrap();
                            perform(step, &mut slots.lock().unwrap());
                            *now += 1;
                            changed.notify_all();
                        }
                    }
                };
                match handle.filter(|_| is_measured) {
                    Some(handle) => handle.run(work),
                    None => work(),
                }
                done.wait();
                end.wait();
            });
        }
        ready.wait();
        let used = testing::measure(|| {
            *measure.lock().unwrap() = Some(testing::Handle::current());
            measuring.wait();
            done.wait();
        });
        end.wait();
        used
    });
    slots.into_inner().unwrap().iter_mut().for_each(free);
    used
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_on_several_threads_are_counted_as_the_model_counts(
        steps in prop::collection::vec(step(), 1..80),
        older in prop::collection::vec(prop::option::of(1usize..5000), SLOTS),
        measured in any::<[bool; THREADS]>(),
    ) {
        let used = run(&steps, &older, measured);
        prop_assert_eq!(*used, model(&steps, &older, measured));
        // The sum over the sites is the whole, at the end and at the peak.
        let sites = used.sites();
        let sum = |figure: fn(&HeapUse) -> u64| sites.iter().map(|site| figure(&site.used)).sum::<u64>();
        prop_assert_eq!(sum(|used| used.allocations), used.allocations);
        prop_assert_eq!(sum(|used| used.reallocations), used.reallocations);
        prop_assert_eq!(sum(|used| used.frees), used.frees);
        prop_assert_eq!(sum(|used| used.bytes), used.bytes);
        prop_assert_eq!(sum(|used| used.temporary), used.temporary);
        prop_assert_eq!(sum(|used| used.live_bytes), used.live_bytes);
        prop_assert_eq!(sum(|used| used.live_blocks), used.live_blocks);
        prop_assert_eq!(sum(|used| used.peak_bytes), used.peak_bytes);
        prop_assert_eq!(sum(|used| used.peak_blocks), used.peak_blocks);
    }
}

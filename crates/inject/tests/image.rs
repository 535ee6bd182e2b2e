//! The image, called as islands call it, against what the test itself did.

mod support;

use highwater_shm::attach_v1::{
    AttachHeader, AttachLayout, FunctionIndex, Implementation, MODE_EXACT, MODE_OFF, MODE_SAMPLED, THREAD_SLOTS,
    THREADS, ThreadSlot,
};
use highwater_shm::session_v1::Capacity;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use support::{Injected, Numbers, Seen, drain};

fn recording() -> AttachLayout {
    AttachLayout::for_recording(Capacity::CHOICES[2])
}

/// Does random calls, and says what must have been recorded. Every block is freed, some of them by another size.
fn work(injected: &Injected, seed: u64, calls: usize) -> Vec<Seen> {
    let (mut numbers, mut live, mut done) = (Numbers(seed), Vec::new(), Vec::new());
    for _ in 0..calls {
        let size = 1 + numbers.below(300);
        let allocate = |function, arguments| injected.call(function, arguments);
        let block = match numbers.below(12) {
            0 => allocate(FunctionIndex::Calloc, [1, size, 0]),
            1 => allocate(FunctionIndex::Memalign, [64, size, 0]),
            2 => allocate(FunctionIndex::AlignedAlloc, [32, size, 0]),
            3 => {
                let mut out = 0usize;
                assert_eq!(allocate(FunctionIndex::PosixMemalign, [(&raw mut out) as usize, 128, size]) as i32, 0);
                out
            }
            4 => allocate(FunctionIndex::Realloc, [0, size, 0]),
            5 | 6 if !live.is_empty() => {
                let at = numbers.below(live.len());
                let old = live[at];
                let new = allocate(FunctionIndex::Realloc, [old, size, 0]);
                live[at] = new;
                done.push(Seen::Resized { old, new, size });
                continue;
            }
            7..=9 if !live.is_empty() => {
                let block = live.swap_remove(numbers.below(live.len()));
                done.push(Seen::Freed { address: block });
                injected.free(block);
                continue;
            }
            _ => injected.malloc(size),
        };
        assert_ne!(block, 0);
        // SAFETY: a new block of that size.
        unsafe { (block as *mut u8).write_bytes(0xa5, size) };
        done.push(Seen::Allocated { address: block, size, node: 0 });
        live.push(block);
    }
    for block in live {
        done.push(Seen::Freed { address: block });
        injected.free(block);
    }
    done
}

fn without_nodes(seen: &[Seen]) -> Vec<Seen> {
    let known = seen.iter().filter(|seen| !matches!(seen, Seen::Thread { .. }));
    known
        .map(|&seen| match seen {
            Seen::Allocated { address, size, .. } => Seen::Allocated { address, size, node: 0 },
            other => other,
        })
        .collect()
}

#[test]
fn every_call_of_every_thread_is_recorded_once_and_in_order() {
    const ROUNDS: usize = 60;
    let injected = Injected::new(recording(), |_| ());
    injected.begin();
    // In rounds, so that no ring is ever full: then every record must be there.
    let mut expected = vec![Vec::new(); 4];
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (thread, expected) in expected.iter_mut().enumerate() {
                let injected = &injected;
                scope.spawn(move || expected.push(work(injected, (round * 7 + thread) as u64, 300)));
            }
        });
        injected.memory.keep_alive();
        drain(&injected.session, &mut seen);
    }
    assert_eq!(injected.mode(), MODE_EXACT);
    // Every round had new threads: the records of one thread are a run in some ring.
    let mut runs: HashMap<usize, Vec<Seen>> = HashMap::new();
    for ring in &seen {
        for run in ring.split(|seen| matches!(seen, Seen::Thread { .. })).skip(1) {
            let run = without_nodes(run);
            let Some(Seen::Allocated { .. }) = run.first() else { panic!("{run:?}") };
            runs.insert(runs.len(), run);
        }
    }
    let mut recorded: Vec<_> = runs.into_values().collect();
    let mut expected: Vec<_> = expected.into_iter().flatten().collect();
    let order = |run: &Vec<Seen>| format!("{run:?}");
    recorded.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(recorded.len(), 4 * ROUNDS);
    assert!(recorded == expected, "what was recorded is not what was done");
    let header = injected.session.header();
    assert_eq!(header.missed.load(Ordering::Relaxed), 0);
    assert_eq!(header.cut_stacks.load(Ordering::Relaxed), 0);
    assert_eq!(injected.memory.counts().unslotted, 0);
    assert_eq!(injected.memory.counts().unprovided, 0);
}

#[inline(never)]
fn first_caller(injected: &Injected) -> usize {
    std::hint::black_box(injected.malloc(10))
}

#[inline(never)]
fn second_caller(injected: &Injected, depth: usize) -> usize {
    if depth == 0 { first_caller(injected) } else { std::hint::black_box(second_caller(injected, depth - 1)) }
}

#[test]
fn stacks_lead_through_the_callers() {
    let injected = Injected::new(recording(), |_| ());
    injected.switch_on();
    let (mut seen, depth) = (Vec::new(), 20);
    second_caller(&injected, depth);
    drain(&injected.session, &mut seen);
    let node = seen[0].iter().find_map(|seen| match seen {
        Seen::Allocated { size: 10, node, .. } => Some(*node),
        _ => None,
    });
    let mut stack = Vec::new();
    let mut node = node.expect("it was recorded");
    while let Some((parent, _, pc)) = injected.session.node(node) {
        stack.push(pc);
        node = parent;
    }
    let within = |pc: u64, function: usize| pc.wrapping_sub(function as u64) < 4096;
    assert!(stack.len() > depth + 4, "{stack:x?}");
    assert!(within(stack[0], Injected::call_of as *const () as usize), "{stack:x?}");
    let recursive = stack.iter().filter(|&&pc| within(pc, second_caller as *const () as usize)).count();
    assert!(recursive >= depth, "{recursive} frames of {depth}: {stack:x?}");
    assert!(stack.iter().all(|&pc| pc != 1), "truncated: {stack:x?}");
}

#[test]
fn calls_before_the_switch_and_after_it_are_only_passed_on() {
    let injected = Injected::new(recording(), |_| ());
    let before = injected.malloc(100);
    assert_ne!(before, 0);
    assert!(!injected.memory.has_begun());
    injected.switch_on();
    let during = injected.malloc(200);
    // Older than the recording: its free is recorded, and a reader finds that it does not know the block.
    injected.free(before);
    injected.switch_off();
    injected.free(during);
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    let expected = [Seen::Allocated { address: during, size: 200, node: 0 }, Seen::Freed { address: before }];
    assert_eq!(without_nodes(&seen[0]), expected);
    assert!(injected.memory.has_begun());
}

#[test]
fn samples_have_the_size_of_the_whole_on_average() {
    const MEAN: u64 = 4096;
    let injected = Injected::new(recording(), |header| header.sample_bytes = MEAN);
    injected.switch_on();
    let (mut numbers, mut calls, mut bytes, mut live, mut seen) = (Numbers(7), 0usize, 0usize, Vec::new(), Vec::new());
    for round in 0..200_000 {
        if round % 5000 == 0 {
            injected.memory.keep_alive();
            drain(&injected.session, &mut seen);
        }
        if numbers.below(2) == 0 && !live.is_empty() {
            let block: usize = live.swap_remove(numbers.below(live.len()));
            injected.free(block);
            continue;
        }
        let size = 1 + numbers.below(400);
        (calls, bytes) = (calls + 1, bytes + size);
        live.push(injected.malloc(size));
    }
    drain(&injected.session, &mut seen);
    live.into_iter().for_each(|block| injected.free(block));
    drain(&injected.session, &mut seen);
    assert_eq!(injected.mode(), MODE_SAMPLED);
    let (mut live, mut sampled, mut estimate) = (HashMap::new(), 0, 0.0);
    for &seen in seen.iter().flatten() {
        match seen {
            Seen::Allocated { address, size, .. } => {
                assert_eq!(live.insert(address, size), None, "a block that is live already");
                sampled += 1;
                estimate += size as f64 / (1.0 - (-(size as f64) / MEAN as f64).exp());
            }
            Seen::Freed { address } => {
                assert!(live.remove(&address).is_some(), "the free of a block that is no sample")
            }
            Seen::Resized { .. } => panic!("nothing was resized"),
            Seen::Thread { .. } => {}
        }
    }
    assert!(live.is_empty(), "frees of samples are missing");
    assert!(sampled < calls / 5);
    // The sum of n samples of MEAN bytes each: six standard deviations.
    let expected = bytes as f64;
    let deviation = (expected * MEAN as f64).sqrt() * 1.1;
    assert!((estimate - expected).abs() < 6.0 * deviation, "{estimate} of {expected}");
}

#[test]
fn a_full_ring_drops_and_counts_and_nothing_waits() {
    const CALLS: u64 = 100_000;
    let injected = Injected::new(recording(), |_| ());
    injected.switch_on();
    for _ in 0..CALLS / 2 {
        injected.free(injected.malloc(24));
    }
    let ring = injected.session.ring(0);
    let (tail, dropped) = (ring.tail.load(Ordering::Relaxed), ring.dropped.load(Ordering::Relaxed));
    assert!(
        tail <= u64::from(ring.provided.load(Ordering::Relaxed)),
        "no memory is taken that the reader did not give"
    );
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    let recorded = without_nodes(&seen[0]).len() as u64;
    assert_eq!(recorded + dropped, CALLS);
    assert!(recorded > 1000);
    // As soon as there is room again, recording continues.
    let block = injected.malloc(77);
    drain(&injected.session, &mut seen);
    assert_eq!(without_nodes(&seen[0]).last(), Some(&Seen::Allocated { address: block, size: 77, node: 0 }));
}

#[test]
fn without_a_reader_the_agent_switches_itself_off() {
    let injected = Injected::new(recording(), |_| ());
    injected.memory.page().patience.store(1, Ordering::Relaxed);
    injected.switch_on();
    let mut seen = Vec::new();
    // A reader that is there: at least one beat between any two looks.
    for _ in 0..20_000 {
        injected.memory.keep_alive();
        injected.free(injected.malloc(24));
        drain(&injected.session, &mut seen);
    }
    assert_eq!(injected.mode(), MODE_EXACT);
    assert_eq!(injected.memory.ended(), None);
    for _ in 0..2500 {
        injected.free(injected.malloc(24));
    }
    assert_eq!(injected.mode(), MODE_OFF);
    assert_eq!(injected.memory.ended(), Some(highwater_session::AttachedEnd::NoReader));
    // An attacher's switch is the only way back: the agent does not wake by itself.
    injected.memory.keep_alive();
    injected.free(injected.malloc(24));
    assert_eq!(injected.mode(), MODE_OFF);
}

#[test]
fn the_reader_can_ask_for_the_end() {
    let injected = Injected::new(recording(), |_| ());
    injected.switch_on();
    injected.free(injected.malloc(24));
    injected.session.header().stop.store(1, Ordering::Release);
    for _ in 0..3000 {
        injected.free(injected.malloc(24));
    }
    assert_eq!(injected.mode(), MODE_OFF);
}

#[test]
fn a_forked_child_passes_calls_on_and_records_nothing() {
    let injected = Injected::new(recording(), |_| ());
    injected.switch_on();
    let block = injected.malloc(123);
    // SAFETY: the child only calls the image's entries, whose functions work in a forked child, and ends.
    let status = unsafe {
        let child = fork();
        assert!(child >= 0);
        if child == 0 {
            let mut good = injected.mode() == MODE_OFF;
            for size in 1..2000 {
                let block = injected.malloc(size);
                good &= block != 0;
                injected.free(block);
            }
            injected.free(block);
            _exit(if good { 0 } else { 1 });
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(status, 0);
    injected.free(block);
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    assert_eq!(
        without_nodes(&seen[0]),
        [Seen::Allocated { address: block, size: 123, node: 0 }, Seen::Freed { address: block }]
    );
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// The image that the allocator below calls.
static NESTING: AtomicUsize = AtomicUsize::new(0);

/// An allocator whose `calloc` calls its own `malloc`, which is hooked.
unsafe extern "C" fn calloc_by_malloc(count: usize, size: usize) -> usize {
    // SAFETY: set by the test that calls this.
    let injected = unsafe { &*(NESTING.load(Ordering::Relaxed) as *const Injected) };
    injected.malloc(count * size)
}

#[test]
fn calls_of_an_allocator_to_itself_are_not_recorded() {
    let injected = Injected::new(recording(), |header| {
        header.implementations[0].real[FunctionIndex::Calloc as usize] = calloc_by_malloc as *const () as u64;
    });
    NESTING.store((&raw const injected) as usize, Ordering::Relaxed);
    injected.switch_on();
    let block = injected.call(FunctionIndex::Calloc, [3, 50, 0]);
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    assert_eq!(without_nodes(&seen[0]), [Seen::Allocated { address: block, size: 150, node: 0 }]);
    // SAFETY: the table has this number of slots.
    let slots = (0..THREAD_SLOTS as u64).map(|slot| unsafe { injected.at::<ThreadSlot>(THREADS + slot * 64) });
    assert!(slots.map(|slot| slot.depth.load(Ordering::Relaxed)).all(|depth| depth == 0));
}

static THROWN: AtomicU64 = AtomicU64::new(0);
static DELETED: AtomicU64 = AtomicU64::new(0);

/// Larger blocks cannot be had from the operators below.
const LARGEST: usize = 1 << 20;

unsafe extern "C" fn real_new(size: usize, alignment: usize) -> usize {
    // An exception would be thrown here. The arguments must be the program's.
    THROWN.store((size + alignment) as u64, Ordering::Relaxed);
    0xdead
}

unsafe extern "C" fn real_new_nothrow(size: usize, _: usize) -> usize {
    if size > LARGEST { 0 } else { Box::into_raw(vec![0u8; size].into_boxed_slice()).cast::<u8>() as usize }
}

unsafe extern "C" fn real_new_aligned_nothrow(size: usize, alignment: usize, _: usize) -> usize {
    if size > LARGEST || alignment != 64 { 0 } else { 64 * size }
}

unsafe extern "C" fn real_delete(block: usize, second: usize, third: usize) {
    DELETED.store((block + second + third) as u64, Ordering::Relaxed);
}

/// An allocator with operators of C++ of its own, which count.
fn operators(header: &mut AttachHeader) {
    let mut operators = Implementation { real: [0; 48], usable_size: 0, flags: 0 };
    for function in FunctionIndex::New as usize..=FunctionIndex::DeleteArraySizedAligned as usize {
        operators.real[function] = real_delete as *const () as u64;
    }
    for (function, address) in [
        (FunctionIndex::New, real_new as *const ()),
        (FunctionIndex::NewArray, real_new as *const ()),
        (FunctionIndex::NewAligned, real_new as *const ()),
        (FunctionIndex::NewArrayAligned, real_new as *const ()),
        (FunctionIndex::NewNothrow, real_new_nothrow as *const ()),
        (FunctionIndex::NewArrayNothrow, real_new_nothrow as *const ()),
        (FunctionIndex::NewAlignedNothrow, real_new_aligned_nothrow as *const ()),
        (FunctionIndex::NewArrayAlignedNothrow, real_new_aligned_nothrow as *const ()),
    ] {
        operators.real[function as usize] = address as u64;
    }
    header.implementation_count = 2;
    header.implementations[1] = operators;
}

#[test]
fn operators_of_cpp_are_recorded_in_all_their_forms_and_may_throw() {
    use FunctionIndex as F;
    let injected = Injected::new(recording(), operators);
    injected.switch_on();
    let mut expected = Vec::new();
    let forms = [
        (F::New, [40, 0, 0]),
        (F::NewArray, [41, 0, 0]),
        (F::NewNothrow, [42, 1, 0]),
        (F::NewArrayNothrow, [43, 1, 0]),
        (F::NewAligned, [44, 64, 0]),
        (F::NewArrayAligned, [45, 64, 0]),
        (F::NewAlignedNothrow, [46, 64, 1]),
        (F::NewArrayAlignedNothrow, [47, 64, 1]),
    ];
    for (function, arguments) in forms {
        let address = injected.call_of(1, function, arguments);
        expected.push(Seen::Allocated { address, size: arguments[0], node: 0 });
    }
    for (function, arguments) in [
        (F::Delete, [1000, 0, 0]),
        (F::DeleteArray, [2000, 0, 0]),
        (F::DeleteNothrow, [3000, 1, 0]),
        (F::DeleteArrayNothrow, [4000, 2, 0]),
        (F::DeleteSized, [5000, 3, 0]),
        (F::DeleteArraySized, [6000, 4, 0]),
        (F::DeleteAligned, [7000, 5, 0]),
        (F::DeleteArrayAligned, [8000, 6, 0]),
        (F::DeleteAlignedNothrow, [9000, 7, 1]),
        (F::DeleteArrayAlignedNothrow, [10_000, 8, 2]),
        (F::DeleteSizedAligned, [11_000, 9, 3]),
        (F::DeleteArraySizedAligned, [12_000, 10, 4]),
    ] {
        injected.call_of(1, function, arguments);
        expected.push(Seen::Freed { address: arguments[0] });
        let [block, second, third] = arguments;
        let passed = DELETED.load(Ordering::Relaxed) as usize;
        // A register that is no argument of this form may have anything in it.
        assert!(passed >= block && (passed == block + second + third || second == 0 || third == 0), "{function:?}");
    }
    // Where there is no memory, the real function is called with what the program passed, and throws. Nothing is recorded.
    for (function, alignment) in [(F::New, 0), (F::NewArray, 0), (F::NewAligned, 64), (F::NewArrayAligned, 64)] {
        assert_eq!(injected.call_of(1, function, [LARGEST + 1, alignment, 0]), 0xdead);
        assert_eq!(THROWN.swap(0, Ordering::Relaxed), (LARGEST + 1 + alignment) as u64);
    }
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    assert_eq!(without_nodes(&seen[0]), expected);
}

#[test]
fn threads_that_come_and_go_use_slots_again() {
    let injected = Injected::new(recording(), |_| ());
    injected.switch_on();
    let (mut seen, mut ids) = (Vec::new(), HashSet::new());
    for _ in 0..300 {
        let injected = &injected;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                injected.free(injected.malloc(1));
                injected.free(injected.malloc(2));
            });
        });
        injected.memory.keep_alive();
        drain(&injected.session, &mut seen);
    }
    for ring in &seen {
        for run in ring.split(|seen| matches!(seen, Seen::Thread { .. })).skip(1) {
            assert_eq!(run.len(), 4, "what a thread did is not under its own number");
        }
        ids.extend(ring.iter().filter_map(|seen| if let Seen::Thread { id } = seen { Some(*id) } else { None }));
    }
    assert_eq!(ids.len(), 300, "a thread was taken for another one");
    assert_eq!(injected.layout(), recording());
    // SAFETY: the table has this number of slots.
    let slots = (0..THREAD_SLOTS as u64).map(|slot| unsafe { injected.at::<ThreadSlot>(THREADS + slot * 64) });
    let used = slots.filter(|slot| slot.pointer.load(Ordering::Relaxed) != 0).count();
    assert!(used < 300, "{used} slots: the C library uses stacks again");
}

//! Frames of the image are counted for as long as they are on a stack: the image may be unmapped only when there is none.

mod support;

use highwater_shm::attach_v1::{
    AttachHeader, AttachLayout, AttachPage, ENDED_BY_FILTER, FunctionIndex, MODE_EXACT, MODE_OFF, PASSING, RECORDING,
    SLOT_PROBES, SwitchPage, THREAD_SLOTS, THREADS, ThreadSlot, slot_home,
};
use highwater_shm::session_v1::Capacity;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use support::{Injected, drain};

/// Each test looks from inside of the real functions, which are the same for all.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static INJECTED: AtomicPtr<Injected> = AtomicPtr::new(std::ptr::null_mut());
/// What a real function has found: the depth of its thread, and frames of threads without a slot.
static DEPTH: AtomicU64 = AtomicU64::new(0);
static UNSLOTTED: AtomicU64 = AtomicU64::new(0);

fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the first word of a thread's block is its own address.
    unsafe { std::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer) };
    pointer
}

fn injected() -> &'static Injected {
    // SAFETY: set before any real function is called, and never freed.
    unsafe { &*INJECTED.load(Ordering::Acquire) }
}

fn page() -> &'static AttachPage {
    // SAFETY: the object begins with it.
    unsafe { injected().at(0) }
}

fn slots() -> &'static [ThreadSlot; THREAD_SLOTS] {
    // SAFETY: the object has them there.
    unsafe { injected().at(THREADS) }
}

fn depth() -> u64 {
    let pointer = thread_pointer();
    let mut own = (0..SLOT_PROBES)
        .map(|distance| &slots()[slot_home(pointer).wrapping_add(distance) & (THREAD_SLOTS - 1)])
        .filter(|slot| slot.pointer.load(Ordering::Relaxed) == pointer);
    own.next().map_or(0, |slot| slot.depth.load(Ordering::Relaxed))
}

fn look() {
    DEPTH.store(depth(), Ordering::Relaxed);
    UNSLOTTED.store(page().unslotted_frames.load(Ordering::Relaxed), Ordering::Relaxed);
}

static BLOCK: [u64; 8] = [0; 8];

extern "C" fn looking_malloc(_: usize) -> *const u64 {
    look();
    BLOCK.as_ptr()
}

extern "C" fn looking_free(_: *const u64) {
    look();
}

/// A destructor of the library frees a block.
extern "C" fn looking_dlclose(_: usize) -> i32 {
    look();
    injected().free(BLOCK.as_ptr() as usize);
    look();
    17
}

extern "C" fn looking_call(_: usize, _: usize, _: usize) -> usize {
    look();
    23
}

/// An image whose real functions look; it stays mapped.
fn looking() -> &'static Injected {
    let injected = Injected::new(AttachLayout::for_recording(Capacity::CHOICES[2]), |header: &mut AttachHeader| {
        let one = &mut header.implementations[0];
        one.usable_size = 0;
        for (function, address) in [
            (FunctionIndex::Malloc, looking_malloc as *const ()),
            (FunctionIndex::Free, looking_free as *const ()),
            (FunctionIndex::Dlclose, looking_dlclose as *const ()),
            (FunctionIndex::Prctl, looking_call as *const ()),
            (FunctionIndex::Syscall, looking_call as *const ()),
        ] {
            one.real[function as usize] = address as u64;
        }
    });
    let injected = Box::leak(Box::new(injected));
    INJECTED.store(injected, Ordering::Release);
    injected
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn a_call_that_is_recorded_or_passed_on_has_a_frame() {
    let _alone = alone();
    let injected = looking();
    injected.begin();
    assert_eq!(injected.mode(), MODE_EXACT);
    injected.malloc(10);
    assert_ne!(DEPTH.load(Ordering::Relaxed) & RECORDING, 0, "recorded");
    assert_eq!(depth(), 0);
    // As a call finds it that began before the switch was turned off: not 0 at the entry, off in the hook.
    // SAFETY: the switch is the first word of the page.
    let switch: &SwitchPage = unsafe { &*injected.switch_page() };
    switch.mode.store(99, Ordering::Release);
    for call in [FunctionIndex::Malloc, FunctionIndex::Free] {
        DEPTH.store(0, Ordering::Relaxed);
        injected.call(call, [BLOCK.as_ptr() as usize, 0, 0]);
        assert_ne!(DEPTH.load(Ordering::Relaxed), 0, "{call:?} is passed on below a frame");
        assert_eq!(depth(), 0);
    }
    injected.switch_off();
}

#[test]
fn a_thread_without_a_slot_has_frames_that_are_counted() {
    let _alone = alone();
    let injected = looking();
    injected.begin();
    std::thread::spawn(|| {
        // Threads that may live have all slots in which this one could be.
        for distance in 0..SLOT_PROBES {
            let slot = &slots()[slot_home(thread_pointer()).wrapping_add(distance) & (THREAD_SLOTS - 1)];
            slot.pointer.store(8, Ordering::Relaxed);
            slot.id.store(0, Ordering::Relaxed);
        }
        self::injected().malloc(10);
        assert_eq!((DEPTH.load(Ordering::Relaxed), UNSLOTTED.load(Ordering::Relaxed)), (0, 1));
        self::injected().call(FunctionIndex::Dlclose, [1, 0, 0]);
        assert_eq!(UNSLOTTED.load(Ordering::Relaxed), 1, "that of dlclose, after that of free");
    })
    .join()
    .unwrap();
    assert_eq!(page().unslotted_frames.load(Ordering::Relaxed), 0);
    assert!(page().unslotted.load(Ordering::Relaxed) > 0);
    injected.switch_off();
}

#[test]
fn destructors_of_a_library_are_recorded_below_a_frame() {
    let _alone = alone();
    let injected = looking();
    injected.begin();
    injected.malloc(10);
    drain(&injected.session, &mut Vec::new());
    assert_eq!(injected.call(FunctionIndex::Dlclose, [1, 0, 0]) as i32, 17);
    assert_eq!(DEPTH.load(Ordering::Relaxed), PASSING, "a frame that records nothing by itself");
    assert_eq!(depth(), 0);
    let mut seen = Vec::new();
    drain(&injected.session, &mut seen);
    let freed = support::Seen::Freed { address: BLOCK.as_ptr() as usize };
    assert_eq!(seen.concat(), [freed]);
    injected.switch_off();
}

#[test]
fn the_agent_ends_before_the_program_installs_a_filter() {
    const SET_SECCOMP: usize = 22;
    const SYS_PRCTL: usize = 157;
    const SYS_SECCOMP: usize = 317;
    let _alone = alone();
    // `call` passes three arguments, which is as many as each of these looks at but the last: its filter is null then.
    let harmless = [
        (FunctionIndex::Prctl, [15, 1, 1]),
        (FunctionIndex::Prctl, [SET_SECCOMP, 2, 0]),
        (FunctionIndex::Syscall, [SYS_PRCTL, 15, 2]),
        (FunctionIndex::Syscall, [39, SET_SECCOMP, 2]),
    ];
    let installing = [
        (FunctionIndex::Prctl, [SET_SECCOMP, 2, 0x1000]),
        (FunctionIndex::Prctl, [SET_SECCOMP, 1, 0]),
        (FunctionIndex::Syscall, [SYS_PRCTL, SET_SECCOMP, 1]),
        (FunctionIndex::Syscall, [SYS_SECCOMP, 0, 0]),
    ];
    for (function, arguments) in installing {
        let injected = looking();
        injected.begin();
        for (function, arguments) in harmless {
            assert_eq!(injected.call(function, arguments), 23);
            assert_eq!(injected.mode(), MODE_EXACT, "{function:?} {arguments:?}");
        }
        assert_eq!(injected.call(function, arguments), 23);
        assert_eq!(injected.mode(), MODE_OFF, "{function:?} {arguments:?}");
        assert_eq!(page().ended.load(Ordering::Relaxed), ENDED_BY_FILTER);
        assert_eq!((DEPTH.load(Ordering::Relaxed), depth()), (0, 0), "the real function has no frame of ours below it");
    }
}

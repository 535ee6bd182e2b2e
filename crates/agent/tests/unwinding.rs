//! Our unwinder against the compiler's own (`_Unwind_Backtrace`), frame by frame.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(missing_docs)]

use highwater_agent::arch::registers::Registers;
use highwater_agent::unwind::memory::StackWindow;
use highwater_agent::unwind::objects;
use std::ffi::{c_int, c_void};

type Trace = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(trace: Trace, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn qsort(
        base: *mut c_void,
        count: usize,
        size: usize,
        compare: extern "C" fn(*const c_void, *const c_void) -> c_int,
    );
}

extern "C" fn note(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: as `theirs` passes it.
    let address = unsafe { _Unwind_GetIP(context) } as u64;
    // After the outermost frame they report one more, without an address.
    if address != 0 {
        // SAFETY: likewise.
        unsafe { (*data.cast::<Vec<u64>>()).push(address) };
    }
    0
}

fn theirs() -> Vec<u64> {
    let mut trace = Vec::new();
    // SAFETY: the callback gets the vector.
    unsafe { _Unwind_Backtrace(note, (&raw mut trace).cast()) };
    trace
}

#[inline(never)]
fn ours() -> Vec<u64> {
    let window = StackWindow::of_this_thread(false);
    let mut frame = Registers::here();
    let mut trace = Vec::new();
    while let Some(caller) = frame.caller(&window) {
        trace.push(caller.state().expect("a caller has a state").pc);
        frame = caller;
    }
    trace
}

/// Both traces end with the same frames; where they begin they differ by the functions above.
fn compare() -> usize {
    objects::prepare();
    let (ours, theirs) = (ours(), theirs());
    let same = ours.iter().rev().zip(theirs.iter().rev()).take_while(|(ours, theirs)| ours == theirs).count();
    assert!(same + 3 >= ours.len() && same + 3 >= theirs.len(), "ours {ours:x?}\ntheirs {theirs:x?}");
    same
}

#[inline(never)]
fn recurse(depth: usize) -> usize {
    let room = std::hint::black_box([depth; 7]);
    let reached = if depth == 0 { compare() } else { recurse(depth - 1) };
    std::hint::black_box(room);
    reached
}

#[test]
fn a_deep_recursion_is_followed_to_its_end() {
    assert!(recurse(500) >= 500);
}

static DEPTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

extern "C" fn order(_: *const c_void, _: *const c_void) -> c_int {
    DEPTH.store(compare(), std::sync::atomic::Ordering::Relaxed);
    0
}

#[test]
fn frames_of_the_c_library_are_followed() {
    let mut numbers = [3u32, 1, 2];
    // SAFETY: three numbers of four bytes.
    unsafe { qsort(numbers.as_mut_ptr().cast(), 3, 4, order) };
    assert!(DEPTH.load(std::sync::atomic::Ordering::Relaxed) > 3);
}

//! Hooks besides memory: unloading, names of threads; and functions that a program may call by itself.

use crate::real;
use core::ffi::{CStr, c_char, c_int, c_void};
use highwater_agent::unwind::objects;
use highwater_agent::{self as agent, AgentMode, task};

unsafe extern "C" {
    fn pthread_self() -> usize;
    fn gettid() -> u32;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let before = objects::unload_count();
    // SAFETY: the program's.
    let result = unsafe { real::dlclose(handle) };
    agent::unloaded(before);
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(thread: usize, name: *const c_char) -> c_int {
    // SAFETY: the program's.
    unsafe {
        let result = real::pthread_setname_np(thread, name);
        // The kernel ids of other threads are not known here; the recorder asks the kernel for their names.
        if result == 0 && thread == pthread_self() && matches!(agent::mode(), AgentMode::Exact | AgentMode::Sampled) {
            agent::thread_named(gettid(), CStr::from_ptr(name).to_bytes());
        }
        result
    }
}

/// Names this instant in the recording.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_mark(name: *const c_char) {
    if !name.is_null() {
        // SAFETY: the caller's.
        agent::mark(unsafe { CStr::from_ptr(name) }.to_bytes());
    }
}

/// Has a snapshot of this process taken now, and kept by the collector under a name. Returns 0, or -1 if that is not possible.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_take_named_snapshot(name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    if !name.is_null() && agent::take_named_snapshot(unsafe { CStr::from_ptr(name) }.to_bytes()) { 0 } else { -1 }
}

/// Writes the allocations and frees of the process so far: blocks and bytes allocated, blocks and bytes freed. Returns 0, or -1 if it
/// keeps no live table.
///
/// # Safety
/// There is room for four numbers at `stats`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_global_stats(stats: *mut u64) -> c_int {
    // SAFETY: the caller's.
    unsafe { write_stats(agent::global_stats(), stats) }
}

/// The same for the calling thread.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_thread_stats(stats: *mut u64) -> c_int {
    // SAFETY: the caller's.
    unsafe { write_stats(agent::thread_stats(), stats) }
}

/// The number of the task with this name, for [`highwater_task_enter`]; 0 for an empty name or if there is no memory.
///
/// # Safety
/// There are `length` bytes at `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn highwater_task_number(name: *const u8, length: usize) -> u32 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: the caller's.
    task::number(unsafe { core::slice::from_raw_parts(name, length) })
}

/// The calling thread works for a task from now on, 0 for none. Returns the task that it worked for.
#[unsafe(no_mangle)]
pub extern "C" fn highwater_task_enter(number: u32) -> u32 {
    task::enter(number)
}

/// SAFETY: there is room for four numbers.
unsafe fn write_stats(stats: Option<agent::Stats>, target: *mut u64) -> c_int {
    let Some(agent::Stats { allocations, allocated_bytes, frees, freed_bytes }) = stats else { return -1 };
    for (index, number) in [allocations, allocated_bytes, frees, freed_bytes].into_iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { target.add(index).write(number) };
    }
    0
}

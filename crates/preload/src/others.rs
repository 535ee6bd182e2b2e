//! What is intercepted besides memory: unloading, names of threads; and what a program may call by itself.

use crate::real;
use core::ffi::{CStr, c_char, c_int, c_void};
use highwater_agent as agent;
use highwater_agent::unwind::objects;

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
        // Of other threads the kernel's number is not known here; the recorder asks the kernel for their names.
        if result == 0 && thread == pthread_self() {
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

//! Hooks besides memory: unloading, names of threads.

use crate::real;
use core::ffi::{CStr, c_char, c_int, c_void};
use highwater_agent::unwind::objects;
use highwater_agent::{self as agent, AgentMode};

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

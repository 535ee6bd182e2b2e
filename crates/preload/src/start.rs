//! Runs when the program starts.

use crate::exec::{self, PRELOAD};
use crate::real;
use core::ffi::{CStr, c_char, c_int};
use highwater_agent as agent;
use highwater_agent::unwind::objects::{self, LoadedModule};

/// Called by the loader with the arguments that `main` will get. The session begins with the program, even if it never allocates: an empty
/// recording says more than none.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) = begin;

extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    real::look_up_ahead();
    let own = objects::find(begin as *const () as u64);
    if let Some(own) = &own {
        exec::set_library(own.c_path());
    }
    if own.is_some_and(|own| is_bypassed(&own)) {
        agent::stay_out_of_own_allocator();
    } else if agent::mode() == agent::AgentMode::New {
        agent::begin_or_not();
    }
    if !agent::follows_children() && !environment.is_null() {
        // SAFETY: the environment as the loader gives it: pointers to texts, the last one null.
        unsafe { clean(environment) };
    }
}

/// Whether the program calls a `malloc` other than this library's: its own, or that of a library loaded before.
fn is_bypassed(own: &LoadedModule) -> bool {
    let malloc = real::malloc_of_the_program();
    let is_ours = |object: &LoadedModule| object.tables.start == own.tables.start;
    match objects::find(malloc) {
        Some(object) if is_ours(&object) => false,
        // In a program that is not position independent this may be a stub that leads to this library's.
        Some(object) if object.path().is_empty() => agent::children::has_own_allocator(),
        Some(_) => true,
        None => false,
    }
}

/// Removes the variables that loaded this library from the environment: children that are not followed must not see them.
///
/// # Safety
/// `environment` is a list of pointers to C strings that ends with a null pointer, and no other thread uses it now.
unsafe fn clean(environment: *mut *mut c_char) {
    let own_path = objects::find(clean as *const () as u64);
    let own_path = own_path.as_ref().map_or(&[][..], |object| object.path());
    // SAFETY: the caller's.
    unsafe {
        let mut kept = environment;
        let mut next = environment;
        while !(*next).is_null() {
            let entry = *next;
            next = next.add(1);
            let text = CStr::from_ptr(entry).to_bytes();
            let is_ours = text.strip_prefix(agent::VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
            if is_ours || (text.starts_with(PRELOAD) && !leave_out(entry, own_path)) {
                continue;
            }
            *kept = entry;
            kept = kept.add(1);
        }
        *kept = core::ptr::null_mut();
    }
}

/// Removes a path from the list of libraries in `entry`; false if nothing is left of the list.
///
/// # Safety
/// `entry` is a C string that may be changed, and starts with [`PRELOAD`].
unsafe fn leave_out(entry: *mut c_char, path: &[u8]) -> bool {
    // SAFETY: the caller's; the new text is never longer than the old one.
    unsafe {
        let length = CStr::from_ptr(entry).to_bytes().len();
        let text = core::slice::from_raw_parts_mut(entry.cast::<u8>(), length);
        let mut end = PRELOAD.len();
        let mut start = PRELOAD.len();
        while start < length {
            let is_between = |byte: &u8| matches!(byte, b':' | b' ');
            let stop = text[start..].iter().position(is_between).map_or(length, |at| start + at);
            if text[start..stop] != *path && stop > start {
                if end > PRELOAD.len() {
                    text[end] = b':';
                    end += 1;
                }
                text.copy_within(start..stop, end);
                end += stop - start;
            }
            start = stop + 1;
        }
        entry.add(end).write(0);
        end > PRELOAD.len()
    }
}

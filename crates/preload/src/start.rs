//! What is done when the program starts.

use crate::real;
use core::ffi::{CStr, c_char, c_int};
use highwater_agent as agent;
use highwater_agent::unwind::objects;

/// Called by the loader with what `main` will get. Begins with the program, even if it never allocates: a recording of
/// nothing says more than none.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) = begin;

extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    real::look_up_mappings();
    if agent::mode() == agent::Mode::New {
        agent::begin_or_not();
    }
    if !agent::follows_children() && !environment.is_null() {
        // SAFETY: the environment as the loader gives it: pointers to texts, the last one null.
        unsafe { clean(environment) };
    }
}

/// Takes what brought us here out of the environment: children that are not followed shall see none of it.
///
/// # Safety
/// `environment` is a list of pointers to C strings that ends with a null pointer, and nobody else uses it now.
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

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Takes a path out of the list of libraries in `entry`; false if nothing is left of the list.
///
/// # Safety
/// `entry` is a C string that may be changed, and starts with [`PRELOAD`].
unsafe fn leave_out(entry: *mut c_char, path: &[u8]) -> bool {
    // SAFETY: the caller's; what is written is never longer than what was there.
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

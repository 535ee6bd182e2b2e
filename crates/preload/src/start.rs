//! Runs when the program starts.

use crate::exec::{self, PRELOAD};
use crate::real;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use highwater_agent as agent;
use highwater_agent::AgentMode;
use highwater_agent::executable::ExecutableKind;
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
    match own.map_or(Bypass::None, |own| bypass(&own)) {
        Bypass::OwnAllocator => agent::stay_out_of_own_allocator(),
        Bypass::Linked => agent::leave_to_linked_library(),
        Bypass::None if agent::mode() == AgentMode::New => _ = agent::begin_or_not(),
        Bypass::None => {}
    }
    if !agent::follows_children() && !environment.is_null() {
        // SAFETY: the environment as the loader gives it: pointers to texts, the last one null.
        unsafe { clean(environment) };
    }
}

/// Begins the session if this library is to do so: called at the first allocation, which may come before [`begin`].
pub fn begin_or_not() -> AgentMode {
    static IS_ASKED: AtomicBool = AtomicBool::new(false);
    // Once, and not in a forked child, where the loader's lock may be held for ever.
    let is_first = !agent::is_forked() && !IS_ASKED.swap(true, Ordering::Relaxed);
    let may_ask = is_first && !agent::is_looking_up() && !agent::children::is_filtered();
    if may_ask && agent::children::own_kind() == (ExecutableKind::Linked { is_static: false }) {
        agent::leave_to_linked_library();
        return agent::mode();
    }
    agent::begin_or_not()
}

/// Which `malloc` the program calls.
enum Bypass {
    /// This library's.
    None,
    /// Its own, or that of a library loaded before.
    OwnAllocator,
    /// That of the C library, which is linked into it.
    Linked,
}

fn bypass(own: &LoadedModule) -> Bypass {
    let malloc = real::malloc_of_the_program();
    let is_ours = |object: &LoadedModule| object.tables.start == own.tables.start;
    match objects::find(malloc) {
        Some(object) if is_ours(&object) => Bypass::None,
        // In a program that is not position independent this may be a stub that leads to this library's.
        Some(object) if object.path().is_empty() => match agent::children::own_kind() {
            ExecutableKind::OwnAllocator => Bypass::OwnAllocator,
            ExecutableKind::Linked { .. } => Bypass::Linked,
            _ => Bypass::None,
        },
        Some(_) => Bypass::OwnAllocator,
        None => Bypass::None,
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

//! Runs when a program starts that is linked with the C library.
//!
//! The library does nothing by itself. The environment may ask it to: `highwater record` and `highwater run` set it. So may the program.

use crate::real;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU8, Ordering};
use highwater_agent as agent;
use highwater_agent::AgentMode;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *mut *mut c_char) = begin;

extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    real::look_up_ahead();
    if agent::mode() == AgentMode::New {
        begin_or_not();
    }
    // A program that is not recorded at all keeps its environment.
    if agent::has_begun() && !agent::follows_children() && !environment.is_null() {
        // SAFETY: the environment as the C library gives it: pointers to texts, the last one null.
        unsafe { clean(environment) };
    }
}

/// Begins the session if the environment asks for it, and if this library sees the program's blocks.
pub fn begin_or_not() -> AgentMode {
    if agent::is_forked() || is_called() {
        return agent::begin_or_not();
    }
    #[cfg(feature = "static")]
    agent::stay_out_of_own_allocator();
    #[cfg(not(feature = "static"))]
    agent::stay_off();
    agent::mode()
}

/// Whether the program's calls of `malloc` lead to this library. They do not if another one comes first: the preloaded one, whose functions are then
/// called instead of these.
pub fn is_called() -> bool {
    const YES: u8 = 1;
    const NO: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        YES => true,
        NO => false,
        _ => {
            let is_called = look();
            KNOWN.store(if is_called { YES } else { NO }, Ordering::Relaxed);
            is_called
        }
    }
}

#[cfg(feature = "static")]
use crate::archive::is_called as look;

#[cfg(not(feature = "static"))]
fn look() -> bool {
    use highwater_agent::executable::ExecutableKind;
    use highwater_agent::unwind::objects;
    let own = objects::find(look as *const () as u64).map(|own| own.tables.start);
    let is_ours = |address| objects::find(address).is_some_and(|object| Some(object.tables.start) == own);
    if !is_ours(real::first(c"highwater_version")) {
        return false;
    }
    let malloc = real::malloc_of_the_program();
    match objects::find(malloc) {
        // In a program that is not position independent this may be a stub that leads here.
        Some(object) if object.path().is_empty() => {
            !matches!(agent::children::own_kind(), ExecutableKind::OwnAllocator | ExecutableKind::Linked { .. })
        }
        _ => is_ours(malloc),
    }
}

/// Removes the agent's variable from the environment: children that are not followed must not see it.
///
/// # Safety
/// `environment` is a list of pointers to C strings that ends with a null pointer, and no other thread uses it now.
unsafe fn clean(environment: *mut *mut c_char) {
    // SAFETY: the caller's.
    unsafe {
        let (mut kept, mut next) = (environment, environment);
        while !(*next).is_null() {
            let entry = *next;
            next = next.add(1);
            let text = CStr::from_ptr(entry).to_bytes();
            if text.strip_prefix(agent::VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")) {
                continue;
            }
            *kept = entry;
            kept = kept.add(1);
        }
        *kept = core::ptr::null_mut();
    }
}

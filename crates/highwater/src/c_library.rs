//! Functions of libraries that may or may not be loaded.
#![allow(unsafe_code, reason = "C functions")]

use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The function with this name, if it is loaded.
///
/// # Safety
/// `F` is a function pointer of the type that every function of this name has.
pub unsafe fn find_function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a lookup by name; a function pointer has the size of any other, and is not null here.
    unsafe {
        let found = dlsym(std::ptr::null_mut(), name.as_ptr());
        (!found.is_null()).then(|| std::mem::transmute_copy(&found))
    }
}

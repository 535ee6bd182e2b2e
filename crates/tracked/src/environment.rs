//! Environment variables, read only where they can be trusted.
//!
//! A program with more rights than the user who started it (setuid, setgid, file capabilities) gets its environment from that user. A variable that
//! names a file would let that user write there with the program's rights.

use std::ffi::OsString;

/// The value of a variable. `None` if it is empty or not set, or if the environment cannot be trusted.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights() {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether this process has rights that the user who started it does not have.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a C function")]
pub fn has_more_rights() -> bool {
    const SECURE: std::ffi::c_ulong = 23;
    unsafe extern "C" {
        fn getauxval(kind: std::ffi::c_ulong) -> std::ffi::c_ulong;
    }
    // SAFETY: reads a value that the kernel gave the process at its start.
    unsafe { getauxval(SECURE) != 0 }
}

/// Not known on other systems: always `false`.
#[cfg(not(target_os = "linux"))]
pub fn has_more_rights() -> bool {
    false
}

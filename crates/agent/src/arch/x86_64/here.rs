//! For hooks that are ordinary Rust functions, such as a global allocator's: the same events, with the stack of the function that calls these.

use crate::{Caller, allocated, reallocated};
use core::arch::naked_asm;

/// A block was allocated.
///
/// # Safety
/// None beyond being called as declared: the assembly takes its three arguments and adds the stack and frame pointer.
#[unsafe(naked)]
pub unsafe extern "C" fn allocated_here(address: *mut u8, size: usize, usable: usize) {
    naked_asm!(
        ".cfi_startproc",
        "mov rcx, rsp",
        "mov r8, rbp",
        "jmp {target}",
        ".cfi_endproc",
        target = sym with_caller
    )
}

/// SAFETY: `sp` points to a return address.
unsafe extern "C" fn with_caller(address: *mut u8, size: usize, usable: usize, sp: u64, bp: u64) {
    // SAFETY: as said.
    let caller = Caller { pc: unsafe { *(sp as *const u64) }, sp: sp + 8, bp };
    allocated(address, size, usable, caller);
}

/// A block was resized: arguments as for [`reallocated`], `begun` as a number.
///
/// # Safety
/// As above, with five arguments.
#[unsafe(naked)]
pub unsafe extern "C" fn reallocated_here(old: *mut u8, new: *mut u8, size: usize, begun: usize) {
    naked_asm!(
        ".cfi_startproc",
        "mov r8, rsp",
        "mov r9, rbp",
        "jmp {target}",
        ".cfi_endproc",
        target = sym resized_with_caller
    )
}

/// SAFETY: `sp` points to a return address.
unsafe extern "C" fn resized_with_caller(old: *mut u8, new: *mut u8, size: usize, begun: usize, sp: u64, bp: u64) {
    // SAFETY: as said.
    let caller = Caller { pc: unsafe { *(sp as *const u64) }, sp: sp + 8, bp };
    reallocated(old, new, size, crate::expected_usable(size), begun != 0, caller);
}

//! The symbols that a program calls.
//!
//! Each adds two arguments, the stack pointer and the frame pointer at the call, and goes on to the Rust function of that purpose.

use crate::{heap, mappings};
use core::arch::naked_asm;
use highwater_agent::Caller;

/// Where a call came from: the two extra arguments.
///
/// # Safety
/// `sp` is the stack pointer at the entry of a function: it points to the return address.
#[inline(always)]
pub unsafe fn caller(sp: u64, bp: u64) -> Caller {
    // SAFETY: the caller's.
    Caller { pc: unsafe { *(sp as *const u64) }, sp: sp + 8, bp }
}

/// A function whose last two arguments, in the given registers, are added here.
macro_rules! entry {
    ($name:ident, $first:literal, $second:literal, $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                concat!("mov ", $first, ", rsp"),
                concat!("mov ", $second, ", rbp"),
                "jmp {target}",
                ".cfi_endproc",
                target = sym $target
            )
        }
    };
}

entry!(malloc, "rsi", "rdx", heap::malloc);
entry!(calloc, "rdx", "rcx", heap::calloc);
entry!(realloc, "rdx", "rcx", heap::realloc);
entry!(reallocarray, "rcx", "r8", heap::reallocarray);
entry!(memalign, "rdx", "rcx", heap::memalign);
entry!(aligned_alloc, "rdx", "rcx", heap::aligned_alloc);
entry!(posix_memalign, "rcx", "r8", heap::posix_memalign);
entry!(valloc, "rsi", "rdx", heap::valloc);
entry!(pvalloc, "rsi", "rdx", heap::pvalloc);

/// As above for a function with six arguments: the two are added on the stack.
macro_rules! long_entry {
    ($name:ident, $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, rsp",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                target = sym $target
            )
        }
    };
}

long_entry!(mmap, mappings::mmap);
long_entry!(mmap64, mappings::mmap);
long_entry!(mremap, mappings::mremap);

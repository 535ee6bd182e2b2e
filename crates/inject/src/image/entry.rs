//! The entries of the image: where islands jump to.
//!
//! Each adds three arguments: the allocator, which the island has put into `r11`, and stack and frame pointer at the call. While nothing is recorded, it jumps to
//! the real function: its address is in the allocator's table, which begins with them.

use crate::heap;
use core::arch::{global_asm, naked_asm};
use highwater_agent::switch::SWITCH;
use highwater_shm::attach_v1::FunctionIndex;

/// An entry of a function with arguments in the registers before those named here.
macro_rules! entry {
    ($name:ident, $function:ident, [$allocator:literal, $sp:literal, $bp:literal]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "cmp qword ptr [rip + {switch}], 0",
                "je 2f",
                concat!("mov ", $allocator, ", r11"),
                concat!("mov ", $sp, ", rsp"),
                concat!("mov ", $bp, ", rbp"),
                "jmp {hook}",
                "2:",
                "jmp qword ptr [r11 + {real}]",
                ".cfi_endproc",
                switch = sym SWITCH,
                hook = sym heap::$name,
                real = const FunctionIndex::$function as usize * 8,
            )
        }
    };
}

/// An entry of an `operator new` that throws. If the hook returns null, nothing of the image is on the stack when the real function is called.
macro_rules! throwing_entry {
    ($name:ident, $function:ident, [$allocator:literal, $sp:literal, $bp:literal]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "cmp qword ptr [rip + {switch}], 0",
                "je 2f",
                "mov rax, rsp",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push r11",
                ".cfi_adjust_cfa_offset 8",
                concat!("mov ", $allocator, ", r11"),
                concat!("mov ", $sp, ", rax"),
                concat!("mov ", $bp, ", rbp"),
                "call {hook}",
                "pop r11",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "je 2f",
                "ret",
                "2:",
                "jmp qword ptr [r11 + {real}]",
                ".cfi_endproc",
                switch = sym SWITCH,
                hook = sym heap::$name,
                real = const FunctionIndex::$function as usize * 8,
            )
        }
    };
}

entry!(malloc, Malloc, ["rsi", "rdx", "rcx"]);
entry!(free, Free, ["rsi", "rdx", "rcx"]);
entry!(calloc, Calloc, ["rdx", "rcx", "r8"]);
entry!(realloc, Realloc, ["rdx", "rcx", "r8"]);
entry!(memalign, Memalign, ["rdx", "rcx", "r8"]);
entry!(aligned_alloc, AlignedAlloc, ["rdx", "rcx", "r8"]);
entry!(posix_memalign, PosixMemalign, ["rcx", "r8", "r9"]);
entry!(valloc, Valloc, ["rsi", "rdx", "rcx"]);
entry!(pvalloc, Pvalloc, ["rsi", "rdx", "rcx"]);
entry!(free_sized, FreeSized, ["rdx", "rcx", "r8"]);
entry!(free_aligned_sized, FreeAlignedSized, ["rcx", "r8", "r9"]);
throwing_entry!(new, New, ["rsi", "rdx", "rcx"]);
throwing_entry!(new_array, NewArray, ["rsi", "rdx", "rcx"]);
entry!(new_nothrow, NewNothrow, ["rdx", "rcx", "r8"]);
entry!(new_array_nothrow, NewArrayNothrow, ["rdx", "rcx", "r8"]);
throwing_entry!(new_aligned, NewAligned, ["rdx", "rcx", "r8"]);
throwing_entry!(new_array_aligned, NewArrayAligned, ["rdx", "rcx", "r8"]);
entry!(new_aligned_nothrow, NewAlignedNothrow, ["rcx", "r8", "r9"]);
entry!(new_array_aligned_nothrow, NewArrayAlignedNothrow, ["rcx", "r8", "r9"]);
entry!(delete, Delete, ["rsi", "rdx", "rcx"]);
entry!(delete_array, DeleteArray, ["rsi", "rdx", "rcx"]);
entry!(delete_nothrow, DeleteNothrow, ["rdx", "rcx", "r8"]);
entry!(delete_array_nothrow, DeleteArrayNothrow, ["rdx", "rcx", "r8"]);
entry!(delete_sized, DeleteSized, ["rdx", "rcx", "r8"]);
entry!(delete_array_sized, DeleteArraySized, ["rdx", "rcx", "r8"]);
entry!(delete_aligned, DeleteAligned, ["rdx", "rcx", "r8"]);
entry!(delete_array_aligned, DeleteArrayAligned, ["rdx", "rcx", "r8"]);
entry!(delete_aligned_nothrow, DeleteAlignedNothrow, ["rcx", "r8", "r9"]);
entry!(delete_array_aligned_nothrow, DeleteArrayAlignedNothrow, ["rcx", "r8", "r9"]);
entry!(delete_sized_aligned, DeleteSizedAligned, ["rcx", "r8", "r9"]);
entry!(delete_array_sized_aligned, DeleteArraySizedAligned, ["rcx", "r8", "r9"]);
entry!(dlclose, Dlclose, ["rsi", "rdx", "rcx"]);
entry!(mallocx, Mallocx, ["rdx", "rcx", "r8"]);
entry!(rallocx, Rallocx, ["rcx", "r8", "r9"]);
entry!(dallocx, Dallocx, ["rdx", "rcx", "r8"]);
entry!(sdallocx, Sdallocx, ["rcx", "r8", "r9"]);

/// `prctl` and `syscall`: a call that installs a seccomp filter ends the agent. All calls are then passed on with nothing of the image on the stack, since some of them
/// return twice or on another stack. The arguments of `before_filter` are in the registers that are named last.
macro_rules! filter_entry {
    ($name:ident, $function:ident, [$($test:literal),*], [$mode:literal, $filter:literal]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "cmp qword ptr [rip + {switch}], 0",
                "je 2f",
                $($test,)*
                "jne 2f",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push r11",
                ".cfi_adjust_cfa_offset 56",
                concat!("mov rax, ", $filter),
                concat!("lea rdi, ", $mode),
                "mov rsi, rax",
                "call {before}",
                "pop r11",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -56",
                "2:",
                "jmp qword ptr [r11 + {real}]",
                ".cfi_endproc",
                switch = sym SWITCH,
                before = sym heap::before_filter,
                real = const FunctionIndex::$function as usize * 8,
            )
        }
    };
}

filter_entry!(prctl, Prctl, ["cmp edi, 22"], ["[rsi]", "rdx"]);

/// `syscall(SYS_seccomp, operation, flags, filter)`, and `syscall(SYS_prctl, PR_SET_SECCOMP, mode, filter)`.
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "cmp edi, 317",
        "je {seccomp}",
        "cmp edi, 157",
        "je {prctl}",
        "jmp qword ptr [r11 + {real}]",
        ".cfi_endproc",
        seccomp = sym syscall_seccomp,
        prctl = sym syscall_prctl,
        real = const FunctionIndex::Syscall as usize * 8,
    )
}

filter_entry!(syscall_seccomp, Syscall, ["cmp edi, 317"], ["[rsi + 1]", "rcx"]);
filter_entry!(syscall_prctl, Syscall, ["cmp esi, 22"], ["[rdx]", "rcx"]);

// In the order of `attach_v1::FUNCTIONS`. Writable only for the linker, which would refuse relocations elsewhere; the build script does them.
global_asm!(
    ".pushsection .highwater.entries,\"awR\"",
    ".quad {}, {}, {}, {}, {}, {}, {}, {}",
    ".quad {}, {}, {}, {}, {}, {}, {}, {}",
    ".quad {}, {}, {}, {}, {}, {}, {}, {}",
    ".quad {}, {}, {}, {}, {}, {}, {}, {}",
    ".quad {}, {}, {}, {}, {}, {}",
    ".popsection",
    sym malloc, sym free, sym calloc, sym realloc, sym memalign, sym aligned_alloc, sym posix_memalign, sym valloc,
    sym pvalloc, sym free_sized, sym free_aligned_sized, sym new, sym new_array, sym new_nothrow, sym new_array_nothrow,
    sym new_aligned, sym new_array_aligned, sym new_aligned_nothrow, sym new_array_aligned_nothrow, sym delete,
    sym delete_array, sym delete_nothrow, sym delete_array_nothrow, sym delete_sized, sym delete_array_sized,
    sym delete_aligned, sym delete_array_aligned, sym delete_aligned_nothrow, sym delete_array_aligned_nothrow,
    sym delete_sized_aligned, sym delete_array_sized_aligned, sym dlclose, sym prctl, sym syscall,
    sym mallocx, sym rallocx, sym dallocx, sym sdallocx,
);

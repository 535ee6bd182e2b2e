//! The symbols that a program calls.
//!
//! Each adds two arguments, the stack pointer and the frame pointer at the call, and jumps to the Rust function of that purpose.
//!
//! In the archive of the C library their names begin with `__wrap_`: see `archive.rs`.

use crate::{heap, mappings, program_break, real};
use core::arch::naked_asm;
use highwater_agent::sampling::{FILTER, FILTER_BITS, FILTER_FACTOR};
use highwater_agent::{Caller, PASS_ALLOCATIONS, PASS_FREES};

/// The caller of a hook, made from the two extra arguments.
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
        #[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
        #[cfg_attr(feature = "static", unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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

/// `malloc`. If not everything is recorded, it checks the thread's countdown: until it ends, nothing is to be recorded, and
/// the real function does the rest. Sizes that cannot be allocated are not counted: they could make it wrap.
#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_malloc"))]
#[unsafe(naked)]
pub unsafe extern "C" fn malloc() {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {pass}], 0",
        "je 2f",
        "test rdi, rdi",
        "js 2f",
        "mov rax, qword ptr [rip + highwater_countdown@GOTTPOFF]",
        "sub qword ptr fs:[rax], rdi",
        "jle 2f",
        "jmp qword ptr [rip + {real}]",
        "2:",
        "mov rsi, rsp",
        "mov rdx, rbp",
        "jmp {target}",
        ".cfi_endproc",
        pass = sym PASS_ALLOCATIONS,
        real = sym real::MALLOC,
        target = sym heap::malloc
    )
}

/// `calloc`, likewise. A product that overflows is left to the Rust function.
#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_calloc"))]
#[unsafe(naked)]
pub unsafe extern "C" fn calloc() {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {pass}], 0",
        "je 2f",
        "mov rax, rdi",
        "mul rsi",
        "jo 2f",
        "test rax, rax",
        "js 2f",
        "mov rdx, qword ptr [rip + highwater_countdown@GOTTPOFF]",
        "sub qword ptr fs:[rdx], rax",
        "jle 2f",
        "jmp qword ptr [rip + {real}]",
        "2:",
        "mov rdx, rsp",
        "mov rcx, rbp",
        "jmp {target}",
        ".cfi_endproc",
        pass = sym PASS_ALLOCATIONS,
        real = sym real::CALLOC,
        target = sym heap::calloc
    )
}

/// `free`. If not everything is recorded, and the block cannot have been recorded, the real function does all of it.
#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_free"))]
#[unsafe(naked)]
pub unsafe extern "C" fn free() {
    naked_asm!(
        ".cfi_startproc",
        "cmp byte ptr [rip + {pass}], 0",
        "je 2f",
        "test edi, 0xfef",
        "je 3f",
        "4:",
        "jmp qword ptr [rip + {real}]",
        "3:",
        // It looks like a sampled block: the filter says whether there is one with that hash.
        "mov rax, rdi",
        "shr rax, 4",
        "imul eax, eax, {factor}",
        "shr eax, 32 - {bits}",
        "lea rcx, [rip + {filter}]",
        "cmp byte ptr [rcx + rax], 0",
        "je 4b",
        "2:",
        "mov rsi, rsp",
        "mov rdx, rbp",
        "jmp {target}",
        ".cfi_endproc",
        pass = sym PASS_FREES,
        factor = const FILTER_FACTOR as i32,
        bits = const FILTER_BITS,
        filter = sym FILTER,
        real = sym real::FREE,
        target = sym heap::free
    )
}

entry!(free_sized, "rdx", "rcx", heap::free_sized);
entry!(free_aligned_sized, "rcx", "r8", heap::free_aligned_sized);
entry!(realloc, "rdx", "rcx", heap::realloc);
entry!(reallocarray, "rcx", "r8", heap::reallocarray);
entry!(memalign, "rdx", "rcx", heap::memalign);
entry!(aligned_alloc, "rdx", "rcx", heap::aligned_alloc);
entry!(posix_memalign, "rcx", "r8", heap::posix_memalign);
entry!(valloc, "rsi", "rdx", heap::valloc);
entry!(pvalloc, "rsi", "rdx", heap::pvalloc);
entry!(munmap, "rdx", "rcx", mappings::munmap);
entry!(mprotect, "rcx", "r8", mappings::mprotect);
entry!(pkey_mprotect, "r8", "r9", mappings::pkey_mprotect);
entry!(madvise, "rcx", "r8", mappings::madvise);
entry!(brk, "rsi", "rdx", program_break::brk);
entry!(sbrk, "rsi", "rdx", program_break::sbrk);

/// As above for a function with six arguments: the two are added on the stack.
macro_rules! long_entry {
    ($name:ident, $target:path) => {
        #[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
        #[cfg_attr(feature = "static", unsafe(export_name = concat!("__wrap_", stringify!($name))))]
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

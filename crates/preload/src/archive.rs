//! What `libhighwater.a` has of its own.
//!
//! * Its functions are `__wrap_malloc` and so on: the linker's option `--wrap=malloc` leads all calls there. `malloc` itself is a weak name of the same
//!   function. In a statically linked program the C library's function takes the name, because its object is linked for other reasons. In any other
//!   program this one has it, so that shared libraries call it too.
//! * The real functions: what the linker calls `__real_malloc`, if the program is linked with `--wrap` and has such a function; the next library's, if
//!   there is a loader; else the C library's own, by the names that nothing replaces.
//! * A note, by which the command recognizes programs that contain the library.

use crate::kernel::{call, number, program_break};
use crate::real::{self, BlockPointer};
use core::arch::{asm, global_asm, naked_asm};
use core::ffi::{CStr, c_int, c_void};
use highwater_agent::executable::NOTE_NAME;

/// Weak names of the functions.
macro_rules! weak_names {
    ($($name:literal),*) => {
        global_asm!($(
            concat!(".weak ", $name),
            concat!(".type ", $name, ", @function"),
            concat!(".set ", $name, ", __wrap_", $name),
        )*);
    };
}

weak_names!(
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "free_sized",
    "free_aligned_sized",
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "mprotect",
    "pkey_mprotect",
    "madvise",
    "brk",
    "sbrk",
    "prctl",
    "syscall"
);

// A statically linked program need not contain a loader for us. The whole archive is one object, so this holds for the agent's reference too.
global_asm!(".weak dlsym");

#[repr(C, align(4))]
struct Note {
    name_bytes: u32,
    content_bytes: u32,
    kind: u32,
    name: [u8; 12],
}

#[used]
#[unsafe(link_section = ".note.highwater")]
static NOTE: Note = {
    let mut name = [0; 12];
    let mut at = 0;
    while at < NOTE_NAME.len() {
        name[at] = NOTE_NAME[at];
        at += 1;
    }
    Note { name_bytes: NOTE_NAME.len() as u32, content_bytes: 0, kind: 1, name }
};

/// The address that the linker or the loader gave a symbol; null if there is none.
macro_rules! address_of {
    ($symbol:literal $($rest:literal)?) => {{
        let address: *mut c_void;
        // SAFETY: reads an address.
        unsafe {
            asm!(
                concat!("mov {address}, qword ptr [rip + ", $symbol, $($rest,)? "@GOTPCREL]"),
                address = out(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
        address
    }};
}

// Without `--wrap` there are none of these.
global_asm!(
    ".weak __real_malloc",
    ".weak __real_free",
    ".weak __real_calloc",
    ".weak __real_realloc",
    ".weak __real_memalign",
    ".weak __real_aligned_alloc",
    ".weak __real_posix_memalign",
    ".weak __real_valloc",
    ".weak __real_pvalloc",
);

/// Whether the program's calls of `malloc` lead here. They do not in a statically linked program without `--wrap`, nor in one that defines `malloc`.
pub fn is_called() -> bool {
    let is_wrapped = !address_of!("__real_malloc").is_null();
    is_wrapped || address_of!("malloc") == address_of!("__wrap_malloc")
}

// The C library's allocator by names that nothing replaces. Weak, so that it need not be in a program with another allocator.
global_asm!(
    ".weak __libc_malloc",
    ".weak __libc_free",
    ".weak __libc_calloc",
    ".weak __libc_realloc",
    ".weak __libc_memalign",
    ".weak __libc_valloc",
    ".weak __libc_pvalloc",
);

// The C library's own, which remember the program break: its allocator reads that.
global_asm!(".weak __brk", ".weak __sbrk");

fn or(found: *mut c_void, otherwise: *mut c_void) -> *mut c_void {
    if found.is_null() { otherwise } else { found }
}

unsafe extern "C" {
    // This reference brings the program's allocator into it: the C library's, or the one that the program is linked with.
    fn malloc_usable_size(block: BlockPointer) -> usize;
    fn __errno_location() -> *mut c_int;
}

/// Whether a `malloc` is the C library's own.
pub fn is_c_library(malloc: u64) -> bool {
    malloc == address_of!("__libc_malloc") as u64
}

/// The real function of a name in the malloc family: the one that the linker's option leaves, the next library's, or the C library's own.
macro_rules! family {
    ($wanted:ident: $($name:literal $own:expr;)*) => {
        $(
            if $wanted.to_bytes() == $name.as_bytes() {
                let wrapped = address_of!("__real_" $name);
                if !wrapped.is_null() && wrapped != address_of!("__wrap_" $name) {
                    return wrapped;
                }
                let next = real::next($wanted);
                return if next.is_null() { $own } else { next };
            }
        )*
    };
}

/// The real function of this name.
pub fn find(name: &CStr) -> *mut c_void {
    family!(name:
        "malloc" address_of!("__libc_malloc");
        "free" address_of!("__libc_free");
        "calloc" address_of!("__libc_calloc");
        "realloc" address_of!("__libc_realloc");
        "memalign" address_of!("__libc_memalign");
        "aligned_alloc" address_of!("__libc_memalign");
        "posix_memalign" posix_memalign as *mut c_void;
        "valloc" address_of!("__libc_valloc");
        "pvalloc" address_of!("__libc_pvalloc");
    );
    let next = real::next(name);
    if !next.is_null() {
        return next;
    }
    match name.to_bytes() {
        b"malloc_usable_size" => malloc_usable_size as *mut c_void,
        b"mmap" => mmap as *mut c_void,
        b"munmap" => munmap as *mut c_void,
        b"mremap" => mremap as *mut c_void,
        b"mprotect" => mprotect as *mut c_void,
        b"pkey_mprotect" => pkey_mprotect as *mut c_void,
        b"madvise" => madvise as *mut c_void,
        b"brk" => or(address_of!("__brk"), brk as *mut c_void),
        b"sbrk" => or(address_of!("__sbrk"), sbrk as *mut c_void),
        b"prctl" => prctl as *mut c_void,
        b"syscall" => syscall as *mut c_void,
        _ => core::ptr::null_mut(),
    }
}

unsafe extern "C" fn posix_memalign(out: *mut BlockPointer, alignment: usize, size: usize) -> c_int {
    const INVALID: c_int = 22;
    const OUT_OF_MEMORY: c_int = 12;
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return INVALID;
    }
    // SAFETY: the program's.
    unsafe {
        let block = real::memalign(alignment, size);
        if block.is_null() {
            return OUT_OF_MEMORY;
        }
        out.write(block);
    }
    0
}

/// Makes a system call as the C library does: -1 and `errno` for an error.
///
/// # Safety
/// The kernel's requirements for the arguments of this call.
unsafe fn with_errno(number: usize, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's.
    unsafe {
        let result = call(number, arguments);
        if (-4095..0).contains(&result) {
            *__errno_location() = -result as c_int;
            return -1;
        }
        result
    }
}

unsafe extern "C" fn mmap(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: usize,
) -> isize {
    // SAFETY: the program's, in all of these.
    unsafe { with_errno(number::MMAP, [address, length, protection as usize, flags as usize, file as usize, offset]) }
}

unsafe extern "C" fn munmap(address: usize, length: usize) -> c_int {
    // SAFETY: as above.
    unsafe { with_errno(number::MUNMAP, [address, length, 0, 0, 0, 0]) as c_int }
}

unsafe extern "C" fn mremap(old: usize, old_length: usize, length: usize, flags: c_int, new: usize) -> isize {
    // SAFETY: as above.
    unsafe { with_errno(number::MREMAP, [old, old_length, length, flags as usize, new, 0]) }
}

unsafe extern "C" fn mprotect(address: usize, length: usize, protection: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { with_errno(number::MPROTECT, [address, length, protection as usize, 0, 0, 0]) as c_int }
}

unsafe extern "C" fn pkey_mprotect(address: usize, length: usize, protection: c_int, key: c_int) -> c_int {
    const NO_KEY: c_int = -1;
    // SAFETY: as above.
    unsafe {
        if key == NO_KEY {
            return mprotect(address, length, protection);
        }
        with_errno(number::PKEY_MPROTECT, [address, length, protection as usize, key as usize, 0, 0]) as c_int
    }
}

unsafe extern "C" fn madvise(address: usize, length: usize, advice: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { with_errno(number::MADVISE, [address, length, advice as usize, 0, 0, 0]) as c_int }
}

/// For a C library whose allocator does not use the program break.
unsafe extern "C" fn brk(end: usize) -> c_int {
    const OUT_OF_MEMORY: c_int = 12;
    // SAFETY: as above.
    unsafe {
        if call(number::BRK, [end, 0, 0, 0, 0, 0]) as usize != end {
            *__errno_location() = OUT_OF_MEMORY;
            return -1;
        }
    }
    0
}

/// Likewise.
unsafe extern "C" fn sbrk(increment: isize) -> isize {
    let before = program_break();
    // SAFETY: as above.
    if increment != 0 && unsafe { brk(before.wrapping_add_signed(increment)) } != 0 {
        return -1;
    }
    before as isize
}

unsafe extern "C" fn prctl(option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int {
    // SAFETY: as above.
    unsafe { with_errno(number::PRCTL, [option as usize, second, third, fourth, fifth, 0]) as c_int }
}

/// `syscall`: with nothing of ours on the stack, since some calls return twice or on another stack.
#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {errno}",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        ".cfi_endproc",
        errno = sym __errno_location
    )
}

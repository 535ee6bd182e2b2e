//! The functions that the program would call without this library: the next ones of the same names.
//!
//! Looking them up may itself allocate (older C libraries do). Such early requests are served from a small static
//! area, whose blocks are never freed.
//!
//! In the archive of the C library they are found without a loader: see `archive.rs`.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use highwater_agent as agent;
use highwater_agent::unwind::objects;

// If the C library is older than 2.34, the lookup is in a library of its own.
#[cfg(not(feature = "static"))]
#[link(name = "c")]
#[link(name = "dl")]
unsafe extern "C" {}

/// A function by its name, found when first needed.
///
/// The address comes first: the entries jump through it.
#[repr(C)]
pub struct Real {
    address: AtomicPtr<c_void>,
    name: &'static CStr,
}

impl Real {
    const fn named(name: &'static CStr) -> Self {
        Self { address: AtomicPtr::new(core::ptr::null_mut()), name }
    }

    /// Its address; null if there is no such function.
    #[inline(always)]
    fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        if agent::is_looking_up() {
            // This thread is here because the lookup itself allocates.
            return core::ptr::null_mut();
        }
        agent::set_looking_up(true);
        let found = find(self.name);
        agent::set_looking_up(false);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Looks a function up among the libraries after this one.
#[cfg(not(feature = "static"))]
fn find(name: &CStr) -> *mut c_void {
    next(name)
}
#[cfg(feature = "static")]
use crate::archive::find;

/// The function of this name in the libraries after this one; null without a loader.
pub fn next(name: &CStr) -> *mut c_void {
    const NEXT: *mut c_void = usize::MAX as *mut c_void;
    // SAFETY: the handle is the loader's own.
    unsafe { objects::find_symbol(NEXT, name) }
}

/// Declares a real function: its arguments, and the result if there is no such function.
macro_rules! real {
    ($name:ident: $symbol_static:ident $symbol:literal, ($($argument:ident: $type:ty),*) -> $result:ty, else $otherwise:expr) => {
        pub static $symbol_static: Real = Real::named($symbol);

        #[inline(always)]
        pub unsafe fn $name($($argument: $type),*) -> $result {
            let address = $symbol_static.address();
            if address.is_null() {
                return $otherwise;
            }
            // SAFETY: the function of this name has this type; the rest is the caller's.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = core::mem::transmute(address);
                function($($argument),*)
            }
        }
    };
}

/// The address of a block or a mapping, as C functions take it.
pub type BlockPointer = *mut u8;
/// A C string.
pub type CText = *const c_char;
/// An array of C strings that ends with a null pointer.
pub type CTextArray = *const CText;
/// If there is no real function to free with, a block stays allocated.
fn leak() {}

const NOTHING: BlockPointer = core::ptr::null_mut();
#[cfg(not(feature = "static"))]
const NOT_SUPPORTED: c_int = 38;
const OUT_OF_MEMORY: c_int = 12;

real!(malloc: MALLOC c"malloc", (size: usize) -> BlockPointer, else early(size));
real!(free: FREE c"free", (block: BlockPointer) -> (), else leak());
real!(calloc: CALLOC c"calloc", (count: usize, size: usize) -> BlockPointer, else early(count.saturating_mul(size)));
real!(realloc: REALLOC c"realloc", (block: BlockPointer, size: usize) -> BlockPointer, else NOTHING);
real!(memalign: MEMALIGN c"memalign", (alignment: usize, size: usize) -> BlockPointer, else NOTHING);
real!(aligned_alloc: ALIGNED_ALLOC c"aligned_alloc", (alignment: usize, size: usize) -> BlockPointer, else NOTHING);
real!(posix_memalign: POSIX_MEMALIGN c"posix_memalign", (out: *mut BlockPointer, alignment: usize, size: usize) -> c_int, else OUT_OF_MEMORY);
real!(valloc: VALLOC c"valloc", (size: usize) -> BlockPointer, else NOTHING);
real!(pvalloc: PVALLOC c"pvalloc", (size: usize) -> BlockPointer, else NOTHING);
real!(usable_size: USABLE_SIZE c"malloc_usable_size", (block: BlockPointer) -> usize, else 0);
real!(munmap: MUNMAP c"munmap", (address: BlockPointer, length: usize) -> c_int, else -1);
real!(mmap: MMAP c"mmap", (address: BlockPointer, length: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> BlockPointer,
    else usize::MAX as BlockPointer);
real!(mremap: MREMAP c"mremap", (old: BlockPointer, old_length: usize, length: usize, flags: c_int, new: BlockPointer) -> BlockPointer,
    else usize::MAX as BlockPointer);
real!(mprotect: MPROTECT c"mprotect", (address: BlockPointer, length: usize, protection: c_int) -> c_int, else -1);
real!(pkey_mprotect: PKEY_MPROTECT c"pkey_mprotect", (address: BlockPointer, length: usize, protection: c_int, key: c_int) -> c_int, else -1);
real!(madvise: MADVISE c"madvise", (address: BlockPointer, length: usize, advice: c_int) -> c_int, else -1);
real!(brk: BRK c"brk", (end: BlockPointer) -> c_int, else -1);
real!(sbrk: SBRK c"sbrk", (increment: isize) -> BlockPointer, else usize::MAX as BlockPointer);
real!(prctl: PRCTL c"prctl", (option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int, else -1);
real!(syscall: SYSCALL c"syscall",
    (number: i64, first: usize, second: usize, third: usize, fourth: usize, fifth: usize, sixth: usize) -> i64, else -1);
#[cfg(not(feature = "linked"))]
mod programs {
    use super::{CText, CTextArray, Real};
    use core::ffi::{c_int, c_void};

    const NOT_SUPPORTED: c_int = 38;

    real!(execve: EXECVE c"execve", (path: CText, arguments: CTextArray, environment: CTextArray) -> c_int, else -1);
    real!(execvpe: EXECVPE c"execvpe", (name: CText, arguments: CTextArray, environment: CTextArray) -> c_int, else -1);
    real!(fexecve: FEXECVE c"fexecve", (file: c_int, arguments: CTextArray, environment: CTextArray) -> c_int, else -1);
    real!(execveat: EXECVEAT c"execveat", (folder: c_int, path: CText, arguments: CTextArray, environment: CTextArray, flags: c_int) -> c_int, else -1);
    real!(posix_spawn: POSIX_SPAWN c"posix_spawn",
        (pid: *mut c_int, path: CText, actions: *const c_void, attributes: *const c_void, arguments: CTextArray, environment: CTextArray) -> c_int,
        else NOT_SUPPORTED);
    real!(posix_spawnp: POSIX_SPAWNP c"posix_spawnp",
        (pid: *mut c_int, name: CText, actions: *const c_void, attributes: *const c_void, arguments: CTextArray, environment: CTextArray) -> c_int,
        else NOT_SUPPORTED);

    pub fn all() -> [&'static Real; 6] {
        [&EXECVE, &EXECVPE, &FEXECVE, &EXECVEAT, &POSIX_SPAWN, &POSIX_SPAWNP]
    }
}
#[cfg(not(feature = "linked"))]
pub use programs::{execve, execveat, execvpe, fexecve, posix_spawn, posix_spawnp};
#[cfg(not(feature = "static"))]
real!(dlclose: DLCLOSE c"dlclose", (handle: *mut c_void) -> c_int, else -1);
#[cfg(not(feature = "static"))]
real!(pthread_setname_np: PTHREAD_SETNAME_NP c"pthread_setname_np", (thread: usize, name: *const c_char) -> c_int, else NOT_SUPPORTED);

/// The address of the real `malloc`.
pub fn address_of_malloc() -> u64 {
    MALLOC.address() as u64
}

/// Looks up functions ahead of time that programs call in signal handlers, or between fork and exec: a lookup there could wait for the loader's lock
/// for ever.
pub fn look_up_ahead() {
    let mappings = [&MMAP, &MUNMAP, &MREMAP, &MPROTECT, &PKEY_MPROTECT, &MADVISE, &BRK, &SBRK];
    mappings.iter().chain(&[&PRCTL, &SYSCALL]).for_each(|real| _ = real.address());
    #[cfg(not(feature = "linked"))]
    programs::all().iter().for_each(|real| _ = real.address());
}

/// The address of the `malloc` that the program calls.
#[cfg(not(feature = "static"))]
pub fn malloc_of_the_program() -> u64 {
    first(c"malloc")
}

/// The address of the first function of this name, in the order in which the loader searches.
#[cfg(not(feature = "static"))]
pub fn first(name: &CStr) -> u64 {
    const DEFAULT: *mut c_void = core::ptr::null_mut();
    // SAFETY: the handle is the loader's own.
    unsafe { objects::find_symbol(DEFAULT, name) as u64 }
}

/// Whether the entries may jump to the real functions by themselves: their addresses are known, and no block was ever served from the static area.
#[cold]
pub fn may_be_jumped_to() -> bool {
    [&MALLOC, &CALLOC, &FREE].iter().all(|real| !real.address().is_null()) && EARLY_USED.load(Ordering::Relaxed) == 0
}

const EARLY_BYTES: usize = 16 << 10;

#[repr(C, align(4096))]
struct Early(UnsafeCell<[u8; EARLY_BYTES]>);
// SAFETY: every byte is handed out once.
unsafe impl Sync for Early {}

static EARLY: Early = Early(UnsafeCell::new([0; EARLY_BYTES]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// A block of the static area; zero, as `calloc` needs it.
#[cold]
fn early(size: usize) -> BlockPointer {
    let rounded = size.saturating_add(31) & !15;
    let start = EARLY_USED.fetch_add(rounded.min(EARLY_BYTES), Ordering::Relaxed);
    if start.saturating_add(rounded) > EARLY_BYTES {
        return NOTHING;
    }
    // SAFETY: within the area.
    unsafe { EARLY.0.get().cast::<u8>().add(start) }
}

/// Whether a block lies in the static area.
#[inline(always)]
pub fn is_early(block: BlockPointer) -> bool {
    (block as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_BYTES
}

/// The number of bytes that can be read from a block of the static area on.
pub fn early_rest(block: BlockPointer) -> usize {
    EARLY_BYTES - (block as usize).wrapping_sub(EARLY.0.get() as usize)
}

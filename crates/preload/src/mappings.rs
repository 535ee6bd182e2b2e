//! Mappings: `mmap`, `munmap`, `mremap`, `mprotect`, `madvise`. Mappings that the C library makes for itself (its heap, threads' stacks, libraries) do not
//! call these hooks. Mappings that another allocator makes for its heap do, and are left out: its blocks are recorded already.
//!
//! The kind of a mapping follows from what the program can do with it. Anonymous memory is a reservation while its protection is `PROT_NONE`, whatever its
//! flags; `MAP_NORESERVE` alone makes none. `/dev/zero` is anonymous memory by another name. Other files are files, and so are `memfd_create` and `shm_open`:
//! their memory belongs to an object that may be mapped twice, or by several processes.

use crate::entry::caller;
use crate::kernel;
use crate::real::{self, BlockPointer};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use highwater_agent as agent;
use highwater_agent::mapping;
use highwater_agent::unwind::objects;

const FAILED: usize = usize::MAX;
const PROT_NONE: c_int = 0;
const MAP_ANONYMOUS: c_int = 0x20;
const MAP_HUGETLB: c_int = 0x40000;
const HUGE_SIZE_SHIFT: c_int = 26;
const HUGE_SIZE_MASK: c_int = 0x3f;
/// Of huge pages, if the program names no other size.
const HUGE_SIZE_USUAL: c_int = 21;
const MREMAP_DONTUNMAP: c_int = 4;
/// `/dev/zero`: 1, 5.
const DEVICE_OF_ZEROS: u64 = 0x105;

/// Whether the program can touch anonymous memory of this protection.
fn accessible(protection: c_int) -> u32 {
    if protection == PROT_NONE { mapping::RESERVATION } else { mapping::MEMORY }
}

/// The kind of a new mapping.
fn kind_of(protection: c_int, flags: c_int, file: c_int) -> u32 {
    let is_anonymous = flags & MAP_ANONYMOUS != 0 || kernel::device_of(file) == DEVICE_OF_ZEROS;
    if is_anonymous { accessible(protection) } else { mapping::FILE }
}

/// The length that the kernel maps. It rounds up to pages, which the agent does too, and to huge pages if the program asks for them.
fn mapped_length(length: usize, flags: c_int) -> u64 {
    if flags & MAP_ANONYMOUS == 0 || flags & MAP_HUGETLB == 0 {
        return length as u64;
    }
    let named = flags >> HUGE_SIZE_SHIFT & HUGE_SIZE_MASK;
    let shift = if named == 0 { HUGE_SIZE_USUAL } else { named };
    (length as u64).checked_next_multiple_of(1 << shift).unwrap_or(length as u64)
}

/// The address range of the allocator's code, if that is not the C library; 0 until it was looked for.
static ALLOCATOR_START: AtomicU64 = AtomicU64::new(0);
static ALLOCATOR_END: AtomicU64 = AtomicU64::new(0);
const C_LIBRARY: &[u8] = b"libc.so";

/// Whether the call comes from the allocator itself.
pub fn is_allocator(pc: u64) -> bool {
    if ALLOCATOR_START.load(Ordering::Relaxed) == 0 {
        let object = objects::find(real::address_of_malloc());
        let foreign = object.filter(|object| !object.path().windows(C_LIBRARY.len()).any(|part| part == C_LIBRARY));
        let (start, end) = foreign.map_or((1, 1), |object| (object.tables.start, object.tables.end));
        // A statically linked program is one object, with the C library's allocator unless it has another one.
        #[cfg(feature = "static")]
        let end = if crate::archive::is_c_library(real::address_of_malloc()) { start } else { end };
        ALLOCATOR_END.store(end, Ordering::Relaxed);
        ALLOCATOR_START.store(start, Ordering::Relaxed);
    }
    (ALLOCATOR_START.load(Ordering::Relaxed)..ALLOCATOR_END.load(Ordering::Relaxed)).contains(&pc)
}

pub unsafe extern "C" fn mmap(
    address: BlockPointer,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let mapped = real::mmap(address, length, protection, flags, file, offset);
        if mapped as usize != FAILED && agent::records_mappings() {
            let from = caller(sp, bp);
            if !is_allocator(from.pc) {
                agent::mapped(mapped as u64, mapped_length(length, flags), kind_of(protection, flags, file), from);
            }
        }
        mapped
    }
}

/// A reservation becomes memory when it can be touched, and the other way round.
pub unsafe extern "C" fn mprotect(address: BlockPointer, length: usize, protection: c_int, sp: u64, bp: u64) -> c_int {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let result = real::mprotect(address, length, protection);
        record_protection(result, address, length, protection, sp, bp);
        result
    }
}

pub unsafe extern "C" fn pkey_mprotect(
    address: BlockPointer,
    length: usize,
    protection: c_int,
    key: c_int,
    sp: u64,
    bp: u64,
) -> c_int {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let result = real::pkey_mprotect(address, length, protection, key);
        record_protection(result, address, length, protection, sp, bp);
        result
    }
}

/// Recorded after the call and before the program continues: no other thread can have mapped there in between.
///
/// # Safety
/// `sp` and `bp` come from the entry.
unsafe fn record_protection(result: c_int, address: BlockPointer, length: usize, protection: c_int, sp: u64, bp: u64) {
    if result == 0 && agent::records_mappings() {
        // SAFETY: the caller's.
        let from = unsafe { caller(sp, bp) };
        if !is_allocator(from.pc) {
            agent::protected(address as u64, length as u64, accessible(protection), from);
        }
    }
}

pub unsafe extern "C" fn munmap(address: BlockPointer, length: usize, sp: u64, bp: u64) -> c_int {
    if !agent::records_mappings() {
        // SAFETY: the program's.
        return unsafe { real::munmap(address, length) };
    }
    let mut result = -1;
    // SAFETY: `sp` and `bp` come from the entry.
    let from = unsafe { caller(sp, bp) };
    agent::unmapping(address as u64, length as u64, from, || {
        // SAFETY: the program's.
        result = unsafe { real::munmap(address, length) };
        result == 0
    });
    result
}

pub unsafe extern "C" fn mremap(
    old: BlockPointer,
    old_length: usize,
    length: usize,
    flags: c_int,
    new: BlockPointer,
    _unused: usize,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    // SAFETY: the program's.
    unsafe {
        let from = caller(sp, bp);
        if !agent::records_mappings() || is_allocator(from.pc) {
            return real::mremap(old, old_length, length, flags, new);
        }
        let is_left = flags & MREMAP_DONTUNMAP != 0;
        let moved_length = if is_left { 0 } else { old_length as u64 };
        let begun = moved_length > 0 && agent::remapping(old as u64, moved_length);
        let mapping = real::mremap(old, old_length, length, flags, new);
        if mapping as usize != FAILED {
            agent::remapped(old as u64, moved_length, mapping as u64, length as u64, from);
            if is_left {
                // Its pages are in the new mapping.
                record_advice(old as u64, old_length as u64, true);
            }
        } else if begun {
            agent::remapped(old as u64, old_length as u64, 0, 0, from);
        }
        mapping
    }
}

/// What advice means for the memory of a mapping that stays: whether it is given back, or asked for again.
fn is_returned(advice: c_int) -> Option<bool> {
    const DONTNEED: c_int = 4;
    const FREE: c_int = 8;
    const REMOVE: c_int = 9;
    const POPULATE_READ: c_int = 22;
    const POPULATE_WRITE: c_int = 23;
    const DONTNEED_LOCKED: c_int = 24;
    match advice {
        DONTNEED | FREE | REMOVE | DONTNEED_LOCKED => Some(true),
        POPULATE_READ | POPULATE_WRITE => Some(false),
        _ => None,
    }
}

/// The bytes stay live, since the program may touch them again without any call. No stack is needed, so this is cheap: allocators and runtimes call it often.
pub unsafe extern "C" fn madvise(address: BlockPointer, length: usize, advice: c_int, sp: u64, bp: u64) -> c_int {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let result = real::madvise(address, length, advice);
        if result == 0
            && let Some(is_returned) = is_returned(advice)
            && agent::records_mappings()
            && !is_allocator(caller(sp, bp).pc)
        {
            record_advice(address as u64, length as u64, is_returned);
        }
        result
    }
}

/// A preloaded library comes from the recorder itself, which knows these records. One that the program is linked with waits for the recorder to say so.
fn record_advice(address: u64, length: u64, is_returned: bool) {
    if !cfg!(feature = "linked") || agent::reads_returns() {
        agent::returned(address, length, is_returned);
    }
}

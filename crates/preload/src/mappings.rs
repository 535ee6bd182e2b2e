//! Mappings: `mmap`, `munmap`, `mremap`. What the C library maps for itself (its heap, threads' stacks, libraries) does not come
//! this way; what another allocator maps for its heap does, and is left out: its blocks are recorded already.

use crate::entry::caller;
use crate::real;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use highwater_agent as agent;
use highwater_agent::unwind::objects;

type Pointer = *mut u8;

const FAILED: usize = usize::MAX;

/// Where the allocator's code lies, if that is not the C library; 0 until it was looked for.
static ALLOCATOR_START: AtomicU64 = AtomicU64::new(0);
static ALLOCATOR_END: AtomicU64 = AtomicU64::new(0);
const C_LIBRARY: &[u8] = b"libc.so";

/// Whether the call comes from the allocator itself.
fn is_allocator(pc: u64) -> bool {
    if ALLOCATOR_START.load(Ordering::Relaxed) == 0 {
        let object = objects::find(real::address_of_malloc());
        let foreign = object.filter(|object| !object.path().windows(C_LIBRARY.len()).any(|part| part == C_LIBRARY));
        let (start, end) = foreign.map_or((1, 1), |object| (object.tables.start, object.tables.end));
        ALLOCATOR_END.store(end, Ordering::Relaxed);
        ALLOCATOR_START.store(start, Ordering::Relaxed);
    }
    (ALLOCATOR_START.load(Ordering::Relaxed)..ALLOCATOR_END.load(Ordering::Relaxed)).contains(&pc)
}

pub unsafe extern "C" fn mmap(
    address: Pointer,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    sp: u64,
    bp: u64,
) -> Pointer {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let mapping = real::mmap(address, length, protection, flags, file, offset);
        if mapping as usize != FAILED && agent::records_mappings() {
            let from = caller(sp, bp);
            if !is_allocator(from.pc) {
                agent::mapped(mapping as u64, length as u64, from);
            }
        }
        mapping
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: Pointer, length: usize) -> c_int {
    if !agent::records_mappings() {
        // SAFETY: the program's.
        return unsafe { real::munmap(address, length) };
    }
    let mut result = -1;
    agent::unmapping(address as u64, length as u64, || {
        // SAFETY: the program's.
        result = unsafe { real::munmap(address, length) };
        result == 0
    });
    result
}

pub unsafe extern "C" fn mremap(
    old: Pointer,
    old_length: usize,
    length: usize,
    flags: c_int,
    new: Pointer,
    _unused: usize,
    sp: u64,
    bp: u64,
) -> Pointer {
    // SAFETY: the program's.
    unsafe {
        let from = caller(sp, bp);
        if !agent::records_mappings() || is_allocator(from.pc) {
            return real::mremap(old, old_length, length, flags, new);
        }
        let begun = agent::remapping(old as u64, old_length as u64);
        let mapping = real::mremap(old, old_length, length, flags, new);
        if mapping as usize != FAILED {
            agent::remapped(old as u64, old_length as u64, mapping as u64, length as u64, from);
        } else if begun {
            agent::remapped(old as u64, old_length as u64, 0, 0, from);
        }
        mapping
    }
}

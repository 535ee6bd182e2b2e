//! Mappings: `mmap`, `munmap`, `mremap`, `mprotect`. Mappings that the C library makes for itself (its heap, threads' stacks, libraries) do not call
//! these hooks. Mappings that another allocator makes for its heap do, and are left out: its blocks are recorded already.

use crate::entry::caller;
use crate::real::{self, BlockPointer};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use highwater_agent as agent;
use highwater_agent::mapping;
use highwater_agent::unwind::objects;

const FAILED: usize = usize::MAX;
const PROT_NONE: c_int = 0;
const MAP_ANONYMOUS: c_int = 0x20;

/// Whether the program can touch anonymous memory of this protection.
fn accessible(protection: c_int) -> u32 {
    if protection == PROT_NONE { mapping::RESERVATION } else { mapping::MEMORY }
}

/// The address range of the allocator's code, if that is not the C library; 0 until it was looked for.
static ALLOCATOR_START: AtomicU64 = AtomicU64::new(0);
static ALLOCATOR_END: AtomicU64 = AtomicU64::new(0);
const C_LIBRARY: &[u8] = b"libc.so";

/// Whether the call comes from the allocator itself.
fn is_allocator(pc: u64) -> bool {
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
                let what = if flags & MAP_ANONYMOUS == 0 { mapping::FILE } else { accessible(protection) };
                agent::mapped(mapped as u64, length as u64, what, from);
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

#[cfg_attr(not(feature = "static"), unsafe(no_mangle))]
#[cfg_attr(feature = "static", unsafe(export_name = "__wrap_munmap"))]
pub unsafe extern "C" fn munmap(address: BlockPointer, length: usize) -> c_int {
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

//! The program break: `brk` and `sbrk`. The C library's allocator moves it by functions of its own, which are not hooked. A program that moves it maps or
//! unmaps the pages between the old and the new break.

use crate::entry::caller;
use crate::kernel::program_break;
use crate::mappings::is_allocator;
use crate::real::{self, BlockPointer};
use core::ffi::c_int;
use highwater_agent as agent;
use highwater_agent::{Caller, mapping};

const PAGE: usize = 4096;
const FAILED: usize = usize::MAX;

pub unsafe extern "C" fn brk(end: BlockPointer, sp: u64, bp: u64) -> c_int {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        let from = caller(sp, bp);
        let mut result = -1;
        move_to(end as usize, from, || {
            result = real::brk(end);
            result == 0
        });
        result
    }
}

pub unsafe extern "C" fn sbrk(increment: isize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        if increment == 0 {
            return real::sbrk(0);
        }
        let from = caller(sp, bp);
        let mut before = FAILED as BlockPointer;
        move_to(program_break().wrapping_add_signed(increment), from, || {
            before = real::sbrk(increment);
            before as usize != FAILED
        });
        before
    }
}

/// Moves the break by `set`, which returns whether it succeeded. Both directions are recorded after the call: the kernel ignores a break below the heap, and
/// gives the pages that became free to no other mapping by itself.
fn move_to(end: usize, from: Caller, set: impl FnOnce() -> bool) {
    if !agent::records_mappings() || is_allocator(from.pc) {
        set();
        return;
    }
    let old = whole_pages(program_break());
    if !set() || program_break() != end {
        return;
    }
    let new = whole_pages(end);
    if new > old {
        agent::mapped(old, new - old, mapping::MEMORY, from);
    } else if new < old {
        agent::unmapping(new, old - new, from, || true);
    }
}

/// The end of the page in which a break lies.
fn whole_pages(end: usize) -> u64 {
    (end.saturating_add(PAGE - 1) & !(PAGE - 1)) as u64
}

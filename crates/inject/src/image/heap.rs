//! The hooks of the malloc family.
//!
//! As in the preload library, an allocation is recorded after the real one and a free before the real one, so that no other thread can be given the address in
//! between. Three things differ. There may be several allocators, so each call names its own. A sample is the block that the program would have got:
//! another one, at the start of a page, could not be freed by a `delete` that is given a size. And a thread that is inside already only passes calls on.

use crate::implementation::{Allocator, BlockPointer, call};
use core::ffi::{c_int, c_void};
use highwater_agent::injected::{self, Frame, enter};
use highwater_agent::{self as agent, AgentMode, Caller, sampling};
use highwater_shm::attach_v1::FunctionIndex;

/// The caller of a hook.
///
/// # Safety
/// `sp` is the stack pointer at the entry of a function: it points to the return address.
#[inline(always)]
unsafe fn caller(sp: u64, bp: u64) -> Caller {
    // SAFETY: the caller's.
    Caller { pc: unsafe { *(sp as *const u64) }, sp: sp + 8, bp }
}

/// Enters a hook; begins the session if that was not yet done. Without a mode, the call is passed on: the frame must live until the real function has returned.
#[inline(always)]
fn recording() -> (Frame, Option<AgentMode>) {
    let frame = enter();
    if !frame.may_record() {
        return (frame, None);
    }
    let mode = match agent::mode() {
        AgentMode::New => injected::begin(),
        mode => mode,
    };
    (frame, Some(mode).filter(|mode| matches!(mode, AgentMode::Exact | AgentMode::Sampled)))
}

/// Whether an allocation is a sample.
#[inline(always)]
fn is_sample(size: usize) -> bool {
    agent::count_down(size) && agent::is_sample(size)
}

/// Whether an allocation is to be recorded.
#[inline(always)]
fn is_wanted(mode: AgentMode, size: usize) -> bool {
    mode == AgentMode::Exact || is_sample(size)
}

/// Records a block that was just allocated, unless the allocation failed.
#[inline(always)]
fn record(allocator: Allocator, mode: AgentMode, block: BlockPointer, size: usize, from: Caller) {
    if !block.is_null() {
        if mode == AgentMode::Sampled {
            sampling::insert(block as u64);
        }
        agent::allocated(block, size, allocator.usable_size(block, size), from);
    }
}

/// A block is about to be freed. Returns whether it was a sample.
#[inline(always)]
fn forget(allocator: Allocator, mode: AgentMode, block: BlockPointer, from: Caller) -> bool {
    if mode == AgentMode::Exact {
        if !agent::freeing_known_by(block, from) {
            injected::note_unknown_free(block, allocator.usable_size(block, 0));
        }
        return false;
    }
    if sampling::remove(block as u64) {
        agent::freeing_by(block, from);
        return true;
    }
    if agent::knows_older_blocks() {
        agent::freeing_older(block);
    }
    false
}

/// A hook that allocates `size` bytes by `real`.
#[inline(always)]
fn allocating(
    allocator: Allocator,
    size: usize,
    (sp, bp): (u64, u64),
    real: impl Fn() -> BlockPointer,
) -> BlockPointer {
    let (_frame, mode) = recording();
    let Some(mode) = mode else { return real() };
    let is_wanted = is_wanted(mode, size);
    let block = real();
    if is_wanted {
        // SAFETY: both registers are those of the entry.
        record(allocator, mode, block, size, unsafe { caller(sp, bp) });
    }
    block
}

/// A hook that frees a block by `real`.
#[inline(always)]
fn freeing(allocator: Allocator, block: BlockPointer, (sp, bp): (u64, u64), real: impl Fn()) {
    if block.is_null() {
        return real();
    }
    let (_frame, mode) = recording();
    let Some(mode) = mode else { return real() };
    // SAFETY: both registers are those of the entry.
    forget(allocator, mode, block, unsafe { caller(sp, bp) });
    real();
}

pub unsafe extern "C" fn malloc(size: usize, allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
    allocating(allocator, size, (sp, bp), || call!(allocator, Malloc, (size => usize) -> BlockPointer))
}

pub unsafe extern "C" fn valloc(size: usize, allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
    allocating(allocator, size, (sp, bp), || call!(allocator, Valloc, (size => usize) -> BlockPointer))
}

pub unsafe extern "C" fn pvalloc(size: usize, allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
    allocating(allocator, size, (sp, bp), || call!(allocator, Pvalloc, (size => usize) -> BlockPointer))
}

pub unsafe extern "C" fn calloc(count: usize, size: usize, allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
    // A product that overflows cannot be allocated, and so is not recorded.
    allocating(
        allocator,
        count.saturating_mul(size),
        (sp, bp),
        || call!(allocator, Calloc, (count => usize, size => usize) -> BlockPointer),
    )
}

pub unsafe extern "C" fn memalign(
    alignment: usize,
    size: usize,
    allocator: Allocator,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    allocating(
        allocator,
        size,
        (sp, bp),
        || call!(allocator, Memalign, (alignment => usize, size => usize) -> BlockPointer),
    )
}

pub unsafe extern "C" fn aligned_alloc(
    alignment: usize,
    size: usize,
    allocator: Allocator,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    allocating(
        allocator,
        size,
        (sp, bp),
        || call!(allocator, AlignedAlloc, (alignment => usize, size => usize) -> BlockPointer),
    )
}

pub unsafe extern "C" fn posix_memalign(
    out: *mut BlockPointer,
    alignment: usize,
    size: usize,
    allocator: Allocator,
    sp: u64,
    bp: u64,
) -> c_int {
    let (_frame, mode) = recording();
    let Some(mode) = mode else { return allocator.posix_memalign(out, alignment, size) };
    let is_wanted = is_wanted(mode, size);
    let result = allocator.posix_memalign(out, alignment, size);
    if result == 0 && is_wanted {
        // SAFETY: it succeeded, so the block's address is there; both registers are those of the entry.
        let (block, from) = unsafe { (*out, caller(sp, bp)) };
        record(allocator, mode, block, size, from);
    }
    result
}

pub unsafe extern "C" fn realloc(
    block: BlockPointer,
    size: usize,
    allocator: Allocator,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    let real = || call!(allocator, Realloc, (block => BlockPointer, size => usize) -> BlockPointer);
    if block.is_null() {
        return allocating(allocator, size, (sp, bp), real);
    }
    let (_frame, mode) = recording();
    let Some(mode) = mode else { return real() };
    // SAFETY: both registers are those of the entry.
    let from = unsafe { caller(sp, bp) };
    if mode == AgentMode::Exact {
        realloc_exact(allocator, block, size, from, real)
    } else {
        realloc_sampled(allocator, block, size, from, real)
    }
}

#[inline(always)]
fn realloc_exact(
    allocator: Allocator,
    block: BlockPointer,
    size: usize,
    from: Caller,
    real: impl Fn() -> BlockPointer,
) -> BlockPointer {
    if size == 0 {
        // glibc frees the block; another allocator may return an empty one.
        forget(allocator, AgentMode::Exact, block, from);
        let new = real();
        record(allocator, AgentMode::Exact, new, 0, from);
        return new;
    }
    // Asked before: afterwards the block may be another thread's.
    let held = if injected::has_table() { allocator.usable_size(block, 0) } else { 0 };
    let begun = agent::reallocating(block);
    let new = real();
    if !new.is_null() {
        if !agent::reallocated(block, new, size, allocator.usable_size(new, size), begun, from) {
            injected::note_unknown_free(block, held);
        }
    } else if begun {
        agent::reallocated(block, new, size, 0, begun, from);
    }
    new
}

/// A free and an allocation: the new size has a chance of its own.
#[inline(always)]
fn realloc_sampled(
    allocator: Allocator,
    block: BlockPointer,
    size: usize,
    from: Caller,
    real: impl Fn() -> BlockPointer,
) -> BlockPointer {
    let sample = size != 0 && is_sample(size);
    let was_sample = forget(allocator, AgentMode::Sampled, block, from);
    let new = real();
    if new.is_null() && was_sample && size != 0 {
        // It failed: the block is still there.
        let held = allocator.usable_size(block, 0);
        record(allocator, AgentMode::Sampled, block, held, from);
    } else if sample {
        record(allocator, AgentMode::Sampled, new, size, from);
    }
    new
}

/// Declares hooks of `free` and the forms of `operator delete`: further arguments are passed on.
macro_rules! freeing_hooks {
    ($($name:ident: $function:ident($($argument:ident),*);)*) => {$(
        pub unsafe extern "C" fn $name(block: BlockPointer, $($argument: usize,)* allocator: Allocator, sp: u64, bp: u64) {
            freeing(allocator, block, (sp, bp), || {
                call!(allocator, $function, (block => BlockPointer $(, $argument => usize)*) -> ());
            });
        }
    )*};
}

freeing_hooks! {
    free: Free();
    free_sized: FreeSized(size);
    free_aligned_sized: FreeAlignedSized(alignment, size);
    delete: Delete();
    delete_array: DeleteArray();
    delete_nothrow: DeleteNothrow(tag);
    delete_array_nothrow: DeleteArrayNothrow(tag);
    delete_sized: DeleteSized(size);
    delete_array_sized: DeleteArraySized(size);
    delete_aligned: DeleteAligned(alignment);
    delete_array_aligned: DeleteArrayAligned(alignment);
    delete_aligned_nothrow: DeleteAlignedNothrow(alignment, tag);
    delete_array_aligned_nothrow: DeleteArrayAlignedNothrow(alignment, tag);
    delete_sized_aligned: DeleteSizedAligned(size, alignment);
    delete_array_sized_aligned: DeleteArraySizedAligned(size, alignment);
    dallocx: Dallocx(flags);
    sdallocx: Sdallocx(size, flags);
}

// jemalloc's own interface.

pub unsafe extern "C" fn mallocx(size: usize, flags: c_int, allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
    allocating(allocator, size, (sp, bp), || call!(allocator, Mallocx, (size => usize, flags => c_int) -> BlockPointer))
}

/// As `realloc`, but its block is never null, and neither is its size.
pub unsafe extern "C" fn rallocx(
    block: BlockPointer,
    size: usize,
    flags: c_int,
    allocator: Allocator,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    let real = || call!(allocator, Rallocx, (block => BlockPointer, size => usize, flags => c_int) -> BlockPointer);
    let (_frame, mode) = recording();
    let Some(mode) = mode else { return real() };
    // SAFETY: both registers are those of the entry.
    let from = unsafe { caller(sp, bp) };
    if mode == AgentMode::Exact {
        realloc_exact(allocator, block, size, from, real)
    } else {
        realloc_sampled(allocator, block, size, from, real)
    }
}

/// Declares hooks of the forms of `operator new` that do not throw.
macro_rules! new_nothrow_hooks {
    ($($name:ident: $function:ident($($argument:ident),*);)*) => {$(
        pub unsafe extern "C" fn $name(size: usize, $($argument: usize,)* allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
            allocating(allocator, size, (sp, bp), || {
                call!(allocator, $function, (size => usize $(, $argument => usize)*) -> BlockPointer)
            })
        }
    )*};
}

new_nothrow_hooks! {
    new_nothrow: NewNothrow(tag);
    new_array_nothrow: NewArrayNothrow(tag);
    new_aligned_nothrow: NewAlignedNothrow(alignment, tag);
    new_array_aligned_nothrow: NewArrayAlignedNothrow(alignment, tag);
}

/// Declares hooks of the forms of `operator new` that throw. Null means that the entry must jump to the real function: nothing was allocated.
///
/// An exception could not pass the frames of this image, which no loader knows.
macro_rules! new_hooks {
    ($($name:ident: $function:ident by $real:ident($($argument:ident),*);)*) => {$(
        pub unsafe extern "C" fn $name(size: usize, $($argument: usize,)* allocator: Allocator, sp: u64, bp: u64) -> BlockPointer {
            if allocator.address(FunctionIndex::$function) == 0 {
                return core::ptr::null_mut();
            }
            let (_frame, mode) = recording();
            let Some(mode) = mode else { return core::ptr::null_mut() };
            let is_wanted = is_wanted(mode, size);
            let block = allocator.$real(FunctionIndex::$function, size $(, $argument)*);
            if is_wanted {
                // SAFETY: both registers are those of the entry.
                record(allocator, mode, block, size, unsafe { caller(sp, bp) });
            }
            block
        }
    )*};
}

new_hooks! {
    new: NewNothrow by new_nothrow();
    new_array: NewArrayNothrow by new_nothrow();
    new_aligned: NewAlignedNothrow by new_aligned_nothrow(alignment);
    new_array_aligned: NewArrayAlignedNothrow by new_aligned_nothrow(alignment);
}

/// Not a hook of a block: a library may have been unloaded.
pub unsafe extern "C" fn dlclose(handle: *mut c_void, allocator: Allocator, _: u64, _: u64) -> c_int {
    // The library's destructors free blocks, which are recorded.
    let _frame = injected::pass();
    let result = call!(allocator, Dlclose, (handle => *mut c_void) -> c_int);
    if let (_frame, Some(_)) = recording() {
        injected::check_modules();
    }
    result
}

/// Modes of `prctl(PR_SET_SECCOMP)`. The operations of `seccomp` are one less.
const STRICT: usize = 1;
const FILTER: usize = 2;

/// The program asks for a seccomp mode: ends the agent first. A call without a filter only asks whether the kernel supports it.
pub unsafe extern "C" fn before_filter(mode: usize, filter: usize) {
    if mode == STRICT || mode == FILTER && filter != 0 {
        let _frame = injected::pass();
        injected::end_before_filter();
    }
}

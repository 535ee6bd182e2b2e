//! Blocks: the hooks of the malloc family.
//!
//! An allocation is recorded after the real one and a free before the real one, so that no other thread can be given the
//! address in between.

use crate::entry::caller;
use crate::real::{self, BlockPointer};
use crate::start;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use highwater_agent::sampling::{self, ALIGNMENT};
use highwater_agent::{self as agent, AgentMode, Caller, PASS_ALLOCATIONS, PASS_FREES};

/// From this size on the C library mostly gives a block a mapping of its own.
const LARGE: usize = 128 << 10;

/// The current mode; begins the session if that was not yet done.
#[inline(always)]
fn mode() -> AgentMode {
    match agent::mode() {
        AgentMode::Exact => AgentMode::Exact,
        mode => settle(mode),
    }
}

/// Begins the session if that was not yet done, and lets the entries skip calls that need not be recorded.
#[cold]
fn settle(mode: AgentMode) -> AgentMode {
    let mode = match mode {
        AgentMode::New => start::begin_or_not(),
        AgentMode::Off => agent::follow_reader(),
        mode => mode,
    };
    // The answer is also `Off` while another thread is just beginning: only the current mode counts.
    let settled = agent::mode();
    let pass = matches!(settled, AgentMode::Off | AgentMode::Sampled) && real::may_be_jumped_to();
    PASS_ALLOCATIONS.store(u8::from(pass), Ordering::Relaxed);
    PASS_FREES.store(u8::from(pass && !agent::knows_older_blocks()), Ordering::Relaxed);
    if agent::mode() != settled {
        // The mode was just changed: the next call that comes here will set the flags.
        PASS_ALLOCATIONS.store(0, Ordering::Relaxed);
        PASS_FREES.store(0, Ordering::Relaxed);
    }
    if settled == AgentMode::Off && pass {
        agent::rest();
    }
    mode
}

/// Whether a block could be a sampled one, by its address: at the start of a page, or just after the header of a mapping.
#[inline(always)]
fn may_be_sampled(block: BlockPointer) -> bool {
    block as usize & (ALIGNMENT - 1) & !16 == 0
}

/// Records a block that was just allocated. SAFETY: `block` is a live block or null.
#[inline(always)]
unsafe fn record(block: BlockPointer, size: usize, from: Caller) {
    if !block.is_null() {
        // SAFETY: a live block.
        agent::allocated(block, size, unsafe { real::usable_size(block) }, from);
    }
}

/// Records a sampled block.
unsafe fn record_sample(block: BlockPointer, size: usize, from: Caller) {
    if !block.is_null() {
        sampling::insert(block as u64);
        // SAFETY: a live block.
        unsafe { record(block, size, from) };
    }
}

/// Whether an allocation is a sample. The entry has counted it down if that brought the countdown to its end; otherwise it is counted here.
#[inline(always)]
fn is_sample(size: usize) -> bool {
    (agent::has_counted_down() || agent::count_down(size)) && agent::is_sample(size)
}

/// A block that [`may_be_sampled`], of this size at least.
unsafe fn recognisable(size: usize) -> BlockPointer {
    // SAFETY: plain allocations.
    unsafe {
        if size >= LARGE {
            let block = real::malloc(size);
            if may_be_sampled(block) {
                return block;
            }
            real::free(block);
        }
        real::memalign(ALIGNMENT, size)
    }
}

pub unsafe extern "C" fn malloc(size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: what the program asks for; `sp` and `bp` come from the entry.
    unsafe {
        match mode() {
            AgentMode::Exact => {
                let block = real::malloc(size);
                record(block, size, caller(sp, bp));
                block
            }
            AgentMode::Sampled if is_sample(size) => {
                let block = recognisable(size);
                record_sample(block, size, caller(sp, bp));
                block
            }
            _ => real::malloc(size),
        }
    }
}

pub unsafe extern "C" fn calloc(count: usize, size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: as above.
    unsafe {
        let mode = mode();
        let Some(bytes) = count.checked_mul(size) else { return real::calloc(count, size) };
        match mode {
            AgentMode::Exact => {
                let block = real::calloc(count, size);
                record(block, bytes, caller(sp, bp));
                block
            }
            AgentMode::Sampled if is_sample(bytes) => {
                let mut block = real::calloc(count, size);
                if !may_be_sampled(block) {
                    real::free(block);
                    block = real::memalign(ALIGNMENT, bytes);
                    if !block.is_null() {
                        block.write_bytes(0, bytes);
                    }
                }
                record_sample(block, bytes, caller(sp, bp));
                block
            }
            _ => real::calloc(count, size),
        }
    }
}

pub unsafe extern "C" fn free(block: BlockPointer, sp: u64, bp: u64) {
    if block.is_null() || real::is_early(block) {
        return;
    }
    // SAFETY: `sp` and `bp` come from the entry.
    let from = unsafe { caller(sp, bp) };
    match mode() {
        AgentMode::Exact => agent::freeing_by(block, from),
        AgentMode::Sampled => {
            forget_sample(block, from);
        }
        _ => {}
    }
    // SAFETY: the program's.
    unsafe { real::free(block) }
}

/// When only samples are recorded: forgets a block that is a sample, or was recorded before sampling began. Returns whether it was.
#[inline(always)]
fn forget_sample(block: BlockPointer, from: Caller) -> bool {
    if may_be_sampled(block) && sampling::remove(block as u64) {
        agent::freeing_by(block, from);
        return true;
    }
    if agent::knows_older_blocks() {
        agent::freeing_older(block);
    }
    false
}

/// C23: a free with the size.
pub unsafe extern "C" fn free_sized(block: BlockPointer, _size: usize, sp: u64, bp: u64) {
    // SAFETY: the program's.
    unsafe { free(block, sp, bp) }
}

/// C23: a free with the alignment and the size.
pub unsafe extern "C" fn free_aligned_sized(block: BlockPointer, _alignment: usize, _size: usize, sp: u64, bp: u64) {
    // SAFETY: the program's.
    unsafe { free(block, sp, bp) }
}

pub unsafe extern "C" fn realloc(block: BlockPointer, size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's; `sp` and `bp` come from the entry.
    unsafe {
        if block.is_null() {
            return malloc(size, sp, bp);
        }
        if real::is_early(block) {
            let new = malloc(size, sp, bp);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(block, new, size.min(real::early_rest(block)));
            }
            return new;
        }
        match mode() {
            AgentMode::Exact => realloc_exact(block, size, caller(sp, bp)),
            AgentMode::Sampled => realloc_sampled(block, size, caller(sp, bp)),
            _ => real::realloc(block, size),
        }
    }
}

#[inline(always)]
unsafe fn realloc_exact(block: BlockPointer, size: usize, from: Caller) -> BlockPointer {
    // SAFETY: the program's.
    unsafe {
        if size == 0 {
            // The common C library frees the block; another one may return an empty block.
            agent::freeing_by(block, from);
            let new = real::realloc(block, 0);
            record(new, 0, from);
            return new;
        }
        let begun = agent::reallocating(block);
        let new = real::realloc(block, size);
        if !new.is_null() {
            agent::reallocated(block, new, size, real::usable_size(new), begun, from);
        } else if begun {
            agent::reallocated(block, new, size, 0, begun, from);
        }
        new
    }
}

/// In sampled mode a reallocation is a free and an allocation: the new size has a chance of its own.
#[inline(always)]
unsafe fn realloc_sampled(block: BlockPointer, size: usize, from: Caller) -> BlockPointer {
    // SAFETY: the program's.
    unsafe {
        let sample = size != 0 && is_sample(size);
        let was_sample = forget_sample(block, from);
        if !sample && !was_sample {
            return real::realloc(block, size);
        }
        realloc_one_sampled(block, size, was_sample, sample, from)
    }
}

#[cold]
unsafe fn realloc_one_sampled(
    block: BlockPointer,
    size: usize,
    was_sample: bool,
    sample: bool,
    from: Caller,
) -> BlockPointer {
    // SAFETY: the program's.
    unsafe {
        let held = real::usable_size(block);
        let mut new = real::realloc(block, size);
        if new.is_null() {
            if was_sample && size != 0 {
                // It failed: the block is still there.
                record_sample(block, held, from);
            }
            return new;
        }
        if sample {
            if !may_be_sampled(new) {
                let recognisable = real::memalign(ALIGNMENT, size);
                if recognisable.is_null() {
                    return new;
                }
                core::ptr::copy_nonoverlapping(new, recognisable, size);
                real::free(new);
                new = recognisable;
            }
            record_sample(new, size, from);
        }
        new
    }
}

pub unsafe extern "C" fn reallocarray(
    block: BlockPointer,
    count: usize,
    size: usize,
    sp: u64,
    bp: u64,
) -> BlockPointer {
    // SAFETY: the program's; a product that is too large fails as a size that is too large does, with the same error.
    unsafe { realloc(block, count.saturating_mul(size), sp, bp) }
}

/// An aligned allocation: the result of `allocate`, recorded. A block with the alignment of a page is recognisable anyway.
#[inline(always)]
unsafe fn aligned(
    alignment: usize,
    size: usize,
    from: Caller,
    allocate: impl Fn(usize) -> BlockPointer,
) -> BlockPointer {
    // SAFETY: the block is live or null.
    unsafe {
        match mode() {
            AgentMode::Exact => {
                let block = allocate(alignment);
                record(block, size, from);
                block
            }
            AgentMode::Sampled if is_sample(size) => {
                let block = allocate(alignment.max(ALIGNMENT));
                record_sample(block, size, from);
                block
            }
            _ => allocate(alignment),
        }
    }
}

pub unsafe extern "C" fn memalign(alignment: usize, size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's.
    unsafe { aligned(alignment, size, caller(sp, bp), |alignment| real::memalign(alignment, size)) }
}

pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's.
    unsafe { aligned(alignment, size, caller(sp, bp), |alignment| real::aligned_alloc(alignment, size)) }
}

pub unsafe extern "C" fn posix_memalign(
    out: *mut BlockPointer,
    alignment: usize,
    size: usize,
    sp: u64,
    bp: u64,
) -> c_int {
    // SAFETY: the program's.
    unsafe {
        let mode = mode();
        let sample = mode == AgentMode::Sampled && is_sample(size);
        let sound = alignment.is_power_of_two() && alignment >= size_of::<usize>();
        let wanted = if sample && sound { alignment.max(ALIGNMENT) } else { alignment };
        let result = real::posix_memalign(out, wanted, size);
        if result == 0 {
            match mode {
                AgentMode::Exact => record(*out, size, caller(sp, bp)),
                _ if sample => record_sample(*out, size, caller(sp, bp)),
                _ => {}
            }
        }
        result
    }
}

pub unsafe extern "C" fn valloc(size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's.
    unsafe { aligned(ALIGNMENT, size, caller(sp, bp), |_| real::valloc(size)) }
}

pub unsafe extern "C" fn pvalloc(size: usize, sp: u64, bp: u64) -> BlockPointer {
    // SAFETY: the program's.
    unsafe { aligned(ALIGNMENT, size, caller(sp, bp), |_| real::pvalloc(size)) }
}
